//! Answers with XML.

use bytes::Bytes;
use dewar_http_front::{Answer, typed_answer};
use http::StatusCode;

use crate::error::{Code, Refusal, Result};

/// An answer with XML that is text already.
pub(crate) fn text_answer(status: StatusCode, xml: impl Into<Bytes>) -> Answer {
    typed_answer(status, "application/xml", xml)
}

/// An answer with one of S3's documents.
pub(crate) fn xml_answer(document: &impl s3s::xml::Serialize) -> Result<Answer> {
    Ok(text_answer(StatusCode::OK, xml_text(document, true)?))
}

/// A document as XML text, with or without the declaration. Control characters in a key are written
/// as references. Readers turn a bare carriage return into a line feed (XML 1.0 section 2.11),
/// which is another key. The other control characters are not allowed in a document at all. S3
/// writes them in the same way.
pub(crate) fn xml_text(document: &impl s3s::xml::Serialize, declaration: bool) -> Result<Vec<u8>> {
    let mut text = Vec::with_capacity(1024);
    let mut writer = s3s::xml::Serializer::new(&mut text);
    let written = if declaration { writer.decl() } else { Ok(()) };
    written
        .and_then(|()| document.serialize(&mut writer))
        .map_err(|error| {
            tracing::error!(%error, "an answer could not be written as XML");
            Refusal::new(
                Code::InternalError,
                "We encountered an internal error. Please try again.",
            )
        })?;
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n');
    if text.iter().any(is_control) {
        for byte in std::mem::take(&mut text) {
            if is_control(&byte) {
                text.extend_from_slice(format!("&#{byte};").as_bytes());
            } else {
                text.push(byte);
            }
        }
    }
    Ok(text)
}
