//! Build, test, lint, bench and docs, each one word: `cargo xtask WORD`.
//!
//! Each word is defined here and nowhere else. The justfile and CI call it. Every word respects
//! CARGO_TARGET_DIR: cargo reads it by itself, and [`workspace::Workspace`] resolves it.

mod bench;
mod demo;
mod docs;
mod flame;
mod history;
mod layers;
mod passes;
mod phases;
mod release;
mod run;
mod s3_provider;
mod s3_tests;
mod srr_check;
mod test;
mod tidy;
mod wlcg_tests;
mod workspace;
mod xrootd_tests;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use run::cargo;
use workspace::Workspace;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Build, test, lint, bench and docs, each one word"
)]
struct Cli {
    #[command(subcommand)]
    word: Word,
}

#[derive(Subcommand)]
enum Word {
    /// Build the release binary, with its debug information in a file beside it
    Build {
        /// Arguments for cargo build
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run all tests: those of the crates, simulation, fuzzers, and the end-to-end tests
    Test(test::Test),
    /// Run the end-to-end tests: real clients against the real binary
    E2e {
        /// Arguments for pytest
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Check format, clippy and tidy
    Lint,
    /// Format the code
    Fmt,
    /// Check what the compiler cannot: edges between crates, sizes, names, English, links
    Tidy {
        /// Print instead how much code each crate has, without tests and comments
        #[arg(long)]
        size: bool,
    },
    /// Run every fuzz target for a while
    Fuzz {
        /// Arguments of the runner: targets, --seconds, --seed, --replay
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the whole core on simulated disks from seeds
    Sim {
        /// Arguments of the simulation: --seeds, --from, --seed, --sabotage, --reached
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Load a demo server made for the occasion
    Bench {
        /// Arguments for dewar bench s3; without any, the suite of docs/performance.md
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Draw a flame graph of the server under each step of the load driver
    Flame(flame::Flame),
    /// Measure this commit and add its figures to benches/history.csv
    History,
    /// Compare the storage report of a demo with a JSON schema
    SrrCheck(srr_check::SrrCheck),
    /// Run the public suite ceph/s3-tests from a checkout
    S3Tests(s3_tests::S3Tests),
    /// Run XRootD's own tests of its client from a checkout
    XrootdTests(xrootd_tests::XrootdTests),
    /// Run WLCG's compliance suite for tokens from a checkout
    WlcgTests(wlcg_tests::WlcgTests),
    /// Make the reference pages and the API documentation
    Docs {
        /// Only check that the reference pages are what would be made
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match Workspace::find().and_then(|workspace| run_word(cli.word, &workspace)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_word(word: Word, workspace: &Workspace) -> Result<()> {
    match word {
        Word::Build { args } => release::build(workspace, args),
        Word::Test(asked) => test::test(workspace, &asked),
        Word::E2e { args } => run::e2e(workspace, args),
        Word::Lint => {
            run::run(&mut cargo(workspace, ["fmt", "--all", "--check"]))?;
            run::run(&mut cargo(
                workspace,
                [
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--",
                    "-D",
                    "warnings",
                ],
            ))?;
            tidy::tidy(workspace)
        }
        Word::Fmt => run::run(&mut cargo(workspace, ["fmt", "--all"])),
        Word::Tidy { size: true } => tidy::size(workspace),
        Word::Tidy { size: false } => tidy::tidy(workspace),
        Word::Fuzz { args } => run::fuzz(workspace, args),
        Word::Sim { args } => run::sim(workspace, args),
        Word::Bench { args } => bench::bench(workspace, args),
        Word::Flame(asked) => flame::flame(workspace, &asked),
        Word::History => history::history(workspace),
        Word::SrrCheck(asked) => srr_check::srr_check(workspace, &asked),
        Word::S3Tests(asked) => s3_tests::s3_tests(workspace, &asked),
        Word::XrootdTests(asked) => xrootd_tests::xrootd_tests(workspace, &asked),
        Word::WlcgTests(asked) => wlcg_tests::wlcg_tests(workspace, &asked),
        Word::Docs { check } => docs::docs(workspace, check),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_well_formed() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    /// The tree is tidy: `cargo test` says so as well as `cargo xtask lint`.
    #[test]
    fn the_tree_is_tidy() {
        let workspace = Workspace::find().expect("the workspace");
        let found = tidy::violations(&workspace).expect("the tree can be read");
        let told: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "\n{}", told.join("\n"));
    }
}
