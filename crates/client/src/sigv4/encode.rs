//! Percent-encoding by the rules of the signature: everything but `A-Z a-z 0-9 - . _ ~`, in upper
//! case hex; the slash stays only in paths.

/// Appends `text` encoded as a query name or value.
pub fn percent_encode(text: &str, out: &mut String) {
    encode(text, false, out);
}

/// Appends `text` encoded as a path: slashes stay.
pub fn percent_encode_path(text: &str, out: &mut String) {
    encode(text, true, out);
}

fn encode(text: &str, slash_stays: bool, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~')
            || (slash_stays && byte == b'/');
        if plain {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}
