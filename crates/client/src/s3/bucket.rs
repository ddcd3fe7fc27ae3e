//! Making sure that there is a bucket.

use super::{Request, S3Client, S3Error, refusal};
use crate::http::Sink;

impl S3Client {
    /// Whether the bucket exists and these credentials may see it.
    ///
    /// # Errors
    /// Any answer except success and "not found".
    pub fn bucket_exists(&mut self) -> Result<bool, S3Error> {
        let request = Request {
            verb: "head bucket",
            method: "HEAD",
            key: None,
            query: &[],
            range: None,
            body: None,
        };
        let answer = self.exchange(&request, &mut Sink::Discard)?;
        match answer.status {
            200..300 => Ok(true),
            404 => Ok(false),
            _ => Err(refusal(request.verb, &answer)),
        }
    }

    /// Creates the bucket.
    ///
    /// # Errors
    /// If the server refuses or no answer comes.
    pub fn create_bucket(&mut self) -> Result<(), S3Error> {
        let request = Request {
            verb: "create bucket",
            method: "PUT",
            key: None,
            query: &[],
            range: None,
            body: Some(super::Body {
                bytes: &EmptyBody,
                part: 0..0,
                mode: super::PayloadMode::Unsigned,
            }),
        };
        self.perform(&request, &mut Sink::Discard)?;
        Ok(())
    }
}

/// A body of no bytes, for requests that must announce one.
struct EmptyBody;

impl crate::http::Bytes for EmptyBody {
    fn len(&self) -> u64 {
        0
    }

    fn at(&self, _offset: u64) -> &[u8] {
        &[]
    }
}
