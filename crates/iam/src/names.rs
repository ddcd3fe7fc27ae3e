//! Names of users, groups, roles and policies, as people write them and as keys of the catalog hold
//! them.

use dewar_types::{Error, ErrorKind, Result, TenantName};

/// A name as people write it: `[TENANT:]NAME`.
pub(crate) fn designation(text: &str) -> Result<(TenantName, &str)> {
    match text.split_once(':') {
        None => Ok((TenantName::default(), text)),
        Some((tenant, name)) => Ok((TenantName::new(tenant)?, name)),
    }
}

/// The part of a catalog key that holds a name; names of accounts do not depend on case.
pub(crate) fn folded(name: &str) -> String {
    if name.contains('/') {
        name.to_ascii_lowercase()
    } else {
        name.to_owned()
    }
}

/// Whether a name, perhaps of an account, can be given.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let fit =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+' | '=' | ',');
    let parts: Vec<&str> = name.split('/').collect();
    let good = |part: &&str| !part.is_empty() && part.len() <= 128 && part.chars().all(fit);
    if parts.len() > 2 || !parts.iter().all(good) {
        let message = format!(
            "{what} name {name:?}: 1 to 128 letters, digits, and any of -_.@+=, are allowed"
        );
        return Err(Error::new(ErrorKind::InvalidName, message));
    }
    Ok(())
}

/// Whether a path, as IAM has it, can be given.
pub(crate) fn check_path(path: &str) -> Result<()> {
    let fit = path.bytes().all(|b| (0x21..=0x7e).contains(&b));
    if !fit || path.len() > 512 || !path.starts_with('/') || !path.ends_with('/') {
        let message = format!("path {path:?} must begin and end with a slash");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(())
}

/// The account whose something is, by its full name: `ann` of `ann/robot`.
pub(crate) fn account_of(name: &str) -> Option<&str> {
    name.split_once('/').map(|(account, _)| account)
}

/// Whether a record that was found under a name is one of the account that the name says. Names
/// in a catalog's keys are without case, accounts are told apart with it.
pub(crate) fn is_of(record: &str, name: &str) -> bool {
    account_of(record) == account_of(name)
}

pub(crate) fn none(what: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no {what} {name:?}"))
}

pub(crate) fn exists(what: &str, name: &str) -> Error {
    let message = format!("{what} {name} exists already");
    Error::new(ErrorKind::AlreadyExists, message)
}
