//! `/metrics`, `/live` and `/ready` over HTTP. No login: the configuration keeps it on loopback.

use std::sync::Arc;

use dewar_env::BoxFuture;
use dewar_http_front::{AnswerBody, Arrival, HttpFront, WireBody, typed_answer};
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Request, Response, StatusCode};

use super::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Whether requests should be sent here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// They should.
    Ready,
    /// They should not, and why.
    NotReady(String),
}

/// Answers questions about the server.
#[derive(Clone)]
pub struct MetricsEndpoint {
    metrics: Metrics,
    readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
}

impl MetricsEndpoint {
    /// Serves `metrics`. `readiness` is called for every `/ready` and must not block.
    pub fn new(
        metrics: Metrics,
        readiness: impl Fn() -> Readiness + Send + Sync + 'static,
    ) -> Self {
        Self {
            metrics,
            readiness: Arc::new(readiness),
        }
    }

    fn respond(&self, method: &Method, path: &str) -> (StatusCode, &'static str, String) {
        if method != Method::GET && method != Method::HEAD {
            let only = "only GET and HEAD\n".to_owned();
            return (StatusCode::METHOD_NOT_ALLOWED, TEXT, only);
        }
        match path {
            "/metrics" => match self.metrics.text() {
                Ok(text) => (StatusCode::OK, OPEN_METRICS, text),
                Err(error) => {
                    tracing::error!(%error, "cannot show the metrics");
                    (StatusCode::INTERNAL_SERVER_ERROR, TEXT, String::new())
                }
            },
            "/live" => (StatusCode::OK, TEXT, "live\n".to_owned()),
            "/ready" => match (self.readiness)() {
                Readiness::Ready => (StatusCode::OK, TEXT, "ready\n".to_owned()),
                Readiness::NotReady(why) => {
                    (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n"))
                }
            },
            _ => {
                let known = "there is /metrics, /live and /ready\n".to_owned();
                (StatusCode::NOT_FOUND, TEXT, known)
            }
        }
    }
}

impl HttpFront for MetricsEndpoint {
    fn answer(
        self: Arc<Self>,
        request: Request<WireBody>,
        _: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        let (status, kind, text) = self.respond(request.method(), request.uri().path());
        let mut answer = typed_answer(status, kind, text);
        let store = HeaderValue::from_static("no-store");
        answer.headers_mut().insert(CACHE_CONTROL, store);
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;
    use crate::listener::DoorMetrics;
    use crate::metrics::Metrics;

    #[test]
    fn shows_metrics_liveness_and_readiness() {
        let metrics = Metrics::new();
        let counters = metrics.register(DoorMetrics::register).of("s3");
        counters.accepted.inc_by(3);
        let ready = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ready);
        let endpoint = MetricsEndpoint::new(metrics.clone(), move || {
            if asked.load(Relaxed) {
                Readiness::Ready
            } else {
                Readiness::NotReady("recovering".to_owned())
            }
        });
        let (status, kind, text) = endpoint.respond(&Method::GET, "/metrics");
        assert_eq!((status, kind), (StatusCode::OK, OPEN_METRICS));
        for expected in [
            "dewar_connections_accepted_total{door=\"s3\"} 3\n",
            "dewar_build_info{version=",
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
            "process_open_fds ",
            "# EOF",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        metrics.register(|dewar| {
            let late = prometheus_client::metrics::gauge::Gauge::<i64>::default();
            dewar.register("late", "Registered while shown", late);
        });
        assert!(
            endpoint
                .respond(&Method::GET, "/metrics")
                .2
                .contains("dewar_late 0")
        );
        assert_eq!(endpoint.respond(&Method::GET, "/live").0, StatusCode::OK);
        let (status, _, text) = endpoint.respond(&Method::GET, "/ready");
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "recovering\n");
        ready.store(true, Relaxed);
        assert_eq!(endpoint.respond(&Method::GET, "/ready").0, StatusCode::OK);
        assert_eq!(endpoint.respond(&Method::GET, "/").0, StatusCode::NOT_FOUND);
        let refused = endpoint.respond(&Method::POST, "/metrics").0;
        assert_eq!(refused, StatusCode::METHOD_NOT_ALLOWED);
    }
}
