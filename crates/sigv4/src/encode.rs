//! Percent-encoding as Signature V4 wants it (RFC 3986 unreserved characters, upper-case hex).

use std::borrow::Cow;

const fn is_unreserved(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~')
}

fn push_encoded(out: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(HEX[usize::from(byte >> 4)] as char);
    out.push(HEX[usize::from(byte & 15)] as char);
}

/// Encodes everything but unreserved characters.
pub fn encode_strict(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        if is_unreserved(byte) {
            out.push(byte as char);
        } else {
            push_encoded(out, byte);
        }
    }
}

/// Encodes everything but unreserved characters and `/`.
pub fn encode_path(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        if byte == b'/' || is_unreserved(byte) {
            out.push(byte as char);
        } else {
            push_encoded(out, byte);
        }
    }
}

/// Decodes `%XX`. `None` when an escape is truncated or not hexadecimal.
#[must_use]
pub fn decode_percent(text: &str) -> Option<Cow<'_, [u8]>> {
    decode(text.as_bytes(), false)
}

/// Decodes `%XX`, and `+` as a blank, as query strings have it.
pub(crate) fn decode_query(text: &str) -> Option<Cow<'_, [u8]>> {
    decode(text.as_bytes(), true)
}

fn decode(bytes: &[u8], plus_is_blank: bool) -> Option<Cow<'_, [u8]>> {
    let special = |b: &u8| *b == b'%' || (plus_is_blank && *b == b'+');
    let Some(first) = bytes.iter().position(special) else {
        return Some(Cow::Borrowed(bytes));
    };
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&bytes[..first]);
    let mut rest = &bytes[first..];
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'%' => {
                let [high, low, tail @ ..] = rest else {
                    return None;
                };
                out.push(hex_digit(*high)? << 4 | hex_digit(*low)?);
                rest = tail;
            }
            b'+' if plus_is_blank => out.push(b' '),
            _ => out.push(byte),
        }
    }
    Some(Cow::Owned(out))
}

/// The value of a hexadecimal digit.
#[must_use]
pub const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends bytes as lower-case hexadecimal.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)] as char);
        out.push(HEX[usize::from(byte & 15)] as char);
    }
}

/// Bytes as lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    push_hex(&mut out, bytes);
    out
}

/// 32 bytes from 64 lower-case hexadecimal digits; upper case is not what signers write.
#[must_use]
pub fn parse_hex_32(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    if text.len() != 64 || text.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodes_as_aws_does() {
        let mut out = String::new();
        encode_path(&mut out, "/a b/ü~*'()+%".as_bytes());
        assert_eq!(out, "/a%20b/%C3%BC~%2A%27%28%29%2B%25");
        out.clear();
        encode_strict(&mut out, b"a/b=c&");
        assert_eq!(out, "a%2Fb%3Dc%26");
    }

    #[test]
    fn decodes_only_whole_escapes() {
        assert_eq!(decode_percent("a%2Fb+").as_deref(), Some(&b"a/b+"[..]));
        assert_eq!(decode_query("a%2Fb+").as_deref(), Some(&b"a/b "[..]));
        for bad in ["%", "%4", "%zz", "a%2"] {
            assert_eq!(decode_percent(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_path_encodes_the_same_whatever_its_sender_left_plain(name in "\\PC{1,40}") {
            let mut strict = String::new();
            encode_path(&mut strict, name.as_bytes());
            let decoded = decode_percent(&strict).expect("just encoded");
            prop_assert_eq!(&*decoded, name.as_bytes());
        }
    }
}
