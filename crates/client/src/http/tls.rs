//! The certificates to trust over https.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The certificates to accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The authorities of this machine (`SSL_CERT_FILE`, or the distribution's bundle).
    System,
    /// The authorities in one PEM file.
    File(PathBuf),
    /// Any certificate, for servers with self-signed ones. The connection is encrypted, but the
    /// peer is not authenticated.
    Anyone,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file with authorities cannot be read.
    #[error("read certificates from {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: rustls_pki_types::pem::Error,
    },
    /// The file has no certificate that can be used.
    #[error("no certificate in {}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// No bundle of authorities on this machine.
    #[error("no bundle of certificate authorities found; name one with --ca FILE")]
    NoBundle,
    /// The TLS library refuses.
    #[error(transparent)]
    Refused(#[from] rustls::Error),
}

/// The files in which distributions keep their bundle of authorities.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A client configuration for TLS 1.2 and 1.3 with this trust.
///
/// # Errors
/// If the certificates to trust cannot be read.
pub fn tls_config(trust: &Trust) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match trust {
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyone(provider)))
            .with_no_client_auth(),
        Trust::File(path) => {
            let certificates = read(path)?;
            let authorities = roots(path, certificates.clone())?;
            let usual = WebPkiServerVerifier::builder_with_provider(
                Arc::new(authorities),
                Arc::clone(&provider),
            );
            let usual = usual
                .build()
                .map_err(|error| rustls::Error::General(format!("{}: {error}", path.display())))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(NamedCertificates {
                    certificates,
                    usual,
                }))
                .with_no_client_auth()
        }
        Trust::System => builder
            .with_root_certificates(system_roots()?)
            .with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn system_bundle() -> Result<PathBuf, TlsError> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named
        .or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.exists()))
        .ok_or(TlsError::NoBundle)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let path = system_bundle()?;
    roots(&path, read(&path)?)
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Read {
        path: path.to_owned(),
        source,
    };
    CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .map(|certificate| certificate.map_err(failed))
        .collect()
}

fn roots(
    path: &Path,
    certificates: Vec<CertificateDer<'static>>,
) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(TlsError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(store)
}

/// Accepts certificates signed by an authority in the file, and a server certificate that is itself
/// in the file. The latter may be a self-signed authority, as `openssl req -x509` makes it, which
/// is otherwise no valid server certificate. Its names are not checked then, because it was given
/// explicitly.
#[derive(Debug)]
struct NamedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for NamedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.iter().any(|named| named == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        self.usual
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Accepts every certificate but checks that the peer has its key.
#[derive(Debug)]
struct AcceptAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
