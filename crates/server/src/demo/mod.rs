//! `dewar demo`: a storage element on a laptop.
//!
//! Everything lives in one folder, [`default_folder`] unless another is given:
//!
//! ```text
//! DIR/dewar.toml          the configuration; written once, then yours to change
//! DIR/demo.json           the demo's access key, mode 0600
//! DIR/events.root         a sample for the lines that the demo prints
//! DIR/certificates        the certificate authority of its https, as X509_CERT_DIR wants it
//! DIR/webdav.pem          its certificate, and DIR/webdav-key.pem the key
//! DIR/disk1 … DIR/disk6   the disks of a 4+2 pool
//! DIR/lock, DIR/admin.sock, DIR/master.key
//! ```
//!
//! The configuration is written last when a demo is set up: while it is absent, setting up starts
//! over; once it is there no disk folder is ever created again, so that one which was taken away
//! counts as a missing disk.

mod authority;
mod instructions;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use dewar_admin::accounts::{KeyAdd, KeyList, UserAdd};
use dewar_admin::status::Doors;
use dewar_admin::{AdminError, Failure};
use dewar_auth::Secret;
use dewar_engine::host::private_file::{FileError, replace_private_file};
use dewar_env::Rng;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::config::{Config, ConfigError};
use crate::credentials;
use crate::engine::ServedStore;
use crate::serve::{DemoCredentials, Running};

pub use instructions::{instructions, program};

/// Disks of the demo's pool: enough for 4+2.
pub const DISKS: usize = 6;

/// The first port, if none is given.
pub const PORT_BASE: u16 = 9000;

/// User and bucket of the demo.
pub const NAME: &str = "demo";

/// The name of the configuration file in the demo's folder.
pub const CONFIG_FILE: &str = "dewar.toml";

const CREDENTIALS_FILE: &str = "demo.json";

/// A file of ROOT with the tree `Events`, for the lines that the demo prints. `testdata/make_events.py` wrote it.
const SAMPLE: &[u8] = include_bytes!("../../testdata/events.root");

/// The path of the sample in the demo's folder.
const SAMPLE_FILE: &str = "events.root";

/// Why there is no demo.
#[derive(Debug, Error)]
pub enum DemoError {
    /// A folder or file cannot be made or read.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The failed action.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The configuration has mistakes.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file with the credentials is none.
    #[error("{} is damaged: remove it to get new credentials", .0.display())]
    Damaged(PathBuf),
    /// The certificate of the WebDAV door cannot be made.
    #[error("cannot make a certificate for the demo: {0}")]
    Certificate(rcgen::Error),
    /// There are not enough ports after the first.
    #[error("--port-base {0} leaves no room for the other doors: take one below 65532")]
    PortBase(u16),
    /// The user, key or bucket cannot be made.
    #[error("cannot set up the {what} of the demo: {source}")]
    Setup {
        /// The failed action.
        what: &'static str,
        /// Why it failed.
        source: AdminError,
    },
}

/// The credentials of the demo.
#[derive(Serialize, Deserialize)]
struct Credentials {
    access_key: String,
    #[serde(with = "dewar_admin::secret_text")]
    secret_key: Secret,
}

/// A demo that is set up and can be started.
pub struct Demo {
    /// Its configuration.
    pub config: Config,
    /// The path of the configuration file.
    pub config_file: PathBuf,
    shown: Credentials,
    /// Its folder, from the root.
    pub folder: PathBuf,
}

/// `$XDG_DATA_HOME/dewar-demo`, otherwise `~/.local/share/dewar-demo`, otherwise `dewar-demo` in
/// the working directory.
#[must_use]
pub fn default_folder() -> PathBuf {
    let folder = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    folder("XDG_DATA_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_default()
        .join("dewar-demo")
}

impl Demo {
    /// Finds the demo in `folder`, or sets it up. `port_base` overrides the ports that the
    /// configuration names; 0 takes any free ones.
    ///
    /// # Errors
    /// The folder cannot be written to, or holds files that are not a demo's.
    pub fn prepare(
        folder: &Path,
        port_base: Option<u16>,
        rng: &dyn Rng,
    ) -> Result<Self, DemoError> {
        // Links that are resolved later must not depend on where this process was started.
        let folder = std::path::absolute(folder).map_err(failed(folder, "use"))?;
        let config_file = folder.join(CONFIG_FILE);
        let ports = ports(port_base.unwrap_or(PORT_BASE))?;
        if !config_file
            .try_exists()
            .map_err(failed(&folder, "look into"))?
        {
            create_folder(&folder)?;
            for disk in 1..=DISKS {
                create_folder(&folder.join(format!("disk{disk}")))?;
            }
            replace_private_file(&config_file, config_text(ports).as_bytes())?;
        }
        authority::prepare(&folder)?;
        let sample = folder.join(SAMPLE_FILE);
        if !sample.try_exists().map_err(failed(&sample, "look at"))? {
            replace_private_file(&sample, SAMPLE)?;
        }
        let mut demo = Self {
            config: Config::default(),
            config_file,
            shown: credentials(&folder.join(CREDENTIALS_FILE), rng)?,
            folder,
        };
        demo.config = demo.load(port_base)?;
        Ok(demo)
    }

    /// Reads the configuration, also again after a change.
    ///
    /// # Errors
    /// It has mistakes.
    pub fn load(&self, port_base: Option<u16>) -> Result<Config, ConfigError> {
        let mut config = Config::load(Some(&self.config_file), std::env::vars_os())?;
        if let Some(Ok([s3, metrics, xrootd, webdav, webdav_tls])) = port_base.map(ports) {
            for (addresses, port) in [
                (&mut config.s3.listen, s3),
                (&mut config.metrics.listen, metrics),
                (&mut config.xrootd.listen, xrootd),
                (&mut config.webdav.plain_listen, webdav),
                (&mut config.webdav.listen, webdav_tls),
            ] {
                addresses
                    .iter_mut()
                    .for_each(|address| address.set_port(port));
            }
        }
        Ok(config)
    }

    /// Creates the user, the key and the bucket if they are missing. Existing ones are only read,
    /// so that a demo with too few disks to write starts all the same.
    ///
    /// # Errors
    /// One of them is missing and cannot be created.
    pub async fn fill<E: ServedStore>(
        &self,
        running: &Running<E>,
    ) -> Result<DemoCredentials, DemoError> {
        let admin = running.engine().admin(Doors::default());
        let failed = |what| move |source| DemoError::Setup { what, source };
        let keys = KeyList {
            user: Some(NAME.to_owned()),
            after: None,
        };
        if !exists(admin.ask(keys).await, |page| {
            page.items
                .iter()
                .any(|key| key.access_key == self.shown.access_key)
        })
        .map_err(failed("key"))?
        {
            match admin
                .ask(UserAdd {
                    name: NAME.to_owned(),
                    ..UserAdd::default()
                })
                .await
            {
                Err(error) if error.kind != Failure::Exists => {
                    return Err(failed("user")(error));
                }
                _ => {}
            }
            let request = KeyAdd {
                user: NAME.to_owned(),
                access_key: Some(self.shown.access_key.clone()),
                secret_key: Some(self.shown.secret_key.clone()),
            };
            admin.ask(request).await.map_err(failed("key"))?;
        }
        running
            .engine()
            .ensure_bucket(NAME, NAME)
            .await
            .map_err(failed("bucket"))?;
        let token = running.engine().macaroon(NAME).await;
        Ok(DemoCredentials {
            access_key: self.shown.access_key.clone(),
            secret_key: self.shown.secret_key.clone(),
            bucket: NAME.to_owned(),
            token: token.map_err(failed("token"))?,
            authorities: authority::authority_folder(&self.folder),
        })
    }
}

/// Whether a list contains an item. The list of something that does not exist is empty.
fn exists<T>(
    listed: Result<T, AdminError>,
    holds: impl FnOnce(&T) -> bool,
) -> Result<bool, AdminError> {
    match listed {
        Ok(list) => Ok(holds(&list)),
        Err(error) if error.kind == Failure::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> DemoError {
    let path = path.to_path_buf();
    move |source| DemoError::Io {
        path,
        doing,
        source,
    }
}

fn create_folder(path: &Path) -> Result<(), DemoError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed(path, "create"))
}

/// The ports of the S3 door, of the metrics endpoint, of the XRootD door, and of the WebDAV door without
/// and with TLS.
fn ports(base: u16) -> Result<[u16; 5], DemoError> {
    match base {
        0 => Ok([0; 5]),
        base if base <= u16::MAX - 4 => Ok([base, base + 1, base + 2, base + 3, base + 4]),
        base => Err(DemoError::PortBase(base)),
    }
}

fn config_text([s3, metrics, xrootd, webdav, webdav_tls]: [u16; 5]) -> String {
    let (certificate, key) = (authority::CERTIFICATE_FILE, authority::KEY_FILE);
    let authorities = authority::AUTHORITY_FOLDER;
    let disks: Vec<String> = (1..=DISKS).map(|disk| format!("\"disk{disk}\"")).collect();
    format!(
        "# The configuration of this demo: `dewar serve --config` on this file serves the same.\n\
         # Relative paths start at this folder. `dewar config explain` tells every key.\n\
         \n\
         [server]\n\
         state_dir = \".\"\n\
         # Third-party copies and issuers may have certificates of these authorities.\n\
         authority_folder = \"{authorities}\"\n\
         \n\
         [pool]\n\
         name = \"demo\"\n\
         disks = [{}]\n\
         layout = \"4+2\"\n\
         \n\
         [s3]\n\
         listen = \"127.0.0.1:{s3}\"\n\
         domains = [\"localhost\"]\n\
         \n\
         [xrootd]\n\
         listen = \"127.0.0.1:{xrootd}\"\n\
         # Programs of the Unix user who runs this need no credential for root://.\n\
         local_user = \"{NAME}\"\n\
         # Third-party copies may come from this machine, and from the public network.\n\
         tpc_sources = [\"127.0.0.0/8\", \"::1\", \"*\"]\n\
         \n\
         [webdav]\n\
         listen = \"127.0.0.1:{webdav_tls}\"\n\
         tls_certificate_file = \"{certificate}\"\n\
         tls_key_file = \"{key}\"\n\
         plain_listen = \"127.0.0.1:{webdav}\"\n\
         \n\
         [transfer]\n\
         # Copies may go from and to other servers on this machine. This server is never among them.\n\
         allow = [\"127.0.0.0/8\", \"::1\"]\n\
         \n\
         [metrics]\n\
         listen = \"127.0.0.1:{metrics}\"\n",
        disks.join(", ")
    )
}

fn credentials(path: &Path, rng: &dyn Rng) -> Result<Credentials, DemoError> {
    match fs::read(path) {
        Ok(text) => {
            let text = Zeroizing::new(text);
            serde_json::from_slice(&text).map_err(|_| DemoError::Damaged(path.to_path_buf()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = Credentials {
                access_key: credentials::access_key(rng),
                secret_key: credentials::secret_key(rng),
            };
            let text = serde_json::to_vec_pretty(&made).expect("strings are JSON");
            replace_private_file(path, &Zeroizing::new(text))?;
            Ok(made)
        }
        Err(error) => Err(failed(path, "read")(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use dewar_env::RealRng;

    use super::*;

    #[test]
    fn is_set_up_once_and_found_again() {
        let dir = tempfile::tempdir().expect("folder");
        let folder = dir.path().join("deep/demo");
        let demo = Demo::prepare(&folder, None, &RealRng).expect("sets up");
        assert_eq!(demo.config.pool.disks.len(), DISKS);
        assert_eq!(demo.config.layout().to_string(), "4+2");
        assert!(demo.config.pool.disks.iter().all(|disk| disk.is_dir()));
        assert_eq!(demo.config.s3.listen[0].to_string(), "127.0.0.1:9000");
        assert_eq!(demo.config.metrics.listen[0].to_string(), "127.0.0.1:9001");
        assert_eq!(demo.config.xrootd.listen[0].to_string(), "127.0.0.1:9002");
        let webdav = &demo.config.webdav;
        assert_eq!(webdav.plain_listen[0].to_string(), "127.0.0.1:9003");
        assert_eq!(webdav.listen[0].to_string(), "127.0.0.1:9004");
        assert_eq!(webdav.tls_key_file, Some(folder.join("./webdav-key.pem")));
        assert_eq!(demo.config.admin_socket(), folder.join("./admin.sock"));
        let mode = |name| fs::metadata(folder.join(name)).expect("there").mode() & 0o777;
        assert_eq!((mode(CREDENTIALS_FILE), mode(CONFIG_FILE)), (0o600, 0o600));
        assert_eq!(mode("."), 0o700);

        // A disk that was taken away is not made again.
        fs::rename(folder.join("disk2"), dir.path().join("away")).expect("rename");
        let again = Demo::prepare(&folder, None, &RealRng).expect("finds");
        assert!(!folder.join("disk2").exists());
        assert_eq!(again.shown.access_key, demo.shown.access_key);
        assert_eq!(again.shown.secret_key, demo.shown.secret_key);
        assert_eq!(again.config, demo.config);

        // And the folder may be moved.
        let moved = dir.path().join("moved");
        fs::rename(&folder, &moved).expect("rename");
        let again = Demo::prepare(&moved, None, &RealRng).expect("finds");
        assert_eq!(again.config.pool.disks[0], moved.join("disk1"));
        assert_eq!(again.shown.access_key, demo.shown.access_key);
    }

    #[test]
    fn ports_follow_the_base() {
        let dir = tempfile::tempdir().expect("folder");
        let ports = |demo: &Demo| {
            (
                demo.config.s3.listen[0].port(),
                demo.config.metrics.listen[0].port(),
                demo.config.xrootd.listen[0].port(),
                demo.config.webdav.plain_listen[0].port(),
                demo.config.webdav.listen[0].port(),
            )
        };
        let prepare = |base| Demo::prepare(dir.path(), base, &RealRng);
        assert_eq!(
            ports(&prepare(Some(9500)).expect("sets up")),
            (9500, 9501, 9502, 9503, 9504)
        );
        assert_eq!(
            ports(&prepare(None).expect("finds")),
            (9500, 9501, 9502, 9503, 9504),
            "as it was set up"
        );
        assert_eq!(
            ports(&prepare(Some(9600)).expect("finds")),
            (9600, 9601, 9602, 9603, 9604)
        );
        assert_eq!(ports(&prepare(Some(0)).expect("finds")), (0, 0, 0, 0, 0));
        assert!(prepare(Some(65532)).is_err());
    }

    #[test]
    fn setting_up_that_was_interrupted_starts_over() {
        let dir = tempfile::tempdir().expect("folder");
        fs::create_dir(dir.path().join("disk1")).expect("create");
        let demo = Demo::prepare(dir.path(), None, &RealRng).expect("sets up");
        assert!(demo.config.pool.disks.iter().all(|disk| disk.is_dir()));
        fs::write(dir.path().join(CREDENTIALS_FILE), "{").expect("write");
        let error = Demo::prepare(dir.path(), None, &RealRng)
            .err()
            .expect("damaged");
        assert!(
            error.to_string().contains("demo.json is damaged"),
            "{error}"
        );
    }
}
