//! The demo's throw-away certificate authority and the certificate of its WebDAV door.
//!
//! The authority is in a folder as programs of grid sites want it in `X509_CERT_DIR`: OpenSSL finds a
//! certificate by the hash of its subject, in the file `HASH.0`. Its private key is never stored, so
//! nobody can make a second certificate with it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use dewar_engine::host::private_file::replace_private_file;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::{DemoError, create_folder, failed};

/// The common name of the authority. ASCII in lower case, as [`subject_hash`] needs it.
const AUTHORITY: &str = "dewar demo authority";

/// The names under which clients on this machine reach the demo.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The folder of authorities, the certificate and its key, in the demo's folder.
pub(super) const AUTHORITY_FOLDER: &str = "certificates";
pub(super) const CERTIFICATE_FILE: &str = "webdav.pem";
pub(super) const KEY_FILE: &str = "webdav-key.pem";

/// The folder of authorities of the demo in `folder`.
pub(super) fn authority_folder(folder: &Path) -> PathBuf {
    folder.join(AUTHORITY_FOLDER)
}

/// The file of the authority, for programs that want a file and not a folder.
pub(super) fn authority_file(folder: &Path) -> PathBuf {
    authority_folder(folder).join(format!("{}.0", subject_hash(AUTHORITY)))
}

/// Makes authority and certificate, if one of their files is absent.
///
/// # Errors
/// A file cannot be looked at or written.
pub(super) fn prepare(folder: &Path) -> Result<(), DemoError> {
    let files = [
        authority_file(folder),
        folder.join(CERTIFICATE_FILE),
        folder.join(KEY_FILE),
    ];
    let mut complete = true;
    for file in &files {
        complete &= file.try_exists().map_err(failed(file, "look at"))?;
    }
    if complete {
        return Ok(());
    }
    create_folder(&authority_folder(folder))?;
    let made = make().map_err(DemoError::Certificate)?;
    for (file, content) in files.iter().zip(made) {
        replace_private_file(file, content.as_bytes())?;
    }
    Ok(())
}

/// The authority, the certificate and its key, in PEM.
fn make() -> Result<[String; 3], rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name = rcgen::DistinguishedName::new();
    authority
        .distinguished_name
        .push(DnType::CommonName, AUTHORITY);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // Clients whose clock is wrong are not what a demo is about.
    let (from, until) = (date_time_ymd(2020, 1, 1), date_time_ymd(2049, 12, 31));
    (authority.not_before, authority.not_after) = (from, until);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut server = CertificateParams::new(HOSTS.map(str::to_owned))?;
    server.distinguished_name = rcgen::DistinguishedName::new();
    server.distinguished_name.push(DnType::CommonName, HOSTS[0]);
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    (server.not_before, server.not_after) = (from, until);
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &authority)?;
    Ok([authority.pem(), certificate.pem(), key.serialize_pem()])
}

/// The hash under which OpenSSL (since 1.0) looks for a certificate whose subject is this common name:
/// the first four bytes of a SHA-1, as a little-endian number, over the subject in a canonical form.
/// That form is UTF-8, in lower case, with single spaces, and without the header of the outer sequence.
fn subject_hash(name: &str) -> String {
    const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    let element = |tag: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("the names here are short");
        let mut element = vec![tag, length];
        element.extend_from_slice(content);
        element
    };
    let text = element(0x0c, name.as_bytes());
    let attribute = element(0x30, &[&COMMON_NAME[..], &text].concat());
    let canonical = element(0x31, &attribute);
    let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, &canonical);
    let mut hash = String::with_capacity(8);
    for byte in sum.as_ref()[..4].iter().rev() {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_name_that_openssl_looks_for() {
        // `openssl x509 -noout -subject_hash` of certificates with these subjects.
        assert_eq!(subject_hash(AUTHORITY), "fd558148");
    }

    #[test]
    fn is_made_once_and_again_when_a_part_is_gone() {
        let dir = tempfile::tempdir().expect("folder");
        let read = || {
            [
                authority_file(dir.path()),
                dir.path().join(CERTIFICATE_FILE),
                dir.path().join(KEY_FILE),
            ]
            .map(|file| std::fs::read_to_string(file).expect("reads"))
        };
        prepare(dir.path()).expect("makes");
        let first = read();
        crate::tls::check(
            &dir.path().join(CERTIFICATE_FILE),
            &dir.path().join(KEY_FILE),
        )
        .expect("usable");
        prepare(dir.path()).expect("finds");
        assert_eq!(read(), first);
        std::fs::remove_file(dir.path().join(KEY_FILE)).expect("remove");
        prepare(dir.path()).expect("makes again");
        assert_ne!(read()[0], first[0], "the old authority's key is gone");
    }
}
