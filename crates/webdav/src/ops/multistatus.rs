//! Answers of status 207.

use bytes::Bytes;
use dewar_http_front::{Answer, stream_answer, typed_answer};
use dewar_store::api::BucketRef;
use dewar_store::file::TreeReport;
use dewar_types::Result;
use futures_util::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::delete::path_of;
use crate::error::status_of;
use crate::xml::push_href_element;

pub(super) const BEGIN: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
    <D:multistatus xmlns:D=\"DAV:\" xmlns:oc=\"http://owncloud.org/ns\" xmlns:dw=\"urn:dewar:webdav\">\n";

pub(super) const END: &str = "</D:multistatus>\n";

const KIND: &str = "application/xml; charset=utf-8";

/// An answer whose whole document is known.
pub(super) fn whole_answer(document: String) -> Answer {
    typed_answer(StatusCode::MULTI_STATUS, KIND, document)
}

/// An answer whose document is written while it is sent.
pub(super) fn streamed_answer(
    stream: impl Stream<Item = Result<Bytes>> + Send + 'static,
) -> Answer {
    let mut answer = stream_answer(StatusCode::MULTI_STATUS, stream);
    let kind = HeaderValue::from_static(KIND);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// Appends the line with a status.
pub(super) fn push_status(out: &mut String, status: StatusCode) {
    out.push_str("<D:status>HTTP/1.1 ");
    out.push_str(status.as_str());
    out.push(' ');
    out.push_str(status.canonical_reason().unwrap_or("Unknown"));
    out.push_str("</D:status>");
}

/// Appends the status of a resource as a whole.
pub(super) fn push_resource_status(
    out: &mut String,
    path: &str,
    is_directory: bool,
    status: StatusCode,
) {
    out.push_str("<D:response>");
    push_href_element(out, path, is_directory);
    push_status(out, status);
    out.push_str("</D:response>\n");
}

/// The answer to a change of a directory that failed for some of the names in it.
pub(super) fn failures_answer(bucket: &BucketRef, report: &TreeReport) -> Answer {
    let mut document = String::from(BEGIN);
    for (key, error) in &report.failures {
        let path = path_of(bucket, key);
        let path = path.trim_end_matches('/');
        let is_directory = key.ends_with('/');
        push_resource_status(&mut document, path, is_directory, status_of(error.kind()));
    }
    document.push_str(END);
    whole_answer(document)
}
