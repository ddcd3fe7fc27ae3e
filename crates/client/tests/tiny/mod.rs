//! A tiny S3 server for the tests: it checks every signature by its own reckoning, keeps objects
//! in memory, counts requests, and misbehaves when told to.
#![allow(
    clippy::unwrap_used,
    reason = "a test may panic; clippy sees no #[test] here"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use aws_lc_rs::{digest, hmac};

pub(crate) const ACCESS_KEY: &str = "AKIDTEST";
pub(crate) const SECRET_KEY: &str = "secret/with+signs";

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Every n-th request is answered with 503.
    Busy(u64),
    /// One byte of what is read is wrong.
    Rot,
    /// The connection is closed, without notice, after so many answers.
    HangUpAfter(u64),
    /// Answers to GET never come.
    Silence,
}

#[derive(Default)]
pub(crate) struct TinyState {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// What was wrong with requests; must stay empty.
    pub(crate) complaints: Vec<String>,
    requests: u64,
    next_upload: u64,
}

#[derive(Clone)]
pub(crate) struct Tiny {
    pub(crate) url: String,
    pub(crate) state: Arc<Mutex<TinyState>>,
    fault: Fault,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

struct Request {
    method: String,
    path: String,
    query: Vec<(String, String)>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Tiny {
    pub(crate) fn start(fault: Fault) -> Self {
        Self::serve(fault, None)
    }

    pub(crate) fn start_tls(config: Arc<rustls::ServerConfig>) -> Self {
        Self::serve(Fault::None, Some(config))
    }

    fn serve(fault: Fault, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{port}");
        let tiny = Self {
            url,
            state: Arc::default(),
            fault,
        };
        let server = tiny.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (server, tls) = (server.clone(), tls.clone());
                std::thread::spawn(move || server.connection(socket.unwrap(), tls));
            }
        });
        tiny
    }

    fn connection(&self, socket: TcpStream, tls: Option<Arc<rustls::ServerConfig>>) {
        socket.set_nodelay(true).unwrap();
        let mut stream: BufReader<Box<dyn Stream>> = BufReader::new(match tls {
            None => Box::new(socket),
            Some(config) => {
                let session = rustls::ServerConnection::new(config).unwrap();
                Box::new(rustls::StreamOwned::new(session, socket))
            }
        });
        let mut answered = 0;
        while let Some(request) = read_request(&mut stream) {
            if self.fault == Fault::Silence && request.method == "GET" {
                std::thread::sleep(std::time::Duration::from_secs(5));
                return;
            }
            let response = self.answer(&request);
            let mut head = format!("HTTP/1.1 {} X\r\n", response.status);
            for (name, value) in &response.headers {
                head += &format!("{name}: {value}\r\n");
            }
            if response.status != 204 && request.method != "HEAD" {
                head += &format!("Content-Length: {}\r\n", response.body.len());
            }
            head += "\r\n";
            let mut bytes = head.into_bytes();
            if request.method != "HEAD" {
                bytes.extend_from_slice(&response.body);
            }
            if stream
                .get_mut()
                .write_all(&bytes)
                .and_then(|()| stream.get_mut().flush())
                .is_err()
            {
                return;
            }
            answered += 1;
            if self.fault == Fault::HangUpAfter(answered) {
                return;
            }
        }
    }

    fn answer(&self, request: &Request) -> Response {
        let mut state = self.state.lock().unwrap();
        if let Err(complaint) = check_signature(request) {
            let complaint = format!("{} {}: {complaint}", request.method, request.path);
            state.complaints.push(complaint);
            return refuse(403, "SignatureDoesNotMatch");
        }
        let body = match decode_body(request) {
            Ok(body) => body,
            Err(complaint) => {
                state.complaints.push(complaint);
                return refuse(400, "BadDigest");
            }
        };
        state.requests += 1;
        if let Fault::Busy(n) = self.fault
            && state.requests.is_multiple_of(n)
        {
            return refuse(503, "SlowDown");
        }
        let mut response = state.route(request, body);
        if self.fault == Fault::Rot && request.method == "GET" && response.body.len() > 100 {
            response.body[77] ^= 1;
        }
        response
    }
}

impl TinyState {
    fn count(&mut self, verb: &'static str) {
        *self.counts.entry(verb).or_default() += 1;
    }

    fn route(&mut self, request: &Request, body: Vec<u8>) -> Response {
        let query = |name: &str| {
            request
                .query
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value.clone())
        };
        let path = request.path.strip_prefix("/bench").unwrap();
        let key = path.strip_prefix('/').map(ToOwned::to_owned);
        match (request.method.as_str(), key) {
            ("HEAD", None) => ok(Vec::new()),
            ("GET", None) => self.list(&query),
            ("POST", Some(_)) if query("uploads").is_some() => {
                self.count("create upload");
                self.next_upload += 1;
                let id = format!("up&{}", self.next_upload);
                self.uploads.insert(id.clone(), BTreeMap::new());
                ok(format!("<R><UploadId>{}</UploadId></R>", id.replace('&', "&amp;")).into())
            }
            ("PUT", Some(_)) if query("uploadId").is_some() => {
                self.count("upload part");
                let number: u32 = query("partNumber").unwrap().parse().unwrap();
                let id = query("uploadId").unwrap();
                self.uploads.get_mut(&id).unwrap().insert(number, body);
                with_etag(format!("\"part{number}\""))
            }
            ("POST", Some(key)) => {
                self.count("complete upload");
                let parts = self.uploads.remove(&query("uploadId").unwrap()).unwrap();
                let text = String::from_utf8(body).unwrap();
                for number in parts.keys() {
                    assert!(
                        text.contains(&format!("<ETag>\"part{number}\"</ETag>")),
                        "{text}"
                    );
                }
                self.objects
                    .insert(key, parts.into_values().flatten().collect());
                ok(b"<R><ETag>\"whole\"</ETag></R>".to_vec())
            }
            ("PUT", Some(key)) => {
                self.count("put");
                self.objects.insert(key, body);
                with_etag("\"e\"".to_owned())
            }
            ("DELETE", Some(key)) => {
                self.count("delete");
                self.objects.remove(&key);
                Response {
                    status: 204,
                    headers: Vec::new(),
                    body: Vec::new(),
                }
            }
            ("HEAD", Some(key)) => {
                self.count("head");
                let size = self.objects[&key].len();
                let headers = vec![("Content-Length", size.to_string())];
                Response {
                    status: 200,
                    headers,
                    body: Vec::new(),
                }
            }
            ("GET", Some(key)) => {
                let Some(object) = self.objects.get(&key).cloned() else {
                    return refuse(404, "NoSuchKey");
                };
                let Some(range) = request.headers.get("range") else {
                    self.count("get");
                    return ok(object);
                };
                self.count("range");
                let (from, to) = range
                    .strip_prefix("bytes=")
                    .unwrap()
                    .split_once('-')
                    .unwrap();
                let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
                Response {
                    status: 206,
                    headers: Vec::new(),
                    body: object[from..=to].to_vec(),
                }
            }
            _ => refuse(405, "MethodNotAllowed"),
        }
    }

    fn list(&mut self, query: &dyn Fn(&str) -> Option<String>) -> Response {
        self.count("list");
        let prefix = query("prefix").unwrap();
        let keys_max: usize = query("max-keys").unwrap().parse().unwrap();
        let after = query("continuation-token").unwrap_or_default();
        let after = after.strip_prefix("token+").unwrap_or_default().to_owned();
        let all = self
            .objects
            .keys()
            .filter(|key| key.starts_with(&prefix) && **key > after);
        let page: Vec<_> = all.take(keys_max + 1).cloned().collect();
        let truncated = page.len() > keys_max;
        let mut text = format!("<L><IsTruncated>{truncated}</IsTruncated>");
        for key in page.iter().take(keys_max) {
            text += &format!("<Contents><Key>{key}</Key></Contents>");
        }
        if truncated {
            let last = &page[keys_max - 1];
            text += &format!("<NextContinuationToken>token+{last}</NextContinuationToken>");
        }
        ok((text + "</L>").into_bytes())
    }
}

fn ok(body: Vec<u8>) -> Response {
    Response {
        status: 200,
        headers: Vec::new(),
        body,
    }
}

fn with_etag(etag: String) -> Response {
    Response {
        status: 200,
        headers: vec![("ETag", etag)],
        body: Vec::new(),
    }
}

fn refuse(status: u16, code: &str) -> Response {
    let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>").into_bytes();
    Response {
        status,
        headers: Vec::new(),
        body,
    }
}

fn read_request(stream: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|len| *len > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap();
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    Some(Request {
        method,
        path: decode(path),
        query,
        headers,
        body,
    })
}

fn decode(text: &str) -> String {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'%' {
            out.push(u8::from_str_radix(&text[i + 1..i + 3], 16).unwrap());
            i += 3;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    String::from_utf8(out).unwrap()
}

fn encode(text: &str, keep: &str) -> String {
    text.bytes()
        .map(|b| match char::from(b) {
            c if c.is_ascii_alphanumeric() || keep.contains(c) => c.to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn check_signature(request: &Request) -> Result<(), String> {
    let header = request
        .headers
        .get("authorization")
        .ok_or("no authorization")?;
    let field = |name: &str| {
        let at = header.find(name).ok_or(format!("no {name}"))? + name.len();
        Ok::<_, String>(header[at..].split(',').next().unwrap().to_owned())
    };
    let (credential, signed) = (field("Credential=")?, field("SignedHeaders=")?);
    let (access_key, scope) = credential.split_once('/').ok_or("no scope")?;
    if access_key != ACCESS_KEY {
        return Err(format!("access key {access_key}"));
    }
    for must in ["host", "x-amz-content-sha256", "x-amz-date"] {
        if !signed.split(';').any(|name| name == must) {
            return Err(format!("{must} is not signed"));
        }
    }
    let mut query: Vec<_> = request
        .query
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name, "-._~"), encode(value, "-._~")))
        .collect();
    query.sort();
    let headers: String = signed
        .split(';')
        .map(|name| format!("{name}:{}\n", request.headers.get(name).map_or("?", |v| v)))
        .collect();
    let path = encode(&request.path, "-._~/");
    let payload = &request.headers["x-amz-content-sha256"];
    let canonical = format!(
        "{}\n{path}\n{}\n{headers}\n{signed}\n{payload}",
        request.method,
        query.join("&")
    );
    let date = &request.headers["x-amz-date"];
    let text = format!(
        "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
        sha256(canonical.as_bytes())
    );
    let expected = hex(&mac(&signing_key(scope), &text));
    let given = field("Signature=")?;
    if expected == given {
        Ok(())
    } else {
        Err(format!("signature over {canonical:?}"))
    }
}

fn signing_key(scope: &str) -> Vec<u8> {
    let first = format!("AWS4{SECRET_KEY}").into_bytes();
    scope.split('/').fold(first, |key, part| mac(&key, part))
}

/// Takes aws-chunked framing apart and checks hashes, chunk signatures and the trailer.
fn decode_body(request: &Request) -> Result<Vec<u8>, String> {
    let payload = request.headers["x-amz-content-sha256"].as_str();
    match payload {
        "UNSIGNED-PAYLOAD" => return Ok(request.body.clone()),
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" | "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => {}
        hash if hash == sha256(&request.body) => return Ok(request.body.clone()),
        hash => return Err(format!("payload hash {hash}")),
    }
    let signed = payload.contains("HMAC");
    let header = &request.headers["authorization"];
    let scope = header
        .split("Credential=")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    let scope = scope.split_once('/').unwrap().1;
    let mut previous = header.split("Signature=").nth(1).unwrap().to_owned();
    let (mut rest, mut out) = (request.body.as_slice(), Vec::new());
    loop {
        let end = rest
            .windows(2)
            .position(|two| two == b"\r\n")
            .ok_or("no chunk line")?;
        let line = std::str::from_utf8(&rest[..end]).map_err(|e| e.to_string())?;
        rest = &rest[end + 2..];
        let (size, signature) = line.split_once(";chunk-signature=").unwrap_or((line, ""));
        let size = usize::from_str_radix(size, 16).map_err(|e| e.to_string())?;
        let chunk = &rest[..size];
        if signed {
            let text = format!(
                "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{scope}\n{previous}\n{}\n{}",
                request.headers["x-amz-date"],
                sha256(b""),
                sha256(chunk)
            );
            previous = hex(&mac(&signing_key(scope), &text));
            if previous != signature {
                return Err(format!("signature of the chunk at {}", out.len()));
            }
        }
        out.extend_from_slice(chunk);
        rest = &rest[size..];
        if size == 0 {
            break;
        }
        rest = rest.strip_prefix(b"\r\n").ok_or("no end of chunk")?;
    }
    let expected_end = if signed {
        "\r\n".to_owned()
    } else {
        use base64::Engine as _;
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &out);
        let crc = u32::try_from(crc).unwrap().to_be_bytes();
        let crc = base64::engine::general_purpose::STANDARD.encode(crc);
        format!("x-amz-checksum-crc32:{crc}\r\n\r\n")
    };
    if rest != expected_end.as_bytes() {
        return Err(format!("end of body {:?}", String::from_utf8_lossy(rest)));
    }
    if request.headers["x-amz-decoded-content-length"] != out.len().to_string() {
        return Err("decoded length".to_owned());
    }
    if request.headers.get("content-encoding").map(String::as_str) != Some("aws-chunked") {
        return Err("content-encoding".to_owned());
    }
    Ok(out)
}
