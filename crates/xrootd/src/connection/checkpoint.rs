//! Changes of a file that belong to a checkpoint: requests within a request.
//!
//! The arguments and the data of the embedded request follow its header of 24 bytes, as if it had
//! been sent alone.

use std::sync::Arc;

use dewar_xrootd_proto::request::HandleOrPath;
use dewar_xrootd_proto::{ErrorCode, FileHandle, Request, RequestHeader};
use tokio::io::AsyncRead;

use super::{Connection, ConnectionEnd, PendingRequest};
use crate::error::{ErrorReply, VerbResult};
use crate::session::Session;
use crate::session::writer::CheckpointAction;

impl<R: AsyncRead + Send + Unpin> Connection<R> {
    pub(super) async fn checkpointed(
        &mut self,
        session: Arc<Session>,
        asked: PendingRequest,
        handle: FileHandle,
        embedded: &RequestHeader,
    ) -> Result<(), ConnectionEnd> {
        // Where the embedded request ends is not known without understanding it.
        let senseless =
            |error: dewar_xrootd_proto::DecodeError| ConnectionEnd::Protocol(error.to_string());
        let len = embedded.arguments_len().map_err(senseless)?;
        let arguments = self.inlet.exact(len).await?;
        let request = Request::decode(embedded, arguments).map_err(senseless)?;
        if let Err(refusal) = admit(&session, handle, &request).await {
            self.inlet.skip(data_len(&request)).await?;
            self.outlet.refuse(asked.stream, &refusal).await;
            asked.measure.answered(Some(&refusal));
            return Ok(());
        }
        match request {
            Request::Write(write) => self.take_write(&session, asked, write).await,
            Request::Pgwrite(write) => self.take_pages(&session, asked, write).await,
            Request::Writev { items, .. } => self.take_vector(&session, asked, items).await,
            request => self.spawn(session, asked, request).await,
        }
    }
}

/// Whether a request is a change of a file that has a checkpoint.
async fn admit(session: &Session, handle: FileHandle, request: &Request) -> VerbResult<()> {
    let writer = session.writer(handle, "change")?;
    // One that was begun just before stands in the file's queue perhaps.
    writer
        .checkpoint(CheckpointAction::Keep)
        .await
        .wait()
        .await?;
    let of_that_file = match request {
        Request::Write(write) | Request::Pgwrite(write) => write.handle == handle,
        Request::Writev { items, .. } => items.iter().all(|item| item.handle == handle),
        Request::Truncate { target, .. } => *target == HandleOrPath::Handle(handle),
        _ => false,
    };
    if !of_that_file {
        let message = format!("Only {} can be changed within its checkpoint", writer.path);
        return Err(ErrorReply::new(ErrorCode::ArgInvalid, message));
    }
    Ok(())
}

/// Bytes that follow a request and its arguments.
fn data_len(request: &Request) -> usize {
    match request {
        Request::Write(write) | Request::Pgwrite(write) => write.len as usize,
        Request::Writev { items, .. } => items.iter().map(|item| item.len as usize).sum(),
        _ => 0,
    }
}
