//! Hrefs in answers.

use super::push_escaped;

/// Appends a path as an href. It encodes only what RFC 3986 forbids in a segment, because clients
/// compare hrefs with their own paths byte for byte.
pub(crate) fn push_href(out: &mut String, path: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path.as_bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Appends the href of a resource; one of a directory ends with a slash.
pub(crate) fn push_href_element(out: &mut String, path: &str, is_directory: bool) {
    out.push_str("<D:href>");
    let mut href = String::with_capacity(path.len() + 16);
    push_href(&mut href, path);
    if is_directory && !path.ends_with('/') {
        href.push('/');
    }
    push_escaped(out, &href);
    out.push_str("</D:href>");
}
