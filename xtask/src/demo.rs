//! A demo server that lives as long as what needs it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::run::output;

const READY_WAIT: Duration = Duration::from_millis(100);
const READY_TRIES: u32 = 300;

/// A running demo; it ends, and its folder goes, with this value.
pub(crate) struct Demo {
    binary: PathBuf,
    folder: PathBuf,
    process: Child,
}

impl Demo {
    /// Starts `binary` on the ports from `port_base` in `folder`, which is emptied first, with
    /// settings as environment variables, and waits until it is ready.
    pub(crate) fn start(
        binary: &Path,
        folder: &Path,
        port_base: u16,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)
                .with_context(|| format!("remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let log = folder.join("demo.log");
        let log = std::fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let mut command = Command::new(binary);
        command.arg("demo").arg("--dir").arg(folder.join("demo"));
        command.args(["--port-base", &port_base.to_string(), "--ready-file"]);
        command.arg(folder.join("ready.json"));
        let process = command
            .envs(settings.iter().copied())
            .stdout(log.try_clone().context("share the log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut demo = Self {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            process,
        };
        demo.wait_ready()?;
        Ok(demo)
    }

    /// The ready file, which has the addresses of the demo.
    pub(crate) fn ready_file(&self) -> PathBuf {
        self.folder.join("ready.json")
    }

    /// The address of its XRootD server, as `HOST:PORT`.
    pub(crate) fn xrootd(&self) -> Result<String> {
        let file = self.ready_file();
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let ready: Value =
            serde_json::from_str(&text).context("what a demo says when it is ready")?;
        let endpoint = ready["xrootd"]["endpoint"].as_str();
        let location = endpoint.and_then(|endpoint| endpoint.strip_prefix("root://"));
        Ok(location
            .context("the demo has no root:// address")?
            .to_owned())
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// An admin command, and the JSON that it prints.
    pub(crate) fn admin(&self, words: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.binary);
        command.args(words).arg("--json").arg("--dir");
        let printed = output(command.arg(self.folder.join("demo")))?;
        serde_json::from_str(&printed).with_context(|| format!("dewar {}", words.join(" ")))
    }

    fn wait_ready(&mut self) -> Result<()> {
        for _ in 0..READY_TRIES {
            if self.ready_file().exists() {
                return Ok(());
            }
            if let Some(status) = self.process.try_wait().context("wait for the demo")? {
                let log = std::fs::read_to_string(self.folder.join("demo.log")).unwrap_or_default();
                bail!("the demo ended: {status}\n{log}");
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
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
