//! Tests of the tree.
