//! Opening a file for reading at any places.

use dewar_auth::Caller;
use dewar_types::{Error, ErrorKind, Result};

use crate::Store;
use crate::api::GetRequest;
use crate::content_reader::{ContentReader, ReadOrder};

impl Store {
    /// Opens a file for reading at any places. [`GetRequest::range`] and [`GetRequest::part`] are
    /// not looked at.
    ///
    /// # Errors
    /// As [`Store::get`]; [`ErrorKind::IsADirectory`] for a directory that the caller may list.
    pub async fn open_file(&self, caller: &Caller, request: GetRequest) -> Result<ContentReader> {
        let inner = &self.inner;
        let bucket = inner.bucket_of(caller, &request.object.bucket).await?;
        let request = GetRequest {
            range: None,
            part: None,
            ..request
        };
        let order = ReadOrder::Random;
        let opened = inner.open_version(caller, &bucket, &request, None, order);
        match opened.await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let looked = inner.authorized_node(caller, &request.object).await;
                Err(match looked {
                    Ok((_, node)) if node.directory().is_some() => {
                        let message = format!("{} is a directory", request.object.key);
                        Error::new(ErrorKind::IsADirectory, message)
                    }
                    _ => error,
                })
            }
            opened => opened,
        }
    }
}
