//! Metrics and the log line of a request, written once, when its answer is sent or given up.

use dewar_http_front::{AnswerBody, Arrival, RequestSummary};
use http::{Method, Response};
use http_body::Body as _;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;

use super::ConnectionSlot;
use super::metrics::{RequestLabels, VerbLabels};
use super::watch::{InFlight, Watch};

/// Events of this target are the access log. [`crate::log`] enables it independently of the level.
pub const ACCESS: &str = "dewar_access";

/// A request from its head to the last byte of its answer. It is accounted when dropped.
pub(super) struct RequestRecord {
    slot: Arc<ConnectionSlot>,
    arrival: Arrival,
    method: &'static str,
    began: Instant,
    /// 0 until there is an answer.
    status: u16,
    told: RequestSummary,
    sent: u64,
    /// Bytes that the answer said it would have.
    due: Option<u64>,
    ended: bool,
    /// Ends the busy phase of the connection. It is the last field, because the accounting counts
    /// as busy.
    in_flight: InFlight,
}

impl RequestRecord {
    pub(super) fn open(
        slot: &Arc<ConnectionSlot>,
        arrival: Arrival,
        method: &Method,
        watch: Arc<Watch>,
    ) -> Self {
        Self {
            slot: Arc::clone(slot),
            arrival,
            method: word(method),
            began: Instant::now(),
            status: 0,
            told: RequestSummary::default(),
            sent: 0,
            due: None,
            ended: false,
            in_flight: InFlight(watch),
        }
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.in_flight.0
    }

    /// Whether the connection must end after the answer.
    pub(super) fn is_last(&self) -> bool {
        self.slot.is_refused() || self.watch().body_left()
    }

    /// The answer is there.
    pub(super) fn answered(&mut self, answer: &mut Response<AnswerBody>) {
        self.status = answer.status().as_u16();
        self.told = answer.extensions_mut().remove().unwrap_or_default();
        self.due = answer.body().size_hint().exact().or_else(|| {
            let length = answer.headers().get(http::header::CONTENT_LENGTH)?;
            length.to_str().ok()?.parse().ok()
        });
        self.ended = answer.body().is_end_stream();
    }

    /// Bytes of the answer's body were taken.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// The answer's body is over.
    pub(super) fn ended(&mut self) {
        self.ended = true;
    }

    fn settle(&self) {
        let door = self.slot.door.name;
        let metrics = &self.slot.door.metrics;
        let verb = self.told.verb.unwrap_or(self.method);
        let taken = self.began.elapsed();
        let received = self.watch().body_bytes();
        let status = match self.status {
            100..=199 => "1xx",
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            500..=599 => "5xx",
            _ => "none",
        };
        metrics
            .requests
            .get_or_create(&RequestLabels { door, verb, status })
            .inc();
        metrics
            .seconds
            .get_or_create(&VerbLabels { door, verb })
            .observe(taken.as_secs_f64());
        metrics.received.inc_by(received);
        metrics.sent.inc_by(self.sent);
        let whole = self.ended || self.due.is_some_and(|due| self.sent >= due);
        tracing::info!(
            target: ACCESS,
            parent: None,
            request_id = %self.arrival.id,
            door,
            peer = %self.arrival.peer,
            user = self.told.user.as_deref().unwrap_or("-"),
            verb,
            bucket = self.told.bucket.as_deref().unwrap_or("-"),
            key = %OneLine(self.told.key.as_deref().unwrap_or("-")),
            status = self.status,
            received,
            sent = self.sent,
            seconds = taken.as_secs_f64(),
            whole,
        );
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        self.settle();
    }
}

/// A method as a label: there are only so many.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// A key on one line: control characters are escaped, because they would begin new lines.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self
            .0
            .split_inclusive(|c: char| c.is_control() || c == '\\')
        {
            let mut rest = part.chars();
            match rest.next_back() {
                Some(last) if last.is_control() || last == '\\' => {
                    write!(f, "{}{}", rest.as_str(), last.escape_default())?;
                }
                _ => f.write_str(part)?,
            }
        }
        Ok(())
    }
}

impl Watch {
    /// Bytes of the request's body that were taken.
    fn body_bytes(&self) -> u64 {
        self.body_bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_on_their_line() {
        let shown = |text| OneLine(text).to_string();
        assert_eq!(shown("a/b c/ü"), "a/b c/ü");
        assert_eq!(shown("a\nstatus=200"), "a\\nstatus=200");
        assert_eq!(shown("\u{1b}[31m\\n"), "\\u{1b}[31m\\\\n");
        assert_eq!(shown(""), "");
    }
}
