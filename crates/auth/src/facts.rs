//! The facts that a front knows about a request and that a policy may test.
//!
//! The store knows the action and the resource. Only the front knows the rest of the request: the
//! user agent, the ACL headers, the requested encryption algorithm. A front passes these on
//! unparsed. They are read only when a policy names them.

use std::borrow::Cow;

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// Something that the client said.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Fact { $($(#[$doc])* $name,)* }

        impl Fact {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The condition key for this fact.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

facts! {
    /// The client's program.
    UserAgent "aws:UserAgent",
    /// The page that led to the request.
    Referer "aws:Referer",
    /// The canned list of rights that is to be set.
    CannedAcl "s3:x-amz-acl",
    /// The grantees of reading.
    GrantRead "s3:x-amz-grant-read",
    /// The grantees of writing.
    GrantWrite "s3:x-amz-grant-write",
    /// The grantees of reading the access control list.
    GrantReadAcp "s3:x-amz-grant-read-acp",
    /// The grantees of writing the access control list.
    GrantWriteAcp "s3:x-amz-grant-write-acp",
    /// The grantees of full control.
    GrantFullControl "s3:x-amz-grant-full-control",
    /// Whether a copy takes the attributes of its source.
    MetadataDirective "s3:x-amz-metadata-directive",
    /// How the object shall be encrypted.
    ServerSideEncryption "s3:x-amz-server-side-encryption",
    /// With which key of a key service.
    SseKmsKeyId "s3:x-amz-server-side-encryption-aws-kms-key-id",
    /// That the client brings a key, and for which algorithm.
    SseCustomerAlgorithm "s3:x-amz-server-side-encryption-customer-algorithm",
    /// The requested storage class.
    StorageClass "s3:x-amz-storage-class",
    /// How the payload is signed.
    ContentSha256 "s3:x-amz-content-sha256",
    /// The region of the door that was asked.
    RequestedRegion "aws:RequestedRegion",
    /// The address that a page redirects to.
    WebsiteRedirect "s3:x-amz-website-redirect-location",
    /// How the request is signed: in headers, in the address, or in a form.
    AuthType "s3:authType",
    /// The version of the signature.
    SignatureVersion "s3:signatureversion",
    /// How old the signature is, in milliseconds.
    SignatureAge "s3:signatureAge",
    /// The version of TLS.
    TlsVersion "s3:TlsVersion",
    /// The ETag that the object must have for the request to continue.
    IfMatch "s3:if-match",
    /// The ETag that the object must not have.
    IfNoneMatch "s3:if-none-match",
    /// The rule for the owner of objects that others write into a new bucket.
    ObjectOwnership "s3:x-amz-object-ownership",
    /// The location of a new bucket.
    LocationConstraint "s3:locationconstraint",
    /// The requested retention mode.
    ObjectLockMode "s3:object-lock-mode",
    /// Until when it shall be retained.
    ObjectLockRetainUntil "s3:object-lock-retain-until-date",
    /// For how many days.
    ObjectLockRemainingDays "s3:object-lock-remaining-retention-days",
    /// Whether a legal hold is requested.
    ObjectLockLegalHold "s3:object-lock-legal-hold",
    /// The tags of the object, as `key=value&key=value`, URL-encoded.
    Tagging "s3:x-amz-tagging",
}

/// The facts that a front knows about one request.
pub trait Facts: Send + Sync {
    /// The client's value for this fact, if it has one. Facts in a document, not in the head of the
    /// request, are supplied by the verb ([`crate::Details`]).
    fn fact(&self, fact: Fact) -> Option<Cow<'_, str>>;

    /// The canonical id of the bucket's owner as the client expects it, if it named one.
    fn expected_owner(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// The same of the bucket that a copy reads from.
    fn expected_source_owner(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Whether the client said how many keys a page of a listing shall have.
    fn says_page_length(&self) -> bool {
        true
    }

    /// The id that the door gave the request.
    fn request_id(&self) -> Option<String> {
        None
    }

    /// Whether the client agreed to pay for the request.
    fn pays(&self) -> bool {
        false
    }
}
