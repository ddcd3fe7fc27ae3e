//! Admin requests of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use dewar_auth::User;
use dewar_disks::pool::Pool;
use dewar_env::Env;
use dewar_iam::NewUser;
use dewar_journal::{Journal, JournalState};
use dewar_store::Store;
use dewar_store::engine::Engine;
use dewar_types::{Error, ErrorKind, TenantName, Timestamp};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::catalog::BackupAdmin;
use super::changes::DiskChanges;
use super::key_file::KeyFile;
use super::pools::PoolFigures;
use super::share::{self, ShareEndpoint};
use super::upkeep::UpkeepAdmin;
use super::uploads;
use crate::admin::{
    AccountState, AdminApi, AdminError, AtRiskInfo, BackupInfo, DiskAction, DiskAdded, DiskDecided,
    DiskInfo, DiskReadmitted, DiskRemoved, Failure, FederationReply, FederationRequest, FsckInfo,
    IdentityReply, IdentityRequest, KeyAdd, KeyFileReply, KeyFileRequest, KeyInfo, ListPage,
    NewKey, PoolInfo, PoolStatus, QuotaInfo, QuotaRequest, ScrubInfo, ShareInfo, ShareRequest,
    Status, UserAdd, UserInfo,
};
use crate::audit::AuditLog;
use crate::config::Config;
use crate::engine::Doors;
use crate::issuers::WebKeys;

type Result<T> = std::result::Result<T, AdminError>;

/// Users or keys in one page.
const PAGE_ITEMS: usize = 1000;

/// Carries admin requests out on a store.
pub(super) struct StoreAdmin {
    env: Env,
    started: Duration,
    zone: u16,
    changes: DiskChanges,
    region: String,
    copies: Arc<AtomicU64>,
    doors: Doors,
    store: Store,
    pool: Arc<Pool>,
    journal: Journal,
    upkeep: UpkeepAdmin,
    backups: BackupAdmin,
    key_file: KeyFile,
    web_keys: WebKeys,
    audit: Arc<AuditLog>,
}

/// The parts beside the engine that admin requests use.
pub(super) struct AdminDeps {
    pub(super) web_keys: WebKeys,
    pub(super) audit: Arc<AuditLog>,
    /// Third-party copies that are under way.
    pub(super) copies: Arc<AtomicU64>,
    /// The doors for clients.
    pub(super) doors: Doors,
}

impl StoreAdmin {
    pub(super) fn new(
        env: Env,
        config: &Config,
        key_file: KeyFile,
        engine: &Engine,
        changes: DiskChanges,
        beside: AdminDeps,
    ) -> Self {
        let AdminDeps {
            web_keys,
            audit,
            copies,
            doors,
        } = beside;
        Self {
            started: env.clock.elapsed(),
            web_keys,
            audit,
            copies,
            env,
            zone: config.server.zone,
            region: config.s3.region.clone(),
            doors,
            upkeep: UpkeepAdmin::new(
                engine.store().clone(),
                Arc::clone(engine.pool()),
                changes.clone(),
            ),
            changes,
            backups: BackupAdmin::new(engine.backups(), engine.store().clone(), config),
            key_file,
            store: engine.store().clone(),
            pool: Arc::clone(engine.pool()),
            journal: engine.journal().clone(),
        }
    }

    /// The main pool, and the further ones.
    async fn pools(&self) -> Result<PoolStatus> {
        let figures = self.changes.pools(&self.pool, &self.journal);
        let notes = self.notes(&figures);
        let mut pools = figures.into_iter().map(|pool| PoolInfo {
            name: pool.name,
            layout: pool.layout.to_string(),
            margin: u32::try_from(pool.margin).unwrap_or(0),
            writable: pool.writable,
            total_bytes: pool.total_bytes,
            available_bytes: pool.available_bytes,
        });
        let main = pools
            .next()
            .ok_or_else(|| AdminError::new(Failure::Unavailable, "there is no pool"))?;
        Ok(PoolStatus {
            main,
            further: pools.collect(),
            disks: self.upkeep.disk_progress().await?,
            notes,
        })
    }

    fn notes(&self, pools: &[PoolFigures]) -> Vec<String> {
        let mut notes = Vec::new();
        match &self.journal.status().state {
            JournalState::Running => {}
            JournalState::Changing => notes.push("the journal is changing its disks".to_owned()),
            JournalState::Stalled(why) => notes.push(format!("writes wait: {why}")),
            JournalState::ReadOnly => notes.push("the journal is open for reading only".to_owned()),
            JournalState::Closed => notes.push("the journal is closed".to_owned()),
        }
        for (n, pool) in pools.iter().enumerate() {
            let (layout, live) = (pool.layout, pool.live);
            let (of, into) = match n {
                0 => (String::new(), String::new()),
                _ => (
                    format!(" of the pool {}", pool.name),
                    format!(" into the pool {}", pool.name),
                ),
            };
            match (&pool.now, layout.narrowed_to(live)) {
                (Ok(now), _) if *now == layout => {}
                (Ok(now), _) => notes.push(format!(
                    "new objects{of} are written as {now}, not {layout}"
                )),
                (Err(_), None) => notes.push(format!(
                    "only {live} disks{of} can be written: writes{into} are refused"
                )),
                (Err(full), Some(_)) => notes.push(format!(
                    "the disks{of} are full ({}): writes{into} are refused, deletes are not",
                    full.message()
                )),
            }
        }
        if let Some(why) = self.audit.failing() {
            notes.push(format!("the audit log cannot be written: {why}"));
        }
        notes
    }
}

#[async_trait]
impl AdminApi for StoreAdmin {
    fn audit(&self) -> Option<&AuditLog> {
        Some(&self.audit)
    }

    async fn status(&self) -> Result<Status> {
        let running = self.env.clock.elapsed().saturating_sub(self.started);
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: running.as_secs(),
            zone: self.zone,
            pool: self.pools().await?,
            ledger: self.upkeep.ledger().await?,
            repair: self.upkeep.repair(),
            doors: self.doors.list.clone(),
            troubles: (self.doors.troubles)(),
            copies: self.copies.load(Relaxed),
            uploads: uploads::open_uploads(&self.store, self.env.clock.now()).await?,
        })
    }

    async fn disk_list(&self) -> Result<Vec<DiskInfo>> {
        self.upkeep.disk_list().await
    }

    async fn disk_decide(
        &self,
        disk: &str,
        action: DiskAction,
        narrower: bool,
    ) -> Result<DiskDecided> {
        self.upkeep.disk_decide(disk, action, narrower).await
    }

    async fn disk_add(
        &self,
        folder: &str,
        replaces: Option<&str>,
        pool: Option<&str>,
    ) -> Result<DiskAdded> {
        self.upkeep.disk_add(folder, replaces, pool).await
    }

    async fn disk_remove(&self, disk: &str) -> Result<DiskRemoved> {
        self.upkeep.disk_remove(disk).await
    }

    async fn disk_readmit(&self, disk: &str) -> Result<DiskReadmitted> {
        self.upkeep.disk_readmit(disk).await
    }

    async fn scrub(&self, disk: Option<&str>) -> Result<()> {
        self.upkeep.scrub(disk).await
    }

    async fn fsck_start(&self, deep: bool) -> Result<()> {
        self.upkeep.fsck_start(deep)
    }

    async fn fsck(&self) -> Result<FsckInfo> {
        Ok(self.upkeep.fsck())
    }

    async fn fsck_more(&self, page: u64) -> Result<AtRiskInfo> {
        self.upkeep.fsck_more(page).await
    }

    async fn scrubs(&self) -> Result<Vec<ScrubInfo>> {
        self.upkeep.scrubs().await
    }

    async fn identity(&self, request: IdentityRequest) -> Result<IdentityReply> {
        super::identity::answer(&self.store, request).await
    }

    async fn federation(&self, request: FederationRequest) -> Result<FederationReply> {
        super::federation::answer(&self.store, &self.web_keys, request).await
    }

    async fn quota(&self, request: QuotaRequest) -> Result<Vec<QuotaInfo>> {
        super::quota::answer(&self.store, request).await
    }

    async fn share(&self, request: ShareRequest) -> Result<Option<Vec<ShareInfo>>> {
        let mut doors = self.doors.list.iter();
        let at = ShareEndpoint {
            endpoint: doors
                .find(|door| door.name == "s3")
                .map(|door| &*door.endpoint),
            region: &self.region,
        };
        share::answer(&self.store, &self.env, &at, request).await
    }

    async fn key_file(&self, request: KeyFileRequest) -> Result<KeyFileReply> {
        self.key_file.answer(request).await
    }

    async fn backup_start(&self, target: &str, keep: u32) -> Result<()> {
        self.backups.start(target, keep).await
    }

    async fn backup(&self) -> Result<BackupInfo> {
        Ok(self.backups.status())
    }

    async fn user_add(&self, request: UserAdd) -> Result<UserInfo> {
        let new = NewUser {
            name: request.name,
            tenant: TenantName::new(request.tenant.as_deref().unwrap_or_default())
                .map_err(Error::from)?,
            path: String::new(),
            display_name: request.display_name,
            email: request.email,
            tenant_admin: request.tenant_admin,
        };
        Ok(user_info(&self.store.accounts().make_user(new).await?))
    }

    async fn user_list(&self, after: Option<&str>) -> Result<ListPage<UserInfo>> {
        let users = self.store.accounts().users().await?;
        let after = after.unwrap_or_default();
        let rest = users
            .iter()
            .map(user_info)
            .filter(|user| *user.name > *after);
        let mut users: Vec<_> = rest.collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(page(users, |user| user.name.clone()))
    }

    async fn user_remove(&self, name: &str) -> Result<()> {
        let mut user = self.store.accounts().user(name).await?;
        let accounts = self.store.accounts();
        if user.is_root()
            && !accounts
                .users_of(&user.tenant, &user.name)
                .await?
                .is_empty()
        {
            let message = format!("user {name} has an account with users");
            return Err(AdminError::new(Failure::InUse, message));
        }
        // Of a disabled one it must be known too whether buckets are left.
        user.disabled = false;
        let caller = dewar_auth::Caller::for_user(user);
        if let Some(bucket) = self
            .store
            .list_buckets(&caller, None, 1)
            .await?
            .buckets
            .first()
        {
            return Err(AdminError::new(
                Failure::InUse,
                format!("user {name} owns buckets, {} among them", bucket.name),
            ));
        }
        Ok(self.store.accounts().remove_user(name).await?)
    }

    async fn user_set(&self, name: &str, state: AccountState) -> Result<UserInfo> {
        let accounts = self.store.accounts();
        accounts
            .set_user_disabled(name, state == AccountState::Disabled)
            .await?;
        Ok(user_info(&accounts.user(name).await?))
    }

    async fn key_add(&self, request: KeyAdd) -> Result<NewKey> {
        let (access_key, secret_key) = self
            .store
            .accounts()
            .add_key(&request.user, request.access_key, request.secret_key)
            .await?;
        Ok(NewKey {
            user: request.user,
            access_key,
            secret_key,
        })
    }

    async fn key_list(&self, user: Option<&str>, after: Option<&str>) -> Result<ListPage<KeyInfo>> {
        let keys = self.store.accounts().access_keys(user).await?;
        let after = after.unwrap_or_default();
        let rest = keys
            .iter()
            .filter(|key| *key.access_key > *after)
            .map(key_info);
        Ok(page(rest.collect(), |key| key.access_key.clone()))
    }

    async fn key_remove(&self, access_key: &str) -> Result<()> {
        Ok(self.store.accounts().remove_key(access_key).await?)
    }

    async fn key_set(&self, access_key: &str, state: AccountState) -> Result<KeyInfo> {
        let accounts = self.store.accounts();
        accounts
            .set_key_disabled(access_key, state == AccountState::Disabled)
            .await?;
        let keys = accounts.access_keys(None).await?;
        let key = keys
            .iter()
            .find(|key| key.access_key == access_key)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::NotFound,
                    format!("there is no access key {access_key:?}"),
                )
            })?;
        Ok(key_info(key))
    }
}

fn page<T>(mut items: Vec<T>, name: impl Fn(&T) -> String) -> ListPage<T> {
    let more = items.len() > PAGE_ITEMS;
    items.truncate(PAGE_ITEMS);
    let next = items.last().filter(|_| more).map(name);
    ListPage { items, next }
}

fn state(disabled: bool) -> AccountState {
    if disabled {
        AccountState::Disabled
    } else {
        AccountState::Enabled
    }
}

pub(super) fn rfc3339(time: Timestamp) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(time.0))
        .ok()
        .and_then(|time| time.replace_nanosecond(0).ok())
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}

fn user_info(user: &User) -> UserInfo {
    UserInfo {
        name: match user.tenant.as_str() {
            "" => user.name.clone(),
            tenant => format!("{tenant}:{}", user.name),
        },
        id: user.id.to_string(),
        account: user.account.to_string(),
        arn: user.arn(),
        display_name: user.display_name.clone(),
        email: user.email.clone(),
        tenant_admin: user.tenant_admin,
        state: state(user.disabled),
        created: rfc3339(user.created),
    }
}

fn key_info(key: &dewar_iam::KeyInfo) -> KeyInfo {
    KeyInfo {
        access_key: key.access_key.clone(),
        user: key.user.clone(),
        state: state(key.disabled),
        user_state: state(key.user_disabled),
        created: rfc3339(key.created),
    }
}
