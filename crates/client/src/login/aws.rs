//! Credentials of a role for the AWS tools, in the form of their `credential_process`.

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use super::web::Web;

/// The input of the AWS tools (AWS CLI user guide, "Sourcing credentials with an external
/// process").
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct AwsCredentials {
    version: u8,
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
}

/// Has a login token become a role.
pub(super) fn assume(
    web: &Web,
    endpoint: &str,
    role: &str,
    name: &str,
    duration: Option<u32>,
    token: &str,
) -> Result<AwsCredentials> {
    let duration = duration.map(|seconds| seconds.to_string());
    let mut fields = vec![
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", name),
        ("WebIdentityToken", token),
    ];
    fields.extend(duration.as_deref().map(|text| ("DurationSeconds", text)));
    let response = web.post(&format!("{}/", endpoint.trim_end_matches('/')), &fields)?;
    let text = String::from_utf8_lossy(&response.body).into_owned();
    if response.status != 200 {
        let (code, words) = (element(&text, "Code"), element(&text, "Message"));
        bail!(
            "{endpoint} does not give the role: {}: {}",
            code.unwrap_or_default(),
            words.unwrap_or_default()
        );
    }
    let of = |name: &str| {
        element(&text, name).with_context(|| format!("{endpoint} answered without {name}"))
    };
    Ok(AwsCredentials {
        version: 1,
        access_key_id: of("AccessKeyId")?,
        secret_access_key: of("SecretAccessKey")?,
        session_token: of("SessionToken")?,
        expiration: of("Expiration")?,
    })
}

/// The identity of a token's bearer at an endpoint, as its ARN.
pub(super) fn identity(web: &Web, endpoint: &str, token: &str) -> Result<String> {
    let url = format!("{}/", endpoint.trim_end_matches('/'));
    let fields = [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")];
    let response = web.post_as(&url, &fields, Some(token))?;
    let text = String::from_utf8_lossy(&response.body).into_owned();
    match element(&text, "Arn") {
        Some(arn) if response.status == 200 => Ok(arn),
        _ => bail!(
            "{endpoint} does not take the token: {}",
            element(&text, "Message").unwrap_or_default()
        ),
    }
}

/// The text of the first element of a name. Answers of STS are flat enough for that.
fn element(xml: &str, name: &str) -> Option<String> {
    let start = xml.find(&format!("<{name}>"))? + name.len() + 2;
    let end = start + xml[start..].find(&format!("</{name}>"))?;
    let text = xml[start..end]
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'");
    Some(text.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_and_their_text_is_whole() {
        let xml = "<A><Code>x</Code><Message>a &lt; b &amp;lt; c</Message></A>";
        assert_eq!(element(xml, "Message").as_deref(), Some("a < b &lt; c"));
        assert_eq!(element(xml, "Arn"), None);
        assert_eq!(element("<Arn>cut", "Arn"), None);
    }
}
