//! Principals in the text of a policy, to be written in another way: users by their ids instead of
//! their names, and back.
//!
//! A name that takes rights away stays beside the id ([`stored_principals`]): it means whoever has
//! the name, and the id means the user wherever it is renamed to.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::json::Node;
use super::parse::malformed;
use super::principal::takes_away;
use super::{Effect, PolicyError};

/// Longest text in bytes that [`stored_principals`] makes of a policy of a permitted length.
pub const STORED_POLICY_BYTES_MAX: usize = 2 * super::BUCKET_POLICY_BYTES_MAX;

/// The principals under `AWS` in the statements of a policy, as they are written there.
///
/// # Errors
/// [`PolicyError::Malformed`] for what is no JSON.
pub fn principals_of(text: &str) -> Result<Vec<String>, PolicyError> {
    let mut document = Node::parse(text).map_err(malformed)?;
    let mut found = Vec::new();
    each_principals(&mut document, &mut |names, _| {
        for_items(names, &mut |name| {
            if let Node::Text(name) = name
                && !found.contains(name)
            {
                found.push(name.clone());
            }
        });
    });
    Ok(found)
}

/// The policy with ids in place of ARNs under `AWS`. An ARN that takes rights away stays beside its id.
/// A text in which nothing is replaced stays as it was written.
///
/// # Errors
/// [`PolicyError::Malformed`] for what is no JSON.
pub fn stored_principals(
    text: &str,
    ids: &BTreeMap<String, String>,
) -> Result<String, PolicyError> {
    rewritten(text, ids, |name, id, takes_away| {
        let arn = takes_away.then(|| name.to_owned());
        std::iter::once(id.to_owned()).chain(arn).collect()
    })
}

/// The policy with ARNs in place of ids under `AWS`. One that stands there twice is shown once. A text
/// in which nothing is replaced stays as it was written.
///
/// # Errors
/// [`PolicyError::Malformed`] for what is no JSON.
pub fn shown_principals(
    text: &str,
    arns: &BTreeMap<String, String>,
) -> Result<String, PolicyError> {
    rewritten(text, arns, |_, arn, _| vec![arn.to_owned()])
}

fn rewritten(
    text: &str,
    others: &BTreeMap<String, String>,
    replace: impl Fn(&str, &str, bool) -> Vec<String>,
) -> Result<String, PolicyError> {
    if others.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document = Node::parse(text).map_err(malformed)?;
    let mut changed = false;
    each_principals(&mut document, &mut |names, takes_away| {
        let mut items = Vec::new();
        let mut replaced = false;
        for_items(names, &mut |name| {
            let new = match &*name {
                Node::Text(text) => others.get(text).map(|other| {
                    replaced |= other != text;
                    let texts = replace(text, other, takes_away);
                    texts.into_iter().map(Node::Text).collect()
                }),
                _ => None,
            };
            for item in new.unwrap_or_else(|| vec![name.clone()]) {
                if !items.contains(&item) {
                    items.push(item);
                }
            }
        });
        if !replaced {
            return;
        }
        changed = true;
        let is_list = matches!(names, Node::List(before) if before.len() == items.len());
        *names = match (items.len(), is_list) {
            (1, false) => items.remove(0),
            _ => Node::List(items),
        };
    });
    if !changed {
        return Ok(text.to_owned());
    }
    serde_json::to_string(&document).map_err(|error| malformed(error.to_string()))
}

/// Visits what stands under `AWS` in each statement, with whether it takes rights away from whom it means.
fn each_principals(document: &mut Node, visit: &mut impl FnMut(&mut Node, bool)) {
    for_members(document, "Statement", &mut |statements| {
        for_items(statements, &mut |statement| {
            let mut denies = false;
            for_members(statement, "Effect", &mut |effect| {
                denies = matches!(effect, Node::Text(effect) if effect == "Deny");
            });
            let effect = if denies { Effect::Deny } else { Effect::Allow };
            for (member, negated) in [("Principal", false), ("NotPrincipal", true)] {
                for_members(statement, member, &mut |principal| {
                    for_members(principal, "AWS", &mut |names| {
                        visit(names, takes_away(effect, negated));
                    });
                });
            }
        });
    });
}

fn for_members(node: &mut Node, wanted: &str, visit: &mut dyn FnMut(&mut Node)) {
    if let Node::Map(members) = node {
        for (name, member) in members {
            if name == wanted {
                visit(member);
            }
        }
    }
}

/// One or a list of them.
fn for_items(node: &mut Node, visit: &mut dyn FnMut(&mut Node)) {
    match node {
        Node::List(items) => items.iter_mut().for_each(visit),
        one => visit(one),
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, member) in members {
                    map.serialize_entry(name, member)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_replaced_and_nothing_else() {
        let text = r#"{"Version": "2012-10-17", "Statement": [
            {"Sid": "b", "Effect": "Deny", "NotPrincipal": {"AWS": ["a", "b"], "Federated": "a"},
             "Action": "s3:*", "Resource": "a", "Condition": {"StringLike": {"aws:PrincipalArn": "a"}}},
            {"Effect": "Allow", "Principal": {"AWS": "a"}, "Action": "s3:GetObject", "Resource": "*"}]}"#;
        assert_eq!(principals_of(text).expect("a policy"), ["a", "b"]);
        let replaced = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            stored_principals(text, &pairs.collect()).expect("a policy")
        };
        assert_eq!(replaced(&[("c", "d"), ("a", "a")]), text);
        assert_eq!(
            replaced(&[("a", "x\"")]),
            concat!(
                r#"{"Version":"2012-10-17","Statement":[{"Sid":"b","Effect":"Deny","#,
                r#""NotPrincipal":{"AWS":["x\"","b"],"Federated":"a"},"Action":"s3:*","#,
                r#""Resource":"a","Condition":{"StringLike":{"aws:PrincipalArn":"a"}}},"#,
                r#"{"Effect":"Allow","Principal":{"AWS":"x\""},"Action":"s3:GetObject","#,
                r#""Resource":"*"}]}"#
            )
        );
        // A name that takes rights away stays beside the id, and both are shown as one again.
        let text = r#"{"Statement":{"Effect":"Deny","Principal":{"AWS":"a"}}}"#;
        let stored = stored_principals(text, &[("a".into(), "1".into())].into());
        let stored = stored.expect("a policy");
        let both = r#"{"Statement":{"Effect":"Deny","Principal":{"AWS":["1","a"]}}}"#;
        assert_eq!(stored, both);
        let shown = |name: &str| shown_principals(&stored, &[("1".into(), name.into())].into());
        assert_eq!(shown("a").expect("a policy"), text);
        let renamed = shown("b").expect("a policy");
        assert_eq!(renamed, both.replace('1', "b"));
        for other in [r#"{"Statement":{"Principal":"*"}}"#, "[]", "7"] {
            assert!(principals_of(other).expect("JSON").is_empty());
        }
        assert!(principals_of("{").is_err());
    }
}
