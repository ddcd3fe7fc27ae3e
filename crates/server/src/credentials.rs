//! Access keys and secrets: generating them, and checking keys that a user brings along.

use dewar_auth::Secret;
use dewar_env::Rng;
use zeroize::Zeroizing;

/// 32 letters that are easy to distinguish, and safe in every header, URL and file name.
const ACCESS_KEY_LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Letters without `/` and `+`, which some clients damage in URLs and configuration lines.
const SECRET_LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

const ACCESS_KEY_LENGTH: usize = 20;

/// 40 of 62 letters: 238 bits.
const SECRET_LENGTH: usize = 40;

/// A new access key id.
#[must_use]
pub fn access_key(rng: &dyn Rng) -> String {
    let mut text = String::from("DW");
    push_letters(&mut text, ACCESS_KEY_LETTERS, ACCESS_KEY_LENGTH, rng);
    text
}

/// A new secret; `rng` must be fit for keys.
#[must_use]
pub fn secret_key(rng: &dyn Rng) -> Secret {
    let mut text = String::with_capacity(SECRET_LENGTH);
    push_letters(&mut text, SECRET_LETTERS, SECRET_LENGTH, rng);
    Secret::new(text)
}

/// Fills up to `length` with letters that are all equally likely.
fn push_letters(text: &mut String, letters: &[u8], length: usize, rng: &dyn Rng) {
    // Bytes beyond a whole multiple would make the first letters likelier.
    let fair = 256 - 256 % letters.len();
    let mut bytes = Zeroizing::new([0_u8; 64]);
    while text.len() < length {
        rng.fill(&mut *bytes);
        for byte in bytes.iter().map(|&byte| usize::from(byte)) {
            if byte < fair && text.len() < length {
                text.push(char::from(letters[byte % letters.len()]));
            }
        }
    }
}

/// Checks whether `text` can be an access key id. It must not contain a slash, because a slash ends
/// it in a credential scope.
///
/// # Errors
/// A sentence with the allowed form.
pub fn check_access_key(text: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (3..=128).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(());
    }
    Err("an access key is 3 to 128 letters, digits, dots, dashes or underscores".to_owned())
}

/// Checks whether `secret` can be the secret of an access key.
///
/// # Errors
/// A sentence with the allowed form, without any part of the secret.
pub fn check_secret_key(secret: &Secret) -> Result<(), String> {
    let text = secret.reveal();
    if (8..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err("a secret key is 8 to 128 visible ASCII characters without spaces".to_owned())
}

/// Checks whether `text` can be the name of a user.
///
/// # Errors
/// A sentence with the allowed form.
pub fn check_user_name(text: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+=,".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(());
    }
    Err(format!(
        "{text:?} is no user name: 1 to 64 letters, digits or any of . _ - @ + = ,"
    ))
}

#[cfg(test)]
mod tests {
    use dewar_env::RealRng;

    use super::*;

    #[test]
    fn what_is_made_up_is_allowed_and_new_each_time() {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let (key, secret) = (access_key(&RealRng), secret_key(&RealRng));
            assert_eq!((key.len(), secret.reveal().len()), (20, 40));
            check_access_key(&key).expect("allowed");
            check_secret_key(&secret).expect("allowed");
            assert!(seen.insert(key) && seen.insert(secret.reveal().to_owned()));
        }
    }

    #[test]
    fn letters_are_equally_likely() {
        /// Counts through all bytes.
        struct Counting(std::sync::atomic::AtomicU8);
        impl Rng for Counting {
            fn fill(&self, bytes: &mut [u8]) {
                for byte in bytes {
                    *byte = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            }
        }
        let rng = Counting(std::sync::atomic::AtomicU8::new(0));
        let mut text = String::new();
        push_letters(&mut text, SECRET_LETTERS, 62 * 40, &rng);
        for letter in SECRET_LETTERS {
            let count = text.bytes().filter(|byte| byte == letter).count();
            assert_eq!(count, 40, "{}", char::from(*letter));
        }
    }

    #[test]
    fn what_breaks_a_wire_is_refused() {
        assert!(check_access_key("a/b").is_err());
        assert!(check_access_key("ab").is_err());
        assert!(check_access_key("").is_err());
        let secret = |text: &str| check_secret_key(&Secret::new(text.to_owned()));
        assert!(secret("short").is_err());
        let said = secret("with a space").expect_err("refused");
        assert!(!said.contains("with a"));
        assert!(check_user_name("alice@example.org").is_ok());
        for bad in ["", "a b", "a/b", "ü", &"x".repeat(65)] {
            assert!(check_user_name(bad).is_err(), "{bad}");
        }
    }
}
