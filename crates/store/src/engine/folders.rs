//! The folders of a pool and what was found in them.

use std::sync::Arc;

use dewar_data::pool::{DewarId, Found, Identity, Member, inspect};
use dewar_env::{Disk, DiskState};
use dewar_types::{Error, ErrorKind, Result};

/// A folder that the configuration names.
#[derive(Debug)]
pub struct Folder {
    /// What messages call it: its path.
    pub label: String,
    /// What is in it.
    pub content: Content,
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
        if let Content::Absent(error) = &folder.content {
            tracing::warn!(disk = %folder.label, %error, "this disk is missing");
        }
        folder
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
        Self { label, content }
    }

    /// Its label and its state, as administrators see it.
    #[must_use]
    pub fn state(&self) -> (String, &'static str) {
        let state = match &self.content {
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
    /// The deployment that the first disk found belongs to.
    #[must_use]
    pub fn known(&self) -> Option<DewarId> {
        self.all.iter().find_map(|folder| match &folder.content {
            Content::Disk { identity, .. } => Some(identity.dewar),
            Content::Blank { .. } | Content::Absent(_) => None,
        })
    }

    /// The disks that are there and belong to this deployment.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a disk of another deployment.
    pub fn members(&self, dewar: DewarId) -> Result<Vec<Member>> {
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
                        folder.label, identity.dewar
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                Content::Blank { .. } => tracing::warn!(
                    disk = %folder.label,
                    "this folder is blank: an unmounted disk, or a new one; it counts as missing"
                ),
                Content::Absent(_) => {}
            }
        }
        Ok(members)
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
