//! Delayed answers: the client is told to wait, and the answer is then sent as an unsolicited
//! message.

use bytes::{BufMut as _, Bytes, BytesMut};
use dewar_xrootd_proto::{Reply, Status};

use super::Context;
use crate::error::{ErrorReply, VerbResult};

/// After so many seconds a client may give up; nothing ends with them here.
const ANSWER_SECONDS: u32 = 1800;

/// Tells the client to wait for the outcome, and then what it is.
pub(super) async fn answer(context: &Context, outcome: impl Future<Output = VerbResult<Bytes>>) {
    let seconds = ANSWER_SECONDS;
    let reply = Reply::WaitResp { seconds };
    context.outlet.reply(context.stream, &reply).await;
    let (status, body) = match outcome.await {
        Ok(body) => (Status::Ok, body),
        Err(refusal) => (Status::Error, words(&refusal)),
    };
    let reply = Reply::Later {
        stream: context.stream,
        status,
        body,
    };
    context.outlet.reply(context.stream, &reply).await;
}

fn words(refusal: &ErrorReply) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u32(refusal.code.number());
    body.put_slice(refusal.message.as_bytes());
    body.put_u8(0);
    body.freeze()
}
