//! Users, keys, groups, roles and policies as the catalog has them: one version byte, then CBOR
//! with numbered fields. Records of the first days have no version byte; they begin with the head
//! of a CBOR map, which no version is.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_types::{Error, ErrorKind, Result, Timestamp, UserId};
use minicbor::{Decode, Encode};

/// Users by id.
pub(crate) const BY_ID: u8 = b'i';
/// Users by mail address.
pub(crate) const BY_EMAIL: u8 = b'e';
/// Groups.
pub(crate) const GROUP: u8 = b'g';
/// Groups by id.
pub(crate) const GROUP_BY_ID: u8 = b'h';
/// Roles.
pub(crate) const ROLE: u8 = b'r';
/// Policies that stand for themselves.
pub(crate) const POLICY: u8 = b'p';
/// Issuers of tokens, by address.
pub(crate) const ISSUER: u8 = b'o';
/// Their keys, as they were last published, by address.
pub(crate) const ISSUER_KEYS: u8 = b'k';
/// Providers of accounts and tenants, by owner and name.
pub(crate) const PROVIDER: u8 = b'q';
/// The same by id.
pub(crate) const PROVIDER_BY_ID: u8 = b'j';
/// What was revoked, and when.
pub(crate) const REVOKED: u8 = b'x';

/// Access keys by the id of their user: nothing but that there is one. Without a user stands that all
/// are there.
pub(crate) const KEYS_BY_USER: u8 = b'a';

/// First byte of a record.
const VERSION: u8 = 1;

/// The head of a CBOR map: what records without a version byte begin with.
const MAPS: std::ops::RangeInclusive<u8> = 0xa0..=0xbf;

/// The policies that stand on a user, group or role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct AttachedPolicies {
    /// By name, as they were written.
    #[n(0)]
    pub(crate) inline: BTreeMap<String, String>,
    /// Names of policies that stand for themselves.
    #[n(1)]
    pub(crate) attached: Vec<String>,
}

impl AttachedPolicies {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct UserRecord {
    #[n(0)]
    pub(crate) id: UserId,
    /// With the account's name before it, where it is not the account's own: `ann/robot`.
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) tenant: String,
    #[n(3)]
    pub(crate) disabled: bool,
    #[n(4)]
    pub(crate) created: Timestamp,
    /// The user whose account it belongs to, where that is another.
    #[n(5)]
    pub(crate) account: Option<UserId>,
    #[n(6)]
    pub(crate) path: Option<String>,
    #[n(7)]
    pub(crate) display_name: Option<String>,
    #[n(8)]
    pub(crate) email: Option<String>,
    #[cbor(n(9), skip_if = "is_false")]
    pub(crate) tenant_admin: Option<bool>,
    #[cbor(n(10), skip_if = "AttachedPolicies::is_empty")]
    pub(crate) held: AttachedPolicies,
    /// Names of groups that it is in, as they were written before groups had references by id.
    #[cbor(n(11), skip_if = "Vec::is_empty")]
    pub(crate) groups: Vec<String>,
    /// Ids of groups that it is in.
    #[cbor(n(12), skip_if = "Vec::is_empty")]
    pub(crate) group_ids: Vec<u64>,
}

fn is_false(value: &Option<bool>) -> bool {
    !value.unwrap_or_default()
}

/// An access key.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct KeyRecord {
    #[n(0)]
    pub(crate) user: UserId,
    #[n(1)]
    pub(crate) user_name: String,
    #[n(2)]
    pub(crate) tenant: String,
    /// Under the master key, bound to the access key's id.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub(crate) secret: Vec<u8>,
    #[n(4)]
    pub(crate) disabled: bool,
    #[n(5)]
    pub(crate) created: Timestamp,
    #[n(6)]
    pub(crate) revision: u64,
    /// What it may do, where it is a share.
    #[n(7)]
    pub(crate) share: Option<ShareRecord>,
}

/// Where a user, or a group, is found by its id.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct IdIndexRecord {
    #[n(0)]
    pub(crate) tenant: String,
    #[n(1)]
    pub(crate) name: String,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct GroupRecord {
    #[n(0)]
    pub(crate) id: u64,
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) path: String,
    #[n(3)]
    pub(crate) created: Timestamp,
    #[cbor(n(4), skip_if = "AttachedPolicies::is_empty")]
    pub(crate) held: AttachedPolicies,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct RoleRecord {
    #[n(0)]
    pub(crate) id: u64,
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) path: String,
    #[n(3)]
    pub(crate) created: Timestamp,
    #[cbor(n(4), skip_if = "AttachedPolicies::is_empty")]
    pub(crate) held: AttachedPolicies,
    /// Who may become it.
    #[n(5)]
    pub(crate) trust: String,
    #[n(6)]
    pub(crate) description: Option<String>,
    /// Longest session, in seconds.
    #[n(7)]
    pub(crate) max_session: u32,
}

/// A policy that stands for itself.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct PolicyRecord {
    #[n(0)]
    pub(crate) id: u64,
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) path: String,
    #[n(3)]
    pub(crate) created: Timestamp,
    #[n(4)]
    pub(crate) updated: Timestamp,
    #[n(5)]
    pub(crate) description: Option<String>,
    /// By number.
    #[n(6)]
    pub(crate) versions: BTreeMap<u32, PolicyVersionRecord>,
    /// The one that counts.
    #[n(7)]
    pub(crate) default: u32,
}

/// One wording of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct PolicyVersionRecord {
    #[n(0)]
    pub(crate) text: String,
    #[n(1)]
    pub(crate) created: Timestamp,
}

/// A mapping rule of an issuer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct RuleRecord {
    #[n(0)]
    pub(crate) claim: String,
    #[n(1)]
    pub(crate) value: String,
    /// One of these two.
    #[n(2)]
    pub(crate) user: Option<String>,
    #[n(3)]
    pub(crate) group: Option<String>,
    /// The id of the user or group. Rules of releases that knew names alone have none.
    #[n(4)]
    pub(crate) id: Option<u64>,
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct IssuerRecord {
    #[n(0)]
    pub(crate) id: u64,
    #[n(1)]
    pub(crate) url: String,
    #[n(2)]
    pub(crate) audiences: Vec<String>,
    #[n(3)]
    pub(crate) keys_url: Option<String>,
    #[n(4)]
    pub(crate) origins: Vec<String>,
    #[n(5)]
    pub(crate) tenant: String,
    #[n(6)]
    pub(crate) base: Option<String>,
    #[n(7)]
    pub(crate) rules: Vec<RuleRecord>,
    #[n(8)]
    pub(crate) disabled: bool,
    #[n(9)]
    pub(crate) created: Timestamp,
}

/// The keys of an issuer as they were last published, for starts while it cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct IssuerKeysRecord {
    #[n(0)]
    pub(crate) fetched: Timestamp,
    #[cbor(n(1), with = "minicbor::bytes")]
    pub(crate) set: Vec<u8>,
}

/// Until when credentials of something were given that do not count any more.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct RevokedRecord {
    #[n(0)]
    pub(crate) at: Timestamp,
}

/// What a key that is a share may do, as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct ShareRecord {
    #[n(0)]
    pub(crate) bucket: String,
    #[n(1)]
    pub(crate) key: String,
    /// Whether something may be put there, not fetched.
    #[n(2)]
    pub(crate) upload: bool,
    #[n(3)]
    pub(crate) expires: Timestamp,
}

pub(crate) fn encode<T: Encode<()>>(record: &T) -> Bytes {
    let mut bytes = vec![VERSION];
    minicbor::encode(record, &mut bytes).expect("encoding into memory does not fail");
    bytes.into()
}

pub(crate) fn decode<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T> {
    let body = match bytes.first() {
        Some(&VERSION) => &bytes[1..],
        Some(first) if MAPS.contains(first) => bytes,
        Some(newer) => {
            let message = format!("an account's record has version {newer}, which is newer");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        None => &[],
    };
    minicbor::decode(body)
        .map_err(|error| Error::with_source(ErrorKind::Corrupt, "an account's record", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> UserRecord {
        UserRecord {
            id: UserId(7),
            name: "ann/robot".into(),
            tenant: "atlas".into(),
            disabled: true,
            created: Timestamp(1_800_000_000_000_000_000),
            account: Some(UserId(5)),
            path: Some("/x/".into()),
            display_name: Some("R".into()),
            email: Some("r@x".into()),
            tenant_admin: Some(true),
            held: AttachedPolicies {
                inline: BTreeMap::from([("p".into(), "{}".into())]),
                attached: vec!["ann/q".into()],
            },
            groups: vec!["ann/g".into()],
            group_ids: Vec::new(),
        }
    }

    fn bytes_of(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2);
        let digits = pairs.map(|pair| std::str::from_utf8(pair).expect("hex"));
        let bytes = digits.map(|digits| u8::from_str_radix(digits, 16).expect("hex"));
        bytes.collect()
    }

    #[test]
    fn records_of_the_first_days_open() {
        // {0: 7, 1: "ann", 2: "", 3: false, 4: 5}, as it was written before versions.
        let old = [
            0xa5, 0x00, 0x07, 0x01, 0x63, b'a', b'n', b'n', 0x02, 0x60, 0x03, 0xf4, 0x04, 0x05,
        ];
        let read: UserRecord = decode(&old).expect("opens");
        assert_eq!(
            (read.id, read.name.as_str(), read.account),
            (UserId(7), "ann", None)
        );
        let again = encode(&read);
        assert_eq!(again[0], VERSION);
        assert_eq!(again[1..], old);
    }

    #[test]
    fn a_user_of_version_1_opens() {
        let hex = include_str!("../testdata/accounts-v1/user.hex");
        let bytes = bytes_of(hex.trim());
        let now: String = encode(&user()).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(now, hex.trim());
        assert_eq!(decode::<UserRecord>(&bytes).expect("opens"), user());
        for at in 0..bytes.len() {
            assert!(decode::<UserRecord>(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    /// As releases wrote it whose rules knew names alone.
    #[test]
    fn an_issuer_whose_rules_have_no_ids_opens() {
        let hex = include_str!("../testdata/accounts-v1/issuer.hex").trim();
        let rule = |claim: &str, value: &str, user: Option<&str>, group: Option<&str>| RuleRecord {
            claim: claim.into(),
            value: value.into(),
            user: user.map(Into::into),
            group: group.map(Into::into),
            id: None,
        };
        let issuer = IssuerRecord {
            id: 9,
            url: "https://issuer.example.org".into(),
            audiences: vec!["here".into()],
            keys_url: Some("https://issuer.example.org/keys".into()),
            origins: vec!["https://issuer.example.org".into()],
            tenant: "atlas".into(),
            base: Some("/@atlas/data".into()),
            rules: vec![
                rule("sub", "x", Some("atlas:ann"), None),
                rule("groups", "/g", None, Some("readers")),
            ],
            disabled: true,
            created: Timestamp(1_800_000_000_000_000_000),
        };
        assert_eq!(
            decode::<IssuerRecord>(&bytes_of(hex)).expect("opens"),
            issuer
        );
        let now: String = encode(&issuer).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(now, hex);
    }

    #[test]
    fn newer_records_are_not_guessed() {
        let error = decode::<KeyRecord>(&[2, 0xa0]).expect_err("newer");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
