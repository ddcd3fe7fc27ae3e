//! An issuer of tokens, as an administrator describes it, and the mapping of its tokens to users.

use dewar_types::TenantName;

use super::claims::Claims;

/// Longest address in bytes.
const URL_BYTES_MAX: usize = 1024;

/// A part of the namespace to which an issuer's capabilities are relative and confined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePath {
    /// The tenant of the buckets.
    pub tenant: TenantName,
    /// Bucket and directories; empty for all of the tenant.
    pub path: Vec<String>,
}

impl BasePath {
    /// Reads `/bucket/dir`, `/`, or `/@tenant/bucket`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('/')?;
        let (tenant, rest) = match rest.strip_prefix('@') {
            None => (TenantName::default(), rest),
            Some(rest) => {
                let (tenant, rest) = rest.split_once('/').unwrap_or((rest, ""));
                (TenantName::new(tenant).ok()?, rest)
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let path: Vec<String> = if rest.is_empty() {
            Vec::new()
        } else {
            rest.split('/').map(str::to_owned).collect()
        };
        // It becomes the resource of a policy, where these would be wildcards.
        let fit = |name: &String| {
            !name.is_empty() && name != "." && name != ".." && !name.contains(['*', '?', '$'])
        };
        path.iter().all(fit).then_some(Self { tenant, path })
    }

    /// As [`BasePath::parse`] reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("/");
        if !self.tenant.is_default() {
            text.push('@');
            text.push_str(self.tenant.as_str());
            if !self.path.is_empty() {
                text.push('/');
            }
        }
        text.push_str(&self.path.join("/"));
        text
    }
}

/// The result of a mapping rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingTarget {
    /// This local user: `[TENANT:]NAME`.
    User(String),
    /// A member of this local group of the issuer's tenant.
    Group(String),
}

/// A mapping rule: tokens whose claim has this value become this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingRule {
    /// The claim's name; dots lead into objects.
    pub claim: String,
    /// The exact value, or an element of it. `*` at the end matches any text.
    pub value: String,
    /// The user or group that the token is mapped to.
    pub becomes: MappingTarget,
}

impl MappingRule {
    /// Whether it speaks of a token.
    #[must_use]
    pub fn fits(&self, claims: &Claims) -> bool {
        let fits = |value: &str| match self.value.strip_suffix('*') {
            Some(start) => value.starts_with(start),
            None => value == self.value,
        };
        claims.values(&self.claim).iter().any(|value| fits(value))
    }
}

/// An issuer that an administrator has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The id, never reused. New objects of the issuer's users belong to it where no rule maps
    /// them.
    pub id: u64,
    /// Exactly what `iss` says.
    pub url: String,
    /// One of these must be an audience of the token.
    pub audiences: Vec<String>,
    /// The address of the keys, if it is not the one in the metadata.
    pub keys_url: Option<String>,
    /// Other allowed origins of metadata and keys, `https://host[:port]`.
    pub origins: Vec<String>,
    /// The tenant that its users are in.
    pub tenant: TenantName,
    /// The path that capabilities (`storage.read:/…`) are relative to and confined to. Without it
    /// they give nothing.
    pub base: Option<BasePath>,
    /// The mapping rules. The first rule that names a user applies. All rules that name groups
    /// apply.
    pub rules: Vec<MappingRule>,
    /// Switched off.
    pub disabled: bool,
}

impl Issuer {
    /// As policies name it: without scheme and without a slash at the end.
    #[must_use]
    pub fn name(&self) -> &str {
        provider_name(&self.url)
    }
}

/// The name of a provider in policies, from its URL, from its URL without scheme, or from an ARN
/// (`arn:aws:iam::…:oidc-provider/NAME`).
#[must_use]
pub fn provider_name(text: &str) -> &str {
    let text = match text.split_once(":oidc-provider/") {
        Some((start, name)) if start.starts_with("arn:") => name,
        _ => text,
    };
    let text = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .unwrap_or(text);
    text.trim_end_matches('/')
}

/// Checks whether keys may be fetched from an address: `https`, or `http` on an address of this
/// machine. It must not contain credentials, a query or a fragment.
///
/// # Errors
/// The problem, as a text.
pub fn check_url(url: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("{url:?} {why}"));
    if url.len() > URL_BYTES_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("is not an address of at most 1024 visible ASCII characters");
    }
    if url.contains(['?', '#', '@', '\\', '"', '<', '>', '*', '$']) {
        return wrong("has a query, a fragment, credentials or characters that no issuer has");
    }
    let (secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return wrong("begins neither with https:// nor, on this machine, http://"),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = split_authority(authority);
    if host.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return wrong("has no host, or a port that is none");
    }
    if !secure && !is_loopback(host) {
        return wrong("is not https; http is for 127.0.0.1, [::1] and localhost alone");
    }
    Ok(())
}

/// `https://host[:port]` of an address that [`check_url`] has accepted, in lower case, without the
/// default port.
#[must_use]
pub fn origin_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = split_authority(authority);
    let usual = if scheme == "https" { "443" } else { "80" };
    let host = host.to_ascii_lowercase();
    match port.filter(|port| *port != usual) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

fn split_authority(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Whether a host's name is one of this machine's own addresses.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// An audience in the form for comparison. Addresses lose a slash at the end and the default port
/// (WLCG profile 1.3, "aud").
#[must_use]
pub fn audience(text: &str) -> &str {
    let text = text.trim_end_matches('/');
    if text.starts_with("https://") {
        text.strip_suffix(":443").unwrap_or(text)
    } else {
        text
    }
}
