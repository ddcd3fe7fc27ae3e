//! The server that an admin command addresses. If it runs, the command uses its admin socket. If it
//! does not run, the command opens its store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dewar_admin::disks::{DiskInfo, DiskList};
use dewar_admin::status::Doors;
use dewar_admin::{AdminApi, AdminCommand, carry_out, read_reply};

use super::exit::{CONFLICT, CommandError, FAILED, UNAVAILABLE, USAGE};
use crate::admin_socket::AdminClient;
use crate::config::check::{Severity, findings};
use crate::config::{Config, ConfigError};
use crate::demo;
use crate::engine::{OpenEngine, Purpose, ServedStore};
use crate::lock::{LockError, StateLock, holder_of};
use crate::metrics::Metrics;
use crate::serve::StartError;
use crate::store_engine::known_folders::with_added;

/// The default configuration file.
const CONFIG_FILE: &str = "/etc/dewar/dewar.toml";

/// Names it where no option does.
const CONFIG_VARIABLE: &str = "DEWAR_CONFIG";

/// A server that holds the lock and does not answer is starting or stopping: it gets this long.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// Names a server by its configuration or by its demo's folder.
#[derive(Clone, Debug, Default, Args)]
pub struct ServerTarget {
    /// The server's configuration; without it and --dir what DEWAR_CONFIG names, else /etc/dewar/dewar.toml if that exists
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    pub config: Option<PathBuf>,
    /// The folder of a demo
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The file to read: the named one, else what the variable names, else the usual one if it exists.
pub(super) fn config_file(named: Option<&Path>) -> Option<PathBuf> {
    // Not clap's business: to it a variable that is set would be an option beside --dir.
    let variable = || std::env::var_os(CONFIG_VARIABLE).filter(|value| !value.is_empty());
    let named = named.map(Path::to_path_buf);
    named.or_else(|| variable().map(PathBuf::from)).or_else(|| {
        let usual = Path::new(CONFIG_FILE);
        usual.exists().then(|| usual.to_path_buf())
    })
}

pub(super) fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
    let file = config_file(named);
    let config = Config::load(file.as_deref(), std::env::vars_os())?;
    // Variables alone can be a configuration: they name disks then.
    if file.is_none() && config.pool.disks.is_empty() {
        return Err(ConfigError::Absent {
            usual: PathBuf::from(CONFIG_FILE),
        });
    }
    Ok(config)
}

impl ServerTarget {
    pub(super) fn load(&self) -> Result<Config, CommandError> {
        match &self.dir {
            None => Ok(load(self.config.as_deref())?),
            Some(dir) => {
                let file = dir.join(demo::CONFIG_FILE);
                let dir = dir.display();
                match file.try_exists() {
                    Ok(true) => {}
                    Ok(false) => {
                        let message =
                            format!("{dir} holds no demo: `dewar demo --dir {dir}` makes one");
                        return Err(CommandError::new(USAGE, message));
                    }
                    Err(error) => {
                        let message = format!("cannot look into {dir}: {error}");
                        return Err(CommandError::new(FAILED, message));
                    }
                }
                Ok(Config::load(Some(&file), std::env::vars_os())?)
            }
        }
    }
}

/// A way to a server's users and keys.
pub(super) enum AdminAccess {
    /// A running server's socket.
    Running(AdminClient),
    /// The store, opened by this process.
    Opened(Arc<dyn AdminApi>),
}

impl AdminAccess {
    pub(super) async fn ask<C: AdminCommand>(
        &mut self,
        command: C,
    ) -> Result<C::Reply, CommandError> {
        match self {
            Self::Running(client) => Ok(client.ask(&command).await?),
            Self::Opened(api) => {
                let uid = rustix::process::getuid().as_raw();
                let reply = carry_out(&**api, Box::new(command), uid).await?;
                Ok(read_reply::<C>(reply)?)
            }
        }
    }
}

/// Does `work` on the server that `target` means. While it runs, this goes over its socket; while
/// it does not, the store is opened under the lock that keeps a server from starting meanwhile.
pub(super) async fn reach<O: OpenEngine, T>(
    target: &ServerTarget,
    opener: &O,
    work: impl AsyncFnOnce(&mut AdminAccess) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let config = target.load()?;
    match client_or_lock(&config).await? {
        AdminRoute::Client(client) => work(&mut AdminAccess::Running(client)).await,
        AdminRoute::Lock(_lock) => {
            let config = with_added(&config);
            check_pool(&config)?;
            let opened = opener
                .open(&config, Purpose::Administer, &Metrics::new())
                .await;
            let engine = opened.map_err(|error| CommandError::from(StartError::Engine(error)))?;
            let result = work(&mut AdminAccess::Opened(engine.admin(Doors::default()))).await;
            engine.close().await;
            result
        }
    }
}

/// Lists the disks. If no server runs and the store does not open, reports that, and lists the
/// folders with their content.
pub(super) async fn list_disks<O: OpenEngine>(
    target: &ServerTarget,
    opener: &O,
) -> Result<(Vec<DiskInfo>, Option<CommandError>), CommandError> {
    let listed = reach(target, opener, async |reached: &mut AdminAccess| {
        reached.ask(DiskList {}).await
    });
    let why = match listed.await {
        Ok(disks) => return Ok((disks, None)),
        Err(why) => why,
    };
    let config = target.load()?;
    let Ok(AdminRoute::Lock(_lock)) = client_or_lock(&config).await else {
        return Err(why);
    };
    match opener.look_at_folders(&with_added(&config)).await {
        disks if disks.is_empty() => Err(why),
        disks => Ok((disks, Some(why))),
    }
}

/// While no server runs, and its store does not open because too few disks are left: puts a new disk in the
/// place of a lost one, so that it does.
pub(super) async fn replace_lost<O: OpenEngine>(
    target: &ServerTarget,
    opener: &O,
    old: &str,
    folder: &str,
) -> Result<(), CommandError> {
    let config = target.load()?;
    if let AdminRoute::Lock(_lock) = client_or_lock(&config).await? {
        let config = with_added(&config);
        check_pool(&config)?;
        let replaced = opener.replace_lost(&config, old, Path::new(folder)).await;
        replaced.map_err(|error| CommandError::from(StartError::Engine(error)))?;
    }
    Ok(())
}

/// The configuration and the lock of a server that does not run, for what must not happen under one.
pub(super) async fn offline(target: &ServerTarget) -> Result<(Config, StateLock), CommandError> {
    let config = target.load()?;
    match client_or_lock(&config).await? {
        AdminRoute::Client(_) => {
            let socket = config.admin_socket();
            let socket = socket.display();
            Err(CommandError::new(
                CONFLICT,
                format!("the server runs and has the disks open ({socket}): stop it first"),
            ))
        }
        AdminRoute::Lock(lock) => {
            let config = with_added(&config);
            check_pool(&config)?;
            Ok((config, lock))
        }
    }
}

/// Checks for errors that prevent a server from starting. They also prevent opening its store;
/// doors are not opened.
fn check_pool(config: &Config) -> Result<(), CommandError> {
    let wrong: Vec<String> = findings(config)
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .filter(|finding| finding.key.starts_with("pool."))
        .map(ToString::to_string)
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(CommandError::new(USAGE, wrong.join("\n"))),
    }
}

/// The running server that `target` means.
pub(super) async fn running(target: &ServerTarget) -> Result<AdminClient, CommandError> {
    let config = target.load()?;
    let socket = config.admin_socket();
    AdminClient::connect(&socket).await?.ok_or_else(|| {
        let socket = socket.display();
        let message = match holder_of(&config.server.state_dir) {
            Some(process) => format!(
                "nobody answers at {socket} yet, or any more: {process} has the store open and is \
                 starting, stopping or an admin command"
            ),
            None => format!(
                "no server runs: nobody answers at {socket}. `dewar serve` says why it does not start, and \
                 `dewar disk list` which disks are there. `dewar fsck` works without a server, if enough \
                 disks are there"
            ),
        };
        CommandError::new(UNAVAILABLE, message)
    })
}

enum AdminRoute {
    Client(AdminClient),
    Lock(StateLock),
}

async fn client_or_lock(config: &Config) -> Result<AdminRoute, CommandError> {
    let socket = config.admin_socket();
    let mut waited = Duration::ZERO;
    loop {
        if let Some(client) = AdminClient::connect(&socket).await? {
            return Ok(AdminRoute::Client(client));
        }
        match StateLock::take(&config.server.state_dir) {
            Ok(lock) => return Ok(AdminRoute::Lock(lock)),
            Err(LockError::Held { .. }) if waited < PATIENCE => {}
            // It is held by one that starts, stops or hangs: not now.
            Err(error @ LockError::Held { .. }) => {
                return Err(CommandError::new(UNAVAILABLE, error));
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
}
