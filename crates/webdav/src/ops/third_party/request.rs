//! The headers of a COPY that are about the other side.

use dewar_http_front::{declared_digests, header};
use dewar_transfer::{
    ClientInfo, ForwardedHeaders, ForwardedHeadersError, SCITAGS, TransferOptions, TransferUrl,
    UrlError,
};
use http::StatusCode;

use crate::context::RequestContext;
use crate::error::{DavError, Result};

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
        let client_info = header(headers, "clientinfo").unwrap_or_default();
        let remote = TransferUrl::parse(remote.trim())?;
        if remote.is_directory() {
            return Err(refused(
                "The other side's URL is that of a directory: name a file.",
            ));
        }
        Ok(Self {
            remote,
            headers: ForwardedHeaders::from_request(headers)?,
            options: TransferOptions {
                streams: streams.transpose()?.unwrap_or(1),
                no_head: flags.any(|flag| flag.eq_ignore_ascii_case("nohead")),
                expected: declared_digests(headers)?,
                overwrite: context.overwrites()?,
                scitag: scitag_of(context),
            },
            client_info: client_info.map(ClientInfo::parse).unwrap_or_default(),
        })
    }
}

/// The tag of the flow, by any of the names that clients use. It is for accounting: a wrong one does not stop a
/// copy.
fn scitag_of(context: &RequestContext) -> Option<u16> {
    let named = |name| header(context.headers(), name).unwrap_or_default();
    let query = context.head.uri.query().unwrap_or_default();
    let mut query = query.split('&');
    let text = named("scitag")
        .or_else(|| named("transferheaderscitag"))
        .or_else(|| query.find_map(|pair| pair.strip_prefix("scitag.flow=")));
    let tag = text?.trim().parse().ok();
    tag.filter(|tag| SCITAGS.contains(tag))
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
