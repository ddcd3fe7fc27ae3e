//! Third-party copies, for every protocol: this server is the client of another server.
//!
//! - **Rules for connections** ([`ConnectRules`], [`AllowList`], [`OwnAddresses`]): every address is judged at the
//!   moment of the connection.
//! - **HTTP** ([`TransferClient`]): pull and push with digests, retries that resume, and deadlines.
//! - **The queue** ([`TransferRegistry`]): how many copies run and which is next, the list of copies for
//!   administrators, their records, and the threads that do their work.
//! - **Reports**: [`TransferProgress`] while a copy runs, [`TransferOutcome`] or
//!   [`TransferFailure`] when it is over.
//!
//! Nothing here decides whether the client may read or write the local file. A front calls the verbs of
//! the store for that, and hands their readers and writers over.

mod allow_list;
mod answer_head;
mod block_memory;
mod client;
mod client_info;
mod connect_rules;
mod connection;
mod exchange;
mod failure;
mod firefly;
mod forwarded_headers;
mod limits;
mod name_resolver;
mod outgoing_body;
mod own_addresses;
mod pace;
mod progress;
mod pull;
mod push;
mod queue;
mod ranged_pull;
mod record;
mod record_log;
mod registry;
mod request;
mod request_headers;
mod runtime;
mod url;

pub use allow_list::{AllowList, AllowRule};
pub use answer_head::fuzz_answer_head;
pub use client::{PullTarget, TransferClient, TransferConfig, TransferTimes, Trust};
pub use client_info::ClientInfo;
pub use connect_rules::{ConnectRules, PORTS};
pub use failure::{FAILURE_TEXT_BYTES_MAX, FailureCause, TransferFailure, fuzz_failure_text};
pub use firefly::SCITAGS;
pub use forwarded_headers::{
    FORWARDED_BYTES_MAX, FORWARDED_HEADERS_MAX, ForwardedHeaders, ForwardedHeadersError,
};
pub use own_addresses::{OwnAddresses, RemoteAllowList};
pub use pace::{Pace, PaceMonitor, SlowSource};
pub use progress::TransferProgress;
pub use queue::{QueueFull, QueueLimits, QueuePlace, QueueShare, TransferQueue, WaitedTooLong};
pub use record::{DigestRecord, TransferRecord};
pub use record_log::{RecordConfig, RecordLog};
pub use registry::{
    Transfer, TransferDescription, TransferFigures, TransferRegistry, TransferSnapshot,
    TransferState, TransferView,
};
pub use request::{
    DigestOrigin, DigestVerdict, Direction, PullRequest, PushRequest, SourceDescription,
    TransferOptions, TransferOutcome,
};
pub use runtime::TransferRuntime;
pub use url::{TransferUrl, URL_BYTES_MAX, UrlError};
