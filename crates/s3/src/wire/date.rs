//! Dates in S3's documents.

use dewar_http_front::moment;
use dewar_types::Timestamp;

/// A date as S3 has it in XML: in milliseconds.
pub(crate) fn xml_date(when: Timestamp) -> s3s::dto::Timestamp {
    let whole = Timestamp(when.millis().saturating_mul(1_000_000));
    moment(whole).into()
}
