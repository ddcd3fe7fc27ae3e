//! The record of a finished copy: the fields of one line of the log ([`crate::RecordLog`]).
//!
//! No field contains a query string, a token, a signature or a header that a client forwards.
//! `docs/transfer.md` has the meaning of each field.

use std::net::IpAddr;

use serde::Serialize;

use crate::client_info::ClientInfo;
use crate::request::{DigestOrigin, DigestVerdict};

/// A copy that ended, however it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransferRecord {
    /// When it ended: RFC 3339 in UTC, with milliseconds.
    pub time: String,
    /// Its number since the start of the server.
    pub id: u64,
    /// The id of the client's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// `http` or `root`.
    pub protocol: &'static str,
    /// `pull` or `push`.
    pub direction: &'static str,
    /// `success`, or the cause of the failure.
    pub cause: &'static str,
    /// The text of the failure, as the client got it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The user who asked for it.
    pub user: String,
    /// The issuer of the user's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The client's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<IpAddr>,
    /// The path here.
    pub local_path: String,
    /// Host and port of the other side.
    pub remote_host: String,
    /// The path there, as it was given.
    pub remote_path: String,
    /// Addresses of the other side to which connections were seen.
    pub remote_addresses: Vec<String>,
    /// Bytes of the file that were copied.
    pub bytes: u64,
    /// All bytes that moved, also in attempts that failed.
    pub moved: u64,
    /// The size of the file, if it was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How often the data was asked for or sent.
    pub attempts: u32,
    /// The status of the other side's last answer; of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Milliseconds in the queue.
    pub waited_ms: u64,
    /// Milliseconds from the start to the first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
    /// Milliseconds from the start, after the queue, to the end.
    pub duration_ms: u64,
    /// The ids of FTS.
    #[serde(flatten)]
    pub client_info: ClientInfo,
    /// The SciTag of the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scitag: Option<u16>,
    /// Digests that were compared.
    pub digests: Vec<DigestRecord>,
}

/// A digest that was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DigestRecord {
    /// Its algorithm.
    pub algorithm: String,
    /// Its value in hexadecimal.
    pub value: String,
    /// `client`, `remote` or `local`: the party that named it.
    pub named_by: &'static str,
    /// Whether the content has it; absent if this was not found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<bool>,
}

impl From<&DigestVerdict> for DigestRecord {
    fn from(verdict: &DigestVerdict) -> Self {
        Self {
            algorithm: verdict.digest.algorithm().to_string(),
            value: verdict.digest.hex(),
            named_by: match verdict.named_by {
                DigestOrigin::Client => "client",
                DigestOrigin::Remote => "remote",
            },
            matches: verdict.matches,
        }
    }
}
