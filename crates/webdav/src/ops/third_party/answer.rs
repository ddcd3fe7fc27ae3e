//! The answer to a client of third-party copies: performance markers while its copy runs, and one last line.
//!
//! davix, which gfal2 and FTS use, skips the byte after each colon and reads at most 1,023 bytes of a line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::{BoxFuture, Clock};
use dewar_http_front::{Answer, AnswerBody, stream_answer, typed_answer};
use dewar_transfer::{FailureCause, TransferFailure, TransferOutcome, TransferView};
use dewar_types::Timestamp;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

/// Time between two markers. Clients give up after 30 to 60 s without one.
pub(super) const MARKER_PAUSE: Duration = Duration::from_secs(5);

/// Addresses in a marker: as many as a line of 1,023 bytes has place for.
const ADDRESSES_MAX: usize = 16;

const TEXT: &str = "text/plain";

/// A copy that runs while it is polled.
pub(super) type CopyWork = BoxFuture<'static, Result<(), TransferFailure>>;

/// A copy under way. Dropped with the answer, when the client has gone, it ends the copy.
struct RunningCopy {
    /// The copy in the registry, if it is from or to another server.
    view: Option<TransferView>,
    work: CopyWork,
    pauses: Interval,
    clock: Arc<dyn Clock>,
}

/// The answer for a copy that waits or runs in `task`.
pub(super) fn in_task(
    view: TransferView,
    task: AbortOnDropHandle<Result<TransferOutcome, TransferFailure>>,
    clock: Arc<dyn Clock>,
) -> Answer {
    let work = Box::pin(async {
        let early = |_| TransferFailure::new(FailureCause::LocalStorage, "the copy ended early");
        task.await.map_err(early)?.map(|_| ())
    });
    running(Some(view), work, clock)
}

/// The answer for a copy under way.
pub(super) fn running(view: Option<TransferView>, work: CopyWork, clock: Arc<dyn Clock>) -> Answer {
    let mut pauses = interval(MARKER_PAUSE);
    pauses.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let copy = RunningCopy {
        view,
        work,
        pauses,
        clock,
    };
    let lines = stream::unfold(Some(copy), |copy| async {
        let mut copy = copy?;
        let text = tokio::select! {
            biased;
            // The first marker is due at once, so each answer has one.
            _ = copy.pauses.tick() => copy.marker(),
            result = &mut copy.work => return Some((Ok(last_line(&result)), None)),
        };
        Some((Ok(text), Some(copy)))
    });
    let mut answer: Answer = stream_answer(StatusCode::ACCEPTED, lines);
    let kind = HeaderValue::from_static(TEXT);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// The answer for a copy that is over already.
pub(super) fn ended(result: &Result<(), TransferFailure>) -> Answer {
    typed_answer(StatusCode::ACCEPTED, TEXT, last_line(result)).map(|body: AnswerBody| body)
}

fn last_line(result: &Result<(), TransferFailure>) -> Bytes {
    match result {
        Ok(()) => Bytes::from_static(b"success: Created\n"),
        Err(failure) => format!("failure: {}\n", failure.text()).into(),
    }
}

impl RunningCopy {
    fn marker(&self) -> Bytes {
        let progress = self.view.as_ref().and_then(TransferView::progress);
        let bytes = progress.as_ref().map_or(0, |progress| progress.bytes());
        let remotes = progress.map(|progress| progress.remotes());
        let remotes = remotes.unwrap_or_default();
        marker(self.clock.now(), bytes, &remotes).into()
    }
}

fn marker(now: Timestamp, bytes: u64, remotes: &[SocketAddr]) -> String {
    let mut text = format!(
        "Perf Marker\nTimestamp: {}\nStripe Index: 0\nStripe Bytes Transferred: {bytes}\n\
         Total Stripe Count: 1\n",
        now.secs()
    );
    if !remotes.is_empty() {
        // The form of an IPv6 address with a port has brackets, by which clients know it.
        let remotes = remotes.iter().take(ADDRESSES_MAX).map(|remote| {
            let canonical = SocketAddr::new(remote.ip().to_canonical(), remote.port());
            format!("tcp:{canonical}")
        });
        let remotes: Vec<String> = remotes.collect();
        text.push_str("RemoteConnections: ");
        text.push_str(&remotes.join(","));
        text.push('\n');
    }
    text.push_str("End\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_has_one_space_after_each_colon_of_a_name() {
        let remotes = [
            "192.0.2.1:443",
            "[2001:db8::1]:443",
            "[::ffff:192.0.2.2]:1094",
        ]
        .map(|address| address.parse().expect("an address"));
        let text = marker(Timestamp::from_secs(1_700_000_000), 12, &remotes);
        assert_eq!(
            text,
            "Perf Marker\nTimestamp: 1700000000\nStripe Index: 0\nStripe Bytes Transferred: 12\n\
             Total Stripe Count: 1\n\
             RemoteConnections: tcp:192.0.2.1:443,tcp:[2001:db8::1]:443,tcp:192.0.2.2:1094\nEnd\n"
        );
        assert!(!marker(Timestamp::from_secs(1), 0, &[]).contains("Remote"));
    }

    #[test]
    fn lines_fit_into_the_buffer_of_davix() {
        let longest: SocketAddr = "[2001:db80:1111:1111:1111:1111:1111:1111]:65535"
            .parse()
            .expect("an address");
        let text = marker(Timestamp(u64::MAX), u64::MAX, &[longest; 40]);
        assert!(text.lines().all(|line| line.len() < 1023), "{text}");
        let failure = TransferFailure::new(FailureCause::Stall, "x".repeat(5000));
        assert!(last_line(&Err(failure)).len() < 1023);
    }
}
