//! Policy documents in the language of IAM: statements that allow or deny actions on resources to
//! principals, under conditions.
//!
//! A document is compiled when it is set or read from the catalog, and then only evaluated. Parsing
//! is strict: unknown elements are refused with S3's `MalformedPolicy`, because a statement that is
//! silently ignored is a security hole. Sizes are limited before anything is parsed.
//!
//! | module | content |
//! |---|---|
//! | `index` | finding the statements that can match a path |
//! | `json` | JSON without duplicate names |
//! | `parse` | the document's elements |
//! | `pattern` | `*`, `?`, `${variables}` in linear time |
//! | `condition` | operators, keys, values |
//! | `principal` | the principals of a statement |
//! | `resource` | the resources of a statement: ARNs with tenants |
//! | `rewrite` | replacing principals in a text |
//! | `statement` | matching a statement with a request |
//! | `truth` | yes, no, and results that depend on a claim that was not kept |

pub(crate) mod condition;
mod index;
mod json;
mod parse;
mod pattern;
pub(crate) mod principal;
mod resource;
mod rewrite;
pub(crate) mod statement;
#[cfg(test)]
mod tests;
mod truth;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::ActionSet;
use condition::Condition;
pub use condition::condition_keys;
use index::Index;
use pattern::ALLOCATION_BYTES;
pub(crate) use principal::PrincipalMatch;
use principal::PrincipalSet;
use resource::ResourceSet;
pub use rewrite::{STORED_POLICY_BYTES_MAX, principals_of, shown_principals, stored_principals};
use statement::PolicyRequest;

/// Longest policy of a bucket in bytes (S3 user guide: 20 KB).
pub const BUCKET_POLICY_BYTES_MAX: usize = 20 * 1024;

/// Longest policy of a user, group or role in bytes. IAM's own limits are lower and do not count
/// white space. So every policy that IAM accepts fits.
pub const IDENTITY_POLICY_BYTES_MAX: usize = 20 * 1024;

/// Why a document is not taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    /// Longer than its kind may be.
    #[error("Policy exceeds the maximum allowed document size.")]
    TooLong,
    /// Not a policy, or one that says something that is not known.
    #[error("{0}")]
    Malformed(String),
}

/// The place of a document, which decides the elements that it must and must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind<'a> {
    /// On a bucket: statements name principals, and resources of this bucket alone.
    Bucket(&'a str),
    /// On a bucket, when it was set; its resources are not checked again.
    AnyBucket,
    /// On a user, group or role: statements name no principal.
    Identity,
    /// The trust policy of a role: statements name principals and no resource.
    Trust,
}

/// The effect of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It allows.
    Allow,
    /// It denies, even if others allow.
    Deny,
}

/// A statement, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) sid: Option<Box<str>>,
    pub(crate) effect: Effect,
    /// The principals. On users, groups and roles: the holder of the policy.
    principals: Option<PrincipalSet>,
    actions: ActionSet,
    resources: ResourceSet,
    conditions: Box<[Condition]>,
}

/// A policy, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    statements: Box<[Statement]>,
    /// Those that deny, then those that allow, by place in the document.
    denying: Box<[u32]>,
    allowing: Box<[u32]>,
    /// Indexes of both by resource, if there are enough statements for an index to pay off.
    index: Option<Box<Indexes>>,
    public: bool,
    keyed: bool,
    tagged: bool,
    charge: Charge,
}

/// The memory that a policy uses as long as it exists.
#[derive(Clone, Default)]
struct Charge(
    #[expect(dead_code, reason = "it is only dropped")] Option<Arc<dyn Any + Send + Sync>>,
);

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Charge")
    }
}

/// It says nothing about what the policy is.
impl PartialEq for Charge {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Charge {}

/// From this many statements on they are found by an index.
const INDEXED_MIN: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Indexes {
    denying: Index,
    allowing: Index,
}

/// The verdict of a policy about a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict<'a> {
    pub(crate) deny: Option<(usize, &'a Statement)>,
    /// The statement that allows, and how it means the caller.
    pub(crate) allow: Option<(usize, &'a Statement, PrincipalMatch)>,
}

impl Policy {
    /// Compiles a document of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`PolicyError`], with the name of the element.
    pub fn parse(text: &str, kind: PolicyKind<'_>, bytes_max: usize) -> Result<Self, PolicyError> {
        if text.len() > bytes_max {
            return Err(PolicyError::TooLong);
        }
        let statements = parse::document(text, kind)?;
        Ok(Self {
            // A name may also stand in escapes.
            tagged: text.contains('\\') || text.to_ascii_lowercase().contains("tag/"),
            ..Self::new(statements)
        })
    }

    fn new(statements: Vec<Statement>) -> Self {
        let of = |effect| {
            let places = statements.iter().zip(0u32..);
            let places = places.filter(|(statement, _)| statement.effect == effect);
            places.map(|(_, at)| at).collect::<Box<[u32]>>()
        };
        let indexed = |effect| {
            let places = (0u32..).zip(&statements);
            Index::new(places.filter(|(_, statement)| statement.effect == effect))
        };
        let index = (statements.len() >= INDEXED_MIN).then(|| {
            Box::new(Indexes {
                denying: indexed(Effect::Deny),
                allowing: indexed(Effect::Allow),
            })
        });
        Self {
            index,
            denying: of(Effect::Deny),
            allowing: of(Effect::Allow),
            public: statements.iter().any(Statement::is_public),
            keyed: statements.iter().any(Statement::asks_for_path),
            tagged: false,
            charge: Charge::default(),
            statements: statements.into(),
        }
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |index| {
            size_of::<Indexes>() + index.denying.memory_bytes() + index.allowing.memory_bytes()
        });
        let statements = self.statements.iter().map(Statement::memory_bytes);
        size_of::<Self>()
            + size_of_val(&*self.statements)
            + size_of_val(&*self.denying)
            + size_of_val(&*self.allowing)
            + statements.sum::<usize>()
            + index
            + 6 * ALLOCATION_BYTES
    }

    /// The same policy with an object that lives as long, such as a share of a memory budget.
    #[must_use]
    pub fn with_charge(self, charge: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            charge: Charge(Some(charge)),
            ..self
        }
    }

    /// How many statements it has.
    #[must_use]
    pub fn statements(&self) -> usize {
        self.statements.len()
    }

    /// Whether it allows something to everybody, without a condition that matches only few callers
    /// (S3 user guide, "The meaning of public").
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.public
    }

    /// Whether a statement distinguishes keys of the bucket. If none does, the decision for one key
    /// is valid for all.
    #[must_use]
    pub fn tells_keys_apart(&self) -> bool {
        self.keyed
    }

    /// Whether a statement may test a tag, by a key or a variable. The tags of a bucket are read
    /// for such policies only.
    #[must_use]
    pub fn names_tags(&self) -> bool {
        self.tagged
    }

    /// Whether a statement admits every user of a provider: it names a provider and tests no claim
    /// that distinguishes the provider's users. To admit all users on purpose, test that the claim
    /// `sub` is like `*`. With `client_trust`, a claim that names the client of the token is
    /// enough.
    #[must_use]
    pub fn trusts_a_realm(&self, client_trust: bool) -> bool {
        let mut statements = self.statements.iter();
        statements.any(|statement| statement.trusts_a_realm(client_trust))
    }

    /// The claims that the policy tests, in conditions and in variables, as `PROVIDER:claim`. A
    /// claim may occur more than once.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().flat_map(Statement::claims)
    }

    /// The verdict: the first statement that denies, and the first that allows. Statements that
    /// name the caller as a user are preferred.
    pub(crate) fn verdict(&self, ask: &PolicyRequest<'_>) -> Verdict<'_> {
        match &self.index {
            None => self.evaluate(ask, &self.denying, &self.allowing),
            Some(index) => {
                let path = ask.path();
                let denying = index.denying.candidates(path);
                self.evaluate(ask, &denying, &index.allowing.candidates(path))
            }
        }
    }

    /// Whether a statement that names the caller's own session allows the request.
    pub(crate) fn allows_session(&self, ask: &PolicyRequest<'_>) -> bool {
        let mut statements = self.statements.iter();
        statements.any(|statement| statement.allows_session(ask))
    }

    /// The same, looking at these statements alone.
    fn evaluate(&self, ask: &PolicyRequest<'_>, denying: &[u32], allowing: &[u32]) -> Verdict<'_> {
        let mut verdict = Verdict::default();
        for at in denying {
            let statement = &self.statements[*at as usize];
            if statement.speaks_of(ask).is_some() {
                verdict.deny = Some((*at as usize, statement));
                return verdict;
            }
        }
        for at in allowing {
            let statement = &self.statements[*at as usize];
            if let Some(meant) = statement.speaks_of(ask) {
                let better = verdict.allow.is_none_or(|(_, _, before)| before < meant);
                if better {
                    verdict.allow = Some((*at as usize, statement, meant));
                }
                if meant == PrincipalMatch::InPerson {
                    break;
                }
            }
        }
        verdict
    }
}

/// For fuzzing: no text makes the parser or the comparison fail.
pub fn fuzz_iam_policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for kind in [
        PolicyKind::Bucket("bucket"),
        PolicyKind::Identity,
        PolicyKind::Trust,
    ] {
        if let Ok(policy) = Policy::parse(text, kind, BUCKET_POLICY_BYTES_MAX) {
            statement::ask_everything(&policy);
        }
    }
}
