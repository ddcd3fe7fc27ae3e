//! `dewar bench`: load an endpoint, and report its throughput and its cost.
//!
//! The figures are made for comparison: the same load, from the same client, on several targets at
//! the same time. Absolute throughput says little on a shared machine. CPU per unit of work says
//! much, so the server's CPU is read from /proc around every step. The client uses as little CPU as
//! it can ([`crate::http`]).
//!
//! Reading order: [`args`] has the options, [`plan`] makes steps of them, and [`campaign`] runs the
//! steps in turn. [`job`] runs one step with its [`worker`]s, perhaps with a profiler [`profiler`]
//! it. [`result`] has the figures, and [`report`] writes them as table, CSV, JSON and plots.
//! [`root`] is a small version of the same for root://. The user's page is docs/bench.md.

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
/// request failed. The results are printed before that.
pub fn run(what: &BenchCommand) -> anyhow::Result<()> {
    match what {
        BenchCommand::S3(args) => campaign::run(args),
        BenchCommand::Root(args) => root::run(args),
    }
}
