//! `dirlist`, page after page, so that a directory of a million names takes the memory of a
//! thousand.

use std::fmt::Write as _;

use bytes::Bytes;
use dewar_auth::Caller;
use dewar_store::api::BucketPage;
use dewar_store::file::{DirEntry, DirPage, Node, NodeAttributes, ReadDirRequest};
use dewar_types::{BucketName, EntryId};
use dewar_xrootd_proto::options::dirlist::{CHECKSUM, STAT, STATX};
use dewar_xrootd_proto::reply::DIRLIST_STAT_HEAD;
use dewar_xrootd_proto::{Cgi, Reply};

use super::stat_format::{checksum, stat_text};
use super::{Context, failed, with_nul};
use crate::error::VerbResult;
use crate::limits::{DIR_ENTRY_BYTES, DIR_PAGE};
use crate::path::{PathTarget, WirePath};

pub(super) async fn list(context: &Context, sent: &str, options: u8) -> VerbResult<()> {
    let path = context.path(sent)?;
    let caller = context.caller(&path).await?;
    let with_stat = options & (STAT | CHECKSUM | STATX) != 0;
    let sums = (options & CHECKSUM != 0).then(|| checksum_wanted(path.cgi()));
    let mut text = String::new();
    if with_stat {
        text.push_str(DIRLIST_STAT_HEAD);
    }
    let mut after = None;
    loop {
        // A page is as long as there is room for.
        let mut room = context.room(DIR_PAGE * DIR_ENTRY_BYTES).await;
        let max = (room.bytes() / DIR_ENTRY_BYTES).clamp(1, DIR_PAGE);
        let page = match &path.place {
            PathTarget::Root => buckets(context, &path, &caller, after, max).await?,
            PathTarget::Bucket(bucket) => {
                let request = request(bucket.clone(), String::new(), after, max);
                let page = context.door.store.read_dir(&caller, request).await;
                page.map_err(failed("list", &path))?
            }
            PathTarget::Object(object) => {
                let directory = object.key.as_str().to_owned();
                let request = request(object.bucket.clone(), directory, after, max);
                let page = context.door.store.read_dir(&caller, request).await;
                page.map_err(failed("list", &path))?
            }
        };
        for entry in &page.entries {
            if !can_be_listed(&entry.name) {
                continue;
            }
            put(&mut text, entry, with_stat, sums.as_deref());
        }
        after = page.next;
        if after.is_none() {
            // The last line ends with a NUL instead.
            if text.ends_with('\n') {
                text.pop();
            }
            let body = match text.is_empty() {
                true => Bytes::new(),
                false => with_nul(&text),
            };
            context.ok_in(room, body).await;
            return Ok(());
        }
        // Each frame holds whole lines, and pairs of them: clients read each by itself.
        let part = std::mem::take(&mut text);
        if !part.is_empty() {
            let part_len = part.len();
            let reply = Reply::OkSoFar(Bytes::from(part));
            room.shrink(part_len);
            context.outlet.reply_in(room, context.stream, &reply).await;
        }
    }
}

fn request(
    bucket: dewar_store::api::BucketRef,
    directory: String,
    after: Option<String>,
    max: usize,
) -> ReadDirRequest {
    ReadDirRequest {
        bucket,
        directory,
        after,
        max,
    }
}

/// Whether a path can name it: one with a line break would be two, `..` of S3 leads up here, so that
/// who walks down the listings would never come to an end, and behind `?` a path is none any more.
fn can_be_listed(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['\n', '\0', '?'])
}

fn checksum_wanted(cgi: Cgi<'_>) -> String {
    cgi.get("cks.type").unwrap_or("adler32").to_owned()
}

fn put(text: &mut String, entry: &DirEntry, with_stat: bool, sums: Option<&str>) {
    text.push_str(&entry.name);
    text.push('\n');
    if !with_stat {
        return;
    }
    text.push_str(&stat_text(&entry.node));
    if let Some(name) = sums {
        let known = match &entry.node {
            Node::File(_, info) => checksum(&info.digests, name),
            Node::Directory(_) => None,
        };
        let (name, value) = match &known {
            Some(known) => known.split_once(' ').unwrap_or((name, "none")),
            None => (name, "none"),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, " [ {name}:{value} ]");
    }
    text.push('\n');
}

/// The buckets as what is in the root.
async fn buckets(
    context: &Context,
    path: &WirePath,
    caller: &Caller,
    after: Option<String>,
    max: usize,
) -> VerbResult<DirPage> {
    let after = after.and_then(|name| BucketName::new(&name).ok());
    let store = &context.door.store;
    let page: BucketPage = store
        .list_buckets(caller, after, max)
        .await
        .map_err(failed("list", path))?;
    let entry = |bucket: dewar_store::api::BucketInfo| DirEntry {
        name: bucket.name.to_string(),
        node: Node::Directory(NodeAttributes {
            id: EntryId(0),
            owner: bucket.owner,
            mode: 0o755,
            modified: bucket.created,
            changed: bucket.created,
            extended: false,
        }),
    };
    Ok(DirPage {
        entries: page.buckets.into_iter().map(entry).collect(),
        next: page.next.map(|name| name.to_string()),
    })
}
