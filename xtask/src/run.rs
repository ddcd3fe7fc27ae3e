//! Runs other programs, saying which.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::workspace::{Workspace, cargo_path};

/// Arguments of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Seconds for each target
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Targets [default: all]
    pub(crate) targets: Vec<String>,
}

/// cargo with arguments, in the workspace.
pub(crate) fn cargo<S: AsRef<OsStr>>(
    workspace: &Workspace,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(cargo_path());
    command.args(args).current_dir(&workspace.root);
    command
}

/// Runs a command; its failure is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let told = told(command);
    eprintln!("+ {told}");
    let status = command.status().with_context(|| format!("run {told}"))?;
    if !status.success() {
        bail!("{told}: {status}");
    }
    Ok(())
}

/// Runs a command and returns what it prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let told = told(command);
    let output = command.output().with_context(|| format!("run {told}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{told}: {}\n{complaint}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{told}: not UTF-8"))
}

/// The end-to-end tests.
pub(crate) fn e2e(workspace: &Workspace, args: Vec<OsString>) -> Result<()> {
    let mut command = Command::new(workspace.root.join("tests/e2e/run"));
    run(command
        .args(args)
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", &workspace.target))
}

/// The fuzz targets, which are a workspace of their own.
pub(crate) fn fuzz(workspace: &Workspace, args: &FuzzArgs) -> Result<()> {
    let mut command = cargo(
        workspace,
        ["run", "--release", "--manifest-path", "fuzz/Cargo.toml"],
    );
    command.env("CARGO_TARGET_DIR", &workspace.target);
    command
        .arg("--")
        .args(["--seconds", &args.seconds.to_string()])
        .args(&args.targets);
    run(&mut command)
}

fn told(command: &Command) -> String {
    let program = command.get_program();
    let program = std::path::Path::new(program).file_name().unwrap_or(program);
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
