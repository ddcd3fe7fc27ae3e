//! Shows the progress of a campaign on standard error: a bar on a terminal, otherwise a line for
//! each finished step.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::plan::Limit;
use super::result::StepRun;
use crate::clock;

pub(super) struct CampaignProgress {
    total: usize,
    begun: usize,
    on_terminal: bool,
    bar: Option<ProgressBar>,
    limit: Limit,
    started: std::time::Instant,
}

impl CampaignProgress {
    /// Progress through `total` runs of steps.
    pub(super) fn new(total: usize) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let limit = Limit::Requests(0);
        Self {
            total,
            begun: 0,
            on_terminal,
            bar: None,
            limit,
            started: clock::now(),
        }
    }

    /// A run begins, its preparation included.
    pub(super) fn begin(&mut self, what: &str, limit: Limit) {
        self.begun += 1;
        self.limit = limit;
        self.started = clock::now();
        if !self.on_terminal {
            return;
        }
        let length = match limit {
            Limit::Requests(requests) => requests,
            Limit::Seconds(seconds) => (seconds * 1e3) as u64,
        };
        let style = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3}% {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(length).with_style(style);
        bar.set_prefix(format!("[{}/{}] {what}", self.begun, self.total));
        bar.enable_steady_tick(Duration::from_millis(250));
        self.bar = Some(bar);
    }

    /// So many requests were begun.
    pub(super) fn at(&self, requests: u64) {
        let Some(bar) = &self.bar else { return };
        match self.limit {
            Limit::Requests(limit) => bar.set_position(requests.min(limit)),
            Limit::Seconds(_) => {
                bar.set_position(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0));
                bar.set_message(format!("{requests} requests"));
            }
        }
    }

    /// The run is over.
    pub(super) fn end(&mut self, run: &StepRun) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        eprintln!("[{}/{}] {}", self.begun, self.total, run.summary());
    }

    /// All runs are over.
    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
