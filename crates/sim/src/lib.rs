//! The whole core on one thread from a seed: `cargo xtask sim`.
//!
//! A seed is a machine with disks, a pool with small bounds, clients that do all verbs side by
//! side, disks that fail in every way that [`dewar_env::disk::sim`] knows, and processes that end
//! by power failure, by being killed, or in order. What runs is what serves: the engine of
//! [`dewar_store::engine`], opened on simulated disks, clock and chance.
//!
//! [`model`] knows what may be read; the checks hold it against every answer while clients run, and
//! against everything there is whenever nothing is under way (`check.rs`). Everything that happens
//! follows from the seed, so a failing seed is a reproduction; [`trace`] proves it.
//!
//! How disks may fail is drawn per run ([`plan::Weather`]), together with what must then hold.

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
