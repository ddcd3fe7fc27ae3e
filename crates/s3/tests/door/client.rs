//! A client with its own signer.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dewar_auth::{AcceptedConnection, Origin};
use dewar_env::Env;
use dewar_http_front::WireBody;
use dewar_s3::{Door, TlsVersion};
use dewar_sigv4::{
    CredentialScope, RequestDate, SigningKey, decode_percent, encode_path, encode_strict,
};
use futures_util::{StreamExt as _, stream};
use http::request::Parts;
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::fixture::REGION;

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

#[derive(Clone)]
pub struct TestClient {
    door: Arc<Door>,
    env: Env,
    /// Access key and secret; nothing signs nothing.
    key: Option<(String, String)>,
    service: &'static str,
    origin: Origin,
    tls: Option<TlsVersion>,
    connection: Option<Arc<dyn AcceptedConnection>>,
}

/// A request that is being made up.
pub struct TestRequest<'a> {
    client: &'a TestClient,
    method: &'static str,
    target: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    piece: usize,
}

pub struct TestResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl TestResponse {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().expect("text"))
    }

    pub fn code(&self) -> String {
        self.element("Code").unwrap_or_default()
    }

    /// The text of the first element of this name.
    pub fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
    }

    /// The texts of all elements of this name.
    pub fn elements(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let open = format!("<{name}>");
        let parts = text.split(&open).skip(1);
        let close = format!("</{name}>");
        parts
            .map(|part| part.split_once(&close).expect("closed").0.to_owned())
            .collect()
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?} {}", self.headers, self.text());
        self
    }

    #[track_caller]
    pub fn refused_with(self, status: u16, code: &str) -> Self {
        let reply = self.is(status);
        assert_eq!(reply.code(), code, "{}", reply.text());
        let id = reply.header("x-amz-request-id").expect("an id");
        assert_eq!(reply.element("RequestId").as_deref(), Some(id));
        assert!(reply.header("x-amz-id-2").is_some());
        reply
    }
}

impl TestClient {
    pub fn new(door: Arc<Door>, env: Env, name: Option<&str>) -> Self {
        Self {
            door,
            env,
            key: name.map(|name| (format!("KEY-{name}"), format!("secret of {name}"))),
            service: "s3",
            origin: Origin {
                address: None,
                secure: false,
            },
            tls: None,
            connection: None,
        }
    }

    /// The same over a connection that is counted so.
    pub fn on(&self, connection: Arc<dyn AcceptedConnection>) -> Self {
        Self {
            connection: Some(connection),
            ..self.clone()
        }
    }

    /// The same door with another key.
    pub fn with_key(&self, access_key: &str, secret: &str) -> Self {
        Self {
            key: Some((access_key.to_owned(), secret.to_owned())),
            ..self.clone()
        }
    }

    /// The same from an address, over TLS.
    pub fn over_tls(&self, address: [u8; 4], version: &'static str) -> Self {
        Self {
            origin: Origin {
                address: Some(address.into()),
                secure: true,
            },
            tls: Some(TlsVersion(version)),
            ..self.clone()
        }
    }

    /// The same for another service.
    pub fn of_service(&self, service: &'static str) -> Self {
        Self {
            service,
            ..self.clone()
        }
    }

    fn secret(&self) -> &str {
        self.key.as_ref().map_or("", |(_, secret)| secret.as_str())
    }

    pub fn door(&self) -> Arc<Door> {
        Arc::clone(&self.door)
    }

    pub fn call(&self, method: &'static str, target: &str) -> TestRequest<'_> {
        TestRequest {
            client: self,
            method,
            target: target.to_owned(),
            headers: BTreeMap::from([("host".to_owned(), "localhost:9000".to_owned())]),
            body: Vec::new(),
            piece: 8192,
        }
    }

    pub fn get(&self, target: &str) -> TestRequest<'_> {
        self.call("GET", target)
    }

    pub fn head(&self, target: &str) -> TestRequest<'_> {
        self.call("HEAD", target)
    }

    pub fn put(&self, target: &str) -> TestRequest<'_> {
        self.call("PUT", target).header("content-length", "0")
    }

    pub fn post(&self, target: &str) -> TestRequest<'_> {
        self.call("POST", target)
    }

    pub fn delete(&self, target: &str) -> TestRequest<'_> {
        self.call("DELETE", target)
    }

    pub fn access_key(&self) -> String {
        let id = self.key.as_ref().map(|(id, _)| id.clone());
        id.unwrap_or_default()
    }

    pub fn date(&self) -> RequestDate {
        RequestDate::at(self.env.clock.now().secs())
    }

    pub fn scope(&self) -> String {
        let (day, service) = (self.date(), self.service);
        format!("{}/{REGION}/{service}/aws4_request", day.day())
    }

    pub fn signing_key(&self) -> SigningKey {
        let credential = format!("{}/{}", self.access_key(), self.scope());
        let scope = CredentialScope::parse(&credential).expect("a scope");
        SigningKey::derive(self.secret(), &scope)
    }

    /// Signs as Signature V2 does, encoded for a query string.
    pub fn sign_v2(&self, text: &str) -> String {
        let mut out = String::new();
        encode_strict(&mut out, self.signature_v2(text).as_bytes());
        out
    }

    /// Signs as Signature V2 does.
    pub fn signature_v2(&self, text: &str) -> String {
        let key = hmac::Key::new(
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            self.secret().as_bytes(),
        );
        STANDARD.encode(hmac::sign(&key, text.as_bytes()))
    }

    /// Signs canonical text.
    fn sign(&self, canonical: &str) -> String {
        let date = self.date();
        let string = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            date.as_str(),
            self.scope(),
            sha256(canonical.as_bytes())
        );
        self.signing_key().sign(&string).to_string()
    }

    pub async fn send(&self, request: Request<Vec<u8>>, piece: usize) -> TestResponse {
        let (head, body) = request.into_parts();
        let pieces: Vec<_> = body
            .chunks(piece.max(1))
            .map(|part| Ok(Frame::data(Bytes::copy_from_slice(part))))
            .collect();
        let wire = BodyExt::boxed(StreamBody::new(stream::iter(pieces)));
        self.send_wire(head, wire).await
    }

    /// Sends the first bytes of a request's body, and never the rest.
    pub async fn send_begun(&self, request: Request<Vec<u8>>) -> TestResponse {
        let (head, body) = request.into_parts();
        let first = Bytes::copy_from_slice(&body[..body.len().min(10)]);
        let pieces = stream::iter([Ok(Frame::data(first))]).chain(stream::pending());
        let wire = BodyExt::boxed(StreamBody::new(pieces));
        self.send_wire(head, wire).await
    }

    async fn send_wire(&self, head: Parts, wire: WireBody) -> TestResponse {
        let mut request = Request::from_parts(head, wire);
        if let Some(version) = self.tls {
            request.extensions_mut().insert(version);
        }
        if let Some(connection) = &self.connection {
            request.extensions_mut().insert(Arc::clone(connection));
        }
        let (head, body) = spawnable(self.door.handle(request, self.origin))
            .await
            .into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        TestResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }
}

/// Servers spawn what the door does, so it must be able to change threads.
fn spawnable<T: Future + Send>(future: T) -> T {
    future
}

/// Path and query in canonical form.
fn canonical_target(target: &str) -> (String, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let decoded = decode_percent(path).expect("a path");
    let mut canonical_path = String::new();
    encode_path(&mut canonical_path, &decoded);
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let encoded = |text: &str| {
                let raw = decode_percent(text).expect("a query");
                let mut out = String::new();
                encode_strict(&mut out, &raw);
                out
            };
            (encoded(name), encoded(value))
        })
        .collect();
    pairs.sort();
    let query: Vec<_> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
    (canonical_path, query.join("&"))
}

impl TestRequest<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_lowercase(), value.to_owned());
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        let length = self.body.len().to_string();
        self.header("content-length", &length)
    }

    pub fn pieces(mut self, piece: usize) -> Self {
        self.piece = piece;
        self
    }

    fn canonical(&self, target: &str, payload: &str) -> (String, String) {
        let (path, query) = canonical_target(target);
        let names: Vec<_> = self.headers.keys().cloned().collect();
        let signed = names.join(";");
        let mut text = format!("{}\n{path}\n{query}\n", self.method);
        for (name, value) in &self.headers {
            let words: Vec<_> = value.split(' ').filter(|w| !w.is_empty()).collect();
            text.push_str(&format!("{name}:{}\n", words.join(" ")));
        }
        text.push_str(&format!("\n{signed}\n{payload}"));
        (text, signed)
    }

    /// Signs with the payload's digest, unless another payload is named already. The signature
    /// comes back too, for what continues from it.
    pub fn signed(mut self) -> (Request<Vec<u8>>, String) {
        let Some(_) = &self.client.key else {
            return (self.request(), String::new());
        };
        let digest = sha256(&self.body);
        let named = self.headers.entry("x-amz-content-sha256".into());
        let payload = named.or_insert(digest).clone();
        let date = self.client.date();
        self.headers
            .insert("x-amz-date".into(), date.as_str().to_owned());
        let (canonical, signed) = self.canonical(&self.target, &payload);
        let signature = self.client.sign(&canonical);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={signed}, Signature={signature}",
            self.client.access_key(),
            self.client.scope()
        );
        self.headers.insert("authorization".into(), authorization);
        (self.request(), signature)
    }

    /// The same call as a presigned URL.
    pub fn presigned(mut self, secs: u32) -> Self {
        let names: Vec<_> = self.headers.keys().cloned().collect();
        let mut credential = String::new();
        let text = format!("{}/{}", self.client.access_key(), self.client.scope());
        encode_strict(&mut credential, text.as_bytes());
        let mut headers = String::new();
        encode_strict(&mut headers, names.join(";").as_bytes());
        let joint = if self.target.contains('?') { '&' } else { '?' };
        self.target.push_str(&format!(
            "{joint}X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={}\
             &X-Amz-Expires={secs}&X-Amz-SignedHeaders={headers}",
            self.client.date().as_str()
        ));
        let (canonical, _) = self.canonical(&self.target, "UNSIGNED-PAYLOAD");
        let signature = self.client.sign(&canonical);
        self.target
            .push_str(&format!("&X-Amz-Signature={signature}"));
        self
    }

    fn request(self) -> Request<Vec<u8>> {
        let mut request = Request::builder().method(self.method).uri(self.target);
        for (name, value) in &self.headers {
            request = request.header(name, value.as_bytes());
        }
        request.body(self.body).expect("a request")
    }

    pub async fn send(self) -> TestResponse {
        let (client, piece) = (self.client, self.piece);
        let (request, _) = self.signed();
        client.send(request, piece).await
    }

    pub async fn send_unsigned(self) -> TestResponse {
        let (client, piece) = (self.client, self.piece);
        client.send(self.request(), piece).await
    }

    /// Sends what was signed with another body.
    pub async fn send_with_body(self, body: &[u8]) -> TestResponse {
        let (client, piece) = (self.client, self.piece);
        let (request, _) = self.signed();
        client.send(request.map(|_| body.to_vec()), piece).await
    }
}
