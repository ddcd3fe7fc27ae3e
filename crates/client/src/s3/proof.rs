//! In whose name requests are made, and how that is shown.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use dewar_sigv4::Credentials;
use zeroize::Zeroizing;

/// The credential of a request.
#[derive(Debug)]
pub enum Proof {
    /// A signature, and the token of a session if the key is one's.
    Key(Credentials, Option<BearerToken>),
    /// A bearer token.
    Bearer(Tokens),
    /// Nothing.
    Nobody,
}

/// A token. Wiped on drop, never printed.
pub struct BearerToken(pub Zeroizing<String>);

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Bearer tokens that requests use in turn, over all connections. With one token for each request,
/// the server sees each for the first time.
#[derive(Debug)]
pub struct Tokens {
    tokens: Vec<BearerToken>,
    next: AtomicUsize,
}

impl Tokens {
    /// The tokens of a text, one a line; `None` when there is none in it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let tokens: Vec<BearerToken> = lines
            .map(|line| BearerToken(Zeroizing::new(line.to_owned())))
            .collect();
        (!tokens.is_empty()).then_some(Self {
            tokens,
            next: AtomicUsize::new(0),
        })
    }

    /// The token whose turn it is.
    pub(super) fn take(&self) -> &str {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.tokens[turn % self.tokens.len()].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_taken_in_turn_and_never_printed() {
        assert!(Tokens::parse(" \n\n").is_none());
        let tokens = Tokens::parse("first\n\n second \n").expect("two");
        let taken: Vec<&str> = (0..3).map(|_| tokens.take()).collect();
        assert_eq!(taken, ["first", "second", "first"]);
        assert!(!format!("{:?}", Proof::Bearer(tokens)).contains("first"));
    }
}
