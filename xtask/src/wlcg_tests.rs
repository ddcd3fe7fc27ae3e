//! `cargo xtask wlcg-tests`: the compliance suite of WLCG for tokens, from a checkout, against a demo
//! server made for the occasion.
//!
//! `tests/wlcg-suite/run.py` starts the server and an issuer of tokens. Tests that the suite calls
//! critical must pass, except those of its permissive audience checks, which contradict the strict ones.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run::{build_as_tested, python, run};
use crate::workspace::Workspace;

/// The folder of the suite's files, below the root of the workspace.
const FOLDER: &str = "tests/wlcg-suite";

/// The arguments of `cargo xtask wlcg-tests`.
#[derive(clap::Args)]
pub(crate) struct WlcgTests {
    /// A checkout of indigo-iam/wlcg-jwt-compliance-tests
    #[arg(long, value_name = "CHECKOUT")]
    suite: PathBuf,
    /// A binary that is built already, instead of the one of the tests
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Further arguments of Robot Framework, such as `--test NAME`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the suite.
pub(crate) fn wlcg_tests(workspace: &Workspace, asked: &WlcgTests) -> Result<()> {
    let suite = asked.suite.canonicalize();
    let suite = suite.with_context(|| format!("{} is no checkout", asked.suite.display()))?;
    let folder = workspace.root.join(FOLDER);
    let requirements = folder.join("requirements.txt");
    let python = python(workspace, ".venv-wlcg-suite", &requirements)?;
    let binary = match &asked.binary {
        Some(binary) => binary.canonicalize().context("the binary")?,
        None => {
            build_as_tested(workspace, "command_line")?;
            workspace.binary("debug")
        }
    };
    let reports = workspace.target.join("wlcg-suite");
    let mut command = Command::new(python);
    command.arg(folder.join("run.py")).arg(suite).arg(&reports);
    command.args(&asked.arguments);
    run(command.env("DEWAR_TEST_BIN", binary))
}
