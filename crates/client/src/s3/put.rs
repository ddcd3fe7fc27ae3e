//! PUT of an object.

use super::{Body, Client, Error, Request};
use crate::http::{Bytes, Sink};

impl Client {
    /// Stores `bytes` under `key`.
    ///
    /// # Errors
    /// If the server refuses or no answer comes.
    pub fn put(&mut self, key: &str, bytes: &dyn Bytes) -> Result<(), Error> {
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
