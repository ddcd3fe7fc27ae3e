//! Configuration, listeners, wiring, admin socket: one dewar process.
//!
//! [`process`] and [`serve`] tell the story from start to stop; [`engine`] is the seam to what is
//! served. The other modules stand alone.

pub mod admin;
pub mod audit;
pub mod cli;
pub mod config;
pub mod credentials;
pub mod demo;
pub mod engine;
pub mod health;
pub mod issuers;
mod keytab;
pub mod listener;
pub mod lock;
pub mod log;
pub mod master_key;
pub mod metrics;
pub mod process;
pub mod ready;
pub mod serve;
mod socket_owner;
pub mod store_engine;
pub mod tls;
mod trust_store;
