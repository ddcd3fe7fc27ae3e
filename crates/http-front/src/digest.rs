//! Digests in headers: `Digest` and `Want-Digest` (RFC 3230), `Repr-Digest` and `Want-Repr-Digest`
//! (RFC 9530), Content-MD5, and ownCloud's `OC-Checksum`.

use dewar_checksum::{Algorithm, Digest};
use http::HeaderMap;

use crate::{RequestError, Result, header, value_of};

/// The syntax in which a client asks for a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestFields {
    /// `Want-Digest`, answered by `Digest`.
    Rfc3230,
    /// `Want-Repr-Digest`, answered by `Repr-Digest`.
    Rfc9530,
}

/// CRCs are hexadecimal in `Digest`, by the custom of grid storage. Hashes are base64.
const fn is_hex(algorithm: Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::Adler32 | Algorithm::Crc32 | Algorithm::Crc32c
    )
}

/// The digest that a client asks for: the first of those with the highest weight that Dewar knows. If
/// it asks in both syntaxes, `Want-Digest` counts, as for the reference server of XRootD.
///
/// # Errors
/// [`RequestError::Header`].
pub fn wanted_digest(headers: &HeaderMap) -> Result<Option<(Algorithm, DigestFields)>> {
    let (wanted, fields) = wanted_digests(headers)?;
    Ok(wanted.first().map(|algorithm| (*algorithm, fields)))
}

/// The digests that a client asks for and that Dewar knows, the preferred one first, as
/// [`wanted_digest`].
///
/// # Errors
/// [`RequestError::Header`].
pub fn wanted_digests(headers: &HeaderMap) -> Result<(Vec<Algorithm>, DigestFields)> {
    if let Some(text) = header(headers, "want-digest")? {
        let named = text.split(',').filter_map(|part| {
            let (name, weight) = part.split_once(';').unwrap_or((part, ""));
            let algorithm = Algorithm::from_rfc3230_name(name.trim())?;
            let weight = weight.trim().strip_prefix("q=");
            let weight = weight.map_or(Some(1.0), |weight| weight.trim().parse().ok());
            Some((algorithm, weight?))
        });
        return Ok((by_weight(named), DigestFields::Rfc3230));
    }
    let Some(text) = header(headers, "want-repr-digest")? else {
        return Ok((Vec::new(), DigestFields::Rfc9530));
    };
    let named = text.split(',').filter_map(|part| {
        let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
        let algorithm = Algorithm::from_rfc9530_name(name.trim())?;
        Some((algorithm, weight.trim().parse().ok()?))
    });
    Ok((by_weight(named), DigestFields::Rfc9530))
}

/// Those with a positive weight, the heaviest first; of equal ones, the first stays first.
fn by_weight(named: impl Iterator<Item = (Algorithm, f32)>) -> Vec<Algorithm> {
    let mut wanted: Vec<_> = named.filter(|(_, weight)| *weight > 0.0).collect();
    wanted.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    wanted.into_iter().map(|(algorithm, _)| algorithm).collect()
}

/// Adds a digest of the whole content to an answer. Nothing is added for an algorithm without a name
/// in that syntax.
pub fn digest_fields(headers: &mut HeaderMap, digest: &Digest, fields: DigestFields) {
    let algorithm = digest.algorithm();
    match fields {
        DigestFields::Rfc3230 => {
            if let Some(name) = algorithm.rfc3230_name() {
                let value = match is_hex(algorithm) {
                    true => digest.hex(),
                    false => digest.base64(),
                };
                headers.insert("digest", value_of(&format!("{name}={value}")));
            }
        }
        DigestFields::Rfc9530 => {
            if let Some(name) = algorithm.rfc9530_name() {
                let value = digest.base64();
                headers.insert("repr-digest", value_of(&format!("{name}=:{value}:")));
            }
        }
    }
}

/// The digests that a client declares for the content that it sends, in any of the headers. Algorithms
/// that Dewar does not know are ignored.
///
/// # Errors
/// [`RequestError::Header`]; [`RequestError::Value`] for a known algorithm whose value is malformed.
pub fn declared_digests(headers: &HeaderMap) -> Result<Vec<Digest>> {
    let mut digests = Vec::new();
    let mut add = |name: &str, digest: Option<Digest>| match digest {
        Some(digest) => {
            digests.push(digest);
            Ok(())
        }
        None => Err(RequestError::Value(name.to_owned())),
    };
    for part in list(headers, "digest")? {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        if let Some(algorithm) = Algorithm::from_rfc3230_name(name.trim()) {
            add("Digest", digest_of(algorithm, value.trim()))?;
        }
    }
    for part in list(headers, "repr-digest")? {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        if let Some(algorithm) = Algorithm::from_rfc9530_name(name.trim()) {
            let value = value.trim().strip_prefix(':');
            let value = value.and_then(|value| value.strip_suffix(':'));
            let digest = value.and_then(|value| Digest::from_base64(algorithm, value).ok());
            add("Repr-Digest", digest)?;
        }
    }
    if let Some(value) = header(headers, "content-md5")? {
        let digest = Digest::from_base64(Algorithm::Md5, value.trim());
        add("Content-MD5", digest.ok())?;
    }
    for part in header(headers, "oc-checksum")?
        .unwrap_or_default()
        .split_ascii_whitespace()
    {
        let Some((name, value)) = part.split_once(':') else {
            continue;
        };
        if let Ok(algorithm) = name.parse::<Algorithm>() {
            add("OC-Checksum", Digest::from_hex(algorithm, value).ok())?;
        }
    }
    Ok(digests)
}

/// The digests of the whole content that an answer of another server names in `Digest` and `Repr-Digest`. What
/// is unknown or malformed is ignored: some servers leave the zeros before a CRC out, which is understood.
#[must_use]
pub fn answered_digests(headers: &HeaderMap) -> Vec<Digest> {
    let parts = |name| {
        let values = headers.get_all(name).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        texts.flat_map(|text| text.split(','))
    };
    let old = parts("digest").filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        let algorithm = Algorithm::from_rfc3230_name(name.trim())?;
        let value = value.trim();
        digest_of(algorithm, value).or_else(|| {
            let width = 2 * algorithm.digest_len();
            let short = is_hex(algorithm) && !value.is_empty();
            let padded = short.then(|| format!("{value:0>width$}"))?;
            Digest::from_hex(algorithm, &padded).ok()
        })
    });
    let new = parts("repr-digest").filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        let algorithm = Algorithm::from_rfc9530_name(name.trim())?;
        let value = value.trim().strip_prefix(':')?.strip_suffix(':')?;
        Digest::from_base64(algorithm, value).ok()
    });
    let mut digests: Vec<Digest> = Vec::new();
    for digest in old.chain(new) {
        if !digests.contains(&digest) {
            digests.push(digest);
        }
    }
    digests
}

fn list<'a>(headers: &'a HeaderMap, name: &str) -> Result<impl Iterator<Item = &'a str>> {
    Ok(header(headers, name)?.unwrap_or_default().split(','))
}

/// A value of `Digest`. Some clients write hashes in hexadecimal too.
fn digest_of(algorithm: Algorithm, value: &str) -> Option<Digest> {
    let hex = || Digest::from_hex(algorithm, value).ok();
    match is_hex(algorithm) {
        true => hex(),
        false => Digest::from_base64(algorithm, value).ok().or_else(hex),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = value.parse().expect("a value");
            (HeaderName::from_static(name), value)
        });
        pairs.collect()
    }

    #[test]
    fn the_heaviest_known_algorithm_is_wanted() {
        let wanted = |name, value: &str| wanted_digest(&headers(&[(name, value)])).expect("valid");
        let old = |algorithm| Some((algorithm, DigestFields::Rfc3230));
        let new = |algorithm| Some((algorithm, DigestFields::Rfc9530));
        assert_eq!(wanted("want-digest", "ADLER32"), old(Algorithm::Adler32));
        assert_eq!(
            wanted("want-digest", "unixsum, md5;q=0.3, adler32;q=0.9"),
            old(Algorithm::Adler32)
        );
        assert_eq!(wanted("want-digest", "md5,adler32"), old(Algorithm::Md5));
        assert_eq!(wanted("want-digest", "md5;q=0"), None);
        assert_eq!(
            wanted("want-repr-digest", "sha-256=1, adler=9"),
            new(Algorithm::Adler32)
        );
        let both = headers(&[("want-digest", "md5"), ("want-repr-digest", "adler=1")]);
        assert_eq!(wanted_digest(&both), Ok(old(Algorithm::Md5)));
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        let digest = Digest::new(Algorithm::Adler32, &[0x0a, 1, 2, 3]).expect("four bytes");
        for fields in [DigestFields::Rfc3230, DigestFields::Rfc9530] {
            let mut head = HeaderMap::new();
            digest_fields(&mut head, &digest, fields);
            assert_eq!(declared_digests(&head), Ok(vec![digest]));
        }
        let mut head = HeaderMap::new();
        digest_fields(&mut head, &digest, DigestFields::Rfc3230);
        assert_eq!(head["digest"], "adler32=0a010203");
        let cloud = headers(&[("oc-checksum", "ADLER32:0a010203 UNKNOWN:1")]);
        assert_eq!(declared_digests(&cloud), Ok(vec![digest]));
        for (name, value) in [
            ("digest", "adler32=0a01"),
            ("repr-digest", "adler=0a010203"),
            ("content-md5", "zzz"),
            ("oc-checksum", "MD5:00"),
        ] {
            assert!(
                declared_digests(&headers(&[(name, value)])).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn what_other_servers_answer_is_taken_as_far_as_it_is_understood() {
        let adler = Digest::new(Algorithm::Adler32, &[0, 1, 2, 3]).expect("four bytes");
        for (name, value) in [
            ("digest", "adler32=00010203"),
            ("digest", "ADLER32=10203"),
            ("digest", "unixcksum=1,adler32=00010203,md5=zzz"),
            ("repr-digest", "adler=:AAECAw==:"),
            ("repr-digest", "sha-256=:zz:, adler32=:AAECAw==:"),
        ] {
            let found = answered_digests(&headers(&[(name, value)]));
            assert_eq!(found, [adler], "{value}");
        }
        let both = [
            ("digest", "adler32=10203"),
            ("repr-digest", "adler=:AAECAw==:"),
        ];
        assert_eq!(answered_digests(&headers(&both)), [adler]);
        for (name, value) in [
            ("digest", "adler32="),
            ("digest", "adler32=000102030"),
            ("digest", "adler32=x"),
            ("digest", "md5=00"),
            ("repr-digest", "adler=00010203"),
        ] {
            assert!(answered_digests(&headers(&[(name, value)])).is_empty());
        }
    }
}
