//! DELETE of an object.

use super::{Client, Error, Request};
use crate::http::Sink;

impl Client {
    /// Removes the object `key`.
    ///
    /// # Errors
    /// If the server refuses or no answer comes.
    pub fn delete(&mut self, key: &str) -> Result<(), Error> {
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
