//! The headers of a COPY that are about the other side.

use dewar_http_front::{declared_digests, header};
use dewar_transfer::{
    ClientInfo, ForwardedHeaders, ForwardedHeadersError, TransferOptions, TransferUrl, UrlError,
};
use http::StatusCode;

use crate::context::RequestContext;
use crate::error::{DavError, Result};

/// Experiments and activities have 9 and 6 bits. Values below are not used.
const SCITAG_MIN: u16 = 65;

/// A copy from or to another server, as a client asks for it.
pub(super) struct RemoteCopy {
    pub(super) remote: TransferUrl,
    pub(super) headers: ForwardedHeaders,
    pub(super) options: TransferOptions,
    pub(super) client_info: ClientInfo,
}

impl RemoteCopy {
    /// Reads the headers; `remote` is the value of `Source` or `Destination`.
    ///
    /// `RequireChecksumVerification`, `X-No-Delegate` and `Secure-Redirection` change nothing: digests are compared
    /// wherever the other side has one, nothing is delegated, and no redirect leaves https.
    ///
    /// # Errors
    /// 400.
    pub(super) fn parse(context: &RequestContext, remote: &str) -> Result<Self> {
        let headers = context.headers();
        let credential = header(headers, "credential")?.map(str::trim);
        if credential.is_some_and(|named| !named.eq_ignore_ascii_case("none")) {
            return Err(refused(
                "The header Credential must be none: send TransferHeaderAuthorization.",
            ));
        }
        let streams = header(headers, "x-number-of-streams")?.map(|text| {
            let count = text.trim().parse::<u32>().ok();
            let count = count.ok_or_else(|| refused("X-Number-Of-Streams is no number."));
            Ok::<_, DavError>(u8::try_from(count?).unwrap_or(u8::MAX))
        });
        let flags = header(headers, "copy-flags")?.unwrap_or_default();
        let mut flags = flags.split([',', ' ', ';']);
        // A tag is for accounting: a wrong one does not stop a copy.
        let scitag = header(headers, "scitag").unwrap_or_default();
        let scitag = scitag.and_then(|text| text.trim().parse().ok());
        let client_info = header(headers, "clientinfo").unwrap_or_default();
        Ok(Self {
            remote: TransferUrl::parse(remote.trim())?,
            headers: ForwardedHeaders::from_request(headers)?,
            options: TransferOptions {
                streams: streams.transpose()?.unwrap_or(1),
                no_head: flags.any(|flag| flag.eq_ignore_ascii_case("nohead")),
                expected: declared_digests(headers)?,
                overwrite: context.overwrites()?,
                scitag: scitag.filter(|tag| *tag >= SCITAG_MIN),
            },
            client_info: client_info.map(ClientInfo::parse).unwrap_or_default(),
        })
    }
}

fn refused(words: &'static str) -> DavError {
    DavError::new(StatusCode::BAD_REQUEST, words)
}

impl From<UrlError> for DavError {
    fn from(error: UrlError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{error}."))
    }
}

impl From<ForwardedHeadersError> for DavError {
    fn from(error: ForwardedHeadersError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{error}."))
    }
}
