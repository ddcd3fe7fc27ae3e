//! The S3 door: wire to store verbs, nothing else.
