//! Spaces: directories with a quota and a name.

use dewar_store::quota::{Quota, QuotaTarget};
use dewar_store::space::{AddSpace, SpaceReport};
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::names::{split_tenant, target_named};
use crate::quota::{QuotaLimits, quota_state};

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<SpaceAdd>(),
    CommandEntry::of::<SpaceList>(),
    CommandEntry::of::<SpaceRemove>(),
];

/// A space and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// `[TENANT:]NAME`.
    pub name: String,
    /// Its directory: `/BUCKET/DIR` or `/@TENANT/BUCKET/DIR`.
    pub path: String,
    /// Its limits.
    pub limits: QuotaLimits,
    /// Bytes of all versions in it.
    pub bytes: u64,
    /// Objects in it.
    pub objects: u64,
    /// `ok`, `soft` above a soft limit, `full` if no further byte or object fits.
    pub state: String,
    /// `[TENANT:]NAME` of its owner group.
    pub group: Option<String>,
    /// The virtual organisations that it is for.
    pub vos: Vec<String>,
}

/// Makes a directory a space. The directory is made if it does not exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceAdd {
    /// Its name: letters, digits, `-`, `_` and `.`, at most 64.
    pub name: String,
    /// Its directory.
    pub path: String,
    /// Most bytes of all versions in it.
    pub max_bytes: u64,
    /// `[TENANT:]NAME` of the group that owns new data in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The virtual organisations that it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vos: Vec<String>,
}

/// Lists all spaces.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceList {}

/// Removes the name of a space. The directory stays, with its files, its quota and its group.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceRemove {
    /// `[TENANT:]NAME`.
    pub name: String,
}

impl AdminCommand for SpaceAdd {
    const SPEC: CommandSpec = CommandSpec::changes("space.add", "admin:space-add").replies("space");
    type Reply = SpaceInfo;

    fn target(&self) -> String {
        format!("{} at {}", self.name, self.path)
    }

    async fn run(self, admin: &AdminContext) -> Result<SpaceInfo> {
        let QuotaTarget::Directory(bucket, path) = target_named(&self.path)? else {
            let message = format!(
                "{:?} is no directory: a space is /BUCKET/DIR or /@TENANT/BUCKET/DIR",
                self.path
            );
            return Err(AdminError::new(Failure::Invalid, message));
        };
        let new = AddSpace {
            name: self.name,
            bucket,
            path,
            quota: Quota {
                max_bytes: Some(self.max_bytes),
                ..Quota::default()
            },
            group: self.group,
            vos: self.vos,
        };
        Ok(info(admin.store.add_space(new).await?))
    }
}

impl AdminCommand for SpaceList {
    const SPEC: CommandSpec =
        CommandSpec::reads("space.list", "admin:space-list").replies("spaces");
    type Reply = Vec<SpaceInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<SpaceInfo>> {
        Ok(admin.store.spaces().await?.into_iter().map(info).collect())
    }
}

impl AdminCommand for SpaceRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("space.remove", "admin:space-remove").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.name.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let (tenant, name) = split_tenant(&self.name)?;
        admin.store.remove_space(&tenant, name).await?;
        Ok(Done::Done)
    }
}

fn info(report: SpaceReport) -> SpaceInfo {
    SpaceInfo {
        name: match report.tenant.is_default() {
            true => report.name,
            false => format!("{}:{}", report.tenant, report.name),
        },
        path: report.path,
        limits: report.quota.into(),
        bytes: report.usage.bytes,
        objects: report.usage.objects,
        state: quota_state(&report.quota, report.usage).to_owned(),
        group: report.group,
        vos: report.vos,
    }
}
