//! Configuration, listeners, wiring, admin socket: one dewar process.

pub mod admin;
pub mod config;
pub mod listener;
pub mod lock;
pub mod log;
pub mod master_key;
pub mod metrics;
pub mod ready;
pub mod tls;
