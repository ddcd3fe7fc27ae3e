//! The keys of conditions.
//!
//! A policy with an unknown key is refused when it is set. A misspelt key in a statement that
//! denies would otherwise deny nothing, and nobody would notice.

use std::fmt;

use super::super::pattern::ALLOCATION_BYTES;
use crate::Fact;

macro_rules! keys {
    ($($name:ident $text:literal,)*) => {
        /// A condition key.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Key {
            $($name,)*
            /// Something that the client said.
            Said(Fact),
            /// A tag that the object has.
            ExistingObjectTag(Box<str>),
            /// A tag that the request gives the object.
            RequestObjectTag(Box<str>),
            /// A tag that the request gives a user or role.
            RequestTag(Box<str>),
            /// A tag of the caller.
            PrincipalTag(Box<str>),
            /// A tag of the bucket. Users and roles have none here.
            ResourceTag(Box<str>),
            /// A claim of a token.
            Claim(Box<str>),
            /// A name that AWS knows, about something that there is not here.
            Unused(Box<str>),
        }

        const FIXED: &[(&str, Key)] = &[$(($text, Key::$name),)*];
    };
}

keys! {
    Username "aws:username",
    UserId "aws:userid",
    PrincipalArn "aws:PrincipalArn",
    PrincipalAccount "aws:PrincipalAccount",
    PrincipalType "aws:PrincipalType",
    SourceIp "aws:SourceIp",
    SecureTransport "aws:SecureTransport",
    CurrentTime "aws:CurrentTime",
    EpochTime "aws:EpochTime",
    TagKeys "aws:TagKeys",
    PrincipalIsService "aws:PrincipalIsAWSService",
    ViaService "aws:ViaAWSService",
    MultiFactor "aws:MultiFactorAuthPresent",
    TokenIssueTime "aws:TokenIssueTime",
    SourceIdentity "aws:SourceIdentity",
    ResourceAccount "s3:ResourceAccount",
    AccountOfResource "aws:ResourceAccount",
    Prefix "s3:prefix",
    Delimiter "s3:delimiter",
    MaxKeys "s3:max-keys",
    CopySource "s3:x-amz-copy-source",
    VersionId "s3:VersionId",
    ObjectCreation "s3:ObjectCreationOperation",
    RoleSessionName "sts:RoleSessionName",
    ExternalId "sts:ExternalId",
    AskedIdentity "sts:SourceIdentity",
    TransitiveTagKeys "sts:TransitiveTagKeys",
    Authentication "sts:authentication",
    PolicyArn "iam:PolicyARN",
    FederatedProvider "aws:FederatedProvider",
    RequestObjectTagKeys "s3:RequestObjectTagKeys",
}

/// Keys of AWS about things that do not exist here: private networks of a cloud, organisations,
/// calls by services, access points, second factors, boundaries. They have no value, as AWS
/// documents it for a request without these things. So a statement has the same meaning here and
/// there. Do not add a key about something that a request can have: give it a value, or refuse it.
const UNUSED: &[&str] = &[
    "aws:CalledVia",
    "aws:CalledViaFirst",
    "aws:CalledViaLast",
    "aws:MultiFactorAuthAge",
    "aws:PrincipalOrgID",
    "aws:PrincipalOrgPaths",
    "aws:PrincipalServiceName",
    "aws:PrincipalServiceNamesList",
    "aws:ResourceOrgID",
    "aws:ResourceOrgPaths",
    "aws:SourceAccount",
    "aws:SourceArn",
    "aws:SourceOrgID",
    "aws:SourceOrgPaths",
    "aws:SourceVpc",
    "aws:SourceVpcArn",
    "aws:SourceVpce",
    "aws:VpcSourceIp",
    "iam:PassedToService",
    "iam:PermissionsBoundary",
    "s3:AccessPointNetworkOrigin",
    "s3:DataAccessPointAccount",
    "s3:DataAccessPointArn",
    "s3:InventoryAccessibleOptionalFields",
];

/// The prefixes of keys that continue with a name. The name may be any.
const NAMED: &[&str] = &[
    "s3:ExistingObjectTag/",
    "s3:RequestObjectTag/",
    "aws:RequestTag/",
    "aws:PrincipalTag/",
    "aws:ResourceTag/",
    "s3:BucketTag/",
];

/// Every condition key that policies may name and that requests can have a value for. Keys that end
/// in a slash are followed by the name of a tag. Claims of tokens, and keys about things that do
/// not exist here, are not included.
pub fn condition_keys() -> impl Iterator<Item = &'static str> {
    let fixed = FIXED.iter().map(|(name, _)| *name);
    let said = Fact::ALL.iter().map(|fact| fact.key());
    fixed.chain(said).chain(NAMED.iter().copied())
}

/// Longest name of a tag or claim in a key.
const NAME_BYTES_MAX: usize = 256;

impl Key {
    /// Heap memory in bytes, without the object itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::ExistingObjectTag(name)
            | Self::RequestObjectTag(name)
            | Self::RequestTag(name)
            | Self::PrincipalTag(name)
            | Self::ResourceTag(name)
            | Self::Claim(name)
            | Self::Unused(name) => name.len() + ALLOCATION_BYTES,
            _ => 0,
        }
    }

    /// The key of a name, in any case of letters; tags keep theirs.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some((what, name)) = text.split_once('/') {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return None;
            }
            let name = name.into();
            return Some(match what.to_ascii_lowercase().as_str() {
                "s3:existingobjecttag" => Self::ExistingObjectTag(name),
                "s3:requestobjecttag" => Self::RequestObjectTag(name),
                "aws:requesttag" => Self::RequestTag(name),
                "aws:principaltag" => Self::PrincipalTag(name),
                "aws:resourcetag" | "iam:resourcetag" | "s3:resourcetag" | "s3:buckettag" => {
                    Self::ResourceTag(name)
                }
                _ => return Self::claim(text),
            });
        }
        if let Some((_, key)) = FIXED
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
        {
            return Some(key.clone());
        }
        let said = Fact::ALL
            .iter()
            .find(|fact| fact.key().eq_ignore_ascii_case(text));
        if let Some(fact) = said {
            return Some(Self::Said(*fact));
        }
        let unused = UNUSED.iter().find(|name| name.eq_ignore_ascii_case(text));
        if let Some(name) = unused {
            return Some(Self::Unused((*name).into()));
        }
        Self::claim(text)
    }

    /// A claim of an issuer's tokens: `idp.example.org/realms/lab:aud`. Service prefixes contain no
    /// dot.
    fn claim(text: &str) -> Option<Self> {
        let (issuer, claim) = text.rsplit_once(':')?;
        let host =
            issuer.contains('.') || issuer.starts_with("localhost") || issuer.starts_with('[');
        let known = host && !claim.is_empty() && text.len() <= NAME_BYTES_MAX;
        known.then(|| Self::Claim(text.into()))
    }

    /// Whether the claim distinguishes users of a provider. Claims about only the service or the
    /// client of a token are the same for everybody. The tags of a session that a provider vouches
    /// for are a claim of its token.
    pub(crate) fn is_personal_claim(&self) -> bool {
        match self {
            Self::Claim(text) => !names_client(text) && !matches!(claim_name(text), "iss" | "typ"),
            Self::RequestTag(_) => true,
            _ => false,
        }
    }

    /// Whether the claim distinguishes clients of a provider, or users of the provider that have a
    /// tag.
    pub(crate) fn is_client_claim(&self) -> bool {
        match self {
            Self::Claim(text) => names_client(text),
            Self::TagKeys => true,
            _ => false,
        }
    }

    /// Whether a fixed value of it matches so few callers that a statement with it is not public
    /// (S3 user guide, "The meaning of public").
    pub(crate) fn narrows(&self) -> bool {
        match self {
            Self::SourceIp
            | Self::UserId
            | Self::Username
            | Self::PrincipalArn
            | Self::PrincipalAccount => true,
            Self::Said(fact) => *fact == Fact::SseKmsKeyId,
            Self::Unused(name) => matches!(
                &**name,
                "aws:SourceArn"
                    | "aws:SourceVpc"
                    | "aws:SourceVpcArn"
                    | "aws:SourceVpce"
                    | "aws:SourceAccount"
                    | "aws:SourceOrgID"
                    | "aws:SourceOrgPaths"
                    | "aws:PrincipalOrgID"
                    | "aws:PrincipalOrgPaths"
                    | "s3:DataAccessPointArn"
                    | "s3:DataAccessPointAccount"
            ),
            _ => false,
        }
    }
}

fn claim_name(text: &str) -> &str {
    text.rsplit_once(':').map_or("", |(_, claim)| claim)
}

fn names_client(text: &str) -> bool {
    matches!(
        claim_name(text),
        "aud" | "azp" | "client_id" | "app_id" | "oaud"
    )
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(fact) => f.write_str(fact.key()),
            Self::ExistingObjectTag(name) => write!(f, "s3:ExistingObjectTag/{name}"),
            Self::RequestObjectTag(name) => write!(f, "s3:RequestObjectTag/{name}"),
            Self::RequestTag(name) => write!(f, "aws:RequestTag/{name}"),
            Self::PrincipalTag(name) => write!(f, "aws:PrincipalTag/{name}"),
            Self::ResourceTag(name) => write!(f, "aws:ResourceTag/{name}"),
            Self::Claim(text) | Self::Unused(text) => f.write_str(text),
            fixed => {
                let found = FIXED.iter().find(|(_, key)| key == fixed);
                f.write_str(found.map_or("", |(name, _)| name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_keys_and_back() {
        let said = Fact::ALL.iter().map(|fact| fact.key());
        let tags = [
            "s3:ExistingObjectTag/Ab",
            "aws:PrincipalTag/team",
            "aws:RequestTag/a",
        ];
        let fixed = FIXED.iter().map(|(name, _)| *name);
        for name in fixed.chain(said).chain(tags).chain(UNUSED.iter().copied()) {
            let key = Key::parse(name).expect(name);
            assert_eq!(key.to_string(), name);
            if !name.contains('/') {
                assert_eq!(Key::parse(&name.to_ascii_uppercase()), Some(key));
            }
        }
        assert!(Key::parse("idp.example.org/realms/lab:aud").is_some());
        for unknown in [
            "",
            "s3:prefixes",
            "aws:sourceip2",
            "prefix",
            "s3:ExistingObjectTag/",
        ] {
            assert_eq!(Key::parse(unknown), None, "{unknown}");
        }
    }
}
