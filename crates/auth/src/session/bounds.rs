//! Limits of a session or token beyond the policies of the caller, and facts about it for policies.

use std::fmt;
use std::sync::Arc;

use dewar_types::Timestamp;

use crate::token::Capabilities;
use crate::{Action, Caveats, Policy, Session};

/// In a list of claims that were not kept: any claim may be one of them.
pub const ALL_CLAIMS_OMITTED: &str = "*";

/// Whether a claim is one of those that were not kept.
#[must_use]
pub fn is_claim_omitted(unkept: &[String], claim: &str) -> bool {
    let mut names = unkept.iter();
    names.any(|name| name == claim || name == ALL_CLAIMS_OMITTED)
}

/// Something that a caller is held to, whatever its policies allow.
#[derive(Clone)]
pub enum Limit {
    /// The policy that was given with the session.
    Policy {
        /// Its place, for people: `the session's policy`.
        source: Arc<str>,
        /// What it says.
        policy: Arc<Policy>,
    },
    /// The capabilities of a token.
    Capabilities(Arc<Capabilities>),
    /// The caveats of a macaroon, or what a share is for.
    Caveats(Arc<Caveats>),
    /// No calls of the IAM API: a session must not make itself a key that outlives it.
    NoIam,
}

impl Limit {
    pub(crate) fn forbids_service(&self, action: Action) -> bool {
        matches!(self, Self::NoIam) && action.service() == "iam"
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { source, .. } => write!(f, "Policy({source})"),
            Self::Capabilities(capabilities) => write!(f, "Capabilities({})", capabilities.text()),
            Self::Caveats(caveats) => write!(f, "Caveats({})", caveats.text()),
            Self::NoIam => f.write_str("NoIam"),
        }
    }
}

/// The part of a caller that comes from its session or token.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// `session:ID`, or `token:` and the first digits of its digest: for the audit log.
    pub credential: Arc<str>,
    /// When it ends.
    pub expires: Timestamp,
    /// The provider that vouched for who asks, as policies name it.
    pub provider: Option<Arc<str>>,
    /// Whether the caller's account or tenant let that provider in for itself. Its word counts there
    /// and nowhere else: other policies take every claim of it as one that was not kept.
    pub own_provider: bool,
    /// Whether that is all there is: nobody has become anybody yet. Only trust policies see this.
    pub unassumed: bool,
    /// Claims of the token, by `PROVIDER:claim`.
    pub claims: Vec<(String, Vec<String>)>,
    /// Names, without provider, of claims that the token said and that are not in `claims`; [`ALL_CLAIMS_OMITTED`]
    /// among them stands for every name. Conditions on these fail closed.
    pub unkept: Vec<String>,
    /// Tags of the session. One of a provider's token may have several values, each a pair here.
    pub tags: Vec<(String, String)>,
    /// Whether conditions on `aws:TagKeys` see the keys of these tags where a request gives none.
    pub tag_keys: bool,
    /// The limits of the session; all of them apply.
    pub limits: Vec<Limit>,
    /// The session, if it is one.
    pub session: Option<Arc<Session>>,
}

impl Bounds {
    /// Whom a provider vouches for: `SUBJECT@PROVIDER`.
    #[must_use]
    pub fn vouched_for(&self) -> String {
        let provider = self.provider.as_deref().unwrap_or_default();
        let subject = self.claim(&format!("{provider}:sub")).first();
        format!("{}@{provider}", subject.map_or("", String::as_str))
    }

    /// The values of a claim that a policy asks for.
    pub(crate) fn claim(&self, name: &str) -> &[String] {
        let found = self.claims.iter().find(|(known, _)| known == name);
        found.map_or(&[], |(_, values)| values)
    }

    /// Whether the token may have said a claim that is not here: then nothing follows from its absence.
    pub(crate) fn lacks_claim(&self, name: &str) -> bool {
        let bare = self.claim_of_provider(name);
        bare.is_some_and(|bare| is_claim_omitted(&self.unkept, bare)) && self.claim(name).is_empty()
    }

    /// The name without provider of a claim that only the caller's provider makes.
    pub(crate) fn claim_of_provider<'a>(&self, name: &'a str) -> Option<&'a str> {
        let provider = self.provider.as_deref()?;
        name.strip_prefix(provider)?.strip_prefix(':')
    }
}
