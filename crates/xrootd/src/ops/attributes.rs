//! `fattr` and `chmod`.

use bytes::Bytes;
use dewar_store::api::ObjectRef;
use dewar_store::file::AttributeChange;
use dewar_types::ErrorKind;
use dewar_xrootd_proto::ErrorCode;
use dewar_xrootd_proto::options::fattr::{NEW, VALUES};
use dewar_xrootd_proto::reply::{AttributeOutcome, AttributeReply};
use dewar_xrootd_proto::request::{Fattr, FattrAction, HandleOrPath};

use super::{Context, failed};
use crate::error::{ErrorReply, VerbResult};
use crate::path::{PathTarget, WirePath};
use crate::session::Handle;

/// Bytes of an answer with all attributes of a file: names and values are 64 KiB at most, and some
/// bytes stand before each.
const ATTRIBUTES_BYTES: usize = 72 << 10;

/// Permission bits are kept and shown; who may do what is decided by policies.
pub(super) async fn chmod(context: &Context, sent: &str, mode: u16) -> VerbResult<()> {
    let path = context.path(sent)?;
    let object = in_bucket("chmod", &path)?;
    let caller = context.caller(&path).await?;
    let change = AttributeChange {
        mode: Some(u32::from(mode & 0o777)),
        ..AttributeChange::default()
    };
    let store = &context.door.store;
    let changed = store.change_attributes(&caller, object, change).await;
    changed.map_err(failed("chmod", &path))?;
    context.ok(Bytes::new()).await;
    Ok(())
}

/// What may have attributes: everything below a bucket.
fn in_bucket<'p>(doing: &str, path: &'p WirePath) -> VerbResult<&'p ObjectRef> {
    match &path.place {
        PathTarget::Object(object) => Ok(object),
        PathTarget::Root | PathTarget::Bucket(_) => {
            let message = format!("Unable to {doing} {}; it is a bucket or above", path.shown);
            Err(ErrorReply::new(ErrorCode::Unsupported, message))
        }
    }
}

pub(super) async fn fattr(context: &Context, fattr: Fattr) -> VerbResult<()> {
    let mut written = None;
    let path = match &fattr.target {
        HandleOrPath::Path(sent) => context.path(sent)?,
        HandleOrPath::Handle(handle) => match context.session.handle(*handle, "fattr")? {
            Handle::Reader(reader) => context.path(&reader.path)?,
            Handle::Writer(writer) => {
                let path = context.path(&writer.path)?;
                written = Some(writer);
                path
            }
            Handle::Copy(copy) => context.path(&copy.writer.path)?,
        },
    };
    let object = in_bucket("fattr", &path)?;
    let caller = context.caller(&path).await?;
    // What a file has, or the same as often as a client names it.
    let values = match &fattr.action {
        FattrAction::Get(names) => names.len().max(1),
        FattrAction::List | FattrAction::Delete(_) | FattrAction::Set(_) => 1,
    };
    let room = context.room(values * ATTRIBUTES_BYTES).await;
    let store = &context.door.store;
    let there = match &written {
        // It has them when it is closed.
        Some(writer) => writer.attributes(AttributeChange::default()).await?,
        None => store.extended_attributes(&caller, object).await,
    };
    let there = there.map_err(failed("fattr", &path))?;
    let outcome = |name: String, error: Option<ErrorCode>, value: Bytes| AttributeOutcome {
        name,
        error: error.map_or(0, |error| error.number() as u16),
        value,
    };
    let missing = |name: &String| (!there.contains_key(name)).then_some(ErrorCode::AttrNotFound);
    let mut change = AttributeChange::default();
    let (outcomes, values) = match fattr.action {
        FattrAction::List => {
            let values = fattr.options & VALUES != 0;
            let outcomes = there
                .into_iter()
                .map(|(name, value)| outcome(name, None, value));
            let reply = AttributeReply {
                outcomes: outcomes.collect(),
            };
            context.ok_in(room, reply.encode_list(values)).await;
            return Ok(());
        }
        FattrAction::Get(names) => {
            let get = |name: String| {
                let (error, value) = (missing(&name), there.get(&name).cloned());
                outcome(name, error, value.unwrap_or_default())
            };
            (names.into_iter().map(get).collect(), true)
        }
        FattrAction::Delete(names) => {
            change.remove.clone_from(&names);
            let gone = |name: String| {
                let error = missing(&name);
                outcome(name, error, Bytes::new())
            };
            (names.into_iter().map(gone).collect(), false)
        }
        FattrAction::Set(pairs) => {
            let only_new = fattr.options & NEW != 0;
            let mut outcomes = Vec::with_capacity(pairs.len());
            for (name, value) in pairs {
                if only_new && there.contains_key(&name) {
                    outcomes.push(outcome(name, Some(ErrorCode::ItExists), Bytes::new()));
                    continue;
                }
                outcomes.push(outcome(name.clone(), None, Bytes::new()));
                change.set.push((name, value));
            }
            change.only_new = only_new;
            (outcomes, false)
        }
    };
    if !(change.set.is_empty() && change.remove.is_empty()) {
        let changed = match &written {
            Some(writer) => writer.attributes(change).await?.map(drop),
            None => store.change_attributes(&caller, object, change).await,
        };
        changed.map_err(|error| match error.kind() {
            ErrorKind::TooLarge => ErrorReply::new(ErrorCode::ArgTooLong, error.to_string()),
            _ => failed("fattr", &path)(error),
        })?;
    }
    let body = AttributeReply { outcomes }.encode(values);
    context.ok_in(room, body).await;
    Ok(())
}
