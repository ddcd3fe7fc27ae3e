//! Macaroons: bearer tokens that the bearer can restrict without the server (Birgisson et al.,
//! "Macaroons: Cookies with Contextual Caveats", NDSS 2014; the formats of libmacaroons).
//!
//! A macaroon is an identifier and a list of caveats, with a chain of HMAC-SHA256 over them that
//! begins at a root key. The bearer can add a caveat and extend the chain. Nobody can remove one.
//! The identifier is a sealed [`crate::Session`], and the root key is the session's secret, which
//! is never given out. Any gateway with the master key can therefore verify a macaroon. The rights
//! of its user are looked up at each use, and revocation works as for sessions.
//!
//! All caveats are first-party. A macaroon with an unknown caveat allows nothing ([`Caveats`]).

mod caveat;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

pub use caveat::{CaveatError, Caveats, before_caveat};

use crate::Secret;

/// Longest macaroon in characters: the longest session as its identifier, and caveats. It fits into
/// a header.
const TEXT_CHARS_MAX: usize = 24 * 1024;
/// Most caveats.
const CAVEATS_MAX: usize = 64;
/// Under what root keys become keys of the chain.
const GENERATOR: &[u8] = b"macaroons-key-generator";
const SIGNATURE_BYTES: usize = 32;

/// With padding or without: clients do both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a macaroon cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MacaroonError {
    /// None, or cut.
    #[error("not a macaroon")]
    Malformed,
    /// A caveat that needs the agreement of a third party.
    #[error("the macaroon has a caveat for a third party")]
    ThirdParty,
    /// Too long, or too many caveats.
    #[error("the macaroon is too long")]
    TooLong,
}

/// A macaroon as it came, not proven.
#[derive(Clone, PartialEq, Eq)]
pub struct Macaroon {
    location: String,
    identifier: String,
    caveats: Vec<String>,
    signature: [u8; SIGNATURE_BYTES],
}

impl std::fmt::Debug for Macaroon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Macaroon")
            .field("caveats", &self.caveats)
            .finish_non_exhaustive()
    }
}

fn mac(key: &[u8], text: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut out = [0; SIGNATURE_BYTES];
    out.copy_from_slice(hmac::sign(&key, text).as_ref());
    out
}

fn begin(root: &Secret, identifier: &str) -> [u8; SIGNATURE_BYTES] {
    let key = mac(GENERATOR, root.reveal().as_bytes());
    mac(&key, identifier.as_bytes())
}

impl Macaroon {
    /// A new one, without a caveat. `location` is a hint for people.
    #[must_use]
    pub fn mint(location: &str, identifier: &str, root: &Secret) -> Self {
        Self {
            location: location.to_owned(),
            identifier: identifier.to_owned(),
            caveats: Vec::new(),
            signature: begin(root, identifier),
        }
    }

    /// Narrows it.
    #[must_use]
    pub fn with(mut self, caveat: &str) -> Self {
        self.signature = mac(&self.signature, caveat.as_bytes());
        self.caveats.push(caveat.to_owned());
        self
    }

    /// The identifier.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// The caveats.
    #[must_use]
    pub fn caveats(&self) -> &[String] {
        &self.caveats
    }

    /// Whether its chain begins at this root key.
    #[must_use]
    pub fn is_rooted_in(&self, root: &Secret) -> bool {
        let caveats = self.caveats.iter();
        let signature = caveats.fold(begin(root, &self.identifier), |before, caveat| {
            mac(&before, caveat.as_bytes())
        });
        signature.ct_eq(&self.signature).into()
    }

    /// The wire form: version 1 in base64, which every implementation reads.
    #[must_use]
    pub fn text(&self) -> Secret {
        let mut bytes = Vec::new();
        let mut packet = |key: &str, value: &[u8]| {
            let len = 4 + key.len() + 1 + value.len() + 1;
            bytes.extend_from_slice(format!("{len:04x}{key} ").as_bytes());
            bytes.extend_from_slice(value);
            bytes.push(b'\n');
        };
        packet("location", self.location.as_bytes());
        packet("identifier", self.identifier.as_bytes());
        for caveat in &self.caveats {
            packet("cid", caveat.as_bytes());
        }
        packet("signature", &self.signature);
        Secret::new(BASE64.encode(bytes))
    }

    /// Parses a macaroon of version 1 or 2 (both binary, in base64).
    ///
    /// # Errors
    /// [`MacaroonError`].
    pub fn parse(text: &str) -> Result<Self, MacaroonError> {
        if text.len() > TEXT_CHARS_MAX {
            return Err(MacaroonError::TooLong);
        }
        let bytes = BASE64.decode(text).map_err(|_| MacaroonError::Malformed)?;
        let parts = match bytes.first() {
            Some(2) => version_2(&bytes[1..])?,
            Some(_) => version_1(&bytes)?,
            None => return Err(MacaroonError::Malformed),
        };
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map_err(|_| MacaroonError::Malformed)?;
            Ok::<_, MacaroonError>(text.to_owned())
        };
        if parts.caveats.len() > CAVEATS_MAX {
            return Err(MacaroonError::TooLong);
        }
        let caveats = parts.caveats.iter().map(|caveat| text(caveat));
        Ok(Self {
            location: text(parts.location)?,
            identifier: text(parts.identifier)?,
            caveats: caveats.collect::<Result<_, _>>()?,
            signature: parts
                .signature
                .try_into()
                .map_err(|_| MacaroonError::Malformed)?,
        })
    }
}

#[derive(Default)]
struct Parts<'a> {
    location: &'a [u8],
    identifier: &'a [u8],
    caveats: Vec<&'a [u8]>,
    signature: &'a [u8],
}

/// Packets: four hexadecimal digits of length, a word, a space, the value, a newline.
fn version_1(mut rest: &[u8]) -> Result<Parts<'_>, MacaroonError> {
    let malformed = MacaroonError::Malformed;
    let mut parts = Parts::default();
    // Which part comes next: they stand in one order.
    let mut at = 0;
    while !rest.is_empty() {
        let digits = rest.get(..4).and_then(|d| std::str::from_utf8(d).ok());
        let len = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let len = len.filter(|len| *len > 5).ok_or(malformed)?;
        let (packet, behind) = rest.split_at_checked(len).ok_or(malformed)?;
        rest = behind;
        let body = packet[4..].strip_suffix(b"\n").ok_or(malformed)?;
        let space = body
            .iter()
            .position(|byte| *byte == b' ')
            .ok_or(malformed)?;
        let (key, value) = (&body[..space], &body[space + 1..]);
        let next = match key {
            b"location" => {
                parts.location = value;
                1
            }
            b"identifier" => {
                parts.identifier = value;
                2
            }
            b"cid" => {
                parts.caveats.push(value);
                3
            }
            b"signature" => {
                parts.signature = value;
                4
            }
            b"vid" | b"cl" => return Err(MacaroonError::ThirdParty),
            _ => return Err(malformed),
        };
        if next < at || (next == at && next != 3) || (next >= 3 && at < 2) {
            return Err(malformed);
        }
        at = next;
    }
    if at == 4 { Ok(parts) } else { Err(malformed) }
}

const LOCATION: u64 = 1;
const IDENTIFIER: u64 = 2;
const VERIFICATION: u64 = 4;
const SIGNATURE: u64 = 6;

/// Fields: a type and a length as varints, the value; a 0 ends a section.
fn version_2(mut rest: &[u8]) -> Result<Parts<'_>, MacaroonError> {
    let malformed = MacaroonError::Malformed;
    let mut parts = Parts::default();
    let (location, identifier) = section(&mut rest)?;
    parts.location = location;
    parts.identifier = identifier.ok_or(malformed)?;
    loop {
        if rest.first() == Some(&0) {
            rest = &rest[1..];
            break;
        }
        let (_, caveat) = section(&mut rest)?;
        parts.caveats.push(caveat.ok_or(malformed)?);
        if parts.caveats.len() > CAVEATS_MAX {
            return Err(MacaroonError::TooLong);
        }
    }
    let (kind, value) = field(&mut rest)?.ok_or(malformed)?;
    if kind != SIGNATURE || !rest.is_empty() {
        return Err(malformed);
    }
    parts.signature = value;
    Ok(parts)
}

/// The fields up to the next 0: location and identifier.
fn section<'a>(rest: &mut &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), MacaroonError> {
    let (mut location, mut identifier) = (&[][..], None);
    while let Some((kind, value)) = field(rest)? {
        match kind {
            LOCATION if identifier.is_none() => location = value,
            IDENTIFIER if identifier.is_none() => identifier = Some(value),
            VERIFICATION => return Err(MacaroonError::ThirdParty),
            _ => return Err(MacaroonError::Malformed),
        }
    }
    Ok((location, identifier))
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<Option<(u64, &'a [u8])>, MacaroonError> {
    let kind = varint(rest)?;
    if kind == 0 {
        return Ok(None);
    }
    let len = usize::try_from(varint(rest)?).map_err(|_| MacaroonError::Malformed)?;
    let (value, behind) = rest.split_at_checked(len).ok_or(MacaroonError::Malformed)?;
    *rest = behind;
    Ok(Some((kind, value)))
}

fn varint(rest: &mut &[u8]) -> Result<u64, MacaroonError> {
    let mut value = 0;
    for shift in [0, 7, 14] {
        let (byte, behind) = rest.split_first().ok_or(MacaroonError::Malformed)?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(MacaroonError::Malformed)
}

/// For the fuzzer: every input is parsed or refused, and a parsed macaroon is the same after it was
/// written and parsed again.
#[doc(hidden)]
pub fn fuzz_macaroon(data: &[u8]) {
    if let Ok(macaroon) = Macaroon::parse(&BASE64.encode(data)) {
        let again = Macaroon::parse(macaroon.text().reveal());
        assert!(again.is_ok_and(|again| again == macaroon));
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = Macaroon::parse(text);
    let caveats: Vec<String> = text.lines().map(str::to_owned).collect();
    let _ = Caveats::parse(&caveats);
}

#[cfg(test)]
mod tests;
