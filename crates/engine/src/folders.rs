//! The folders of a pool and their content.

use std::sync::Arc;

use dewar_disks::pool::{DewarId, FolderProbe, Identity, Member, inspect};
use dewar_env::{Disk, DiskError, DiskErrorKind, DiskState};
use dewar_types::{Error, ErrorKind, Result};

use super::EngineConfig;
use super::disk_refusal::DiskRefusal;

/// A folder that the configuration names.
#[derive(Debug)]
pub struct Folder {
    /// The name of the folder in messages: its path.
    pub label: String,
    /// The number of the pool for which the configuration names the folder. The pool of the disk is
    /// in its identity.
    pub pool: u16,
    /// The content.
    pub content: FolderContent,
    /// Why the disk in it is not used, if there is one and it is not.
    pub refused: Option<DiskRefusal>,
}

/// The content of a folder.
#[derive(Debug)]
pub enum FolderContent {
    /// A disk with an identity.
    Disk {
        /// The disk.
        disk: Arc<dyn Disk>,
        /// The identity of the disk.
        identity: Identity,
    },
    /// A folder without one.
    Blank {
        /// The disk it may become.
        disk: Arc<dyn Disk>,
    },
    /// Nothing that can be used now.
    Absent(Error),
}

/// The configured folders, in their order.
#[derive(Debug, Default)]
pub struct Folders {
    /// Each of them.
    pub all: Vec<Folder>,
}

impl Folder {
    /// Inspects a disk, or the reason why it could not be opened; changes nothing. Reports missing
    /// parts.
    pub async fn look(label: String, opened: Result<Arc<dyn Disk>>) -> Self {
        let folder = Self::look_again(label, opened).await;
        if let FolderContent::Absent(error) = &folder.content
            && !folder.is_in_use()
        {
            tracing::warn!(disk = %folder.label, %error, "this disk is missing");
        }
        folder
    }

    /// Whether another process has it open.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let FolderContent::Absent(error) = &self.content else {
            return false;
        };
        let cause = std::error::Error::source(error);
        let cause = cause.and_then(|cause| cause.downcast_ref::<DiskError>());
        cause.is_some_and(|cause| cause.kind() == DiskErrorKind::InUse)
    }

    /// The same, and silent.
    pub async fn look_again(label: String, opened: Result<Arc<dyn Disk>>) -> Self {
        let content = match opened {
            Ok(disk) => match inspect(&*disk).await {
                Ok(FolderProbe::Disk(identity)) => FolderContent::Disk { disk, identity },
                Ok(FolderProbe::Blank) => FolderContent::Blank { disk },
                // One damaged identity must not keep the others from serving.
                Ok(FolderProbe::Absent(error)) | Err(error) => FolderContent::Absent(error),
            },
            Err(error) => FolderContent::Absent(error),
        };
        Self {
            label,
            pool: 0,
            content,
            refused: None,
        }
    }

    /// The same folder, as one of a pool.
    #[must_use]
    pub fn of(self, pool: u16) -> Self {
        Self { pool, ..self }
    }

    /// Its label and its state, as administrators see it.
    #[must_use]
    pub fn state(&self) -> (String, &'static str) {
        let state = match &self.content {
            _ if self.refused.is_some() => self.refused.as_ref().map_or("", DiskRefusal::word),
            FolderContent::Absent(_) => "missing",
            FolderContent::Blank { .. } => "blank",
            FolderContent::Disk { disk, .. } => match disk.state() {
                DiskState::Online { .. } => "online",
                DiskState::ReadOnly { .. } => "read-only",
                DiskState::Missing => "missing",
                DiskState::Hung => "hung",
                DiskState::Poisoned => "failed",
            },
        };
        (self.label.clone(), state)
    }
}

impl Folders {
    /// Refuses a folder that another process has open, because its disk is not absent.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], with the folder.
    pub fn check_unused(&self) -> Result<()> {
        for folder in &self.all {
            if folder.is_in_use() {
                let message = format!(
                    "{} is in use by another process: a server with another state folder, or a command \
                     that has the store open; end that first",
                    folder.label
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
        }
        Ok(())
    }

    /// The deployment of the disks that were found.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when they belong to several.
    pub fn known(&self) -> Result<Option<DewarId>> {
        let mut known: Option<(&Folder, DewarId)> = None;
        for folder in &self.all {
            let FolderContent::Disk { identity, .. } = &folder.content else {
                continue;
            };
            match known {
                Some((first, dewar)) if dewar != identity.dewar => {
                    let message = format!(
                        "{} is a disk of Dewar {dewar} and {} one of {}: which is meant?",
                        first.label, folder.label, identity.dewar
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                _ => known = Some((folder, identity.dewar)),
            }
        }
        Ok(known.map(|(_, dewar)| dewar))
    }

    /// The present disks that belong to the pools of a configuration. The others are logged.
    #[must_use]
    pub fn members(&self, dewar: DewarId, config: &EngineConfig) -> Vec<(Member, Identity)> {
        let mut members = Vec::new();
        for folder in &self.all {
            let label = &folder.label;
            match &folder.content {
                FolderContent::Disk { disk, identity } => {
                    let refusal = if identity.dewar != dewar {
                        DiskRefusal::OtherDewar(identity.dewar)
                    } else if !config.has_pool(identity.pool) {
                        DiskRefusal::OtherPool(identity.pool)
                    } else {
                        let disk = Arc::clone(disk);
                        let id = identity.disk;
                        let pool = identity.pool;
                        members.push((Member { id, disk, pool }, identity.clone()));
                        continue;
                    };
                    tracing::error!("{}; it is not used", refusal.sentence(label, dewar));
                }
                FolderContent::Blank { .. } => tracing::warn!(
                    disk = %label,
                    "this folder is blank: an unmounted disk, or a new one; it counts as missing"
                ),
                FolderContent::Absent(_) => {}
            }
        }
        members
    }

    /// The folders without a usable disk, and the reasons, for the error of an opening; `None` if
    /// there are none.
    #[must_use]
    pub fn without_disk(&self) -> Option<String> {
        let lines = self.all.iter().filter_map(|folder| {
            let why = match &folder.content {
                FolderContent::Absent(error) => error.to_string(),
                FolderContent::Blank { .. } => format!("{} is blank: is it mounted?", folder.label),
                FolderContent::Disk { disk, .. } if !disk.state().readable() => {
                    format!("{} is {}", folder.label, folder.state().1)
                }
                FolderContent::Disk { .. } => return None,
            };
            Some(why)
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    /// Label and state of each, as administrators see it.
    #[must_use]
    pub fn states(&self) -> Vec<(String, &'static str)> {
        self.all.iter().map(Folder::state).collect()
    }
}
