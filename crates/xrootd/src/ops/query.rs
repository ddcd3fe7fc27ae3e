//! `query` of every kind, `prepare` and `set`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use dewar_store::file::Node;
use dewar_store::quota::QuotaState;
use dewar_store::space::PUBLIC_SPACE;
use dewar_types::ErrorKind;
use dewar_xrootd_proto::options::prepare as bits;
use dewar_xrootd_proto::request::Prepare;
use dewar_xrootd_proto::{ErrorCode, FileHandle, QueryKind, split_cgi};

use super::file::is_above_objects;
use super::{Context, checksum, config, failed, namespace, third_party, with_nul};
use crate::error::{ErrorReply, VerbResult};
use crate::limits::LIST_PATHS_MAX;
use crate::path::{PathTarget, WirePath};

pub(super) async fn query(
    context: &Context,
    kind: u16,
    handle: FileHandle,
    argument: &[u8],
) -> VerbResult<()> {
    let argument = text(argument)?;
    match QueryKind::from_number(kind) {
        Some(QueryKind::Checksum) => checksum::checksum_of(context, argument).await,
        Some(QueryKind::Config) => config::config(context, argument).await,
        Some(QueryKind::Space) => space(context, argument).await,
        Some(QueryKind::Xattr) => xattr(context, argument).await,
        Some(QueryKind::Stats) => stats(context).await,
        Some(QueryKind::Prepare) => prepared(context, argument).await,
        // These cancel or follow computations, of which there are none.
        Some(QueryKind::ChecksumScan) => {
            context.ok(Bytes::new()).await;
            Ok(())
        }
        Some(QueryKind::OpaqueHandle) if argument.trim() == "ofs.tpc cancel" => {
            third_party::cancel(context, handle).await
        }
        Some(
            QueryKind::Visa
            | QueryKind::FileInfo
            | QueryKind::FsInfo
            | QueryKind::Opaque
            | QueryKind::OpaqueFile
            | QueryKind::OpaqueHandle,
        ) => Err(ErrorReply::unsupported("This query")),
        None => Err(ErrorReply::new(
            ErrorCode::ArgInvalid,
            "Invalid information query type code",
        )),
    }
}

/// Text without the NULs that some clients send.
fn text(argument: &[u8]) -> VerbResult<&str> {
    let end = argument.iter().position(|byte| *byte == 0);
    std::str::from_utf8(&argument[..end.unwrap_or(argument.len())])
        .map_err(|_| ErrorReply::new(ErrorCode::ArgInvalid, "a query is not text"))
}

/// Answers for a path, or for the name of a space. The name is the whole argument, or `oss.cgroup` in the
/// opaque part of a path.
async fn space(context: &Context, argument: &str) -> VerbResult<()> {
    let path = context.path(argument)?;
    let named = match path.cgi().decoded("oss.cgroup") {
        Some(name) => Some(name.into_owned()),
        None => bare_name(argument).map(str::to_owned),
    };
    if let Some(name) = named.filter(|name| name != PUBLIC_SPACE)
        && let Some(space) = named_space(context, &path, &name, argument).await?
    {
        report(context, Some(space)).await;
        return Ok(());
    }
    namespace::stat_path(context, &path, "query the space of").await?;
    report(context, limit(context, &path).await?).await;
    Ok(())
}

/// An argument that can be the name of a space: it has no slash.
fn bare_name(argument: &str) -> Option<&str> {
    let (name, _) = split_cgi(argument);
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// The space of a name. `None` if there is none and the argument can be a path, too: clients may leave out
/// the slash at its beginning.
async fn named_space(
    context: &Context,
    path: &WirePath,
    name: &str,
    argument: &str,
) -> VerbResult<Option<QuotaState>> {
    let caller = context.caller(path).await?;
    match context.door.store.space_named(&caller, name).await {
        Ok(space) => Ok(Some(QuotaState {
            quota: space.quota,
            usage: space.usage,
            space: Some(space.name),
        })),
        Err(error) if error.kind() == ErrorKind::NotFound && bare_name(argument).is_some() => {
            Ok(None)
        }
        Err(error) => Err(failed("query the space of", path)(error)),
    }
}

async fn report(context: &Context, state: Option<QuotaState>) {
    let room = context.door.store.usable_space();
    let (mut total, mut free, mut used) = (room.total, room.free, room.used());
    let mut quota = "-1".to_owned();
    let mut name = PUBLIC_SPACE.to_owned();
    if let Some(state) = state {
        if let Some(bytes) = state.quota.max_bytes {
            total = bytes;
            used = state.usage.bytes;
            free = free.min(bytes.saturating_sub(used));
            quota = bytes.to_string();
        }
        name = state.space.unwrap_or(name);
    }
    context
        .text(&format!(
            "oss.cgroup={name}&oss.space={total}&oss.free={free}&oss.maxf={free}&oss.used={used}&oss.quota={quota}"
        ))
        .await;
}

/// The quota nearest to a path, and its innermost space, for who may list there.
async fn limit(context: &Context, path: &WirePath) -> VerbResult<Option<QuotaState>> {
    let (bucket, key) = match &path.place {
        PathTarget::Root => return Ok(None),
        PathTarget::Bucket(bucket) => (bucket, None),
        PathTarget::Object(object) => (&object.bucket, Some(&object.key)),
    };
    let caller = context.caller(path).await?;
    match context.door.store.quota_at(&caller, bucket, key).await {
        Ok(state) => Ok(state),
        Err(error) if error.kind() == ErrorKind::Denied => Ok(None),
        Err(error) => Err(failed("query the space of", path)(error)),
    }
}

async fn xattr(context: &Context, argument: &str) -> VerbResult<()> {
    let path = context.path(argument)?;
    let node = namespace::stat_path(context, &path, "query").await?;
    let (kind, size, modified) = match &node {
        Node::File(_, info) => ('f', info.size, info.content_modified()),
        Node::Directory(attributes) => ('d', 0, attributes.modified),
    };
    let (modified, changed) = (modified.secs(), node.attributes().changed.secs());
    context
        .text(&format!(
            "oss.cgroup=public&oss.type={kind}&oss.used={size}&oss.mt={modified}&oss.ct={changed}\
             &oss.at={modified}&oss.u=*&oss.g=*&oss.fs=w&ofs.ap=a"
        ))
        .await;
    Ok(())
}

/// One line of XML, as monitoring reads it.
async fn stats(context: &Context) -> VerbResult<()> {
    let counts = context.door.counts();
    let now = context.door.env.clock.now().secs();
    context.door.watched.touch(now);
    let sessions = context.door.sessions();
    if context.is_unproven() {
        // What a redirector needs, and no more.
        let text = format!(
            "<statistics tod=\"{now}\"><stats id=\"link\"><num>{sessions}</num></stats></statistics>"
        );
        context.text(&text).await;
        return Ok(());
    }
    let mut text = String::from("<statistics tod=\"");
    // Writing to a string cannot fail.
    let _ = write!(text, "{now}\" ver=\"dewar-");
    text.push_str(concat!(
        env!("CARGO_PKG_VERSION"),
        "\" pgm=\"dewar\"><stats id=\"xrootd\"><num>"
    ));
    let _ = write!(text, "{}</num><ops>", context.door.sessions());
    for (code, count) in counts.requests().filter(|(_, count)| *count > 0) {
        let _ = write!(text, "<{name}>{count}</{name}>", name = code.name());
    }
    let _ = write!(
        text,
        "</ops><err>{}</err></stats><stats id=\"link\"><num>{}</num><in>{}</in><out>{}</out></stats></statistics>",
        counts.failed.load(Relaxed),
        context.door.sessions(),
        counts.received.load(Relaxed),
        counts.sent.load(Relaxed)
    );
    context.text(&text).await;
    Ok(())
}

/// Everything is on disk, so there is nothing to bring and nothing to wait for.
pub(super) async fn prepare(context: &Context, prepare: Prepare) -> VerbResult<()> {
    let mut lines = prepare.list.lines().filter(|line| !line.is_empty());
    if prepare.options & bits::CANCEL != 0 {
        context.ok(Bytes::new()).await;
        return Ok(());
    }
    if lines.clone().count() > LIST_PATHS_MAX {
        let message = format!("more than {LIST_PATHS_MAX} paths");
        return Err(ErrorReply::new(ErrorCode::ArgTooLong, message));
    }
    if lines.clone().next().is_none() {
        return Err(ErrorReply::new(
            ErrorCode::ArgMissing,
            "Prepare list is empty",
        ));
    }
    // Names that lead nowhere are told now, as far as errors are wanted.
    if prepare.options & bits::NOERRS == 0 {
        for sent in lines.by_ref() {
            let path = context.path(sent)?;
            if !is_above_objects(&path) {
                namespace::stat_path(context, &path, "prepare").await?;
            }
        }
    }
    if prepare.options & bits::STAGE == 0 {
        context.ok(Bytes::new()).await;
        return Ok(());
    }
    let id = format!("{:016x}", context.door.env.rng.u64());
    context.ok(Bytes::from(id)).await;
    Ok(())
}

/// Bytes of what is said of a path beside itself.
const PREPARED_BYTES: usize = 200;

/// What became of a `prepare`: its id, then the paths.
async fn prepared(context: &Context, argument: &str) -> VerbResult<()> {
    let mut lines = argument.lines();
    let id = lines.next().unwrap_or_default();
    let count = lines.clone().take(LIST_PATHS_MAX).count();
    // A byte of a path is six at most.
    let room = context
        .room(argument.len() * 6 + count * PREPARED_BYTES)
        .await;
    let mut text = String::from("{\"request_id\":");
    json(&mut text, id);
    text.push_str(",\"responses\":[");
    for (number, sent) in lines
        .filter(|line| !line.is_empty())
        .take(LIST_PATHS_MAX)
        .enumerate()
    {
        let path = context.path(sent)?;
        let found = namespace::stat_path(context, &path, "query").await;
        if number > 0 {
            text.push(',');
        }
        text.push_str("{\"path\":");
        json(&mut text, sent);
        let there = found.is_ok();
        let _ = write!(
            text,
            ",\"path_exists\":{there},\"on_tape\":false,\"online\":{there},\"requested\":{there},\
             \"has_reqid\":{there},\"req_time\":\"\",\"error_text\":"
        );
        json(
            &mut text,
            found.err().map_or("", |refusal| match refusal.code {
                ErrorCode::NotFound => "no such file or directory",
                _ => "permission denied",
            }),
        );
        text.push('}');
    }
    text.push_str("]}");
    context.ok_in(room, with_nul(&text)).await;
    Ok(())
}

/// Text as JSON has it.
fn json(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// What applications tell of themselves; it goes to the log.
pub(super) async fn set(context: &Context, text: &str) -> VerbResult<()> {
    tracing::debug!(client = %context.peer.client, text, "set");
    // An id of what was told, for those who ask for one.
    if text.trim_start().starts_with("monitor info") {
        context.ok(Bytes::copy_from_slice(&[0, 0, 0, 1])).await;
    } else {
        context.ok(Bytes::new()).await;
    }
    Ok(())
}
