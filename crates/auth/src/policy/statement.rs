//! Whether a statement speaks of a request, and what the request says about condition keys.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

use dewar_types::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::{
    Action, Caller, Details, Fact, Facts, Level, Ownership, Principal, Resource, Session, UserKind,
};

use super::condition::{ContextValue, Key};
use super::pattern::ALLOCATION_BYTES;
use super::pattern::OmittedClaim;
use super::resource::ResourceName;
use super::truth::Truth;
use super::{Effect, Policy, PrincipalMatch, Statement};

/// A request, as policies are asked about it. What must be put together for that is put together
/// once, when the first statement wants it.
pub(crate) struct PolicyRequest<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) action: Action,
    pub(crate) resource: &'a Resource<'a>,
    pub(crate) details: &'a Details<'a>,
    /// Whether the policy stands on the resource itself.
    pub(crate) on_resource: bool,
    /// Whether the policy was given to the user by who manages the tenant.
    pub(crate) tenant_wide: bool,
    /// The resource's account id and path.
    named: &'a OnceCell<(String, String)>,
}

impl<'a> PolicyRequest<'a> {
    pub(crate) fn new(
        caller: &'a Caller,
        action: Action,
        resource: &'a Resource<'a>,
        details: &'a Details<'a>,
        named: &'a OnceCell<(String, String)>,
    ) -> Self {
        Self {
            caller,
            action,
            resource,
            details,
            on_resource: false,
            tenant_wide: false,
            named,
        }
    }

    /// The same, to be asked of a policy that the user has.
    pub(crate) fn of_user_policy(&self, tenant_wide: bool) -> Self {
        Self {
            tenant_wide,
            ..*self
        }
    }

    /// The same, to be asked of the policy that stands on the resource.
    pub(crate) fn of_resource(&self) -> Self {
        Self {
            on_resource: true,
            ..*self
        }
    }

    fn named(&self) -> ResourceName<'_> {
        let (account, path) = self.named.get_or_init(|| match self.resource {
            Resource::Tenant(_) => (String::new(), String::from("*")),
            Resource::Bucket {
                bucket, owner, key, ..
            } => {
                let path = match key.filter(|_| self.action.level() == Level::Object) {
                    Some(key) => format!("{bucket}/{key}"),
                    None => (*bucket).to_owned(),
                };
                (owner.to_string(), path)
            }
            Resource::Identity { account, path, .. } => (account.to_string(), (*path).to_owned()),
        });
        let tenant = self.resource.tenant();
        let own = self
            .caller
            .user()
            .is_some_and(|user| user.tenant == *tenant);
        ResourceName {
            // Roles are of IAM, for sts:AssumeRole too.
            service: match self.resource {
                Resource::Identity { .. } => "iam",
                Resource::Tenant(_) | Resource::Bucket { .. } => self.action.service(),
            },
            tenant: tenant.as_str(),
            account,
            at_home: self.on_resource || own,
            path,
        }
    }

    /// The resource's path, as resources of statements have it.
    pub(super) fn path(&self) -> &str {
        self.named().path
    }

    /// What the request says about a key.
    fn find(&self, key: &Key) -> ContextValue<'_> {
        self.who(key).unwrap_or_else(|| self.what(key))
    }

    /// About who asks, from where and when; `None` for keys about something else.
    fn who(&self, key: &Key) -> Option<ContextValue<'_>> {
        let user = self.caller.user();
        let text = |value: &'static str| ContextValue::One(Cow::Borrowed(value));
        Some(match key {
            Key::Username => {
                let local = user.filter(|user| user.kind == UserKind::Local);
                match local.map(|user| Cow::Borrowed(user.short_name())) {
                    Some(name) if !self.names_user() => ContextValue::Namesake(name),
                    name => ContextValue::maybe(name),
                }
            }
            Key::UserId => ContextValue::maybe(user.map(|user| Cow::Owned(user.unique_id()))),
            Key::PrincipalArn => {
                ContextValue::maybe(user.map(|user| Cow::Owned(user.source_arn())))
            }
            Key::PrincipalAccount => {
                ContextValue::maybe(user.map(|user| Cow::Owned(user.account.to_string())))
            }
            Key::PrincipalType => text(match self.caller.principal() {
                Principal::Anonymous => "Anonymous",
                Principal::User(user) if user.is_root() => "Account",
                Principal::User(user) if matches!(user.kind, UserKind::Role { .. }) => {
                    "AssumedRole"
                }
                Principal::User(user) if user.kind != UserKind::Local => "FederatedUser",
                Principal::User(_) => "User",
                Principal::System => "Service",
            }),
            Key::SourceIp => {
                let address = self.caller.origin().address;
                ContextValue::maybe(
                    address.map(|address| Cow::Owned(address.to_canonical().to_string())),
                )
            }
            Key::SecureTransport => text(if self.caller.origin().secure {
                "true"
            } else {
                "false"
            }),
            Key::CurrentTime | Key::EpochTime => {
                ContextValue::One(Cow::Owned(self.details.now.secs().to_string()))
            }
            // Nobody's service calls for anybody here, and AWS says so in every request of somebody.
            Key::PrincipalIsService => ContextValue::maybe(user.map(|_| Cow::Borrowed("false"))),
            Key::ViaService => text("false"),
            // What does not end has nothing to say about it; sessions come without a second factor.
            Key::MultiFactor => ContextValue::maybe(self.session().map(|_| Cow::Borrowed("false"))),
            Key::TokenIssueTime => {
                let issued = self.session().map(|session| session.issued.secs());
                ContextValue::maybe(issued.map(|secs| Cow::Owned(secs.to_string())))
            }
            Key::SourceIdentity => {
                let session = self.session();
                let identity = session.and_then(|session| session.source_identity.as_deref());
                ContextValue::maybe(identity.map(Cow::Borrowed))
            }
            Key::Authentication => ContextValue::maybe(user.map(|_| {
                let session = self.session().is_some();
                Cow::Borrowed(if session { "true" } else { "false" })
            })),
            Key::PrincipalTag(name) => {
                let tags = self.caller.bounds().map(|bounds| bounds.tags.as_slice());
                tags_named(tags.unwrap_or_default(), name)
            }
            Key::FederatedProvider if !self.believes_provider() => ContextValue::OmittedClaim,
            Key::FederatedProvider => {
                let bounds = self.caller.bounds();
                let provider = bounds.and_then(|bounds| bounds.provider.as_deref());
                ContextValue::maybe(provider.map(Cow::Borrowed))
            }
            Key::Claim(name) => {
                let bounds = self.caller.bounds();
                match bounds.map(|bounds| (bounds, bounds.claim(name))) {
                    Some((bounds, _))
                        if bounds.claim_of_provider(name).is_some()
                            && !self.believes_provider() =>
                    {
                        ContextValue::OmittedClaim
                    }
                    Some((bounds, [])) if bounds.lacks_claim(name) => ContextValue::OmittedClaim,
                    None | Some((_, [])) => ContextValue::Absent,
                    Some((_, [one])) => ContextValue::One(Cow::Borrowed(one)),
                    Some((_, many)) => ContextValue::Many(
                        many.iter().map(|one| Cow::Borrowed(one.as_str())).collect(),
                    ),
                }
            }
            _ => return None,
        })
    }

    /// About what is done to what.
    fn what(&self, key: &Key) -> ContextValue<'_> {
        let details = self.details;
        match key {
            Key::ResourceAccount | Key::AccountOfResource => match self.resource {
                Resource::Tenant(_) => ContextValue::Absent,
                Resource::Bucket { owner, .. } => ContextValue::One(Cow::Owned(owner.to_string())),
                Resource::Identity { account, .. } => {
                    ContextValue::One(Cow::Owned(account.to_string()))
                }
            },
            Key::Prefix => match details.prefix {
                Some("") => ContextValue::Implied(Cow::Borrowed("")),
                prefix => ContextValue::maybe(prefix.map(Cow::Borrowed)),
            },
            Key::Delimiter => ContextValue::maybe(details.delimiter.map(Cow::Borrowed)),
            Key::MaxKeys => {
                let max = details.max_keys.map(|max| Cow::Owned(max.to_string()));
                let said = self.caller.facts().is_none_or(Facts::says_page_length);
                match max {
                    Some(max) if !said => ContextValue::Implied(max),
                    max => ContextValue::maybe(max),
                }
            }
            Key::ObjectCreation => {
                let creates = details.creates.map(|creates| creates.to_string());
                ContextValue::maybe(creates.map(Cow::Owned))
            }
            Key::CopySource => ContextValue::maybe(details.copy_source.map(Cow::Borrowed)),
            Key::VersionId => ContextValue::maybe(details.version.map(Cow::Borrowed)),
            Key::RequestObjectTag(name) => self.request_tag(name),
            Key::RequestObjectTagKeys => self.request_tag_keys(),
            Key::TagKeys => match self.request_tag_keys() {
                ContextValue::Absent => self.session_tag_keys(),
                found => found,
            },
            Key::ExistingObjectTag(name) => {
                let Resource::Bucket {
                    object: Some(object),
                    ..
                } = self.resource
                else {
                    return ContextValue::Absent;
                };
                let tag = object.tags.iter().find(|(key, _)| key == name.as_ref());
                ContextValue::maybe(tag.map(|(_, value)| Cow::Borrowed(value.as_str())))
            }
            Key::Said(fact) => ContextValue::maybe(self.said(*fact)),
            Key::RequestTag(name) => {
                // Those of objects have a key of their own.
                let tags = details
                    .tags
                    .filter(|_| self.action.level() != Level::Object);
                tags_named(tags.unwrap_or_default(), name)
            }
            Key::RoleSessionName => ContextValue::maybe(details.role_session.map(Cow::Borrowed)),
            Key::ExternalId => ContextValue::maybe(details.external_id.map(Cow::Borrowed)),
            Key::AskedIdentity => ContextValue::maybe(details.source_identity.map(Cow::Borrowed)),
            Key::TransitiveTagKeys => match details.transitive {
                None => ContextValue::Absent,
                Some(keys) => {
                    ContextValue::Many(keys.iter().map(|key| Cow::Borrowed(key.as_str())).collect())
                }
            },
            Key::PolicyArn => ContextValue::maybe(details.policy_arn.map(Cow::Borrowed)),
            Key::ResourceTag(name) => {
                let tag = details.bucket_tags.and_then(|tags| tags.get(name.as_ref()));
                ContextValue::maybe(tag.map(|value| Cow::Borrowed(value.as_str())))
            }
            // Those of who asks, and what there is not here.
            _ => ContextValue::Absent,
        }
    }

    fn session(&self) -> Option<&Session> {
        self.caller.bounds()?.session.as_deref()
    }

    /// What the verb read of the request's document, or else what the front knows.
    fn said(&self, fact: Fact) -> Option<Cow<'_, str>> {
        let details = self.details;
        let read = match fact {
            Fact::ObjectLockMode => details.retention.map(|(mode, _)| Cow::Borrowed(mode)),
            Fact::ObjectLockRetainUntil => {
                let until = details.retention.map(|(_, until)| until);
                until.and_then(iso_date).map(Cow::Owned)
            }
            Fact::ObjectLockRemainingDays => {
                let until = details.retention.map(|(_, until)| until);
                // The front has it as the header says it.
                let until = until.or_else(|| timestamp(&self.said(Fact::ObjectLockRetainUntil)?));
                return until.map(|until| Cow::Owned(days_left(details.now, until).to_string()));
            }
            Fact::ObjectLockLegalHold => {
                let hold = details.legal_hold;
                hold.map(|hold| Cow::Borrowed(if hold { "ON" } else { "OFF" }))
            }
            Fact::LocationConstraint => details.location.map(Cow::Borrowed),
            Fact::ObjectOwnership => {
                let ownership = details.ownership.map(Ownership::as_str);
                ownership.map(Cow::Borrowed)
            }
            Fact::IfMatch => details.if_match.map(Cow::Borrowed),
            _ => None,
        };
        read.or_else(|| self.caller.facts().and_then(|facts| facts.fact(fact)))
    }

    /// Whether the word of the caller's provider counts where the policy stands. A provider that an
    /// account or tenant let in for itself may call itself like an issuer of the administrator.
    fn believes_provider(&self) -> bool {
        let own = self
            .caller
            .bounds()
            .is_some_and(|bounds| bounds.own_provider);
        // Nobody has become anybody where a trust policy of that account or tenant is asked.
        let Some(user) = self.caller.user().filter(|_| own) else {
            return true;
        };
        let of_tenant = !user.name.contains('/');
        match *self.resource {
            _ if !self.on_resource => of_tenant || !self.tenant_wide,
            ref resource if of_tenant => *resource.tenant() == user.tenant,
            Resource::Tenant(_) => false,
            Resource::Bucket { owner: account, .. } | Resource::Identity { account, .. } => {
                account == user.account
            }
        }
    }

    /// Whether the caller's name tells it apart where the resource is. Accounts name their users
    /// as they like: in the tenant, and in other accounts, somebody else may have the name. So may
    /// somebody in another tenant.
    fn names_user(&self) -> bool {
        let reaches_others = self.tenant_wide || self.on_resource;
        let Some(user) = self.caller.user().filter(|_| reaches_others) else {
            return true;
        };
        match self.resource {
            Resource::Tenant(_) => true,
            Resource::Bucket { owner, .. } => {
                // The policy of a user is its tenant's, but that of a bucket is the bucket's.
                let at_home = !self.on_resource || user.tenant == *self.resource.tenant();
                user.account == *owner || (user.is_root() && at_home)
            }
            Resource::Identity { account, .. } => user.account == *account,
        }
    }

    fn request_tag(&self, name: &str) -> ContextValue<'_> {
        if self.action.level() != Level::Object {
            return ContextValue::Absent;
        }
        if let Some(tags) = self.details.tags {
            let tag = tags.iter().find(|(key, _)| key == name);
            return ContextValue::maybe(tag.map(|(_, value)| Cow::Borrowed(value.as_str())));
        }
        let header = self.said(Fact::Tagging);
        let tag = header.and_then(|header| {
            let mut tags = encoded_tags(&header);
            tags.find(|(key, _)| key == name).map(|(_, value)| value)
        });
        ContextValue::maybe(tag.map(Cow::Owned))
    }

    /// The keys of the session's tags, where the administrator wants them to count as a request's.
    fn session_tag_keys(&self) -> ContextValue<'_> {
        let bounds = self.caller.bounds().filter(|bounds| bounds.tag_keys);
        let tags = bounds.map(|bounds| bounds.tags.as_slice());
        let keys = tags.unwrap_or_default().iter().map(|(key, _)| key.as_str());
        match keys.map(Cow::Borrowed).collect::<Vec<_>>() {
            keys if keys.is_empty() => ContextValue::Absent,
            keys => ContextValue::Many(keys),
        }
    }

    fn request_tag_keys(&self) -> ContextValue<'_> {
        if let Some(tags) = self.details.tags {
            return ContextValue::Many(
                tags.iter()
                    .map(|(key, _)| Cow::Borrowed(key.as_str()))
                    .collect(),
            );
        }
        match self.said(Fact::Tagging) {
            None => ContextValue::Absent,
            Some(header) => ContextValue::Many(
                encoded_tags(&header)
                    .map(|(key, _)| Cow::Owned(key))
                    .collect(),
            ),
        }
    }

    /// The value of a policy variable, in a statement with this effect. A tag that has several values
    /// stands for each of them in turn, as `choices` has it.
    fn variable(
        &self,
        key: &Key,
        effect: Effect,
        choices: &Choices,
    ) -> Result<Option<String>, OmittedClaim> {
        if *key == Key::Username && effect == Effect::Allow && !self.names_user() {
            // An absent value would make the negation of a condition or of a resource match.
            return Err(OmittedClaim);
        }
        match self.find(key) {
            ContextValue::One(value) | ContextValue::Implied(value) => Ok(Some(value.into_owned())),
            // In turn the name and nothing, so that a negation denies as well as the name does.
            ContextValue::Namesake(name) => {
                Ok((choices.of(key, 2) == 0).then(|| name.into_owned()))
            }
            ContextValue::Many(values)
                if matches!(key, Key::PrincipalTag(_) | Key::RequestTag(_)) =>
            {
                let at = choices.of(key, values.len());
                Ok(values.into_iter().nth(at).map(Cow::into_owned))
            }
            ContextValue::Absent | ContextValue::Many(_) => Ok(None),
            ContextValue::OmittedClaim => Err(OmittedClaim),
        }
    }
}

/// The values of a tag.
fn tags_named<'a>(tags: &'a [(String, String)], name: &str) -> ContextValue<'a> {
    let mut values = tags
        .iter()
        .filter(|(key, _)| key == name)
        .map(|(_, value)| Cow::Borrowed(value.as_str()));
    match (values.next(), values.next()) {
        (None, _) => ContextValue::Absent,
        (Some(one), None) => ContextValue::One(one),
        (Some(one), Some(two)) => {
            ContextValue::Many([one, two].into_iter().chain(values).collect())
        }
    }
}

/// Most combinations of the values of tags that one statement is asked with.
const COMBINATIONS_MAX: usize = 256;

/// Which value each variable with several values stands for now: an odometer over those that a
/// statement has asked for.
#[derive(Default)]
struct Choices(RefCell<Vec<(Key, usize, usize)>>);

impl Choices {
    /// The place of the value that a variable with `count` values stands for.
    fn of(&self, key: &Key, count: usize) -> usize {
        let mut all = self.0.borrow_mut();
        if let Some((_, at, _)) = all.iter().find(|(known, ..)| known == key) {
            return *at;
        }
        all.push((key.clone(), 0, count));
        0
    }

    /// Goes on to the next combination; false after the last.
    fn next(&self) -> bool {
        for (_, at, count) in self.0.borrow_mut().iter_mut() {
            *at += 1;
            if *at < *count {
                return true;
            }
            *at = 0;
        }
        false
    }
}

/// Days until then, begun ones counting whole: what is to be kept for ten days is kept for ten, however
/// long the request was on its way.
fn days_left(now: Timestamp, until: Timestamp) -> u64 {
    until.secs().saturating_sub(now.secs()).div_ceil(86_400)
}

fn iso_date(at: Timestamp) -> Option<String> {
    let at = OffsetDateTime::from_unix_timestamp(i64::try_from(at.secs()).ok()?).ok()?;
    at.format(&Rfc3339).ok()
}

/// A date as a header has it.
fn timestamp(text: &str) -> Option<Timestamp> {
    let nanos = super::condition::value::instant(text)?;
    Some(Timestamp::from_secs(
        u64::try_from(nanos / 1_000_000_000).ok()?,
    ))
}

/// Tags as a header or form field carries them.
fn encoded_tags(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key), decoded(value))
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high << 4 | low).unwrap_or_default());
                rest = &tail[2..];
            }
            _ => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Statement {
    /// Bytes of memory that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let conditions = self.conditions.iter().map(super::Condition::memory_bytes);
        self.sid.as_ref().map_or(0, |sid| sid.len())
            + self
                .principals
                .as_ref()
                .map_or(0, super::principal::PrincipalSet::memory_bytes)
            + self.resources.memory_bytes()
            + size_of_val(&*self.conditions)
            + conditions.sum::<usize>()
            + 2 * ALLOCATION_BYTES
    }

    /// Whether it speaks of the request, and how it means the caller. Where that depends on a claim that
    /// the caller's session does not carry, a statement that denies does and one that allows does not: the
    /// size of a login must never widen what it may.
    pub(super) fn speaks_of(&self, ask: &PolicyRequest<'_>) -> Option<PrincipalMatch> {
        if !self.actions.contains(ask.action) {
            return None;
        }
        let meant = match &self.principals {
            None => PrincipalMatch::InPerson,
            Some(principals) => principals.means(ask.caller, self.effect)?,
        };
        let denies = self.effect == Effect::Deny;
        let choices = Choices::default();
        let variables = |key: &Key| ask.variable(key, self.effect, &choices);
        for _ in 0..COMBINATIONS_MAX {
            let resources = self.resources.holds(&ask.named(), &variables);
            let holds = match resources {
                Truth::No => Truth::No,
                _ => {
                    let conditions = self
                        .conditions
                        .iter()
                        .map(|condition| condition.holds(&ask.find(condition.key()), &variables));
                    Truth::all([resources, Truth::all(conditions)])
                }
            };
            if holds.decide(denies) {
                return Some(meant);
            }
            if !choices.next() {
                return None;
            }
        }
        // Too many to look at them all: what denies does, what allows does not.
        denies.then_some(meant)
    }

    /// The claims that it asks for, in conditions and in variables: `PROVIDER:claim`.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &str> {
        let conditions = self.conditions.iter().flat_map(super::Condition::keys);
        let keys = conditions.chain(self.resources.variables());
        keys.filter_map(|key| match key {
            Key::Claim(name) => Some(&**name),
            _ => None,
        })
    }

    /// Whether it allows the request to the caller's own session, which it names.
    pub(super) fn allows_session(&self, ask: &PolicyRequest<'_>) -> bool {
        let principals = self.principals.as_ref();
        self.effect == Effect::Allow
            && principals.is_some_and(|principals| principals.names_session(ask.caller))
            && self.speaks_of(ask).is_some()
    }

    /// What the resources that it speaks of begin with.
    pub(super) fn starts(&self) -> Vec<&str> {
        self.resources.starts()
    }

    /// Whether it allows something to everybody.
    pub(super) fn is_public(&self) -> bool {
        self.effect == Effect::Allow
            && self
                .principals
                .as_ref()
                .is_some_and(super::principal::PrincipalSet::is_everyone)
            && !self.conditions.iter().any(super::Condition::narrows)
    }

    /// Whether it lets in all users of a provider, whoever they are.
    pub(super) fn trusts_a_realm(&self, client_trust: bool) -> bool {
        self.effect == Effect::Allow
            && self.actions.contains(Action::AssumeRoleWithWebIdentity)
            && self
                .principals
                .as_ref()
                .is_some_and(super::principal::PrincipalSet::is_federated)
            && !self
                .conditions
                .iter()
                .any(|condition| condition.tells_users_apart(client_trust))
    }

    /// See [`Policy::tells_keys_apart`].
    pub(super) fn asks_for_path(&self) -> bool {
        self.resources.tells_keys_apart()
            || self.conditions.iter().any(|condition| {
                matches!(condition.key(), Key::ExistingObjectTag(_) | Key::VersionId)
            })
    }
}

/// For fuzzing: asks a policy about every action.
pub(super) fn ask_everything(policy: &Policy) {
    let caller = Caller::anonymous(crate::Origin {
        address: Some(std::net::IpAddr::from([192, 0, 2, 1])),
        secure: true,
    });
    let tenant = dewar_types::TenantName::default();
    let details = Details {
        prefix: Some("a/b"),
        max_keys: Some(10),
        ..Details::default()
    };
    for action in Action::ALL {
        let resource = Resource::Bucket {
            tenant: &tenant,
            bucket: "bucket",
            owner: dewar_types::UserId(7),
            access: None,
            key: Some("key/äß"),
            object: None,
        };
        let named = OnceCell::new();
        policy.verdict(&PolicyRequest::new(
            &caller, *action, &resource, &details, &named,
        ));
    }
}
