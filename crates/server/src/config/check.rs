//! Checks of a configuration as a whole: keys that contradict each other, disks that are not as
//! they should be, doors that are open to everybody.
//!
//! Errors prevent the start. Warnings are logged at the start and printed by `dewar config check`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dewar_disks::pool::IDENTITY_FILE;
use dewar_engine::host::paths::is_within;
use dewar_engine::host::pool_state_file::knows_pool;
use dewar_env::Env;

use super::keys::Config;
use crate::certificate::CertificateFacts;
use crate::keytab::Keytab;
use crate::tls::{self, ExpiryWarning};
use crate::trust_store::AuthorityFolder;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The server would not start.
    Error,
    /// It would, and something is lost by it.
    Warning,
}

/// One thing that is wrong or unwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The key it is about.
    pub key: &'static str,
    /// The finding and the action to take.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}: {}", self.key, self.message)
    }
}

#[derive(Default)]
struct FindingList(Vec<Finding>);

impl FindingList {
    fn error(&mut self, key: &'static str, message: impl Into<String>) {
        self.add(Severity::Error, key, message.into());
    }

    fn warning(&mut self, key: &'static str, message: impl Into<String>) {
        self.add(Severity::Warning, key, message.into());
    }

    fn add(&mut self, severity: Severity, key: &'static str, message: String) {
        self.0.push(Finding {
            severity,
            key,
            message,
        });
    }
}

/// All errors and warnings about `config` on this machine, errors first. It reads the folders and
/// files that are named and changes nothing.
#[must_use]
pub fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = FindingList::default();
    layout(config, &mut findings);
    further_pools(config, &mut findings);
    disks(config, &mut findings);
    outside_disks(config, &mut findings);
    doors(config, &mut findings);
    addresses(config, &mut findings);
    authorities(config, &mut findings);
    testing(config, &mut findings);
    findings.0.sort_by_key(|finding| finding.severity);
    findings.0
}

fn authorities(config: &Config, findings: &mut FindingList) {
    let key = "server.authority_folder";
    let Some(folder) = &config.server.authority_folder else {
        return;
    };
    match AuthorityFolder::read(folder) {
        Err(error) => findings.error(key, format!("cannot read {}: {error}", folder.display())),
        Ok(found) => {
            for problem in found.problems {
                findings.warning(key, problem);
            }
            if found.roots.is_empty() {
                let message = format!("{} holds no file HASH.0 of an authority", folder.display());
                findings.warning(key, message);
            }
        }
    }
}

fn testing(config: &Config, findings: &mut FindingList) {
    if config.testing != Config::default().testing {
        let message =
            "set: these keys are for tests of Dewar itself; remove them from a real server";
        findings.warning("testing", message);
    }
}

fn layout(config: &Config, findings: &mut FindingList) {
    let disks = config.pool.disks.len();
    let layout = config.layout();
    let losses = usize::from(layout.m);
    if disks == 0 {
        findings.error(
            "pool.disks",
            "no disks: name the folders to store objects in, or try `dewar demo`",
        );
        return;
    }
    if layout.shards() > disks {
        let shards = layout.shards();
        // A pool that lost some goes on with a narrower layout.
        if knows_pool(&config.server.state_dir) {
            let message = format!(
                "{layout} needs {shards} disks and the pool has {disks}: new objects are written in a \
                 narrower layout"
            );
            findings.warning("pool.layout", message);
        } else {
            let message = format!("{layout} needs {shards} disks and pool.disks names {disks}");
            findings.error("pool.layout", message);
        }
        return;
    }
    if losses == 0 {
        findings.warning(
            "pool.layout",
            format!("{layout}: the loss of one disk loses data; two disks or more allow parity"),
        );
    } else if disks < 2 * losses + 1 {
        // RECORDS.md section 5: opening and journal need m+1 members of the newest epoch.
        let members = 2 * losses + 1;
        let before = disks - losses;
        findings.warning(
            "pool.disks",
            format!(
                "{disks} disks are fewer than 2m+1 = {members} for {layout}: writes stop with \
                 {before} missing, although data survives the loss of {losses}; `dewar disk replace` goes \
                 on with new disks then"
            ),
        );
    }
}

fn further_pools(config: &Config, findings: &mut FindingList) {
    let pools = config.further_pools();
    for (n, pool) in pools.iter().enumerate() {
        let (name, layout, disks) = (&pool.name, pool.layout, pool.disks.len());
        if *name == config.pool.name {
            let message = format!("{name} is the main pool, whose disks stand in pool.disks");
            findings.error("pools.disks", message);
        }
        if let Some(other) = pools[..n]
            .iter()
            .find(|other| other.number() == pool.number())
        {
            let message = format!(
                "{} and {name} cannot be told apart: give one another name",
                other.name
            );
            findings.error("pools.disks", message);
        }
        if disks < layout.shards() {
            let shards = layout.shards();
            let message = format!("{layout} needs {shards} disks and the pool {name} has {disks}");
            match knows_pool(&config.server.state_dir) {
                true => findings.warning("pools.disks", format!("{message}: new objects are written in a narrower layout, or refused with fewer than {}", layout.m + 1)),
                false => findings.error("pools.disks", message),
            }
        } else if layout.m == 0 {
            let message = format!("{layout} of the pool {name}: the loss of one disk loses data");
            findings.warning("pools.layouts", message);
        }
    }
    for named in config.named_pools() {
        if config.pool_number(named).is_none() {
            let message = format!("there is no pool {named}: pools.disks names its folders");
            findings.error("lifecycle.storage_classes", message);
        }
    }
}

fn disks(config: &Config, findings: &mut FindingList) {
    let disks: Vec<PathBuf> = config.folders().into_iter().map(|(disk, _)| disk).collect();
    let disks = &disks;
    for (i, disk) in disks.iter().enumerate() {
        for other in &disks[..i] {
            if is_within(disk, other) || is_within(other, disk) {
                let message = format!(
                    "{} and {} are the same folder or one is inside the other",
                    other.display(),
                    disk.display()
                );
                findings.error("pool.disks", message);
            }
        }
    }
    let mut devices: BTreeMap<u64, Vec<&Path>> = BTreeMap::new();
    // A pool is made only when all of its disks are there. One that exists opens without some of them.
    let is_first_start = !knows_pool(&config.server.state_dir)
        && !disks.iter().any(|disk| disk.join(IDENTITY_FILE).exists());
    for disk in disks {
        match std::fs::metadata(disk) {
            Ok(found) if !found.is_dir() => {
                findings.error("pool.disks", format!("{} is no folder", disk.display()));
            }
            Ok(found) => devices.entry(found.dev()).or_default().push(disk),
            Err(error) if is_first_start => findings.warning(
                "pool.disks",
                format!(
                    "{}: {error}; the first start needs all disks: make this folder, or mount its disk",
                    disk.display()
                ),
            ),
            Err(error) => findings.warning(
                "pool.disks",
                format!("{} counts as missing: {error}", disk.display()),
            ),
        }
    }
    for shared in devices.values().filter(|shared| shared.len() > 1) {
        let names: Vec<String> = shared
            .iter()
            .map(|disk| disk.display().to_string())
            .collect();
        findings.warning(
            "pool.disks",
            format!(
                "{} share one device: what breaks it takes all of them",
                names.join(", ")
            ),
        );
    }
}

fn outside_disks(config: &Config, findings: &mut FindingList) {
    let key = config.master_key_file();
    let state = &config.server.state_dir;
    for (disk, _) in &config.folders() {
        if is_within(&key, disk) {
            let message = format!(
                "{} is inside the disk {}: a disk that is given away would carry the key to \
                 its secrets",
                key.display(),
                disk.display()
            );
            findings.error("security.master_key_file", message);
        }
        if is_within(state, disk) {
            let message = format!("{} is inside the disk {}", state.display(), disk.display());
            findings.error("server.state_dir", message);
        }
    }
}

fn doors(config: &Config, findings: &mut FindingList) {
    let s3 = &config.s3;
    if s3.listen.is_empty() {
        findings.warning("s3.listen", "empty: no object can be reached over S3");
    }
    let files = (&s3.tls_certificate_file, &s3.tls_key_file);
    let keys = ["s3.tls_certificate_file", "s3.tls_key_file"];
    let tls = tls_files(files, keys, findings);
    for address in s3
        .listen
        .iter()
        .filter(|address| !address.ip().is_loopback())
    {
        if !tls.0 {
            findings.warning(
                "s3.listen",
                format!(
                    "{address} can be reached from other machines without TLS: data and session \
                     tokens can be read on the way"
                ),
            );
        }
    }
    for address in &config.metrics.listen {
        if !address.ip().is_loopback() {
            findings.warning(
                "metrics.listen",
                format!("{address} can be reached from other machines, without a login"),
            );
        }
    }
    let s3_certificate = tls.1;
    let webdav_certificate = webdav(config, findings);
    xrootd(config, findings);
    let certificates: Vec<_> = s3_certificate
        .into_iter()
        .chain(webdav_certificate)
        .collect();
    public_names(config, &certificates, findings);
}

/// Looks for addresses of which only one can be listened on. Listeners are checked in the order of this
/// list, and the finding is about the later one.
fn addresses(config: &Config, findings: &mut FindingList) {
    let lists: [(&'static str, &[SocketAddr]); 5] = [
        ("s3.listen", &config.s3.listen),
        ("metrics.listen", &config.metrics.listen),
        ("xrootd.listen", &config.xrootd.listen),
        ("webdav.listen", &config.webdav.listen),
        ("webdav.plain_listen", &config.webdav.plain_listen),
    ];
    let all = lists
        .iter()
        .flat_map(|(key, list)| list.iter().map(move |at| (*key, *at)));
    let all: Vec<(&'static str, SocketAddr)> = all.collect();
    for (at, (key, address)) in all.iter().enumerate() {
        let earlier = all.iter().take(at);
        for (other_key, other) in earlier.filter(|(_, other)| collide(*address, *other)) {
            let message = match (address == other, key == other_key) {
                (true, true) => format!("{address} stands twice"),
                (true, false) => format!("{address} is also in {other_key}"),
                (false, _) => {
                    format!("{address} and {other} of {other_key} include the same address")
                }
            };
            findings.error(key, message);
        }
    }
}

/// Whether both addresses cannot be listened on at once: they have one port, and are the same or one is
/// every address of the machine. `[::]` includes those of IPv4.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let includes = |all: SocketAddr, part: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || part.is_ipv4())
    };
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || includes(one, other) || includes(other, one))
}

/// Compares the names by which clients know the server with those of the certificates.
fn public_names(config: &Config, certificates: &[CertificateFacts], findings: &mut FindingList) {
    if certificates.is_empty() {
        return;
    }
    let urls = config.server.public_urls.iter();
    let urls = urls.map(|url| ("server.public_urls", url));
    let audiences = config.federation.audiences.iter();
    let audiences = audiences.map(|audience| ("federation.audiences", audience));
    for (key, url) in urls.chain(audiences) {
        let uri: Option<http::Uri> = url.parse().ok();
        let Some(uri) = uri.filter(|uri| uri.scheme_str() == Some("https")) else {
            continue;
        };
        let Some(host) = uri.host() else { continue };
        if !certificates
            .iter()
            .any(|certificate| certificate.covers(host))
        {
            let message = format!(
                "no certificate of s3 or webdav covers {host}: clients that check names refuse {url}"
            );
            findings.warning(key, message);
        }
    }
}

fn webdav(config: &Config, findings: &mut FindingList) -> Option<CertificateFacts> {
    let webdav = &config.webdav;
    let files = (&webdav.tls_certificate_file, &webdav.tls_key_file);
    let keys = ["webdav.tls_certificate_file", "webdav.tls_key_file"];
    let (tls, certificate) = tls_files(files, keys, findings);
    for (key, addresses, tls) in [
        ("webdav.listen", &webdav.listen, tls),
        ("webdav.plain_listen", &webdav.plain_listen, false),
    ] {
        for address in addresses {
            if !tls && !address.ip().is_loopback() {
                let message = format!(
                    "{address} can be reached from other machines without TLS: data can be read on \
                     the way, and passwords and tokens are refused"
                );
                findings.warning(key, message);
            }
        }
    }
    certificate
}

/// Checks the certificate and the key of a door, and says whether it has TLS, and what the certificate
/// says about itself. `keys` are the names of both in the configuration.
fn tls_files(
    (certificate, key): (&Option<PathBuf>, &Option<PathBuf>),
    [certificate_key, key_key]: [&'static str; 2],
    findings: &mut FindingList,
) -> (bool, Option<CertificateFacts>) {
    match (certificate, key) {
        (Some(certificate), Some(key)) => match tls::check(certificate, key) {
            Ok(facts) => {
                if let Some(warning) = facts.as_ref().and_then(expiry_words) {
                    findings.warning(certificate_key, warning);
                }
                (true, facts)
            }
            Err(error) => {
                let about = match error.path() == key {
                    true => key_key,
                    false => certificate_key,
                };
                findings.error(about, error.to_string());
                (true, None)
            }
        },
        (None, None) => (false, None),
        (Some(_), None) => {
            let message = format!("missing, while {certificate_key} is set");
            findings.error(key_key, message);
            (true, None)
        }
        (None, Some(_)) => {
            let message = format!("missing, while {key_key} is set");
            findings.error(certificate_key, message);
            (true, None)
        }
    }
}

/// A warning about a certificate that has ended, or ends soon.
fn expiry_words(facts: &CertificateFacts) -> Option<String> {
    let now = Env::real().clock.now();
    let ExpiryWarning { expires, expired } = ExpiryWarning::of(facts, now)?;
    let end = tls::day(expires);
    Some(match expired {
        true => format!("the certificate expired on {end}: clients refuse it"),
        false => format!("the certificate expires on {end}"),
    })
}

fn xrootd(config: &Config, findings: &mut FindingList) {
    let xrootd = &config.xrootd;
    let files = (&xrootd.tls_certificate_file, &xrootd.tls_key_file);
    let keys = ["xrootd.tls_certificate_file", "xrootd.tls_key_file"];
    let (tls, _) = tls_files(files, keys, findings);
    for address in &xrootd.listen {
        if !tls && !address.ip().is_loopback() {
            let message = format!(
                "{address} can be reached from other machines without TLS: data can be read on \
                 the way, and tokens are not taken"
            );
            findings.warning("xrootd.listen", message);
        }
    }
    if let Some(path) = &xrootd.sss_keytab_file
        && let Err(error) = Keytab::new(path.clone()).read()
    {
        findings.error("xrootd.sss_keytab_file", error.to_string());
    }
    if xrootd.redirect == "always" && xrootd.redirect_to.is_empty() {
        let message = "empty, while xrootd.redirect says that every client is sent away";
        findings.error("xrootd.redirect_to", message);
    }
    let lets_in = !xrootd.local_user.is_empty()
        || xrootd.trust_names
        || xrootd.sss_keytab_file.is_some()
        || xrootd.redirect == "always";
    // With a certificate, issuers that are let in by command are a way.
    if !xrootd.listen.is_empty() && !lets_in && !tls {
        let message = "nobody can log in at this door: set xrootd.tls_certificate_file for login tokens, \
             xrootd.sss_keytab_file for services, or xrootd.local_user for this machine";
        findings.warning("xrootd.listen", message);
    }
    if xrootd.trust_names
        && xrootd
            .listen
            .iter()
            .any(|address| !address.ip().is_loopback())
    {
        let message =
            "clients of other machines say themselves which user they are, and are believed";
        findings.warning("xrootd.trust_names", message);
    }
}
