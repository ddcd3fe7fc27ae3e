//! OpenID Connect providers in the IAM API.

use dewar_http_front::{UrlEncodedForm, iso_date};
use dewar_iam::{Identities, ProviderChange};

use super::iam::{IamResult, Xml, need};

/// Most members of a list in a form. Lists with more members are refused where they are used.
const MEMBERS_MAX: usize = 1000;

/// Answers a call about providers; false for every other.
pub(super) async fn providers(
    iam: &Identities<'_>,
    action: &str,
    form: &UrlEncodedForm,
    xml: &mut Xml,
) -> IamResult<bool> {
    const ARN: &str = "OpenIDConnectProviderArn";
    match action {
        "CreateOpenIDConnectProvider" => {
            let url = need(form, "Url")?;
            let client_ids = members(form, "ClientIDList");
            let thumbprints = members(form, "ThumbprintList");
            let made = iam.create_provider(url, client_ids, thumbprints).await?;
            xml.text(ARN, &made.arn);
        }
        "GetOpenIDConnectProvider" => {
            let found = iam.provider(need(form, ARN)?).await?;
            xml.text("Url", &found.url);
            push_members(xml, "ClientIDList", &found.client_ids);
            push_members(xml, "ThumbprintList", &found.thumbprints);
            xml.text("CreateDate", &iso_date(found.created));
        }
        "ListOpenIDConnectProviders" => {
            let all = iam.list_providers().await?;
            xml.nested("OpenIDConnectProviderList", |xml| {
                for provider in &all {
                    xml.nested("member", |xml| xml.text("Arn", &provider.arn));
                }
            });
        }
        "DeleteOpenIDConnectProvider" => iam.delete_provider(need(form, ARN)?).await?,
        "AddClientIDToOpenIDConnectProvider" => {
            let change = ProviderChange::AddClientId(need(form, "ClientID")?.to_owned());
            iam.change_provider(need(form, ARN)?, change).await?;
        }
        "RemoveClientIDFromOpenIDConnectProvider" => {
            let change = ProviderChange::RemoveClientId(need(form, "ClientID")?.to_owned());
            iam.change_provider(need(form, ARN)?, change).await?;
        }
        "UpdateOpenIDConnectProviderThumbprint" => {
            let change = ProviderChange::Thumbprints(members(form, "ThumbprintList"));
            iam.change_provider(need(form, ARN)?, change).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A list as a form has it: `NAME.member.1`, `NAME.member.2`.
fn members(form: &UrlEncodedForm, name: &str) -> Vec<String> {
    (1..=MEMBERS_MAX)
        .map_while(|at| form.get(&format!("{name}.member.{at}")))
        .map(str::to_owned)
        .collect()
}

fn push_members(xml: &mut Xml, name: &str, members: &[String]) {
    xml.nested(name, |xml| {
        for member in members {
            xml.text("member", member);
        }
    });
}
