//! Configuration, listeners, wiring, admin socket: one dewar process.

pub mod config;
