//! The bucket and key of a request, from its host and path.

use dewar_http_front::host_of;
use dewar_sigv4::decode_percent;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_types::ObjectKey;
use http::request::Parts;

use crate::error::{Code, Refusal, Result};
use crate::wire::{bucket_named, key_named};

/// The bucket and key of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// Neither: the service itself.
    Service,
    /// A bucket.
    Bucket(BucketRef),
    /// An object.
    Object(ObjectRef),
}

impl Address {
    /// Parses the path, below the bucket in the host if there is one. The path is decoded once and
    /// never normalised: `a//b` and `a/../b` are keys.
    ///
    /// # Errors
    /// `InvalidURI`, `InvalidBucketName`, `KeyTooLongError`.
    pub(crate) fn parse(head: &Parts, in_host: Option<String>) -> Result<Self> {
        let path = decode_percent(head.uri.path())
            .and_then(|bytes| String::from_utf8(bytes.into_owned()).ok())
            .ok_or_else(|| Refusal::new(Code::InvalidURI, "Couldn't parse the specified URI."))?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = match in_host {
            Some(bucket) => (bucket, path),
            None if path.is_empty() => return Ok(Self::Service),
            None => match path.split_once('/') {
                Some((bucket, key)) => (bucket.to_owned(), key),
                None => (path.to_owned(), ""),
            },
        };
        let bucket = bucket_named(&bucket)?;
        if key.is_empty() {
            return Ok(Self::Bucket(bucket));
        }
        let key = key_named(key)?;
        Ok(Self::Object(ObjectRef { bucket, key }))
    }

    /// The bucket.
    pub(crate) fn bucket(&self) -> Option<&BucketRef> {
        match self {
            Self::Service => None,
            Self::Bucket(bucket) => Some(bucket),
            Self::Object(object) => Some(&object.bucket),
        }
    }

    /// The key.
    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        match self {
            Self::Object(object) => Some(&object.key),
            _ => None,
        }
    }
}

/// The bucket in front of one of our domains.
pub(super) fn bucket_in_host(head: &Parts, domains: &[String]) -> Option<String> {
    if domains.is_empty() {
        return None;
    }
    let host = host_of(head)?;
    let inside = |domain: &String| {
        let bucket = host.strip_suffix(domain.as_str())?.strip_suffix('.')?;
        (!bucket.is_empty()).then(|| bucket.to_owned())
    };
    if domains.contains(&host) {
        return None;
    }
    domains.iter().find_map(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(host: &str, path: &str) -> Result<Address> {
        let request = http::Request::get(path).header("host", host).body(());
        let head = request.expect("a request").into_parts().0;
        let domains = [
            "s3.example.org".to_owned(),
            "deep.s3.example.org".to_owned(),
        ];
        Address::parse(&head, bucket_in_host(&head, &domains))
    }

    fn text(host: &str, path: &str) -> String {
        match parse(host, path).expect("valid") {
            Address::Service => "-".into(),
            Address::Bucket(bucket) => bucket.name.to_string(),
            Address::Object(object) => format!("{} {}", object.bucket.name, object.key),
        }
    }

    #[test]
    fn both_styles_name_the_same() {
        assert_eq!(text("h:9000", "/"), "-");
        assert_eq!(text("h", "/bucket"), "bucket");
        assert_eq!(text("h", "/bucket/"), "bucket");
        assert_eq!(
            text("h", "/bucket/a//b/../c%2Fd%20e"),
            "bucket a//b/../c/d e"
        );
        assert_eq!(text("h", "/bucket//"), "bucket /");
        assert_eq!(text("bucket.S3.example.org:9000", "/"), "bucket");
        assert_eq!(text("my.bucket.s3.example.org", "/a/b"), "my.bucket a/b");
        assert_eq!(text("s3.example.org", "/bucket/a"), "bucket a");
        assert_eq!(text("deep.s3.example.org", "/bucket/a"), "bucket a");
        assert_eq!(text("evils3.example.org", "/bucket/a"), "bucket a");
        assert_eq!(text("[::1]:9000", "/bucket/a"), "bucket a");
    }

    #[test]
    fn broken_addresses_have_their_codes() {
        let code = |path: &str| parse("h", path).expect_err(path).code();
        assert_eq!(code("/Bad_Bucket/a"), Code::InvalidBucketName);
        assert_eq!(code("//a"), Code::InvalidBucketName);
        assert_eq!(code("/bucket/%ff"), Code::InvalidURI);
        assert_eq!(code("/bucket/%f"), Code::InvalidURI);
        assert_eq!(
            code(&format!("/bucket/{}", "k".repeat(1025))),
            Code::KeyTooLongError
        );
    }
}
