//! The engine of this process: disks, journal, catalog, blobs and the store on them.
//!
//! This module handles configuration files, administrators and the fronts. [`dewar_engine`]
//! makes a store from disks. All present disks are inspected first, and nothing is written before
//! all of them are known to belong to this deployment. A pool is formatted only at the very first
//! start: every configured folder exists and is blank, and the state folder has no record of a pool
//! ([`dewar_engine::host::format_pool`]).

mod catalog;
mod disk_config;
pub(crate) mod known_folders;
mod metrics;
mod rebuild_report;
mod replace_lost_disk;
mod transfers;
mod usage_metrics;
mod xrootd;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use dewar_admin::catalog::{CatalogInfo, RebuildRequest, RestoreRequest};
use dewar_admin::disks::DiskInfo;
use dewar_admin::status::Doors;
use dewar_admin::{
    AdminApi, AdminContext, AdminError, BackupAdmin, DiskChanges, KeyFileAdmin, UpkeepAdmin,
    done_here,
};
use dewar_audit::{AuditConfig, AuditLog, AuditRates};
use dewar_auth::{Caller, MasterKeys, Ownership, Secret};
use dewar_disks::pool::DewarId;
use dewar_disks::upkeep::UpkeepConfig;
use dewar_engine::host::master_key_file::{self, PoolKey};
use dewar_engine::host::pool_state_file::{self, RememberedDisk};
use dewar_engine::host::{PoolStateFile, format_pool, probe};
use dewar_engine::{BackgroundWork, Engine, EngineConfig, Folders, LiveFolders};
use dewar_env::Env;
use dewar_http_front::HttpFront;
use dewar_iam::{AccountLimits, FederationConfig, MacaroonRequest};
use dewar_journal::{JournalState, OpenError};
use dewar_s3::DoorConfig;
use dewar_store::api::BucketRef;
use dewar_store::lifecycle::LifecycleConfig;
use dewar_store::{DigestLimits, ListingConfig, Store};
use dewar_transfer::TransferRegistry;
use dewar_types::{BucketName, Error, ErrorKind};
use dewar_webdav::{ThirdPartyCopies, WebDav, WebDavConfig};

use disk_config::disk_config;

use crate::cli::confirm_loss;
use crate::config::Config;
use crate::engine::{OpenEngine, Purpose, ServedStore};
use crate::issuers::WebKeys;
use crate::listener::{BoxError, FrontContext, Fronts, ListenerSpec};
use crate::metrics::{Metrics, Readiness};
use crate::serve::{s3_listener, webdav_listener, xrootd_listener};
use crate::srr::{ReportReaders, SrrFront, StorageReport};
use crate::trust_store::TrustStore;

/// How long closing may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// Opens [`StoreEngine`]s.
pub struct OpenStore {
    /// Clock and randomness.
    pub env: Env,
}

/// An open store.
pub struct StoreEngine {
    env: Env,
    config: Config,
    key_file: KeyFileAdmin,
    engine: Engine,
    changes: DiskChanges,
    s3: Arc<dewar_s3::Door>,
    web_keys: Arc<WebKeys>,
    audit: Arc<AuditLog>,
    /// The certificate authorities that it trusts as a client.
    trusted: Arc<TrustStore>,
    /// Third-party copies.
    transfers: Arc<TransferRegistry>,
    /// The WebDAV front of all listeners, which count the failed logins of an address together.
    webdav: OnceLock<Arc<WebDav>>,
    /// Keeps the keys of issuers fresh while it serves.
    keeper: Option<tokio::task::JoinHandle<()>>,
}

impl OpenStore {
    /// With the operating system's clock and randomness.
    #[must_use]
    pub fn real() -> Self {
        Self { env: Env::real() }
    }
}

/// Sets what accounts may make, and what that may take in memory.
fn limit_accounts(store: &Store, config: &crate::config::Accounts) {
    let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    store.accounts().set_limits(AccountLimits {
        users: number(config.users_max),
        groups: number(config.groups_max),
        roles: number(config.roles_max),
        policies: number(config.policies_max),
        keys_per_user: number(config.keys_per_user),
        groups_per_user: number(config.groups_per_user),
        attached_policies: number(config.attached_policies),
        managed_policy_chars: number(config.managed_policy_size),
        user_policy_chars: number(config.user_policy_size),
        group_policy_chars: number(config.group_policy_size),
        role_policy_chars: number(config.role_policy_size),
    });
    let compiled = bytes(config.compiled_policies.0);
    store.accounts().set_compiled_bytes_max(compiled);
    let remembered = bytes(config.remembered_directories.0);
    store.tree().set_cached_bytes_max(remembered);
}

/// The parts that the other parts depend on.
struct OpenContext {
    folders: Folders,
    dewar: DewarId,
    master: Arc<MasterKeys>,
    engine: EngineConfig,
}

impl OpenStore {
    /// Inspects the disks, creates the pool at its very first start, and reads the master key.
    async fn ground(&self, config: &Config, purpose: Purpose) -> Result<OpenContext, BoxError> {
        let env = &self.env;
        let mut folders = probe(&config.folders(), config.pool.disk_deadline).await;
        folders.check_unused()?;
        let small = config.pool.small_object_threshold.0;
        let engine = EngineConfig {
            zone: config.server.zone,
            small_bytes_max: u32::try_from(small).unwrap_or(u32::MAX),
            upkeep: UpkeepConfig {
                repair_busy: config.upkeep.repair_rate.0,
                repair_idle: config.upkeep.repair_rate_idle.0,
                scrub_busy: config.upkeep.scrub_rate.0,
                scrub_idle: config.upkeep.scrub_rate_idle.0,
                scrub_every: config.upkeep.scrub_interval,
                out_after: config.upkeep.rebuild_after,
                ..UpkeepConfig::default()
            },
            lifecycle: LifecycleConfig {
                day: config.lifecycle.day,
                classes: config.classes(),
                uploads_expire_after: config.lifecycle.uploads_expire_after,
                strict_classes: config.lifecycle.strict_storage_classes,
            },
            listing: ListingConfig {
                names_max: usize::try_from(config.listing.names_max).unwrap_or(usize::MAX),
                expensive_max: usize::try_from(config.listing.expensive_max).unwrap_or(usize::MAX),
            },
            ownership: Ownership::parse(&config.s3.object_ownership).unwrap_or_default(),
            digests: DigestLimits {
                running_max: usize::try_from(config.pool.checksums_max).unwrap_or(usize::MAX),
                time_max: config.pool.checksum_time_max,
            },
            ..EngineConfig::new(config.layout())
        };
        let mut engine = engine;
        engine.journal.file_bytes = config.testing.journal_file_size.0;
        let further = config.further_pools().into_iter();
        let engine = further.fold(engine, |engine, pool| {
            engine.with_pool(pool.number(), pool.layout)
        });
        let birth = format_pool::find(&config.server.state_dir, &folders, purpose.serves())?;
        let key_file = config.master_key_file();
        let made = birth.makes_pool();
        let pool_key = if birth.is_fresh() {
            PoolKey::Fresh
        } else {
            PoolKey::Existing(birth.key())
        };
        let disks: Vec<_> = config.folders().into_iter().map(|(disk, _)| disk).collect();
        let master = master_key_file::open(&key_file, &disks, pool_key, &*env.rng)?;
        let master = Arc::new(master);
        let born = birth
            .finish(env, &config.server.state_dir, &engine, &folders, &master)
            .await?;
        if made {
            // Blank folders have become disks.
            folders = probe(&config.folders(), config.pool.disk_deadline).await;
        }
        Ok(OpenContext {
            folders,
            dewar: born.dewar,
            master,
            engine,
        })
    }
}

impl OpenEngine for OpenStore {
    type Engine = StoreEngine;

    async fn open(
        &self,
        config: &Config,
        purpose: Purpose,
        metrics: &Metrics,
    ) -> Result<StoreEngine, BoxError> {
        let env = &self.env;
        let mut ground = self.ground(config, purpose).await?;
        if let Purpose::AcceptLoss(code) = purpose {
            let (engine, dewar) = (&ground.engine, ground.dewar);
            match Engine::loss(env, engine, dewar, &ground.folders).await? {
                Some(mut report) => {
                    report.text = pool_state_file::spelled(&config.server.state_dir, &report.text);
                    confirm_loss(&report, code)?;
                    ground.engine.journal.accept_loss = true;
                }
                None => tracing::warn!("--accept-loss: there is none, so nothing was accepted"),
            }
        }
        let work = match purpose {
            Purpose::Serve | Purpose::AcceptLoss(_) => BackgroundWork::On,
            Purpose::Administer => BackgroundWork::Off,
        };
        let engine = Engine::open(
            env,
            &ground.engine,
            ground.dewar,
            &ground.folders,
            Arc::clone(&ground.master),
            work,
        )
        .await
        .map_err(|error| hint(config, purpose, error))?;
        if let Some(rebuilt) = engine.store().disks().rebuilt().await? {
            tracing::warn!(
                source = rebuilt.source,
                upto = rebuilt.upto,
                "the catalog was rebuilt or restored, and what it does not name is kept: stop, and \
                 `dewar catalog rebuild` puts it back, with --discard-unnamed it is given up"
            );
        }
        limit_accounts(engine.store(), &config.accounts);
        limit_logins(engine.store(), config);
        let audit = Arc::new(AuditLog::open(audit_config(config), env)?);
        engine
            .store()
            .authorizer()
            .set_sink(Arc::clone(&audit) as _);
        if purpose.serves() {
            rebuild_report::forget_ended(config, false)?;
            let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
            audit.note(
                "server:start",
                format!("version {version}, process {process}"),
            );
        }
        let s3 = s3_front(engine.store().clone(), env.clone(), config);
        let folders = LiveFolders::new(ground.folders, &engine);
        let roster = Arc::new(PoolStateFile::open(&config.server.state_dir)?);
        let changes = DiskChanges::new(disk_config(config), &engine, folders, Arc::clone(&roster));
        if purpose.serves() {
            changes.keep_looking(&engine).await;
        }
        changes.note().map_err(|error| error.message)?;
        // A rotation may have been cut short before this was written.
        roster.note_master_key(ground.master.current())?;
        let key_file = KeyFileAdmin::new(
            env.clone(),
            config.master_key_file(),
            config.testing.key_settle_time,
            engine.store().clone(),
            roster,
        );
        let trusted = Arc::new(TrustStore::new(config.server.authority_folder.clone()));
        let web_keys = Arc::new(WebKeys::new(Arc::clone(&trusted)));
        let keeper = (purpose.serves()).then(|| {
            let (store, fetcher) = (engine.store().clone(), Arc::clone(&web_keys));
            let unknown_every = config.testing.unknown_key_interval;
            tokio::spawn(async move { store.accounts().keep_keys(fetcher, unknown_every).await })
        });
        if purpose.serves() {
            warn_of_unknown_folders(&changes);
        }
        let transfers = transfers::registry(config, env, purpose)?;
        metrics::register(metrics, &engine, &changes, &audit, &transfers);
        Ok(StoreEngine {
            env: env.clone(),
            config: config.clone(),
            key_file,
            engine,
            changes,
            s3,
            web_keys,
            audit,
            trusted,
            transfers,
            webdav: OnceLock::new(),
            keeper,
        })
    }

    async fn replace_lost(
        &self,
        config: &Config,
        old: &str,
        folder: &Path,
    ) -> Result<(), BoxError> {
        self.go_on_with(config, old, folder).await
    }

    async fn look_at_folders(&self, config: &Config) -> Vec<DiskInfo> {
        let folders = probe(&config.folders(), config.pool.disk_deadline).await;
        let known = pool_state_file::known_disks(&config.server.state_dir, &folders);
        let info = |disk: RememberedDisk| DiskInfo {
            number: disk.number,
            id: disk.id.map(|id| id.to_string()),
            path: Some(disk.path),
            state: disk.state.to_owned(),
            ..DiskInfo::default()
        };
        known.into_iter().map(info).collect()
    }

    async fn rebuild(
        &self,
        config: &Config,
        wish: RebuildRequest,
    ) -> Result<CatalogInfo, BoxError> {
        let (dry_run, target) = (wish.dry_run, flags(&wish));
        let result = self.rebuild_catalog(config, wish).await;
        self.told(config, "admin:catalog-rebuild", target, dry_run, &result);
        result
    }

    async fn restore(
        &self,
        config: &Config,
        wish: RestoreRequest,
    ) -> Result<CatalogInfo, BoxError> {
        let (dry_run, target) = (wish.dry_run, wish.source.display().to_string());
        let result = self.restore_catalog(config, wish).await;
        self.told(config, "admin:catalog-restore", target, dry_run, &result);
        result
    }
}

impl OpenStore {
    /// Records the change of the catalog in the audit log. The catalog has changed already. If the
    /// log cannot be written, that is reported and changes nothing.
    fn told(
        &self,
        config: &Config,
        action: &'static str,
        target: String,
        dry_run: bool,
        result: &Result<CatalogInfo, BoxError>,
    ) {
        if dry_run {
            return;
        }
        let said = match result {
            Ok(info) => Ok(catalog::summary(info)),
            Err(error) => Err(error.to_string()),
        };
        match AuditLog::open(audit_config(config), &self.env) {
            Ok(log) => {
                done_here(&log, action, target, &said);
                if !log.flush() {
                    tracing::error!("the audit log does not tell of it");
                }
            }
            Err(error) => tracing::error!(%error, "the audit log does not tell of it"),
        }
    }
}

/// The options that were consented to.
fn flags(wish: &RebuildRequest) -> String {
    let flags = [
        (wish.accept_loss, "--accept-loss"),
        (wish.discard_unnamed, "--discard-unnamed"),
    ];
    let given = flags.iter().filter(|(given, _)| *given);
    given.map(|(_, flag)| *flag).collect::<Vec<_>>().join(" ")
}

/// Says which disks are missing that no known folder has.
fn warn_of_unknown_folders(changes: &DiskChanges) {
    for id in changes.nowhere() {
        tracing::warn!(
            disk = %id,
            "a disk of the pool is missing, and its folder is not known: mount it and name its \
             folder in pool.disks"
        );
    }
}

/// Bounds which logins from outside are taken, and for how long.
fn limit_logins(store: &Store, config: &Config) {
    store.accounts().set_federation(FederationConfig {
        provider_hosts: config.federation.provider_hosts.clone(),
        audiences: config.federation.audiences.clone(),
        client_trust: config.federation.client_trust,
        session_tag_keys: config.federation.session_tag_keys,
    });
    let lifetime_max = config.security.token_lifetime_max;
    store.accounts().limit_token_lifetime(lifetime_max);
}

/// How the audit log is to be kept.
fn audit_config(config: &Config) -> AuditConfig {
    AuditConfig {
        folder: config.audit_folder(),
        reads: config.audit.reads,
        file_bytes: config.audit.file_size.0,
        files_max: usize::try_from(config.audit.files_max).unwrap_or(usize::MAX),
        rates: AuditRates {
            data: config.audit.account_records_per_minute,
            security: config.audit.account_security_records_per_minute,
        },
        unwritable: config.audit.unwritable.0,
    }
}

/// The S3 front as configured.
fn s3_front(store: Store, env: Env, config: &Config) -> Arc<dewar_s3::Door> {
    let s3 = DoorConfig {
        region: config.s3.region.clone(),
        domains: config.s3.domains.clone(),
    };
    Arc::new(dewar_s3::Door::new(store, env, s3))
}

/// The WebDAV front as configured. Its copies never connect to an address of this server.
fn webdav_front(engine: &StoreEngine, addresses: &[SocketAddr]) -> Arc<WebDav> {
    let config = &engine.config;
    let mut public_urls = config.server.public_urls.clone();
    let scheme = match config.webdav.tls_certificate_file {
        Some(_) => "https",
        None => "http",
    };
    for (scheme, listen) in [
        (scheme, &config.webdav.listen),
        ("http", &config.webdav.plain_listen),
    ] {
        let listen = listen.iter();
        let listen = listen.filter(|address| !address.ip().is_unspecified() && address.port() != 0);
        public_urls.extend(listen.map(|address| format!("{scheme}://{address}")));
    }
    let webdav = WebDavConfig {
        recursive_delete: config.webdav.recursive_delete,
        propfind_infinity: config.webdav.propfind_infinity,
        public_urls,
    };
    let trusted = Arc::clone(&engine.trusted);
    let client = transfers::client(config, engine.env.clone(), addresses, trusted);
    let front = WebDav::new(engine.engine.store().clone(), engine.env.clone(), webdav);
    Arc::new(front.with_copies(ThirdPartyCopies {
        client: Arc::new(client),
        registry: Arc::clone(&engine.transfers),
    }))
}

/// Adds advice to the error of a pool that does not open, and names disks by their folders.
fn hint(config: &Config, purpose: Purpose, error: Error) -> Error {
    let mut at = std::error::Error::source(&error);
    let mut short = false;
    let mut few_left = false;
    while let Some(source) = at {
        few_left |= matches!(
            source.downcast_ref::<OpenError>(),
            Some(OpenError::TooFewLeft(_))
        );
        short |= matches!(
            source.downcast_ref::<OpenError>(),
            Some(OpenError::TooFewMembers { .. } | OpenError::Lost { .. })
        );
        at = source.source();
    }
    let mut message = pool_state_file::spelled(&config.server.state_dir, &error.to_string());
    let mut add = |advice: &str| {
        let end = if message.ends_with(['.', '?']) {
            " "
        } else {
            ". "
        };
        message.push_str(end);
        message.push_str(advice);
    };
    if short && !matches!(purpose, Purpose::AcceptLoss(_)) {
        add(
            "If they are gone for good, `dewar serve --accept-loss` says what that loses and how to \
             consent to it",
        );
    }
    if few_left {
        add(
            "For each that is gone for good: `dewar disk replace DISK NEW-FOLDER` puts a new disk in its \
             place, and nothing is lost by that",
        );
    }
    if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) {
        add(
            "If no disk that has it can be brought back: `dewar catalog rebuild --dry-run` says what \
             can be had without, and `dewar restore FOLDER` takes a backup",
        );
    }
    Error::with_source(error.kind(), message, error)
}

impl StoreEngine {
    /// The WebDAV front of this process, which listens on `addresses`.
    fn webdav(&self, addresses: &[SocketAddr]) -> Arc<WebDav> {
        let front = self.webdav.get_or_init(|| webdav_front(self, addresses));
        Arc::clone(front)
    }

    /// A front with the storage report beside it. `domains` are those in front of which a bucket may
    /// stand.
    fn http_fronts(
        &self,
        front: Arc<dyn HttpFront>,
        domains: Vec<String>,
        context: FrontContext,
    ) -> Fronts {
        let webdav = &self.config.webdav;
        // It knows the callers, whichever listener answers.
        let callers = self.webdav(&context.addresses);
        let report = StorageReport::new(
            self.engine.store().clone(),
            Arc::clone(self.engine.pool()),
            self.env.clone(),
            context.listeners,
            self.config.server.public_urls.clone(),
        );
        let srr = Arc::new(SrrFront {
            report: Arc::new(report),
            path: webdav.srr_path.clone(),
            readers: ReportReaders::of(&webdav.srr_readers),
            webdav: callers,
            domains,
            beside: Arc::clone(&front),
        });
        let mut fronts = vec![
            (Cow::from("/"), front),
            (Cow::from("/.well-known"), Arc::clone(&srr) as _),
        ];
        if !webdav.srr_path.is_empty() {
            fronts.push((Cow::from(webdav.srr_path.clone()), srr));
        }
        Fronts::Http(fronts)
    }
}

#[async_trait]
impl ServedStore for StoreEngine {
    fn listeners(config: &Config) -> Vec<ListenerSpec<Self>> {
        vec![
            s3_listener(config, |engine, context| {
                let domains = engine.config.s3.domains.clone();
                engine.http_fronts(Arc::clone(&engine.s3) as _, domains, context)
            }),
            webdav_listener(config, |engine, context| {
                let front = engine.webdav(&context.addresses);
                engine.http_fronts(front as _, Vec::new(), context)
            }),
            xrootd_listener(config, |engine, context| {
                Fronts::Socket(xrootd::front(
                    engine.engine.store().clone(),
                    engine.env.clone(),
                    &engine.config.xrootd,
                    &engine.trusted,
                    context,
                    Arc::clone(&engine.transfers),
                ))
            }),
        ]
    }

    fn admin(&self, doors: Doors) -> Arc<dyn AdminApi> {
        let (engine, changes) = (&self.engine, self.changes.clone());
        let (store, pool) = (engine.store().clone(), Arc::clone(engine.pool()));
        Arc::new(AdminContext {
            env: self.env.clone(),
            started: self.env.clock.elapsed(),
            zone: self.config.server.zone,
            region: self.config.s3.region.clone(),
            transfers: Arc::clone(&self.transfers),
            doors,
            upkeep: UpkeepAdmin::new(self.env.clone(), Arc::clone(&pool), changes.clone()),
            backups: BackupAdmin::new(
                self.env.clone(),
                engine.backups(),
                store.clone(),
                catalog::effective(&self.config),
                pool_state_file::path(&self.config.server.state_dir),
            ),
            store,
            pool,
            journal: engine.journal().clone(),
            changes,
            key_file: self.key_file.clone(),
            web_keys: Arc::clone(&self.web_keys) as _,
            audit: Arc::clone(&self.audit),
            workers: Arc::clone(engine.workers()),
        })
    }

    fn take_up(&self, config: &Config) {
        self.transfers
            .set_limits(transfers::limits(&config.transfer));
    }

    fn readiness(&self) -> Readiness {
        match self.engine.journal().status().state {
            JournalState::Running | JournalState::Changing => Readiness::Ready,
            JournalState::Stalled(why) => Readiness::NotReady(why),
            JournalState::ReadOnly => Readiness::NotReady("read only".to_owned()),
            JournalState::Closed => Readiness::NotReady("closed".to_owned()),
        }
    }

    async fn ensure_bucket(&self, owner: &str, bucket: &str) -> Result<(), AdminError> {
        let store = self.engine.store();
        let user = store.accounts().user(owner).await?;
        let name = BucketName::new(bucket).map_err(Error::from)?;
        let made = store
            .create_bucket(&Caller::for_user(user), &BucketRef::own(name))
            .await;
        match made {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyOwned => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn macaroon(&self, user: &str) -> Result<Secret, AdminError> {
        let accounts = self.engine.store().accounts();
        let caller = Caller::for_user(accounts.user(user).await?);
        let request = MacaroonRequest {
            seconds: Some(u64::MAX),
            location: "localhost".to_owned(),
            ..MacaroonRequest::default()
        };
        Ok(accounts.macaroon(&caller, request).await?.0)
    }

    fn end_long_requests(&self) {
        self.transfers.end_all();
    }

    async fn close(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
        if let Err(error) = self.engine.close(CLOSE_PATIENCE).await {
            tracing::warn!(%error, "the catalog was not closed cleanly; the next start takes longer");
        }
        if !self.transfers.flush() {
            tracing::error!("the records of transfers end without their last ones");
        }
        if self.keeper.is_some() {
            self.audit.note("server:stop", String::new());
        }
        if !self.audit.flush() {
            tracing::error!("the audit log ends without its last records");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lost_the_catalog_hears_what_to_type() {
        let config = Config::default();
        let said = |kind, what: &str| {
            let error = Error::new(kind, what);
            hint(&config, Purpose::Serve, error).to_string()
        };
        let gone = said(
            ErrorKind::NotFound,
            "no disk has a manifest of the catalog index",
        );
        assert!(gone.contains("`dewar catalog rebuild --dry-run`"), "{gone}");
        assert!(gone.contains("`dewar restore FOLDER`"), "{gone}");
        let busy = said(ErrorKind::Unavailable, "too few disks");
        assert_eq!(busy, "too few disks");
    }
}
