//! Put, get, head, delete, copy.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_env::sim::SimRng;
use dewar_store::ContentWriter;
use dewar_store::api::{
    CopyRequest, DeleteItem, DeleteRequest, ETagMatch, ExpectedContent, GetRequest, Hierarchy,
    ObjectInfo, ReadCondition, VersionAttributes, WriteCondition, WriteRequest,
};
use dewar_types::{Error, ErrorKind, RangeSpec};

use crate::bench::{OpOutcome, Process, object_key};
use crate::content::ObjectContent;
use crate::model::{Moment, Value};
use crate::plan::{Focus, Mix};

/// Pauses that a slow reader makes: without an end a large object would take it hours.
const PAUSES_MAX: u32 = 100;

pub(super) async fn put(process: &Process, rng: &SimRng) {
    let key = process.bench.key(rng);
    let content = process.bench.content(rng);
    let condition = match rng.below(12) {
        0 => WriteCondition::absent(),
        1 => WriteCondition {
            if_match: vec![ETagMatch::Any],
            ..WriteCondition::default()
        },
        _ => WriteCondition::default(),
    };
    let request = WriteRequest {
        size: rng.coin().then_some(content.len()),
        want: match rng.below(3) {
            0 => AlgorithmSet::EMPTY,
            _ => AlgorithmSet::EMPTY.with(Algorithm::Md5),
        },
        condition,
        ..WriteRequest::new(process.object(&key))
    };
    let write = process
        .bench
        .model
        .lock()
        .begin(&key, Some(content.clone()));
    let what = format!("put {key} {content:?}");
    process.bench.trace.note(format_args!("{what}"));
    let mut chunk = 1 + rng.below(40_000);
    if process.bench.plan.focus == Focus::Flaps {
        chunk = chunk.max(content.len() / 6);
    }
    let work = async {
        let mut upload = process.store.write(&process.caller, request).await?;
        feed(process, rng, &mut upload, &content, chunk).await?;
        upload.commit(ExpectedContent::default()).await
    };
    let outcome = process.ask(rng, work).await;
    if let OpOutcome::Done(info) = &outcome
        && info.size != content.len()
    {
        let size = info.size;
        process
            .bench
            .fail(format!("{what}: answered with {size} bytes"));
    }
    process.conclude(&what, &[write], &outcome);
}

async fn feed(
    process: &Process,
    rng: &SimRng,
    upload: &mut ContentWriter,
    content: &ObjectContent,
    chunk: u64,
) -> Result<(), Error> {
    let mut at = 0;
    while at < content.len() {
        let to = (at + chunk).min(content.len());
        upload.write(content.bytes(at, to)).await?;
        at = to;
        if process.bench.plan.focus == Focus::Flaps {
            tokio::time::sleep(Duration::from_millis(rng.below(700))).await;
        }
    }
    Ok(())
}

pub(super) async fn get(process: &Process, rng: &SimRng) {
    let mut key = process.bench.key(rng);
    // What is being written now is what may be shown too early.
    if rng.coin() {
        let open = process.bench.model.lock().open();
        if let Some(other) = open.get(crate::plan::pick(rng, open.len())) {
            key.clone_from(other);
        }
    }
    let range = match rng.below(4) {
        0 => Some(RangeSpec::FromTo(rng.below(5000), 5000 + rng.below(40_000))),
        1 => Some(RangeSpec::Last(1 + rng.below(9000))),
        _ => None,
    };
    // A reader that takes its time holds its object over overwrites, deletes and compaction.
    let few = process.bench.plan.mix == Mix::Few;
    let patience = if rng.below(if few { 2 } else { 4 }) == 0 {
        12_000
    } else {
        0
    };
    let (rng, pauses) = (rng.fork(), AtomicU32::new(0));
    observe(process, &key, range, || {
        match pauses.fetch_add(1, Ordering::Relaxed) < PAUSES_MAX {
            true => Duration::from_millis(rng.below(patience + 1)),
            false => Duration::ZERO,
        }
    })
    .await;
}

fn get_request(process: &Process, key: &str, range: Option<RangeSpec>) -> GetRequest {
    GetRequest {
        customer_key: None,
        version: None,
        object: process.object(key),
        range,
        part: None,
        condition: ReadCondition::default(),
    }
}

/// Reads and compares with what may be read; what it was, if that could be found out.
pub(crate) async fn observe(
    process: &Process,
    key: &str,
    range: Option<RangeSpec>,
    dawdle: impl Fn() -> Duration,
) -> Option<Value> {
    let bench = &process.bench;
    bench.ops.fetch_add(1, Ordering::Relaxed);
    let since = bench.model.lock().tick();
    let request = get_request(process, key, range);
    let mut download = match process.store.get(&process.caller, request).await {
        Ok(download) => download,
        Err(error) => return absent(process, key, since, &error),
    };
    let size = download.info.size;
    let mut values = bench.model.lock().values(key, since);
    values.retain(|value| value.as_ref().is_some_and(|content| content.len() == size));
    if values.is_empty() {
        wrong(process, key, since, &format!("an object of {size} bytes"));
        return None;
    }
    let (mut at, end) = (download.range.start, download.range.end);
    while let Some(bytes) = download.next().await {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => {
                bench.trace.note(format_args!("get {key}: {error}"));
                if !process.excuses(true) {
                    bench.fail(format!("get {key} failed in the middle: {error:?}"));
                }
                return None;
            }
        };
        values.retain(|value| {
            value
                .as_ref()
                .is_some_and(|content| content.matches(at, &bytes))
        });
        if values.is_empty() {
            let what = format!("bytes from {at} on that nobody wrote there");
            wrong(process, key, since, &what);
            return None;
        }
        at += bytes.len() as u64;
        let pause = dawdle();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    if at != end {
        bench.fail(format!("get {key} ended at {at} of {end}"));
        return None;
    }
    bench.trace.note(format_args!("get {key}: {:?}", values[0]));
    if let [value] = &values[..] {
        // What was shown once stays, whether or not its writer was answered.
        bench.model.lock().seen(key, value);
    }
    values.pop()
}

/// Whether everything that can be found can be read to its end; what it is does not matter.
pub(crate) async fn readable(process: &Process) -> Result<(), Error> {
    let keys = process.bench.model.lock().keys();
    for key in keys {
        let read = async {
            let request = get_request(process, &key, None);
            let mut download = process.store.get(&process.caller, request).await?;
            while let Some(bytes) = download.next().await {
                bytes?;
            }
            Ok::<(), Error>(())
        };
        match read.await {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error.context(&key));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The answer was an error: that there is nothing, or another one.
fn absent(process: &Process, key: &str, since: Moment, error: &Error) -> Option<Value> {
    let bench = &process.bench;
    bench.trace.note(format_args!("get {key}: {error}"));
    match error.kind() {
        ErrorKind::NotFound => {
            let values = bench.model.lock().values(key, since);
            if values.contains(&None) {
                return Some(None);
            }
            wrong(process, key, since, "nothing");
        }
        ErrorKind::InvalidRange => {}
        _ if process.excuses(true) => {}
        _ => bench.fail(format!("{key} cannot be read: {error:?}")),
    }
    None
}

fn wrong(process: &Process, key: &str, since: Moment, read: &str) {
    let model = process.bench.model.lock();
    let values = model.values(key, since);
    let all = model.describe(key);
    drop(model);
    process.bench.fail(format!(
        "{key} reads as {read}; possible since {since} are {values:?}, of {all}"
    ));
}

pub(super) async fn head(process: &Process, rng: &SimRng) {
    let key = process.bench.key(rng);
    let since = process.bench.model.lock().tick();
    let request = get_request(process, &key, None);
    process.bench.ops.fetch_add(1, Ordering::Relaxed);
    match process.store.head(&process.caller, request).await {
        Ok((info, _)) => {
            process
                .bench
                .trace
                .note(format_args!("head {key}: {}", info.size));
            let values = process.bench.model.lock().values(&key, since);
            let fits = |value: &Value| value.as_ref().is_some_and(|c| c.len() == info.size);
            if !values.iter().any(fits) {
                wrong(process, &key, since, &format!("{} bytes", info.size));
            }
        }
        Err(error) => {
            absent(process, &key, since, &error);
        }
    }
}

pub(super) async fn delete(process: &Process, rng: &SimRng) {
    let key = process.bench.key(rng);
    let request = DeleteRequest {
        version: None,
        bypass: false,
        object: process.object(&key),
        condition: WriteCondition::default(),
    };
    let write = process.bench.model.lock().begin(&key, None);
    let (store, caller) = (&process.store, &process.caller);
    let outcome = if rng.coin() {
        let removed = async { store.remove_file(caller, &request.object).await };
        process.ask(rng, removed).await
    } else {
        let deleted = async { store.delete(caller, request).await.map(drop) };
        process.ask(rng, deleted).await
    };
    process.conclude(&format!("delete {key}"), &[write], &outcome);
}

pub(super) async fn delete_many(process: &Process, rng: &SimRng) {
    let mut keys: Vec<String> = (0..1 + rng.below(8))
        .map(|_| process.bench.key(rng))
        .collect();
    keys.sort();
    keys.dedup();
    let writes: Vec<_> = {
        let mut model = process.bench.model.lock();
        keys.iter().map(|key| model.begin(key, None)).collect()
    };
    let objects = keys
        .iter()
        .map(|key| DeleteItem {
            key: object_key(key),
            version: None,
            condition: WriteCondition::default(),
        })
        .collect();
    let bucket = process.bucket();
    let work = process
        .store
        .delete_many(&process.caller, &bucket, objects, false);
    match process.ask(rng, work).await {
        OpOutcome::Done(results) => {
            for ((key, write), result) in keys.iter().zip(&writes).zip(results) {
                // What of one key: a refusal or an open end, as for the whole.
                let outcome = process.ask(rng, std::future::ready(result)).await;
                process.conclude(
                    &format!("delete {key} of many"),
                    std::slice::from_ref(write),
                    &outcome,
                );
            }
        }
        outcome => process.conclude("delete many", &writes, &outcome),
    }
}

pub(super) async fn copy(process: &Process, rng: &SimRng) {
    let (source, target) = (process.bench.key(rng), process.bench.key(rng));
    if source == target {
        return;
    }
    let request = CopyRequest {
        hierarchy: Hierarchy::Flat,
        encryption: None,
        source_key: None,
        source_version: None,
        attributes: VersionAttributes::default(),
        source: process.object(&source),
        source_condition: ReadCondition::default(),
        target: process.object(&target),
        replace_headers: false,
        checksum: (rng.below(4) == 0).then_some(Algorithm::Sha256),
        condition: WriteCondition::default(),
        acl: None,
    };
    let write = process.bench.model.lock().begin_from(&target, &source);
    let what = format!("copy {source} to {target}");
    let outcome = process
        .ask(rng, process.store.copy(&process.caller, request))
        .await;
    if let OpOutcome::Done(ObjectInfo { size, .. }) = &outcome {
        // The answer says how long it is.
        let fits = |value: &Value| value.as_ref().is_some_and(|c| c.len() == *size);
        process.bench.model.lock().done_with(&write, fits);
        process.bench.trace.note(format_args!("{what}: {size}"));
    } else {
        process.conclude(&what, &[write], &outcome);
    }
}
