//! One GET, to the given address and to no other, with limits on time and length.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::token::is_loopback;
use dewar_types::{Error, ErrorKind, Result};
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::trust_store::TrustStore;

/// For connecting, TLS included, and for the whole of one answer.
const CONNECT_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// The body of an answer.
pub(super) enum Body {
    /// An answer with status 200.
    Found(Vec<u8>),
    /// Another one, whose body was not read.
    Other(StatusCode),
}

/// Fetches from servers whose certificates `trusted` knows.
pub(super) struct Fetcher {
    pub(super) trusted: Arc<TrustStore>,
}

fn failed(url: &str, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{url}: {why}"))
}

impl Fetcher {
    /// # Errors
    /// [`ErrorKind::Unavailable`], with the address and the problem.
    pub(super) async fn get(&self, url: &str, bytes_max: usize) -> Result<Body> {
        let uri: Uri = url.parse().map_err(|error| failed(url, error))?;
        let secure = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or_else(|| failed(url, "it has no host"))?;
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = tokio::time::timeout(CONNECT_TIME, connect(url, host, port, secure))
            .await
            .map_err(|_| failed(url, "no connection within 5 seconds"))??;
        let answer = async {
            if secure {
                let config = self.trusted.client().await;
                let config = config.map_err(|error| failed(url, error))?;
                let bare = host
                    .trim_start_matches('[')
                    .trim_end_matches(']')
                    .to_owned();
                let name = ServerName::try_from(bare).map_err(|error| failed(url, error))?;
                let stream = TlsConnector::from(config)
                    .connect(name, stream)
                    .await
                    .map_err(|error| failed(url, error))?;
                exchange(url, &uri, stream, bytes_max).await
            } else {
                exchange(url, &uri, stream, bytes_max).await
            }
        };
        tokio::time::timeout(ANSWER_TIME, answer)
            .await
            .map_err(|_| failed(url, "no answer within 10 seconds"))?
    }
}

/// Connects to the first address that answers. Without TLS it connects only to this machine, even
/// if a name resolves to another address.
async fn connect(url: &str, host: &str, port: u16, secure: bool) -> Result<TcpStream> {
    if !secure && !is_loopback(host) {
        return Err(failed(url, "http is for this machine alone"));
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((bare, port))
        .await
        .map_err(|error| failed(url, error))?;
    let fit = |address: &SocketAddr| secure || address.ip().to_canonical().is_loopback();
    let found: Vec<SocketAddr> = found.filter(fit).take(ADDRESSES_MAX).collect();
    first_of(url, &found).await
}

/// Connects to the first address that answers. Each address gets a share of the time.
async fn first_of(url: &str, addresses: &[SocketAddr]) -> Result<TcpStream> {
    let mut last = failed(url, "the name has no address that may be asked");
    for address in addresses {
        let share = CONNECT_TIME / addresses.len() as u32;
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = failed(url, error),
            Err(_) => last = failed(url, format!("{address} does not answer")),
        }
    }
    Err(last)
}

async fn exchange(
    url: &str,
    uri: &Uri,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    bytes_max: usize,
) -> Result<Body> {
    /// Ends the connection's task with the request, also when the request is dropped.
    struct Ends(tokio::task::JoinHandle<()>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(64)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(url, error))?;
    let _ends = Ends(tokio::spawn(async move {
        // What goes wrong is what the sender sees.
        let _ = connection.await;
    }));
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("dewar/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(url, error))?;
    let answer = sender
        .send_request(request)
        .await
        .map_err(|error| failed(url, error))?;
    if answer.status() != StatusCode::OK {
        return Ok(Body::Other(answer.status()));
    }
    let body = Limited::new(answer.into_body(), bytes_max)
        .collect()
        .await
        .map_err(|error| failed(url, error))?;
    Ok(Body::Found(body.to_bytes().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_at_which_nobody_answers_hides_no_other() {
        // Who comes when the queue is full hears nothing.
        let dead = tokio::net::TcpSocket::new_v4().expect("a socket");
        dead.bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .expect("bound");
        let dead = dead.listen(1).expect("listening");
        let nobody = dead.local_addr().expect("bound");
        let mut queue = Vec::new();
        let wait = Duration::from_millis(200);
        while let Ok(next) = tokio::time::timeout(wait, TcpStream::connect(nobody)).await {
            queue.push(next.expect("in the queue"));
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("bound");
        let alive = listener.local_addr().expect("bound");
        let addresses = [nobody, alive];
        let stream = tokio::time::timeout(CONNECT_TIME, first_of("https://x", &addresses));
        let stream = stream.await.expect("in time").expect("connected");
        assert_eq!(stream.peer_addr().expect("connected"), alive);
    }
}
