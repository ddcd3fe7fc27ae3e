//! The configured folders and what was found there.

use std::path::PathBuf;
use std::sync::Arc;

use dewar_data::pool::{DewarId, Found, IDENTITY_FILE, Identity, Member, inspect};
use dewar_env::disk::real::{RealDisk, RealDiskConfig};
use dewar_env::{Disk, DiskState};
use dewar_types::{Error, ErrorKind, Result};

use crate::config::Config;

/// A configured folder.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// What was found at a configured folder.
#[derive(Debug)]
pub(super) enum Content {
    /// A disk with an identity.
    Disk {
        disk: Arc<dyn Disk>,
        identity: Identity,
    },
    /// A folder without one.
    Blank { disk: Arc<dyn Disk> },
    /// Nothing that can be used now.
    Absent(Error),
}

/// The configured folders, in their order.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) all: Vec<Folder>,
}

impl Folders {
    /// Looks at every folder; changes nothing.
    pub(super) async fn open(config: &Config) -> Result<Self> {
        let mut all = Vec::with_capacity(config.pool.disks.len());
        for path in &config.pool.disks {
            let real = RealDiskConfig {
                deadline: config.pool.disk_deadline,
                identity: Some(IDENTITY_FILE.to_owned()),
                ..RealDiskConfig::default()
            };
            let content = match RealDisk::open(path, real).await {
                Ok(disk) => {
                    let disk: Arc<dyn Disk> = Arc::new(disk);
                    match inspect(&*disk).await {
                        Ok(Found::Disk(identity)) => Content::Disk { disk, identity },
                        Ok(Found::Blank) => Content::Blank { disk },
                        // One damaged identity must not keep the others from serving.
                        Ok(Found::Absent(error)) | Err(error) => Content::Absent(error),
                    }
                }
                Err(error) => Content::Absent(error.into()),
            };
            if let Content::Absent(error) = &content {
                tracing::warn!(disk = %path.display(), %error, "this disk is missing");
            }
            all.push(Folder {
                path: path.clone(),
                content,
            });
        }
        Ok(Self { all })
    }

    /// The disks that are there and belong to this deployment.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a disk of another deployment, or a folder in which two
    /// configured paths meet.
    pub(super) fn members(&self, dewar: DewarId) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        for folder in &self.all {
            match &folder.content {
                Content::Disk { disk, identity } if identity.dewar == dewar => {
                    members.push(Member {
                        id: identity.disk,
                        disk: Arc::clone(disk),
                    });
                }
                Content::Disk { identity, .. } => {
                    let message = format!(
                        "{} is a disk of another Dewar ({}); this one is {dewar}",
                        folder.path.display(),
                        identity.dewar
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                Content::Blank { .. } => tracing::warn!(
                    disk = %folder.path.display(),
                    "this folder is blank: an unmounted disk, or a new one; it counts as missing"
                ),
                Content::Absent(_) => {}
            }
        }
        Ok(members)
    }

    /// Path and state of each, as administrators see it.
    pub(super) fn states(&self) -> Vec<(String, &'static str)> {
        self.all
            .iter()
            .map(|folder| {
                let state = match &folder.content {
                    Content::Absent(_) => "missing",
                    Content::Blank { .. } => "blank",
                    Content::Disk { disk, .. } => match disk.state() {
                        DiskState::Online { .. } => "online",
                        DiskState::Missing => "missing",
                        DiskState::Hung => "hung",
                        DiskState::Poisoned => "failed",
                    },
                };
                (folder.path.display().to_string(), state)
            })
            .collect()
    }
}
