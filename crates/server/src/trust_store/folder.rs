//! A folder of certificate authorities, as grid sites have it in `/etc/grid-security/certificates`:
//! certificates in files `HASH.0`, and lists of revoked certificates in files `HASH.r0`. Other files are
//! for other programs.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};

use super::verifier;

/// A certificate is a few kilobytes.
const CERTIFICATE_BYTES_MAX: u64 = 1 << 20;

/// Large authorities have lists of some megabytes.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Files of one folder. Grid sites have about 200.
const FILES_MAX: usize = 10_000;

/// The object identifier of SHA-1 with RSA, in DER.
const SHA1_WITH_RSA: [u8; 11] = [6, 9, 42, 134, 72, 134, 247, 13, 1, 1, 5];

/// The bytes at the beginning of a list that contain the identifier of its signature.
const SIGNATURE_BYTES: usize = 32;

/// The content of a folder.
pub(crate) struct AuthorityFolder {
    /// The authorities.
    pub(crate) roots: RootCertStore,
    /// The usable lists of revoked certificates.
    pub(crate) revoked: Vec<CertificateRevocationListDer<'static>>,
    /// The files that cannot be used, and why.
    pub(crate) problems: Vec<String>,
}

impl AuthorityFolder {
    /// Reads the folder. A file that cannot be used is a problem of that file only.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            if let Some(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
            if names.len() > FILES_MAX {
                return Err(io::Error::other(format!("more than {FILES_MAX} files")));
            }
        }
        names.sort();
        let mut roots = RootCertStore::empty();
        let (mut lists, mut problems) = (Vec::new(), Vec::new());
        for name in names {
            let path = folder.join(&name);
            let outcome = match kind(&name) {
                Some(FileKind::Authority) => add_authorities(&mut roots, &path),
                Some(FileKind::List) => lists_of(&path).map(|found| {
                    lists.extend(found.into_iter().map(|list| (name.clone(), list)));
                }),
                None => Ok(()),
            };
            if let Err(why) = outcome {
                problems.push(format!("{name}: {why}"));
            }
        }
        let mut revoked = Vec::new();
        let (shared, provider) = (Arc::new(roots), Arc::new(default_provider()));
        for (name, list) in lists {
            // One that cannot be used would make all connections fail.
            match check(&list)
                .and_then(|()| verifier(&shared, &provider, vec![list.clone()]).map(drop))
            {
                Ok(()) => revoked.push(list),
                Err(why) => problems.push(format!("{name}: {why}")),
            }
        }
        Ok(Self {
            roots: Arc::unwrap_or_clone(shared),
            revoked,
            problems,
        })
    }
}

enum FileKind {
    Authority,
    List,
}

/// The kind of a file by its name: eight hexadecimal digits, a dot, and a number, with an `r` before it
/// for lists.
fn kind(name: &str) -> Option<FileKind> {
    let (hash, number) = name.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if hash.len() != 8 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match number.strip_prefix('r') {
        Some(number) if digits(number) => Some(FileKind::List),
        None if digits(number) => Some(FileKind::Authority),
        _ => None,
    }
}

fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let bytes = read_file(path, CERTIFICATE_BYTES_MAX)?;
    let mut found = 0;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| format!("not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        found += 1;
    }
    match found {
        0 => Err("holds no certificate in PEM".to_owned()),
        _ => Ok(()),
    }
}

/// The lists in a file, which is PEM or DER.
fn lists_of(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let bytes = read_file(path, LIST_BYTES_MAX)?;
    // DER begins with the tag of a sequence.
    if bytes.first() == Some(&0x30) {
        return Ok(vec![bytes.into()]);
    }
    let lists = CertificateRevocationListDer::pem_slice_iter(&bytes);
    let lists: Result<Vec<_>, _> = lists.collect();
    match lists {
        Ok(lists) if lists.is_empty() => Err("holds no list of revoked certificates".to_owned()),
        Ok(lists) => Ok(lists),
        Err(error) => Err(format!("not PEM: {error}")),
    }
}

/// Refuses a list whose signature cannot be verified: every certificate of its authority would be
/// refused because of it.
fn check(list: &CertificateRevocationListDer<'_>) -> Result<(), String> {
    let beginning = list.as_ref().iter().take(SIGNATURE_BYTES).copied();
    let beginning: Vec<u8> = beginning.collect();
    let mut parts = beginning.windows(SHA1_WITH_RSA.len());
    match parts.any(|part| part == SHA1_WITH_RSA) {
        true => Err("signed with SHA-1: not used".to_owned()),
        false => Ok(()),
    }
}

fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(bytes_max + 1)
            .read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    let bytes = read().map_err(|error| error.to_string())?;
    match bytes.len() as u64 > bytes_max {
        true => Err(format!("larger than {bytes_max} bytes")),
        false => Ok(bytes),
    }
}
