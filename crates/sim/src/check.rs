//! The checks that must hold when no operation is under way.
//!
//! - Every key is read completely and must show a possible value. That value is then the only one,
//!   so that a write that was open at a crash is decided once. This does not hold while too few
//!   disks can be written: records that the journal could not make durable may become durable after
//!   the next opening.
//! - Listings, paged and with a delimiter, show exactly these keys.
//! - The catalog is consistent: references, reachability, usage counters.
//! - On disks that never misbehaved, the files are exactly those that records name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dewar_catalog::tables::{self, Table};
use dewar_disks::blob::BlobRecord;
use dewar_disks::segment::SegmentRecord;
use dewar_disks::upkeep::Decision;
use dewar_engine::Engine;
use dewar_env::sim::SimRng;
use dewar_kv::Scan;
use dewar_store::api::{DeleteRequest, ListRequest, ListUploadsRequest, WriteCondition};
use dewar_types::{DiskId, Error};

use crate::actor::observe;
use crate::bench::Process;
use crate::plan::Weather;

/// Reads everything. Whether it came to the end: the power may fail meanwhile.
pub(crate) async fn everything(process: &Process, rng: &SimRng) -> bool {
    let bench = &process.bench;
    let sound = |number: &usize| !bench.plan.victims.contains(number);
    for disk in process.store.disks().unverified() {
        let known = process.ids.iter().find(|(_, id)| **id == disk);
        if let Some((number, _)) = known.filter(|(number, _)| sound(number)) {
            bench.fail(format!("disk {number} is doubted and has never misbehaved"));
        }
    }
    let decided = bench.all_decided();
    if decided {
        bench.model.lock().freeze();
    } else {
        bench.saw("a quiet journal had records that nobody may see yet");
    }
    let keys = bench.model.lock().keys();
    for key in keys {
        let value = observe(process, &key, None, || Duration::ZERO).await;
        if process.world.power_failed() || bench.failure().is_some() {
            return false;
        }
        match value {
            Some(value) if decided => bench.model.lock().settle(&key, value),
            Some(_) => {}
            None if bench.plan.weather == Weather::Doom => {}
            None => {
                bench.fail(format!("{key} could not be read although nothing is wrong"));
                return false;
            }
        }
    }
    if bench.plan.weather == Weather::Doom || !decided {
        return true;
    }
    if let Err(error) = agree(process, rng).await {
        if !process.world.power_failed() {
            bench.fail(format!("what is quiet cannot be read: {error:?}"));
        }
        return false;
    }
    !process.world.power_failed()
}

async fn agree(process: &Process, rng: &SimRng) -> Result<(), Error> {
    let bench = &process.bench;
    let settled = bench.model.lock().settled();
    let listed = list(process, "", "", 1 + crate::plan::pick(rng, 30)).await?;
    let listed: Vec<_> = listed.into_iter().collect();
    let expected: Vec<_> = settled
        .iter()
        .map(|(key, len)| (key.clone(), Some(*len)))
        .collect();
    if listed != expected {
        bench.fail(format!("the listing is {listed:?}, not {expected:?}"));
    }
    let mut prefixes = bench.dirs.lock().clone();
    prefixes.iter_mut().for_each(|dir| dir.push('/'));
    prefixes.push(String::new());
    for prefix in prefixes {
        let folded = list(process, &prefix, "/", 1 + crate::plan::pick(rng, 6)).await?;
        let expected = fold(&settled, &prefix);
        if folded != expected {
            bench.fail(format!(
                "below {prefix:?} stands {folded:?}, not {expected:?}"
            ));
        }
    }
    let audit = process.store.tree().audit().await?;
    if !audit.faults.is_empty() {
        bench.fail(format!(
            "the catalog contradicts itself: {:?}",
            audit.faults
        ));
    }
    if audit.files != settled.len() as u64 {
        let files = audit.files;
        bench.fail(format!(
            "{files} files in the catalog, {} listed",
            settled.len()
        ));
    }
    Ok(())
}

/// Keys with their lengths and common prefixes without, over all pages.
async fn list(
    process: &Process,
    prefix: &str,
    delimiter: &str,
    max: usize,
) -> Result<BTreeMap<String, Option<u64>>, Error> {
    let mut found = BTreeMap::new();
    let mut after = String::new();
    loop {
        let request = ListRequest {
            bucket: process.bucket(),
            prefix: prefix.to_owned(),
            delimiter: delimiter.to_owned(),
            after,
            max,
        };
        let page = process.store.list(&process.caller, request).await?;
        let keys = page.objects.into_iter().map(|o| (o.key, Some(o.size)));
        found.extend(keys.chain(page.prefixes.into_iter().map(|p| (p, None))));
        match page.next {
            Some(next) => after = next,
            None => return Ok(found),
        }
    }
}

/// What a listing with the delimiter `/` must say.
fn fold(settled: &[(String, u64)], prefix: &str) -> BTreeMap<String, Option<u64>> {
    let mut found = BTreeMap::new();
    for (key, len) in settled {
        let Some(rest) = key.strip_prefix(prefix) else {
            continue;
        };
        match rest.split_once('/') {
            Some((dir, _)) => found.insert(format!("{prefix}{dir}/"), None),
            None => found.insert(key.clone(), Some(*len)),
        };
    }
    found
}

/// Removes all objects and ends all uploads.
pub(crate) async fn empty(process: &Process) -> Result<(), Error> {
    let keys = process.bench.model.lock().keys();
    for key in keys {
        let request = DeleteRequest {
            version: None,
            bypass: false,
            object: process.object(&key),
            condition: WriteCondition::default(),
        };
        process.store.delete(&process.caller, request).await?;
        process.bench.trace.note(format_args!("emptying: {key}"));
        process.bench.model.lock().settle(&key, None);
    }
    let request = ListUploadsRequest {
        bucket: process.bucket(),
        prefix: String::new(),
        delimiter: String::new(),
        after_key: String::new(),
        after_upload: None,
        max: 1000,
    };
    let uploads = process.store.list_uploads(&process.caller, request).await?;
    for upload in uploads.uploads {
        let object = process.object(&upload.key);
        process
            .store
            .abort_upload(&process.caller, object, upload.upload)
            .await?;
    }
    Ok(())
}

/// The files on the disks are those that records name. `emptied`: no record may name any.
pub(crate) async fn files(
    process: &Process,
    engine: &Engine,
    ids: &BTreeMap<usize, DiskId>,
    emptied: bool,
) -> Result<(), Error> {
    // A run of the index that is being written just now has no name in the manifest yet.
    for _ in 0..2 {
        if strays(process, engine, ids, emptied).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    let strays = strays(process, engine, ids, emptied).await?;
    strays.into_iter().for_each(|what| process.bench.fail(what));
    Ok(())
}

/// What is wrong with the files on the disks at this moment.
async fn strays(
    process: &Process,
    engine: &Engine,
    ids: &BTreeMap<usize, DiskId>,
    emptied: bool,
) -> Result<Vec<String>, Error> {
    let bench = &process.bench;
    let mut wrong = Vec::new();
    let queued = process.store.tree().audit().await?.queued;
    let named = named(process).await?;
    if emptied && !named.is_empty() {
        let blobs = table(process, tables::BLOB).await?.len();
        let audit = process.store.tree().audit().await?;
        wrong.push(format!(
            "everything was deleted, and yet there are {named:?} ({blobs} blobs, the others are \
             segments; queued: {:?}, dead: {:?})",
            audit.queued, audit.dead
        ));
    }
    // Nobody looks after a disk that was removed.
    let lines = process.store.disks().disk_lines().await?;
    let kept = |id: &DiskId| {
        let line = lines.iter().find(|line| line.disk == *id);
        line.is_some_and(|line| line.decision != Some(Decision::Remove))
    };
    for (number, disk) in process.world.disks().iter().enumerate() {
        if bench.plan.victims.contains(&number) {
            continue;
        }
        let Some(id) = ids.get(&number).filter(|id| kept(id)) else {
            continue;
        };
        let mut expected: BTreeSet<String> = engine.index().files(*id).into_iter().collect();
        if !disk.paths().iter().any(|path| path == "index/manifest") {
            expected.remove("index/manifest");
        }
        let shards = named.get(id).into_iter().flatten();
        expected.extend(shards.cloned());
        // The anchor of the folder, and the mark of its doubt.
        let marks = ["blobs/anchor", "blobs/doubted", "blobs/token"];
        let ours = |path: &String| {
            !path.ends_with(".tmp")
                && !marks.contains(&path.as_str())
                && (path.starts_with("blobs/") || path.starts_with("index/"))
        };
        let found: BTreeSet<String> = disk.paths().into_iter().filter(ours).collect();
        let spare: Vec<_> = found.difference(&expected).collect();
        // Bytes go before the record does.
        let going = |path: &&&String| queued.iter().any(|blob| path.contains(&blob.to_string()));
        let lacking: Vec<_> = expected
            .difference(&found)
            .filter(|path| !going(&path))
            .collect();
        // An index that left this disk leaves its manifest.
        let spare: Vec<_> = spare
            .iter()
            .filter(|path| **path != "index/manifest")
            .collect();
        if !spare.is_empty() || !lacking.is_empty() {
            wrong.push(format!(
                "disk {number}: nothing names {spare:?}, and {lacking:?} are not there"
            ));
        }
        let logs = disk.paths().iter().filter(|p| p.ends_with(".log")).count();
        if logs > bench.plan.engine.journal.files_max + 4 {
            wrong.push(format!("disk {number} has {logs} journal files"));
        }
    }
    Ok(wrong)
}

/// The shards that the catalog names, by disk.
async fn named(process: &Process) -> Result<BTreeMap<DiskId, BTreeSet<String>>, Error> {
    let mut blobs = Vec::new();
    for (_, value) in table(process, tables::BLOB).await? {
        blobs.push(BlobRecord::from_bytes(&value)?);
    }
    for (_, value) in table(process, tables::SEGMENT).await? {
        if let SegmentRecord::Whole { blob } = SegmentRecord::from_bytes(&value)? {
            blobs.push(blob);
        }
    }
    let mut named: BTreeMap<DiskId, BTreeSet<String>> = BTreeMap::new();
    for blob in blobs {
        for (shard, disk) in blob.disks.iter().enumerate() {
            if !blob.missing.contains(&(shard as u8)) {
                named
                    .entry(*disk)
                    .or_default()
                    .insert(blob.shard_path(shard));
            }
        }
    }
    Ok(named)
}

async fn table(
    process: &Process,
    table: Table,
) -> Result<Vec<(bytes::Bytes, bytes::Bytes)>, Error> {
    let range = table.keys();
    let page = process.store.tree().kv().scan(Scan {
        from: &range.from,
        to: &range.to,
        limit: usize::MAX,
        reverse: false,
    });
    Ok(page.await?.pairs)
}
