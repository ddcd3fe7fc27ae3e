//! The IAM API: a form with an `Action`, answered in its own kind of XML (IAM API reference,
//! "Making query requests").

use dewar_auth::{Action, Caller, User};
use dewar_http_front::{Answer, UrlEncodedForm, iso_date};
use dewar_iam::{
    Group, Identities, POLICY_VERSIONS_MAX, PolicyHolder, PolicyHolderKind, Role, RoleChange,
};
use dewar_sigv4::encode_strict;
use dewar_store::Store;
use dewar_types::{Error, ErrorKind, Timestamp};
use http::StatusCode;

use super::iam_policies::policies;
use super::iam_providers::providers;
use crate::door::text_answer;
use crate::error::{Code, Refusal, push_element};

/// Most items in one page of a list.
const PAGE_ITEMS: usize = 1000;
const IAM_XMLNS: &str = "https://iam.amazonaws.com/doc/2010-05-08/";

/// Why it is not done: code, status and words.
pub(crate) struct IamError {
    pub(super) code: &'static str,
    pub(super) status: StatusCode,
    pub(super) words: String,
}

pub(crate) type IamResult<T> = std::result::Result<T, IamError>;

impl From<Error> for IamError {
    fn from(error: Error) -> Self {
        let (code, status) = match error.kind() {
            ErrorKind::Denied | ErrorKind::Unauthenticated => {
                ("AccessDenied", StatusCode::FORBIDDEN)
            }
            ErrorKind::NotFound => ("NoSuchEntity", StatusCode::NOT_FOUND),
            ErrorKind::AlreadyExists => ("EntityAlreadyExists", StatusCode::CONFLICT),
            ErrorKind::Conflict => ("DeleteConflict", StatusCode::CONFLICT),
            ErrorKind::Quota => ("LimitExceeded", StatusCode::CONFLICT),
            ErrorKind::Busy(_) | ErrorKind::Later(_) => {
                ("ServiceUnavailable", StatusCode::SERVICE_UNAVAILABLE)
            }
            ErrorKind::MalformedPolicy => ("MalformedPolicyDocument", StatusCode::BAD_REQUEST),
            ErrorKind::InvalidName | ErrorKind::InvalidArgument | ErrorKind::TooLarge => {
                ("ValidationError", StatusCode::BAD_REQUEST)
            }
            _ => {
                let refusal = Refusal::from(error);
                tracing::error!(%refusal, "a request to the IAM API failed");
                return Self {
                    code: "ServiceFailure",
                    status: StatusCode::INTERNAL_SERVER_ERROR,
                    words: "The request failed because of an internal error.".into(),
                };
            }
        };
        let words = match error.kind() {
            // Who may not know what there is is not told.
            ErrorKind::Denied => "User is not authorized to perform this action".to_owned(),
            _ => error.message().to_owned(),
        };
        Self {
            code,
            status,
            words,
        }
    }
}

pub(super) fn read_form(bytes: &[u8]) -> IamResult<UrlEncodedForm> {
    UrlEncodedForm::parse(bytes).ok_or_else(|| IamError {
        code: "MalformedQueryString",
        status: StatusCode::BAD_REQUEST,
        words: "The form is not URL-encoded.".into(),
    })
}

pub(super) fn need<'a>(form: &'a UrlEncodedForm, name: &'static str) -> IamResult<&'a str> {
    let text = form.get(name).filter(|text| !text.is_empty());
    text.ok_or_else(|| IamError {
        code: "ValidationError",
        status: StatusCode::BAD_REQUEST,
        words: format!("The request must contain the parameter {name}."),
    })
}

pub(super) fn path_of(form: &UrlEncodedForm) -> &str {
    form.get("Path").unwrap_or("/")
}

/// Refuses parameters that would take rights away and that Dewar does not support.
pub(super) fn refuse(form: &UrlEncodedForm, names: &[&str]) -> IamResult<()> {
    match names.iter().find(|name| form.has_field(name)) {
        None => Ok(()),
        Some(name) => Err(IamError {
            code: "ValidationError",
            status: StatusCode::BAD_REQUEST,
            words: format!("The parameter {name} is not supported."),
        }),
    }
}

/// XML that is being written.
#[derive(Default)]
pub(super) struct Xml(pub(super) String);

impl Xml {
    pub(super) fn text(&mut self, name: &str, text: &str) {
        push_element(&mut self.0, name, text);
    }

    pub(super) fn nested(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push('>');
        inside(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// A page of a list: those after `Marker`, as many as `MaxItems`.
    pub(super) fn list<T>(
        &mut self,
        form: &UrlEncodedForm,
        name: &str,
        items: &[T],
        mut member: impl FnMut(&mut Self, &T),
    ) {
        let number = |name| form.get(name).and_then(|text| text.parse::<usize>().ok());
        let from = number("Marker").unwrap_or(0).min(items.len());
        let max = number("MaxItems")
            .unwrap_or(PAGE_ITEMS)
            .clamp(1, PAGE_ITEMS);
        let to = items.len().min(from + max);
        self.nested(name, |xml| {
            for item in &items[from..to] {
                xml.nested("member", |xml| member(xml, item));
            }
        });
        self.text(
            "IsTruncated",
            if to < items.len() { "true" } else { "false" },
        );
        if to < items.len() {
            self.text("Marker", &to.to_string());
        }
    }
}

/// Answers a call, also with its errors.
pub(crate) async fn call(store: &Store, caller: &Caller, bytes: &[u8], id: &str) -> Answer {
    let asked = read_form(bytes);
    let action = asked.as_ref().ok().and_then(|form| form.get("Action"));
    let action = action.unwrap_or_default().to_owned();
    let outcome = match asked {
        Ok(form) => answer(store, caller, &action, &form).await,
        Err(refused) => Err(refused),
    };
    match outcome {
        Ok(result) => {
            let mut xml = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response xmlns=\"{IAM_XMLNS}\">"
            );
            // The one call without members whose answer has the element all the same.
            if !result.0.is_empty() || action == "UpdateRole" {
                xml.push_str(&format!("<{action}Result>{}</{action}Result>", result.0));
            }
            push_metadata(&mut xml, id);
            xml.push_str(&format!("</{action}Response>"));
            text_answer(StatusCode::OK, xml)
        }
        Err(refused) => refused.answer(IAM_XMLNS, id),
    }
}

impl IamError {
    /// The answer that says so.
    pub(super) fn answer(&self, xmlns: &str, id: &str) -> Answer {
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ErrorResponse xmlns=\"{xmlns}\"><Error>"
        );
        let fault = if self.status.is_server_error() {
            "Receiver"
        } else {
            "Sender"
        };
        push_element(&mut xml, "Type", fault);
        push_element(&mut xml, "Code", self.code);
        push_element(&mut xml, "Message", &self.words);
        xml.push_str("</Error>");
        push_element(&mut xml, "RequestId", id);
        xml.push_str("</ErrorResponse>");
        text_answer(self.status, xml)
    }
}

/// The answer to a call whose signature or form is refused, in the format of its protocol.
pub(crate) fn refused(refusal: &Refusal, id: &str) -> Answer {
    let code = match refusal.code() {
        Code::InvalidToken | Code::InvalidAccessKeyId => "InvalidClientTokenId",
        Code::ExpiredToken => "ExpiredToken",
        Code::AuthorizationHeaderMalformed => "IncompleteSignature",
        Code::SlowDown => "Throttling",
        other => other.as_str(),
    };
    let status = match code {
        "InvalidClientTokenId" | "ExpiredToken" => StatusCode::FORBIDDEN,
        _ => refusal.code().status(),
    };
    let refused = IamError {
        code,
        status,
        words: refusal.message().to_owned(),
    };
    refused.answer(IAM_XMLNS, id)
}

pub(super) fn push_metadata(xml: &mut String, id: &str) {
    xml.push_str("<ResponseMetadata>");
    push_element(xml, "RequestId", id);
    xml.push_str("</ResponseMetadata>");
}

async fn answer(
    store: &Store,
    caller: &Caller,
    action: &str,
    form: &UrlEncodedForm,
) -> IamResult<Xml> {
    let iam = store.accounts().identities(caller).await?;
    let mut xml = Xml::default();
    let done = users(&iam, action, form, &mut xml).await?
        || groups(&iam, action, form, &mut xml).await?
        || roles(&iam, action, form, &mut xml).await?
        || policies(&iam, action, form, &mut xml).await?
        || providers(&iam, action, form, &mut xml).await?
        || holders(store, &iam, action, form, &mut xml).await?;
    if done {
        return Ok(xml);
    }
    Err(IamError {
        code: "InvalidAction",
        status: StatusCode::BAD_REQUEST,
        words: format!("Could not find operation {action} for version 2010-05-08"),
    })
}

pub(super) fn date(time: Timestamp) -> String {
    iso_date(time)
}

pub(super) fn short(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

fn push_user(xml: &mut Xml, user: &User) {
    xml.text("Path", &user.path);
    xml.text("UserName", user.short_name());
    xml.text("UserId", &user.id.to_string());
    xml.text("Arn", &user.arn());
    xml.text("CreateDate", &date(user.created));
}

async fn users(
    iam: &Identities<'_>,
    action: &str,
    form: &UrlEncodedForm,
    xml: &mut Xml,
) -> IamResult<bool> {
    let name = form.get("UserName");
    match action {
        "CreateUser" => {
            refuse(form, &["PermissionsBoundary"])?;
            let user = iam
                .create_user(need(form, "UserName")?, path_of(form))
                .await?;
            xml.nested("User", |xml| push_user(xml, &user));
        }
        "GetUser" => {
            let user = iam.user(Action::GetUser, name).await?;
            xml.nested("User", |xml| push_user(xml, &user));
        }
        "UpdateUser" => {
            iam.update_user(
                need(form, "UserName")?,
                form.get("NewUserName"),
                form.get("NewPath"),
            )
            .await?;
        }
        "DeleteUser" => iam.delete_user(need(form, "UserName")?).await?,
        "ListUsers" => {
            let prefix = form.get("PathPrefix").unwrap_or("/");
            let mut users = iam.list_users().await?;
            users.retain(|user| user.path.starts_with(prefix));
            xml.list(form, "Users", &users, push_user);
        }
        "CreateAccessKey" => {
            let (user, key, secret) = iam.create_key(name).await?;
            xml.nested("AccessKey", |xml| {
                xml.text("UserName", user.short_name());
                xml.text("AccessKeyId", &key.access_key);
                xml.text("Status", "Active");
                xml.text("SecretAccessKey", secret.reveal());
                xml.text("CreateDate", &date(key.created));
            });
        }
        "ListAccessKeys" => {
            let (user, keys) = iam.list_keys(name).await?;
            xml.text("UserName", user.short_name());
            xml.list(form, "AccessKeyMetadata", &keys, |xml, key| {
                xml.text("UserName", user.short_name());
                xml.text("AccessKeyId", &key.access_key);
                xml.text("Status", if key.disabled { "Inactive" } else { "Active" });
                xml.text("CreateDate", &date(key.created));
            });
        }
        "UpdateAccessKey" => {
            let disabled = match need(form, "Status")? {
                "Active" => false,
                "Inactive" => true,
                other => {
                    return Err(IamError {
                        code: "ValidationError",
                        status: StatusCode::BAD_REQUEST,
                        words: format!("The status {other:?} is not Active or Inactive."),
                    });
                }
            };
            let id = need(form, "AccessKeyId")?;
            iam.change_key(name, id, Some(disabled)).await?;
        }
        "DeleteAccessKey" => {
            iam.change_key(name, need(form, "AccessKeyId")?, None)
                .await?
        }
        "GetAccountSummary" => {
            let summary = iam.summary().await?;
            let limits = iam.limits();
            let limits = [
                ("UsersQuota", limits.users),
                ("GroupsQuota", limits.groups),
                ("RolesQuota", limits.roles),
                ("PoliciesQuota", limits.policies),
                ("AccessKeysPerUserQuota", limits.keys_per_user),
                ("GroupsPerUserQuota", limits.groups_per_user),
                ("AttachedPoliciesPerUserQuota", limits.attached_policies),
                ("AttachedPoliciesPerGroupQuota", limits.attached_policies),
                ("AttachedPoliciesPerRoleQuota", limits.attached_policies),
                ("PolicySizeQuota", limits.managed_policy_chars),
                ("UserPolicySizeQuota", limits.user_policy_chars),
                ("GroupPolicySizeQuota", limits.group_policy_chars),
                ("RolePolicySizeQuota", limits.role_policy_chars),
                ("VersionsPerPolicyQuota", POLICY_VERSIONS_MAX),
            ];
            xml.nested("SummaryMap", |xml| {
                for (name, count) in summary.into_iter().chain(limits) {
                    xml.nested("entry", |xml| {
                        xml.text("key", name);
                        xml.text("value", &count.to_string());
                    });
                }
            });
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn push_group(iam: &Identities<'_>, xml: &mut Xml, group: &Group) {
    let name = short(&group.name);
    xml.text("Path", &group.path);
    xml.text("GroupName", name);
    xml.text("GroupId", &format!("{:016x}", group.id));
    let arn = format!("arn:aws:iam::{}:group{}{name}", iam.account(), group.path);
    xml.text("Arn", &arn);
    xml.text("CreateDate", &date(group.created));
}

async fn groups(
    iam: &Identities<'_>,
    action: &str,
    form: &UrlEncodedForm,
    xml: &mut Xml,
) -> IamResult<bool> {
    match action {
        "CreateGroup" => {
            let group = iam
                .create_group(need(form, "GroupName")?, path_of(form))
                .await?;
            xml.nested("Group", |xml| push_group(iam, xml, &group));
        }
        "GetGroup" => {
            let (group, members) = iam.members(need(form, "GroupName")?).await?;
            xml.nested("Group", |xml| push_group(iam, xml, &group));
            xml.list(form, "Users", &members, push_user);
        }
        "UpdateGroup" => {
            iam.update_group(
                need(form, "GroupName")?,
                form.get("NewGroupName"),
                form.get("NewPath"),
            )
            .await?;
        }
        "DeleteGroup" => iam.delete_group(need(form, "GroupName")?).await?,
        "ListGroups" => {
            let prefix = form.get("PathPrefix").unwrap_or("/");
            let mut groups = iam.list_groups().await?;
            groups.retain(|group| group.path.starts_with(prefix));
            xml.list(form, "Groups", &groups, |xml, group| {
                push_group(iam, xml, group)
            });
        }
        "ListGroupsForUser" => {
            let groups = iam.groups_of(need(form, "UserName")?).await?;
            xml.list(form, "Groups", &groups, |xml, group| {
                push_group(iam, xml, group)
            });
        }
        "AddUserToGroup" | "RemoveUserFromGroup" => {
            let member = action == "AddUserToGroup";
            iam.set_member(need(form, "GroupName")?, need(form, "UserName")?, member)
                .await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    encode_strict(&mut out, text.as_bytes());
    out
}

fn push_role(iam: &Identities<'_>, xml: &mut Xml, role: &Role) {
    let name = short(&role.name);
    xml.text("Path", &role.path);
    xml.text("RoleName", name);
    xml.text("RoleId", &format!("{:016x}", role.id));
    xml.text("Arn", &iam.role_arn(role));
    xml.text("CreateDate", &date(role.created));
    xml.text("AssumeRolePolicyDocument", &encoded(&role.trust));
    if let Some(description) = &role.description {
        xml.text("Description", description);
    }
    xml.text("MaxSessionDuration", &role.max_session.to_string());
}

fn role_change(form: &UrlEncodedForm) -> IamResult<RoleChange> {
    let seconds = form.get("MaxSessionDuration");
    let max_session = seconds.map(|text| text.parse::<u32>()).transpose();
    Ok(RoleChange {
        trust: form.get("AssumeRolePolicyDocument").map(str::to_owned),
        description: form.get("Description").map(str::to_owned),
        max_session: max_session.map_err(|_| IamError {
            code: "ValidationError",
            status: StatusCode::BAD_REQUEST,
            words: "MaxSessionDuration is a number of seconds.".into(),
        })?,
    })
}

async fn roles(
    iam: &Identities<'_>,
    action: &str,
    form: &UrlEncodedForm,
    xml: &mut Xml,
) -> IamResult<bool> {
    match action {
        "CreateRole" => {
            refuse(form, &["PermissionsBoundary"])?;
            need(form, "AssumeRolePolicyDocument")?;
            let name = need(form, "RoleName")?;
            let role = iam
                .create_role(name, path_of(form), role_change(form)?)
                .await?;
            xml.nested("Role", |xml| push_role(iam, xml, &role));
        }
        "GetRole" => {
            let role = iam.role(Action::GetRole, need(form, "RoleName")?).await?;
            xml.nested("Role", |xml| push_role(iam, xml, &role));
        }
        "UpdateRole" | "UpdateAssumeRolePolicy" => {
            let (action, change) = if action == "UpdateRole" {
                let mut change = role_change(form)?;
                change.trust = None;
                (Action::UpdateRole, change)
            } else {
                let trust = Some(need(form, "PolicyDocument")?.to_owned());
                let change = RoleChange {
                    trust,
                    ..RoleChange::default()
                };
                (Action::UpdateAssumeRolePolicy, change)
            };
            iam.update_role(action, need(form, "RoleName")?, change)
                .await?;
        }
        "DeleteRole" => iam.delete_role(need(form, "RoleName")?).await?,
        "ListRoles" => {
            let prefix = form.get("PathPrefix").unwrap_or("/");
            let mut roles = iam.list_roles().await?;
            roles.retain(|role| role.path.starts_with(prefix));
            xml.list(form, "Roles", &roles, |xml, role| push_role(iam, xml, role));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Policies on users, groups and roles: the same verbs for each.
async fn holders(
    store: &Store,
    iam: &Identities<'_>,
    action: &str,
    form: &UrlEncodedForm,
    xml: &mut Xml,
) -> IamResult<bool> {
    let Some(permitted) = Action::parse(&format!("iam:{action}")) else {
        return Ok(false);
    };
    let (kind, field) = if action.contains("User") {
        (PolicyHolderKind::User, "UserName")
    } else if action.contains("Group") {
        (PolicyHolderKind::Group, "GroupName")
    } else if action.contains("Role") {
        (PolicyHolderKind::Role, "RoleName")
    } else {
        return Ok(false);
    };
    let plain = action
        .replace("User", "*")
        .replace("Group", "*")
        .replace("Role", "*");
    let known = [
        "Put*Policy",
        "Get*Policy",
        "Delete*Policy",
        "List*Policies",
        "Attach*Policy",
        "Detach*Policy",
        "ListAttached*Policies",
    ];
    if !known.contains(&plain.as_str()) {
        return Ok(false);
    }
    if matches!(plain.as_str(), "Attach*Policy" | "Detach*Policy") {
        let (name, arn) = (need(form, field)?, need(form, "PolicyArn")?);
        let attached = plain == "Attach*Policy";
        iam.set_attached(permitted, kind, name, arn, attached)
            .await?;
        return Ok(true);
    }
    let holder: PolicyHolder = iam.find(permitted, kind, need(form, field)?).await?;
    let accounts = store.accounts();
    match plain.as_str() {
        "Put*Policy" => {
            let (name, text) = (need(form, "PolicyName")?, need(form, "PolicyDocument")?);
            accounts.put_policy(&holder, name, text).await?;
        }
        "Get*Policy" => {
            let name = need(form, "PolicyName")?;
            let (inline, _) = accounts.policies_of(&holder).await?;
            let text = inline.get(name).ok_or_else(|| IamError {
                code: "NoSuchEntity",
                status: StatusCode::NOT_FOUND,
                words: format!("The policy with name {name} cannot be found."),
            })?;
            xml.text(field, short(&holder.name));
            xml.text("PolicyName", name);
            xml.text("PolicyDocument", &encoded(text));
        }
        "Delete*Policy" => {
            accounts
                .delete_policy(&holder, need(form, "PolicyName")?)
                .await?;
        }
        "List*Policies" => {
            let (inline, _) = accounts.policies_of(&holder).await?;
            let names: Vec<String> = inline.into_keys().collect();
            list_names(xml, form, &names);
        }
        _ => {
            let (_, attached) = accounts.policies_of(&holder).await?;
            let mut policies = Vec::new();
            for name in attached {
                policies.push(accounts.managed(&holder.tenant, &name).await?);
            }
            xml.list(form, "AttachedPolicies", &policies, |xml, policy| {
                xml.text("PolicyName", short(&policy.name));
                xml.text("PolicyArn", &iam.policy_arn(policy));
            });
        }
    }
    Ok(true)
}

/// Names are direct members of their list, without elements of their own.
fn list_names(xml: &mut Xml, form: &UrlEncodedForm, names: &[String]) {
    let max = form.get("MaxItems").and_then(|text| text.parse().ok());
    let from: usize = form
        .get("Marker")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let shown: Vec<&String> = names
        .iter()
        .skip(from)
        .take(max.unwrap_or(PAGE_ITEMS).clamp(1, PAGE_ITEMS))
        .collect();
    let rest = names.len() > from + shown.len();
    xml.nested("PolicyNames", |xml| {
        for name in &shown {
            xml.text("member", name);
        }
    });
    xml.text("IsTruncated", if rest { "true" } else { "false" });
    if rest {
        xml.text("Marker", &(from + shown.len()).to_string());
    }
}
