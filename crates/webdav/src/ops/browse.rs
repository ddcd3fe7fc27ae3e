//! GET of a directory: a listing for people, in pages, without scripts.

use std::sync::Arc;

use dewar_http_front::{Answer, empty_answer, iso_date, typed_answer};
use dewar_sigv4::{Query, encode_strict};
use dewar_store::file::{DirPage, Node, PathTarget};
use dewar_types::{Error, ErrorKind, Timestamp};
use http::header::{CONTENT_SECURITY_POLICY, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, StatusCode};

use super::get::directory_head;
use super::propfind::{joined, read_page};
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::limits::BROWSER_PAGE;
use crate::resource_path::has_path;
use crate::xml::{push_escaped, push_href};

const BEGIN: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width\"><title>";

pub(super) async fn call(front: &Arc<WebDav>, context: &RequestContext) -> Result<Answer> {
    if context.path.target == PathTarget::Root {
        require_user(context)?;
    }
    if context.head.method == Method::HEAD {
        return Ok(directory_head());
    }
    if !context.path.of_directory {
        return slash_redirect(context);
    }
    let query = Query::parse(context.head.uri.query())
        .map_err(|_| DavError::new(StatusCode::BAD_REQUEST, "The query is not valid."))?;
    let after = query.get("after").map(str::to_owned);
    let target = &context.path.target;
    let page = read_page(front, &context.caller, target, after, BROWSER_PAGE).await?;
    let text = page_text(&context.path.text, &page);
    let mut answer = typed_answer(StatusCode::OK, "text/html; charset=utf-8", text);
    let headers = answer.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(answer)
}

/// Leads to the path with a slash, as web servers do for directories. A server that copies a file sees by it
/// that it would get a listing.
fn slash_redirect(context: &RequestContext) -> Result<Answer> {
    let mut location = String::new();
    // The canonical path: one that begins with two slashes would name another host.
    push_href(&mut location, &context.path.text);
    location.push('/');
    if let Some(query) = context.head.uri.query() {
        location.push('?');
        location.push_str(query);
    }
    let location = HeaderValue::try_from(location)
        .map_err(|_| DavError::new(StatusCode::BAD_REQUEST, "The path is not valid."))?;
    let mut answer = empty_answer(StatusCode::MOVED_PERMANENTLY);
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}

/// The list of buckets is for users, so that a browser asks for a password. The root of another
/// tenant lists nothing.
///
/// # Errors
/// 401 for anonymous callers, 404 for another tenant.
pub(super) fn require_user(context: &RequestContext) -> Result<()> {
    if context.caller.user().is_none() {
        return Err(Error::new(ErrorKind::Denied, "the list of buckets is for users").into());
    }
    let tenant = context.caller.tenant();
    let path = context.path.text.as_str();
    match path.strip_prefix("/@") {
        Some(named) if named != tenant.as_str() => {
            Err(Error::new(ErrorKind::NotFound, "another tenant").into())
        }
        _ => Ok(()),
    }
}

fn page_text(path: &str, page: &DirPage) -> String {
    let mut out = String::from(BEGIN);
    push_escaped(&mut out, path);
    out.push_str("</title></head>\n<body><h1>");
    push_escaped(&mut out, path);
    out.push_str("</h1>\n<table><tr><th>Name</th><th>Bytes</th><th>Modified</th></tr>\n");
    if path != "/" {
        out.push_str("<tr><td><a href=\"");
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        push_link(&mut out, &format!("{above}/"));
        out.push_str("\">..</a></td><td></td><td></td></tr>\n");
    }
    for entry in page.entries.iter().filter(|entry| has_path(&entry.name)) {
        let (slash, size, modified) = match &entry.node {
            Node::File(_, info) => ("", info.size.to_string(), info.content_modified()),
            Node::Directory(attributes) => ("/", String::new(), attributes.modified),
        };
        out.push_str("<tr><td><a href=\"");
        push_link(&mut out, &format!("{}{slash}", joined(path, &entry.name)));
        out.push_str("\">");
        push_escaped(&mut out, &entry.name);
        out.push_str(slash);
        out.push_str("</a></td><td>");
        out.push_str(&size);
        out.push_str("</td><td>");
        if modified != Timestamp(0) {
            out.push_str(&iso_date(modified));
        }
        out.push_str("</td></tr>\n");
    }
    out.push_str("</table>\n");
    if let Some(next) = &page.next {
        let mut encoded = String::new();
        encode_strict(&mut encoded, next.as_bytes());
        out.push_str("<p><a href=\"?after=");
        out.push_str(&encoded);
        out.push_str("\">More</a></p>\n");
    }
    out.push_str("</body></html>\n");
    out
}

/// Appends a path as the value of an attribute.
fn push_link(out: &mut String, path: &str) {
    let mut href = String::new();
    push_href(&mut href, path);
    push_escaped(out, &href);
}
