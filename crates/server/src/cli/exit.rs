//! Exit codes, so that a script can tell failures apart without reading messages.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | something failed; the message says what |
//! | 2 | the command line or the configuration is wrong |
//! | 3 | there is no such user or key |
//! | 4 | the name is taken, or the thing is in use: a folder or a port by another process |
//! | 5 | not now: disks are missing, or no server answers; try again |
//! | 130 | ended by a second signal |

use std::process::ExitCode;

use dewar_admin::{AdminError, Failure};
use dewar_types::{Error, ErrorKind};

use crate::admin_socket::ClientError;
use crate::config::ConfigError;
use crate::demo::DemoError;
use crate::lock::LockError;
use crate::serve::StartError;

/// Something failed.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
pub const USAGE: u8 = 2;
/// There is no such thing.
pub const NOT_FOUND: u8 = 3;
/// The name is taken, or the thing is in use.
pub const CONFLICT: u8 = 4;
/// Not now.
pub const UNAVAILABLE: u8 = 5;
/// Ended by a second signal.
pub const FORCED: u8 = 130;

/// A message for people and a code for scripts.
#[derive(Debug)]
pub(super) struct CommandError {
    pub(super) code: u8,
    pub(super) message: String,
}

impl CommandError {
    pub(super) fn new(code: u8, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }
}

/// The result of a command. An exit code without a message is possible too.
pub(super) type CommandResult = Result<u8, CommandError>;

pub(super) fn code_of(result: CommandResult) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            for line in lines_of(&error.message) {
                eprintln!("{line}");
            }
            ExitCode::from(error.code)
        }
    }
}

/// An error's lines: findings bring their severity along, and of others the first is marked.
fn lines_of(message: &str) -> Vec<String> {
    let marked = |line: &str| line.starts_with("error: ") || line.starts_with("warning: ");
    let lines = message.lines().enumerate();
    lines
        .map(|(number, line)| match number {
            0 if !marked(line) => format!("error: {line}"),
            _ => line.to_owned(),
        })
        .collect()
}

impl From<AdminError> for CommandError {
    fn from(error: AdminError) -> Self {
        let code = match error.kind {
            Failure::NotFound => NOT_FOUND,
            Failure::Exists | Failure::InUse => CONFLICT,
            Failure::Invalid => USAGE,
            Failure::Unavailable => UNAVAILABLE,
            Failure::Internal => FAILED,
        };
        Self::new(code, error)
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(error) => error.into(),
            other => Self::new(FAILED, other),
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        Self::new(USAGE, error)
    }
}

impl From<LockError> for CommandError {
    fn from(error: LockError) -> Self {
        let code = match error {
            LockError::Held { .. } => CONFLICT,
            LockError::Io { .. } => FAILED,
        };
        Self::new(code, error)
    }
}

impl From<StartError> for CommandError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Lock(error) => error.into(),
            StartError::Configuration(_) => Self::new(USAGE, error),
            StartError::Demo(error) => error.into(),
            StartError::Listen(error) if error.is_in_use() => Self::new(CONFLICT, error),
            StartError::Engine(error) => {
                let code = match error.downcast_ref::<Error>().map(Error::kind) {
                    Some(ErrorKind::InvalidArgument) => USAGE,
                    // No pool: its disks are not there yet, or the server has not started yet.
                    Some(ErrorKind::NotFound | ErrorKind::Unavailable | ErrorKind::NoSpace) => {
                        UNAVAILABLE
                    }
                    _ => FAILED,
                };
                Self::new(code, error)
            }
            other => Self::new(FAILED, other),
        }
    }
}

impl From<DemoError> for CommandError {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::Config(error) => error.into(),
            DemoError::PortBase(_) => Self::new(USAGE, error),
            other => Self::new(FAILED, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_is_one_error_however_many_lines_it_has() {
        let refused = lines_of("it would lose something:\n  a\n  b\nso it is not done");
        assert_eq!(refused[..2], ["error: it would lose something:", "  a"]);
        let marks = refused.iter().filter(|line| line.contains("error: "));
        assert_eq!(marks.count(), 1);
        let findings = lines_of("error: one\nwarning: two");
        assert_eq!(findings, ["error: one", "warning: two"]);
    }
}
