//! GET of an object or of a range of it.

use std::ops::Range;

use super::{Request, S3Client, S3Error, broken};
use crate::http::Sink;

impl S3Client {
    /// Reads an object of `size_bytes`, or only `range` of it, into `sink`.
    ///
    /// # Errors
    /// If the server refuses, no answer comes, the number of bytes is wrong, or the sink rejects
    /// them.
    pub fn get(
        &mut self,
        key: &str,
        size_bytes: u64,
        range: Option<Range<u64>>,
        sink: &mut Sink<'_>,
    ) -> Result<(), S3Error> {
        let verb = if range.is_some() { "range" } else { "get" };
        let expected = range
            .as_ref()
            .map_or(size_bytes, |range| range.end - range.start);
        let status = if range.is_some() { 206 } else { 200 };
        let request = Request {
            verb,
            method: "GET",
            key: Some(key),
            query: &[],
            range,
            body: None,
        };
        let answer = self.perform(&request, sink)?;
        if answer.status != status {
            return Err(broken(
                verb,
                format!("status {} in place of {status}", answer.status),
            ));
        }
        if answer.body_bytes != expected {
            let what = format!("{} bytes in place of {expected}", answer.body_bytes);
            return Err(broken(verb, what));
        }
        Ok(())
    }
}
