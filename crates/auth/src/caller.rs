//! The caller of a request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use dewar_types::{TenantName, UserId};

use crate::{AccessKey, AuditBatch, Bounds, Facts, User};

/// The origin of a request. Policy conditions and the audit log use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The client's address, if it came over a network.
    pub address: Option<IpAddr>,
    /// Whether the transport is encrypted.
    pub secure: bool,
}

impl Origin {
    /// Whether nobody else can read what the client sends: TLS, or a client on this machine.
    #[must_use]
    pub fn is_confidential(&self) -> bool {
        let local = |address: IpAddr| address.to_canonical().is_loopback();
        self.secure || self.address.is_none_or(local)
    }
}

/// The identity behind a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Principal {
    /// Nobody in particular.
    Anonymous,
    /// A local user.
    User(Arc<User>),
    /// Dewar itself, or its administrator on the admin socket.
    System,
}

/// A principal with the origin of its request. Every verb of the store takes one.
#[derive(Clone)]
pub struct Caller {
    principal: Principal,
    origin: Origin,
    facts: Option<Arc<dyn Facts>>,
    bounds: Option<Arc<Bounds>>,
    /// The credential that proved the identity, for the audit log.
    credential: Option<Arc<str>>,
    /// The batch that collects decisions about this request; `None` if they are recorded one by
    /// one.
    batch: Option<Arc<AuditBatch>>,
}

impl Caller {
    /// Nobody.
    #[must_use]
    pub fn anonymous(origin: Origin) -> Self {
        Self {
            principal: Principal::Anonymous,
            origin,
            facts: None,
            bounds: None,
            credential: None,
            batch: None,
        }
    }

    /// The user of an access key whose secret the client has proven to hold.
    #[must_use]
    pub fn by_access_key(key: &AccessKey, origin: Origin) -> Self {
        Self {
            principal: Principal::User(Arc::clone(&key.user)),
            origin,
            facts: None,
            bounds: key.bounds.clone(),
            batch: None,
            credential: Some(match &key.bounds {
                Some(bounds) if !bounds.credential.is_empty() => Arc::clone(&bounds.credential),
                _ => format!("key:{}", key.id).into(),
            }),
        }
    }

    /// A user for whom the administrator acts, on the admin socket.
    #[must_use]
    pub fn for_user(user: User) -> Self {
        Self {
            principal: Principal::User(Arc::new(user)),
            origin: Origin {
                address: None,
                secure: true,
            },
            facts: None,
            bounds: None,
            credential: None,
            batch: None,
        }
    }

    /// The caller that a bearer token identifies. The token must be verified already.
    #[must_use]
    pub fn by_token(user: Arc<User>, bounds: Arc<Bounds>, origin: Origin) -> Self {
        Self {
            principal: Principal::User(user),
            origin,
            facts: None,
            credential: Some(Arc::clone(&bounds.credential)),
            bounds: Some(bounds),
            batch: None,
        }
    }

    /// A person whom a provider vouches for and who has not assumed a role yet. Only trust policies
    /// are evaluated for such a caller.
    #[must_use]
    pub fn vouched(bounds: Arc<Bounds>, origin: Origin) -> Self {
        Self {
            principal: Principal::Anonymous,
            origin,
            facts: None,
            credential: Some(Arc::clone(&bounds.credential)),
            bounds: Some(bounds),
            batch: None,
        }
    }

    /// A user that a front accepts without a secret, because of the client's address or connection.
    #[must_use]
    pub fn admitted(user: Arc<User>, origin: Origin) -> Self {
        Self {
            principal: Principal::User(user),
            origin,
            facts: None,
            bounds: None,
            credential: None,
            batch: None,
        }
    }

    /// Dewar itself: background work, and the administrator on the admin socket.
    #[must_use]
    pub fn system() -> Self {
        Self {
            principal: Principal::System,
            origin: Origin {
                address: None,
                secure: true,
            },
            facts: None,
            bounds: None,
            credential: None,
            batch: None,
        }
    }

    /// The same, with the facts that the front knows about the request.
    #[must_use]
    pub fn with_facts(self, facts: Arc<dyn Facts>) -> Self {
        Self {
            facts: Some(facts),
            ..self
        }
    }

    /// The same caller, for a request that decides about many names: its decisions are collected in
    /// `batch`.
    #[must_use]
    pub fn with_batch(self, batch: Arc<AuditBatch>) -> Self {
        Self {
            batch: Some(batch),
            ..self
        }
    }

    /// The batch that collects decisions about this request; `None` if they are recorded one by
    /// one.
    #[must_use]
    pub fn batch(&self) -> Option<&Arc<AuditBatch>> {
        self.batch.as_ref()
    }

    /// The restrictions and facts that a session or token adds; `None` for permanent access keys.
    #[must_use]
    pub fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_deref()
    }

    /// The credential of the caller: `key:…`, `session:…`, `token:…`; `None` if it needed none.
    #[must_use]
    pub fn credential(&self) -> Option<&Arc<str>> {
        self.credential.as_ref()
    }

    /// The facts that the front knows about the request.
    #[must_use]
    pub fn facts(&self) -> Option<&dyn Facts> {
        self.facts.as_deref()
    }

    /// The identity.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The origin of the request.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The local user, if it is one.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        match &self.principal {
            Principal::User(user) => Some(user),
            Principal::Anonymous | Principal::System => None,
        }
    }

    /// The local user's id; 0 (never assigned to a user) for Dewar itself and for anonymous
    /// callers.
    #[must_use]
    pub fn user_id(&self) -> UserId {
        self.user().map_or(UserId(0), |user| user.id)
    }

    /// The account that owns the caller's new objects; 0 for Dewar itself and for anonymous
    /// callers.
    #[must_use]
    pub fn account(&self) -> UserId {
        self.user().map_or(UserId(0), |user| user.account)
    }

    /// The tenant in which unqualified bucket names resolve.
    #[must_use]
    pub fn tenant(&self) -> TenantName {
        self.user()
            .map(|user| user.tenant.clone())
            .unwrap_or_default()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.principal {
            Principal::Anonymous => f.write_str("anonymous"),
            Principal::User(user) => f.write_str(&user.name),
            Principal::System => f.write_str("system"),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({self})")
    }
}
