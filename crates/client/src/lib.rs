//! The client side of Dewar: programs that use a storage endpoint.
//!
//! It has the load driver `dewar bench` ([`mod@bench`]) and the login of people ([`login`]). The S3
//! part of the driver uses a thin blocking HTTP/1.1 client ([`http`]) and the S3 verbs of a load
//! ([`s3`]). They have one purpose: to use so little CPU that the
//! measured figures describe the server. So there is no async runtime (one blocking thread drives
//! one connection), no header map, and received bytes need not reach user space.
//!
//! The part for root:// uses Dewar's own XRootD client, with many sessions in parallel.
//!
//! This crate depends on none of the server's crates. It must be able to test any endpoint, and to
//! be built without the server.

pub mod bench;
pub mod clock;
pub mod http;
pub mod login;
pub mod s3;
