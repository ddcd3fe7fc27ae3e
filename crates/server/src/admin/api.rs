//! Requests and replies of the admin API, and the trait that answers them.

use async_trait::async_trait;
use dewar_auth::Secret;
use dewar_types::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

use super::catalog::BackupInfo;
use super::federation::{FederationReply, FederationRequest};
use super::identity::{IdentityReply, IdentityRequest};
use super::key_file::{KeyFileReply, KeyFileRequest};
use super::quota::{QuotaInfo, QuotaRequest};
use super::secret_text;
use super::share::{ShareInfo, ShareRequest};
use super::upkeep::{
    AtRiskInfo, DiskAction, DiskAdded, DiskDecided, DiskInfo, DiskReadmitted, DiskRemoved,
    FsckInfo, LedgerInfo, RepairInfo, ScrubInfo,
};
use crate::audit::AuditLog;
use crate::health::HealthIssue;

/// Whether a user or a key may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// It may.
    Enabled,
    /// A disabled user keeps its data and has no rights.
    Disabled,
}

/// A user to add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserAdd {
    /// Its name; `ROOT/NAME` for a user of ROOT's account.
    pub name: String,
    /// Its tenant, made if there is none; the default one if absent.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The display name.
    #[serde(default)]
    pub display_name: Option<String>,
    /// The mail address.
    #[serde(default)]
    pub email: Option<String>,
    /// Whether it manages the users and policies of its tenant.
    #[serde(default)]
    pub tenant_admin: bool,
}

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// Unique within the tenant; `TENANT:NAME` outside the default one.
    pub name: String,
    /// Its id, in 16 hexadecimal digits; never reused. Access control lists use this id.
    pub id: String,
    /// The root user of its account; the user itself, if it is an account of its own.
    pub account: String,
    /// As policies name it.
    pub arn: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether it manages the users and policies of its tenant.
    pub tenant_admin: bool,
    /// Whether it may do anything.
    pub state: AccountState,
    /// When it was added, RFC 3339 in UTC.
    pub created: String,
}

/// The request of `key add`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAdd {
    /// The user who gets the key.
    pub user: String,
    /// The public half; generated if absent. Both halves are given, or none.
    pub access_key: Option<String>,
    /// The secret half.
    #[serde(default, with = "secret_text::option")]
    pub secret_key: Option<Secret>,
}

/// A key that was just made: the only time its secret is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewKey {
    /// The owner of the key.
    pub user: String,
    /// The public half.
    pub access_key: String,
    /// The secret half.
    #[serde(with = "secret_text")]
    pub secret_key: Secret,
}

/// An access key without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// The public half.
    pub access_key: String,
    /// The owner of the keys.
    pub user: String,
    /// Whether it may be used.
    pub state: AccountState,
    /// Whether its user is enabled: a key of a disabled user does not work.
    pub user_state: AccountState,
    /// When it was added, RFC 3339 in UTC.
    pub created: String,
}

/// A part of a list in the order of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPage<T> {
    /// The items, at most some thousand.
    pub items: Vec<T>,
    /// The `after` of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// How a server fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub uptime_seconds: u64,
    /// Its zone.
    pub zone: u16,
    /// Its pool.
    pub pool: PoolStatus,
    /// The redundancy ledger: amounts of data by the number of failures that they survive.
    pub ledger: LedgerInfo,
    /// The status of repair.
    pub repair: RepairInfo,
    /// Its doors.
    pub doors: Vec<DoorStatus>,
    /// The problems of services that doors depend on.
    #[serde(default)]
    pub troubles: Vec<HealthIssue>,
    /// Third-party copies to this server that are under way.
    pub copies: u64,
    /// Uploads in parts that are not completed yet.
    #[serde(default)]
    pub uploads: OpenUploads,
}

/// Uploads in parts that are not completed yet, and whose they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenUploads {
    /// How many there are in all.
    pub uploads: u64,
    /// The size of their parts in bytes.
    pub bytes: u64,
    /// The owners of most of these bytes, at most ten.
    pub owners: Vec<UploadOwner>,
    /// How many further owners there are.
    pub further_owners: u64,
}

/// The open uploads of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadOwner {
    /// The account, `[TENANT:]NAME`, or its id where it was removed.
    pub owner: String,
    /// How many.
    pub uploads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds since the oldest of them began, as far as it was looked for.
    pub oldest_seconds: Option<u64>,
}

/// How the pools fare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// The main pool.
    #[serde(flatten)]
    pub main: PoolInfo,
    /// The further pools.
    #[serde(default)]
    pub further: Vec<PoolInfo>,
    /// The disks of all pools in the order of the configuration.
    pub disks: Vec<DiskStatus>,
    /// Notes for the administrator, as sentences.
    pub notes: Vec<String>,
}

/// How a pool fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// Its name.
    pub name: String,
    /// Layout of new objects while every disk is there.
    pub layout: String,
    /// Its disks that may still be lost without losing data.
    pub margin: u32,
    /// Whether it takes new objects.
    pub writable: bool,
    /// Bytes of the file systems of its disks. Folders on one device each count the whole device.
    pub total_bytes: u64,
    /// Free bytes, before the share for parity is subtracted.
    pub available_bytes: u64,
}

/// How a disk fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// The disk's number, which people use as its name.
    pub number: Option<u32>,
    /// Its folder.
    pub path: String,
    /// The name of its pool.
    #[serde(default)]
    pub pool: String,
    /// As [`DiskInfo::state`].
    pub state: String,
    /// More about that.
    pub detail: Option<String>,
    /// Shards that are still on a disk that is being emptied.
    #[serde(default)]
    pub shards_left: Option<u64>,
    /// Their bytes.
    #[serde(default)]
    pub bytes_left: Option<u64>,
    /// The id of a missing disk with an unknown folder; `path` is no folder then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The address of a door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorStatus {
    /// `s3`, `metrics` …
    pub name: String,
    /// Its URL, without a slash at the end.
    pub endpoint: String,
}

/// A request of an administrator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How does the server fare?
    Status {},
    /// List the disks.
    DiskList {},
    /// Decide about a disk.
    DiskDecide {
        /// Its number, its folder, its id, or the first digits of it.
        disk: String,
        /// The decision.
        action: DiskAction,
        /// Whether to drain it even if its data can only be rewritten in a narrower layout.
        #[serde(default)]
        narrower: bool,
    },
    /// Make a blank folder a disk of the pool.
    DiskAdd {
        /// The folder, from the root.
        folder: String,
        /// The disk to be replaced: its number, folder, id, or the first digits of it.
        replaces: Option<String>,
        /// The name of the pool that it is to be a disk of.
        #[serde(default)]
        pool: Option<String>,
    },
    /// Remove a disk.
    DiskRemove {
        /// Its number, its folder, its id, or the first digits of it.
        disk: String,
    },
    /// Take a removed disk back.
    DiskReadmit {
        /// Its folder; if the folder is known, also its number, its id or the first digits of it.
        disk: String,
    },
    /// Scrub now.
    Scrub {
        /// Only this disk.
        disk: Option<String>,
    },
    /// Begin to check everything, unless that is under way.
    FsckStart {
        /// Read every shard from its medium first.
        deep: bool,
    },
    /// How does the check fare?
    Fsck {},
    /// A further page of the objects at risk that the last check found.
    FsckMore {
        /// The page, from 0 on, in order. The last one can be requested again.
        page: u64,
    },
    /// How do the scrubs fare?
    ScrubStatus {},
    /// Policies and groups.
    Identity(IdentityRequest),
    /// Issuers of tokens, roles and sessions.
    Federation(FederationRequest),
    /// Quotas.
    Quota(QuotaRequest),
    /// Shares.
    Share(ShareRequest),
    /// About the master key file.
    KeyFile(KeyFileRequest),
    /// Begin to back the catalog up, unless that is under way.
    BackupStart {
        /// The folder, an absolute path.
        target: String,
        /// So many backups stay in it.
        keep: u32,
    },
    /// How does the backup fare?
    Backup {},
    /// Add a user.
    UserAdd(UserAdd),
    /// List users by name.
    UserList {
        /// Only those after this name.
        after: Option<String>,
    },
    /// Remove a user who owns no bucket, with all keys.
    UserRemove {
        /// Its name.
        name: String,
    },
    /// Disable or enable a user.
    UserSet {
        /// Its name.
        name: String,
        /// The new state.
        state: AccountState,
    },
    /// Add an access key.
    KeyAdd(KeyAdd),
    /// List access keys.
    KeyList {
        /// Only those of this user.
        user: Option<String>,
        /// Only those after this one.
        after: Option<String>,
    },
    /// Remove an access key.
    KeyRemove {
        /// Its public half.
        access_key: String,
    },
    /// Disable or enable an access key.
    KeySet {
        /// Its public half.
        access_key: String,
        /// The new state.
        state: AccountState,
    },
}

/// The reply to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It was done.
    Done,
    /// How the server fares.
    Status(Box<Status>),
    /// The disks.
    Disks(Vec<DiskInfo>),
    /// A decision about a disk.
    DiskDecided(DiskDecided),
    /// A disk that was just added.
    DiskAdded(DiskAdded),
    /// A disk that was just removed.
    DiskRemoved(DiskRemoved),
    /// A disk that was just taken back.
    DiskReadmitted(DiskReadmitted),
    /// How a check fares.
    Fsck(FsckInfo),
    /// Objects at risk.
    AtRisk(AtRiskInfo),
    /// How the scrubs fare.
    Scrubs(Vec<ScrubInfo>),
    /// How a backup fares.
    Backup(BackupInfo),
    /// A user, as it is now.
    User(UserInfo),
    /// A page of users.
    Users(ListPage<UserInfo>),
    /// A key that was just made.
    NewKey(NewKey),
    /// A key, as it is now.
    Key(KeyInfo),
    /// A page of keys.
    Keys(ListPage<KeyInfo>),
    /// About policies and groups.
    Identity(IdentityReply),
    /// About issuers of tokens, roles and sessions.
    Federation(FederationReply),
    /// Quotas and their usage.
    Quotas(Vec<QuotaInfo>),
    /// Shares.
    Shares(Vec<ShareInfo>),
    /// About the master key file.
    KeyFile(KeyFileReply),
}

/// A kind of failure that scripts can distinguish, by the command's exit code and by text in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// There is no such user or key.
    NotFound,
    /// The name is taken.
    Exists,
    /// It is still in use.
    InUse,
    /// The request makes no sense.
    Invalid,
    /// Temporarily unavailable: too many disks are missing, or the server is overloaded or
    /// stopping.
    Unavailable,
    /// Something broke.
    Internal,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, ThisError, Serialize, Deserialize)]
#[error("{message}")]
pub struct AdminError {
    /// The kind of failure.
    pub kind: Failure,
    /// The event, whom it affects, and the action to take.
    pub message: String,
}

impl AdminError {
    /// An error of `kind`.
    pub fn new(kind: Failure, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl From<Error> for AdminError {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NoSuchBucket => Failure::NotFound,
            ErrorKind::AlreadyExists | ErrorKind::AlreadyOwned => Failure::Exists,
            ErrorKind::NotEmpty => Failure::InUse,
            ErrorKind::InvalidArgument
            | ErrorKind::InvalidName
            | ErrorKind::MalformedPolicy
            | ErrorKind::Quota
            | ErrorKind::TooLarge => Failure::Invalid,
            ErrorKind::Unavailable
            | ErrorKind::Busy(_)
            | ErrorKind::Later(_)
            | ErrorKind::Timeout
            | ErrorKind::Conflict
            | ErrorKind::NoSpace => Failure::Unavailable,
            _ => Failure::Internal,
        };
        let message = match error.kind() {
            ErrorKind::Busy(after) | ErrorKind::Later(after) => {
                let secs = after.as_secs().max(1);
                format!("{}; try again in {secs} s", error.message())
            }
            _ => error.message().to_owned(),
        };
        Self::new(kind, message)
    }
}

/// The result of every method of the admin API.
pub(super) type Result<T> = std::result::Result<T, AdminError>;

/// Carries admin requests out. Names are checked by the implementation.
#[async_trait]
pub trait AdminApi: Send + Sync {
    /// The log for requests.
    fn audit(&self) -> Option<&AuditLog> {
        None
    }
    /// How the server fares.
    async fn status(&self) -> Result<Status>;
    /// All disks.
    async fn disk_list(&self) -> Result<Vec<DiskInfo>>;
    /// Decides about a disk, named by folder, id or the first digits of it. With `narrower` its
    /// data may be rewritten in a narrower layout.
    async fn disk_decide(
        &self,
        disk: &str,
        action: DiskAction,
        narrower: bool,
    ) -> Result<DiskDecided>;
    /// Makes a blank folder a disk of the pool. If another disk is named, it is replaced.
    async fn disk_add(
        &self,
        folder: &str,
        replaces: Option<&str>,
        pool: Option<&str>,
    ) -> Result<DiskAdded>;
    /// Removes a disk.
    async fn disk_remove(&self, disk: &str) -> Result<DiskRemoved>;
    /// Takes a removed disk back.
    async fn disk_readmit(&self, disk: &str) -> Result<DiskReadmitted>;
    /// Makes a scrub due now, of one disk or all.
    async fn scrub(&self, disk: Option<&str>) -> Result<()>;
    /// Starts a check of everything, or joins a running one. Fails with "in use" if the running one
    /// is not deep and this one is to be.
    async fn fsck_start(&self, deep: bool) -> Result<()>;
    /// How the check fares.
    async fn fsck(&self) -> Result<FsckInfo>;
    /// A page of the objects at risk that the last check did not list at first.
    async fn fsck_more(&self, page: u64) -> Result<AtRiskInfo>;
    /// How the scrubs fare.
    async fn scrubs(&self) -> Result<Vec<ScrubInfo>>;
    /// Answers about policies and groups.
    async fn identity(&self, request: IdentityRequest) -> Result<IdentityReply>;
    /// Answers about issuers of tokens, roles and sessions.
    async fn federation(&self, _request: FederationRequest) -> Result<FederationReply> {
        Err(AdminError::new(
            Failure::Unavailable,
            "nobody is let in from outside here",
        ))
    }
    /// Answers about quotas.
    async fn quota(&self, _request: QuotaRequest) -> Result<Vec<QuotaInfo>> {
        Err(AdminError::new(
            Failure::Unavailable,
            "nothing is limited here",
        ))
    }
    /// Answers a request about shares; `None` for a completed change.
    async fn share(&self, _request: ShareRequest) -> Result<Option<Vec<ShareInfo>>> {
        Err(AdminError::new(
            Failure::Unavailable,
            "nothing is shared here",
        ))
    }
    /// Answers about the master key file.
    async fn key_file(&self, _request: KeyFileRequest) -> Result<KeyFileReply> {
        Err(AdminError::new(
            Failure::Unavailable,
            "no secret is wrapped here",
        ))
    }
    /// Begins a backup of the catalog, unless one is under way.
    async fn backup_start(&self, _target: &str, _keep: u32) -> Result<()> {
        Err(AdminError::new(
            Failure::Unavailable,
            "no backups can be taken here",
        ))
    }
    /// How the backup fares.
    async fn backup(&self) -> Result<BackupInfo> {
        Ok(BackupInfo::default())
    }
    /// Adds a user.
    async fn user_add(&self, request: UserAdd) -> Result<UserInfo>;
    /// Users after a name.
    async fn user_list(&self, after: Option<&str>) -> Result<ListPage<UserInfo>>;
    /// Removes a user who owns no bucket, with all keys.
    async fn user_remove(&self, name: &str) -> Result<()>;
    /// Disables or enables a user.
    async fn user_set(&self, name: &str, state: AccountState) -> Result<UserInfo>;
    /// Adds an access key; durable when this returns.
    async fn key_add(&self, request: KeyAdd) -> Result<NewKey>;
    /// Keys, of one user or all, after one.
    async fn key_list(&self, user: Option<&str>, after: Option<&str>) -> Result<ListPage<KeyInfo>>;
    /// Removes an access key.
    async fn key_remove(&self, access_key: &str) -> Result<()>;
    /// Disables or enables an access key.
    async fn key_set(&self, access_key: &str, state: AccountState) -> Result<KeyInfo>;
}

/// Hands a request to the method it is for.
///
/// # Errors
/// As the method.
pub(super) async fn dispatch(api: &dyn AdminApi, request: Request) -> Result<Reply> {
    Ok(match request {
        Request::Status {} => Reply::Status(Box::new(api.status().await?)),
        Request::DiskList {} => Reply::Disks(api.disk_list().await?),
        Request::DiskDecide {
            disk,
            action,
            narrower,
        } => Reply::DiskDecided(api.disk_decide(&disk, action, narrower).await?),
        Request::DiskAdd {
            folder,
            replaces,
            pool,
        } => {
            let added = api.disk_add(&folder, replaces.as_deref(), pool.as_deref());
            Reply::DiskAdded(added.await?)
        }
        Request::DiskRemove { disk } => Reply::DiskRemoved(api.disk_remove(&disk).await?),
        Request::DiskReadmit { disk } => Reply::DiskReadmitted(api.disk_readmit(&disk).await?),
        Request::Scrub { disk } => {
            api.scrub(disk.as_deref()).await?;
            Reply::Done
        }
        Request::FsckStart { deep } => {
            api.fsck_start(deep).await?;
            Reply::Done
        }
        Request::Fsck {} => Reply::Fsck(api.fsck().await?),
        Request::FsckMore { page } => Reply::AtRisk(api.fsck_more(page).await?),
        Request::ScrubStatus {} => Reply::Scrubs(api.scrubs().await?),
        Request::Identity(request) => Reply::Identity(api.identity(request).await?),
        Request::Federation(request) => Reply::Federation(api.federation(request).await?),
        Request::Quota(request) => Reply::Quotas(api.quota(request).await?),
        Request::Share(request) => match api.share(request).await? {
            Some(shares) => Reply::Shares(shares),
            None => Reply::Done,
        },
        Request::KeyFile(request) => Reply::KeyFile(api.key_file(request).await?),
        Request::BackupStart { target, keep } => {
            api.backup_start(&target, keep).await?;
            Reply::Done
        }
        Request::Backup {} => Reply::Backup(api.backup().await?),
        Request::UserAdd(request) => Reply::User(api.user_add(request).await?),
        Request::UserList { after } => Reply::Users(api.user_list(after.as_deref()).await?),
        Request::UserRemove { name } => {
            api.user_remove(&name).await?;
            Reply::Done
        }
        Request::UserSet { name, state } => Reply::User(api.user_set(&name, state).await?),
        Request::KeyAdd(request) => Reply::NewKey(api.key_add(request).await?),
        Request::KeyList { user, after } => {
            Reply::Keys(api.key_list(user.as_deref(), after.as_deref()).await?)
        }
        Request::KeyRemove { access_key } => {
            api.key_remove(&access_key).await?;
            Reply::Done
        }
        Request::KeySet { access_key, state } => Reply::Key(api.key_set(&access_key, state).await?),
    })
}
