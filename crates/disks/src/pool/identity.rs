//! The identity file of a disk: text that an administrator can read, with a checksum at the end.

use std::fmt;

use dewar_checksum::crc32c;
use dewar_types::{DiskId, Timestamp};
use thiserror::Error;

/// The identity file's name in the disk's folder.
pub const IDENTITY_FILE: &str = "dewar-disk";

const FIRST_LINE: &str = "Dewar disk, format 1";
const BYTES_MAX: usize = 4096;

/// A deployment: random, made when its first disk is formatted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DewarId(pub u128);

impl fmt::Display for DewarId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for DewarId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DewarId({self})")
    }
}

/// The identity record of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The Dewar that the disk belongs to.
    pub dewar: DewarId,
    /// Id of the disk.
    pub disk: DiskId,
    /// Of which pool.
    pub pool: u16,
    /// When it was formatted.
    pub created: Timestamp,
    /// The disk that it was formatted to take the place of.
    pub replaces: Option<DiskId>,
}

/// Why a file is not an identity.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum IdentityError {
    /// It does not begin as one of this format does.
    #[error("it does not begin with {FIRST_LINE:?}: no identity file, or of a newer Dewar")]
    Format,
    /// A line is missing or makes no sense.
    #[error("its line {0:?} is missing or makes no sense")]
    Line(&'static str),
    /// The checksum at its end does not fit.
    #[error("its checksum does not fit: it was changed or damaged")]
    Checksum,
}

impl Identity {
    /// The file's content.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut body = format!(
            "{FIRST_LINE}\ndewar = {}\ndisk = {}\npool = {}\ncreated = {}\n",
            self.dewar, self.disk, self.pool, self.created.0
        );
        if let Some(replaces) = self.replaces {
            body.push_str(&format!("replaces = {replaces}\n"));
        }
        let sum = crc32c(body.as_bytes());
        format!("{body}crc32c = {sum:08x}\n")
    }

    /// Parses the file's content.
    ///
    /// # Errors
    /// [`IdentityError`] for anything that [`Identity::to_text`] did not write.
    pub fn parse(bytes: &[u8]) -> Result<Self, IdentityError> {
        let text = core::str::from_utf8(bytes).map_err(|_| IdentityError::Format)?;
        if text.len() > BYTES_MAX || text.lines().next() != Some(FIRST_LINE) {
            return Err(IdentityError::Format);
        }
        let (body, last) = text
            .trim_end_matches('\n')
            .rsplit_once('\n')
            .map(|(body, last)| (&text[..=body.len()], last))
            .ok_or(IdentityError::Checksum)?;
        if last != format!("crc32c = {:08x}", crc32c(body.as_bytes())) {
            return Err(IdentityError::Checksum);
        }
        let value = |name: &'static str| {
            body.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))
                .ok_or(IdentityError::Line(name))
        };
        let hex =
            |name| u128::from_str_radix(value(name)?, 16).map_err(|_| IdentityError::Line(name));
        Ok(Self {
            dewar: DewarId(hex("dewar")?),
            disk: DiskId(hex("disk")?),
            pool: value("pool")?
                .parse()
                .map_err(|_| IdentityError::Line("pool"))?,
            created: value("created")?
                .parse()
                .map(Timestamp)
                .map_err(|_| IdentityError::Line("created"))?,
            replaces: match value("replaces") {
                Ok(_) => Some(DiskId(hex("replaces")?)),
                Err(_) => None,
            },
        })
    }
}

/// Fuzz target: nothing panics, and a parsed identity prints to the same text.
pub fn fuzz_identity(bytes: &[u8]) {
    let comes_back = |bytes: &[u8]| {
        if let Ok(identity) = Identity::parse(bytes) {
            assert_eq!(Identity::parse(identity.to_text().as_bytes()), Ok(identity));
        }
    };
    comes_back(bytes);
    // Behind a wrong checksum little is looked at.
    if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
        let mut sealed = bytes[..=end].to_vec();
        let sum = crc32c(&sealed);
        sealed.extend_from_slice(format!("crc32c = {sum:08x}\n").as_bytes());
        comes_back(&sealed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Identity {
        Identity {
            dewar: DewarId(0x1234_5678_9abc),
            disk: DiskId(u128::MAX - 1),
            pool: 3,
            created: Timestamp(1_760_000_000_123_456_789),
            replaces: None,
        }
    }

    #[test]
    fn reads_what_it_writes() {
        let text = sample().to_text();
        assert_eq!(Identity::parse(text.as_bytes()), Ok(sample()), "{text}");
        let new = Identity {
            replaces: Some(DiskId(77)),
            ..sample()
        };
        let text = new.to_text();
        assert_eq!(Identity::parse(text.as_bytes()), Ok(new), "{text}");
    }

    /// The example of docs/formats/disk.md, whose checksum another implementation computed.
    #[test]
    fn version_1_is_read_and_still_written() {
        let text = "Dewar disk, format 1\ndewar = 5a3d00000000000000000000000000a1\n\
            disk = 1b4f07a5ab3d8e9c11361bf526a14bb5\npool = 0\ncreated = 1760000000123456789\n\
            crc32c = b0ec96da\n";
        let identity = Identity::parse(text.as_bytes()).expect("reads");
        assert_eq!(
            identity.disk,
            DiskId(0x1b4f_07a5_ab3d_8e9c_1136_1bf5_26a1_4bb5)
        );
        assert_eq!(identity.to_text(), text);
    }

    #[test]
    fn notices_every_changed_byte() {
        let text = sample().to_text().into_bytes();
        for at in 0..text.len() - 1 {
            let mut bad = text.clone();
            bad[at] ^= 1;
            assert!(Identity::parse(&bad).is_err(), "byte {at}");
        }
        for cut in 0..text.len() - 1 {
            assert!(Identity::parse(&text[..cut]).is_err(), "cut at {cut}");
        }
    }
}
