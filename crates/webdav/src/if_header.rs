//! The `If` header (RFC 4918 section 10.4): conditions on locks and entity tags, and the tokens of
//! locks that a client submits.

use std::sync::Arc;

use dewar_http_front::header;
use dewar_store::api::ObjectRef;
use dewar_store::file::{LockScope, LockToken, Node};
use dewar_types::ErrorKind;
use http::{HeaderMap, StatusCode};

use crate::context::RequestContext;
use crate::destination::Destination;
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::limits::{IF_BYTES_MAX, IF_CONDITIONS_MAX};

/// The header: lists of conditions, one of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IfHeader {
    lists: Vec<ConditionList>,
}

/// Conditions that hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ConditionList {
    /// The URL that they are about, if not that of the request.
    tag: Option<String>,
    conditions: Vec<StateCondition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct StateCondition {
    negated: bool,
    state: ResourceState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ResourceState {
    /// It is covered by the lock with this token; `None` for a token that no lock has.
    Locked(Option<LockToken>),
    /// It has this entity tag, without quotes.
    Tagged(String),
}

impl IfHeader {
    /// The header of a request; `None` without one.
    ///
    /// # Errors
    /// 400 for a malformed one, or more than [`IF_BYTES_MAX`] and [`IF_CONDITIONS_MAX`].
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>> {
        let Some(text) = header(headers, "if")? else {
            return Ok(None);
        };
        let malformed = || DavError::new(StatusCode::BAD_REQUEST, "The header If is not valid.");
        Self::parse(text).map(Some).ok_or_else(malformed)
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > IF_BYTES_MAX {
            return None;
        }
        let mut rest = text.trim_start();
        let (mut header, mut tag, mut tagged) = (Self::default(), None, None);
        let mut count = 0;
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix('<') {
                let (url, behind) = behind.split_once('>')?;
                // Lists with and without a tag do not go together.
                if tagged == Some(false) || !behind.trim_start().starts_with('(') {
                    return None;
                }
                (tag, tagged) = (Some(url.to_owned()), Some(true));
                rest = behind.trim_start();
                continue;
            }
            tagged = tagged.or(Some(false));
            rest = rest.strip_prefix('(')?.trim_start();
            let mut list = ConditionList {
                tag: tag.clone(),
                conditions: Vec::new(),
            };
            while !rest.starts_with(')') {
                count += 1;
                if count > IF_CONDITIONS_MAX {
                    return None;
                }
                let (condition, behind) = StateCondition::parse(rest)?;
                list.conditions.push(condition);
                rest = behind.trim_start();
            }
            rest = rest[1..].trim_start();
            if list.conditions.is_empty() {
                return None;
            }
            header.lists.push(list);
        }
        (!header.lists.is_empty()).then_some(header)
    }

    /// The tokens that the client submits: all that it names without `Not`.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = LockToken> {
        let conditions = self.lists.iter().flat_map(|list| &list.conditions);
        conditions.filter_map(|condition| match condition {
            StateCondition {
                negated: false,
                state: ResourceState::Locked(token),
            } => *token,
            _ => None,
        })
    }

    /// Checks whether one of the lists holds. Returns the entity tag that the list names for the path of
    /// the request, if it names one: the change must require it again, as the file may change meanwhile.
    ///
    /// # Errors
    /// 412 if none does; those of looking at the resources.
    pub(crate) async fn check(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
    ) -> Result<Option<String>> {
        for list in &self.lists {
            if list.holds(front, context).await? {
                return Ok(list.own_etag().map(str::to_owned));
            }
        }
        let words = "The conditions of the header If do not hold.";
        Err(DavError::new(StatusCode::PRECONDITION_FAILED, words))
    }
}

impl ConditionList {
    /// The entity tag that the path of the request must have.
    fn own_etag(&self) -> Option<&str> {
        let of_request = self.tag.is_none();
        let mut conditions = self.conditions.iter().filter(|_| of_request);
        conditions.find_map(|condition| match &condition.state {
            ResourceState::Tagged(etag) if !condition.negated => Some(etag.as_str()),
            _ => None,
        })
    }

    async fn holds(&self, front: &Arc<WebDav>, context: &RequestContext) -> Result<bool> {
        let path = match &self.tag {
            None => context.path.clone(),
            Some(url) => match Destination::parse(url, &front.own_urls(context))? {
                Destination::Local(path) => path.seen_by(&context.caller),
                Destination::Remote => return Ok(false),
            },
        };
        let object = path.object();
        for condition in &self.conditions {
            let holds = match (&condition.state, object) {
                (ResourceState::Locked(None), _) | (_, None) => false,
                (ResourceState::Locked(Some(token)), Some(object)) => {
                    let scope = LockScope::default();
                    let locks = front.store.locks(&context.caller, object, scope).await?;
                    locks.iter().any(|lock| lock.token == *token)
                }
                (ResourceState::Tagged(etag), Some(object)) => {
                    etag_of(front, context, object).await?.as_ref() == Some(etag)
                }
            };
            if holds == condition.negated {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The entity tag of a file; `None` for what is no file that the caller may look at.
async fn etag_of(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
) -> Result<Option<String>> {
    match front.store.stat(&context.caller, object).await {
        Ok(Node::File(_, info)) => Ok(Some(info.etag)),
        Ok(Node::Directory(_)) => Ok(None),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::Denied | ErrorKind::NoSuchBucket => Ok(None),
            _ => Err(error.into()),
        },
    }
}

impl StateCondition {
    /// A condition, and the text behind it.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let (negated, text) = match text.get(..3) {
            Some(word) if word.eq_ignore_ascii_case("not") => (true, text[3..].trim_start()),
            _ => (false, text),
        };
        let (state, rest) = if let Some(behind) = text.strip_prefix('<') {
            let (token, rest) = behind.split_once('>')?;
            (ResourceState::Locked(LockToken::parse(token)), rest)
        } else {
            let (etag, rest) = text.strip_prefix('[')?.split_once(']')?;
            let etag = etag.trim();
            let strong = etag.strip_prefix("W/").unwrap_or(etag);
            let bare = strong.strip_prefix('"')?.strip_suffix('"')?;
            (ResourceState::Tagged(bare.to_owned()), rest)
        };
        Some((Self { negated, state }, rest))
    }
}

/// Fuzzes the parser of the header: no input may panic.
pub fn fuzz_if(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let parsed = IfHeader::parse(text);
        let tokens = parsed.map_or(0, |parsed| parsed.tokens().count());
        assert!(tokens <= IF_CONDITIONS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2";

    #[test]
    fn tokens_are_written_as_they_are_read() {
        let token = LockToken::parse(UUID).expect("a token");
        assert_eq!(token.to_string(), UUID);
        let old = "opaquelocktoken:181d4fae-7d8c-41d0-a765-00a0c91e6bf2";
        assert_eq!(LockToken::parse(old), Some(token));
        for other in ["DAV:no-lock", "urn:uuid:1", "urn:uuid:", "x"] {
            assert_eq!(LockToken::parse(other), None, "{other}");
        }
    }

    #[test]
    fn lists_hold_conditions() {
        let token = LockToken::parse(UUID);
        let locked = |token, negated| StateCondition {
            negated,
            state: ResourceState::Locked(token),
        };
        let parsed = IfHeader::parse(&format!("(<{UUID}> [\"a b\"]) (Not <DAV:no-lock>)"));
        let parsed = parsed.expect("valid");
        let tagged = StateCondition {
            negated: false,
            state: ResourceState::Tagged("a b".into()),
        };
        assert_eq!(parsed.lists[0].conditions, [locked(token, false), tagged]);
        assert_eq!(parsed.lists[1].conditions, [locked(None, true)]);
        assert_eq!(parsed.tokens().collect::<Vec<_>>(), [token.expect("one")]);
        let parsed = IfHeader::parse(&format!(
            "</a> (<{UUID}>)(not<{UUID}>) <http://h/b>([W/\"c\"])"
        ));
        let tags: Vec<_> = parsed
            .expect("valid")
            .lists
            .into_iter()
            .map(|list| list.tag)
            .collect();
        let tag = |text: &str| Some(text.to_owned());
        assert_eq!(tags, [tag("/a"), tag("/a"), tag("http://h/b")]);
        for wrong in [
            "",
            "()",
            "(",
            "<a>",
            "(<a)",
            "(a)",
            "([a])",
            "(<a>) <b> (<c>)",
            "<a> <b> (<c>)",
            "(<a>) x",
        ] {
            assert_eq!(IfHeader::parse(wrong), None, "{wrong}");
        }
        let many = format!("({})", "<a>".repeat(IF_CONDITIONS_MAX + 1));
        assert_eq!(IfHeader::parse(&many), None);
    }
}
