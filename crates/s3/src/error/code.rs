//! The error codes of S3 that Dewar answers, with their status
//! (S3 API reference, "Error responses").

use http::StatusCode;

macro_rules! codes {
    ($($name:ident = $status:literal,)*) => {
        /// An error code as S3 clients know it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are S3's and documented there")]
        pub enum Code { $($name,)* }

        impl Code {
            /// The code in the answer.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub fn status(self) -> StatusCode {
                let status: u16 = match self { $(Self::$name => $status,)* };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }

            /// The code of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $(stringify!($name) => Some(Self::$name),)* _ => None }
            }
        }
    };
}

codes! {
    AccessDenied = 403,
    AuthorizationHeaderMalformed = 400,
    AuthorizationQueryParametersError = 400,
    BadDigest = 400,
    BucketAlreadyExists = 409,
    BucketAlreadyOwnedByYou = 409,
    BucketNotEmpty = 409,
    ConditionalRequestConflict = 409,
    EntityTooLarge = 400,
    ExpiredToken = 400,
    EntityTooSmall = 400,
    IncompleteBody = 400,
    AccessControlListNotSupported = 400,
    InsufficientStorage = 507,
    InternalError = 500,
    InvalidAccessKeyId = 403,
    InvalidArgument = 400,
    InvalidBucketAclWithObjectOwnership = 400,
    InvalidBucketName = 400,
    InvalidBucketState = 409,
    InvalidDigest = 400,
    InvalidEncryptionAlgorithmError = 400,
    InvalidLocationConstraint = 400,
    InvalidPart = 400,
    InvalidPartOrder = 400,
    InvalidPolicyDocument = 400,
    InvalidRange = 416,
    InvalidRequest = 400,
    InvalidRetentionPeriod = 400,
    InvalidStorageClass = 400,
    InvalidTag = 400,
    InvalidToken = 400,
    InvalidURI = 400,
    KeyTooLongError = 400,
    MalformedPOSTRequest = 400,
    MalformedTrailerError = 400,
    MalformedPolicy = 400,
    MalformedXML = 400,
    MaxMessageLengthExceeded = 400,
    MetadataTooLarge = 400,
    MethodNotAllowed = 405,
    MissingContentLength = 411,
    MissingRequestBodyError = 400,
    MissingSecurityHeader = 400,
    NoSuchBucket = 404,
    NoSuchBucketPolicy = 404,
    NoSuchCORSConfiguration = 404,
    NoSuchKey = 404,
    NoSuchLifecycleConfiguration = 404,
    NoSuchObjectLockConfiguration = 404,
    NoSuchPublicAccessBlockConfiguration = 404,
    NoSuchTagSet = 404,
    NoSuchUpload = 404,
    NoSuchVersion = 404,
    NoSuchWebsiteConfiguration = 404,
    NotImplemented = 501,
    NotModified = 304,
    ObjectLockConfigurationNotFoundError = 404,
    OwnershipControlsNotFoundError = 404,
    PreconditionFailed = 412,
    QuotaExceeded = 403,
    ReplicationConfigurationNotFoundError = 404,
    RequestTimeTooSkewed = 403,
    RequestTimeout = 400,
    ServerSideEncryptionConfigurationNotFoundError = 404,
    ServiceUnavailable = 503,
    SignatureDoesNotMatch = 403,
    SlowDown = 503,
    XAmzContentSHA256Mismatch = 400,
    UnresolvableGrantByEmailAddress = 400,
    MalformedACLError = 400,
    UnexpectedContent = 400,
    AccessForbidden = 403,
    BadRequest = 400,
}
