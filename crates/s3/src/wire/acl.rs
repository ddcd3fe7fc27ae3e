//! Access control lists as headers and XML have them.

use dewar_auth::{CannedAcl, GRANTS_MAX, Grantee, Ownership, Permission};
use dewar_http_front::header;
use dewar_store::api::{GranteeName, NamedAcl, NewAcl};
use http::HeaderMap;
use s3s::dto;

use crate::error::{Code, Refusal, Result};

const EVERYONE: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const AUTHENTICATED: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
const LOG_DELIVERY: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";

/// The headers that grant, and what.
const GRANTS: [(&str, Permission); 5] = [
    ("x-amz-grant-read", Permission::Read),
    ("x-amz-grant-write", Permission::Write),
    ("x-amz-grant-read-acp", Permission::ReadAcp),
    ("x-amz-grant-write-acp", Permission::WriteAcp),
    ("x-amz-grant-full-control", Permission::FullControl),
];

fn invalid(name: &'static str, value: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, "Argument format not recognized")
        .element("ArgumentName", name)
        .element("ArgumentValue", value)
}

/// The list that the headers set.
///
/// # Errors
/// `InvalidArgument`; `InvalidRequest` for a canned list together with grants.
pub(crate) fn acl_of(headers: &HeaderMap) -> Result<Option<NewAcl>> {
    let canned = header(headers, "x-amz-acl")?;
    let mut grants = Vec::new();
    for (name, permission) in GRANTS {
        // Lists of grantees may come in several headers, as any list may.
        for value in headers.get_all(name) {
            let text = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid(name, ""))?;
            for part in text.split(',') {
                let grantee = grantee_of(part.trim()).ok_or_else(|| invalid(name, text))?;
                grants.push((grantee, permission));
                if grants.len() > GRANTS_MAX {
                    return Err(invalid(name, "too many grants"));
                }
            }
        }
    }
    match canned {
        None if grants.is_empty() => Ok(None),
        None => Ok(Some(NewAcl::Grants(grants))),
        Some(_) if !grants.is_empty() => Err(Refusal::new(
            Code::InvalidRequest,
            "Specifying both Canned ACLs and Header Grants is not allowed",
        )),
        Some(name) => {
            let canned = CannedAcl::parse(name).ok_or_else(|| {
                Refusal::new(Code::InvalidArgument, "")
                    .element("ArgumentName", "x-amz-acl")
                    .element("ArgumentValue", name)
            })?;
            Ok(Some(NewAcl::Canned(canned)))
        }
    }
}

/// Parses `id="…"`, `emailAddress="…"` or `uri="…"`; some clients leave the quotes out.
fn grantee_of(text: &str) -> Option<GranteeName> {
    let (kind, value) = text.split_once('=')?;
    let value = value.trim();
    let value = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap_or(value);
    if value.is_empty() {
        return None;
    }
    match kind.trim() {
        kind if kind.eq_ignore_ascii_case("id") => Some(GranteeName::Id(value.to_owned())),
        kind if kind.eq_ignore_ascii_case("emailaddress") => {
            Some(GranteeName::Email(value.to_owned()))
        }
        kind if kind.eq_ignore_ascii_case("uri") => group(value),
        _ => None,
    }
}

fn group(uri: &str) -> Option<GranteeName> {
    match uri {
        EVERYONE => Some(GranteeName::Everyone),
        AUTHENTICATED => Some(GranteeName::Authenticated),
        LOG_DELIVERY => Some(GranteeName::LogDelivery),
        _ => None,
    }
}

/// The list of an XML document.
///
/// # Errors
/// `MalformedACLError`, `InvalidArgument`.
pub(crate) fn acl_document(policy: dto::AccessControlPolicy) -> Result<NewAcl> {
    let malformed = || {
        let message = "The XML you provided was not well-formed or did not validate against our \
                       published schema";
        Refusal::new(Code::MalformedACLError, message)
    };
    let owner = policy
        .owner
        .and_then(|owner| owner.id)
        .ok_or_else(malformed)?;
    let listed = policy.grants.unwrap_or_default();
    if listed.len() > GRANTS_MAX {
        return Err(malformed());
    }
    let mut grants = Vec::with_capacity(listed.len());
    for grant in listed {
        let grantee = grant.grantee.ok_or_else(malformed)?;
        let permission = grant.permission.ok_or_else(malformed)?;
        let permission = Permission::parse(permission.as_str()).ok_or_else(malformed)?;
        let name = match grantee.type_.as_str() {
            "CanonicalUser" => grantee.id.map(GranteeName::Id),
            "AmazonCustomerByEmail" => grantee.email_address.map(GranteeName::Email),
            "Group" => {
                let uri = grantee.uri.ok_or_else(malformed)?;
                Some(group(&uri).ok_or_else(|| {
                    Refusal::new(Code::InvalidArgument, "Invalid group uri")
                        .element("ArgumentName", "uri")
                        .element("ArgumentValue", uri)
                })?)
            }
            _ => None,
        };
        grants.push((name.ok_or_else(malformed)?, permission));
    }
    Ok(NewAcl::Document { owner, grants })
}

/// The owner and the grants of a list, as S3 shows them.
pub(crate) fn acl_elements(shown: &NamedAcl) -> (dto::Owner, Vec<dto::Grant>) {
    let name = |id| shown.display_name(id).map(str::to_owned);
    let owner = dto::Owner {
        display_name: name(shown.acl.owner),
        id: Some(shown.acl.owner.to_string()),
    };
    // Groups before accounts, as clients that look at the first grants expect.
    let mut ordered: Vec<_> = shown.acl.grants.iter().collect();
    ordered.sort_by_key(|grant| matches!(grant.grantee, Grantee::User(_)));
    let grants = ordered.into_iter().map(|grant| {
        let group = |uri: &str| dto::Grantee {
            display_name: None,
            email_address: None,
            id: None,
            type_: dto::Type::from_static(dto::Type::GROUP),
            uri: Some(uri.to_owned()),
        };
        let grantee = match grant.grantee {
            Grantee::User(id) => dto::Grantee {
                display_name: name(id),
                email_address: None,
                id: Some(id.to_string()),
                type_: dto::Type::from_static(dto::Type::CANONICAL_USER),
                uri: None,
            },
            Grantee::Everyone => group(EVERYONE),
            Grantee::Authenticated => group(AUTHENTICATED),
            Grantee::LogDelivery => group(LOG_DELIVERY),
        };
        dto::Grant {
            grantee: Some(grantee),
            permission: Some(dto::Permission::from_static(grant.permission.as_str())),
        }
    });
    (owner, grants.collect())
}

/// The ownership rule in a header or document.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn ownership_named(name: &str) -> Result<Ownership> {
    Ownership::parse(name).ok_or_else(|| {
        Refusal::new(
            Code::InvalidArgument,
            format!("Invalid x-amz-object-ownership header: {name}"),
        )
        .element("ArgumentName", "x-amz-object-ownership")
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_say_lists() {
        assert_eq!(acl_of(&headers(&[])).expect("none"), None);
        let canned = acl_of(&headers(&[("x-amz-acl", "public-read")])).expect("known");
        assert_eq!(canned, Some(NewAcl::Canned(CannedAcl::PublicRead)));
        let spelled = headers(&[
            ("x-amz-grant-read", "id=\"0a\", emailAddress=\"a@b\""),
            (
                "x-amz-grant-write-acp",
                "uri=http://acs.amazonaws.com/groups/global/AllUsers",
            ),
        ]);
        let Some(NewAcl::Grants(grants)) = acl_of(&spelled).expect("valid") else {
            panic!("no grants");
        };
        assert_eq!(
            grants,
            [
                (GranteeName::Id("0a".into()), Permission::Read),
                (GranteeName::Email("a@b".into()), Permission::Read),
                (GranteeName::Everyone, Permission::WriteAcp),
            ]
        );
        for bad in [
            &[("x-amz-acl", "public")][..],
            &[("x-amz-grant-read", "0a")],
            &[("x-amz-grant-read", "id=")],
            &[("x-amz-grant-read", "uri=http://example.org/group")],
            &[("x-amz-acl", "private"), ("x-amz-grant-read", "id=0a")],
            &[("x-amz-acl", "private"), ("x-amz-acl", "private")],
        ] {
            assert!(acl_of(&headers(bad)).is_err(), "{bad:?}");
        }
    }
}
