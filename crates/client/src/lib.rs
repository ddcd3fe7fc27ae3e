//! The client side of Dewar: what talks *to* a storage endpoint rather than being one.
//!
//! That is the load driver `dewar bench` ([`mod@bench`]) and what people need to log in ([`login`]). Beneath the driver's S3 part lie a
//! thin blocking HTTP/1.1 client ([`http`]), request signing ([`sigv4`]) and the S3 verbs a load needs ([`s3`]).
//! They are written for one purpose: to cost so little CPU that a figure taken with them is a
//! figure of the server. So there is no async runtime in it (one blocking thread drives one
//! connection), no header map, and received bytes need not even reach user space.
//!
//! Its part for root:// drives Dewar's own XRootD client, many sessions side by side.
//!
//! This crate sees none of the server's crates: it must be able to judge any endpoint, and to be
//! built without the server.

pub mod bench;
pub mod clock;
pub mod http;
pub mod login;
pub mod s3;
pub mod sigv4;
