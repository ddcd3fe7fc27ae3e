//! Protocol `sss`: services prove who they are with a key that both sides have.
//!
//! - [`keytab`]: the file with the keys, as `xrdsssadmin` writes it;
//! - [`credential`]: what a client sends, sealed with one of them;
//! - [`Seen`]: that each is taken once.

mod credential;
mod keytab;

use std::collections::BTreeMap;

pub use credential::fuzz_sss;
pub(crate) use credential::{Nonce, Refused, open};
pub use keytab::{KeyUser, KeytabError, SssKey, parse_keytab};

/// Seconds for which a credential is good, as the reference server has it.
pub(crate) const LIFETIME: u64 = 13;

/// Credentials that are remembered at most.
const SEEN_MAX: usize = 1 << 16;

/// Credentials that were taken and are still good: who saw one on the wire cannot use it again.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<Nonce, u64>);

impl Seen {
    /// Takes a credential; `now` in seconds.
    ///
    /// # Errors
    /// It was taken before, or too many came lately to know.
    pub(crate) fn take(&mut self, nonce: Nonce, now: u64) -> Result<(), Refused> {
        if self.0.len() >= SEEN_MAX {
            // Its own time may lie ahead by as much as it may lie behind.
            self.0
                .retain(|_, at| at.saturating_add(2 * LIFETIME) >= now);
        }
        if self.0.len() >= SEEN_MAX {
            return Err(Refused("too many credentials came at once"));
        }
        match self.0.insert(nonce, now) {
            None => Ok(()),
            Some(_) => Err(Refused("the credential was used before")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_taken_once_and_few_are_remembered() {
        let mut seen = Seen::default();
        let nonce = |i: u64| {
            let mut nonce = [0; 32];
            nonce[..8].copy_from_slice(&i.to_le_bytes());
            nonce
        };
        assert!(seen.take(nonce(1), 100).is_ok());
        assert!(seen.take(nonce(1), 101).is_err());
        for i in 2..=SEEN_MAX as u64 {
            assert!(seen.take(nonce(i), 101).is_ok());
        }
        assert!(seen.take(nonce(0), 101).is_err());
        assert!(seen.take(nonce(0), 102 + 2 * LIFETIME).is_ok());
        assert_eq!(seen.0.len(), 1);
    }
}
