//! The asking side of the admin socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use dewar_admin::{AdminCommand, AdminError};
use http::{Method, Request as HttpRequest, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use zeroize::Zeroizing;

use super::server::PATH;
use super::socket;

/// A reply longer than this is none of ours.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// For one request with its reply.
const REQUEST_TIME: Duration = Duration::from_secs(60);

/// Errors of a request to a running server, or the server's refusal.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] AdminError),
    /// The socket is there and cannot be used.
    #[error("cannot connect to {}: {source}{}", path.display(), hint(source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The server went away, or takes too long, or speaks otherwise.
    #[error("the server behind {} {reason}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// The deviation from the protocol.
        reason: String,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run this as root or as the user of the server",
        _ => "",
    }
}

/// A connection to a running server.
#[derive(Debug)]
pub struct AdminClient {
    path: PathBuf,
    sender: SendRequest<Full<Bytes>>,
}

impl AdminClient {
    /// Connects to the server at the socket `path`; `None` when no server runs.
    ///
    /// # Errors
    /// The socket exists and cannot be used.
    pub async fn connect(path: &Path) -> Result<Option<Self>, ClientError> {
        let connected = socket::connect(path).await;
        let stream = match connected {
            Ok(Some(stream)) => stream,
            Ok(None) => return Ok(None),
            Err(source) => {
                return Err(ClientError::Connect {
                    path: path.to_path_buf(),
                    source,
                });
            }
        };
        let (sender, connection) =
            handshake(TokioIo::new(stream))
                .await
                .map_err(|error| ClientError::Broken {
                    path: path.to_path_buf(),
                    reason: error.to_string(),
                })?;
        tokio::spawn(async move {
            // What fails here fails the request too, which says so.
            let _ = connection.await;
        });
        Ok(Some(Self {
            path: path.to_path_buf(),
            sender,
        }))
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// The server refuses, disconnects, or takes longer than a minute.
    pub async fn ask<C: AdminCommand>(&mut self, command: &C) -> Result<C::Reply, ClientError> {
        let exchange = self.exchange(command.request_json());
        let reply = tokio::time::timeout(REQUEST_TIME, exchange).await;
        let reply = reply.unwrap_or_else(|_| Err(self.broken("takes longer than a minute")))?;
        C::parse_reply(&reply).map_err(|_| self.strange())
    }

    fn strange(&self) -> ClientError {
        self.broken("gives no known reply; is it of another version?")
    }

    fn broken(&self, reason: impl ToString) -> ClientError {
        ClientError::Broken {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }

    async fn exchange(&mut self, body: Vec<u8>) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        let request = HttpRequest::builder()
            .method(Method::POST)
            .uri(PATH)
            .header(header::HOST, "dewar")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .expect("the parts are constant");
        // The reply to an earlier request may not have been put away yet.
        let ready = self.sender.ready().await;
        ready.map_err(|error| self.broken(format!("went away: {error}")))?;
        let sent = self.sender.send_request(request).await;
        let response = sent.map_err(|error| self.broken(format!("went away: {error}")))?;
        let good = response.status().is_success();
        let body = Limited::new(response.into_body(), REPLY_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| self.broken(format!("went away: {error}")))?;
        let body = Zeroizing::new(body.to_bytes().to_vec());
        if good {
            return Ok(body);
        }
        let error: AdminError = serde_json::from_slice(&body).map_err(|_| self.strange())?;
        Err(error.into())
    }
}
