//! HEAD of an object.

use super::{Request, S3Client, S3Error, broken};
use crate::http::Sink;

impl S3Client {
    /// Asks for the metadata of an object of `size_bytes`.
    ///
    /// # Errors
    /// If the server refuses, no answer comes, or the size is wrong.
    pub fn head(&mut self, key: &str, size_bytes: u64) -> Result<(), S3Error> {
        let request = Request {
            verb: "head",
            method: "HEAD",
            key: Some(key),
            query: &[],
            range: None,
            body: None,
        };
        let answer = self.perform(&request, &mut Sink::Discard)?;
        match answer.content_length {
            Some(size) if size == size_bytes => Ok(()),
            size => Err(broken(
                "head",
                format!("size {size:?} in place of {size_bytes}"),
            )),
        }
    }
}
