//! Principals in the text of a policy, to be written in another way: users by their ids instead of
//! their names, and back.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::PolicyError;
use super::json::Node;
use super::parse::malformed;

/// The principals under `AWS` in the statements of a policy, as they are written there.
///
/// # Errors
/// [`PolicyError::Malformed`] for what is no JSON.
pub fn principals_of(text: &str) -> Result<Vec<String>, PolicyError> {
    let mut document = Node::parse(text).map_err(malformed)?;
    let mut found = Vec::new();
    each_principal(&mut document, &mut |name| {
        if !found.contains(name) {
            found.push(name.clone());
        }
    });
    Ok(found)
}

/// The policy with principals under `AWS` replaced. A text in which nothing is replaced stays as it
/// was written.
///
/// # Errors
/// [`PolicyError::Malformed`] for what is no JSON.
pub fn with_principals(
    text: &str,
    replaced: &BTreeMap<String, String>,
) -> Result<String, PolicyError> {
    if replaced.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document = Node::parse(text).map_err(malformed)?;
    let mut changed = false;
    each_principal(&mut document, &mut |name| {
        if let Some(other) = replaced.get(name) {
            changed |= other != name;
            name.clone_from(other);
        }
    });
    if !changed {
        return Ok(text.to_owned());
    }
    serde_json::to_string(&document).map_err(|error| malformed(error.to_string()))
}

fn each_principal(document: &mut Node, visit: &mut impl FnMut(&mut String)) {
    for_members(document, &["Statement"], &mut |statements| {
        for_items(statements, &mut |statement| {
            for_members(
                statement,
                &["Principal", "NotPrincipal"],
                &mut |principal| {
                    for_members(principal, &["AWS"], &mut |names| {
                        for_items(names, &mut |name| {
                            if let Node::Text(name) = name {
                                visit(name);
                            }
                        });
                    });
                },
            );
        });
    });
}

fn for_members(node: &mut Node, names: &[&str], visit: &mut dyn FnMut(&mut Node)) {
    if let Node::Map(members) = node {
        for (name, member) in members {
            if names.contains(&name.as_str()) {
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
            with_principals(text, &pairs.collect()).expect("a policy")
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
        for other in [r#"{"Statement":{"Principal":"*"}}"#, "[]", "7"] {
            assert!(principals_of(other).expect("JSON").is_empty());
        }
        assert!(principals_of("{").is_err());
    }
}
