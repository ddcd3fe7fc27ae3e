//! Signing an address, as `generate_presigned_url` of an SDK would.

use aws_lc_rs::digest::{SHA256, digest};
use dewar_auth::Secret;
use dewar_types::Timestamp;

use super::date::RequestDate;
use super::encode::{encode_path, encode_strict, push_hex};
use super::key::SigningKey;

/// The request that a presigned URL allows.
#[derive(Clone, Copy, Debug)]
pub struct PresignRequest<'a> {
    /// `GET`, `PUT`.
    pub method: &'a str,
    /// The address of the S3 server, `https://HOST[:PORT]`.
    pub endpoint: &'a str,
    /// The region that signatures are for.
    pub region: &'a str,
    /// `/bucket/key`.
    pub path: &'a str,
    /// The access key that signs.
    pub access_key: &'a str,
    /// When.
    pub now: Timestamp,
    /// For how long, in seconds; a week at most.
    pub seconds: u64,
}

/// The URL; `None` for an endpoint without a host, or a time out of range.
#[must_use]
pub fn presign(what: &PresignRequest<'_>, secret: &Secret) -> Option<String> {
    let (scheme, host) = what.endpoint.trim_end_matches('/').split_once("://")?;
    let default = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    // Clients leave the usual port out of the header that is signed.
    let host = host.strip_suffix(default).unwrap_or(host);
    if host.is_empty() || host.contains('/') {
        return None;
    }
    let date = RequestDate::at(what.now.secs())?;
    let mut path = String::new();
    encode_path(&mut path, what.path.as_bytes());
    let scope = format!("{}/{}/s3/aws4_request", date.day(), what.region);
    let mut query = String::from("X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=");
    encode_strict(
        &mut query,
        format!("{}/{scope}", what.access_key).as_bytes(),
    );
    query.push_str(&format!(
        "&X-Amz-Date={}&X-Amz-Expires={}&X-Amz-SignedHeaders=host",
        date.as_str(),
        what.seconds
    ));
    let canonical = format!(
        "{}\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD",
        what.method
    );
    let mut string = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n", date.as_str());
    push_hex(&mut string, digest(&SHA256, canonical.as_bytes()).as_ref());
    let key = SigningKey::derive(secret, date.day(), what.region, "s3");
    let mut url = format!("{scheme}://{host}{path}?{query}&X-Amz-Signature=");
    push_hex(&mut url, &key.sign(&string));
    Some(url)
}
