//! The folders of a pool and what was found in them.

use std::sync::Arc;

use dewar_data::pool::{DewarId, Found, Identity, Member, inspect};
use dewar_env::{Disk, DiskError, DiskErrorKind, DiskState};
use dewar_types::{Error, ErrorKind, Result};

use super::EngineConfig;
use super::refusal::Refusal;

/// A folder that the configuration names.
#[derive(Debug)]
pub struct Folder {
    /// What messages call it: its path.
    pub label: String,
    /// The number of the pool whose folder it is in the configuration. Of which pool the disk in it is,
    /// its identity says.
    pub pool: u16,
    /// What is in it.
    pub content: Content,
    /// Why the disk in it is not used, if there is one and it is not.
    pub refused: Option<Refusal>,
}

/// What was found in a folder.
#[derive(Debug)]
pub enum Content {
    /// A disk with an identity.
    Disk {
        /// The disk.
        disk: Arc<dyn Disk>,
        /// Who it is.
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
    /// Looks at a disk, or at why it could not be opened; changes nothing. Says what is missing.
    pub async fn look(label: String, opened: Result<Arc<dyn Disk>>) -> Self {
        let folder = Self::look_again(label, opened).await;
        if let Content::Absent(error) = &folder.content
            && !folder.is_in_use()
        {
            tracing::warn!(disk = %folder.label, %error, "this disk is missing");
        }
        folder
    }

    /// Whether another process has it open.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let Content::Absent(error) = &self.content else {
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
                Ok(Found::Disk(identity)) => Content::Disk { disk, identity },
                Ok(Found::Blank) => Content::Blank { disk },
                // One damaged identity must not keep the others from serving.
                Ok(Found::Absent(error)) | Err(error) => Content::Absent(error),
            },
            Err(error) => Content::Absent(error),
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
            _ if self.refused.is_some() => self.refused.as_ref().map_or("", Refusal::word),
            Content::Absent(_) => "missing",
            Content::Blank { .. } => "blank",
            Content::Disk { disk, .. } => match disk.state() {
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
    /// Refuses to go on with what another process has open: it is not away.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], which names the folder.
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

    /// The deployment that the disks found belong to.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when they belong to several.
    pub fn known(&self) -> Result<Option<DewarId>> {
        let mut known: Option<(&Folder, DewarId)> = None;
        for folder in &self.all {
            let Content::Disk { identity, .. } = &folder.content else {
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

    /// The disks that are there and belong to the pools of a configuration; says which do not.
    #[must_use]
    pub fn members(&self, dewar: DewarId, config: &EngineConfig) -> Vec<(Member, Identity)> {
        let mut members = Vec::new();
        for folder in &self.all {
            let label = &folder.label;
            match &folder.content {
                Content::Disk { disk, identity } => {
                    let refusal = if identity.dewar != dewar {
                        Refusal::OtherDewar(identity.dewar)
                    } else if !config.has_pool(identity.pool) {
                        Refusal::OtherPool(identity.pool)
                    } else {
                        let disk = Arc::clone(disk);
                        let id = identity.disk;
                        let pool = identity.pool;
                        members.push((Member { id, disk, pool }, identity.clone()));
                        continue;
                    };
                    tracing::error!("{}; it is not used", refusal.sentence(label, dewar));
                }
                Content::Blank { .. } => tracing::warn!(
                    disk = %label,
                    "this folder is blank: an unmounted disk, or a new one; it counts as missing"
                ),
                Content::Absent(_) => {}
            }
        }
        members
    }

    /// The folders without a disk that can be used, and why, for the message of an opening that
    /// needs more; `None` where there are none.
    #[must_use]
    pub fn without_disk(&self) -> Option<String> {
        let lines = self.all.iter().filter_map(|folder| {
            let why = match &folder.content {
                Content::Absent(error) => error.to_string(),
                Content::Blank { .. } => format!("{} is blank: is it mounted?", folder.label),
                Content::Disk { disk, .. } if !disk.state().readable() => {
                    format!("{} is {}", folder.label, folder.state().1)
                }
                Content::Disk { .. } => return None,
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
