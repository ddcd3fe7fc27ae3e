//! `dewar bench`: load an endpoint, and tell what it does and what it costs.
//!
//! The figures are meant to be compared: the same load, from the same client, on several targets
//! in the same minutes. Absolute throughput says little on a shared machine, CPU per unit of work
//! says much; so the server's CPU is taken from /proc around every step, and the client is built
//! to use as little as it can ([`crate::http`]).
//!
//! Reading order: [`args`] is what can be asked, [`plan`] makes steps of it, [`campaign`] takes
//! them in turn, [`job`] runs one with its [`worker`]s, perhaps with a [`profiler`] beside it, [`result`] is what came of it, and
//! [`report`] tells it as table, CSV, JSON and plots. [`root`] is the same in small for root://. docs/bench.md is
//! for the user.

mod args;
mod campaign;
mod content;
mod job;
mod objects;
mod plan;
mod process;
mod profiler;
mod progress;
mod report;
mod result;
mod root;
mod size;
mod tally;
mod target;
mod worker;

pub use args::{BenchCommand, S3Args};
pub use plan::Suite;
pub use root::RootArgs;
pub use size::{BadSize, ByteSize};
pub use target::WrongUse;

/// Runs `dewar bench`. Prints results to standard output and progress to standard error.
///
/// # Errors
/// If the arguments make no sense, a target cannot be used, a file cannot be written, or any
/// request failed; the results are told before that.
pub fn run(what: &BenchCommand) -> anyhow::Result<()> {
    match what {
        BenchCommand::S3(args) => campaign::run(args),
        BenchCommand::Root(args) => root::run(args),
    }
}
