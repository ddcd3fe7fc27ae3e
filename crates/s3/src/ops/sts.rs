//! STS: temporary credentials (AWS Security Token Service API reference, version 2011-06-15).
//!
//! Its calls use the same address as IAM's, as forms. AssumeRoleWithWebIdentity is unsigned: the
//! login token in it is the credential.

use dewar_auth::{Caller, CredentialError, Secret};
use dewar_http_front::{Answer, UrlEncodedForm, iso_date};
use dewar_iam::{AssumeRole, IssuedSession, WebIdentity, caller_identity};
use dewar_store::Store;
use dewar_types::{Error, ErrorKind};
use http::StatusCode;

use super::iam::{IamError, IamResult, Xml, need, push_metadata, read_form, refuse};
use crate::door::text_answer;
use crate::error::credential_error;

const XMLNS: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// Most members of a list in a form.
const MEMBERS_MAX: usize = 100;

/// Whether a form has an action that needs no signature.
pub(crate) fn is_unsigned_call(bytes: &[u8]) -> bool {
    read_form(bytes).is_ok_and(|form| form.get("Action") == Some("AssumeRoleWithWebIdentity"))
}

/// Answers a call, also with its errors.
pub(crate) async fn call(store: &Store, caller: &Caller, bytes: &[u8], id: &str) -> Answer {
    let outcome = match read_form(bytes) {
        Ok(form) => answer(store, caller, &form).await,
        Err(refused) => Err(refused),
    };
    match outcome {
        Ok((action, result)) => {
            let mut xml = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response xmlns=\"{XMLNS}\">\
                 <{action}Result>{}</{action}Result>",
                result.0
            );
            push_metadata(&mut xml, id);
            xml.push_str(&format!("</{action}Response>"));
            text_answer(StatusCode::OK, xml)
        }
        Err(refused) => refused.answer(XMLNS, id),
    }
}

async fn answer(
    store: &Store,
    caller: &Caller,
    form: &UrlEncodedForm,
) -> IamResult<(&'static str, Xml)> {
    let accounts = store.accounts();
    let mut xml = Xml::default();
    let action = match form.get("Action").unwrap_or_default() {
        "AssumeRole" => {
            refuse(form, &["SerialNumber", "TokenCode", "ProvidedContexts"])?;
            let given = accounts
                .assume_role(caller, asked(form)?)
                .await
                .map_err(refused)?;
            push_given(&mut xml, &given, true);
            "AssumeRole"
        }
        "AssumeRoleWithWebIdentity" => {
            let web = WebIdentity {
                token: Secret::new(need(form, "WebIdentityToken")?.to_owned()),
                asked: asked(form)?,
            };
            let given = accounts
                .assume_role_with_web_identity(caller.origin(), web)
                .await
                .map_err(refused)?;
            push_given(&mut xml, &given, true);
            if let Some((subject, audience, provider)) = &given.login {
                xml.text("SubjectFromWebIdentityToken", subject);
                xml.text("Audience", audience);
                xml.text("Provider", provider);
            }
            "AssumeRoleWithWebIdentity"
        }
        "GetSessionToken" => {
            refuse(form, &["SerialNumber", "TokenCode"])?;
            let given = accounts
                .session_token(caller, duration(form)?)
                .await
                .map_err(refused)?;
            push_given(&mut xml, &given, false);
            "GetSessionToken"
        }
        "GetCallerIdentity" => {
            let (id, account, arn) = caller_identity(caller).map_err(refused)?;
            xml.text("UserId", &id);
            xml.text("Account", &account);
            xml.text("Arn", &arn);
            "GetCallerIdentity"
        }
        other => {
            let shown: String = other.chars().take(64).collect();
            return Err(IamError {
                code: "InvalidAction",
                status: StatusCode::BAD_REQUEST,
                words: format!("Could not find operation {shown} for version 2011-06-15"),
            });
        }
    };
    Ok((action, xml))
}

fn push_given(xml: &mut Xml, given: &IssuedSession, assumed: bool) {
    xml.nested("Credentials", |xml| {
        xml.text("AccessKeyId", &given.session.access_key);
        xml.text("SecretAccessKey", given.session.secret().reveal());
        xml.text("SessionToken", given.token.reveal());
        xml.text("Expiration", &iso_date(given.session.expires));
    });
    if assumed {
        xml.nested("AssumedRoleUser", |xml| {
            xml.text("AssumedRoleId", &given.user.unique_id());
            xml.text("Arn", &given.user.arn());
        });
    }
    if let Some(source) = &given.session.source_identity {
        xml.text("SourceIdentity", source);
    }
}

fn duration(form: &UrlEncodedForm) -> IamResult<Option<u32>> {
    let parsed = form.get("DurationSeconds").map(str::parse).transpose();
    parsed.map_err(|_| IamError {
        code: "ValidationError",
        status: StatusCode::BAD_REQUEST,
        words: "DurationSeconds is a number of seconds.".into(),
    })
}

fn asked(form: &UrlEncodedForm) -> IamResult<AssumeRole> {
    let text = |name: &str| {
        form.get(name)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let mut asked = AssumeRole {
        role: need(form, "RoleArn")?.to_owned(),
        session: need(form, "RoleSessionName")?.to_owned(),
        policy: text("Policy"),
        duration: duration(form)?,
        external_id: text("ExternalId"),
        source_identity: text("SourceIdentity"),
        ..AssumeRole::default()
    };
    for at in 1..=MEMBERS_MAX {
        let Some(arn) = text(&format!("PolicyArns.member.{at}.arn")) else {
            break;
        };
        asked.policies.push(arn);
    }
    for at in 1..=MEMBERS_MAX {
        let Some(key) = text(&format!("Tags.member.{at}.Key")) else {
            break;
        };
        let value = text(&format!("Tags.member.{at}.Value")).unwrap_or_default();
        asked.tags.push((key, value));
    }
    for at in 1..=MEMBERS_MAX {
        let Some(key) = text(&format!("TransitiveTagKeys.member.{at}")) else {
            break;
        };
        asked.transitive.push(key);
    }
    Ok(asked)
}

/// STS's codes for what can be wrong.
fn refused(error: Error) -> IamError {
    let bad = |code| (code, StatusCode::BAD_REQUEST);
    let (code, status) = match (error.kind(), credential_error(&error)) {
        (_, Some(CredentialError::Invalid)) => bad("InvalidIdentityToken"),
        (_, Some(CredentialError::Expired)) => bad("ExpiredTokenException"),
        (_, Some(CredentialError::Unreachable)) => bad("IDPCommunicationError"),
        (_, Some(CredentialError::Clear)) => ("AccessDenied", StatusCode::FORBIDDEN),
        (ErrorKind::MalformedPolicy, _) => bad("MalformedPolicyDocument"),
        (ErrorKind::TooLarge, _) => bad("PackedPolicyTooLarge"),
        (ErrorKind::InvalidArgument | ErrorKind::InvalidName, _) => bad("ValidationError"),
        (ErrorKind::Denied, _) => {
            // Why is in the log, not in the answer: it would tell which roles there are.
            tracing::info!(%error, "a role was not given");
            return IamError {
                code: "AccessDenied",
                status: StatusCode::FORBIDDEN,
                words: "Not authorized to perform this action on this role".into(),
            };
        }
        _ => return error.into(),
    };
    IamError {
        code,
        status,
        words: error.message().to_owned(),
    }
}
