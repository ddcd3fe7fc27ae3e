//! Requests that another server shall answer.

use dewar_xrootd_proto::options::prepare;
use dewar_xrootd_proto::request::{FattrAction, Request, Stat, Target};
use dewar_xrootd_proto::{ErrorCode, QueryKind, split_cgi};

use super::Context;
use crate::error::{Answer, Refusal};
use crate::limits::SERVER_LATER;
use crate::redirect::{Refused, Tried, When};

/// What a request is about, as far as that says who can answer it.
struct About<'r> {
    /// The path as it was sent.
    path: &'r str,
    writes: bool,
    opens: bool,
}

/// The path that a request is about; of several the first. `None` for what is about this server, or
/// about a file that is open here.
fn about(request: &Request) -> Option<About<'_>> {
    let look = |path| (path, false);
    let change = |path| (path, true);
    let (path, writes) = match request {
        Request::Open(open) => (open.path.as_str(), open.writes()),
        Request::Stat(Stat {
            target: Target::Path(path),
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
            target: Target::Path(path),
            ..
        } => change(path.as_str()),
        Request::Fattr(fattr) => match (&fattr.target, &fattr.action) {
            (Target::Path(path), FattrAction::Get(_) | FattrAction::List) => look(path.as_str()),
            (Target::Path(path), _) => change(path.as_str()),
            (Target::Handle(_), _) => return None,
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
    Some(About {
        path,
        writes,
        opens: matches!(request, Request::Open(_)),
    })
}

/// Sends the client to another server, where that shall answer.
///
/// # Errors
/// The redirection itself; what to say to a client for which there is no other server.
pub(super) async fn away(context: &Context, request: &Request) -> Answer<()> {
    let rules = context.door.peers.rules();
    if rules.reads.is_empty() && rules.writes.is_empty() {
        return Ok(());
    }
    let Some(about) = about(request) else {
        return Ok(());
    };
    match rules.when {
        When::Always => always(context, &about).await,
        When::Stopping | When::Balanced if about.opens => {
            gateway(context, &about).await.map_or(Ok(()), Err)
        }
        When::Stopping | When::Balanced => Ok(()),
    }
}

/// What is said to the client: the other server, with who sends it there.
fn there(context: &Context, tried: &Tried<'_>, host: &str, port: u16) -> Refusal {
    let here = context.peer.server.ip().to_canonical().to_string();
    Refusal::elsewhere(format!("{host}?tried={}", tried.and(&here)), port)
}

async fn always(context: &Context, about: &About<'_>) -> Answer<()> {
    let (path, cgi) = split_cgi(about.path);
    let tried = Tried::of(cgi);
    let client = context.peer.client.ip();
    let peers = &context.door.peers;
    let message = |why: &str| format!("Unable to serve {path}; {why}");
    Err(match peers.away(about.writes, client, &tried).await {
        Ok(target) => there(context, &tried, &target.host, target.port),
        Err(Refused::NotConfigured) => Refusal::new(
            ErrorCode::FsReadOnly,
            message("no server is known that takes changes"),
        ),
        Err(Refused::NoneThere) => Refusal::later(SERVER_LATER, "no server is there"),
        Err(Refused::Missing) => {
            Refusal::new(ErrorCode::NotFound, message("no such file or directory"))
        }
        Err(Refused::AllTried) => Refusal::new(
            ErrorCode::NoReplicas,
            message("every server was tried already"),
        ),
    })
}

/// Who has the files sends away what would have to wait, or what another server does better.
async fn gateway(context: &Context, about: &About<'_>) -> Option<Refusal> {
    let (_, cgi) = split_cgi(about.path);
    // A key for a third-party copy is good where it was left.
    if cgi.get("tpc.key").is_some() {
        return None;
    }
    let tried = Tried::of(cgi);
    let client = context.peer.client.ip();
    let peers = &context.door.peers;
    let target = match (context.stopping, peers.rules().when) {
        (true, _) => peers.away(about.writes, client, &tried).await.ok()?,
        // Who was sent here stays here.
        (false, When::Balanced) if tried.is_empty() => {
            let here = context.door.sessions() as u64;
            peers.better(about.writes, client, here)?
        }
        (false, _) => return None,
    };
    Some(there(context, &tried, &target.host, target.port))
}
