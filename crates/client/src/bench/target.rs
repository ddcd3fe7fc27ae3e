//! The targets of a campaign: from the command line, from ready files, from a TOML file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use dewar_sigv4::Credentials;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::args::TargetArgs;
use super::process::Processes;
use crate::http::{Endpoint, Transport, Trust, tls_config};
use crate::s3::{BearerToken, BucketAccess, PayloadMode, Proof, S3Client, Tokens};

/// One server, or one group of gateways to the same data.
#[derive(Clone, Debug)]
pub(super) struct BenchTarget {
    pub(super) name: String,
    /// Connections are dealt to these in turn.
    pub(super) transports: Vec<Arc<Transport>>,
    pub(super) access: Arc<BucketAccess>,
    pub(super) processes: Processes,
    pub(super) create_bucket: bool,
}

/// Something is missing on the command line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUse(&'static str);

/// The options that all targets share.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommonOptions {
    pub(super) payload_mode: PayloadMode,
    pub(super) request_limit: Duration,
}

impl BenchTarget {
    /// A client for the connection number `index`.
    pub(super) fn client(&self, index: usize) -> S3Client {
        let transport = &self.transports[index % self.transports.len()];
        S3Client::new(Arc::clone(transport), Arc::clone(&self.access))
    }
}

/// The description of a target before the defaults are filled in.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: Option<String>,
    endpoint: Option<String>,
    #[serde(default)]
    endpoints: Vec<String>,
    access_key: Option<String>,
    secret_key_file: Option<PathBuf>,
    #[serde(skip)]
    secret_key: Option<Zeroizing<String>>,
    session_token_file: Option<PathBuf>,
    bearer_file: Option<PathBuf>,
    #[serde(default)]
    anonymous: bool,
    bucket: Option<String>,
    region: Option<String>,
    #[serde(default)]
    pids: Vec<u32>,
    #[serde(default)]
    children: bool,
    #[serde(default)]
    insecure: bool,
    ca: Option<PathBuf>,
    ready_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFile {
    target: Vec<Description>,
}

/// The part of a ready file that says how to reach the S3 door.
#[derive(Deserialize)]
struct ReadyFile {
    pid: Option<u32>,
    s3: ReadyS3,
}

#[derive(Deserialize)]
struct ReadyS3 {
    endpoint: String,
    region: Option<String>,
    /// A demo's keys; a server of one's own does not write any.
    access_key: Option<String>,
    secret_key: Option<String>,
    bucket: Option<String>,
}

/// The targets that the arguments name, in order. The others are compared with the first.
pub(super) fn targets(args: &TargetArgs, common: CommonOptions) -> Result<Vec<BenchTarget>> {
    let mut described = Vec::new();
    for path in &args.target {
        let text = read(path)?;
        let file: TargetFile =
            toml::from_str(&text).with_context(|| format!("targets of {}", path.display()))?;
        described.extend(file.target);
    }
    for text in &args.ready_file {
        let (name, path) = split_label(text);
        let path = Some(PathBuf::from(path));
        described.push(Description {
            name,
            ready_file: path,
            ..Description::default()
        });
    }
    add_endpoints(&args.endpoint, &mut described)?;
    if described.is_empty() {
        bail!(WrongUse(
            "no target: give --endpoint, --ready-file or --target"
        ));
    }
    for description in &mut described {
        if let Some(path) = description.ready_file.take() {
            add_ready_file(description, &path)?;
        }
        if description.name.is_none() {
            description.name = Some(default_name(description)?);
        }
    }
    add_pids(&args.server_pid, &mut described)?;
    let targets: Vec<_> = described
        .into_iter()
        .map(|it| target(it, args, common))
        .collect::<Result<_>>()?;
    for (i, target) in targets.iter().enumerate() {
        ensure!(
            targets[..i].iter().all(|other| other.name != target.name),
            "two targets are called {}: label them NAME=…",
            target.name
        );
    }
    Ok(targets)
}

fn add_endpoints(texts: &[String], described: &mut Vec<Description>) -> Result<()> {
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    for text in texts {
        let (name, url) = split_label(text);
        match name.as_ref().and_then(|name| by_name.get(name)) {
            Some(index) => described[*index].endpoints.push(url.to_owned()),
            None => {
                if let Some(name) = &name {
                    by_name.insert(name.clone(), described.len());
                }
                let endpoints = vec![url.to_owned()];
                described.push(Description {
                    name,
                    endpoints,
                    ..Description::default()
                });
            }
        }
    }
    Ok(())
}

fn add_ready_file(description: &mut Description, path: &Path) -> Result<()> {
    let text = Zeroizing::new(read(path)?);
    let ready: ReadyFile = serde_json::from_str(&text)
        .with_context(|| format!("{} is no ready file with an S3 door", path.display()))?;
    if description.endpoint.is_none() && description.endpoints.is_empty() {
        description.endpoints.push(ready.s3.endpoint);
    }
    if description.access_key.is_none()
        && let (Some(access_key), Some(secret_key)) = (ready.s3.access_key, ready.s3.secret_key)
    {
        description.access_key = Some(access_key);
        description.secret_key = Some(Zeroizing::new(secret_key));
    }
    description.bucket = description.bucket.take().or(ready.s3.bucket);
    description.region = description.region.take().or(ready.s3.region);
    if description.pids.is_empty() {
        description.pids.extend(ready.pid);
    }
    Ok(())
}

/// The name of a target without one: host and port of its first endpoint.
fn default_name(description: &Description) -> Result<String> {
    let url = description
        .endpoint
        .as_ref()
        .or(description.endpoints.first());
    let url = url.context("a target has no endpoint")?;
    Ok(url.parse::<Endpoint>()?.authority())
}

fn add_pids(texts: &[String], described: &mut [Description]) -> Result<()> {
    let alone = described.len() == 1;
    for text in texts {
        let (name, pid) = split_label(text);
        let pid = pid
            .parse()
            .with_context(|| format!("--server-pid {text}"))?;
        let target = match &name {
            Some(name) => described
                .iter_mut()
                .find(|it| it.name.as_ref() == Some(name)),
            None if alone => described.first_mut(),
            None => bail!("--server-pid {text}: with several targets say NAME=PID"),
        };
        let target = target.with_context(|| format!("--server-pid {text}: no such target"))?;
        target.pids.push(pid);
    }
    Ok(())
}

fn target(
    mut description: Description,
    args: &TargetArgs,
    common: CommonOptions,
) -> Result<BenchTarget> {
    let name = description.name.take().context("a target has no name")?;
    let context = || format!("target {name}");
    let trust = match (
        description.insecure || args.insecure,
        description.ca.take().or(args.ca.clone()),
    ) {
        (true, _) => Trust::Anyone,
        (false, Some(path)) => Trust::File(path),
        (false, None) => Trust::System,
    };
    let mut transports = Vec::new();
    for url in description.endpoint.iter().chain(&description.endpoints) {
        let endpoint: Endpoint = url.parse().with_context(context)?;
        let addresses = endpoint
            .resolve()
            .with_context(|| format!("resolve {url}"))?;
        let tls = if endpoint.is_https() {
            Some(tls_config(&trust).with_context(context)?)
        } else {
            None
        };
        transports.push(Arc::new(Transport {
            endpoint,
            addresses,
            tls,
        }));
    }
    ensure!(!transports.is_empty(), "target {name} has no endpoint");
    let proof = proof(&mut description, args, common).with_context(context)?;
    let access = BucketAccess {
        bucket: args
            .bucket
            .clone()
            .or(description.bucket)
            .unwrap_or_else(|| "bench".to_owned()),
        region: args
            .region
            .clone()
            .or(description.region)
            .unwrap_or_else(|| "us-east-1".to_owned()),
        proof,
        payload_mode: common.payload_mode,
        request_limit: common.request_limit,
    };
    let children = description.children || args.server_children;
    let processes = Processes {
        pids: description.pids,
        children,
    };
    let create_bucket = args.create_bucket;
    Ok(BenchTarget {
        name,
        transports,
        access: Arc::new(access),
        processes,
        create_bucket,
    })
}

/// The credential of a target's requests: none, bearer tokens, or a signature.
fn proof(description: &mut Description, args: &TargetArgs, common: CommonOptions) -> Result<Proof> {
    let unsigned = description.anonymous || description.bearer_file.is_some();
    if unsigned && matches!(common.payload_mode, PayloadMode::StreamingSigned) {
        bail!(WrongUse(
            "--payload-mode streaming-signed needs an access key, not a bearer token or an anonymous caller"
        ));
    }
    match (description.anonymous, description.bearer_file.take()) {
        (true, Some(_)) => bail!("it is either anonymous or has a bearer_file"),
        (true, None) => return Ok(Proof::Nobody),
        (false, Some(path)) => {
            let text = Zeroizing::new(read(&path)?);
            let tokens = Tokens::parse(&text)
                .with_context(|| format!("there is no token in {}", path.display()))?;
            return Ok(Proof::Bearer(tokens));
        }
        (false, None) => {}
    }
    let access_key = description.access_key.take().or(args.access_key.clone());
    let access_key = access_key.context("no access key: give --access-key or AWS_ACCESS_KEY_ID")?;
    let secret_file = description
        .secret_key_file
        .take()
        .or(args.secret_key_file.clone());
    let secret = match (description.secret_key.take(), secret_file) {
        (Some(secret), _) => secret,
        (None, Some(path)) => Zeroizing::new(read(&path)?),
        (None, None) => {
            let secret = std::env::var("AWS_SECRET_ACCESS_KEY");
            Zeroizing::new(secret.context("no --secret-key-file and no AWS_SECRET_ACCESS_KEY")?)
        }
    };
    let session = match description.session_token_file.take() {
        None => None,
        Some(path) => {
            let text = Zeroizing::new(read(&path)?);
            Some(BearerToken(Zeroizing::new(text.trim().to_owned())))
        }
    };
    let key = Credentials::new(&access_key, secret.trim());
    Ok(Proof::Key(key, session))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Splits `NAME=rest`. A URL or a path may contain `=` itself, but no name contains `/`.
fn split_label(text: &str) -> (Option<String>, &str) {
    match text.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !name.contains('/') => {
            (Some(name.to_owned()), rest)
        }
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: CommonOptions = CommonOptions {
        payload_mode: PayloadMode::Unsigned,
        request_limit: Duration::from_secs(1),
    };

    fn key_of(target: &BenchTarget) -> &str {
        match &target.access.proof {
            Proof::Key(key, _) => &key.access_key,
            other => panic!("{other:?}"),
        }
    }

    fn arguments(endpoints: &[&str]) -> (tempfile::TempDir, TargetArgs) {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "s3cr3t\n").unwrap();
        let args = TargetArgs {
            endpoint: endpoints.iter().map(|text| (*text).to_owned()).collect(),
            access_key: Some("key".to_owned()),
            secret_key_file: Some(secret),
            ..TargetArgs::default()
        };
        (dir, args)
    }

    #[test]
    fn labels_group_gateways_and_take_pids() {
        let (_dir, mut args) = arguments(&[
            "a=http://127.0.0.1:1",
            "http://127.0.0.1:2",
            "a=https://127.0.0.1:3/",
        ]);
        args.insecure = true;
        args.server_pid = vec![
            "a=7".to_owned(),
            "127.0.0.1:2=8".to_owned(),
            "a=9".to_owned(),
        ];
        let found = targets(&args, COMMON).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].name.as_str(), found[0].transports.len()),
            ("a", 2)
        );
        assert!(found[0].transports[1].tls.is_some());
        assert_eq!(found[0].processes.pids, [7, 9]);
        assert_eq!(
            (found[1].name.as_str(), &found[1].processes.pids[..]),
            ("127.0.0.1:2", &[8][..])
        );
        assert_eq!(found[1].access.bucket, "bench");

        args.server_pid = vec!["7".to_owned()];
        assert!(
            targets(&args, COMMON)
                .unwrap_err()
                .to_string()
                .contains("NAME=PID")
        );
        args.server_pid = vec!["b=7".to_owned()];
        assert!(
            targets(&args, COMMON)
                .unwrap_err()
                .to_string()
                .contains("no such target")
        );
    }

    #[test]
    fn ready_file_says_everything() {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready.json");
        let text = r#"{"pid":42,"s3":{"endpoint":"http://127.0.0.1:9","region":"mars",
            "access_key":"A","secret_key":"S","bucket":"demo"},"metrics":{"endpoint":"x"}}"#;
        std::fs::write(&ready, text).unwrap();
        let args = TargetArgs {
            ready_file: vec![format!("dewar={}", ready.display())],
            ..TargetArgs::default()
        };
        let found = targets(&args, COMMON).unwrap();
        let target = &found[0];
        assert_eq!(
            (target.name.as_str(), &target.processes.pids[..]),
            ("dewar", &[42][..])
        );
        assert_eq!(
            (&*target.access.bucket, &*target.access.region),
            ("demo", "mars")
        );
        assert_eq!(key_of(target), "A");
    }

    #[test]
    fn a_ready_file_without_keys_takes_them_from_elsewhere() {
        let (dir, mut args) = arguments(&[]);
        let ready = dir.path().join("ready.json");
        let text = r#"{"pid":42,"s3":{"endpoint":"http://127.0.0.1:9","region":"mars"}}"#;
        std::fs::write(&ready, text).unwrap();
        args.ready_file = vec![ready.display().to_string()];
        let found = targets(&args, COMMON).unwrap();
        assert_eq!(key_of(&found[0]), "key");
        assert_eq!(&*found[0].access.region, "mars");
        args.access_key = None;
        let error = format!("{:#}", targets(&args, COMMON).unwrap_err());
        assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    }

    #[test]
    fn target_file_with_two_targets() {
        let (dir, mut args) = arguments(&[]);
        let path = dir.path().join("targets.toml");
        let text = "[[target]]\nname = \"one\"\nendpoint = \"http://127.0.0.1:1\"\npids = [3]\n\
                    [[target]]\nname = \"two\"\nendpoints = [\"http://127.0.0.1:2\"]\n\
                    access_key = \"other\"\nbucket = \"b\"\nchildren = true\n";
        std::fs::write(&path, text).unwrap();
        args.target = vec![path.clone()];
        let found = targets(&args, COMMON).unwrap();
        assert_eq!(key_of(&found[0]), "key");
        assert_eq!(key_of(&found[1]), "other");
        assert!(found[1].processes.children && !found[0].processes.children);
        std::fs::write(&path, text.replace("children", "childs")).unwrap();
        let error = format!("{:#}", targets(&args, COMMON).unwrap_err());
        assert!(error.contains("childs"), "{error}");
    }

    #[test]
    fn a_target_shows_a_key_a_token_or_nothing() {
        let (dir, mut args) = arguments(&[]);
        std::fs::write(dir.path().join("tokens"), "one\ntwo\n").unwrap();
        let path = dir.path().join("targets.toml");
        let file = format!("{}/tokens", dir.path().display());
        let at = "endpoint = \"http://127.0.0.1:1\"";
        let text = format!(
            "[[target]]\nname = \"a\"\n{at}\nanonymous = true\n\
             [[target]]\nname = \"b\"\n{at}\nbearer_file = \"{file}\"\n\
             [[target]]\nname = \"c\"\n{at}\nsession_token_file = \"{file}\"\n"
        );
        std::fs::write(&path, &text).unwrap();
        args.target = vec![path.clone()];
        let found = targets(&args, COMMON).unwrap();
        let proofs: Vec<&Proof> = found.iter().map(|target| &target.access.proof).collect();
        assert!(matches!(
            proofs[..],
            [Proof::Nobody, Proof::Bearer(_), Proof::Key(_, Some(_))]
        ));
        let signed = CommonOptions {
            payload_mode: PayloadMode::StreamingSigned,
            ..COMMON
        };
        let error = format!("{:#}", targets(&args, signed).unwrap_err());
        assert!(error.contains("streaming-signed"), "{error}");
        std::fs::write(
            &path,
            text.replace(
                "anonymous = true",
                &format!("anonymous = true\nbearer_file = \"{file}\""),
            ),
        )
        .unwrap();
        assert!(targets(&args, COMMON).is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        let (_dir, args) = arguments(&["http://127.0.0.1:1", "http://127.0.0.1:1"]);
        assert!(
            targets(&args, COMMON)
                .unwrap_err()
                .to_string()
                .contains("label them")
        );
        let (_dir, args) = arguments(&[]);
        assert!(
            targets(&args, COMMON)
                .unwrap_err()
                .to_string()
                .contains("no target")
        );
        let (_dir, mut args) = arguments(&["http://127.0.0.1:1"]);
        args.access_key = None;
        assert!(format!("{:#}", targets(&args, COMMON).unwrap_err()).contains("access key"));
    }
}
