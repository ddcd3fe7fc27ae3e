//! Policies and groups, as the admin socket speaks of them.

use serde::{Deserialize, Serialize};

/// The holder of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HolderName {
    /// A user, `[TENANT:]NAME`.
    User(String),
    /// A group, `[TENANT:]NAME`.
    Group(String),
    /// A role, `[TENANT:]NAME`.
    Role(String),
}

/// A request about policies or groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum IdentityRequest {
    /// Put a policy on a user or group.
    PolicyPut {
        /// On which.
        holder: HolderName,
        /// Under which name.
        policy: String,
        /// The document.
        text: String,
    },
    /// Take a policy away.
    PolicyRemove {
        /// From which.
        holder: HolderName,
        /// Of which name.
        policy: String,
    },
    /// The policies of a user or group.
    PolicyList {
        /// Of which.
        holder: HolderName,
    },
    /// Explain whether a caller may do something, and the reason.
    Explain {
        /// The user, `[TENANT:]NAME`, or `role:[TENANT:]NAME`; an anonymous caller if absent.
        who: Option<String>,
        /// The action, as policies name it: `s3:GetObject`.
        action: String,
        /// `/BUCKET[/KEY]`, or `/@TENANT/BUCKET[/KEY]`.
        path: String,
    },
    /// Make a group.
    GroupAdd {
        /// `[TENANT:]NAME`.
        name: String,
    },
    /// Remove a group without members and policies.
    GroupRemove {
        /// `[TENANT:]NAME`.
        name: String,
    },
    /// The groups of a tenant.
    GroupList {
        /// The tenant; the default one if absent.
        tenant: Option<String>,
    },
    /// Give a bucket or directory a group, or take it away.
    GroupOwn {
        /// `/BUCKET[/DIRECTORY]`, or `/@TENANT/BUCKET[/DIRECTORY]`.
        path: String,
        /// `[TENANT:]NAME`; none takes it away.
        group: Option<String>,
    },
    /// The group that is charged for new data at a path.
    GroupOf {
        /// As for [`IdentityRequest::GroupOwn`]; it need not be there.
        path: String,
    },
    /// Put a user into a group or take it out.
    GroupMember {
        /// `[TENANT:]NAME`.
        group: String,
        /// The user's name in the same tenant.
        user: String,
        /// In, or out.
        member: bool,
    },
}

/// A policy on a user or group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInfo {
    /// Its name.
    pub name: String,
    /// The document; `None` for a managed policy that is only attached to the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: Vec<String>,
}

/// The reply to such a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityReply {
    /// It is done.
    Done,
    /// Policies, by name.
    Policies(Vec<PolicyInfo>),
    /// Groups, by name.
    Groups(Vec<GroupInfo>),
    /// The group that is charged at a path.
    Charged {
        /// `[TENANT:]NAME`; `None` if nobody is charged, or if the group was removed.
        group: Option<String>,
        /// The bucket or directory that has the group; `None` if nobody is charged.
        by: Option<String>,
    },
    /// A decision.
    Decision {
        /// Whether it is allowed.
        allowed: bool,
        /// The reason, in words.
        reason: String,
    },
}
