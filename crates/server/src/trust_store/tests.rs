use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// An authority that is in no store, and a server that it vouches for.
struct Site {
    authority: CertifiedIssuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

const SERIAL: u64 = 4711;

impl Site {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("authority");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
        params.serial_number = Some(SerialNumber::from(SERIAL));
        let key = KeyPair::generate().expect("key");
        let certificate = params.signed_by(&key, &authority).expect("certificate");
        Self {
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
            authority,
        }
    }

    /// A list with one serial number that should have been renewed at the end of `year`.
    fn list(&self, serial: u64, year: i32) -> String {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(year, 12, 31),
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
        let list = params.signed_by(&self.authority).expect("list");
        list.pem().expect("PEM")
    }

    /// Whether a client that trusts the folder believes the server.
    async fn is_believed(&self, folder: &Path) -> bool {
        let trust = TrustStore::new(Some(folder.to_owned()));
        let client = trust.client().await.expect("reads");
        let key = PrivateKeyDer::try_from(self.key.clone()).expect("key");
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .expect("usable");
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (accept, connect) = (
            TlsAcceptor::from(Arc::new(server)),
            TlsConnector::from(client),
        );
        let name = ServerName::try_from("localhost").expect("name");
        let (_, connected) = tokio::join!(accept.accept(far), connect.connect(name, near));
        connected.is_ok()
    }
}

#[tokio::test]
async fn authorities_of_the_folder_are_trusted_and_what_they_revoked_is_not() {
    let (site, dir) = (Site::new(), tempfile::tempdir().expect("folder"));
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("write");
    };
    assert!(!site.is_believed(dir.path()).await, "nobody knows it");
    // A name for other programs.
    write("authority.pem", &site.authority.pem());
    assert!(!site.is_believed(dir.path()).await);
    write("0123abcd.0", &site.authority.pem());
    assert!(site.is_believed(dir.path()).await, "no list");
    write("0123abcd.r0", &site.list(SERIAL + 1, 2040));
    assert!(site.is_believed(dir.path()).await, "another is revoked");
    write("0123abcd.r0", &site.list(SERIAL + 1, 2021));
    assert!(site.is_believed(dir.path()).await, "the list is old");
    write("0123abcd.r0", &site.list(SERIAL, 2021));
    assert!(!site.is_believed(dir.path()).await, "old, and still true");
    write("0123abcd.r0", &site.list(SERIAL, 2040));
    assert!(!site.is_believed(dir.path()).await);
    // A list that cannot be read counts as none.
    write("0123abcd.r0", "nonsense");
    assert!(site.is_believed(dir.path()).await);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (site, dir) = (Site::new(), tempfile::tempdir().expect("folder"));
    let write = |name: &str, content: &[u8]| {
        std::fs::write(dir.path().join(name), content).expect("write");
    };
    write("0123abcd.0", site.authority.pem().as_bytes());
    write("0123abcd.r0", site.list(1, 2040).as_bytes());
    write("0123abcd.signing_policy", b"for others");
    write("1123abcd.0", b"nonsense");
    write(
        "2123abcd.0",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    write("3123abcd.r0", b"\x30\x03abc");
    // The beginning of a list that is signed with SHA-1.
    let old = [
        &[0x30, 0x82, 1, 0, 0x30, 0x82, 1, 0, 0x30, 13][..],
        &[6, 9, 42, 134, 72, 134],
    ];
    let old = [&old.concat()[..], &[247, 13, 1, 1, 5, 5, 0]].concat();
    write("4123abcd.r0", &old);
    let found = AuthorityFolder::read(dir.path()).expect("reads");
    assert_eq!((found.roots.len(), found.revoked.len()), (1, 1));
    let names: Vec<_> = found
        .problems
        .iter()
        .map(|problem| &problem[..11])
        .collect();
    let expected = ["1123abcd.0:", "2123abcd.0:", "3123abcd.r0", "4123abcd.r0"];
    assert_eq!(names, expected);
    assert!(found.problems[3].ends_with("signed with SHA-1: not used"));
    assert!(AuthorityFolder::read(&dir.path().join("none")).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_folder_is_read_again_and_the_old_content_stays_if_it_is_gone() {
    let (site, dir) = (Site::new(), tempfile::tempdir().expect("folder"));
    let folder = dir.path().join("certificates");
    std::fs::create_dir(&folder).expect("create");
    std::fs::write(folder.join("0123abcd.0"), site.authority.pem()).expect("write");
    let trust = TrustStore::new(Some(folder.clone()));
    let first = trust.client().await.expect("reads");
    assert!(Arc::ptr_eq(&first, &trust.client().await.expect("kept")));
    tokio::time::advance(REFRESH_TIME).await;
    let second = trust.client().await.expect("reads again");
    assert!(!Arc::ptr_eq(&first, &second));
    std::fs::remove_dir_all(&folder).expect("remove");
    tokio::time::advance(REFRESH_TIME).await;
    let third = trust.client().await.expect("kept");
    assert!(Arc::ptr_eq(&second, &third));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_read_takes_no_trust_away() {
    let (site, dir) = (Site::new(), tempfile::tempdir().expect("folder"));
    let folder = dir.path().join("certificates");
    let trust = TrustStore::new(Some(folder.clone()));
    let of_system = TrustStore::new(None).client().await;
    let first = trust.client().await;
    // A machine without any certificate trusts nobody either way.
    assert_eq!(first.is_ok(), of_system.is_ok());
    std::fs::create_dir(&folder).expect("create");
    std::fs::write(folder.join("0123abcd.0"), site.authority.pem()).expect("write");
    tokio::time::advance(REFRESH_TIME).await;
    let second = trust.client().await.expect("reads");
    if let Ok(first) = first {
        assert!(!Arc::ptr_eq(&first, &second));
    }
}
