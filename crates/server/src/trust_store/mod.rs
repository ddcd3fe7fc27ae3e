//! Certificate authorities that this server trusts as a client: those of the system, and those of a
//! folder as grid sites have it.

mod folder;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateRevocationListDer;
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

pub(crate) use folder::AuthorityFolder;

/// Age at which the folder is read again: lists of revoked certificates change daily.
const REFRESH_TIME: Duration = Duration::from_secs(10 * 60);

/// TLS for outgoing connections. The certificates of the system are read once, at first use. With a
/// folder, all of them are read again from time to time.
#[derive(Default)]
pub(crate) struct TrustStore {
    folder: Option<PathBuf>,
    made: Mutex<Option<(Instant, Arc<ClientConfig>)>>,
}

impl TrustStore {
    /// Trusts the authorities in `folder` too.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            made: Mutex::default(),
        }
    }

    /// The certificates may be [`REFRESH_TIME`] old, and older if the folder cannot be read any more.
    ///
    /// # Errors
    /// Why nobody can be believed, in words.
    pub(crate) async fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let mut made = self.made.lock().await;
        if let Some((read, config)) = &*made
            && (self.folder.is_none() || read.elapsed() < REFRESH_TIME)
        {
            return Ok(Arc::clone(config));
        }
        let folder = self.folder.clone();
        let config = match (aside(|| config(folder)).await, &*made) {
            (Ok(config), _) => config,
            (Err(error), Some((_, before))) => {
                tracing::warn!(
                    error,
                    "certificate authorities not read again; the old ones are used"
                );
                Arc::clone(before)
            }
            (Err(error), None) => return Err(error),
        };
        *made = Some((Instant::now(), Arc::clone(&config)));
        Ok(config)
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
