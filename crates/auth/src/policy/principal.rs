//! The principals of a statement.

use dewar_types::UserId;

use crate::token::provider_name;
use crate::{Caller, Principal, User, UserKind};

use super::json::Node;
use super::parse::malformed;
use super::pattern::ALLOCATION_BYTES;
use super::{Effect, PolicyError};

/// How a statement means a caller; the better, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PrincipalMatch {
    /// As one of an account, whose own policies have a say too.
    ByAccount,
    /// In person, or as anybody.
    InPerson,
}

/// `Principal` or `NotPrincipal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrincipalSet {
    negated: bool,
    members: Box<[Member]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Member {
    /// `*`: the nameless too.
    Everyone,
    /// All users of an account, by its id, or of a tenant, by its name (empty: the default one);
    /// one user or role, by its id.
    Account(Box<str>),
    /// A user or role: the account field, and what follows it.
    Arn { account: Box<str>, rest: Box<str> },
    /// An account by its canonical id.
    Canonical(Box<str>),
    /// The users of an issuer.
    Federated(Box<str>),
    /// A service of AWS, which matches no caller here.
    Service,
}

impl PrincipalSet {
    pub(super) fn parse(node: &Node, negated: bool) -> Result<Self, PolicyError> {
        let invalid = || malformed("Invalid principal in policy");
        let mut members = Vec::new();
        match node {
            Node::Text(text) if text == "*" => members.push(Member::Everyone),
            Node::Map(kinds) if !kinds.is_empty() => {
                for (kind, values) in kinds {
                    for value in values.one_or_many().ok_or_else(invalid)? {
                        let text = value.as_text().ok_or_else(invalid)?;
                        members.push(Member::parse(kind, text).ok_or_else(invalid)?);
                    }
                }
            }
            _ => return Err(invalid()),
        }
        Ok(Self {
            negated,
            members: members.into(),
        })
    }

    /// Heap memory in bytes, without the object itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let members = self.members.iter().map(|member| match member {
            Member::Everyone | Member::Service => 0,
            Member::Account(text) | Member::Canonical(text) | Member::Federated(text) => {
                text.len() + ALLOCATION_BYTES
            }
            Member::Arn { account, rest } => account.len() + rest.len() + 2 * ALLOCATION_BYTES,
        });
        size_of_val(&*self.members) + members.sum::<usize>() + ALLOCATION_BYTES
    }

    /// Whether everybody is meant.
    pub(super) fn is_everyone(&self) -> bool {
        self.negated || self.members.contains(&Member::Everyone)
    }

    /// Whether users of a provider are meant.
    pub(super) fn is_federated(&self) -> bool {
        let one = |member: &Member| matches!(member, Member::Federated(_));
        self.negated || self.members.iter().any(one)
    }

    /// Whether the caller's own session is named, not only its role.
    pub(super) fn names_session(&self, caller: &Caller) -> bool {
        let one = |member: &Member| match member {
            Member::Arn { rest, .. } => {
                rest.starts_with("assumed-role/") && member.means(caller, false).is_some()
            }
            _ => false,
        };
        !self.negated && self.members.iter().any(one)
    }

    /// Whether and how the caller is meant by a statement with this effect.
    ///
    /// Accounts name their users and roles as they like, so that a name may be that of several. A name
    /// that takes rights away means all of them, a name that gives rights means one.
    pub(super) fn means(&self, caller: &Caller, effect: Effect) -> Option<PrincipalMatch> {
        let namesakes = takes_away(effect, self.negated);
        let members = self.members.iter();
        let found = members.filter_map(|m| m.means(caller, namesakes)).max();
        match (self.negated, found) {
            (false, found) => found,
            (true, None) => Some(PrincipalMatch::InPerson),
            (true, Some(_)) => None,
        }
    }
}

/// Whether the principals of a statement are fewer rights for whom they mean: `Principal` in a statement
/// that denies, `NotPrincipal` in one that allows.
pub(super) fn takes_away(effect: Effect, negated: bool) -> bool {
    (effect == Effect::Deny) != negated
}

impl Member {
    fn parse(kind: &str, text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > 2048 {
            return None;
        }
        match kind {
            "AWS" if text == "*" => Some(Self::Everyone),
            "AWS" => Self::parse_aws(text),
            "CanonicalUser" => Some(Self::Canonical(text.into())),
            "Federated" => Some(Self::Federated(text.into())),
            "Service" => Some(Self::Service),
            _ => None,
        }
    }

    fn parse_aws(text: &str) -> Option<Self> {
        let Some(arn) = text.strip_prefix("arn:") else {
            let plain = text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
            return plain.then(|| Self::Account(text.into()));
        };
        let parts: Vec<&str> = arn.splitn(5, ':').collect();
        let [partition, service, region, account, rest] = parts[..] else {
            return None;
        };
        let known = partition.starts_with("aws") && region.is_empty();
        // A wildcard inside would mean more than it seems to (IAM allows none either).
        if !known || rest.contains(['*', '?']) || account.contains(['*', '?']) {
            return None;
        }
        let of = |kinds: &[&str]| kinds.iter().any(|kind| rest.starts_with(kind));
        match service {
            "iam" if rest == "root" => Some(Self::Account(account.into())),
            // Ceph names sessions of roles by `iam` too.
            "iam" if of(&["user/", "role/", "group/", "assumed-role/"]) => {
                Some(()).map(|()| Self::Arn {
                    account: account.into(),
                    rest: rest.into(),
                })
            }
            "sts" if of(&["assumed-role/", "federated-user/"]) => Some(Self::Arn {
                account: account.into(),
                rest: rest.into(),
            }),
            _ => None,
        }
    }

    /// Whether and how it means the caller; with `namesakes`, also others whom its ARN may mean.
    fn means(&self, caller: &Caller, namesakes: bool) -> Option<PrincipalMatch> {
        // Whoever only a provider vouches for must be meant by that provider: `*` was never written
        // for all users of somebody else's realm.
        if let Some(bounds) = caller.bounds().filter(|bounds| bounds.unassumed) {
            let meant = match self {
                Self::Federated(name) => bounds.provider.as_deref() == Some(provider_name(name)),
                _ => false,
            };
            return meant.then_some(PrincipalMatch::InPerson);
        }
        if *self == Self::Everyone {
            return Some(PrincipalMatch::InPerson);
        }
        let user = match caller.principal() {
            Principal::User(user) => user,
            Principal::Anonymous | Principal::System => return None,
        };
        match self {
            Self::Everyone => Some(PrincipalMatch::InPerson),
            // An id that is not an account's names one user or role, as `AIDA...` does at AWS.
            Self::Account(id) if is_unique_id(user, id) => Some(PrincipalMatch::InPerson),
            Self::Account(account) => is_account(user, account).then_some(if user.is_root() {
                PrincipalMatch::InPerson
            } else {
                PrincipalMatch::ByAccount
            }),
            Self::Canonical(id) => is_id(user.account, id).then_some(if user.is_root() {
                PrincipalMatch::InPerson
            } else {
                PrincipalMatch::ByAccount
            }),
            Self::Arn { account, rest } => {
                let named = match namesakes {
                    true => user.shares_name(account, rest),
                    false => user.is_named(account, rest),
                };
                named.then_some(PrincipalMatch::InPerson)
            }
            Self::Federated(_) | Self::Service => None,
        }
    }
}

/// Whether a principal that is only an id is the user's, or its role's. Ids are never reused.
fn is_unique_id(user: &User, text: &str) -> bool {
    !matches!(user.kind, UserKind::Federated { .. }) && is_id(user.id, text)
}

/// Whether an ARN's account field names the user's account or tenant.
fn is_account(user: &User, account: &str) -> bool {
    is_id(user.account, account) || user.tenant.as_str() == account
}

/// Whether `text` is the id, without making text of it.
fn is_id(id: UserId, text: &str) -> bool {
    text.len() == 16 && text.parse() == Ok(id)
}
