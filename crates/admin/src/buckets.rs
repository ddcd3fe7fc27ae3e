//! Buckets of all accounts.

use dewar_auth::Caller;
use dewar_store::api::{Emptiness, NewBucket, Versioning};
use dewar_store::usage::BucketReport;
use dewar_types::ErrorKind;
use serde::{Deserialize, Serialize};

use crate::accounts::{ListPage, page};
use crate::amount::amount;
use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::names::{bucket_named, bucket_path};
use crate::quota::{QuotaLimits, quota_state};
use crate::time_text::rfc3339;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<BucketList>(),
    CommandEntry::of::<BucketShow>(),
    CommandEntry::of::<BucketCreate>(),
    CommandEntry::of::<BucketRemove>(),
];

/// Lists buckets by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketList {
    /// Only those of this account, `[TENANT:]NAME`.
    pub owner: Option<String>,
    /// Only those after this one.
    pub after: Option<String>,
}

/// Shows a bucket with its settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketShow {
    /// `NAME`, `/NAME` or `/@TENANT/NAME`.
    pub bucket: String,
}

/// Creates a bucket of an account.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketCreate {
    /// `NAME`, which is in the tenant of the owner, `/NAME` or `/@TENANT/NAME`.
    pub bucket: String,
    /// The account, `[TENANT:]NAME`.
    pub owner: String,
    /// Whether it keeps replaced versions.
    pub versioning: bool,
}

/// Removes an empty bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketRemove {
    /// `NAME`, `/NAME` or `/@TENANT/NAME`.
    pub bucket: String,
}

/// A bucket and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSummary {
    /// `/NAME`, or `/@TENANT/NAME` outside the default tenant.
    pub bucket: String,
    /// The account, `[TENANT:]NAME`, or its id where it was removed.
    pub owner: String,
    /// When it was made, RFC 3339 in UTC.
    pub created: String,
    /// `off`, `enabled` or `suspended`.
    pub versioning: String,
    /// Versions of objects, delete markers and open uploads in it.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A bucket with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketDetails {
    /// The bucket and what it holds.
    #[serde(flatten)]
    pub summary: BucketSummary,
    /// Its limits.
    pub limits: QuotaLimits,
    /// `ok`, `soft` above a soft limit, `full` if no further byte or object fits.
    pub state: String,
    /// The group that is charged for new data, `[TENANT:]NAME`.
    pub group: Option<String>,
    /// The default encryption of new objects: `none`, or `dewar` with keys of the server.
    pub encryption: String,
    /// Whether versions can be protected by retention and legal holds.
    pub object_lock: bool,
    /// Whether it has a policy.
    pub policy: bool,
    /// Whether anybody may read or write something in it without a credential.
    pub public: bool,
    /// Number of its lifecycle rules.
    pub lifecycle_rules: usize,
}

impl AdminCommand for BucketList {
    const SPEC: CommandSpec =
        CommandSpec::reads("bucket_list", "admin:bucket-list").replies("buckets");
    type Reply = ListPage<BucketSummary>;

    async fn run(self, admin: &AdminContext) -> Result<ListPage<BucketSummary>> {
        let owner = match &self.owner {
            Some(name) => Some(admin.store.accounts().user(name).await?.account),
            None => None,
        };
        let mut buckets = Vec::new();
        for report in admin.store.bucket_reports().await? {
            if owner.is_none_or(|owner| owner == report.bucket.owner) {
                buckets.push(summary(admin, report).await?);
            }
        }
        buckets.sort_by(|a, b| a.bucket.cmp(&b.bucket));
        Ok(page(buckets, self.after, |bucket| bucket.bucket.clone()))
    }
}

impl AdminCommand for BucketShow {
    const SPEC: CommandSpec =
        CommandSpec::reads("bucket_show", "admin:bucket-show").replies("bucket");
    type Reply = BucketDetails;

    fn target(&self) -> String {
        self.bucket.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<BucketDetails> {
        details(admin, &self.bucket).await
    }
}

impl AdminCommand for BucketCreate {
    const SPEC: CommandSpec =
        CommandSpec::changes("bucket_create", "admin:bucket-create").replies("bucket");
    type Reply = BucketDetails;

    fn target(&self) -> String {
        format!("{} of {}", self.bucket, self.owner)
    }

    async fn run(self, admin: &AdminContext) -> Result<BucketDetails> {
        let mut bucket = bucket_named(&self.bucket)?;
        let owner = admin.store.accounts().user(&self.owner).await?;
        let tenant = bucket.tenant.get_or_insert(owner.tenant.clone());
        if *tenant != owner.tenant {
            let message = format!(
                "{} is in another tenant than {}, so {1} cannot own it",
                self.bucket, self.owner
            );
            return Err(AdminError::new(Failure::Invalid, message));
        }
        let new = NewBucket {
            versioning: match self.versioning {
                true => Versioning::Enabled,
                false => Versioning::Off,
            },
            ..NewBucket::default()
        };
        let path = bucket_path(tenant, &bucket.name);
        let made = admin.store.create_bucket_for(owner, &bucket.name, new);
        made.await?;
        details(admin, &path).await
    }
}

impl AdminCommand for BucketRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("bucket_remove", "admin:bucket-remove").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.bucket.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let bucket = bucket_named(&self.bucket)?;
        let system = Caller::system();
        let removed = admin
            .store
            .delete_bucket(&system, &bucket, Emptiness::DirectoriesOnly);
        match removed.await {
            Ok(()) => Ok(Done::Done),
            Err(error) if error.kind() == ErrorKind::NotEmpty => {
                let held = admin.store.bucket_usage(&system, &bucket).await?;
                let message = format!(
                    "bucket {} is not empty: {} versions of objects and open uploads with {} are in it. \
                     Delete them first, with older versions and delete markers",
                    self.bucket,
                    held.objects,
                    amount(held.bytes)
                );
                Err(AdminError::new(Failure::InUse, message))
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn summary(admin: &AdminContext, report: BucketReport) -> Result<BucketSummary> {
    let BucketReport {
        bucket,
        versioning,
        usage,
    } = report;
    let owner = admin.store.account_called(bucket.owner).await?;
    Ok(BucketSummary {
        bucket: bucket_path(&bucket.tenant, &bucket.name),
        owner: owner.unwrap_or_else(|| bucket.owner.to_string()),
        created: rfc3339(bucket.created),
        versioning: match versioning {
            Versioning::Off => "off",
            Versioning::Enabled => "enabled",
            Versioning::Suspended => "suspended",
        }
        .to_owned(),
        objects: usage.objects,
        bytes: usage.bytes,
    })
}

async fn details(admin: &AdminContext, named: &str) -> Result<BucketDetails> {
    let found = admin.store.bucket_settings(&bucket_named(named)?).await?;
    Ok(BucketDetails {
        state: quota_state(&found.quota, found.report.usage).to_owned(),
        limits: found.quota.into(),
        summary: summary(admin, found.report).await?,
        group: found.group,
        encryption: if found.encrypted { "dewar" } else { "none" }.to_owned(),
        object_lock: found.object_lock,
        policy: found.policy,
        public: found.public,
        lifecycle_rules: found.lifecycle_rules,
    })
}
