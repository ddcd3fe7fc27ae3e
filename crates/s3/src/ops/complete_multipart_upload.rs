//! CompleteMultipartUpload. Joining ten thousand parts may take longer than a client waits for a
//! first byte. If the work takes longer than [`KEEP_ALIVE_INTERVAL`], the answer is 200 with blanks
//! until it is done. An error is then in the body, where S3's clients look for it.

use std::pin::Pin;

use bytes::Bytes;
use dewar_http_front::{Answer, header, stream_answer, write_condition};
use dewar_store::api::{CompleteRequest, ObjectInfo};
use dewar_types::Error;
use futures_util::stream;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::delete_objects::document;
use super::document_fields::upload_id;
use super::parts_documents::{CompleteResult, NamedParts};
use crate::door::{Door, RequestContext, text_answer, xml_text};
use crate::error::{Code, Refusal, Result};
use crate::limits::KEEP_ALIVE_INTERVAL;
use crate::wire::{customer_key, encryption_headers, named_checksum, version_headers};

type Joining = Pin<Box<dyn Future<Output = Result<ObjectInfo, Error>> + Send>>;

/// The parts of the request that the answer repeats.
struct EchoedFields {
    bucket: String,
    key: String,
    /// The object's full address.
    location: String,
    request_id: String,
}

pub(super) async fn call(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document_beside_checksums().await?;
    let object = context.object()?;
    let named = EchoedFields {
        bucket: object.bucket.name.to_string(),
        key: object.key.to_string(),
        location: context.location(),
        request_id: context.request_id.clone(),
    };
    let headers = context.headers();
    let size = header(headers, "x-amz-mp-object-size")?;
    let size = size
        .map(str::parse)
        .transpose()
        .map_err(|_| Refusal::new(Code::InvalidRequest, "x-amz-mp-object-size is not a size"))?;
    let request = CompleteRequest {
        object,
        upload: upload_id(context)?,
        parts: document::<NamedParts>(&bytes)?.parts()?,
        size,
        checksum: named_checksum(headers)?,
        condition: write_condition(headers)?,
        customer_key: customer_key(context)?,
    };
    let asked = headers.clone();
    let (store, caller) = (door.store.clone(), context.caller.clone());
    let mut joining: Joining =
        Box::pin(async move { store.complete_upload(&caller, request).await });
    match tokio::time::timeout(KEEP_ALIVE_INTERVAL, &mut joining).await {
        Ok(info) => {
            let info = info?;
            let text = document_of(&named, &info, true)?;
            let mut answer = text_answer(StatusCode::OK, text);
            encryption_headers(answer.headers_mut(), info.encrypted, &asked);
            version_headers(answer.headers_mut(), &info);
            Ok(answer)
        }
        Err(_) => Ok(keep_alive(joining, named)),
    }
}

fn document_of(named: &EchoedFields, info: &ObjectInfo, declaration: bool) -> Result<Vec<u8>> {
    let document = CompleteResult {
        bucket: &named.bucket,
        key: &named.key,
        location: &named.location,
        info,
    };
    xml_text(&document, declaration)
}

enum CompletionStage {
    Declaration,
    Waiting,
}

/// The answer while the parts are being joined.
fn keep_alive(joining: Joining, named: EchoedFields) -> Answer {
    let state = Some((CompletionStage::Declaration, joining, named));
    let body = stream::unfold(state, |state| async move {
        let (stage, mut joining, named) = state?;
        if let CompletionStage::Declaration = stage {
            let text = Bytes::from_static(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
            return Some((Ok(text), Some((CompletionStage::Waiting, joining, named))));
        }
        match tokio::time::timeout(KEEP_ALIVE_INTERVAL, &mut joining).await {
            Err(_) => {
                let blank = Bytes::from_static(b" ");
                Some((Ok(blank), Some((CompletionStage::Waiting, joining, named))))
            }
            Ok(outcome) => Some((Ok(ending(outcome, &named)), None)),
        }
    });
    let mut answer = stream_answer(StatusCode::OK, body);
    let xml = http::HeaderValue::from_static("application/xml");
    answer.headers_mut().insert(CONTENT_TYPE, xml);
    answer
}

fn ending(outcome: Result<ObjectInfo, Error>, named: &EchoedFields) -> Bytes {
    let text = outcome
        .map_err(Refusal::from)
        .and_then(|info| document_of(named, &info, false));
    match text {
        Ok(text) => text.into(),
        Err(refusal) => {
            let id = &named.request_id;
            tracing::warn!(error = %refusal, "a late completion failed");
            let resource = format!("/{}/{}", named.bucket, named.key);
            refusal.to_element(&resource, id, "").into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dewar_types::ErrorKind;
    use http_body_util::BodyExt;

    use super::*;

    /// An answer to a completion that takes a minute and then fails.
    #[tokio::test(start_paused = true)]
    async fn a_long_completion_keeps_the_connection_and_tells_how_it_ended() {
        let joining: Joining = Box::pin(async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Err(Error::new(ErrorKind::Precondition, "somebody was faster"))
        });
        let named = EchoedFields {
            bucket: "bucket".into(),
            key: "k<".into(),
            location: "http://localhost/bucket/k%3C".into(),
            request_id: "ID".into(),
        };
        let mut body = keep_alive(joining, named).into_body();
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            let data = frame.expect("no break").into_data().expect("data");
            text.push_str(std::str::from_utf8(&data).expect("text"));
        }
        assert!(text.starts_with("<?xml"), "{text}");
        assert!(text.matches(' ').count() > 60 / 5, "{text}");
        assert!(
            text.contains("<Error><Code>PreconditionFailed</Code>"),
            "{text}"
        );
        assert!(
            text.contains("<Resource>/bucket/k&lt;</Resource>"),
            "{text}"
        );
        assert_eq!(text.matches("<?xml").count(), 1);
    }
}
