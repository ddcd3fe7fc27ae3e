//! The usage of users, buckets and pools.

use serde::{Deserialize, Serialize};

use crate::accounts::{ListPage, page};
use crate::command::{AdminCommand, CommandEntry, CommandSpec};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::names::{bucket_named, bucket_path};

pub(crate) const COMMANDS: &[CommandEntry] = &[CommandEntry::of::<UsageList>()];

/// Lists the usage of users, buckets or pools by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageList {
    /// Of what.
    pub by: UsageScope,
    /// Only of this one.
    pub name: Option<String>,
    /// Only of those after this one.
    pub after: Option<String>,
}

/// The kind of item that usage is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// Accounts, which own all data of their users.
    User,
    /// Buckets.
    Bucket,
    /// Pools of disks.
    Pool,
}

/// The usage of a user, a bucket or a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageInfo {
    /// The account `[TENANT:]NAME`, the bucket `/NAME` or `/@TENANT/NAME`, or the pool.
    pub name: String,
    /// Bytes of the content, without parity.
    pub bytes: u64,
    /// Versions of objects, delete markers and open uploads. A pool does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Of a pool: large objects or parts of them, and segments of small ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blobs: Option<u64>,
    /// Of a pool: bytes on its disks, parity included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

impl AdminCommand for UsageList {
    const SPEC: CommandSpec = CommandSpec::reads("usage_list", "admin:usage-list").replies("usage");
    type Reply = ListPage<UsageInfo>;

    fn target(&self) -> String {
        self.name.clone().unwrap_or_default()
    }

    async fn run(self, admin: &AdminContext) -> Result<ListPage<UsageInfo>> {
        let name = self.name.as_deref();
        let mut usage = match self.by {
            UsageScope::User => users(admin, name).await?,
            UsageScope::Bucket => buckets(admin, name).await?,
            UsageScope::Pool => pools(admin, name).await?,
        };
        usage.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(page(usage, self.after, |usage| usage.name.clone()))
    }
}

async fn users(admin: &AdminContext, named: Option<&str>) -> Result<Vec<UsageInfo>> {
    let store = &admin.store;
    let only = match named {
        Some(name) => Some(store.accounts().user(name).await?.account),
        None => None,
    };
    let mut users = Vec::new();
    for (id, usage) in store.account_usage().await? {
        if only.is_none_or(|only| only == id) {
            let name = store.account_called(id).await?;
            users.push(UsageInfo {
                name: name.unwrap_or_else(|| id.to_string()),
                bytes: usage.bytes,
                objects: Some(usage.objects),
                ..UsageInfo::default()
            });
        }
    }
    if let (Some(id), true) = (only, users.is_empty()) {
        // An account that owns nothing.
        let name = store.account_called(id).await?;
        users.push(UsageInfo {
            name: name.unwrap_or_else(|| id.to_string()),
            objects: Some(0),
            ..UsageInfo::default()
        });
    }
    Ok(users)
}

async fn buckets(admin: &AdminContext, named: Option<&str>) -> Result<Vec<UsageInfo>> {
    let reports = match named {
        Some(name) => vec![
            admin
                .store
                .bucket_settings(&bucket_named(name)?)
                .await?
                .report,
        ],
        None => admin.store.bucket_reports().await?,
    };
    let info = |report: dewar_store::usage::BucketReport| UsageInfo {
        name: bucket_path(&report.bucket.tenant, &report.bucket.name),
        bytes: report.usage.bytes,
        objects: Some(report.usage.objects),
        ..UsageInfo::default()
    };
    Ok(reports.into_iter().map(info).collect())
}

async fn pools(admin: &AdminContext, named: Option<&str>) -> Result<Vec<UsageInfo>> {
    let held = admin.store.pool_usage().await?;
    let mut pools = Vec::new();
    for (number, _) in admin.pool.layouts() {
        let name = admin.changes.pool_name(number);
        if named.is_none_or(|named| *named == name) {
            let held = held.get(&number).copied().unwrap_or_default();
            pools.push(UsageInfo {
                name,
                bytes: held.bytes,
                objects: None,
                blobs: Some(held.blobs),
                stored_bytes: Some(held.stored_bytes),
            });
        }
    }
    match named {
        Some(name) if pools.is_empty() => {
            let message = format!("there is no pool {name}: `dewar status` names them");
            Err(AdminError::new(Failure::NotFound, message))
        }
        _ => Ok(pools),
    }
}
