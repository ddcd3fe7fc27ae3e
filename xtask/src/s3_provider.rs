//! The identity provider of the suite's tests of web identity: a Keycloak that lives as long as what
//! needs it.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value};

/// A running Keycloak, which ends with this value.
pub(crate) struct KeycloakProvider {
    process: Child,
    /// Its end is what the script waits for.
    stdin: Option<ChildStdin>,
    section: String,
}

impl KeycloakProvider {
    /// Starts one by the script in `folder`, with its log in `scratch`, whose tokens are for
    /// `audience`.
    pub(crate) fn start(
        python: &Path,
        folder: &Path,
        scratch: &Path,
        audience: &str,
    ) -> Result<Self> {
        let mut process = Command::new(python)
            .arg(folder.join("provider.py"))
            .arg(scratch)
            .arg(audience)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the identity provider")?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take();
        let mut provider = Self {
            process,
            stdin,
            section: String::from("[webidentity]\n"),
        };
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout.context("no output of the identity provider")?);
        stdout
            .read_line(&mut line)
            .context("read what the identity provider says")?;
        ensure!(!line.is_empty(), "the identity provider did not start");
        let members: Map<String, Value> =
            serde_json::from_str(&line).context("read what the identity provider says")?;
        for (name, value) in &members {
            let value = value.as_str().unwrap_or_default();
            writeln!(provider.section, "{name} = {value}").context("write the configuration")?;
        }
        Ok(provider)
    }

    /// The section of the suite's configuration about it.
    pub(crate) fn section(&self) -> &str {
        &self.section
    }
}

impl Drop for KeycloakProvider {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.process.wait();
    }
}
