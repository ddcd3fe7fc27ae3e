//! The trace of a run: a hash that two runs of one seed must share, and text for the reader.

use std::fmt::Write as _;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Hashes (FNV-1a) and optionally prints every event.
#[derive(Debug)]
pub struct Trace {
    shown: bool,
    state: Mutex<TraceState>,
}

#[derive(Debug)]
struct TraceState {
    hash: u64,
    events: u64,
    line: String,
    started: Option<Instant>,
}

impl Trace {
    /// An empty trace; `shown` prints events to standard error.
    #[must_use]
    pub fn new(shown: bool) -> Self {
        let state = TraceState {
            hash: 0xcbf2_9ce4_8422_2325,
            events: 0,
            line: String::new(),
            started: None,
        };
        Self {
            shown,
            state: Mutex::new(state),
        }
    }

    /// A process begins: times are counted from here.
    pub fn restart(&self) {
        self.state.lock().started = Some(Instant::now());
    }

    /// It has ended: the next events have no time.
    pub fn stop(&self) {
        self.state.lock().started = None;
    }

    /// Something happened.
    pub fn note(&self, what: std::fmt::Arguments<'_>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let at = state.started.map_or(0, |start| start.elapsed().as_nanos());
        state.line.clear();
        // Writing into a string cannot fail.
        let _ = write!(state.line, "{at} {what}");
        for byte in state.line.bytes() {
            state.hash = (state.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        state.events += 1;
        if self.shown {
            eprintln!("{:>12.6} {what}", at as f64 / 1e9);
        }
    }

    /// The hash of all events so far, and their number.
    #[must_use]
    pub fn sum(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.hash, state.events)
    }
}
