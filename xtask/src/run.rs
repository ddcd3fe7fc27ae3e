//! Runs other programs, saying which.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::workspace::{Workspace, cargo_path};

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

/// Runs a command and returns its output.
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

/// The fuzz targets, in the profile of the tests: with overflow checks and assertions.
pub(crate) fn fuzz(workspace: &Workspace, args: Vec<OsString>) -> Result<()> {
    build_as_tested(workspace, "runner")?;
    let artifacts = workspace.target.join("fuzz-artifacts");
    let mut command = Command::new(workspace.target.join("debug/dewar-fuzz"));
    command.current_dir(&workspace.root);
    run(command.arg("--artifacts").arg(artifacts).args(args))
}

/// The simulation, in the profile of the tests.
pub(crate) fn sim(workspace: &Workspace, args: Vec<OsString>) -> Result<()> {
    build_as_tested(workspace, "simulation")?;
    let mut command = Command::new(workspace.target.join("debug/dewar-sim"));
    run(command.current_dir(&workspace.root).args(args))
}

/// Builds the binary that the integration test `test` runs, as `cargo test --workspace` does. A
/// build of its own package alone would use other features of the dependencies, and compile all of
/// them again.
pub(crate) fn build_as_tested(workspace: &Workspace, test: &str) -> Result<()> {
    run(&mut cargo(
        workspace,
        ["test", "--quiet", "--workspace", "--no-run", "--test", test],
    ))
}

/// A Python with the packages of a suite, in a separate folder below the root of the workspace.
pub(crate) fn python(workspace: &Workspace, folder: &str, requirements: &Path) -> Result<PathBuf> {
    let place = workspace.root.join(folder);
    let python = place.join("bin/python");
    let stamp = place.join("installed");
    let wanted = std::fs::read_to_string(requirements)
        .with_context(|| format!("read {}", requirements.display()))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(python);
    }
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&place))?;
    run(Command::new(&python)
        .args(["-m", "pip", "--quiet", "install", "--requirement"])
        .arg(requirements))?;
    std::fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))?;
    Ok(python)
}

/// A command as it is shown.
pub(crate) fn told(command: &Command) -> String {
    let program = command.get_program();
    let program = std::path::Path::new(program).file_name().unwrap_or(program);
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
