//! The other side: a server that answers each request as a script says, also wrongly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct SeenRequest {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
    /// The body, as far as the script read it.
    pub body: Vec<u8>,
    /// Whether the whole body came.
    pub whole: bool,
}

impl SeenRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(its, _)| its.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The first byte of its range, and the last one if it is named.
    pub fn range(&self) -> Option<(usize, Option<usize>)> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        let (first, last) = range.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()))
    }
}

/// What a server does next.
pub enum Step {
    Send(Vec<u8>),
    /// Sends a byte every so often, for ever.
    Drip(Duration),
    /// Sends the same for ever.
    Repeat(&'static str),
    /// Reads the body of the request.
    ReadBody,
    /// Reads so many bytes of it.
    ReadSome(usize),
    Wait(Duration),
    /// Does nothing for ever.
    Hang,
    Close,
}

pub fn text(text: impl Into<String>) -> Step {
    Step::Send(text.into().into_bytes())
}

/// An answer with a body and its length.
pub fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<Step> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n{headers}\r\n");
    vec![Step::Send([head.as_bytes(), body].concat())]
}

/// An answer to HEAD.
pub fn head(size: usize, headers: &str) -> Vec<Step> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n{headers}\r\n");
    vec![text(head)]
}

/// The range of an answer to GET, of the range that was asked for.
pub fn part(request: &SeenRequest, content: &[u8], headers: &str) -> Vec<Step> {
    let (first, last) = request.range().expect("a range");
    let last = last.unwrap_or(content.len() - 1).min(content.len() - 1);
    let size = content.len();
    let headers = format!("Content-Range: bytes {first}-{last}/{size}\r\n{headers}");
    answer("206 Partial Content", &headers, &content[first..=last])
}

type Script = dyn Fn(usize, &SeenRequest) -> Vec<Step> + Send + Sync;

/// A running server.
pub struct Peer {
    pub address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    task: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    /// A server whose script gets the number of a request, from 0, and its head.
    pub async fn new(
        script: impl Fn(usize, &SeenRequest) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        Self::start(script, None).await
    }

    /// A server with TLS, and the configuration of a client that trusts it.
    pub async fn secure(
        script: impl Fn(usize, &SeenRequest) -> Vec<Step> + Send + Sync + 'static,
        names: &[&str],
    ) -> (Self, Arc<ClientConfig>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let certificate = made.cert.der().clone();
        let key = made.signing_key.serialize_der();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(key.into());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a certificate with its key");
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a root");
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let peer = Self::start(script, Some(Arc::new(server))).await;
        (peer, Arc::new(client))
    }

    async fn start(
        script: impl Fn(usize, &SeenRequest) -> Vec<Step> + Send + Sync + 'static,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let requests = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (seen, script) = (Arc::clone(&requests), Arc::clone(&script));
                let tls = tls.clone();
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, &seen, &*script).await,
                        Some(tls) => {
                            if let Ok(stream) = TlsAcceptor::from(tls).accept(socket).await {
                                serve(stream, &seen, &*script).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            scheme,
            seen,
            task,
        }
    }

    pub fn url(&self, target: &str) -> String {
        format!("{}://{}{target}", self.scheme, self.address)
    }

    /// The same server by another name.
    pub fn url_by_name(&self, target: &str) -> String {
        let port = self.address.port();
        format!("{}://localhost:{port}{target}", self.scheme)
    }

    pub fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().clone()
    }

    /// The methods of all requests.
    pub fn methods(&self) -> Vec<String> {
        self.seen().into_iter().map(|one| one.method).collect()
    }
}

/// Answers the requests of one connection until it ends.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<SeenRequest>>,
    script: &Script,
) {
    let mut buffer = Vec::new();
    while let Some(request) = read_head(&mut stream, &mut buffer).await {
        let number = {
            let mut seen = seen.lock();
            seen.push(request.clone());
            seen.len() - 1
        };
        let size = request.header("content-length");
        let size: usize = size.map_or(0, |size| size.parse().expect("a size"));
        for step in script(number, &request) {
            let done = match step {
                Step::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
                Step::Drip(every) => {
                    while stream.write_all(b"x").await.is_ok() {
                        tokio::time::sleep(every).await;
                    }
                    false
                }
                Step::Repeat(words) => {
                    while stream.write_all(words.as_bytes()).await.is_ok() {
                        tokio::task::yield_now().await;
                    }
                    false
                }
                Step::ReadBody => {
                    read_body(&mut stream, &mut buffer, size, size, number, seen).await
                }
                Step::ReadSome(len) => {
                    read_body(&mut stream, &mut buffer, len, size, number, seen).await
                }
                Step::Wait(time) => {
                    tokio::time::sleep(time).await;
                    true
                }
                Step::Hang => std::future::pending().await,
                Step::Close => false,
            };
            if !done {
                return;
            }
        }
    }
}

async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> Option<SeenRequest> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let rest = buffer.split_off(end + 4);
    let head = String::from_utf8(std::mem::replace(buffer, rest)).expect("text");
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next().expect("a line").split(' ').map(str::to_owned);
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").expect("a header");
        (name.to_owned(), value.to_owned())
    });
    Some(SeenRequest {
        method: words.next().expect("a method"),
        target: words.next().expect("a target"),
        headers: headers.collect(),
        ..SeenRequest::default()
    })
}

/// Reads up to `len` bytes of a body of `size`; `false` if the connection ended before.
async fn read_body(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    len: usize,
    size: usize,
    number: usize,
    seen: &Mutex<Vec<SeenRequest>>,
) -> bool {
    let mut complete = true;
    while buffer.len() < len {
        if !matches!(stream.read_buf(buffer).await, Ok(1..)) {
            complete = false;
            break;
        }
    }
    let rest = buffer.split_off(buffer.len().min(len));
    let body = std::mem::replace(buffer, rest);
    let mut seen = seen.lock();
    let request = &mut seen[number];
    request.body.extend_from_slice(&body);
    request.whole = request.body.len() == size;
    complete
}
