//! DELETE of an object.

use super::{Request, S3Client, S3Error};
use crate::http::Sink;

impl S3Client {
    /// Removes the object `key`.
    ///
    /// # Errors
    /// If the server refuses or no answer comes.
    pub fn delete(&mut self, key: &str) -> Result<(), S3Error> {
        let request = Request {
            verb: "delete",
            method: "DELETE",
            key: Some(key),
            query: &[],
            range: None,
            body: None,
        };
        self.perform(&request, &mut Sink::Discard)?;
        Ok(())
    }
}
