//! The workspace: its root, its packages, and cargo's target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The workspace as cargo sees it.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    /// Its name without the prefix `dewar-`.
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency of a member.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    /// The package's name; that of a member without the prefix `dewar-`.
    pub(crate) name: String,
    pub(crate) is_member: bool,
    /// Needed by tests only.
    pub(crate) is_dev: bool,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn find() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let output = Command::new(cargo_path())
            .args([
                "metadata",
                "--format-version=1",
                "--no-deps",
                "--manifest-path",
            ])
            .arg(&manifest)
            .output()
            .context("run cargo metadata")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cargo metadata: {complaint}");
        let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        Self::from_metadata(&metadata)
    }

    fn from_metadata(metadata: &Value) -> Result<Self> {
        let path = |name: &str| {
            let text = metadata[name].as_str();
            text.map(PathBuf::from)
                .with_context(|| format!("cargo metadata has no {name}"))
        };
        let packages = metadata["packages"]
            .as_array()
            .context("cargo metadata has no packages")?;
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            packages: packages.iter().map(package).collect::<Result<_>>()?,
        })
    }

    /// The binary `dewar` of a profile.
    pub(crate) fn binary(&self, profile: &str) -> PathBuf {
        self.target.join(profile).join("dewar")
    }
}

/// The cargo that runs this, else the one on the path.
pub(crate) fn cargo_path() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

fn package(value: &Value) -> Result<Package> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let name = text(&value["name"]).context("a package has no name")?;
    let mut dependencies = Vec::new();
    for dependency in value["dependencies"].as_array().into_iter().flatten() {
        let full = text(&dependency["name"]).context("a dependency has no name")?;
        // Members are the only dependencies by path.
        let is_member = dependency["path"].is_string();
        let name = if is_member { short(&full) } else { full };
        let is_dev = dependency["kind"] == "dev";
        dependencies.push(Dependency {
            name,
            is_member,
            is_dev,
        });
    }
    Ok(Package {
        name: short(&name),
        dependencies,
    })
}

fn short(name: &str) -> String {
    name.strip_prefix("dewar-").unwrap_or(name).to_owned()
}
