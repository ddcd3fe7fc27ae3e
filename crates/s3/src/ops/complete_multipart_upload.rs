//! CompleteMultipartUpload. Joining ten thousand parts may take longer than a client waits for a
//! first byte. A completion that is not done after [`KEEP_ALIVE_INTERVAL`] is answered 200 with
//! blanks until it is; an error then stands in the body, where S3's clients look for it.

use std::pin::Pin;

use bytes::Bytes;
use dewar_store::api::{CompletePart, CompleteRequest, ObjectInfo};
use dewar_types::Error;
use futures_util::stream;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use s3s::dto::{CompleteMultipartUploadOutput, CompletedMultipartUpload};

use super::delete_objects::document;
use super::shown::{Checksums, etag, upload_id};
use crate::door::{Answer, Door, Exchange, stream_answer, xml_answer, xml_text};
use crate::error::{Code, Refusal, Result};
use crate::limits::KEEP_ALIVE_INTERVAL;
use crate::sigv4::encode_path;
use crate::wire::{
    customer_key, encryption_headers, header, named_checksum, version_headers, write_condition,
};

type Joining = Pin<Box<dyn Future<Output = Result<ObjectInfo, Error>> + Send>>;

/// What the answer repeats of the request.
struct Named {
    bucket: String,
    key: String,
    request_id: String,
}

pub(super) async fn call(door: &Door, exchange: &mut Exchange) -> Result<Answer> {
    let bytes = exchange.document_beside_checksums().await?;
    let object = exchange.object()?;
    let named = Named {
        bucket: object.bucket.name.to_string(),
        key: object.key.to_string(),
        request_id: exchange.request_id.clone(),
    };
    let headers = exchange.headers();
    let size = header(headers, "x-amz-mp-object-size")?;
    let size = size
        .map(str::parse)
        .transpose()
        .map_err(|_| Refusal::new(Code::InvalidRequest, "x-amz-mp-object-size is not a size"))?;
    let request = CompleteRequest {
        object,
        upload: upload_id(exchange)?,
        parts: parts(&bytes)?,
        size,
        checksum: named_checksum(headers)?,
        condition: write_condition(headers)?,
        customer_key: customer_key(exchange)?,
    };
    let asked = headers.clone();
    let (store, caller) = (door.store.clone(), exchange.caller.clone());
    let mut joining: Joining =
        Box::pin(async move { store.complete_upload(&caller, request).await });
    match tokio::time::timeout(KEEP_ALIVE_INTERVAL, &mut joining).await {
        Ok(info) => {
            let info = info?;
            let mut answer = xml_answer(&output(&named, &info))?;
            encryption_headers(answer.headers_mut(), info.encrypted, &asked);
            version_headers(answer.headers_mut(), &info);
            Ok(answer)
        }
        Err(_) => Ok(keep_alive(joining, named)),
    }
}

fn parts(bytes: &[u8]) -> Result<Vec<CompletePart>> {
    let malformed = || {
        Refusal::new(
            Code::MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published \
             schema",
        )
    };
    let listed: CompletedMultipartUpload = document(bytes)?;
    let listed = listed.parts.unwrap_or_default();
    if listed.is_empty() {
        return Err(malformed());
    }
    let part = |part: s3s::dto::CompletedPart| -> Result<CompletePart> {
        let number = part.part_number.and_then(|n| u32::try_from(n).ok());
        let sums = Checksums {
            crc32: part.checksum_crc32,
            crc32c: part.checksum_crc32c,
            crc64nvme: part.checksum_crc64nvme,
            sha1: part.checksum_sha1,
            sha256: part.checksum_sha256,
        };
        Ok(CompletePart {
            number: number.ok_or_else(malformed)?,
            etag: part
                .e_tag
                .as_ref()
                .ok_or_else(malformed)?
                .value()
                .to_owned(),
            checksum: sums.digest()?,
        })
    };
    let mut parts: Vec<CompletePart> = Vec::with_capacity(listed.len());
    for named in listed {
        let named = part(named)?;
        // A client that sent a part again may name it as often as it sent it.
        match parts.last_mut().filter(|last| last.number == named.number) {
            Some(last) => *last = named,
            None => parts.push(named),
        }
    }
    Ok(parts)
}

fn output(named: &Named, info: &ObjectInfo) -> CompleteMultipartUploadOutput {
    let (sums, kind) = Checksums::of_object(info.checksum.as_ref());
    let mut location = format!("/{}/", named.bucket);
    encode_path(&mut location, named.key.as_bytes());
    CompleteMultipartUploadOutput {
        bucket: Some(named.bucket.clone()),
        key: Some(named.key.clone()),
        location: Some(location),
        e_tag: Some(etag(&info.etag)),
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_crc64nvme: sums.crc64nvme,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_type: kind,
        ..CompleteMultipartUploadOutput::default()
    }
}

enum Stage {
    Declaration,
    Waiting,
}

/// The answer while the joining goes on.
fn keep_alive(joining: Joining, named: Named) -> Answer {
    let state = Some((Stage::Declaration, joining, named));
    let body = stream::unfold(state, |state| async move {
        let (stage, mut joining, named) = state?;
        if let Stage::Declaration = stage {
            let text = Bytes::from_static(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
            return Some((Ok(text), Some((Stage::Waiting, joining, named))));
        }
        match tokio::time::timeout(KEEP_ALIVE_INTERVAL, &mut joining).await {
            Err(_) => {
                let blank = Bytes::from_static(b" ");
                Some((Ok(blank), Some((Stage::Waiting, joining, named))))
            }
            Ok(outcome) => Some((Ok(ending(outcome, &named)), None)),
        }
    });
    let mut answer = stream_answer(StatusCode::OK, body);
    let xml = http::HeaderValue::from_static("application/xml");
    answer.headers_mut().insert(CONTENT_TYPE, xml);
    answer
}

fn ending(outcome: Result<ObjectInfo, Error>, named: &Named) -> Bytes {
    let text = outcome
        .map_err(Refusal::from)
        .and_then(|info| xml_text(&output(named, &info), false));
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
        let named = Named {
            bucket: "bucket".into(),
            key: "k<".into(),
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
