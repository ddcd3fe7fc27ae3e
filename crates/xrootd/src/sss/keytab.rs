//! The file with the keys of services.
//!
//! A line for each key: a version, then fields with a letter each, like
//! `0 u:alice g:users n:service N:6788456382041358337 c:1700000000 e:0 k:0123…`. Other fields of a
//! line are ignored.

use std::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

/// Shortest and longest keys that Blowfish takes, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 4..=56;

/// The users that a key may represent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyUser {
    /// This user.
    Named(String),
    /// Whomever the client names (`anybody`, `allusers`).
    Any,
}

/// A key that a service shares with this server.
pub struct SssKey {
    /// Its number, by which a client names it.
    pub number: i64,
    /// Users that the key may represent.
    pub user: KeyUser,
    /// Whether its credentials are valid from any address (a key's name that ends in `+`).
    pub anywhere: bool,
    /// When it ends, in seconds since 1970; 0 for never.
    pub expires: u64,
    pub(super) value: Zeroizing<Vec<u8>>,
}

/// What tells keys apart without being secret: the number, and whom it speaks for if not anybody.
pub(crate) type KeyId = (i64, Option<String>);

impl SssKey {
    pub(super) fn id(&self) -> KeyId {
        let user = match &self.user {
            KeyUser::Named(user) => Some(user.clone()),
            KeyUser::Any => None,
        };
        (self.number, user)
    }
}

impl fmt::Debug for SssKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SssKey")
            .field("number", &self.number)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A line is none of a keytab.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct KeytabError {
    line: usize,
    what: &'static str,
}

/// Reads the keys of a keytab.
///
/// # Errors
/// The first line that cannot be read. The error does not repeat its text, which may be a key.
pub fn parse_keytab(text: &str) -> Result<Vec<SssKey>, KeytabError> {
    let lines = text.lines().zip(1..);
    lines
        .filter(|(text, _)| !text.trim().is_empty())
        .map(|(text, line)| key(text).map_err(|what| KeytabError { line, what }))
        .collect()
}

fn key(line: &str) -> Result<SssKey, &'static str> {
    let mut fields = line.split_ascii_whitespace();
    if !matches!(fields.next(), Some("0" | "1")) {
        return Err("it begins with no version that is known");
    }
    let (mut number, mut value, mut user) = (None, None, KeyUser::Named("nobody".to_owned()));
    let (mut anywhere, mut expires) = (false, 0);
    for field in fields {
        let Some((letter, text)) = field.split_once(':') else {
            return Err("a field without a letter and a colon");
        };
        match letter {
            "N" => number = Some(text.parse().map_err(|_| "a key's number (N:) is none")?),
            "e" => expires = text.parse().map_err(|_| "a key's end (e:) is no time")?,
            "k" => value = Some(bytes(text).ok_or("a key (k:) is not hexadecimal")?),
            "n" => anywhere = text.ends_with('+'),
            "u" if matches!(text, "anybody" | "allusers") => user = KeyUser::Any,
            "u" => user = KeyUser::Named(text.to_owned()),
            _ => {}
        }
    }
    let value = value.ok_or("there is no key (k:)")?;
    if !KEY_BYTES.contains(&value.len()) {
        return Err("a key (k:) is shorter than 4 bytes or longer than 56");
    }
    Ok(SssKey {
        number: number.ok_or("there is no key's number (N:)")?,
        user,
        anywhere,
        expires,
        value,
    })
}

fn bytes(hex: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digits = hex.as_bytes().chunks_exact(2);
    if !digits.remainder().is_empty() {
        return None;
    }
    let byte = |pair: &[u8]| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()
    };
    digits
        .map(byte)
        .collect::<Option<Vec<_>>>()
        .map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_mistakes_named_by_line() {
        let text = "0 u:ann g:users n:svc N:7 c:1 e:99 k:00ff10ab\n\n\
                    1 u:anybody n:far+ N:-8 e:0 f:3 k:0123456789abcdef\n";
        let keys = parse_keytab(text).expect("sound");
        assert_eq!(keys.len(), 2);
        assert_eq!(keys[0].user, KeyUser::Named("ann".to_owned()));
        assert_eq!(
            (keys[0].number, keys[0].expires, keys[0].anywhere),
            (7, 99, false)
        );
        assert_eq!(keys[0].value[..], [0, 0xff, 0x10, 0xab]);
        assert_eq!(
            (keys[1].number, keys[1].expires, keys[1].anywhere),
            (-8, 0, true)
        );
        assert_eq!(keys[1].user, KeyUser::Any);
        for bad in [
            "u:ann N:1 k:00112233",
            "0 u:ann N:1",
            "0 u:ann k:00112233",
            "0 N:1 k:001122",
            "0 N:1 k:0011223",
            "0 N:1 k:0011223g",
            "0 N:x k:00112233",
            "0 N:1 e:soon k:00112233",
            "0 nothing N:1 k:00112233",
        ] {
            let error = parse_keytab(&format!("\n{bad}")).expect_err(bad);
            assert_eq!(error.line, 2);
            assert!(!error.to_string().contains("0011"), "{error}");
        }
    }
}
