//! The resources of a statement: ARNs whose account field names a tenant.
//!
//! `arn:aws:s3:::bucket/key` leaves the account empty, as AWS does. On a bucket, the empty field
//! means the bucket's tenant. On a user, group or role, it means the tenant of the policy's holder.
//! To name a bucket of another tenant, a policy writes the tenant's name there, or `*`.

use super::condition::Key;
use super::condition::value::arn_parts;
use super::json::Node;
use super::parse::{ParseContext, malformed};
use super::pattern::{ALLOCATION_BYTES, Pattern, PatternSyntax, Variables};
use super::truth::Truth;
use super::{PolicyError, PolicyKind};

/// `Resource` or `NotResource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceSet {
    negated: bool,
    members: Box<[Member]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Member {
    /// `*`
    All,
    Arn(Box<Arn>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Arn {
    service: Pattern,
    /// Nothing where the field is empty.
    account: Option<Pattern>,
    path: Pattern,
}

/// A resource as a request names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceName<'a> {
    pub(crate) service: &'a str,
    /// Its tenant.
    pub(crate) tenant: &'a str,
    /// The id of the account that it belongs to.
    pub(crate) account: &'a str,
    /// Whether an empty account field means it.
    pub(crate) at_home: bool,
    /// The part behind the account: `bucket/key`, `user/path/name`.
    pub(crate) path: &'a str,
}

impl ResourceSet {
    /// Everything.
    pub(super) fn all() -> Self {
        Self {
            negated: false,
            members: Box::new([Member::All]),
        }
    }

    pub(super) fn parse(
        node: &Node,
        negated: bool,
        parsing: &ParseContext<'_>,
    ) -> Result<Self, PolicyError> {
        let invalid = || malformed("Policy has invalid resource");
        let members = node
            .one_or_many()
            .ok_or_else(invalid)?
            .iter()
            .map(|node| {
                let text = node.as_text().ok_or_else(invalid)?;
                Member::parse(text, parsing).ok_or_else(invalid)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { negated, members })
    }

    pub(super) fn holds(&self, named: &ResourceName<'_>, variables: Variables<'_>) -> Truth {
        let members = self.members.iter();
        let any = Truth::any(members.map(|member| member.holds(named, variables)));
        any.negated_if(self.negated)
    }

    /// The keys of the variables in it.
    pub(super) fn variables(&self) -> impl Iterator<Item = &Key> {
        let arns = self.members.iter().filter_map(|member| match member {
            Member::All => None,
            Member::Arn(arn) => Some(arn),
        });
        arns.flat_map(|arn| {
            let account = arn.account.iter().flat_map(Pattern::variables);
            account
                .chain(arn.service.variables())
                .chain(arn.path.variables())
        })
    }

    /// Heap memory in bytes, without the object itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let members = self.members.iter().map(|member| match member {
            Member::All => 0,
            Member::Arn(arn) => {
                let account = arn.account.as_ref().map_or(0, Pattern::memory_bytes);
                let texts = arn.service.memory_bytes() + account + arn.path.memory_bytes();
                size_of::<Arn>() + ALLOCATION_BYTES + texts
            }
        });
        size_of_val(&*self.members) + members.sum::<usize>() + ALLOCATION_BYTES
    }

    /// The prefixes of the paths: see [`Pattern::start`].
    pub(super) fn starts(&self) -> Vec<&str> {
        if self.negated {
            return vec![""];
        }
        self.members.iter().map(Member::start).collect()
    }

    /// Whether it can tell two keys of a bucket apart.
    pub(super) fn tells_keys_apart(&self) -> bool {
        let one = |member: &Member| match member {
            Member::All => false,
            Member::Arn(arn) => !arn.path.is_any(),
        };
        self.negated || self.members.iter().any(one)
    }
}

impl Member {
    fn start(&self) -> &str {
        match self {
            Self::All => "",
            Self::Arn(arn) => arn.path.start(),
        }
    }

    fn parse(text: &str, parsing: &ParseContext<'_>) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        let parts = arn_parts(text)?;
        let [arn, partition, service, _region, account, path] = parts[..] else {
            return None;
        };
        let reading = PatternSyntax {
            wildcards: true,
            variables: parsing.variables,
            fold: false,
        };
        let aws = Pattern::new(partition, reading).ok()?;
        if arn != "arn" || !aws.matches_text("aws") || path.is_empty() {
            return None;
        }
        let arn = Arn {
            service: Pattern::new(service, reading).ok()?,
            account: if account.is_empty() {
                None
            } else {
                Some(Pattern::new(account, reading).ok()?)
            },
            path: Pattern::new(path, reading).ok()?,
        };
        if let PolicyKind::Bucket(bucket) = parsing.kind {
            let mut prefix = bucket.to_owned();
            prefix.push('/');
            if !arn.service.matches_text("s3") || !arn.path.may_begin_with(&prefix) {
                return None;
            }
        }
        Some(Self::Arn(Box::new(arn)))
    }

    fn holds(&self, named: &ResourceName<'_>, variables: Variables<'_>) -> Truth {
        match self {
            Self::All => Truth::Yes,
            Self::Arn(arn) => {
                let account = match &arn.account {
                    None => named.at_home.into(),
                    Some(pattern) => {
                        let fields = [named.tenant, named.account];
                        Truth::any(fields.map(|field| pattern.matches(field, variables)))
                    }
                };
                Truth::all([
                    account,
                    arn.service.matches(named.service, variables),
                    arn.path.matches(named.path, variables),
                ])
            }
        }
    }
}
