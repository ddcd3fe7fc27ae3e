//! The methods, one file each.

mod browse;
mod copy_move;
mod delete;
mod get;
mod lock;
mod make_collection;
mod multistatus;
mod property;
mod propfind;
mod proppatch;
mod put;
mod third_party;

use std::sync::Arc;

use dewar_http_front::{Answer, empty_answer};
use http::header::{ACCEPT_RANGES, ALLOW};
use http::{HeaderName, HeaderValue, Method, StatusCode};

use crate::context::RequestContext;
use crate::error::Result;
use crate::front::WebDav;
use crate::if_header::IfHeader;

/// The methods that OPTIONS names.
pub(crate) const ALLOWED: &str =
    "OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, PROPFIND, PROPPATCH, COPY, MOVE, LOCK, UNLOCK";

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DavMethod {
    Options,
    Get,
    Head,
    Put,
    Delete,
    MkCol,
    PropFind,
    PropPatch,
    Copy,
    Move,
    Lock,
    Unlock,
}

impl DavMethod {
    const ALL: [Self; 12] = [
        Self::Options,
        Self::Get,
        Self::Head,
        Self::Put,
        Self::Delete,
        Self::MkCol,
        Self::PropFind,
        Self::PropPatch,
        Self::Copy,
        Self::Move,
        Self::Lock,
        Self::Unlock,
    ];

    /// The method of a request, if it is one of these.
    pub(crate) fn of(method: &Method) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|known| known.name() == method.as_str())
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Options => "OPTIONS",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::MkCol => "MKCOL",
            Self::PropFind => "PROPFIND",
            Self::PropPatch => "PROPPATCH",
            Self::Copy => "COPY",
            Self::Move => "MOVE",
            Self::Lock => "LOCK",
            Self::Unlock => "UNLOCK",
        }
    }

    /// Whether it changes something.
    pub(crate) const fn changes(self) -> bool {
        !matches!(
            self,
            Self::Options | Self::Get | Self::Head | Self::PropFind
        )
    }
}

/// Runs a method.
pub(crate) async fn call(
    front: &Arc<WebDav>,
    method: DavMethod,
    context: &mut RequestContext,
) -> Result<Answer> {
    if let Some(conditions) = IfHeader::of(context.headers())? {
        context.required_etag = conditions.check(front, context).await?;
    }
    match method {
        DavMethod::Options => Ok(options()),
        DavMethod::Get => get::get(front, context).await,
        DavMethod::Head => get::head(front, context).await,
        DavMethod::Put => put::call(front, context).await,
        DavMethod::Delete => delete::call(front, context).await,
        DavMethod::MkCol => make_collection::call(front, context).await,
        DavMethod::PropFind => propfind::call(front, context).await,
        DavMethod::PropPatch => proppatch::call(front, context).await,
        DavMethod::Copy => copy_move::copy(front, context).await,
        DavMethod::Move => copy_move::rename(front, context).await,
        DavMethod::Lock => lock::lock(front, context).await,
        DavMethod::Unlock => lock::unlock(front, context).await,
    }
}

/// The answer to OPTIONS. It needs no credentials.
pub(crate) fn options() -> Answer {
    let mut answer = empty_answer(StatusCode::OK);
    let headers = answer.headers_mut();
    for (name, value) in [
        (HeaderName::from_static("dav"), "1, 2"),
        (ALLOW, ALLOWED),
        (HeaderName::from_static("ms-author-via"), "DAV"),
        (ACCEPT_RANGES, "bytes"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}
