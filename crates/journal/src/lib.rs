//! The replicated, group-committed log below catalog and blobs.
