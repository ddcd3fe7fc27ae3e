//! What a front knows of a request that a policy may ask for.
//!
//! The store knows what is done to what; only the front knows what the client said beside: its
//! program's name, the list of rights it wants set, the algorithm it wants used. A front hands
//! these over unread, and they are looked at only when a policy names them.

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

            /// The condition key that asks for it.
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
    /// Who shall be granted reading.
    GrantRead "s3:x-amz-grant-read",
    /// Who shall be granted writing.
    GrantWrite "s3:x-amz-grant-write",
    /// Who shall be granted reading the list of rights.
    GrantReadAcp "s3:x-amz-grant-read-acp",
    /// Who shall be granted writing the list of rights.
    GrantWriteAcp "s3:x-amz-grant-write-acp",
    /// Who shall be granted everything.
    GrantFullControl "s3:x-amz-grant-full-control",
    /// Whether a copy takes the attributes of its source.
    MetadataDirective "s3:x-amz-metadata-directive",
    /// How the object shall be encrypted.
    ServerSideEncryption "s3:x-amz-server-side-encryption",
    /// With which key of a key service.
    SseKmsKeyId "s3:x-amz-server-side-encryption-aws-kms-key-id",
    /// That the client brings a key, and for which algorithm.
    SseCustomerAlgorithm "s3:x-amz-server-side-encryption-customer-algorithm",
    /// The storage class that is asked for.
    StorageClass "s3:x-amz-storage-class",
    /// How the payload is signed.
    ContentSha256 "s3:x-amz-content-sha256",
    /// The region of the door that was asked.
    RequestedRegion "aws:RequestedRegion",
    /// Where a page shall redirect to.
    WebsiteRedirect "s3:x-amz-website-redirect-location",
    /// How the request is signed: in headers, in the address, or in a form.
    AuthType "s3:authType",
    /// The version of the signature.
    SignatureVersion "s3:signatureversion",
    /// How old the signature is, in milliseconds.
    SignatureAge "s3:signatureAge",
    /// The version of TLS.
    TlsVersion "s3:TlsVersion",
    /// What the object must be for the request to go on.
    IfMatch "s3:if-match",
    /// What it must not be.
    IfNoneMatch "s3:if-none-match",
    /// Who shall own what others write to a new bucket.
    ObjectOwnership "s3:x-amz-object-ownership",
    /// Where a new bucket shall be.
    LocationConstraint "s3:locationconstraint",
    /// The mode of retention that is asked for.
    ObjectLockMode "s3:object-lock-mode",
    /// Until when it shall be retained.
    ObjectLockRetainUntil "s3:object-lock-retain-until-date",
    /// For how many days.
    ObjectLockRemainingDays "s3:object-lock-remaining-retention-days",
    /// Whether a legal hold is asked for.
    ObjectLockLegalHold "s3:object-lock-legal-hold",
    /// The tags that come with the object, as `key=value&key=value`, URL-encoded.
    Tagging "s3:x-amz-tagging",
}

/// What a front knows of one request.
pub trait Facts: Send + Sync {
    /// What the client said about this, if anything. What stands in a document and not in the head of
    /// the request, the verb tells ([`crate::Details`]).
    fn fact(&self, fact: Fact) -> Option<Cow<'_, str>>;

    /// The canonical id of whom the client takes for the bucket's owner, if it said.
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
