//! Certificate authorities that this server trusts as a client: those of the system.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{OnceCell, oneshot};

/// TLS for outgoing connections. The certificates are read once, at first use.
#[derive(Default)]
pub(crate) struct TrustStore {
    tls: OnceCell<Arc<ClientConfig>>,
}

impl TrustStore {
    /// # Errors
    /// Why nobody can be believed, in words.
    pub(crate) async fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let made = self.tls.get_or_try_init(|| async {
            let loaded = certificates().await.map_err(|error| error.to_string())?;
            let mut roots = RootCertStore::empty();
            let (added, _) = roots.add_parsable_certificates(loaded.certs);
            if added == 0 {
                return Err("the system trusts no certificate authority at all".to_owned());
            }
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Arc::new(config))
        });
        made.await.cloned()
    }
}

/// The certificates that the system trusts, read by a separate thread, because files may be slow.
async fn certificates() -> std::io::Result<rustls_native_certs::CertificateResult> {
    let (send, receive) = oneshot::channel();
    std::thread::Builder::new()
        .name("certificates".to_owned())
        .spawn(move || send.send(rustls_native_certs::load_native_certs()))?;
    receive.await.map_err(std::io::Error::other)
}
