//! `cargo xtask srr-check`: the storage report of a demo, compared with a JSON schema.
//!
//! The end-to-end tests compare it with the project's own schema. This command is for the public one,
//! which is in no package registry.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::demo::Demo;
use crate::run::{build_as_tested, run};
use crate::workspace::Workspace;

/// Away from the ports that people use by hand, and from those of the other commands.
const PORT_BASE: u16 = 17600;
const PATH: &str = "/.well-known/srr";
/// Longest time for the answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A report of a demo is much smaller.
const REPORT_BYTES_MAX: u64 = 4 << 20;

/// The arguments of `cargo xtask srr-check`.
#[derive(clap::Args)]
pub(crate) struct SrrCheck {
    /// The JSON schema, such as srrschema_4.2.json of WLCG
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// A binary that is built already, instead of the one of the tests
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Compares the report of a demo with spaces.
pub(crate) fn srr_check(workspace: &Workspace, asked: &SrrCheck) -> Result<()> {
    let binary = match &asked.binary {
        Some(binary) => binary.clone(),
        None => {
            build_as_tested(workspace, "command_line")?;
            workspace.binary("debug")
        }
    };
    let tests = workspace.root.join("tests");
    run(&mut Command::new(tests.join("e2e/install")))?;
    let scratch = workspace.target.join("srr-check");
    let port_base = PORT_BASE + u16::try_from(std::process::id() % 100).unwrap_or_default() * 8;
    let demo = Demo::start(&binary, &scratch, port_base, &[("DEWAR_LOG_LEVEL", "warn")])?;
    demo.admin(&[
        "space",
        "add",
        "DATADISK",
        "/demo/rucio/datadisk",
        "--quota",
        "1GB",
        "--vo",
        "atlas",
    ])?;
    demo.admin(&[
        "space",
        "add",
        "SCRATCHDISK",
        "/demo/rucio/scratchdisk",
        "--quota",
        "1GB",
    ])?;
    let ready = std::fs::read_to_string(demo.ready_file()).context("read the ready file")?;
    let ready: Value = serde_json::from_str(&ready).context("what a demo says when it is ready")?;
    let endpoint = ready["webdav"]["endpoint"].as_str();
    let address = endpoint
        .and_then(|endpoint| endpoint.strip_prefix("http://"))
        .context("the demo has no WebDAV address")?;
    let report = scratch.join("report.json");
    std::fs::write(&report, fetch(address)?)
        .with_context(|| format!("write {}", report.display()))?;
    run(Command::new(workspace.root.join(".venv/bin/python"))
        .arg(tests.join("srr/check.py"))
        .arg(&asked.schema)
        .arg(&report))
}

/// The body of the report.
fn fetch(address: &str) -> Result<String> {
    let mut socket =
        TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket
        .write_all(request.as_bytes())
        .context("ask for the report")?;
    let mut answer = String::new();
    socket
        .take(REPORT_BYTES_MAX)
        .read_to_string(&mut answer)
        .context("read the report")?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("an answer without a body")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "the demo answers: {head}");
    Ok(body.to_owned())
}
