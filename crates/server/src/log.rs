//! Logs: readable lines or JSON objects on standard error, with a level that can change while the
//! server runs.
//!
//! Log events of libraries are capped at warnings at every level, because some libraries print
//! requests with their credentials at lower levels. Dewar's own events never contain a secret, and
//! the types that hold one do not print it.

use std::io::IsTerminal as _;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

use crate::config::{Log, LogFormat, LogLevel};
use crate::listener::ACCESS;

/// Targets of Dewar's own crates begin with this.
const OWN: &str = "dewar";

/// Changes what the logs hold that were installed.
#[derive(Clone, Debug)]
pub struct Logging {
    filter: reload::Handle<Targets, Registry>,
}

impl Logging {
    /// Logs events of `level` or more from now on, and `access` or not.
    pub fn set(&self, level: LogLevel, access: bool) {
        // Fails only when the subscriber is gone, and then nobody logs.
        let _ = self.filter.reload(targets(level, access));
    }
}

fn targets(level: LogLevel, access: bool) -> Targets {
    let own = LevelFilter::from_level(level.0);
    let access = if access {
        LevelFilter::INFO
    } else {
        LevelFilter::OFF
    };
    Targets::new()
        .with_default(own.min(LevelFilter::WARN))
        .with_target(OWN, own)
        .with_target(ACCESS, access)
}

/// Makes standard error the log of this process. Only the first call of a process has an effect.
/// Later calls (in tests that run several servers) return a handle without effect.
#[must_use]
pub fn install(config: &Log) -> Logging {
    let colours = std::io::stderr().is_terminal();
    let (subscriber, logging) = subscriber(config, std::io::stderr, colours);
    let _ = tracing::subscriber::set_global_default(subscriber);
    logging
}

fn subscriber<W>(
    config: &Log,
    writer: W,
    colours: bool,
) -> (Box<dyn Subscriber + Send + Sync>, Logging)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(targets(config.level, config.access));
    let layer = fmt::layer().with_writer(writer);
    let lines = match config.format {
        LogFormat::Human => layer.with_ansi(colours).boxed(),
        LogFormat::Json => layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    };
    let subscriber = Registry::default().with(lines.with_filter(filter));
    (Box::new(subscriber), Logging { filter: handle })
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, work: impl FnOnce(&Logging)) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let config = Log {
            format,
            level: LogLevel(tracing::Level::INFO),
            access: false,
        };
        let (subscriber, logging) = subscriber(&config, move || writer.clone(), false);
        tracing::subscriber::with_default(subscriber, || work(&logging));
        let bytes = captured.0.lock().expect("lock").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn json_lines_hold_the_request_id() {
        let text = logged(LogFormat::Json, |_| {
            let span = tracing::info_span!(target: "dewar_server", "request", request_id = "00AB");
            span.in_scope(|| tracing::info!(target: "dewar_server", key = "a/b", "put"));
        });
        let line: serde_json::Value = serde_json::from_str(text.trim()).expect("one JSON object");
        assert_eq!(line["span"]["request_id"], "00AB");
        assert_eq!(line["message"], "put");
        assert_eq!(line["key"], "a/b");
        assert_eq!(line["level"], "INFO");
        let text = logged(LogFormat::Human, |_| {
            let span = tracing::info_span!(target: "dewar_server", "request", request_id = "00AB");
            span.in_scope(|| tracing::warn!(target: "dewar_server", "slow"));
        });
        assert!(text.contains("00AB") && text.contains("slow"), "{text}");
    }

    #[test]
    fn the_access_log_is_switched_apart_from_the_level() {
        let text = logged(LogFormat::Human, |logging| {
            tracing::info!(target: ACCESS, "one");
            logging.set(LogLevel(tracing::Level::ERROR), true);
            tracing::info!(target: ACCESS, "two");
            tracing::warn!(target: "dewar_store", "three");
            // A warning needs its request whatever the level.
            let span = tracing::error_span!(target: "dewar_server", "request", request_id = "00AB");
            span.in_scope(|| tracing::error!(target: "dewar_store", "four"));
            logging.set(LogLevel(tracing::Level::TRACE), false);
            tracing::info!(target: ACCESS, "five");
        });
        let seen = |word: &str| text.contains(word);
        assert!(seen("two") && seen("00AB") && seen("four"), "{text}");
        assert!(!["one", "three", "five"].into_iter().any(seen), "{text}");
    }

    #[test]
    fn the_level_changes_and_libraries_stay_quiet() {
        let text = logged(LogFormat::Human, |logging| {
            tracing::debug!(target: "dewar_store", "one");
            logging.set(LogLevel(tracing::Level::TRACE), false);
            tracing::trace!(target: "dewar_store", "two");
            tracing::info!(target: "s3s", "Authorization: three");
            tracing::warn!(target: "s3s", "four");
            logging.set(LogLevel(tracing::Level::ERROR), false);
            tracing::warn!(target: "dewar_store", "five");
            tracing::warn!(target: "s3s", "six");
        });
        let seen = |word: &str| text.contains(word);
        assert!(seen("two") && seen("four"), "{text}");
        assert!(
            !["one", "three", "five", "six"].into_iter().any(seen),
            "{text}"
        );
    }
}
