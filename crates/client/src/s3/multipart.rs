//! An object uploaded in parts.

use std::fmt::Write as _;

use super::{Body, PayloadMode, Request, S3Client, S3Error, broken, xml};
use crate::http::{Bytes, Sink};

impl S3Client {
    /// Stores `bytes` under `key` in parts of `part_bytes`, one after the other. An upload that
    /// fails half-way is aborted.
    ///
    /// # Errors
    /// If the server refuses any of the requests or no answer comes.
    pub fn multipart(
        &mut self,
        key: &str,
        bytes: &dyn Bytes,
        part_bytes: u64,
    ) -> Result<(), S3Error> {
        let id = self.create_upload(key)?;
        let result = self.upload_parts(key, &id, bytes, part_bytes);
        if result.is_err() {
            // The first error is the one that counts.
            let _ = self.abort_upload(key, &id);
        }
        result
    }

    fn upload_parts(
        &mut self,
        key: &str,
        id: &str,
        bytes: &dyn Bytes,
        part_bytes: u64,
    ) -> Result<(), S3Error> {
        let size = bytes.len();
        let mut list = String::from("<CompleteMultipartUpload>");
        for index in 0..size.div_ceil(part_bytes).max(1) {
            let start = index * part_bytes;
            let number = (index + 1).to_string();
            let request = Request {
                verb: "upload part",
                method: "PUT",
                key: Some(key),
                query: &[("partNumber", &number), ("uploadId", id)],
                range: None,
                body: Some(Body {
                    bytes,
                    part: start..(start + part_bytes).min(size),
                    mode: self.access.payload_mode,
                }),
            };
            let answer = self.perform(&request, &mut Sink::Discard)?;
            let etag = answer.etag.ok_or_else(|| broken(request.verb, "no ETag"))?;
            let etag = etag.replace('&', "&amp;").replace('<', "&lt;");
            let part = format!("<PartNumber>{number}</PartNumber><ETag>{etag}</ETag>");
            write!(list, "<Part>{part}</Part>").expect("a String takes all text");
        }
        list.push_str("</CompleteMultipartUpload>");
        self.complete_upload(key, id, list.as_bytes())
    }

    fn create_upload(&mut self, key: &str) -> Result<String, S3Error> {
        let verb = "create upload";
        let mut document = Vec::new();
        self.post(verb, key, &[("uploads", "")], b"", &mut document)?;
        let document = String::from_utf8_lossy(&document);
        xml::text(&document, "UploadId").ok_or_else(|| broken(verb, "no UploadId"))
    }

    fn complete_upload(&mut self, key: &str, id: &str, list: &[u8]) -> Result<(), S3Error> {
        let verb = "complete upload";
        let mut document = Vec::new();
        self.post(verb, key, &[("uploadId", id)], list, &mut document)?;
        let document = String::from_utf8_lossy(&document);
        // S3 may begin with 200 and find out later that it cannot.
        match xml::text(&document, "Code") {
            None if xml::text(&document, "ETag").is_some() => Ok(()),
            None => Err(broken(verb, "no ETag")),
            Some(code) => {
                let message = xml::text(&document, "Message").unwrap_or_default();
                Err(S3Error::Status {
                    verb,
                    status: 200,
                    code,
                    message,
                })
            }
        }
    }

    fn abort_upload(&mut self, key: &str, id: &str) -> Result<(), S3Error> {
        let request = Request {
            verb: "abort upload",
            method: "DELETE",
            key: Some(key),
            query: &[("uploadId", id)],
            range: None,
            body: None,
        };
        self.perform(&request, &mut Sink::Discard)?;
        Ok(())
    }

    fn post(
        &mut self,
        verb: &'static str,
        key: &str,
        query: &[(&str, &str)],
        body: &[u8],
        document: &mut Vec<u8>,
    ) -> Result<(), S3Error> {
        let whole = Document(body);
        let body = Body {
            bytes: &whole,
            part: 0..body.len() as u64,
            mode: PayloadMode::Signed,
        };
        let request = Request {
            verb,
            method: "POST",
            key: Some(key),
            query,
            range: None,
            body: Some(body),
        };
        self.perform(&request, &mut Sink::Collect(document))?;
        Ok(())
    }
}

/// A small body in one piece.
struct Document<'a>(&'a [u8]);

impl Bytes for Document<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn at(&self, offset: u64) -> &[u8] {
        self.0.at(offset)
    }
}
