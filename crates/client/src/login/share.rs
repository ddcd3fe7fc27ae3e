//! `dewar share --login`: a macaroon for one object, requested with the token of a login.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use dewar_sigv4::encode_path;

use super::web::Web;
use super::{TokenArgs, TrustArgs, current};

/// An object to share.
#[derive(Debug)]
pub struct Share {
    /// The S3 door.
    pub endpoint: String,
    /// The object: `/BUCKET/KEY`.
    pub path: String,
    /// The lifetime of the macaroon in seconds. The server grants a day at most.
    pub seconds: u64,
    /// Whether it is for putting the object, not for getting it.
    pub upload: bool,
    /// Authorities to believe, if not those of the system.
    pub ca: Option<PathBuf>,
}

/// Prints the command with which another person downloads or uploads the object.
///
/// # Errors
/// There is no login, the object does not exist, or the server refuses.
pub fn share(share: &Share) -> Result<()> {
    let named = share
        .path
        .strip_prefix('/')
        .and_then(|path| path.split_once('/'));
    if named.is_none_or(|(bucket, key)| bucket.is_empty() || key.is_empty() || key.ends_with('/')) {
        bail!("{:?} is no object: give /BUCKET/KEY", share.path);
    }
    let args = TokenArgs {
        issuer: None,
        trust: TrustArgs {
            ca: share.ca.clone(),
        },
    };
    let token = current(&args)?.access;
    let web = args.trust.web();
    let mut url = share.endpoint.trim_end_matches('/').to_owned();
    encode_path(&mut url, share.path.as_bytes());
    if !share.upload {
        check_object(&web, &url, &share.path, &token)?;
    }
    let activity = if share.upload { "UPLOAD" } else { "DOWNLOAD" };
    let (macaroon, seconds) = macaroon(&web, &url, activity, share.seconds, &token)?;
    let verb = if share.upload {
        "--upload-file FILE"
    } else {
        "--remote-name"
    };
    println!("curl --fail {verb} --header 'Authorization: Bearer {macaroon}' '{url}'");
    eprintln!(
        "{activity} for {seconds} s, by anybody who has this line; it ends earlier with your login's rights"
    );
    Ok(())
}

/// That the login may read an object of this name.
fn check_object(web: &Web, url: &str, path: &str, token: &str) -> Result<()> {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Range", "bytes=0-0")];
    match web.send("GET", url, &headers, b"")?.status {
        // An empty object has no first byte.
        200 | 206 | 416 => Ok(()),
        404 => bail!("{path} is not there: a share is of an object, not of a directory"),
        403 => bail!("{path} is not there, or your login may not read it"),
        status => bail!("{url} answers {status}"),
    }
}

/// Asks the door for a macaroon; how many seconds it lasts.
fn macaroon(
    web: &Web,
    url: &str,
    activity: &str,
    seconds: u64,
    token: &str,
) -> Result<(String, u64)> {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/macaroon-request"),
    ];
    let asked = serde_json::json!({
        "caveats": [format!("activity:{activity}")],
        "validity": format!("PT{seconds}S"),
    });
    let answer = web.send("POST", url, &headers, asked.to_string().as_bytes())?;
    let answer = answer.json(url)?;
    let macaroon = answer["macaroon"].as_str();
    let macaroon = macaroon.with_context(|| format!("{url} answers without a macaroon"))?;
    Ok((
        macaroon.to_owned(),
        answer["expires_in"].as_u64().unwrap_or(seconds),
    ))
}
