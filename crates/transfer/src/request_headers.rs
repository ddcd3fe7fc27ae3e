//! Headers of requests for a file.

use http::header::RANGE;
use http::{HeaderMap, HeaderValue};

use crate::failure::{FailureCause, TransferFailure};

/// Asks for the checksum of grid storage, in both syntaxes. A server that knows both obeys the first.
pub(crate) fn want_digest(headers: &mut HeaderMap) {
    headers.insert("want-digest", HeaderValue::from_static("adler32"));
    headers.insert("want-repr-digest", HeaderValue::from_static("adler=9"));
}

pub(crate) fn header_value(text: &str) -> Result<HeaderValue, TransferFailure> {
    HeaderValue::from_str(text).map_err(|error| TransferFailure::new(FailureCause::Protocol, error))
}

pub(crate) fn add_range(headers: &mut HeaderMap, range: &str) -> Result<(), TransferFailure> {
    headers.insert(RANGE, header_value(range)?);
    Ok(())
}
