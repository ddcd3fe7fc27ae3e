//! The whole core on one thread from a seed: `cargo xtask sim`.
//!
//! A seed is a machine with disks, a pool with small limits, and clients that run all verbs side by
//! side. The disks fail in every way that [`dewar_env::disk::sim`] knows. Processes end by power
//! failure, by being killed, or in order. The tested code is the code of the server: the engine of
//! [`dewar_engine`], opened on simulated disks, clock and random numbers.
//!
//! [`model`] knows which values may be read. The checks compare every answer with it while clients
//! run, and the whole content whenever no operation is under way (`check.rs`). Everything that
//! happens follows from the seed, so a failing seed is a reproduction; [`trace`] proves it.
//!
//! The kind of disk faults is drawn per run ([`plan::Weather`]), together with the guarantees that
//! must then hold.

mod actor;
mod bench;
mod check;
pub mod content;
mod damage;
mod disaster;
pub mod model;
mod panic;
pub mod plan;
mod run;
pub mod sabotage;
#[cfg(test)]
mod tests;
pub mod trace;

pub use run::{Options, Report, simulate};
