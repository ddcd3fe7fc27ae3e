//! A command of administrators: its name, request, reply, effect, record in the audit log, and
//! handler.

use std::any::Any;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::AdminContext;
use crate::envelope::{from_envelope, to_envelope};
use crate::error::Result;

/// Whether a command changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The command only reads. The audit log records it only with `audit.reads`.
    Read,
    /// The command changes something. The audit log always records it.
    Change,
}

/// The row of a command in the table: what the socket, the audit log and the reference pages need.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// The name of the request in JSON. A dot separates the names of nested objects.
    pub name: &'static str,
    /// The name of the reply in JSON, written as that of the request.
    pub reply: &'static str,
    /// Whether the command changes something.
    pub effect: Effect,
    /// The name under which the audit log records the command.
    pub action: &'static str,
    /// The second name of a command that switches something on or off.
    pub other_action: Option<&'static str>,
}

impl CommandSpec {
    /// A command that only reads.
    pub(crate) const fn reads(name: &'static str, action: &'static str) -> Self {
        Self {
            name,
            reply: name,
            effect: Effect::Read,
            action,
            other_action: None,
        }
    }

    /// A command that changes something.
    pub(crate) const fn changes(name: &'static str, action: &'static str) -> Self {
        Self {
            effect: Effect::Change,
            ..Self::reads(name, action)
        }
    }

    /// The same with another name of the reply.
    pub(crate) const fn replies(self, reply: &'static str) -> Self {
        Self { reply, ..self }
    }

    /// The same with a reply that has no name.
    pub(crate) const fn replies_done(self) -> Self {
        self.replies("")
    }

    /// The same with a second name in the audit log.
    pub(crate) const fn or_records(self, action: &'static str) -> Self {
        Self {
            other_action: Some(action),
            ..self
        }
    }
}

/// A command of administrators. The type that implements this trait is the request.
pub trait AdminCommand: Serialize + DeserializeOwned + Send + 'static {
    /// The row of the command.
    const SPEC: CommandSpec;

    /// The reply.
    type Reply: Serialize + DeserializeOwned + Send + 'static;

    /// The name under which the audit log records this request.
    fn action(&self) -> &'static str {
        Self::SPEC.action
    }

    /// The target that the audit log records. It must not contain secrets.
    fn target(&self) -> String {
        String::new()
    }

    /// The request as JSON.
    fn request_json(&self) -> Vec<u8> {
        to_envelope(Self::SPEC.name, self)
    }

    /// A reply as JSON.
    fn reply_json(reply: &Self::Reply) -> Vec<u8> {
        to_envelope(Self::SPEC.reply, reply)
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// The JSON is no reply to this command.
    fn parse_reply(json: &[u8]) -> serde_json::Result<Self::Reply> {
        from_envelope(Self::SPEC.reply, json)
    }

    /// Carries the request out.
    ///
    /// # Errors
    /// The reason for an administrator.
    fn run(self, admin: &AdminContext) -> impl Future<Output = Result<Self::Reply>> + Send;
}

/// The reply of a command that has nothing to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// The command was carried out.
    Done,
}

/// A request whose command is known only at run time.
#[async_trait]
pub trait AdminRequest: Any + Send {
    /// Whether its command changes something.
    fn effect(&self) -> Effect;

    /// The name under which the audit log records it.
    fn action(&self) -> &'static str;

    /// The target that the audit log records.
    fn target(&self) -> String;

    /// Carries the request out, and returns the reply as JSON.
    async fn run(self: Box<Self>, admin: &AdminContext) -> Result<Vec<u8>>;
}

#[async_trait]
impl<C: AdminCommand> AdminRequest for C {
    fn effect(&self) -> Effect {
        C::SPEC.effect
    }

    fn action(&self) -> &'static str {
        AdminCommand::action(self)
    }

    fn target(&self) -> String {
        AdminCommand::target(self)
    }

    async fn run(self: Box<Self>, admin: &AdminContext) -> Result<Vec<u8>> {
        let reply = AdminCommand::run(*self, admin).await?;
        Ok(C::reply_json(&reply))
    }
}

/// A command in the table, without its type.
#[derive(Clone, Copy)]
pub struct CommandEntry {
    /// Its row.
    pub spec: CommandSpec,
    parse: fn(&[u8]) -> serde_json::Result<Box<dyn AdminRequest>>,
    #[cfg(test)]
    pub(crate) repeat: RepeatJson,
}

/// Reads a request and a reply, and writes them again.
#[cfg(test)]
type RepeatJson = fn(&str, &str) -> serde_json::Result<(String, String)>;

impl CommandEntry {
    /// The entry of the command `C`.
    pub(crate) const fn of<C: AdminCommand>() -> Self {
        Self {
            spec: C::SPEC,
            parse: parse::<C>,
            #[cfg(test)]
            repeat: repeat::<C>,
        }
    }

    /// Reads a request of this command.
    pub(crate) fn parse(&self, json: &[u8]) -> serde_json::Result<Box<dyn AdminRequest>> {
        (self.parse)(json)
    }
}

fn parse<C: AdminCommand>(json: &[u8]) -> serde_json::Result<Box<dyn AdminRequest>> {
    Ok(Box::new(from_envelope::<C>(C::SPEC.name, json)?))
}

#[cfg(test)]
fn repeat<C: AdminCommand>(request: &str, reply: &str) -> serde_json::Result<(String, String)> {
    let request: C = from_envelope(C::SPEC.name, request.as_bytes())?;
    let reply = C::parse_reply(reply.as_bytes())?;
    let text = |json: Vec<u8>| String::from_utf8(json).expect("JSON is UTF-8");
    Ok((text(request.request_json()), text(C::reply_json(&reply))))
}
