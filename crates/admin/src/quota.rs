//! Quotas.

use dewar_store::quota::{Quota, QuotaReport, Usage};
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec};
use crate::context::AdminContext;
use crate::error::Result;
use crate::names::target_named;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<QuotaList>(),
    CommandEntry::of::<QuotaShow>(),
    CommandEntry::of::<QuotaSet>(),
];

/// The limits of a quota. A limit that is not given does not apply. Soft limits are reported and
/// refuse nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaLimits {
    /// Most bytes of all versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Most objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_objects: Option<u64>,
    /// Bytes from which on it is said that there are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_bytes: Option<u64>,
    /// Objects from which on it is said that there are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_objects: Option<u64>,
}

/// How full something is that is limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaInfo {
    /// `/BUCKET`, `/BUCKET/DIR`, `/@TENANT/BUCKET`, `user:NAME`, `group:NAME` or
    /// `tenant:NAME`.
    pub target: String,
    /// Its limits.
    pub limits: QuotaLimits,
    /// Bytes of all versions in it.
    pub bytes: u64,
    /// Objects in it.
    pub objects: u64,
    /// `ok`, `soft` above a soft limit, `full` if no further byte or object fits.
    pub state: String,
}

/// Lists all quotas that are set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaList {}

/// Shows one quota.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaShow {
    /// Of what.
    pub target: String,
}

/// Sets all limits of a target; none takes them away.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaSet {
    /// Of what.
    pub target: String,
    /// Its limits from now on.
    pub limits: QuotaLimits,
}

impl AdminCommand for QuotaList {
    const SPEC: CommandSpec =
        CommandSpec::reads("quota.list", "admin:quota-list").replies("quotas");
    type Reply = Vec<QuotaInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<QuotaInfo>> {
        Ok(admin.store.quotas().await?.into_iter().map(info).collect())
    }
}

impl AdminCommand for QuotaShow {
    const SPEC: CommandSpec =
        CommandSpec::reads("quota.show", "admin:quota-show").replies("quotas");
    type Reply = Vec<QuotaInfo>;

    fn target(&self) -> String {
        self.target.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<QuotaInfo>> {
        let target = target_named(&self.target)?;
        Ok(vec![info(admin.store.quota(&target).await?)])
    }
}

impl AdminCommand for QuotaSet {
    const SPEC: CommandSpec =
        CommandSpec::changes("quota.set", "admin:quota-set").replies("quotas");
    type Reply = Vec<QuotaInfo>;

    fn target(&self) -> String {
        self.target.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<QuotaInfo>> {
        let target = target_named(&self.target)?;
        let quota = Quota {
            max_bytes: self.limits.max_bytes,
            max_objects: self.limits.max_objects,
            soft_bytes: self.limits.soft_bytes,
            soft_objects: self.limits.soft_objects,
        };
        Ok(vec![info(admin.store.set_quota(&target, quota).await?)])
    }
}

impl From<Quota> for QuotaLimits {
    fn from(quota: Quota) -> Self {
        Self {
            max_bytes: quota.max_bytes,
            max_objects: quota.max_objects,
            soft_bytes: quota.soft_bytes,
            soft_objects: quota.soft_objects,
        }
    }
}

/// `ok`, `soft` above a soft limit, `full` if no further byte or object fits.
pub(crate) fn quota_state(quota: &Quota, usage: Usage) -> &'static str {
    if !quota.fits(usage, 1, 1) {
        "full"
    } else if quota.is_soft_exceeded(usage) {
        "soft"
    } else {
        "ok"
    }
}

fn info(report: QuotaReport) -> QuotaInfo {
    let QuotaReport {
        target,
        quota,
        usage,
    } = report;
    QuotaInfo {
        target,
        limits: quota.into(),
        bytes: usage.bytes,
        objects: usage.objects,
        state: quota_state(&quota, usage).to_owned(),
    }
}
