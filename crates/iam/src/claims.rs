//! Selection of the claims of a login token that a caller, a session or a macaroon carries.
//!
//! Those that a rule, the tenant or the session's own account names must be there: a session that they do
//! not fit into is refused. Of the others as many are carried as fit, first those that other accounts of the
//! tenant name, the smallest first. The names of those that do not fit go with it, so that conditions on
//! them fail closed.

use std::collections::BTreeSet;

use dewar_auth::ALL_CLAIMS_OMITTED;
use dewar_auth::token::Claims;
use dewar_types::{Error, ErrorKind, Result};
use serde_json::Value;

/// Longest name of a claim in bytes. No policy and no rule can name a longer one.
const NAME_BYTES_MAX: usize = 1024;

/// What the names of claims that were not kept may take in a session, in bytes. Beyond that they are not
/// told one by one.
const UNKEPT_BYTES_MAX: usize = 1024;

/// A claim with its values.
pub(crate) type Claim = (String, Vec<String>);

/// How much a claim matters for what a session may do; the more, the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimRank {
    /// A rule, the tenant, the session's account or its policies name it.
    Required,
    /// Other accounts of the tenant name it.
    Optional,
    /// No policy and no rule that counts for the session names it.
    Unnamed,
}

/// How many bytes of claims are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimLimits {
    /// Of those that something names. More of the required ones is an error.
    pub(crate) named: usize,
    /// Others are kept while all of them together take no more than this.
    pub(crate) all: usize,
}

impl ClaimLimits {
    /// In memory. A token is at most 16 KiB long; only names of objects within objects can take more.
    pub(crate) const IN_MEMORY: Self = Self {
        named: 64 * 1024,
        all: 64 * 1024,
    };

    /// In a session or a macaroon: 120 groups with names of 60 bytes fit.
    pub(crate) const SEALED: Self = Self {
        named: 8 * 1024,
        all: 2 * 1024,
    };
}

/// Claims that are kept, and the names of those that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectedClaims {
    /// By `PROVIDER:claim`, in order.
    pub(crate) claims: Vec<Claim>,
    /// As [`dewar_auth::Bounds::unkept`].
    pub(crate) unkept: Vec<String>,
}

/// All claims of a token that have a value, by their names without provider. Dots lead into objects.
pub(crate) fn claims_of(claims: &Claims) -> Vec<Claim> {
    let mut names = BTreeSet::new();
    for name in claims.names() {
        add_names(name.to_owned(), claims.get(name), &mut names);
    }
    let valued = names.into_iter().map(|name| {
        let values = claims.values(&name).into_iter().map(Into::into).collect();
        (name, values)
    });
    valued
        .filter(|(_, values): &Claim| !values.is_empty())
        .collect()
}

fn add_names(name: String, value: Option<&Value>, names: &mut BTreeSet<String>) {
    if name.len() > NAME_BYTES_MAX {
        return;
    }
    for (key, value) in value.and_then(Value::as_object).into_iter().flatten() {
        add_names(format!("{name}.{key}"), Some(value), names);
    }
    names.insert(name);
}

fn bytes_of((name, values): &Claim) -> usize {
    name.len() + values.iter().map(|value| value.len() + 3).sum::<usize>()
}

/// Chooses what is kept of `claims`, whose names are without provider; `unkept` are names of others that
/// were there once.
///
/// # Errors
/// [`ErrorKind::TooLarge`] when the required ones do not fit.
pub(crate) fn keep(
    provider: &str,
    mut claims: Vec<Claim>,
    mut unkept: Vec<String>,
    rank_of: impl Fn(&str) -> ClaimRank,
    limits: ClaimLimits,
) -> Result<SelectedClaims> {
    claims.sort_by_cached_key(|claim| (rank_of(&claim.0), bytes_of(claim), claim.0.clone()));
    let mut kept = Vec::new();
    let mut bytes = 0;
    for claim in claims {
        let (rank, size) = (rank_of(&claim.0), bytes_of(&claim));
        let max = match rank {
            ClaimRank::Required | ClaimRank::Optional => limits.named,
            ClaimRank::Unnamed => limits.all,
        };
        if rank == ClaimRank::Required && bytes + size > max {
            let message = format!(
                "policies and rules ask for more claims of the login token than a session can carry: \
                 with {:?} they take {} bytes, and at most {} fit",
                claim.0,
                bytes + size,
                limits.named
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if bytes + size <= max {
            bytes += size;
            kept.push((format!("{provider}:{}", claim.0), claim.1));
        } else {
            unkept.push(claim.0);
        }
    }
    kept.sort();
    unkept.sort();
    unkept.dedup();
    if unkept.iter().map(String::len).sum::<usize>() > UNKEPT_BYTES_MAX {
        unkept = vec![ALL_CLAIMS_OMITTED.to_owned()];
    }
    Ok(SelectedClaims {
        claims: kept,
        unkept,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"sub":"ann","groups":["/a","/b"],"none":[],
        "long":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","realm_access":{"roles":["r"]},
        "a":{"b":{"c":{"d":{"e":1}}}}}"#;

    fn kept(named: &[&str], limits: ClaimLimits) -> Result<SelectedClaims> {
        let claims = claims_of(&Claims::parse(TEXT.as_bytes()).expect("claims"));
        keep("p", claims, Vec::new(), required(named), limits)
    }

    fn required(named: &[&str]) -> impl Fn(&str) -> ClaimRank {
        |name| match named.contains(&name) {
            true => ClaimRank::Required,
            false => ClaimRank::Unnamed,
        }
    }

    fn names(kept: &SelectedClaims) -> Vec<&str> {
        kept.claims.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let all = kept(&[], ClaimLimits::IN_MEMORY).expect("fits");
        let every = [
            "p:a.b.c.d.e",
            "p:groups",
            "p:long",
            "p:realm_access.roles",
            "p:sub",
        ];
        assert_eq!(names(&all), every);
        assert!(all.unkept.is_empty());
        let limits = ClaimLimits { named: 60, all: 25 };
        let few = kept(&[], limits).expect("fits");
        assert_eq!(names(&few), ["p:a.b.c.d.e", "p:sub"]);
        assert_eq!(few.unkept, ["groups", "long", "realm_access.roles"]);
        let long = kept(&["long"], limits).expect("fits");
        assert_eq!(names(&long), ["p:long"]);
        assert_eq!(long.unkept.len(), 4);
        let error = kept(&["long", "realm_access.roles"], limits).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn many_names_that_do_not_fit_become_all() {
        let claims: Vec<Claim> = (0..500)
            .map(|i| (format!("claim{i}"), vec!["x".repeat(50)]))
            .collect();
        let none = kept(&[], ClaimLimits { named: 0, all: 0 }).expect("nothing is named");
        assert_eq!((none.claims.len(), none.unkept.len()), (0, 5));
        let kept = keep("p", claims, Vec::new(), required(&[]), ClaimLimits::SEALED).expect("kept");
        assert_eq!(kept.unkept, [ALL_CLAIMS_OMITTED]);
    }

    #[test]
    fn what_other_accounts_name_refuses_no_session() {
        let claims = vec![
            ("groups".to_owned(), vec!["x".repeat(40)]),
            ("small".to_owned(), vec!["x".repeat(10)]),
            ("theirs".to_owned(), vec!["x".repeat(30)]),
        ];
        let rank = |name: &str| match name {
            "groups" => ClaimRank::Required,
            "theirs" => ClaimRank::Optional,
            _ => ClaimRank::Unnamed,
        };
        let names_kept = |bytes: usize| {
            let limits = ClaimLimits {
                named: bytes,
                all: 20,
            };
            let kept = keep("p", claims.clone(), Vec::new(), rank, limits);
            names(&kept.expect("given")).join(" ")
        };
        assert_eq!(names_kept(100), "p:groups p:theirs");
        assert_eq!(names_kept(80), "p:groups");
    }

    #[test]
    fn the_groups_of_a_large_collaboration_fit() {
        let groups = (0..120).map(|i| format!("{:/<57}{i:03}", "/cms/production/"));
        let claims = vec![("groups".to_owned(), groups.collect())];
        let named = required(&["groups"]);
        let kept = keep("p", claims, Vec::new(), named, ClaimLimits::SEALED).expect("fits");
        assert_eq!(kept.claims[0].1.len(), 120);
    }
}
