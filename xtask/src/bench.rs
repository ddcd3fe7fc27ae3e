//! `cargo xtask bench`: the load driver against a demo server that lives as long as the run.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;

use crate::demo::Demo;
use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// The demo's first port: away from the one people use by hand.
const PORT_BASE: u16 = 19000;

/// Builds the release binary, starts a demo in a fresh directory below the target directory,
/// and loads it.
pub(crate) fn bench(workspace: &Workspace, mut args: Vec<OsString>) -> Result<()> {
    run(&mut cargo(
        workspace,
        ["build", "--release", "--package", "dewar"],
    ))?;
    let binary = workspace.binary("release");
    let demo = Demo::start(
        &binary,
        &workspace.target.join("bench-demo"),
        PORT_BASE,
        &[],
    )?;
    if args.is_empty() {
        args.extend(["--suite", "table"].map(OsString::from));
    }
    let mut label = OsString::from("dewar=");
    label.push(demo.ready_file());
    let mut load = Command::new(&binary);
    run(load
        .args(["bench", "s3", "--ready-file"])
        .arg(label)
        .args(args))
}
