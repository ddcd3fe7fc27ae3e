//! Certificate authorities that this server trusts as a client: those of the system, and those of grid
//! sites in a file or a hashed directory.
//!
//! A hashed directory has a file `HASH.N` for each authority, and may have its revocation list as `HASH.rN`, as in
//! `/etc/grid-security/certificates`. Lists are used if they are valid. A list that is missing, expired or
//! malformed is no reason to refuse a certificate, since most sites renew lists by a job that may fail.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dewar_env::BoxFuture;
use dewar_xrootd::Trust;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

/// After this time, files are read again: revocation lists change daily.
const READ_AGAIN: Duration = Duration::from_secs(600);

/// Maximum files of a directory, and bytes of each.
const FILES_MAX: usize = 4096;
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Where trusted certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrustSources {
    /// Those that the system trusts.
    pub(crate) system: bool,
    /// A file with certificates in PEM.
    pub(crate) file: Option<PathBuf>,
    /// A hashed directory.
    pub(crate) directory: Option<PathBuf>,
}

impl Default for TrustSources {
    fn default() -> Self {
        Self {
            system: true,
            file: None,
            directory: None,
        }
    }
}

/// TLS for outgoing connections. The certificates are read at first use and, if they are in files of the
/// configuration, again from time to time.
#[derive(Default)]
pub(crate) struct TrustStore {
    sources: TrustSources,
    tls: Mutex<Option<(Instant, Arc<ClientConfig>)>>,
}

impl TrustStore {
    /// Trust in these certificates.
    pub(crate) fn new(sources: TrustSources) -> Self {
        Self {
            sources,
            tls: Mutex::default(),
        }
    }

    /// # Errors
    /// Why nobody can be believed, in words.
    pub(crate) async fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let mut tls = self.tls.lock().await;
        let reads_again = self.sources != TrustSources::default();
        if let Some((read, config)) = &*tls
            && !(reads_again && read.elapsed() >= READ_AGAIN)
        {
            return Ok(Arc::clone(config));
        }
        match read_elsewhere(self.sources.clone()).await {
            Ok(config) => {
                *tls = Some((Instant::now(), Arc::clone(&config)));
                Ok(config)
            }
            // The directory may be in the middle of an update.
            Err(error) => match &mut *tls {
                Some((read, config)) => {
                    tracing::debug!(error, "the trusted certificates of before are used");
                    *read = Instant::now();
                    Ok(Arc::clone(config))
                }
                None => Err(error),
            },
        }
    }
}

impl Trust for TrustStore {
    fn client(&self) -> BoxFuture<'_, Option<Arc<ClientConfig>>> {
        Box::pin(async move {
            match self.client().await {
                Ok(config) => Some(config),
                Err(error) => {
                    tracing::debug!(error, "third-party copies go without TLS");
                    None
                }
            }
        })
    }
}

/// Reads the certificates on a separate thread, because files may be slow.
async fn read_elsewhere(sources: TrustSources) -> Result<Arc<ClientConfig>, String> {
    let (send, receive) = oneshot::channel();
    let thread = std::thread::Builder::new().name("certificates".to_owned());
    let spawned = thread.spawn(move || send.send(client_config(&sources)).is_ok());
    spawned.map_err(|error| error.to_string())?;
    receive.await.map_err(|error| error.to_string())?
}

fn client_config(sources: &TrustSources) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    let mut lists = Vec::new();
    if sources.system {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if let Some(file) = &sources.file {
        add_certificates(&mut roots, &read(file)?);
    }
    if let Some(directory) = &sources.directory {
        let (certificates, revoked) = hashed_files(directory)?;
        for file in certificates {
            match read(&file) {
                Ok(bytes) => add_certificates(&mut roots, &bytes),
                Err(error) => tracing::debug!(error, "a certificate authority is left out"),
            }
        }
        for file in revoked {
            match read(&file) {
                Ok(bytes) => lists.extend(revocation_lists(&bytes)),
                Err(error) => tracing::debug!(error, "a revocation list is left out"),
            }
        }
    }
    if roots.is_empty() {
        return Err("no certificate authority is trusted at all".to_owned());
    }
    let roots = Arc::new(roots);
    lists.retain(|list| verifier(&roots, vec![list.clone()], &provider).is_ok());
    let verifier = verifier(&roots, lists, &provider).map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| error.to_string())?
        .with_webpki_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn verifier(
    roots: &Arc<RootCertStore>,
    lists: Vec<CertificateRevocationListDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, rustls::client::VerifierBuilderError> {
    let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
    WebPkiServerVerifier::builder_with_provider(roots, provider)
        .with_crls(lists)
        .allow_unknown_revocation_status()
        .build()
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let bytes = std::fs::metadata(file).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("{}: {bytes} bytes are too many", file.display()));
    }
    std::fs::read(file).map_err(failed)
}

fn add_certificates(roots: &mut RootCertStore, bytes: &[u8]) {
    let certificates = CertificateDer::pem_slice_iter(bytes).filter_map(Result::ok);
    let mut certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        certificates.push(CertificateDer::from(bytes.to_vec()));
    }
    roots.add_parsable_certificates(certificates);
}

fn revocation_lists(bytes: &[u8]) -> Vec<CertificateRevocationListDer<'static>> {
    let lists = CertificateRevocationListDer::pem_slice_iter(bytes).filter_map(Result::ok);
    let mut lists: Vec<_> = lists.collect();
    if lists.is_empty() {
        lists.push(CertificateRevocationListDer::from(bytes.to_vec()));
    }
    lists
}

/// The certificates and the revocation lists of a hashed directory.
fn hashed_files(directory: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let (mut certificates, mut lists) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory)
        .map_err(failed)?
        .take(4 * FILES_MAX)
    {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((hash, number)) = name.and_then(|name| name.split_once('.')) else {
            continue;
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let hashed = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match number.strip_prefix('r') {
            Some(number) if hashed && digits(number) => lists.push(path),
            None if hashed && digits(number) => certificates.push(path),
            _ => {}
        }
    }
    if certificates.len() > FILES_MAX {
        return Err(format!("{}: too many files", directory.display()));
    }
    certificates.sort();
    lists.sort();
    Ok((certificates, lists))
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
        KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
    };
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls_pki_types::{ServerName, UnixTime};

    use super::*;

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    fn authority(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Authority {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    fn host(authority: &Authority, serial: u64) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["se.example".to_owned()]).expect("a name");
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &authority.issuer).expect("signed");
        made.der().clone()
    }

    fn revocation_list(authority: &Authority, serial: u64, next_year: i32) -> String {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(next_year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&authority.issuer).expect("signed");
        list.pem().expect("written")
    }

    /// Whether a host's certificate is believed.
    fn believed(directory: &Path, certificate: &CertificateDer<'_>) -> bool {
        let (certificates, revoked) = hashed_files(directory).expect("read");
        let mut roots = RootCertStore::empty();
        for file in certificates {
            add_certificates(&mut roots, &read(&file).expect("read"));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = Arc::new(roots);
        let lists = revoked
            .iter()
            .flat_map(|file| revocation_lists(&read(file).expect("read")));
        let mut lists: Vec<_> = lists.collect();
        lists.retain(|list| verifier(&roots, vec![list.clone()], &provider).is_ok());
        let verifier = verifier(&roots, lists, &provider).expect("roots");
        let name = ServerName::try_from("se.example").expect("a name");
        // 2030.
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_900_000_000));
        let verified = verifier.verify_server_cert(certificate, &[], &name, &[], now);
        verified.is_ok()
    }

    #[test]
    fn a_hashed_directory_has_authorities_and_their_revocation_lists() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path();
        let write =
            |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("written");
        let (known, other) = (authority("known"), authority("other"));
        write("0123abcd.0", &known.pem);
        write("0123abcd.signing_policy", "access_id_CA X509 x");
        write("other.pem", &other.pem);
        write("ffffffff.0", "no certificate");
        let (good, bad) = (host(&known, 7), host(&known, 8));
        assert!(believed(directory, &good) && believed(directory, &bad));
        assert!(!believed(directory, &host(&other, 7)));
        // A list that cannot be read, one that is valid, and one that is expired.
        write("0123abcd.r0", "no list");
        assert!(believed(directory, &bad));
        for next_year in [2040, 2021] {
            write("0123abcd.r0", &revocation_list(&known, 8, next_year));
            assert!(
                believed(directory, &good) && !believed(directory, &bad),
                "{next_year}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_read_again_and_an_update_in_progress_does_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("certificates");
        let store = TrustStore::new(TrustSources {
            system: false,
            file: None,
            directory: Some(directory.clone()),
        });
        assert!(store.client().await.is_err());
        std::fs::create_dir(&directory).expect("made");
        assert!(store.client().await.is_err());
        let file = directory.join("0123abcd.0");
        std::fs::write(&file, authority("known").pem).expect("written");
        let first = store.client().await.expect("read");
        assert!(Arc::ptr_eq(&first, &store.client().await.expect("kept")));
        tokio::time::advance(READ_AGAIN).await;
        let second = store.client().await.expect("read again");
        assert!(!Arc::ptr_eq(&first, &second));
        std::fs::remove_file(&file).expect("removed");
        tokio::time::advance(READ_AGAIN).await;
        assert!(Arc::ptr_eq(&second, &store.client().await.expect("kept")));
    }
}
