//! Actions: one per right, with the names that AWS uses.
//!
//! The list is longer than the set of verbs that Dewar has. A policy may name every action of S3,
//! IAM and STS. So documents written for AWS are accepted unchanged, and stay valid when a verb is
//! added.

use std::fmt;

/// The kind of resource that an action applies to. It decides the kind of ARN that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// No resource, or all of them: listing buckets.
    Service,
    /// A bucket.
    Bucket,
    /// An object, or a name that may become one.
    Object,
    /// A user, group, role, policy or provider.
    Identity,
}

macro_rules! actions {
    ($($service:literal { $($level:ident { $($(#[$doc:meta])* $name:ident $text:literal,)* })* })*) => {
        /// An action that a policy can allow or deny.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names are AWS's and documented there")]
        pub enum Action { $($($($(#[$doc])* $name,)*)*)* }

        impl Action {
            /// Every action.
            pub const ALL: &'static [Self] = &[$($($(Self::$name,)*)*)*];

            /// The service that it belongs to, as ARNs and policies name it.
            #[must_use]
            pub const fn service(self) -> &'static str {
                match self { $($($(Self::$name => $service,)*)*)* }
            }

            /// Its name within the service.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($($(Self::$name => $text,)*)*)* }
            }

            /// The kind of resource that the action applies to.
            #[must_use]
            pub const fn level(self) -> Level {
                match self { $($($(Self::$name => Level::$level,)*)*)* }
            }
        }
    };
}

actions! {
    "s3" {
        Service {
            ListAllMyBuckets "ListAllMyBuckets",
            DescribeJob "DescribeJob",
            GetAccountPublicAccessBlock "GetAccountPublicAccessBlock",
            PutAccountPublicAccessBlock "PutAccountPublicAccessBlock",
        }
        Bucket {
            CreateBucket "CreateBucket",
            DeleteBucket "DeleteBucket",
            DeleteBucketPolicy "DeleteBucketPolicy",
            DeleteBucketWebsite "DeleteBucketWebsite",
            GetAccelerateConfiguration "GetAccelerateConfiguration",
            GetAnalyticsConfiguration "GetAnalyticsConfiguration",
            GetBucketAcl "GetBucketAcl",
            GetBucketCors "GetBucketCORS",
            GetBucketLocation "GetBucketLocation",
            GetBucketLogging "GetBucketLogging",
            GetBucketNotification "GetBucketNotification",
            GetBucketObjectLockConfiguration "GetBucketObjectLockConfiguration",
            GetBucketOwnershipControls "GetBucketOwnershipControls",
            GetBucketPolicy "GetBucketPolicy",
            GetBucketPolicyStatus "GetBucketPolicyStatus",
            GetBucketPublicAccessBlock "GetBucketPublicAccessBlock",
            GetBucketRequestPayment "GetBucketRequestPayment",
            GetBucketTagging "GetBucketTagging",
            GetBucketVersioning "GetBucketVersioning",
            GetBucketWebsite "GetBucketWebsite",
            GetEncryptionConfiguration "GetEncryptionConfiguration",
            GetIntelligentTieringConfiguration "GetIntelligentTieringConfiguration",
            GetInventoryConfiguration "GetInventoryConfiguration",
            GetLifecycleConfiguration "GetLifecycleConfiguration",
            GetMetricsConfiguration "GetMetricsConfiguration",
            GetReplicationConfiguration "GetReplicationConfiguration",
            /// List keys, and learn whether a key exists.
            ListBucket "ListBucket",
            ListBucketMultipartUploads "ListBucketMultipartUploads",
            ListBucketVersions "ListBucketVersions",
            PutAccelerateConfiguration "PutAccelerateConfiguration",
            PutAnalyticsConfiguration "PutAnalyticsConfiguration",
            PutBucketAcl "PutBucketAcl",
            PutBucketCors "PutBucketCORS",
            PutBucketLogging "PutBucketLogging",
            PutBucketNotification "PutBucketNotification",
            PutBucketObjectLockConfiguration "PutBucketObjectLockConfiguration",
            PutBucketOwnershipControls "PutBucketOwnershipControls",
            PutBucketPolicy "PutBucketPolicy",
            PutBucketPublicAccessBlock "PutBucketPublicAccessBlock",
            PutBucketRequestPayment "PutBucketRequestPayment",
            PutBucketTagging "PutBucketTagging",
            PutBucketVersioning "PutBucketVersioning",
            PutBucketWebsite "PutBucketWebsite",
            PutEncryptionConfiguration "PutEncryptionConfiguration",
            PutIntelligentTieringConfiguration "PutIntelligentTieringConfiguration",
            PutInventoryConfiguration "PutInventoryConfiguration",
            PutLifecycleConfiguration "PutLifecycleConfiguration",
            PutMetricsConfiguration "PutMetricsConfiguration",
            PutReplicationConfiguration "PutReplicationConfiguration",
        }
        Object {
            AbortMultipartUpload "AbortMultipartUpload",
            BypassGovernanceRetention "BypassGovernanceRetention",
            DeleteObject "DeleteObject",
            DeleteObjectTagging "DeleteObjectTagging",
            DeleteObjectVersion "DeleteObjectVersion",
            DeleteObjectVersionTagging "DeleteObjectVersionTagging",
            GetObject "GetObject",
            GetObjectAcl "GetObjectAcl",
            GetObjectAttributes "GetObjectAttributes",
            GetObjectLegalHold "GetObjectLegalHold",
            GetObjectRetention "GetObjectRetention",
            GetObjectTagging "GetObjectTagging",
            GetObjectTorrent "GetObjectTorrent",
            GetObjectVersion "GetObjectVersion",
            GetObjectVersionAcl "GetObjectVersionAcl",
            GetObjectVersionAttributes "GetObjectVersionAttributes",
            GetObjectVersionForReplication "GetObjectVersionForReplication",
            GetObjectVersionTagging "GetObjectVersionTagging",
            GetObjectVersionTorrent "GetObjectVersionTorrent",
            ListMultipartUploadParts "ListMultipartUploadParts",
            ObjectOwnerOverrideToBucketOwner "ObjectOwnerOverrideToBucketOwner",
            /// Write an object, a part, or complete an upload.
            PutObject "PutObject",
            PutObjectAcl "PutObjectAcl",
            PutObjectLegalHold "PutObjectLegalHold",
            PutObjectRetention "PutObjectRetention",
            PutObjectTagging "PutObjectTagging",
            PutObjectVersionAcl "PutObjectVersionAcl",
            PutObjectVersionTagging "PutObjectVersionTagging",
            /// Give an object or directory another name; asked for its old name.
            RenameObject "RenameObject",
            ReplicateDelete "ReplicateDelete",
            ReplicateObject "ReplicateObject",
            ReplicateTags "ReplicateTags",
            RestoreObject "RestoreObject",
        }
    }
    "iam" {
        Identity {
            AddClientIdToOpenIdConnectProvider "AddClientIDToOpenIDConnectProvider",
            AddUserToGroup "AddUserToGroup",
            AttachGroupPolicy "AttachGroupPolicy",
            AttachRolePolicy "AttachRolePolicy",
            AttachUserPolicy "AttachUserPolicy",
            CreateAccessKey "CreateAccessKey",
            CreateGroup "CreateGroup",
            CreateOpenIdConnectProvider "CreateOpenIDConnectProvider",
            CreatePolicy "CreatePolicy",
            CreatePolicyVersion "CreatePolicyVersion",
            CreateRole "CreateRole",
            CreateUser "CreateUser",
            DeleteAccessKey "DeleteAccessKey",
            DeleteGroup "DeleteGroup",
            DeleteGroupPolicy "DeleteGroupPolicy",
            DeleteOpenIdConnectProvider "DeleteOpenIDConnectProvider",
            DeletePolicy "DeletePolicy",
            DeletePolicyVersion "DeletePolicyVersion",
            DeleteRole "DeleteRole",
            DeleteRolePolicy "DeleteRolePolicy",
            DeleteUser "DeleteUser",
            DeleteUserPolicy "DeleteUserPolicy",
            DetachGroupPolicy "DetachGroupPolicy",
            DetachRolePolicy "DetachRolePolicy",
            DetachUserPolicy "DetachUserPolicy",
            GenerateCredentialReport "GenerateCredentialReport",
            GenerateServiceLastAccessedDetails "GenerateServiceLastAccessedDetails",
            GetAccountSummary "GetAccountSummary",
            GetGroup "GetGroup",
            GetGroupPolicy "GetGroupPolicy",
            GetOpenIdConnectProvider "GetOpenIDConnectProvider",
            GetPolicy "GetPolicy",
            GetPolicyVersion "GetPolicyVersion",
            GetRole "GetRole",
            GetRolePolicy "GetRolePolicy",
            GetUser "GetUser",
            GetUserPolicy "GetUserPolicy",
            ListAccessKeys "ListAccessKeys",
            ListAttachedGroupPolicies "ListAttachedGroupPolicies",
            ListAttachedRolePolicies "ListAttachedRolePolicies",
            ListAttachedUserPolicies "ListAttachedUserPolicies",
            ListEntitiesForPolicy "ListEntitiesForPolicy",
            ListGroupPolicies "ListGroupPolicies",
            ListGroups "ListGroups",
            ListGroupsForUser "ListGroupsForUser",
            ListOpenIdConnectProviders "ListOpenIDConnectProviders",
            ListPolicies "ListPolicies",
            ListPolicyVersions "ListPolicyVersions",
            ListRolePolicies "ListRolePolicies",
            ListRoles "ListRoles",
            ListUserPolicies "ListUserPolicies",
            ListUsers "ListUsers",
            PassRole "PassRole",
            PutGroupPolicy "PutGroupPolicy",
            PutRolePolicy "PutRolePolicy",
            PutUserPolicy "PutUserPolicy",
            RemoveClientIdFromOpenIdConnectProvider "RemoveClientIDFromOpenIDConnectProvider",
            RemoveUserFromGroup "RemoveUserFromGroup",
            SetDefaultPolicyVersion "SetDefaultPolicyVersion",
            SimulateCustomPolicy "SimulateCustomPolicy",
            SimulatePrincipalPolicy "SimulatePrincipalPolicy",
            TagRole "TagRole",
            TagUser "TagUser",
            UntagRole "UntagRole",
            UntagUser "UntagUser",
            UpdateAccessKey "UpdateAccessKey",
            UpdateAssumeRolePolicy "UpdateAssumeRolePolicy",
            UpdateGroup "UpdateGroup",
            UpdateOpenIdConnectProviderThumbprint "UpdateOpenIDConnectProviderThumbprint",
            UpdateRole "UpdateRole",
            UpdateUser "UpdateUser",
        }
    }
    "sts" {
        Identity {
            AssumeRole "AssumeRole",
            AssumeRoleWithWebIdentity "AssumeRoleWithWebIdentity",
            GetCallerIdentity "GetCallerIdentity",
            GetSessionToken "GetSessionToken",
            SetSourceIdentity "SetSourceIdentity",
            TagSession "TagSession",
        }
    }
}

impl Action {
    /// Parses the action as a policy writes it, like `s3:GetObject`; in any case of letters.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (service, name) = text.split_once(':')?;
        let same = |action: &&Self| {
            action.service().eq_ignore_ascii_case(service)
                && action.name().eq_ignore_ascii_case(name)
        };
        Self::ALL.iter().find(same).copied()
    }
}

impl Action {
    /// Whether the action changes nothing and creates no credentials.
    #[must_use]
    pub fn only_reads(self) -> bool {
        let name = self.name();
        self.service() != "sts" && (name.starts_with("Get") || name.starts_with("List"))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service(), self.name())
    }
}

const WORDS: usize = 4;
const _: () = assert!(
    Action::ALL.len() <= 64 * WORDS,
    "an action set has a bit for each action"
);

/// A set of actions: the compiled `Action` patterns of a statement. Matching an action is the test
/// of one bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// Puts an action in.
    pub fn insert(&mut self, action: Action) {
        let at = action as usize;
        self.0[at / 64] |= 1 << (at % 64);
    }

    /// Whether it holds an action.
    #[must_use]
    pub fn contains(&self, action: Action) -> bool {
        let at = action as usize;
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    /// All actions that it does not hold.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut all = Self::default();
        for action in Action::ALL {
            if !self.contains(*action) {
                all.insert(*action);
            }
        }
        all
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_found_by_its_name() {
        for action in Action::ALL {
            assert_eq!(Action::parse(&action.to_string()), Some(*action));
            let shouted = action.to_string().to_ascii_uppercase();
            assert_eq!(Action::parse(&shouted), Some(*action));
        }
        assert_eq!(Action::parse("s3:GetObjects"), None);
        assert_eq!(Action::parse("GetObject"), None);
    }

    #[test]
    fn a_set_and_its_complement_share_nothing() {
        let mut set = ActionSet::default();
        assert!(set.is_empty());
        set.insert(Action::GetObject);
        set.insert(Action::TagSession);
        let rest = set.complement();
        for action in Action::ALL {
            assert_ne!(set.contains(*action), rest.contains(*action), "{action}");
        }
    }
}
