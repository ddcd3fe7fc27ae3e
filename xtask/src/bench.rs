//! `cargo xtask bench`: the load driver against a demo server that lives as long as the run.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// The demo's first port: away from the one people use by hand.
const PORT_BASE: &str = "19000";
const READY_WAIT: Duration = Duration::from_millis(100);
const READY_TRIES: u32 = 300;

/// Builds the release binary, starts a demo in a fresh directory below the target directory,
/// and loads it.
pub(crate) fn bench(workspace: &Workspace, mut args: Vec<OsString>) -> Result<()> {
    run(&mut cargo(
        workspace,
        ["build", "--release", "--package", "dewar"],
    ))?;
    let binary = workspace.binary("release");
    let dir = workspace.target.join("bench-demo");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    let ready = dir.join("ready.json");
    let mut demo = Demo::start(&binary, &dir, &ready)?;
    demo.wait_ready(&ready)?;
    if args.is_empty() {
        args.extend(["--suite", "table"].map(OsString::from));
    }
    let mut label = OsString::from("dewar=");
    label.push(&ready);
    let mut load = Command::new(&binary);
    let loaded = run(load
        .args(["bench", "s3", "--ready-file"])
        .arg(label)
        .args(args));
    drop(demo);
    std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    loaded
}

/// A demo server that ends with its owner.
struct Demo(Child);

impl Demo {
    fn start(binary: &Path, dir: &Path, ready: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.arg("demo").arg("--dir").arg(dir.join("demo"));
        command
            .args(["--port-base", PORT_BASE])
            .arg("--ready-file")
            .arg(ready);
        let log = dir.join("demo.log");
        let log = std::fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let child = command.stdout(log).spawn();
        child
            .map(Self)
            .with_context(|| format!("start {}", binary.display()))
    }

    fn wait_ready(&mut self, ready: &Path) -> Result<()> {
        for _ in 0..READY_TRIES {
            if ready.exists() {
                return Ok(());
            }
            if let Some(status) = self.0.try_wait().context("wait for the demo")? {
                bail!("the demo ended: {status}");
            }
            std::thread::sleep(READY_WAIT);
        }
        bail!(
            "the demo is not ready after {} s",
            (READY_WAIT * READY_TRIES).as_secs()
        )
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Its data is removed next, so there is nothing to end cleanly.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
