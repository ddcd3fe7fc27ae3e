//! The managed policies of AWS that are about S3 and IAM, under AWS's own names and in its words
//! (AWS managed policy reference). They can be attached and read, by everybody, and never changed.
//!
//! Records name such a policy by its ARN. This is unambiguous: no policy of an
//! account or tenant can have a colon in its name.

use std::collections::BTreeMap;

use dewar_types::Timestamp;

use super::{ManagedPolicy, PolicyVersion};

/// What the ARNs of all of them begin with.
const ARN_PREFIX: &str = "arn:aws:iam::aws:policy/";

/// A managed policy of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwsPolicy {
    /// Its ARN, which is also its name in records.
    pub arn: &'static str,
    /// Its id, as AWS has it.
    pub id: &'static str,
    description: &'static str,
    /// The number of the version that counts, the only one that is kept here.
    version: u32,
    /// When AWS made it, in seconds since 1970.
    created: u64,
    /// When AWS worded it so.
    updated: u64,
    text: &'static str,
}

const POLICIES: &[AwsPolicy] = &[
    AwsPolicy {
        arn: "arn:aws:iam::aws:policy/AdministratorAccess",
        id: "ANPAIWMBCKSKIEE64ZLYK",
        description: "Provides full access to AWS services and resources.",
        version: 1,
        created: 1_423_247_986,
        updated: 1_423_247_986,
        text: r#"{
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "*",
            "Resource": "*"
        }
    ]
}"#,
    },
    AwsPolicy {
        arn: "arn:aws:iam::aws:policy/AmazonS3FullAccess",
        id: "ANPAIFIR6V6BVTRAHWINE",
        description: "Provides full access to all buckets via the AWS Management Console.",
        version: 2,
        created: 1_423_248_058,
        updated: 1_632_773_770,
        text: r#"{
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "s3:*",
                "s3-object-lambda:*"
            ],
            "Resource": "*"
        }
    ]
}"#,
    },
    AwsPolicy {
        arn: "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess",
        id: "ANPAIZTJ4DXE7G6AGAE6M",
        description: "Provides read only access to all buckets via the AWS Management Console.",
        version: 3,
        created: 1_423_248_059,
        updated: 1_691_705_471,
        text: r#"{
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "s3:Get*",
                "s3:List*",
                "s3:Describe*",
                "s3-object-lambda:Get*",
                "s3-object-lambda:List*"
            ],
            "Resource": "*"
        }
    ]
}"#,
    },
    AwsPolicy {
        arn: "arn:aws:iam::aws:policy/IAMFullAccess",
        id: "ANPAI7XKCFMBPM3QQRRVQ",
        description: "Provides full access to IAM via the AWS Management Console.",
        version: 2,
        created: 1_423_248_038,
        updated: 1_561_145_920,
        text: r#"{
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "iam:*",
                "organizations:DescribeAccount",
                "organizations:DescribeOrganization",
                "organizations:DescribeOrganizationalUnit",
                "organizations:DescribePolicy",
                "organizations:ListChildren",
                "organizations:ListParents",
                "organizations:ListPoliciesForTarget",
                "organizations:ListRoots",
                "organizations:ListPolicies",
                "organizations:ListTargetsForPolicy"
            ],
            "Resource": "*"
        }
    ]
}"#,
    },
    AwsPolicy {
        arn: "arn:aws:iam::aws:policy/IAMReadOnlyAccess",
        id: "ANPAJKSO7NDY4T57MWDSQ",
        description: "Provides read only access to IAM via the AWS Management Console.",
        version: 4,
        created: 1_423_248_039,
        updated: 1_516_907_951,
        text: r#"{
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "iam:GenerateCredentialReport",
                "iam:GenerateServiceLastAccessedDetails",
                "iam:Get*",
                "iam:List*",
                "iam:SimulateCustomPolicy",
                "iam:SimulatePrincipalPolicy"
            ],
            "Resource": "*"
        }
    ]
}"#,
    },
];

/// Whether a name in a record, or an ARN, means a policy of AWS, known here or not.
#[must_use]
pub fn is_aws_policy(name: &str) -> bool {
    name.starts_with(ARN_PREFIX)
}

/// The policy of AWS that has this ARN.
#[must_use]
pub fn aws_policy(arn: &str) -> Option<&'static AwsPolicy> {
    POLICIES.iter().find(|policy| policy.arn == arn)
}

/// All of them, by name.
pub fn aws_policies() -> impl Iterator<Item = &'static AwsPolicy> {
    POLICIES.iter()
}

impl AwsPolicy {
    /// The document.
    #[must_use]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The number of the version that counts.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }
}

impl From<&AwsPolicy> for ManagedPolicy {
    fn from(policy: &AwsPolicy) -> Self {
        let version = PolicyVersion {
            text: policy.text.to_owned(),
            created: Timestamp::from_secs(policy.updated),
        };
        Self {
            // Only policies of the catalog have one.
            id: 0,
            name: policy.arn.to_owned(),
            path: "/".into(),
            created: Timestamp::from_secs(policy.created),
            updated: Timestamp::from_secs(policy.updated),
            description: Some(policy.description.to_owned()),
            versions: BTreeMap::from([(policy.version, version)]),
            default: policy.version,
        }
    }
}

#[cfg(test)]
mod tests {
    use dewar_auth::{IDENTITY_POLICY_BYTES_MAX, Policy, PolicyKind};

    use super::*;

    #[test]
    fn every_policy_of_aws_is_understood_as_it_stands() {
        for policy in aws_policies() {
            assert!(is_aws_policy(policy.arn), "{}", policy.arn);
            assert_eq!(aws_policy(policy.arn), Some(policy));
            let read = Policy::parse(policy.text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX);
            assert_eq!(read.expect(policy.arn).statements(), 1);
        }
        assert_eq!(aws_policy("arn:aws:iam::aws:policy/ReadOnlyAccess"), None);
    }
}
