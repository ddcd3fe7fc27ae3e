//! Managed policies in the IAM API: those of the account, and AWS's own.

use dewar_auth::Action;
use dewar_http_front::UrlEncodedForm;
use dewar_iam::{Identities, ManagedPolicy, aws_policies, aws_policy};
use http::StatusCode;

use super::iam::{IamError, IamResult, Xml, date, encoded, need, path_of, short};

fn push_policy(iam: &Identities<'_>, xml: &mut Xml, policy: &ManagedPolicy) {
    let name = short(&policy.name);
    xml.text("PolicyName", name);
    let id = aws_policy(&policy.name).map(|aws| aws.id.to_owned());
    xml.text(
        "PolicyId",
        &id.unwrap_or_else(|| format!("{:016x}", policy.id)),
    );
    xml.text("Arn", &iam.policy_arn(policy));
    xml.text("Path", &policy.path);
    xml.text("DefaultVersionId", &format!("v{}", policy.default));
    xml.text("IsAttachable", "true");
    if let Some(description) = &policy.description {
        xml.text("Description", description);
    }
    xml.text("CreateDate", &date(policy.created));
    xml.text("UpdateDate", &date(policy.updated));
}

fn push_version(xml: &mut Xml, policy: &ManagedPolicy, number: u32, with_text: bool) {
    let Some(version) = policy.versions.get(&number) else {
        return;
    };
    if with_text {
        xml.text("Document", &encoded(&version.text));
    }
    xml.text("VersionId", &format!("v{number}"));
    let default = number == policy.default;
    xml.text("IsDefaultVersion", if default { "true" } else { "false" });
    xml.text("CreateDate", &date(version.created));
}

/// The policies of `CredentialScope`: `Local` ones of the account, those of `AWS`, or `All`.
async fn listed(iam: &Identities<'_>, form: &UrlEncodedForm) -> IamResult<Vec<ManagedPolicy>> {
    let (own, aws) = match form.get("Scope").unwrap_or("All") {
        "All" => (true, true),
        "Local" => (true, false),
        "AWS" => (false, true),
        other => {
            return Err(IamError {
                code: "ValidationError",
                status: StatusCode::BAD_REQUEST,
                words: format!("The scope {other:?} is not All, AWS or Local."),
            });
        }
    };
    let mut policies = iam.list_policies().await?;
    policies.retain(|_| own);
    if aws {
        policies.extend(aws_policies().map(Into::into));
    }
    let prefix = form.get("PathPrefix").unwrap_or("/");
    policies.retain(|policy: &ManagedPolicy| policy.path.starts_with(prefix));
    Ok(policies)
}

/// Answers a call about managed policies; false for every other.
pub(super) async fn policies(
    iam: &Identities<'_>,
    action: &str,
    form: &UrlEncodedForm,
    xml: &mut Xml,
) -> IamResult<bool> {
    let number = || {
        let text = need(form, "VersionId")?;
        let number = text.strip_prefix('v').and_then(|text| text.parse().ok());
        number.ok_or_else(|| IamError {
            code: "NoSuchEntity",
            status: StatusCode::NOT_FOUND,
            words: format!("There is no version {text}."),
        })
    };
    match action {
        "CreatePolicy" => {
            let description = form.get("Description").map(str::to_owned);
            let (name, text) = (need(form, "PolicyName")?, need(form, "PolicyDocument")?);
            let policy = iam
                .create_policy(name, path_of(form), description, text)
                .await?;
            xml.nested("Policy", |xml| push_policy(iam, xml, &policy));
        }
        "GetPolicy" => {
            let policy = iam
                .policy(Action::GetPolicy, need(form, "PolicyArn")?)
                .await?;
            xml.nested("Policy", |xml| push_policy(iam, xml, &policy));
        }
        "DeletePolicy" => iam.delete_policy(need(form, "PolicyArn")?).await?,
        "ListPolicies" => {
            let policies = listed(iam, form).await?;
            xml.list(form, "Policies", &policies, |xml, policy| {
                push_policy(iam, xml, policy);
            });
        }
        "ListPolicyVersions" => {
            let arn = need(form, "PolicyArn")?;
            let policy = iam.policy(Action::ListPolicyVersions, arn).await?;
            let numbers: Vec<u32> = policy.versions.keys().rev().copied().collect();
            xml.list(form, "Versions", &numbers, |xml, number| {
                push_version(xml, &policy, *number, false);
            });
        }
        "GetPolicyVersion" => {
            let arn = need(form, "PolicyArn")?;
            let policy = iam.policy(Action::GetPolicyVersion, arn).await?;
            let number: u32 = number()?;
            if !policy.versions.contains_key(&number) {
                return Err(IamError {
                    code: "NoSuchEntity",
                    status: StatusCode::NOT_FOUND,
                    words: format!("There is no version v{number}."),
                });
            }
            xml.nested("PolicyVersion", |xml| {
                push_version(xml, &policy, number, true)
            });
        }
        "CreatePolicyVersion" => {
            let (arn, text) = (need(form, "PolicyArn")?, need(form, "PolicyDocument")?);
            let default = form.get("SetAsDefault") == Some("true");
            let (policy, number) = iam.reword_policy(arn, text, default).await?;
            xml.nested("PolicyVersion", |xml| {
                push_version(xml, &policy, number, false)
            });
        }
        "DeletePolicyVersion" | "SetDefaultPolicyVersion" => {
            let remove = action == "DeletePolicyVersion";
            iam.choose_wording(need(form, "PolicyArn")?, number()?, remove)
                .await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
