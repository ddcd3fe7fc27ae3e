//! Protocol `sss`: services prove their identity with a key that both sides have.
//!
//! - [`keytab`]: the file with the keys, as `xrdsssadmin` writes it;
//! - [`credential`]: the message of a client, encrypted with one of the keys;
//! - [`ReplayCache`]: ensures that each credential is accepted once.

mod credential;
mod keytab;

use std::collections::BTreeMap;

pub use credential::fuzz_sss;
pub(crate) use credential::{CredentialError, Nonce, open};
pub(crate) use keytab::KeyId;
pub use keytab::{KeyUser, KeytabError, SssKey, parse_keytab};

/// Seconds for which a credential is good, as the reference server has it.
pub(crate) const LIFETIME: u64 = 13;

/// Credentials of one key that are remembered at most.
const SEEN_MAX: usize = 1 << 16;

/// Credentials that were taken and are still good: who saw one on the wire cannot use it again.
/// Each key has a bound of its own, so who has one of them shuts out nobody else.
#[derive(Debug, Default)]
pub(crate) struct ReplayCache(BTreeMap<KeyId, BTreeMap<Nonce, u64>>);

impl ReplayCache {
    /// Takes a credential of a key; `now` in seconds.
    ///
    /// # Errors
    /// It was taken before, or too many came lately with that key to know.
    pub(crate) fn take(
        &mut self,
        key: KeyId,
        nonce: Nonce,
        now: u64,
    ) -> Result<(), CredentialError> {
        // Its own time may lie ahead by as much as it may lie behind.
        let is_good = |_: &Nonce, at: &mut u64| at.saturating_add(2 * LIFETIME) >= now;
        if !self.0.contains_key(&key) {
            // Keys come seldom, and those that went need nothing any more.
            self.0.retain(|_, seen| {
                seen.retain(is_good);
                !seen.is_empty()
            });
        }
        let seen = self.0.entry(key).or_default();
        if seen.len() >= SEEN_MAX {
            seen.retain(is_good);
        }
        if seen.len() >= SEEN_MAX {
            return Err(CredentialError(
                "too many credentials came at once with this key",
            ));
        }
        match seen.insert(nonce, now) {
            None => Ok(()),
            Some(_) => Err(CredentialError("the credential was used before")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_taken_once_and_few_are_remembered() {
        let mut seen = ReplayCache::default();
        let nonce = |i: u64| {
            let mut nonce = [0; 32];
            nonce[..8].copy_from_slice(&i.to_le_bytes());
            nonce
        };
        let key = |number| (number, Some("ann".to_owned()));
        assert!(seen.take(key(1), nonce(1), 100).is_ok());
        assert!(seen.take(key(1), nonce(1), 101).is_err());
        for i in 2..=SEEN_MAX as u64 {
            assert!(seen.take(key(1), nonce(i), 101).is_ok());
        }
        assert!(seen.take(key(1), nonce(0), 101).is_err());
        // Others are not shut out by that.
        assert!(seen.take(key(2), nonce(0), 101).is_ok());
        assert!(seen.take(key(1), nonce(0), 102 + 2 * LIFETIME).is_ok());
        assert_eq!(seen.0[&key(1)].len(), 1);
        // What is forgotten goes with the next key.
        assert!(seen.take(key(3), nonce(0), 103 + 4 * LIFETIME).is_ok());
        assert_eq!(seen.0.len(), 1);
    }
}
