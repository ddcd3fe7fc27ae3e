//! The catalog: the ordered key-value seam, its engines, and the tree of names.

pub mod index;
pub mod kv;
pub mod ns;
