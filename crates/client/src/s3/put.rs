//! PUT of an object.

use super::{Body, Request, S3Client, S3Error};
use crate::http::{Bytes, Sink};

impl S3Client {
    /// Stores `bytes` under `key`.
    ///
    /// # Errors
    /// If the server refuses or no answer comes.
    pub fn put(&mut self, key: &str, bytes: &dyn Bytes) -> Result<(), S3Error> {
        let mode = self.access.payload_mode;
        let request = Request {
            verb: "put",
            method: "PUT",
            key: Some(key),
            query: &[],
            range: None,
            body: Some(Body {
                bytes,
                part: 0..bytes.len(),
                mode,
            }),
        };
        self.perform(&request, &mut Sink::Discard)?;
        Ok(())
    }
}
