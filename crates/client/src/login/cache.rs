//! Stored logins: a file of mode 0600, and the token file that other tools look for.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::clock;

/// An access token that ends sooner than this is renewed, in seconds.
const FRESH_SECS: u64 = 60;

/// One login. Its tokens are secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Login {
    pub(super) issuer: String,
    /// The id of the client that logged in.
    pub(super) client: String,
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// When the access token ends, in seconds since 1970.
    pub(super) expires: u64,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
}

impl Login {
    pub(super) fn is_fresh(&self) -> bool {
        clock::unix_s() + FRESH_SECS < self.expires
    }
}

/// All logins of a person on this machine, the latest last.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Logins {
    pub(super) logins: Vec<Login>,
}

impl Logins {
    /// The one of an issuer, or the latest.
    pub(super) fn of(&self, issuer: Option<&str>) -> Option<&Login> {
        match issuer {
            None => self.logins.last(),
            Some(issuer) => self.logins.iter().find(|login| login.issuer == issuer),
        }
    }

    pub(super) fn put(&mut self, login: Login) {
        self.logins.retain(|other| other.issuer != login.issuer);
        self.logins.push(login);
    }
}

/// The locked file. Concurrent commands renew a login one after the other, because a refresh token
/// may be valid only once.
pub(super) struct LoginCache {
    path: PathBuf,
    _lock: File,
}

impl LoginCache {
    /// Opens the file of this person, and waits for others that have it.
    pub(super) fn open() -> Result<Self> {
        let folder = folder()?;
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("make {}", folder.display()))?;
        let lock = folder.join("logins.lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock)
            .with_context(|| format!("open {}", lock.display()))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .with_context(|| format!("lock {}", lock.display()))?;
        Ok(Self {
            path: folder.join("logins.json"),
            _lock: file,
        })
    }

    pub(super) fn read(&self) -> Result<Logins> {
        let shown = self.path.display();
        match fs::metadata(&self.path) {
            Ok(metadata) => ensure!(
                metadata.mode() & 0o077 == 0,
                "{shown} can be read by others: chmod 600 {shown}, and log in anew"
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Logins::default()),
            Err(error) => return Err(error).with_context(|| format!("read {shown}")),
        }
        let text = fs::read(&self.path).with_context(|| format!("read {shown}"))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{shown} is damaged: remove it and log in anew"))
    }

    pub(super) fn write(&self, logins: &Logins) -> Result<()> {
        let text = serde_json::to_vec(logins).context("write down a login")?;
        replace(&self.path, &text)
    }
}

fn folder() -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = match named("XDG_CONFIG_HOME") {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(named("HOME").context("neither XDG_CONFIG_HOME nor HOME is set")?)
            .join(".config"),
    };
    Ok(base.join("dewar"))
}

/// The file in which other tools look for a token (WLCG bearer token discovery).
pub(super) fn token_file() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(file) = named("BEARER_TOKEN_FILE") {
        return file.into();
    }
    let name = format!("bt_u{}", rustix::process::geteuid().as_raw());
    let folder = named("XDG_RUNTIME_DIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    folder.join(name)
}

pub(super) fn write_token(login: &Login) -> Result<PathBuf> {
    let path = token_file();
    replace(&path, login.access.as_bytes())?;
    Ok(path)
}

/// Removes the token file, if it has a token of this login.
pub(super) fn remove_token(login: &Login) -> Result<()> {
    let path = token_file();
    let found = fs::read_to_string(&path).unwrap_or_default();
    if found.trim() != login.access {
        return Ok(());
    }
    fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))
}

/// Replaces a file by one of mode 0600, as a whole. A symbolic link is replaced and not followed,
/// because others may be able to write to the folder.
fn replace(path: &Path, text: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(name);
    let written = (|| {
        let _ = fs::remove_file(&beside);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    written.with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(issuer: &str, access: &str) -> Login {
        Login {
            issuer: issuer.into(),
            client: "c".into(),
            access: access.into(),
            refresh: None,
            expires: 0,
            token_endpoint: String::new(),
            revocation_endpoint: None,
        }
    }

    #[test]
    fn the_latest_login_is_meant_where_none_is_named() {
        let mut logins = Logins::default();
        logins.put(login("a", "1"));
        logins.put(login("b", "2"));
        logins.put(login("a", "3"));
        assert_eq!(logins.logins.len(), 2);
        assert_eq!(logins.of(None).map(|l| l.access.as_str()), Some("3"));
        assert_eq!(logins.of(Some("b")).map(|l| l.access.as_str()), Some("2"));
        assert!(logins.of(Some("c")).is_none());
        assert!(!login("a", "1").is_fresh());
    }

    #[test]
    fn a_secret_file_is_its_owners_alone_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("token"), folder.path().join("other"));
        fs::write(&other, "other").expect("writable");
        std::os::unix::fs::symlink(&other, &path).expect("linked");
        replace(&path, b"secret").expect("written");
        let metadata = fs::symlink_metadata(&path).expect("there");
        assert!(metadata.is_file() && metadata.mode() & 0o777 == 0o600);
        assert_eq!(fs::read_to_string(&other).expect("readable"), "other");
    }
}
