//! Requests that another server shall answer.

use dewar_xrootd_proto::options::prepare;
use dewar_xrootd_proto::request::{FattrAction, HandleOrPath, Request, Stat};
use dewar_xrootd_proto::{ErrorCode, QueryKind, split_cgi};

use super::Context;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::SERVER_LATER;
use crate::redirect::{ExcludedHosts, NoServer, RedirectMode};

/// What a request is about, as far as that says who can answer it.
struct RequestSubject<'r> {
    /// The path as it was sent.
    path: &'r str,
    writes: bool,
    opens: bool,
}

/// The path that a request is about; of several the first. `None` for what is about this server, or
/// about a file that is open here.
fn about(request: &Request) -> Option<RequestSubject<'_>> {
    let look = |path| (path, false);
    let change = |path| (path, true);
    let (path, writes) = match request {
        Request::Open(open) => (open.path.as_str(), open.writes()),
        Request::Stat(Stat {
            target: HandleOrPath::Path(path),
            ..
        }) => look(path.as_str()),
        Request::Statx { paths, .. } => look(paths.first()?.as_str()),
        Request::Dirlist { path, .. } => look(path.as_str()),
        Request::Locate { path, .. } => look(path.strip_prefix('*').unwrap_or(path)),
        Request::Mkdir { path, .. }
        | Request::Rm { path }
        | Request::Rmdir { path }
        | Request::Chmod { path, .. } => change(path.as_str()),
        Request::Mv { from, .. } => change(from.as_str()),
        Request::Truncate {
            target: HandleOrPath::Path(path),
            ..
        } => change(path.as_str()),
        Request::Fattr(fattr) => match (&fattr.target, &fattr.action) {
            (HandleOrPath::Path(path), FattrAction::Get(_) | FattrAction::List) => {
                look(path.as_str())
            }
            (HandleOrPath::Path(path), _) => change(path.as_str()),
            (HandleOrPath::Handle(_), _) => return None,
        },
        Request::Prepare(asked) => match asked.options & prepare::CANCEL {
            0 => look(asked.list.lines().find(|line| !line.is_empty())?),
            _ => return None,
        },
        Request::Query { kind, argument, .. } => {
            let text = std::str::from_utf8(argument).ok()?.trim_end_matches('\0');
            match QueryKind::from_number(*kind)? {
                QueryKind::Checksum
                | QueryKind::Space
                | QueryKind::Xattr
                | QueryKind::OpaqueFile => look(text),
                // An id stands before the paths.
                QueryKind::Prepare => look(text.lines().nth(1)?),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(RequestSubject {
        path,
        writes,
        opens: matches!(request, Request::Open(_)),
    })
}

/// Sends the client to another server, where that shall answer.
///
/// # Errors
/// The redirection itself; what to say to a client for which there is no other server.
pub(super) async fn redirect(context: &Context, request: &Request) -> VerbResult<()> {
    let rules = context.door.peers.rules();
    if rules.reads.is_empty() && rules.writes.is_empty() {
        return Ok(());
    }
    let Some(about) = about(request) else {
        return Ok(());
    };
    match rules.when {
        RedirectMode::Always => always(context, &about).await,
        RedirectMode::Stopping | RedirectMode::Balanced if about.opens => {
            gateway(context, &about).await.map_or(Ok(()), Err)
        }
        RedirectMode::Stopping | RedirectMode::Balanced => Ok(()),
    }
}

/// What is said to the client: the other server, with who sends it there.
fn there(context: &Context, tried: &ExcludedHosts<'_>, host: &str, port: u16) -> ErrorReply {
    let here = context.peer.server.ip().to_canonical().to_string();
    ErrorReply::elsewhere(format!("{host}?tried={}", tried.and(&here)), port)
}

async fn always(context: &Context, about: &RequestSubject<'_>) -> VerbResult<()> {
    let (path, cgi) = split_cgi(about.path);
    let tried = ExcludedHosts::of(cgi);
    let client = context.peer.client.ip();
    let peers = &context.door.peers;
    let message = |why: &str| format!("Unable to serve {path}; {why}");
    Err(match peers.redirect(about.writes, client, &tried).await {
        Ok(target) => there(context, &tried, &target.host, target.port),
        Err(NoServer::NotConfigured) => ErrorReply::new(
            ErrorCode::FsReadOnly,
            message("no server is known that takes changes"),
        ),
        Err(NoServer::NoneThere) => ErrorReply::later(SERVER_LATER, "no server is there"),
        Err(NoServer::Missing) => {
            ErrorReply::new(ErrorCode::NotFound, message("no such file or directory"))
        }
        Err(NoServer::AllTried) => ErrorReply::new(
            ErrorCode::NoReplicas,
            message("every server was tried already"),
        ),
    })
}

/// Who has the files sends away what would have to wait, or what another server does better.
async fn gateway(context: &Context, about: &RequestSubject<'_>) -> Option<ErrorReply> {
    let (_, cgi) = split_cgi(about.path);
    // A key for a third-party copy is good where it was left.
    if cgi.get("tpc.key").is_some() {
        return None;
    }
    let tried = ExcludedHosts::of(cgi);
    let client = context.peer.client.ip();
    let peers = &context.door.peers;
    let target = match (context.stopping, peers.rules().when) {
        (true, _) => peers.redirect(about.writes, client, &tried).await.ok()?,
        // Who was sent here stays here.
        (false, RedirectMode::Balanced) if tried.is_empty() => {
            let here = context.door.sessions() as u64;
            peers.better(about.writes, client, here)?
        }
        (false, _) => return None,
    };
    Some(there(context, &tried, &target.host, target.port))
}
