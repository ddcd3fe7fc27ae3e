//! TLS 1.2 and 1.3 with certificates that can be replaced while the server runs.
//!
//! The files are checked every few seconds and on SIGHUP. Open connections keep their certificate.
//! If a new certificate cannot be read, or does not belong to its key, the old one stays in use. A
//! renewal in progress looks the same, so no error is logged for [`RENEWAL_TIME`].

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use dewar_admin::status::HealthIssue;
use dewar_types::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

use crate::certificate::CertificateFacts;

/// Interval of checks of the files.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// Longest time of a renewal, from its first file to its last, before it counts as failed.
pub const RENEWAL_TIME: Duration = Duration::from_secs(30);

/// Permission bits that the file of a private key must not have: any access for others, and writing
/// by its group. Its group may read it: system services get keys that root renews in this way.
const KEY_MODE_FORBIDDEN: u32 = 0o027;

/// Time before the end of a certificate from which on it is a problem.
pub const EXPIRY_NOTICE: Duration = Duration::from_secs(14 * 86_400);

/// A PEM file larger than this is none.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file holds nothing usable.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The missing or wrong part; never a part of a key.
        reason: String,
    },
    /// Both can be read and do not belong together.
    #[error("the key {} does not belong to the certificate {}", key.display(), certificate.display())]
    Mismatch {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
    },
}

impl TlsError {
    /// The file it is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. } | Self::Content { path, .. } => path,
            Self::Mismatch { key, .. } => key,
        }
    }
}

/// Attributes that show that a file was replaced, without reading it.
type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

/// The certificate that a door shows, and the files it comes from.
pub struct Tls {
    certificate_file: PathBuf,
    key_file: PathBuf,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
    tried: Mutex<ReloadAttempt>,
    /// The last warning about its end.
    warned: Mutex<Option<ExpiryWarning>>,
}

/// A warning about the end of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExpiryWarning {
    expires: i64,
    expired: bool,
}

/// The last try to read the files.
struct ReloadAttempt {
    /// Of the files as they were then.
    stamp: Stamp,
    /// Since when they cannot be used.
    failing: Option<Failing>,
}

#[derive(Clone)]
struct Failing {
    since: Instant,
    /// Why, once it was said.
    told: Option<String>,
}

#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({})", self.certificate_file.display())
    }
}

impl Tls {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// They cannot be read, have no usable content, or do not belong together.
    pub fn open(certificate_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        let stamp = stamp(certificate_file, key_file);
        let certified = read(certificate_file, key_file)?;
        let current = Arc::new(Current(ArcSwap::from_pointee(certified)));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .expect("the provider has cipher suites for both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            certificate_file: certificate_file.to_path_buf(),
            key_file: key_file.to_path_buf(),
            current,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            tried: Mutex::new(ReloadAttempt {
                stamp,
                failing: None,
            }),
            warned: Mutex::default(),
        })
    }

    /// Reads the files again and uses the new certificate from the next handshake on.
    ///
    /// # Errors
    /// As [`Tls::open`]; the old certificate stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let stamp = stamp(&self.certificate_file, &self.key_file);
        self.tried().stamp = stamp;
        let certified = read(&self.certificate_file, &self.key_file)?;
        self.current.0.store(Arc::new(certified));
        Ok(())
    }

    fn tried(&self) -> MutexGuard<'_, ReloadAttempt> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads if the files changed since the last attempt, or could not be used then. Logs success
    /// immediately and failure once, after [`RENEWAL_TIME`].
    pub fn reload_if_changed(&self) {
        let now = stamp(&self.certificate_file, &self.key_file);
        let before = {
            let tried = self.tried();
            if tried.stamp == now && tried.failing.is_none() {
                return;
            }
            tried.failing.clone()
        };
        let Err(error) = self.reload() else {
            self.taken_up();
            return;
        };
        let mut failing = before.unwrap_or(Failing {
            since: Instant::now(),
            told: None,
        });
        if failing.since.elapsed() >= RENEWAL_TIME && failing.told.is_none() {
            failing.told = Some(error.to_string());
            not_taken_up(&error);
        }
        self.tried().failing = Some(failing);
    }

    /// Reloads and logs what happened.
    pub fn reload_and_log(&self) {
        match self.reload() {
            Ok(()) => self.taken_up(),
            Err(error) => {
                not_taken_up(&error);
                self.tried().failing = Some(Failing {
                    since: Instant::now(),
                    told: Some(error.to_string()),
                });
            }
        }
    }

    /// The facts in the certificate in use; `None` for one that cannot be parsed.
    #[must_use]
    pub fn facts(&self) -> Option<CertificateFacts> {
        CertificateFacts::of(&self.current.0.load().cert)
    }

    /// A warning if the certificate in use ends soon or has ended.
    fn expiry_warning(&self, now: Timestamp) -> Option<ExpiryWarning> {
        let expires = self.facts()?.expires;
        let left = expires.saturating_sub_unsigned(now.secs());
        let notice = i64::try_from(EXPIRY_NOTICE.as_secs()).unwrap_or(i64::MAX);
        (left < notice).then_some(ExpiryWarning {
            expires,
            expired: left <= 0,
        })
    }

    /// Logs once that the certificate ends soon, and once that it has ended.
    pub fn warn_of_expiry(&self, now: Timestamp) {
        let warning = self.expiry_warning(now);
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if *warned == warning {
            return;
        }
        *warned = warning;
        let Some(ExpiryWarning { expires, expired }) = warning else {
            return;
        };
        let certificate = self.certificate_file.display();
        let end = day(expires);
        match expired {
            true => tracing::error!(%certificate, %end, "the TLS certificate has expired"),
            false => tracing::warn!(%certificate, %end, "the TLS certificate expires soon"),
        }
    }

    /// A problem if the certificate in use ends soon or has ended.
    pub(crate) fn expiry_trouble(&self, now: Timestamp) -> Option<HealthIssue> {
        let ExpiryWarning { expires, expired } = self.expiry_warning(now)?;
        let (certificate, end) = (self.certificate_file.display(), day(expires));
        Some(HealthIssue {
            what: match expired {
                true => format!("the TLS certificate {certificate} expired on {end}"),
                false => format!("the TLS certificate {certificate} expires on {end}"),
            },
            advice: "renew it: replace the files, and Dewar takes them up within seconds"
                .to_owned(),
        })
    }

    /// A problem if the files have an unusable certificate, with the time since when.
    pub(crate) fn trouble(&self) -> Option<HealthIssue> {
        let failing = self.tried().failing.clone()?;
        Some(HealthIssue {
            what: format!(
                "the TLS certificate {} was renewed and is not in use: {}",
                self.certificate_file.display(),
                failing.told?
            ),
            advice: "clients are shown the old one until the files are mended; they are looked at every \
                     few seconds"
                .to_owned(),
        })
    }

    fn taken_up(&self) {
        self.tried().failing = None;
        let certificate = self.certificate_file.display();
        tracing::info!(%certificate, "new TLS certificate in use");
    }

    /// Looks at the files every [`WATCH_INTERVAL`] until dropped. Calls `looked` at first and after each
    /// look.
    pub async fn watch(&self, looked: impl Fn(&Self)) {
        loop {
            looked(self);
            tokio::time::sleep(WATCH_INTERVAL).await;
            self.reload_if_changed();
        }
    }

    /// The handshake of one connection.
    ///
    /// # Errors
    /// The client does not use TLS, or uses a version that is not allowed.
    pub async fn accept<T>(&self, stream: T) -> io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream).await
    }
}

/// The day of a time in seconds since 1970.
fn day(seconds: i64) -> String {
    let moment = time::OffsetDateTime::from_unix_timestamp(seconds);
    moment.map_or_else(|_| seconds.to_string(), |moment| moment.date().to_string())
}

fn not_taken_up(error: &TlsError) {
    tracing::error!(%error, "TLS certificate not changed; the old one stays in use");
}

/// Reads certificate and key as a server would, and changes nothing. Returns what the certificate says
/// about itself.
///
/// # Errors
/// As [`Tls::open`].
pub fn check(
    certificate_file: &Path,
    key_file: &Path,
) -> Result<Option<CertificateFacts>, TlsError> {
    let certified = read(certificate_file, key_file)?;
    Ok(CertificateFacts::of(&certified.cert))
}

fn stamp(certificate: &Path, key: &Path) -> Stamp {
    [certificate, key]
        .iter()
        .map(|path| {
            // Links are followed: renewals often exchange the link.
            let found = std::fs::metadata(path).ok()?;
            Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
        })
        .collect()
}

/// Reads a private key's file, if others can neither read nor replace it.
fn read_key_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    read_file(path, |found| {
        let (mode, owner) = (found.mode() & 0o7777, found.uid());
        if mode & KEY_MODE_FORBIDDEN != 0 {
            return Err(format!(
                "has mode {mode:04o}, so that others may use it: chmod 0600, and think of replacing it"
            ));
        }
        let own = rustix::process::geteuid().as_raw();
        if owner != own && owner != 0 {
            return Err(format!(
                "belongs to uid {owner}, neither to root nor to uid {own}, the user of this process"
            ));
        }
        Ok(())
    })
}

fn read_file(
    path: &Path,
    sound: impl Fn(&Metadata) -> Result<(), String>,
) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let failed = |source| TlsError::Read {
        path: path.to_path_buf(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    sound(&found).map_err(|reason| TlsError::Content {
        path: path.to_path_buf(),
        reason,
    })?;
    let length = found.len();
    // Space for all of it at once: growing would leave copies of a key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        usize::try_from(length.min(FILE_BYTES_MAX)).unwrap_or(0) + 1,
    ));
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

fn read(certificate_file: &Path, key_file: &Path) -> Result<CertifiedKey, TlsError> {
    let content = |path: &Path, reason: String| TlsError::Content {
        path: path.to_path_buf(),
        reason,
    };
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&read_file(certificate_file, |_| Ok(()))?)
            .collect::<Result<_, _>>()
            .map_err(|error| content(certificate_file, format!("not PEM: {error}")))?;
    if chain.is_empty() {
        return Err(content(certificate_file, "holds no certificate".to_owned()));
    }
    // The decoder's own words could repeat what it read.
    let key = PrivateKeyDer::from_pem_slice(&read_key_file(key_file)?)
        .map_err(|_| content(key_file, "holds no private key in PEM".to_owned()))?;
    let key = aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|error| content(key_file, error.to_string()))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(TlsError::Mismatch {
                certificate: certificate_file.to_path_buf(),
                key: key_file.to_path_buf(),
            })
        }
        // A key that cannot tell its public half is believed.
        Err(rustls::Error::InconsistentKeys(_)) => Ok(certified),
        Err(error) => Err(content(certificate_file, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};
    use rustls::ClientConfig;
    use rustls::RootCertStore;
    use rustls_pki_types::ServerName;
    use tokio_rustls::TlsConnector;

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn make(dir: &Path) -> (Vec<u8>, String) {
        let Made { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("certificate");
        std::fs::write(dir.join("cert.pem"), cert.pem()).expect("write");
        let key = signing_key.serialize_pem();
        std::fs::write(dir.join("key.pem"), &key).expect("write");
        set_mode(dir, 0o600);
        (cert.der().to_vec(), key)
    }

    fn set_mode(dir: &Path, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.join("key.pem"), mode).expect("chmod");
    }

    #[test]
    fn a_key_that_others_may_use_is_refused() {
        let dir = tempfile::tempdir().expect("folder");
        make(dir.path());
        for mode in [0o644, 0o604, 0o660, 0o601, 0o602] {
            set_mode(dir.path(), mode);
            let error = open(dir.path()).expect_err("refused").to_string();
            assert!(error.contains("key.pem: has mode"), "{error}");
            assert!(error.contains(&format!("{mode:04o}")), "{error}");
            assert!(check(&dir.path().join("cert.pem"), &dir.path().join("key.pem")).is_err());
        }
        for mode in [0o600, 0o400, 0o640] {
            set_mode(dir.path(), mode);
            open(dir.path()).expect("safe");
        }
        // Nor is one taken up that became so while the old one was in use.
        let tls = open(dir.path()).expect("opens");
        set_mode(dir.path(), 0o644);
        tls.reload().expect_err("refused");
    }

    fn open(dir: &Path) -> Result<Tls, TlsError> {
        Tls::open(&dir.join("cert.pem"), &dir.join("key.pem"))
    }

    /// The certificate that a client is shown, or why there is none.
    async fn shown(
        tls: &Tls,
        trusted: &[u8],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Result<Vec<u8>, String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from(trusted.to_vec()))
            .expect("root");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").expect("name");
        let (server, client) = tokio::join!(tls.accept(far), connector.connect(name, near));
        let client = client.map_err(|error| error.to_string())?;
        server.map_err(|error| error.to_string())?;
        let chain = client.get_ref().1.peer_certificates().expect("chain");
        Ok(chain[0].to_vec())
    }

    const BOTH: &[&rustls::SupportedProtocolVersion] =
        &[&rustls::version::TLS12, &rustls::version::TLS13];

    #[tokio::test]
    async fn a_new_certificate_is_shown_and_a_bad_one_is_not() {
        let dir = tempfile::tempdir().expect("folder");
        let (first, _) = make(dir.path());
        let tls = open(dir.path()).expect("opens");
        assert_eq!(shown(&tls, &first, BOTH).await, Ok(first.clone()));

        // Half a renewal: the new certificate is there, its key is not.
        let other = tempfile::tempdir().expect("folder");
        let (second, _) = make(other.path());
        std::fs::copy(other.path().join("cert.pem"), dir.path().join("cert.pem")).expect("copy");
        assert!(matches!(tls.reload(), Err(TlsError::Mismatch { .. })));
        tls.reload_if_changed();
        assert_eq!(shown(&tls, &first, BOTH).await, Ok(first.clone()));

        std::fs::copy(other.path().join("key.pem"), dir.path().join("key.pem")).expect("copy");
        tls.reload_if_changed();
        assert_eq!(shown(&tls, &second, BOTH).await, Ok(second.clone()));

        for (file, bad) in [("cert.pem", "nonsense"), ("key.pem", ""), ("cert.pem", "")] {
            std::fs::write(dir.path().join(file), bad).expect("write");
            assert!(tls.reload().is_err());
        }
        std::fs::remove_file(dir.path().join("cert.pem")).expect("remove");
        assert!(tls.reload().is_err());
        assert_eq!(shown(&tls, &second, BOTH).await, Ok(second));
    }

    #[tokio::test(start_paused = true)]
    async fn the_watch_takes_up_a_new_certificate_by_itself() {
        let dir = tempfile::tempdir().expect("folder");
        make(dir.path());
        let tls = Arc::new(open(dir.path()).expect("opens"));
        let watched = Arc::clone(&tls);
        let watch = tokio::spawn(async move { watched.watch(|_| {}).await });
        let (second, _) = make(dir.path());
        tokio::time::sleep(WATCH_INTERVAL * 2).await;
        assert_eq!(shown(&tls, &second, BOTH).await, Ok(second));
        watch.abort();
    }

    #[test]
    fn a_certificate_that_ends_soon_is_told() {
        let dir = tempfile::tempdir().expect("folder");
        make(dir.path());
        let tls = open(dir.path()).expect("opens");
        let expires = tls.facts().expect("well formed").expires.cast_unsigned();
        let seconds = |seconds: u64| Timestamp(seconds * 1_000_000_000);
        let told = |now| tls.expiry_trouble(seconds(now)).map(|trouble| trouble.what);
        let notice = EXPIRY_NOTICE.as_secs();
        assert_eq!(told(expires - notice), None);
        let soon = told(expires - notice + 1).expect("told");
        assert!(soon.contains(" expires on "), "{soon}");
        let late = told(expires).expect("told");
        assert!(late.contains(" expired on "), "{late}");
        // Each is logged once.
        for now in [expires - notice + 1, expires - 1, expires, expires + 1] {
            tls.warn_of_expiry(seconds(now));
            let warned = *tls.warned.lock().expect("no panic");
            assert_eq!(warned.map(|warned| warned.expired), Some(now >= expires));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_renewal_is_nothing_to_speak_of() {
        let dir = tempfile::tempdir().expect("folder");
        make(dir.path());
        let tls = open(dir.path()).expect("opens");
        let told = |tls: &Tls| {
            let failing = tls.tried().failing.clone();
            failing.map(|failing| failing.told.is_some())
        };
        let other = tempfile::tempdir().expect("folder");
        let (second, _) = make(other.path());
        let copy = |name| {
            std::fs::copy(other.path().join(name), dir.path().join(name)).expect("copy");
        };
        copy("cert.pem");
        tls.reload_if_changed();
        assert_eq!(told(&tls), Some(false));
        assert!(tls.trouble().is_none());
        tokio::time::advance(RENEWAL_TIME / 2).await;
        tls.reload_if_changed();
        assert_eq!(told(&tls), Some(false));
        tokio::time::advance(RENEWAL_TIME / 2).await;
        tls.reload_if_changed();
        assert_eq!(told(&tls), Some(true), "and it is said in the end");
        let trouble = tls.trouble().expect("told").what;
        assert!(trouble.contains("does not belong to"), "{trouble}");
        copy("key.pem");
        tls.reload_if_changed();
        assert_eq!(told(&tls), None);
        assert!(tls.trouble().is_none());
        assert_eq!(shown(&tls, &second, BOTH).await, Ok(second));
    }

    #[tokio::test]
    async fn both_versions_and_no_older_one() {
        let dir = tempfile::tempdir().expect("folder");
        let (der, _) = make(dir.path());
        let tls = open(dir.path()).expect("opens");
        for version in BOTH {
            assert!(shown(&tls, &der, &[version]).await.is_ok());
        }
        // A TLS 1.1 hello: record 3.1, version 3.2, one old suite, no extensions.
        let mut hello = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 2];
        hello.extend([7; 32]);
        hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
        let (mut near, far) = tokio::io::duplex(4096);
        tokio::io::AsyncWriteExt::write_all(&mut near, &hello)
            .await
            .expect("write");
        assert!(tls.accept(far).await.is_err());
    }

    #[test]
    fn errors_name_the_file_and_hold_no_key() {
        let dir = tempfile::tempdir().expect("folder");
        let (_, key) = make(dir.path());
        let cut = key.replace("END", "ENDE");
        std::fs::write(dir.path().join("key.pem"), &cut).expect("write");
        let error = open(dir.path()).expect_err("refused");
        let said = format!("{error} {error:?}");
        assert!(said.contains("key.pem"), "{said}");
        let line = key.lines().nth(1).expect("a line of the key");
        assert!(!said.contains(&line[..16]), "{said}");
        std::fs::remove_file(dir.path().join("cert.pem")).expect("remove");
        let said = open(dir.path()).expect_err("refused").to_string();
        assert!(said.contains("cert.pem"), "{said}");
    }
}
