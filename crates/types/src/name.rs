//! Names, checked once at the wire.

use core::fmt;

use thiserror::Error;

/// Longest object key in bytes of UTF-8.
pub const KEY_BYTES_MAX: usize = 1024;

/// Why a name is refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{name:?} is not a valid {what}: {reason}")]
pub struct NameError {
    /// The kind of name that was expected.
    pub what: &'static str,
    /// The name, cut to 128 characters.
    pub name: String,
    /// Why not.
    pub reason: &'static str,
}

fn refuse(what: &'static str, name: &str, reason: &'static str) -> NameError {
    NameError {
        what,
        name: name.chars().take(128).collect(),
        reason,
    }
}

/// A bucket's name: 3 to 63 of a-z, 0-9, `-` and `.`, as S3 has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName(Box<str>);

impl BucketName {
    /// # Errors
    /// When the name breaks S3's bucket naming rules.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let no = |reason| Err(refuse("bucket name", name, reason));
        if !(3..=63).contains(&name.len()) {
            return no("its length must be 3 to 63");
        }
        if !name
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        {
            return no("only a-z, 0-9, '-' and '.' may stand in it");
        }
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        if !edge(name.bytes().next()) || !edge(name.bytes().next_back()) {
            return no("it must begin and end with a letter or digit");
        }
        if name.contains("..") || name.contains(".-") || name.contains("-.") {
            return no("labels between dots must begin and end with a letter or digit");
        }
        if name.parse::<core::net::Ipv4Addr>().is_ok() {
            return no("it must not look like an IP address");
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A key inside a bucket: 1 to [`KEY_BYTES_MAX`] bytes of any UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Box<str>);

impl ObjectKey {
    /// # Errors
    /// When the key is empty or longer than [`KEY_BYTES_MAX`].
    pub fn new(key: &str) -> Result<Self, NameError> {
        if key.is_empty() {
            return Err(refuse("object key", key, "it is empty"));
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(refuse("object key", key, "it is longer than 1024 bytes"));
        }
        Ok(Self(key.into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names of the directories on the path, then the name of the entry; empty segments are
    /// names (RECORDS.md section 1). `a//b/` gives `["a", "", "b"]` and `""`.
    #[must_use]
    pub fn split(&self) -> (Vec<&str>, &str) {
        let mut dirs: Vec<&str> = self.0.split('/').collect();
        let name = dirs.pop().unwrap_or_default();
        (dirs, name)
    }
}

/// A tenant's name; the default tenant's is empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TenantName(Box<str>);

impl TenantName {
    /// # Errors
    /// When it is longer than 63 bytes or holds anything but letters, digits, `-` and `_`.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.len() > 63 {
            return Err(refuse("tenant name", name, "it is longer than 63 bytes"));
        }
        if !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        {
            return Err(refuse(
                "tenant name",
                name,
                "only letters, digits, '-' and '_'",
            ));
        }
        Ok(Self(name.into()))
    }

    /// The name as text; empty for the default tenant.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the default tenant.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }
}

macro_rules! text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    )*};
}
text!(BucketName, ObjectKey, TenantName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names_follow_s3() {
        for good in ["abc", "a-b.c", "123", "my.bucket-1"] {
            assert!(BucketName::new(good).is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "",
            "ab",
            "Abc",
            "a_b",
            "-ab",
            "ab-",
            "a..b",
            "a.-b",
            "192.168.0.1",
            &long,
        ] {
            assert!(BucketName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_split_with_empty_segments() {
        let split = |k: &str| {
            let key = ObjectKey::new(k).expect("valid");
            let (dirs, name) = key.split();
            (dirs.join("|"), dirs.len(), name.to_owned())
        };
        assert_eq!(split("a"), (String::new(), 0, "a".into()));
        assert_eq!(split("a/"), ("a".into(), 1, String::new()));
        assert_eq!(split("a//b"), ("a|".into(), 2, "b".into()));
        assert_eq!(split("/"), (String::new(), 1, String::new()));
    }
}
