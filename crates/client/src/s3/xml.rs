//! A minimal reader for S3's answers: the text of named elements. It is not a parser. The documents
//! are flat and written by servers, and the caller's checks detect a wrong one.

/// The text of the first element `name`, with entities resolved.
pub(super) fn text(document: &str, name: &str) -> Option<String> {
    let (raw, _) = first(document, name)?;
    Some(unescape(raw))
}

/// The number of elements `name`, and the texts (entities unresolved) of first and last.
pub(super) fn count<'a>(document: &'a str, name: &str) -> (u64, Option<(&'a str, &'a str)>) {
    let (mut count, mut ends, mut rest) = (0, None, document);
    while let Some((raw, after)) = first(rest, name) {
        count += 1;
        ends = Some((ends.map_or(raw, |(first, _)| first), raw));
        rest = after;
    }
    (count, ends)
}

/// The raw text of the first element `name`, and what follows the element.
fn first<'a>(document: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = document;
    loop {
        let at = rest.find('<')?;
        rest = &rest[at + 1..];
        let Some(after) = rest.strip_prefix(name) else {
            continue;
        };
        let Some(body) = after.strip_prefix('>') else {
            continue;
        };
        let end = body.find('<')?;
        return Some((&body[..end], &body[end..]));
    }
}

/// Resolves the predefined entities and numbered characters.
pub(super) fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find(';') else { break };
        let entity = &rest[1..end];
        let number = entity
            .strip_prefix('#')
            .and_then(|n| match n.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => n.parse().ok(),
            });
        match (entity, number.and_then(char::from_u32)) {
            ("amp", _) => out.push('&'),
            ("lt", _) => out.push('<'),
            ("gt", _) => out.push('>'),
            ("quot", _) => out.push('"'),
            ("apos", _) => out.push('\''),
            (_, Some(character)) => out.push(character),
            _ => out.push_str(&rest[..=end]),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_entities() {
        let document = "<?xml version=\"1.0\"?><A xmlns=\"x\"><KeyCount>2</KeyCount>\
                        <C><Key>a&amp;b&#13;&#x3c;</Key></C><C><Key>z</Key></C><Empty></Empty></A>";
        assert_eq!(text(document, "Key").unwrap(), "a&b\r<");
        assert_eq!(text(document, "Empty").unwrap(), "");
        assert_eq!(text(document, "None"), None);
        let (keys, ends) = count(document, "Key");
        assert_eq!((keys, ends.unwrap().1), (2, "z"));
        assert_eq!(
            unescape("a & b; &bogus; &#xffffffff;"),
            "a & b; &bogus; &#xffffffff;"
        );
    }
}
