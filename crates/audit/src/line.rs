//! One line of the log.

use aws_lc_rs::digest::{Context, SHA256};
use dewar_auth::{AuditRecord, BATCH_NAMES_MAX};
use dewar_types::Timestamp;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

/// Longest parts of a record, in bytes: names, paths, reasons. Longer ones are truncated.
const WHO_BYTES_MAX: usize = 512;
const TARGET_BYTES_MAX: usize = 2048;
const WHY_BYTES_MAX: usize = 1024;

/// Longest path of a record that anybody can cause, and of each of the first names of a record for
/// several decisions, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// Longest line in bytes. A longer one is not a line of the log.
pub(crate) const LINE_BYTES_MAX: u64 = 64 << 10;

/// The approximate memory of a record beside its texts, in bytes.
pub(crate) const RECORD_BYTES: usize = 256;

/// A digest over a line and all before it.
pub(crate) type DigestChain = [u8; 32];

/// Before the chain's digits, which end the line.
const CHAIN: &str = ",\"chain\":\"";
const CHAIN_DIGITS: usize = 64;

/// The content of a line. Empty members are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Counts up by one from line to line, across files.
    pub seq: u64,
    /// When it was decided: RFC 3339 in UTC, to the millisecond.
    pub time: String,
    /// `access`, `login`, `session`, `admin` or `log`.
    pub event: String,
    /// `allowed`, `refused` or `failed`.
    pub outcome: String,
    /// The caller.
    pub who: String,
    /// By which credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// From which address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether it came encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    /// The requested action.
    pub action: String,
    /// To what.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// The reason for the decision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The request's id at its door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The number of equal decisions, if more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The first targets of a line for several decisions. `target` is their common folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Cuts a text to so many bytes, and says that it did.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let mut end = bytes_max;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Truncates fields that clients can make long, so that the memory of queued records is bounded.
pub(crate) fn bounded(record: AuditRecord) -> AuditRecord {
    let target_bytes_max = match record.by_nobody {
        true => NAME_BYTES_MAX,
        false => TARGET_BYTES_MAX,
    };
    let names = record.names.into_iter().take(BATCH_NAMES_MAX);
    AuditRecord {
        names: names.map(|name| cut(name, NAME_BYTES_MAX)).collect(),
        who: cut(record.who, WHO_BYTES_MAX),
        credential: record.credential.map(|name| match name.len() {
            0..=WHO_BYTES_MAX => name,
            _ => cut(name.to_string(), WHO_BYTES_MAX).into(),
        }),
        target: cut(record.target, target_bytes_max),
        why: cut(record.why, WHY_BYTES_MAX),
        request: record.request.map(|id| cut(id, WHO_BYTES_MAX)),
        ..record
    }
}

/// A time as lines have it: RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn moment(time: Timestamp) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(time.0))
        .ok()
        .and_then(|time| time.format(&format).ok())
        .unwrap_or_default()
}

impl Line {
    pub(crate) fn new(seq: u64, time: Timestamp, record: AuditRecord) -> Self {
        let address = record.origin.address;
        Self {
            seq,
            time: moment(time),
            event: record.event.as_str().to_owned(),
            outcome: record.outcome.as_str().to_owned(),
            who: record.who,
            credential: record.credential.map(|name| name.to_string()),
            from: address.map(|address| address.to_canonical().to_string()),
            tls: address.map(|_| record.origin.secure),
            action: record.action.into_owned(),
            target: record.target,
            why: record.why,
            request: record.request,
            count: (record.count != 1).then_some(record.count),
            names: record.names,
        }
    }

    /// The line with its end, and the chain up to it.
    pub(crate) fn seal(&self, before: &DigestChain) -> (String, DigestChain) {
        // Texts and numbers can always be written.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        let chain = chained(before, &text);
        text.pop();
        text.push_str(CHAIN);
        for byte in chain {
            text.push_str(&format!("{byte:02x}"));
        }
        text.push_str("\"}\n");
        (text, chain)
    }

    /// Parses a line without its end: its content, the chain that it claims, and the chain that it
    /// must have after `before`. `None` for text that is no line of the log.
    pub(crate) fn open(
        text: &str,
        before: &DigestChain,
    ) -> Option<(Self, DigestChain, DigestChain)> {
        let rest = text.strip_suffix("\"}")?;
        let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(CHAIN_DIGITS)?)?;
        let body = format!("{}}}", rest.strip_suffix(CHAIN)?);
        let mut claimed = [0; 32];
        for (at, byte) in claimed.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        let line = serde_json::from_str(&body).ok()?;
        Some((line, claimed, chained(before, &body)))
    }
}

fn chained(before: &DigestChain, text: &str) -> DigestChain {
    let mut hasher = Context::new(&SHA256);
    hasher.update(before);
    hasher.update(text.as_bytes());
    let mut chain = [0; 32];
    chain.copy_from_slice(hasher.finish().as_ref());
    chain
}
