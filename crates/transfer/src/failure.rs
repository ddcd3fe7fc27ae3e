//! Why a copy failed, in the words that FTS looks for.
//!
//! FTS decides by substrings of the text whether it tries again, and it compares case. A text that
//! contains one of [`RETRY`] is tried again, whatever else it contains. Otherwise a text that contains one of [`FINAL`]
//! is not. So a lasting failure has words of the second list and none of the first, and a passing
//! failure the other way round. All texts are made here.

use std::fmt;
use std::time::Duration;

use dewar_types::ErrorKind;

/// Maximum bytes of a text. A line of davix has 1,023 bytes, with `failure: ` before the text.
pub const FAILURE_TEXT_BYTES_MAX: usize = 900;

/// Words that make FTS try again.
const RETRY: [&str; 8] = [
    "performance marker",
    "Name or service not known",
    "Connection timed out",
    "end-of-file was reached",
    "end of file occurred",
    "SRM_INTERNAL_ERROR",
    "was forcefully killed",
    "operation timeout",
];

/// Words that make FTS give up.
const FINAL: [&str; 19] = [
    "proxy expired",
    "with an error 550 File not found",
    "No such file or directory",
    "SRM_INVALID_PATH",
    "The certificate has expired",
    "The available CRL has expired",
    "SRM Authentication failed",
    "SRM_DUPLICATION_ERROR",
    "SRM_AUTHENTICATION_FAILURE",
    "SRM_AUTHORIZATION_FAILURE",
    "SRM_NO_FREE_SPACE",
    "digest too big for rsa key",
    "Can not determine address of local host",
    "Permission denied",
    "System error in write into HDFS",
    "File exists",
    "checksum do not match",
    "CHECKSUM MISMATCH",
    "The source file is not ONLINE",
];

/// The cause of a failure, for metrics, records, and the decision whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureCause {
    /// The rules of this server forbid connections to that host, address or port.
    NotAllowed,
    /// The name of the other side has no address.
    Resolve,
    /// No address of the other side accepts connections.
    Connect,
    /// A connection was not established in time.
    ConnectTimeout,
    /// TLS failed: no common version, or a certificate that is not trusted.
    Tls,
    /// Too many redirects, a loop, one from https to http, or one without a usable `Location`.
    Redirect,
    /// The other side answered with this status.
    RemoteStatus(u16),
    /// The other side does not speak HTTP as it must.
    Protocol,
    /// The other side sent nothing, or accepted nothing, for too long.
    Stall,
    /// The other side was slower than the configured minimum.
    Slow,
    /// The connection ended before the whole file came or went.
    Truncated,
    /// The other side has or sent another number of bytes than it said.
    Length,
    /// The file is larger than one PUT to a presigned URL may carry.
    TooLarge,
    /// The target of a push exists, and may not be overwritten.
    RemoteExists,
    /// The file at the source changed during the copy.
    SourceChanged,
    /// The content has another digest than the other side says.
    DigestOnWire,
    /// The content has another digest than the client named.
    DigestNamed,
    /// The client may not read or write the file here.
    LocalDenied,
    /// The file exists here, and may not be overwritten.
    LocalExists,
    /// The file, or what must be there to write it, does not exist here.
    LocalMissing,
    /// A quota or the disks are full.
    NoSpace,
    /// Reading or writing here failed for another reason.
    LocalStorage,
    /// The client or an administrator ended the copy.
    Cancelled,
    /// The copy waited too long for its turn.
    QueueTimeout,
    /// Too many copies wait for their turn.
    QueueFull,
    /// The server ends.
    Shutdown,
}

impl FailureCause {
    /// One of each, with some statuses.
    #[cfg(test)]
    const SAMPLES: [Self; 38] = [
        Self::NotAllowed,
        Self::Resolve,
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Redirect,
        Self::RemoteStatus(202),
        Self::RemoteStatus(400),
        Self::RemoteStatus(401),
        Self::RemoteStatus(403),
        Self::RemoteStatus(404),
        Self::RemoteStatus(408),
        Self::RemoteStatus(410),
        Self::RemoteStatus(412),
        Self::RemoteStatus(429),
        Self::RemoteStatus(500),
        Self::RemoteStatus(503),
        Self::RemoteStatus(504),
        Self::RemoteStatus(507),
        Self::Protocol,
        Self::Stall,
        Self::Slow,
        Self::Truncated,
        Self::Length,
        Self::TooLarge,
        Self::RemoteExists,
        Self::SourceChanged,
        Self::DigestOnWire,
        Self::DigestNamed,
        Self::LocalDenied,
        Self::LocalExists,
        Self::LocalMissing,
        Self::NoSpace,
        Self::LocalStorage,
        Self::Cancelled,
        Self::QueueTimeout,
        Self::QueueFull,
        Self::Shutdown,
    ];

    /// The cause of an error of the store.
    #[must_use]
    pub fn of_store(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Denied
            | ErrorKind::Unauthenticated
            | ErrorKind::Locked
            | ErrorKind::EncryptionKey => Self::LocalDenied,
            ErrorKind::AlreadyExists
            | ErrorKind::AlreadyOwned
            | ErrorKind::Precondition
            | ErrorKind::IsADirectory => Self::LocalExists,
            ErrorKind::NoSuchBucket
            | ErrorKind::NotFound
            | ErrorKind::NoSuchVersion
            | ErrorKind::DeleteMarker
            | ErrorKind::NotADirectory => Self::LocalMissing,
            ErrorKind::Quota | ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::ChecksumMismatch => Self::DigestOnWire,
            ErrorKind::IncompleteBody => Self::Length,
            _ => Self::LocalStorage,
        }
    }

    /// Its name in metrics and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAllowed => "not-allowed",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect-timeout",
            Self::Tls => "tls",
            Self::Redirect => "redirect",
            Self::RemoteStatus(_) => "remote-status",
            Self::Protocol => "protocol",
            Self::Stall => "stall",
            Self::Slow => "slow",
            Self::Truncated => "truncated",
            Self::Length => "length",
            Self::TooLarge => "too-large",
            Self::RemoteExists => "remote-exists",
            Self::SourceChanged => "source-changed",
            Self::DigestOnWire => "digest-on-wire",
            Self::DigestNamed => "digest-named",
            Self::LocalDenied => "local-denied",
            Self::LocalExists => "local-exists",
            Self::LocalMissing => "local-missing",
            Self::NoSpace => "no-space",
            Self::LocalStorage => "local-storage",
            Self::Cancelled => "cancelled",
            Self::QueueTimeout => "queue-timeout",
            Self::QueueFull => "queue-full",
            Self::Shutdown => "shutdown",
        }
    }

    /// The status of the other side's answer, if that is the cause.
    #[must_use]
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::RemoteStatus(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the same copy would fail again.
    #[must_use]
    pub const fn is_lasting(self) -> bool {
        match self {
            Self::NotAllowed
            | Self::RemoteExists
            | Self::DigestNamed
            | Self::LocalDenied
            | Self::LocalExists
            | Self::LocalMissing => true,
            Self::RemoteStatus(status) => matches!(status, 401 | 403 | 404 | 410),
            _ => false,
        }
    }

    /// Whether another attempt within the same copy may help.
    pub(crate) const fn is_retried(self) -> bool {
        match self {
            Self::Connect
            | Self::ConnectTimeout
            | Self::Resolve
            | Self::Protocol
            | Self::Stall
            | Self::Truncated
            | Self::Length
            | Self::SourceChanged
            | Self::DigestOnWire => true,
            Self::RemoteStatus(status) => {
                matches!(status, 408 | 423 | 425 | 429 | 500 | 502 | 503 | 504)
            }
            _ => false,
        }
    }

    /// The words with which every text of this cause begins.
    const fn words(self) -> &'static str {
        match self {
            Self::NotAllowed => "Permission denied: this server may not connect there",
            Self::Resolve => "Name or service not known",
            Self::Connect => "Connection failed",
            Self::ConnectTimeout => "Connection timed out",
            Self::Tls => "TLS failed",
            Self::Redirect => "Redirection failed",
            Self::RemoteStatus(401 | 403) => "Permission denied by the other side",
            Self::RemoteStatus(404 | 410) => "No such file or directory at the other side",
            Self::RemoteStatus(408 | 504) => "operation timeout at the other side",
            Self::RemoteStatus(507) => "No space left at the other side",
            Self::RemoteStatus(_) => "The other side refused the request",
            Self::Protocol => "The other side broke the protocol",
            Self::Stall => "operation timeout: no progress",
            Self::Slow => "operation timeout: too slow",
            Self::Truncated => "end-of-file was reached too early",
            Self::Length => "The number of bytes is wrong",
            Self::TooLarge => "The file is too large",
            Self::RemoteExists => "File exists at the other side",
            Self::SourceChanged => "The source changed during the copy",
            Self::DigestOnWire => "The content was damaged on its way",
            Self::DigestNamed => "checksum do not match",
            Self::LocalDenied => "Permission denied here",
            Self::LocalExists => "File exists here",
            Self::LocalMissing => "No such file or directory here",
            Self::NoSpace => "No space left here",
            Self::LocalStorage => "The storage here failed",
            Self::Cancelled => "The copy was cancelled",
            Self::QueueTimeout => "operation timeout: the copy waited too long for its turn",
            Self::QueueFull => "The server is busy: too many copies wait",
            Self::Shutdown => "The server ends",
        }
    }
}

/// A failed copy. Its text is one line of at most [`FAILURE_TEXT_BYTES_MAX`] bytes without any query, token or
/// signature. It follows `failure: ` as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct TransferFailure {
    cause: FailureCause,
    text: String,
}

impl TransferFailure {
    /// A failure with what happened in detail. The detail may be text of the other side: it is cleaned.
    pub fn new(cause: FailureCause, detail: impl fmt::Display) -> Self {
        let mut text = cause.words().to_owned();
        let detail = cleaned(&detail.to_string(), cause.is_lasting());
        if !detail.is_empty() {
            text.push_str(": ");
            text.push_str(&detail);
        }
        let mut end = text.len().min(FAILURE_TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self { cause, text }
    }

    /// The failure of a copy that an administrator or its client ended.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(FailureCause::Cancelled, "")
    }

    /// The failure of a copy that did not run within `limit`.
    #[must_use]
    pub fn queue_timeout(limit: Duration) -> Self {
        let detail = format_args!("{} s", limit.as_secs());
        Self::new(FailureCause::QueueTimeout, detail)
    }

    /// The failure that an error of the store is.
    #[must_use]
    pub fn of_store(error: &dewar_types::Error) -> Self {
        Self::new(FailureCause::of_store(error.kind()), error)
    }

    /// The cause.
    #[must_use]
    pub const fn cause(&self) -> FailureCause {
        self.cause
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds to the text how many attempts were made.
    #[must_use]
    pub(crate) fn after(self, attempts: u32) -> Self {
        if attempts <= 1 {
            return self;
        }
        let note = format!(" ({attempts} attempts)");
        let mut end = self.text.len().min(FAILURE_TEXT_BYTES_MAX - note.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            text: format!("{}{note}", &self.text[..end]),
            ..self
        }
    }
}

impl fmt::Display for TransferFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for TransferFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferFailure({:?}: {})", self.cause, self.text)
    }
}

impl std::error::Error for TransferFailure {}

/// A detail in one line of printable ASCII, without words that FTS would misunderstand, and without
/// what may be a secret: queries, and what follows the names of credentials.
fn cleaned(detail: &str, lasting: bool) -> String {
    let printable = |c: char| match c {
        ' '..='~' => c,
        c if c.is_whitespace() || c.is_control() => ' ',
        _ => '?',
    };
    // The rest is cut off anyway. A secret must not begin before the cut.
    let detail: String = detail.chars().take(4096).map(printable).collect();
    let mut words: Vec<String> = Vec::new();
    let mut secret_follows = false;
    for word in detail.split_ascii_whitespace() {
        let scheme = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let bare = scheme.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let names_scheme = ["bearer", "basic"]
            .iter()
            .any(|name| bare.to_ascii_lowercase().ends_with(name));
        if secret_follows && !names_scheme {
            words.push("...".to_owned());
            secret_follows = false;
            continue;
        }
        secret_follows = names_scheme;
        words.push(without_secret(word));
    }
    let mut text = words.join(" ");
    let forbidden: &[&str] = if lasting { &RETRY } else { &FINAL };
    // Removing one may join the parts of another.
    while let Some(at) = forbidden.iter().find_map(|word| {
        let at = text.find(word)?;
        Some(at..at + word.len())
    }) {
        text.replace_range(at, "...");
    }
    text
}

/// A word without its query, and without a value that looks like a token.
fn without_secret(word: &str) -> String {
    let word = match word.split_once('?') {
        Some((path, _)) => return format!("{}?...", without_secret(path)),
        None => word,
    };
    let lower = word.to_ascii_lowercase();
    let names = [
        "authz=",
        "authorization=",
        "authorization:",
        "access_token=",
        "signature=",
        "x-amz-",
        "token=",
        "%20bearer",
        "bearer%20",
    ];
    if let Some(at) = names.iter().filter_map(|name| lower.find(name)).min() {
        return format!("{}...", &word[..at]);
    }
    // JSON web tokens and macaroons begin so.
    let token = |start: &str| word.find(start);
    match ["eyJ", "MDA"].iter().filter_map(|start| token(start)).min() {
        Some(at) if word.len() - at > 24 => format!("{}...", &word[..at]),
        _ => word.to_owned(),
    }
}

/// Makes a failure of any text.
pub fn fuzz_failure_text(data: &[u8]) {
    let (status, detail) = data.split_first().unwrap_or((&0, &[]));
    let cause = match status {
        0 => FailureCause::DigestNamed,
        1 => FailureCause::RemoteExists,
        2 => FailureCause::Stall,
        status => FailureCause::RemoteStatus(400 + u16::from(*status)),
    };
    let failure = TransferFailure::new(cause, String::from_utf8_lossy(detail)).after(2);
    let text = failure.text();
    assert!(text.len() <= FAILURE_TEXT_BYTES_MAX);
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    let words: &[&str] = if cause.is_lasting() { &RETRY } else { &FINAL };
    assert!(words.iter().all(|word| !text.contains(word)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What FTS makes of a text.
    fn fts_tries_again(text: &str) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        has(&RETRY) || !has(&FINAL)
    }

    #[test]
    fn fts_understands_every_cause() {
        for cause in FailureCause::SAMPLES {
            let mut detail = String::from("said: ");
            for word in RETRY.iter().chain(&FINAL) {
                detail.push_str(word);
                detail.push('\n');
            }
            for detail in ["", "h:443: it is not there", &detail] {
                let failure = TransferFailure::new(cause, detail);
                let text = failure.text();
                assert_eq!(fts_tries_again(text), !cause.is_lasting(), "{text}");
                assert!(text.len() <= FAILURE_TEXT_BYTES_MAX && !text.contains('\n'));
                if cause.is_lasting() {
                    let words = [
                        "No such file or directory",
                        "Permission denied",
                        "File exists",
                        "checksum do not match",
                    ];
                    let said = words.iter().any(|word| text.contains(word));
                    assert!(said && !text.contains("timed out"), "{text}");
                } else {
                    let none = FINAL.iter().all(|word| !text.contains(word));
                    assert!(none, "{text}");
                }
            }
        }
    }

    #[test]
    fn the_words_of_issue_and_client_are_exact() {
        let text = |cause| TransferFailure::new(cause, "x").text().to_owned();
        for (cause, words) in [
            (FailureCause::RemoteStatus(404), "No such file or directory"),
            (FailureCause::RemoteStatus(401), "Permission denied"),
            (FailureCause::RemoteStatus(403), "Permission denied"),
            (FailureCause::RemoteExists, "File exists"),
            (FailureCause::LocalExists, "File exists"),
            (FailureCause::NotAllowed, "Permission denied"),
            (FailureCause::Stall, "operation timeout"),
            (FailureCause::QueueTimeout, "operation timeout"),
            (FailureCause::ConnectTimeout, "Connection timed out"),
            (FailureCause::DigestNamed, "checksum do not match"),
        ] {
            assert!(text(cause).contains(words), "{cause:?}");
        }
        assert!(!text(FailureCause::DigestOnWire).contains("checksum"));
    }

    #[test]
    fn no_text_contains_a_secret() {
        for detail in [
            "https://h/x?authz=Bearer%20SECRET-SECRET-SECRET gone",
            "refused /x?X-Amz-Signature=SECRET&y",
            "Authorization: Bearer SECRET is wrong",
            "authorization: bearer SECRET",
            "(Bearer SECRET)",
            "header 'Basic SECRET'",
            "authz=Bearer%20SECRET",
            "token=SECRET",
            "\"access_token\":x access_token=SECRET",
            "bad eyJhbGciOiJSUzI1NiJ9.SECRET.0123456789",
            "Authorization:SECRET",
            "X-Amz-Security-Token:SECRET",
            "?SECRET",
            "Bearer\u{a0}SECRET",
            "Bearer\r\nSECRET",
        ] {
            let failure = TransferFailure::new(FailureCause::RemoteStatus(500), detail);
            assert!(!failure.text().contains("SECRET"), "{failure}");
            assert!(!format!("{failure:?}").contains("SECRET"), "{failure:?}");
        }
    }

    #[test]
    fn attempts_are_told_within_the_limit() {
        let long = TransferFailure::new(FailureCause::Stall, "x".repeat(5000)).after(4);
        assert_eq!(long.text().len(), FAILURE_TEXT_BYTES_MAX);
        assert!(long.text().ends_with(" (4 attempts)"));
        let once = TransferFailure::new(FailureCause::Stall, "x");
        assert_eq!(once.clone().after(1), once);
    }

    proptest! {
        #[test]
        fn any_detail_gives_one_line(detail in "(.|\n|\r){0,1200}", which in 0..FailureCause::SAMPLES.len()) {
            let cause = FailureCause::SAMPLES[which];
            let failure = TransferFailure::new(cause, &detail).after(3);
            let text = failure.text();
            prop_assert!(text.len() <= FAILURE_TEXT_BYTES_MAX);
            prop_assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')));
            prop_assert_eq!(fts_tries_again(text), !cause.is_lasting());
        }
    }
}
