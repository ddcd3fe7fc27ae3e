//! Certificate authorities that this server trusts as a client: those of the system, and those of a
//! folder as grid sites have it.

mod folder;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateRevocationListDer;
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::time::Instant;

pub(crate) use folder::AuthorityFolder;

/// Age at which the folder is read again: lists of revoked certificates change daily.
const REFRESH_TIME: Duration = Duration::from_secs(10 * 60);

/// TLS for outgoing connections. The certificates of the system are read once, at first use. With a
/// folder, all of them are read again from time to time.
#[derive(Default)]
pub(crate) struct TrustStore {
    folder: Option<PathBuf>,
    made: Mutex<Option<MadeConfig>>,
    /// Held by the one who reads. The others use what was made before, if there is something.
    reading: AsyncMutex<()>,
}

#[derive(Clone)]
struct MadeConfig {
    /// When reading began.
    read: Instant,
    config: Arc<ClientConfig>,
    /// The folder could be read.
    whole: bool,
}

impl TrustStore {
    /// Trusts the authorities in `folder` too.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            made: Mutex::default(),
            reading: AsyncMutex::default(),
        }
    }

    /// The certificates may be [`REFRESH_TIME`] old, and older if the folder cannot be read any more. If it could
    /// never be read, only those of the system are trusted.
    ///
    /// # Errors
    /// Why nobody can be believed, in words.
    pub(crate) async fn client(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(config) = self.fresh() {
            return Ok(config);
        }
        let _reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            Err(_) => {
                // The folder may be slow.
                if let Some(made) = &*self.made.lock() {
                    return Ok(Arc::clone(&made.config));
                }
                self.reading.lock().await
            }
        };
        if let Some(config) = self.fresh() {
            return Ok(config);
        }
        let read = Instant::now();
        let before = self.made.lock().clone();
        if let Some(made) = &mut *self.made.lock() {
            // A reader that hangs is not followed by others at once.
            made.read = read;
        }
        let folder = self.folder.clone();
        let (config, whole) = match (aside(|| config(folder)).await, before) {
            (Ok(config), _) => (config, true),
            (Err(error), Some(before)) => {
                if before.whole {
                    let words = "certificate authorities not read again; the old ones are used";
                    tracing::warn!(error, "{words}");
                }
                (before.config, false)
            }
            (Err(error), None) if self.folder.is_some() => {
                let config = aside(|| config(None)).await?;
                let words =
                    "certificate authorities not read; only those of the system are trusted";
                tracing::warn!(error, "{words}");
                (config, false)
            }
            (Err(error), None) => return Err(error),
        };
        *self.made.lock() = Some(MadeConfig {
            read,
            config: Arc::clone(&config),
            whole,
        });
        Ok(config)
    }

    /// What was made, if it need not be made again.
    fn fresh(&self) -> Option<Arc<ClientConfig>> {
        let made = self.made.lock();
        let made = made.as_ref()?;
        let is_fresh = self.folder.is_none() || made.read.elapsed() < REFRESH_TIME;
        is_fresh.then(|| Arc::clone(&made.config))
    }
}

/// Runs `work` on a thread of its own, because files may be slow.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (send, receive) = oneshot::channel();
    std::thread::Builder::new()
        .name("certificates".to_owned())
        .spawn(move || send.send(work()))
        .map_err(|error| error.to_string())?;
    receive.await.map_err(|error| error.to_string())?
}

fn config(folder: Option<PathBuf>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut revoked = Vec::new();
    if let Some(folder) = folder {
        let found = AuthorityFolder::read(&folder);
        let found = found.map_err(|error| format!("{}: {error}", folder.display()))?;
        for problem in &found.problems {
            tracing::debug!(problem, "in the folder of certificate authorities");
        }
        roots.roots.extend(found.roots.roots);
        revoked = found.revoked;
    }
    if roots.is_empty() {
        return Err("this server trusts no certificate authority at all".to_owned());
    }
    let provider = Arc::new(default_provider());
    let verifier = verifier(&Arc::new(roots), &provider, revoked)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| error.to_string())?
        .with_webpki_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Refuses certificates that are in a list of revoked ones. Authorities without a list are trusted, and
/// a list that should have been renewed still counts.
fn verifier(
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
        .with_crls(revoked)
        .allow_unknown_revocation_status()
        .build()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
