//! The fronts of a listener.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dewar_admin::status::HealthIssue;
use dewar_auth::AcceptedConnection;
use dewar_env::BoxFuture;
use dewar_http_front::{AnswerBody, Arrival, HttpFront, WireBody, empty_answer};
use http::{Request, Response, StatusCode};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// The fronts of a listener.
#[derive(Clone)]
pub enum Fronts {
    /// Fronts on HTTP, each for the paths below its prefix. The prefix `/` is for all other paths.
    Http(Vec<(Cow<'static, str>, Arc<dyn HttpFront>)>),
    /// A front for another protocol.
    Socket(Arc<dyn SocketFront>),
}

impl Fronts {
    /// The problems of services that the fronts depend on.
    #[must_use]
    pub fn troubles(&self) -> Vec<HealthIssue> {
        match self {
            Self::Http(_) => Vec::new(),
            Self::Socket(front) => front.troubles(),
        }
    }
}

/// A front for another protocol than HTTP, which handles whole connections.
pub trait SocketFront: Send + Sync + 'static {
    /// Serves a connection until it ends, and reports on `slot` when the client has authenticated.
    /// When `stop` is cancelled, it must finish running requests and start no new ones.
    fn serve(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        slot: Arc<dyn AcceptedConnection>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()>;

    /// Refuses a client because no connection is free, and closes the connection.
    fn refuse(&self, socket: TcpStream) -> BoxFuture<'static, ()>;

    /// Time after the start of a stop during which connections are still accepted. At its end these
    /// are asked to stop.
    fn lingers(&self) -> Duration {
        Duration::ZERO
    }

    /// The problems of services that the front depends on.
    fn troubles(&self) -> Vec<HealthIssue> {
        Vec::new()
    }
}

/// The fronts on HTTP of one listener, as one front. The longest matching prefix decides.
pub(super) struct PathRouter(Vec<(Cow<'static, str>, Arc<dyn HttpFront>)>);

impl PathRouter {
    pub(super) fn new(mut fronts: Vec<(Cow<'static, str>, Arc<dyn HttpFront>)>) -> Self {
        fronts.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self(fronts)
    }

    fn front_of(&self, path: &str) -> Option<&Arc<dyn HttpFront>> {
        let below = |prefix: &str| {
            let rest = path.strip_prefix(prefix.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix == "/")
        };
        let found = self.0.iter().find(|(prefix, _)| below(prefix));
        found.map(|(_, front)| front)
    }
}

impl HttpFront for PathRouter {
    fn answer(
        self: Arc<Self>,
        request: Request<WireBody>,
        arrival: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        match self.front_of(request.uri().path()) {
            Some(front) => Arc::clone(front).answer(request, arrival),
            None => Box::pin(std::future::ready(empty_answer(StatusCode::NOT_FOUND))),
        }
    }

    fn busy(&self) -> &'static [u8] {
        // The client is refused before its path is known, so the front of most paths answers.
        let last = self.0.last();
        last.map_or(b"", |(_, front)| front.busy())
    }
}

#[cfg(test)]
mod tests {
    use dewar_http_front::full_answer;

    use super::*;

    struct Named(&'static str);

    impl HttpFront for Named {
        fn answer(
            self: Arc<Self>,
            _: Request<WireBody>,
            _: Arrival,
        ) -> BoxFuture<'static, Response<AnswerBody>> {
            Box::pin(std::future::ready(full_answer(self.0.into())))
        }

        fn busy(&self) -> &'static [u8] {
            self.0.as_bytes()
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let front = |name| Arc::new(Named(name)) as Arc<dyn HttpFront>;
        let router = PathRouter::new(vec![
            ("/".into(), front("rest")),
            ("/dav".into(), front("dav")),
            ("/dav/deep".into(), front("deep")),
        ]);
        let of = |path| router.front_of(path).map(|front| front.busy());
        for (path, expected) in [
            ("/", "rest"),
            ("/davy/x", "rest"),
            ("*", "rest"),
            ("/dav", "dav"),
            ("/dav/x", "dav"),
            ("/dav/deep/x", "deep"),
        ] {
            assert_eq!(of(path), Some(expected.as_bytes()), "{path}");
        }
        assert_eq!(router.busy(), b"rest");
        let only = PathRouter::new(vec![("/dav".into(), front("dav"))]);
        assert!(only.front_of("/x").is_none());
    }
}
