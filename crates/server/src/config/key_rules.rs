//! The rules for values of keys, beyond their types.

use std::path::Path;

pub(super) fn is_pool_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(plain)
}

pub(super) fn is_ownership(text: &str) -> bool {
    dewar_auth::Ownership::parse(text).is_some()
}

pub(super) fn is_region(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

pub(super) fn is_class(text: &str) -> bool {
    let (class, pool) = split_class(text);
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    !class.is_empty()
        && class.len() <= 64
        && class.bytes().all(plain)
        && pool.is_none_or(is_pool_name)
}

pub(super) fn split_class(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((class, pool)) => (class, Some(pool)),
        None => (text, None),
    }
}

pub(super) fn is_pool_disk(text: &str) -> bool {
    let split = text.split_once('=');
    split.is_some_and(|(pool, folder)| is_pool_name(pool) && Path::new(folder).is_absolute())
}

pub(super) fn is_pool_layout(text: &str) -> bool {
    let split = text.split_once('=');
    split.is_some_and(|(pool, layout)| is_pool_name(pool) && parse_layout(layout).is_some())
}

pub(super) fn parse_layout(text: &str) -> Option<dewar_types::Layout> {
    let (k, m) = text.split_once('+')?;
    dewar_types::Layout::new(k.parse().ok()?, m.parse().ok()?).ok()
}

pub(super) fn is_translation(text: &str) -> bool {
    dewar_xrootd::Translation::parse(text).is_some()
}

pub(super) fn is_tpc_source(text: &str) -> bool {
    dewar_xrootd::AllowRule::parse(text).is_some()
}

pub(super) fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0)
}

pub(super) fn is_trusted_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let bare = text.strip_prefix("*.").unwrap_or(text);
    (1..=253).contains(&bare.len()) && bare.bytes().all(plain)
}

pub(super) fn is_network(text: &str) -> bool {
    dewar_auth::Network::parse(text).is_some()
}

pub(super) fn is_elsewhere(text: &str) -> bool {
    dewar_xrootd::RedirectTarget::parse(text).is_some()
}

pub(super) fn is_public_url(text: &str) -> bool {
    let uri: Result<http::Uri, _> = text.parse();
    uri.is_ok_and(|uri| {
        let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        let bare = uri.path_and_query().is_none_or(|path| path == "/");
        scheme && uri.host().is_some() && bare && !text.contains('@')
    })
}

pub(super) fn is_report_path(text: &str) -> bool {
    let graphic = |byte: u8| byte.is_ascii_graphic() && !b"?#%".contains(&byte);
    let below = text.starts_with('/') && !text.ends_with('/') && !text.contains("//");
    text.is_empty() || (below && text.len() <= 255 && text.bytes().all(graphic))
}

pub(super) fn is_reader(text: &str) -> bool {
    (1..=255).contains(&text.len()) && !text.chars().any(char::is_whitespace)
}

pub(super) fn is_when(text: &str) -> bool {
    dewar_xrootd::RedirectMode::parse(text).is_some()
}

pub(super) fn is_provider_host(text: &str) -> bool {
    let fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    let bare = text.strip_prefix("*.").unwrap_or(text);
    text == "*" || (!bare.is_empty() && bare.len() <= 253 && bare.bytes().all(fit))
}

pub(super) fn is_audience(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(super) fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}
