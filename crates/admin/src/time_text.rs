//! Times as text.

use dewar_types::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time as RFC 3339 in UTC, to the second. Empty for a time that the format cannot say.
pub fn rfc3339(time: Timestamp) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(time.0))
        .ok()
        .and_then(|time| time.replace_nanosecond(0).ok())
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}
