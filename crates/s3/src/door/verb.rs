//! Recognising the verb of a request. The list is closed. A sub-resource that is not in it is
//! refused and never taken for the plain resource. So `?unknown` neither lists a bucket nor deletes
//! an object.

use dewar_http_front::{boundary_of, header};
use dewar_sigv4::Query;
use http::{HeaderMap, Method};

use super::access::AccessVerb;
use super::address::Address;
use crate::error::{Code, Refusal, Result};
use crate::wire::version_named;

/// A bucket configuration that Dewar does not have, and for which S3 has an answer when it is
/// unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Configuration {
    /// An answer in XML: the state of a bucket without this configuration.
    Unset(&'static str),
    /// An error: there is none.
    None(Code, &'static str),
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    ListBuckets,
    CreateBucket,
    HeadBucket,
    DeleteBucket,
    GetBucketLocation,
    GetBucketVersioning,
    PutBucketVersioning,
    ListObjectVersions,
    GetBucketTagging,
    PutBucketTagging,
    DeleteBucketTagging,
    GetBucketLifecycle,
    PutBucketLifecycle,
    DeleteBucketLifecycle,
    GetObjectLockConfiguration,
    PutObjectLockConfiguration,
    Access(AccessVerb),
    GetBucketCors,
    PutBucketCors,
    DeleteBucketCors,
    GetBucketEncryption,
    PutBucketEncryption,
    DeleteBucketEncryption,
    GetBucketConfiguration(Configuration),
    ListObjects,
    ListObjectsV2,
    ListMultipartUploads,
    DeleteObjects,
    PostForm,
    PutObject,
    CopyObject,
    GetObject,
    HeadObject,
    DeleteObject,
    GetObjectTagging,
    PutObjectTagging,
    DeleteObjectTagging,
    GetObjectRetention,
    PutObjectRetention,
    GetObjectLegalHold,
    PutObjectLegalHold,
    GetObjectAttributes,
    RenameObject,
    CreateMultipartUpload,
    UploadPart,
    UploadPartCopy,
    CompleteMultipartUpload,
    AbortMultipartUpload,
    ListParts,
}

/// Parameters about signing or logging that do not change the verb: S3 ignores `x-…`.
fn is_neutral(name: &str) -> bool {
    // The last five are of presigned URLs in Signature V2.
    name.get(..2)
        .is_some_and(|start| start.eq_ignore_ascii_case("x-"))
        || matches!(
            name,
            "AWSAccessKeyId" | "Signature" | "Expires" | "content-type" | "content-md5"
        )
}

/// Whether every parameter is neutral or in `known`.
fn only(query: &Query, known: &[&str]) -> bool {
    query
        .iter()
        .all(|(name, _)| is_neutral(name) || known.contains(&name))
}

const LIST: &[&str] = &[
    "delimiter",
    "encoding-type",
    "marker",
    "max-keys",
    "prefix",
    "list-type",
    "continuation-token",
    "fetch-owner",
    "start-after",
    "allow-unordered",
];
/// Parameters that are appended to a form's success_action_redirect, which may lead to a listing.
const REDIRECTED: &[&str] = &["bucket", "key", "etag"];
const LIST_UPLOADS: &[&str] = &[
    "uploads",
    "delimiter",
    "encoding-type",
    "key-marker",
    "max-uploads",
    "prefix",
    "upload-id-marker",
];
const LIST_VERSIONS: &[&str] = &[
    "versions",
    "delimiter",
    "encoding-type",
    "key-marker",
    "max-keys",
    "prefix",
    "version-id-marker",
];
const READ: &[&str] = &[
    "versionId",
    "partNumber",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];

impl Verb {
    /// S3's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ListBuckets => "ListBuckets",
            Self::CreateBucket => "CreateBucket",
            Self::HeadBucket => "HeadBucket",
            Self::DeleteBucket => "DeleteBucket",
            Self::GetBucketLocation => "GetBucketLocation",
            Self::Access(verb) => verb.name(),
            Self::GetBucketCors => "GetBucketCors",
            Self::PutBucketCors => "PutBucketCors",
            Self::DeleteBucketCors => "DeleteBucketCors",
            Self::GetBucketEncryption => "GetBucketEncryption",
            Self::PutBucketEncryption => "PutBucketEncryption",
            Self::DeleteBucketEncryption => "DeleteBucketEncryption",
            Self::ListObjects => "ListObjects",
            Self::ListObjectsV2 => "ListObjectsV2",
            Self::ListMultipartUploads => "ListMultipartUploads",
            Self::DeleteObjects => "DeleteObjects",
            Self::PostForm => "PostObject",
            Self::PutObject => "PutObject",
            Self::CopyObject => "CopyObject",
            Self::GetObject => "GetObject",
            Self::HeadObject => "HeadObject",
            Self::DeleteObject => "DeleteObject",
            Self::GetObjectTagging => "GetObjectTagging",
            Self::RenameObject => "RenameObject",
            Self::CreateMultipartUpload => "CreateMultipartUpload",
            Self::UploadPart => "UploadPart",
            Self::UploadPartCopy => "UploadPartCopy",
            Self::CompleteMultipartUpload => "CompleteMultipartUpload",
            Self::AbortMultipartUpload => "AbortMultipartUpload",
            Self::ListParts => "ListParts",
            Self::GetBucketConfiguration(_) => "GetBucketConfiguration",
            Self::GetBucketVersioning => "GetBucketVersioning",
            Self::PutBucketVersioning => "PutBucketVersioning",
            Self::ListObjectVersions => "ListObjectVersions",
            Self::GetBucketLifecycle => "GetBucketLifecycleConfiguration",
            Self::PutBucketLifecycle => "PutBucketLifecycleConfiguration",
            Self::DeleteBucketLifecycle => "DeleteBucketLifecycle",
            Self::GetBucketTagging => "GetBucketTagging",
            Self::PutBucketTagging => "PutBucketTagging",
            Self::DeleteBucketTagging => "DeleteBucketTagging",
            Self::GetObjectLockConfiguration => "GetObjectLockConfiguration",
            Self::PutObjectLockConfiguration => "PutObjectLockConfiguration",
            Self::PutObjectTagging => "PutObjectTagging",
            Self::DeleteObjectTagging => "DeleteObjectTagging",
            Self::GetObjectRetention => "GetObjectRetention",
            Self::PutObjectRetention => "PutObjectRetention",
            Self::GetObjectLegalHold => "GetObjectLegalHold",
            Self::PutObjectLegalHold => "PutObjectLegalHold",
            Self::GetObjectAttributes => "GetObjectAttributes",
        }
    }

    /// Recognises the verb.
    ///
    /// # Errors
    /// `NotImplemented` for verbs that Dewar does not have, and for unknown ones;
    /// `MethodNotAllowed`, `InvalidArgument`.
    pub(crate) fn of(
        method: &Method,
        address: &Address,
        query: &Query,
        headers: &HeaderMap,
    ) -> Result<Self> {
        if let Some(version) = query.get("versionId") {
            version_named(version)?;
        }
        let found = match address {
            Address::Service => of_service(method, query),
            Address::Bucket(_) => of_bucket(method, query, headers)?,
            Address::Object(_) => of_object(method, query, headers)?,
        };
        found.ok_or_else(|| refuse(method, query))
    }

    /// Whether the verb reads the body. The other verbs leave it unread.
    pub(crate) fn reads_body(self) -> bool {
        if let Self::Access(verb) = self {
            return verb.reads_body();
        }
        matches!(
            self,
            Self::CreateBucket
                | Self::PutBucketCors
                | Self::PutBucketEncryption
                | Self::DeleteObjects
                | Self::PostForm
                | Self::PutObject
                | Self::UploadPart
                | Self::CompleteMultipartUpload
                | Self::PutBucketVersioning
                | Self::PutBucketTagging
                | Self::PutBucketLifecycle
                | Self::PutObjectLockConfiguration
                | Self::PutObjectTagging
                | Self::PutObjectRetention
                | Self::PutObjectLegalHold
        )
    }
}

fn refuse(method: &Method, query: &Query) -> Refusal {
    let plain = query.iter().all(|(name, _)| is_neutral(name));
    let known = [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::POST,
        Method::DELETE,
    ];
    if plain || !known.contains(method) {
        let message = "The specified method is not allowed against this resource.";
        return Refusal::new(Code::MethodNotAllowed, message)
            .element("Method", method.as_str().to_owned());
    }
    let names: Vec<&str> = query
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !is_neutral(name))
        .collect();
    Refusal::new(
        Code::NotImplemented,
        format!(
            "A parameter you provided implies functionality that is not implemented: {}",
            names.join(", ")
        ),
    )
}

fn of_service(method: &Method, query: &Query) -> Option<Verb> {
    let known = [
        "max-buckets",
        "continuation-token",
        "prefix",
        "bucket-region",
    ];
    (*method == Method::GET && only(query, &known)).then_some(Verb::ListBuckets)
}

fn of_bucket(method: &Method, query: &Query, headers: &HeaderMap) -> Result<Option<Verb>> {
    if let Some(name) = sub_resource(query)
        && let Some(verb) = AccessVerb::of_bucket(method, name)
    {
        return Ok(Some(Verb::Access(verb)));
    }
    Ok(match *method {
        Method::GET => {
            if query.has("uploads") {
                return Ok(only(query, LIST_UPLOADS).then_some(Verb::ListMultipartUploads));
            }
            if query.has("versions") {
                return Ok(only(query, LIST_VERSIONS).then_some(Verb::ListObjectVersions));
            }
            if let Some(verb) = bucket_configuration(query) {
                return Ok(Some(verb));
            }
            match query.get("list-type") {
                _ if only(query, REDIRECTED) => Some(Verb::ListObjects),
                _ if !only(query, LIST) => None,
                None => Some(Verb::ListObjects),
                Some("2") => Some(Verb::ListObjectsV2),
                Some(_) => {
                    let message = "list-type must be 2";
                    return Err(Refusal::new(Code::InvalidArgument, message));
                }
            }
        }
        Method::HEAD => only(query, &["read-stats"]).then_some(Verb::HeadBucket),
        Method::PUT if only(query, &[]) => Some(Verb::CreateBucket),
        Method::PUT => match sub_resource(query) {
            Some("versioning") => Some(Verb::PutBucketVersioning),
            Some("tagging") => Some(Verb::PutBucketTagging),
            Some("lifecycle") => Some(Verb::PutBucketLifecycle),
            Some("cors") => Some(Verb::PutBucketCors),
            Some("encryption") => Some(Verb::PutBucketEncryption),
            Some("object-lock") => Some(Verb::PutObjectLockConfiguration),
            _ => None,
        },
        Method::DELETE if only(query, &[]) => Some(Verb::DeleteBucket),
        Method::DELETE => match sub_resource(query) {
            Some("tagging") => Some(Verb::DeleteBucketTagging),
            Some("lifecycle") => Some(Verb::DeleteBucketLifecycle),
            Some("cors") => Some(Verb::DeleteBucketCors),
            Some("encryption") => Some(Verb::DeleteBucketEncryption),
            _ => None,
        },
        Method::POST if query.has("delete") => {
            only(query, &["delete"]).then_some(Verb::DeleteObjects)
        }
        Method::POST => {
            let kind = header(headers, "content-type")?.and_then(boundary_of);
            (only(query, &[]) && kind.is_some()).then_some(Verb::PostForm)
        }
        _ => None,
    })
}

/// The sub-resource that is alone in the query string.
fn sub_resource(query: &Query) -> Option<&str> {
    let mut names = query
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !is_neutral(name));
    match (names.next(), names.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

/// Sub-resources that clients request by default, each alone in its query string.
fn bucket_configuration(query: &Query) -> Option<Verb> {
    let unset = |xml| Some(Verb::GetBucketConfiguration(Configuration::Unset(xml)));
    let none = |code, words| {
        Some(Verb::GetBucketConfiguration(Configuration::None(
            code, words,
        )))
    };
    match sub_resource(query)? {
        "location" => Some(Verb::GetBucketLocation),
        "versioning" => Some(Verb::GetBucketVersioning),
        "logging" => unset("BucketLoggingStatus"),
        "notification" => unset("NotificationConfiguration"),
        "accelerate" => unset("AccelerateConfiguration"),
        "tagging" => Some(Verb::GetBucketTagging),
        "cors" => Some(Verb::GetBucketCors),
        "lifecycle" => Some(Verb::GetBucketLifecycle),
        "encryption" => Some(Verb::GetBucketEncryption),
        "website" => none(
            Code::NoSuchWebsiteConfiguration,
            "The specified bucket does not have a website configuration",
        ),
        "replication" => none(
            Code::ReplicationConfigurationNotFoundError,
            "The replication configuration was not found",
        ),
        "object-lock" => Some(Verb::GetObjectLockConfiguration),
        _ => None,
    }
}

fn of_object(method: &Method, query: &Query, headers: &HeaderMap) -> Result<Option<Verb>> {
    let copies = headers.contains_key("x-amz-copy-source");
    Ok(match *method {
        Method::GET if query.has("torrent") => {
            let message = "There is no torrent of this object.";
            return Err(Refusal::new(Code::NoSuchKey, message));
        }
        Method::GET => get_of_object(query),
        Method::HEAD => only(query, READ).then_some(Verb::HeadObject),
        Method::PUT if query.has("uploadId") || query.has("partNumber") => {
            let whole = query.has("uploadId") && query.has("partNumber");
            let verb = if copies {
                Verb::UploadPartCopy
            } else {
                Verb::UploadPart
            };
            (whole && only(query, &["uploadId", "partNumber"])).then_some(verb)
        }
        Method::PUT if query.has("acl") => {
            only(query, &["acl", "versionId"]).then_some(Verb::Access(AccessVerb::PutObjectAcl))
        }
        Method::PUT if query.has("renameObject") => {
            only(query, &["renameObject"]).then_some(Verb::RenameObject)
        }
        Method::PUT if query.has("tagging") => {
            only(query, &["tagging", "versionId"]).then_some(Verb::PutObjectTagging)
        }
        Method::PUT if query.has("retention") => {
            only(query, &["retention", "versionId"]).then_some(Verb::PutObjectRetention)
        }
        Method::PUT if query.has("legal-hold") => {
            only(query, &["legal-hold", "versionId"]).then_some(Verb::PutObjectLegalHold)
        }
        Method::PUT => {
            let verb = if copies {
                Verb::CopyObject
            } else {
                Verb::PutObject
            };
            only(query, &[]).then_some(verb)
        }
        Method::POST if query.has("uploads") => {
            only(query, &["uploads"]).then_some(Verb::CreateMultipartUpload)
        }
        Method::POST if query.has("uploadId") => {
            only(query, &["uploadId"]).then_some(Verb::CompleteMultipartUpload)
        }
        Method::DELETE if query.has("uploadId") => {
            only(query, &["uploadId"]).then_some(Verb::AbortMultipartUpload)
        }
        Method::DELETE if query.has("tagging") => {
            only(query, &["tagging", "versionId"]).then_some(Verb::DeleteObjectTagging)
        }
        Method::DELETE => only(query, &["versionId"]).then_some(Verb::DeleteObject),
        _ => None,
    })
}

fn get_of_object(query: &Query) -> Option<Verb> {
    if query.has("uploadId") {
        let known = [
            "uploadId",
            "max-parts",
            "part-number-marker",
            "encoding-type",
        ];
        return only(query, &known).then_some(Verb::ListParts);
    }
    for (name, verb) in [
        ("acl", Verb::Access(AccessVerb::GetObjectAcl)),
        ("tagging", Verb::GetObjectTagging),
        ("legal-hold", Verb::GetObjectLegalHold),
        ("retention", Verb::GetObjectRetention),
        ("attributes", Verb::GetObjectAttributes),
    ] {
        if query.has(name) {
            return only(query, &[name, "versionId"]).then_some(verb);
        }
    }
    only(query, READ).then_some(Verb::GetObject)
}

#[cfg(test)]
mod tests {
    use dewar_store::api::{BucketRef, ObjectRef};
    use dewar_types::{BucketName, ObjectKey};

    use super::*;

    fn verb(method: &str, key: bool, query: &str) -> Result<Verb> {
        let bucket = BucketRef::own(BucketName::new("bucket").expect("valid"));
        let address = if key {
            let key = ObjectKey::new("key").expect("valid");
            Address::Object(ObjectRef { bucket, key })
        } else {
            Address::Bucket(bucket)
        };
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let query = Query::parse(Some(query)).expect("a query");
        Verb::of(&method, &address, &query, &HeaderMap::new())
    }

    #[test]
    fn known_requests_find_their_verb() {
        for (method, key, query, expected) in [
            ("GET", false, "", Verb::ListObjects),
            (
                "GET",
                false,
                "x-id=ListObjects&prefix=a&X-Amz-Signature=b",
                Verb::ListObjects,
            ),
            ("GET", false, "list-type=2&prefix=", Verb::ListObjectsV2),
            (
                "GET",
                false,
                "bucket=b&key=k&etag=%22e%22",
                Verb::ListObjects,
            ),
            ("HEAD", false, "read-stats=true", Verb::HeadBucket),
            ("GET", false, "uploads", Verb::ListMultipartUploads),
            ("GET", false, "location", Verb::GetBucketLocation),
            (
                "GET",
                false,
                "versions&key-marker=a&version-id-marker=b",
                Verb::ListObjectVersions,
            ),
            ("PUT", false, "versioning=", Verb::PutBucketVersioning),
            (
                "PUT",
                true,
                "tagging&versionId=null",
                Verb::PutObjectTagging,
            ),
            ("DELETE", true, "tagging", Verb::DeleteObjectTagging),
            (
                "GET",
                true,
                "attributes&versionId=null",
                Verb::GetObjectAttributes,
            ),
            ("POST", false, "delete", Verb::DeleteObjects),
            (
                "GET",
                true,
                "partNumber=1&response-expires=x",
                Verb::GetObject,
            ),
            ("GET", true, "uploadId=a", Verb::ListParts),
            ("PUT", true, "", Verb::PutObject),
            ("PUT", true, "uploadId=a&partNumber=1", Verb::UploadPart),
            ("PUT", true, "renameObject", Verb::RenameObject),
            ("POST", true, "uploads=", Verb::CreateMultipartUpload),
            ("POST", true, "uploadId=a", Verb::CompleteMultipartUpload),
            ("DELETE", true, "uploadId=a", Verb::AbortMultipartUpload),
            ("DELETE", true, "versionId=null", Verb::DeleteObject),
        ] {
            assert_eq!(
                verb(method, key, query).expect(query),
                expected,
                "{method} {query}"
            );
        }
    }

    #[test]
    fn what_is_not_known_never_falls_through() {
        for (method, key, query) in [
            ("GET", false, "unknown"),
            ("GET", false, "versions&list-type=2"),
            ("GET", false, "policy&prefix=a"),
            ("GET", false, "inventory&id=1"),
            ("GET", false, "uploads&list-type=2"),
            ("GET", false, "annotations&list-type=2"),
            ("PUT", false, "versioning&tagging"),
            ("PUT", false, "unknown"),
            ("DELETE", false, "unknown=1"),
            ("HEAD", false, "acl"),
            ("PUT", true, "tagging&retention"),
            ("PUT", true, "unknown"),
            ("PUT", true, "uploadId=a"),
            ("PUT", true, "partNumber=1"),
            ("POST", true, "restore"),
            ("POST", true, "uploadId=a&uploads"),
            ("DELETE", true, "retention"),
            ("DELETE", true, "uploadId=a&unknown"),
        ] {
            let refusal = verb(method, key, query).expect_err(query);
            assert_eq!(refusal.code(), Code::NotImplemented, "{method} {query}");
        }
        for (method, key, query) in [
            ("POST", false, ""),
            ("POST", true, ""),
            ("OPTIONS", true, ""),
            ("PATCH", true, ""),
            ("OPTIONS", false, "cors"),
        ] {
            let refusal = verb(method, key, query).expect_err(query);
            assert_eq!(refusal.code(), Code::MethodNotAllowed, "{method} {query}");
        }
        let version = verb("DELETE", true, "versionId=abc").expect_err("a version");
        assert_eq!(version.code(), Code::InvalidArgument);
        let torrent = verb("GET", true, "torrent").expect_err("a torrent");
        assert_eq!(torrent.code(), Code::NoSuchKey);
        let list = verb("GET", false, "list-type=3").expect_err("a type");
        assert_eq!(list.code(), Code::InvalidArgument);
    }
}
