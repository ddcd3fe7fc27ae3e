//! Parsing a document: its elements and their possible values (IAM user guide, "Grammar of the IAM
//! JSON policy language").

use crate::{Action, ActionSet};

use super::json::Node;
use super::pattern::{Pattern, PatternSyntax};
use super::principal::PrincipalSet;
use super::resource::ResourceSet;
use super::{Effect, PolicyError, PolicyKind, Statement, condition};

/// Most statements of a document. The size limits them too, but this limit is checked earlier.
const STATEMENTS_MAX: usize = 10_000;

/// The context for parsing all elements of one document.
pub(super) struct ParseContext<'a> {
    pub(super) kind: PolicyKind<'a>,
    /// Whether the version knows variables.
    pub(super) variables: bool,
}

pub(super) fn malformed(words: impl Into<String>) -> PolicyError {
    PolicyError::Malformed(words.into())
}

/// Reads a whole document.
pub(super) fn document(text: &str, kind: PolicyKind<'_>) -> Result<Vec<Statement>, PolicyError> {
    let node = Node::parse(text)
        .map_err(|error| malformed(format!("Policies must be valid JSON: {error}")))?;
    let Node::Map(members) = node else {
        return Err(malformed(
            "Policies must be valid JSON and the first byte must be '{'",
        ));
    };
    let (mut version, mut statements) = (None, None);
    for (name, node) in &members {
        match name.as_str() {
            "Version" => version = Some(node),
            "Statement" => statements = Some(node),
            "Id" if node.as_text().is_some() => {}
            _ => return Err(malformed(format!("Unknown field {name}"))),
        }
    }
    let variables = match version.map(Node::as_text) {
        None | Some(Some("2008-10-17")) => false,
        Some(Some("2012-10-17")) => true,
        Some(_) => {
            return Err(malformed("The policy must contain a valid version string"));
        }
    };
    let parsing = ParseContext { kind, variables };
    let nodes = statements
        .and_then(Node::one_or_many)
        .ok_or_else(|| malformed("Missing required field Statement"))?;
    if nodes.len() > STATEMENTS_MAX {
        return Err(malformed("Too many statements"));
    }
    let statements = nodes
        .iter()
        .map(|node| statement(node, &parsing))
        .collect::<Result<Vec<_>, _>>()?;
    let mut sids: Vec<&str> = statements.iter().filter_map(|s| s.sid.as_deref()).collect();
    sids.sort_unstable();
    if sids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(malformed(
            "Statement IDs (SID) in a single policy must be unique.",
        ));
    }
    Ok(statements)
}

/// The elements of a statement, unparsed.
#[derive(Default)]
struct Elements<'a> {
    sid: Option<&'a Node>,
    effect: Option<&'a Node>,
    principal: Option<(&'a Node, bool)>,
    action: Option<(&'a Node, bool)>,
    resource: Option<(&'a Node, bool)>,
    condition: Option<&'a Node>,
}

impl<'a> Elements<'a> {
    fn read(node: &'a Node) -> Result<Self, PolicyError> {
        let Node::Map(members) = node else {
            return Err(malformed("A statement must be an object"));
        };
        let mut elements = Self::default();
        for (name, node) in members {
            let (place, negated) = match name.as_str() {
                "Sid" => {
                    elements.sid = Some(node);
                    continue;
                }
                "Effect" => {
                    elements.effect = Some(node);
                    continue;
                }
                "Condition" => {
                    elements.condition = Some(node);
                    continue;
                }
                "Principal" => (&mut elements.principal, false),
                "NotPrincipal" => (&mut elements.principal, true),
                "Action" => (&mut elements.action, false),
                "NotAction" => (&mut elements.action, true),
                "Resource" => (&mut elements.resource, false),
                "NotResource" => (&mut elements.resource, true),
                _ => return Err(malformed(format!("Unknown field {name}"))),
            };
            if place.replace((node, negated)).is_some() {
                let what = name.strip_prefix("Not").unwrap_or(name);
                return Err(malformed(format!(
                    "{what} and Not{what} exclude each other"
                )));
            }
        }
        Ok(elements)
    }
}

fn statement(node: &Node, parsing: &ParseContext<'_>) -> Result<Statement, PolicyError> {
    let elements = Elements::read(node)?;
    let sid = elements
        .sid
        .map(|node| node.as_text().ok_or_else(|| malformed("Invalid Sid")))
        .transpose()?
        // MinIO's client gives this to every statement; it names none.
        .filter(|sid| !sid.is_empty());
    let effect = match elements.effect.and_then(Node::as_text) {
        Some("Allow") => Effect::Allow,
        Some("Deny") => Effect::Deny,
        Some(other) => return Err(malformed(format!("Invalid effect: {other}"))),
        None => return Err(malformed("Missing required field Effect")),
    };
    let principals = principals(&elements, effect, parsing)?;
    let (node, negated) = elements
        .action
        .ok_or_else(|| malformed("Missing required field Action"))?;
    let actions = actions(node, negated, parsing)?;
    let resources = match (elements.resource, parsing.kind) {
        (Some(_), PolicyKind::Trust) => {
            return Err(malformed("Has prohibited field Resource"));
        }
        (None, PolicyKind::Trust) => ResourceSet::all(),
        (None, _) => return Err(malformed("Missing required field Resource")),
        (Some((node, negated)), _) => ResourceSet::parse(node, negated, parsing)?,
    };
    let conditions = match elements.condition {
        None => Vec::new(),
        Some(node) => condition::parse(node, parsing)?,
    };
    Ok(Statement {
        sid: sid.map(Into::into),
        effect,
        principals,
        actions,
        resources,
        conditions: conditions.into(),
    })
}

fn principals(
    elements: &Elements<'_>,
    effect: Effect,
    parsing: &ParseContext<'_>,
) -> Result<Option<PrincipalSet>, PolicyError> {
    match (elements.principal, parsing.kind) {
        (None, PolicyKind::Identity) => Ok(None),
        // Whoever has the policy is one of all.
        (Some((Node::Text(text), false)), PolicyKind::Identity) if text == "*" => Ok(None),
        (Some(_), PolicyKind::Identity) => {
            Err(malformed("Policy document should not specify a principal."))
        }
        (None, _) => Err(malformed("Missing required field Principal")),
        // Everybody but a few, the nameless included, is never what somebody wants to let in.
        (Some((_, true)), _) if effect == Effect::Allow => {
            Err(malformed("Allow with NotPrincipal is not allowed."))
        }
        (Some((node, negated)), _) => PrincipalSet::parse(node, negated).map(Some),
    }
}

fn actions(
    node: &Node,
    negated: bool,
    parsing: &ParseContext<'_>,
) -> Result<ActionSet, PolicyError> {
    let empty = || malformed("Missing required field Action");
    let mut set = ActionSet::default();
    for node in node.one_or_many().ok_or_else(empty)? {
        let text = node.as_text().ok_or_else(|| malformed("Invalid Action"))?;
        add_actions(text, parsing, &mut set)?;
    }
    Ok(if negated { set.complement() } else { set })
}

/// Adds the actions that one pattern matches. A pattern that matches nothing is refused if it can
/// only be a mistake. Policies of users may name services that Dewar does not have, because
/// documents written for AWS do.
fn add_actions(
    text: &str,
    parsing: &ParseContext<'_>,
    set: &mut ActionSet,
) -> Result<(), PolicyError> {
    let invalid = || malformed("Policy has invalid action");
    if text == "*" {
        Action::ALL.iter().for_each(|action| set.insert(*action));
        return Ok(());
    }
    let (service, name) = text.split_once(':').ok_or_else(invalid)?;
    let fit = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'*' | b'?' | b'-');
    if name.is_empty() || !text.bytes().all(|c| c == b':' || fit(c)) || name.contains(':') {
        return Err(invalid());
    }
    let own = ["s3", "iam", "sts"];
    let known = own.iter().any(|own| service.eq_ignore_ascii_case(own));
    let wild = service.contains(['*', '?']);
    let allowed = match parsing.kind {
        PolicyKind::Bucket(_) | PolicyKind::AnyBucket => service.eq_ignore_ascii_case("s3"),
        PolicyKind::Trust => service.eq_ignore_ascii_case("sts"),
        PolicyKind::Identity => true,
    };
    if !allowed {
        return Err(invalid());
    }
    let reading = PatternSyntax {
        wildcards: true,
        variables: false,
        fold: true,
    };
    let pattern = Pattern::new(name, reading).map_err(|_| invalid())?;
    let services = Pattern::new(service, reading).map_err(|_| invalid())?;
    let mut found = false;
    for action in Action::ALL {
        if services.matches_text(action.service()) && pattern.matches_text(action.name()) {
            set.insert(*action);
            found = true;
        }
    }
    if known && !found && !wild {
        return Err(invalid());
    }
    Ok(())
}
