//! What exists: the ordered key-value seam, its engines, and the tree of names.

pub mod index;
pub mod kv;
