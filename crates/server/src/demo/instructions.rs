//! The page that a demo prints: its addresses, and commands to copy into a terminal.

use std::path::Path;

use super::{SAMPLE_FILE, authority};
use crate::serve::{DemoCredentials, Endpoints};

/// The command for this program in a shell: `dewar` if that finds it, otherwise its path.
#[must_use]
pub fn program() -> String {
    let Ok(this) = std::env::current_exe() else {
        return "dewar".to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("dewar"))
        .find(|file| file.is_file());
    match found.and_then(|file| file.canonicalize().ok()) {
        Some(file) if file == this.canonicalize().unwrap_or_default() => "dewar".to_owned(),
        _ => shell_word(&this),
    }
}

/// A path as one word of a shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,=".contains(c);
    if text.chars().all(plain) && !text.is_empty() {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Commands to copy and paste into a terminal. `program` is the name of this program there.
#[must_use]
pub fn instructions(
    folder: &Path,
    program: &str,
    endpoints: &Endpoints,
    region: &str,
    shown: &DemoCredentials,
) -> String {
    let endpoint = endpoints.first("s3");
    let metrics = endpoints.first("metrics");
    let root = endpoints.first("xrootd");
    let plain = endpoints.with_scheme("webdav", "http");
    let secure = endpoints.with_scheme("webdav", "https");
    let webdav = [plain, secure]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" and ");
    let over_webdav = plain.map_or_else(String::new, |webdav| over_http(webdav, folder, shown));
    let over_tls = secure.map_or_else(String::new, |webdav| over_https(webdav, folder, shown));
    let (key, secret) = (&shown.access_key, shown.secret_key.reveal());
    let sample = folder.join(SAMPLE_FILE);
    // A text of Python is quoted as one of Rust.
    let (quoted, sample) = (
        format!("{:?}", sample.display().to_string()),
        shell_word(&sample),
    );
    let (bucket, folder) = (&shown.bucket, shell_word(folder));
    format!(
        "Dewar serves S3 at {endpoint}, XRootD at {root} and WebDAV at {webdav} (metrics at {metrics}/metrics).

  folder      {folder}
  sample      {sample}
  bucket      {bucket}
  access key  {key}
  secret key  {secret}

Python with boto3 (pip install boto3):

    import boto3
    s3 = boto3.client(\"s3\", endpoint_url=\"{endpoint}\", region_name=\"{region}\",
                      aws_access_key_id=\"{key}\",
                      aws_secret_access_key=\"{secret}\")
    s3.upload_file({quoted}, \"{bucket}\", \"events.root\")
    print(s3.head_object(Bucket=\"{bucket}\", Key=\"events.root\")[\"ContentLength\"], \"bytes\")

aws-cli (pip install awscli):

    export AWS_ACCESS_KEY_ID={key}
    export AWS_SECRET_ACCESS_KEY={secret}
    export AWS_DEFAULT_REGION={region}
    aws --endpoint-url {endpoint} s3 cp {sample} s3://{bucket}/

rclone:

    export RCLONE_CONFIG_DEWAR_TYPE=s3 RCLONE_CONFIG_DEWAR_PROVIDER=Other
    export RCLONE_CONFIG_DEWAR_ENDPOINT={endpoint} RCLONE_CONFIG_DEWAR_REGION={region}
    export RCLONE_CONFIG_DEWAR_ACCESS_KEY_ID={key}
    export RCLONE_CONFIG_DEWAR_SECRET_ACCESS_KEY={secret}
    rclone copy {sample} dewar:{bucket}

{over_webdav}{over_tls}uproot (pip install uproot s3fs), branch by branch:

    import uproot
    tree = uproot.open({{\"s3://{bucket}/events.root\": \"Events\"}},
                       key=\"{key}\", secret=\"{secret}\",
                       endpoint_url=\"{endpoint}\")
    print(tree[\"Muon_pt\"].array())

XRootD (programs of yours on this machine need no credential):

    xrdcp -f {sample} {root}//{bucket}/events.root

uproot over XRootD (pip install uproot fsspec-xrootd xrootd):

    python3 -c 'import uproot; print(uproot.open(\"{root}//{bucket}/events.root\")[\"Events/Muon_pt\"].array())'

Users and keys:

    {program} user add NAME --dir {folder}
    {program} key add --user NAME --dir {folder}
    {program} status --dir {folder}

Ctrl-C stops it; started again on the same folder it finds everything as it was.
"
    )
}

/// Commands for WebDAV without TLS, for programs that know no authority of the demo's own.
fn over_http(webdav: &str, folder: &Path, shown: &DemoCredentials) -> String {
    let sample = shell_word(&folder.join(SAMPLE_FILE));
    let (key, secret, bucket) = (&shown.access_key, shown.secret_key.reveal(), &shown.bucket);
    let (place, host) = (shell_word(folder), webdav.trim_start_matches("http://"));
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    format!(
        "curl over WebDAV, with a checksum of what arrived:

    curl -u {key}:{secret} -T {sample} {webdav}/{bucket}/curl/events.root
    curl -u {key}:{secret} -I -H 'Want-Digest: adler32' {webdav}/{bucket}/curl/events.root

cadaver (it reads the login from ~/.netrc, and otherwise asks for it):

    (umask 077; echo machine {host} login {key} password {secret} >> ~/.netrc)
    (cd {place}; echo put {SAMPLE_FILE} cadaver.root | cadaver {webdav}/{bucket}/)

"
    )
}

/// Commands for WebDAV with TLS.
fn over_https(webdav: &str, folder: &Path, shown: &DemoCredentials) -> String {
    let sample = shell_word(&folder.join(SAMPLE_FILE));
    let (key, secret, bucket) = (&shown.access_key, shown.secret_key.reveal(), &shown.bucket);
    let token = shown.token.reveal();
    let authorities = shell_word(&shown.authorities);
    let authority = shell_word(&authority::authority_file(folder));
    let davs = webdav.replacen("https", "davs", 1);
    format!(
        "curl over https:

    curl --cacert {authority} -u {key}:{secret} -T {sample} {webdav}/{bucket}/https/events.root

davix (the demo's token is valid for a day; every start makes a new one):

    export BEARER_TOKEN={token}
    davix-put --capath {authorities} -H \"Authorization: Bearer $BEARER_TOKEN\" {sample} {webdav}/{bucket}/davix/events.root
    davix-ls --capath {authorities} -H \"Authorization: Bearer $BEARER_TOKEN\" -l {webdav}/{bucket}/davix

gfal2 (it sends tokens over https only):

    export X509_CERT_DIR={authorities} BEARER_TOKEN={token}
    gfal-copy -f -p {sample} {davs}/{bucket}/gfal/events.root
    gfal-sum {davs}/{bucket}/gfal/events.root ADLER32

rclone over WebDAV:

    export RCLONE_CONFIG_DAV_TYPE=webdav RCLONE_CONFIG_DAV_VENDOR=owncloud
    export RCLONE_CONFIG_DAV_URL={webdav} RCLONE_CONFIG_DAV_USER={key}
    export RCLONE_CONFIG_DAV_PASS=$(rclone obscure {secret})
    rclone --ca-cert {authority} copy {sample} dav:{bucket}/rclone

"
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use dewar_auth::Secret;

    use super::*;

    #[test]
    fn paths_are_one_word() {
        let word = |text: &str| shell_word(Path::new(text));
        assert_eq!(word("/a/b-1.2"), "/a/b-1.2");
        assert_eq!(word("/my demo"), "'/my demo'");
        assert_eq!(word("/it's"), r"'/it'\''s'");
    }

    #[test]
    fn instructions_name_every_client() {
        use dewar_admin::status::DoorStatus;

        let door = |name: &str, endpoint: &str| DoorStatus {
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
        };
        let endpoints = Endpoints {
            doors: vec![
                door("s3", "http://127.0.0.1:9000"),
                door("xrootd", "root://127.0.0.1:9002"),
                door("webdav", "https://127.0.0.1:9004"),
                door("webdav", "http://127.0.0.1:9003"),
                door("metrics", "http://127.0.0.1:9001"),
            ],
            admin: PathBuf::new(),
        };
        let shown = DemoCredentials {
            access_key: "AKEY".to_owned(),
            secret_key: Secret::new("ASECRET".to_owned()),
            bucket: "demo".to_owned(),
            token: Secret::new("ATOKEN".to_owned()),
            authorities: PathBuf::from("/d/certificates"),
        };
        let text = instructions(Path::new("/d"), "/b/dewar", &endpoints, "us-east-1", &shown);
        for word in [
            "boto3",
            "aws --endpoint-url",
            "rclone copy",
            "uproot.open",
            "    /b/dewar user add NAME --dir /d\n",
            "pip install uproot s3fs",
            "xrdcp -f /d/events.root root://127.0.0.1:9002//demo/",
            "pip install uproot fsspec-xrootd xrootd",
            "WebDAV at http://127.0.0.1:9003 and https://127.0.0.1:9004 (",
            "| cadaver http://127.0.0.1:9003/demo/",
            "davix-put --capath /d/certificates ",
            "export X509_CERT_DIR=/d/certificates BEARER_TOKEN=ATOKEN\n",
            " davs://127.0.0.1:9004/demo/gfal/events.root",
            "RCLONE_CONFIG_DAV_URL=https://127.0.0.1:9004 ",
        ] {
            assert!(text.contains(word), "{word}");
        }
        assert!(!text.contains("{{") && !text.contains("}}"));
    }
}
