//! Reading the body of a request within its limits.

use std::error::Error;
use std::io;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::TRANSFER_ENCODING;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;

use crate::limits::{REFUSED_BODY_BYTES_MAX, REFUSED_BODY_DEADLINE};
use crate::{RequestError, Result};

/// A body from the connection. If the client stalls, the body ends with an [`io::Error`] of kind
/// `TimedOut`: the connection has the deadline.
pub type WireBody = BoxBody<Bytes, Box<dyn Error + Send + Sync>>;

fn stands_still(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}

/// The length in a header, if there is one.
///
/// # Errors
/// [`RequestError::Length`].
pub fn announced_length(headers: &HeaderMap, name: &str) -> Result<Option<u64>> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let digits = value.to_str().ok().filter(|text| {
        !text.is_empty() && text.len() <= 19 && text.bytes().all(|b| b.is_ascii_digit())
    });
    digits
        .and_then(|text| text.parse::<u64>().ok())
        .map(Some)
        .ok_or_else(|| RequestError::Length(name.to_owned()))
}

/// Whether the body comes in HTTP chunks, its length unknown.
///
/// # Errors
/// [`RequestError::TransferCoding`] for another coding, because its bytes would be stored encoded.
pub fn transfer_chunked(headers: &HeaderMap) -> Result<bool> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return Ok(false);
    };
    let known = coding.as_bytes().trim_ascii();
    if known.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() {
        return Ok(true);
    }
    Err(RequestError::TransferCoding)
}

/// The body of a connection, frame by frame.
pub struct BodyReader(WireBody);

impl BodyReader {
    /// Reads this body.
    #[must_use]
    pub fn new(wire: WireBody) -> Self {
        Self(wire)
    }

    /// The next bytes, never empty; `None` at the end of the body.
    ///
    /// # Errors
    /// [`RequestError::Stalled`]; [`RequestError::Incomplete`] when the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Err(error)) if stands_still(&*error) => return Err(RequestError::Stalled),
                Some(Err(error)) => {
                    tracing::debug!(%error, "the body of a request broke off");
                    return Err(RequestError::Incomplete);
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// [`RequestError::TooLarge`] for more than `max` bytes; otherwise as [`BodyReader::next`].
    pub async fn collect(&mut self, max: usize) -> Result<Bytes> {
        let too_large = |size: usize| RequestError::TooLarge {
            size: size as u64,
            largest: max as u64,
        };
        let Some(first) = self.next().await? else {
            return Ok(Bytes::new());
        };
        if first.len() > max {
            return Err(too_large(first.len()));
        }
        let mut all = BytesMut::new();
        while let Some(data) = self.next().await? {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            if all.len() + data.len() > max {
                return Err(too_large(all.len() + data.len()));
            }
            all.extend_from_slice(&data);
        }
        Ok(match all.is_empty() {
            true => first,
            false => all.freeze(),
        })
    }

    /// Reads and discards a part of the body of a refused request, so that a client that writes
    /// before it reads sees the answer.
    pub async fn drain(&mut self) {
        let read = async {
            let mut left = REFUSED_BODY_BYTES_MAX;
            while let Ok(Some(data)) = self.next().await {
                left = left.saturating_sub(data.len() as u64);
                if left == 0 {
                    return;
                }
            }
        };
        // Whether it ended or not, the answer goes out next.
        let _ended = tokio::time::timeout(REFUSED_BODY_DEADLINE, read).await;
    }
}

/// The announced, the allowed and the received length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLength {
    announced: Option<u64>,
    largest: u64,
    received: u64,
}

impl BodyLength {
    /// Nothing has come yet.
    ///
    /// # Errors
    /// [`RequestError::TooLarge`] when the announced length is.
    pub fn new(announced: Option<u64>, largest: u64) -> Result<Self> {
        let mut length = Self {
            announced,
            largest,
            received: 0,
        };
        length.limit(largest)?;
        Ok(length)
    }

    /// Lowers the largest accepted size.
    ///
    /// # Errors
    /// [`RequestError::TooLarge`] when the announced length is larger.
    pub fn limit(&mut self, largest: u64) -> Result<()> {
        self.largest = self.largest.min(largest);
        match self.announced {
            Some(size) if size > self.largest => Err(self.too_large(size)),
            _ => Ok(()),
        }
    }

    /// How many bytes are to come, when the client said so.
    #[must_use]
    pub fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Bytes that have come.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Counts bytes that have come.
    ///
    /// # Errors
    /// [`RequestError::TooLarge`] and [`RequestError::TooLong`].
    pub fn count(&mut self, bytes: usize) -> Result<()> {
        self.received += bytes as u64;
        if self.received > self.largest {
            return Err(self.too_large(self.received));
        }
        match self.announced {
            Some(announced) if self.received > announced => Err(RequestError::TooLong),
            _ => Ok(()),
        }
    }

    /// Checks at the end of the body that all announced bytes have come.
    ///
    /// # Errors
    /// [`RequestError::Incomplete`].
    pub fn finish(&self) -> Result<()> {
        match self.announced {
            Some(announced) if self.received < announced => Err(RequestError::Incomplete),
            _ => Ok(()),
        }
    }

    fn too_large(&self, size: u64) -> RequestError {
        RequestError::TooLarge {
            size,
            largest: self.largest,
        }
    }
}
