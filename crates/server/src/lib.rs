//! One dewar process: configuration, listeners, wiring, admin socket.
//!
//! [`process`] and [`serve`] contain the sequence from start to stop. [`engine`] is the seam to the
//! store. The other modules are independent of each other.

pub mod admin_socket;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod credentials;
pub mod demo;
pub mod engine;
pub mod issuers;
mod keytab;
pub mod listener;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod process;
pub mod ready;
pub mod serve;
mod socket_owner;
pub mod srr;
pub mod store_engine;
pub mod tls;
mod trust_store;
