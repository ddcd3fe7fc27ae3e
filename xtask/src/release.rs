//! The release binary, with its debug information in a file of its own.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run::{cargo, output, run};
use crate::workspace::Workspace;

/// Builds the release binary and moves its debug information to `dewar.debug` beside it. Backtraces and debuggers
/// find that file by a link in the binary.
pub(crate) fn build(workspace: &Workspace, args: Vec<OsString>) -> Result<()> {
    run(cargo(workspace, ["build", "--release"]).args(args))?;
    let folder = workspace.target.join("release");
    let binary = folder.join("dewar");
    if binary.exists() {
        let (stripped, debug) = split(&binary)?;
        println!(
            "{}: {} MB; {}: {} MB",
            binary.display(),
            stripped / 1_000_000,
            folder.join("dewar.debug").display(),
            debug / 1_000_000
        );
    }
    Ok(())
}

/// Splits a binary that is not split yet; the sizes of both files in bytes.
fn split(binary: &Path) -> Result<(u64, u64)> {
    let debug = binary.with_extension("debug");
    let stripped = binary.with_extension("stripped");
    let size = |path: &Path| {
        let found = fs::metadata(path).with_context(|| format!("look at {}", path.display()));
        found.map(|found| found.len())
    };
    let sections = output(
        Command::new("readelf")
            .args(["--sections", "--wide"])
            .arg(binary),
    )?;
    if sections.contains(".gnu_debuglink") {
        return Ok((size(binary)?, size(&debug)?));
    }
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .arg(binary)
        .arg(&debug))?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    run(Command::new("objcopy")
        .arg("--strip-unneeded")
        .arg(link)
        .arg(binary)
        .arg(&stripped))?;
    // Not in place: cargo's own file is the same one under another name.
    fs::rename(&stripped, binary).with_context(|| format!("replace {}", binary.display()))?;
    Ok((size(binary)?, size(&debug)?))
}
