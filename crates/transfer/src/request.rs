//! Requests for copies, and their outcome.

use std::net::SocketAddr;

use dewar_checksum::Digest;
use dewar_store::api::ObjectInfo;

use crate::forwarded_headers::ForwardedHeaders;
use crate::url::TransferUrl;

/// The direction of the bytes, seen from this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// This server reads from the other side and writes here.
    Pull,
    /// This server reads here and writes to the other side.
    Push,
}

impl Direction {
    /// `pull` or `push`, as metrics and records say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

/// How a copy is done.
#[derive(Clone, Debug)]
pub struct TransferOptions {
    /// Connections that the client asks for (`X-Number-Of-Streams`); 0 and 1 mean one. The configured
    /// maximum caps it. Only a pull uses more than one.
    pub streams: u8,
    /// No HEAD before or after (`Copy-Flags: NoHead`). A presigned URL implies it.
    pub no_head: bool,
    /// Digests of the content that the client named. A copy whose content has another one fails for good.
    pub expected: Vec<Digest>,
    /// Whether a file at the target of a push may be replaced (`Overwrite`). A pull has the condition in
    /// the request of its writer.
    pub overwrite: bool,
    /// The SciTag of the flow: experiment and activity (65 to 65535).
    pub scitag: Option<u16>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self {
            streams: 1,
            no_head: false,
            expected: Vec::new(),
            overwrite: true,
            scitag: None,
        }
    }
}

/// A copy from another server to here.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// The file to read.
    pub source: TransferUrl,
    /// Headers for the source.
    pub headers: ForwardedHeaders,
    /// How.
    pub options: TransferOptions,
}

/// A copy from here to another server.
#[derive(Clone, Debug)]
pub struct PushRequest {
    /// The file to write.
    pub target: TransferUrl,
    /// Headers for the target.
    pub headers: ForwardedHeaders,
    /// How.
    pub options: TransferOptions,
}

/// The other side's file, as far as its server describes it before its bytes come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceDescription {
    /// Its size in bytes; `None` if the source does not say it.
    pub size: Option<u64>,
    /// Its entity tag, if that is a strong one: with quotes.
    pub etag: Option<String>,
    /// Digests of the whole file.
    pub digests: Vec<Digest>,
    /// The value of `Content-Type`.
    pub content_type: Option<String>,
}

/// Whether a digest of the content was compared, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestVerdict {
    /// The digest.
    pub digest: Digest,
    /// The party that named it.
    pub named_by: DigestOrigin,
    /// Whether the content has it; `None` if this was not found out.
    pub matches: Option<bool>,
}

/// The party that named a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DigestOrigin {
    /// The client, in the request for the copy.
    Client,
    /// The other side.
    Remote,
}

/// A copy that is complete.
#[derive(Clone, Debug)]
pub struct TransferOutcome {
    /// Bytes of the file.
    pub bytes: u64,
    /// The new version of a pull, durable and visible; `None` of a push.
    pub written: Option<ObjectInfo>,
    /// Digests that were compared.
    pub digests: Vec<DigestVerdict>,
    /// How often the data was asked for or sent: 1 without retries.
    pub attempts: u32,
    /// The status of the last answer: of GET, or of PUT.
    pub status: u16,
    /// The server from which the last answer came, after redirects.
    pub remote: Option<SocketAddr>,
}
