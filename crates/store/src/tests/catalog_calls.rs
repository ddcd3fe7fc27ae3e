//! The calls of the catalog that each verb makes. With a catalog on another machine, each is a round
//! trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use dewar_checksum::AlgorithmSet;
use dewar_env::BoxFuture;
use dewar_kv::{Batch, CommitError, Kv, KvRead, MemoryKv, ReadValue, Scan, ScanPage, Seq};
use dewar_types::{ByteRange, Error, Result};

use super::{Rig, bucket, content, get, object, put_request, run};
use crate::api::{
    CompletePart, CompleteRequest, CopyRequest, CreateUploadRequest, DeleteRequest, ETagMatch,
    ExpectedContent, Hierarchy, ListRequest, ReadCondition, RenameRequest, UploadPartRequest,
    VersionAttributes, WriteCondition, WriteMode, WriteRequest,
};
use crate::file::MakeDirRequest;
use dewar_disks::upkeep::UpkeepConfig;

/// Calls of the catalog: reads of one key, scans, commits.
type Calls = (usize, usize, usize);

#[derive(Default)]
struct CallCounts {
    points: AtomicUsize,
    scans: AtomicUsize,
    commits: AtomicUsize,
}

impl CallCounts {
    /// The calls since this was asked last.
    fn take(&self) -> Calls {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        (take(&self.points), take(&self.scans), take(&self.commits))
    }
}

/// A catalog in memory, or a snapshot of it, that counts its calls.
struct CountingKv<K: ?Sized> {
    counts: Arc<CallCounts>,
    inner: Arc<K>,
}

impl<K: KvRead + ?Sized> KvRead for CountingKv<K> {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        self.counts.points.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key)
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        self.counts.scans.fetch_add(1, Ordering::Relaxed);
        self.inner.scan(scan)
    }
}

impl Kv for CountingKv<MemoryKv> {
    fn snapshot(&self) -> Arc<dyn KvRead> {
        Arc::new(CountingKv {
            counts: Arc::clone(&self.counts),
            inner: self.inner.snapshot(),
        })
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<Seq, CommitError>> {
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        self.inner.commit(batch)
    }

    fn last_sequence(&self) -> Seq {
        self.inner.last_sequence()
    }

    fn changes(&self, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<(Seq, Bytes)>, Error>> {
        self.inner.changes(after, limit)
    }
}

/// The verbs, in the order in which the test calls them, with the calls of each.
///
/// A replaced or removed content costs one read of its reference count, a shared one another. A
/// directory that exists only because of the names in it costs a scan wherever a hierarchy asks
/// whether it exists, and a directory that was made just now is read once. A file that is opened for
/// reading is looked up again when its blobs are pinned.
const CALLS: [(&str, Calls); 28] = [
    ("put", (1, 0, 1)),
    ("put if absent", (1, 0, 1)),
    ("put if matches", (2, 0, 1)),
    ("put that fails its condition", (1, 0, 0)),
    ("put over another", (2, 0, 1)),
    ("get", (1, 0, 0)),
    ("get of large content", (2, 0, 0)),
    ("head", (1, 0, 0)),
    ("list", (2, 2, 0)),
    ("copy", (3, 0, 1)),
    ("copy if absent", (3, 0, 1)),
    ("set tags", (1, 0, 1)),
    ("rename", (2, 0, 1)),
    ("rename if matches", (2, 0, 1)),
    ("delete", (2, 0, 1)),
    ("delete if matches", (2, 0, 1)),
    ("create upload", (0, 0, 1)),
    ("upload part", (3, 0, 1)),
    ("complete upload", (2, 1, 1)),
    ("make directory", (2, 0, 1)),
    ("make directory and its parents", (2, 0, 1)),
    ("open file for writing", (3, 0, 0)),
    ("write file", (0, 0, 0)),
    ("close file", (2, 0, 1)),
    ("open file for reading", (2, 0, 0)),
    ("read file", (1, 0, 0)),
    ("stat", (2, 0, 0)),
    ("remove directory", (3, 2, 1)),
];

#[test]
fn verbs_call_the_catalog_no_more_than_they_need() {
    run(async {
        let counts = Arc::<CallCounts>::default();
        let kv = CountingKv {
            counts: Arc::clone(&counts),
            inner: Arc::new(MemoryKv::new()),
        };
        let mut rig = Rig::with_catalog(7, UpkeepConfig::default(), Arc::new(kv)).await;
        rig.workers.take().expect("running").stop().await;
        // Ranges of ids are reserved, and directories are known.
        rig.put("d/first", &content(10, 1)).await.expect("put");
        rig.put("d/large", &content(100_000, 1)).await.expect("put");
        counts.take();
        let mut calls: Vec<(&str, Calls)> = Vec::new();
        every_verb(&rig, |verb| calls.push((verb, counts.take()))).await;
        let pinned: Vec<(&str, Calls)> = CALLS.to_vec();
        assert_eq!(calls, pinned, "{calls:#?}");
    });
}

#[allow(clippy::too_many_lines, reason = "a list of verbs")]
async fn every_verb(rig: &Rig, mut done: impl FnMut(&'static str)) {
    let (store, ann) = (&rig.store, &rig.ann);
    let put = async |request: WriteRequest| rig.put_as(request, &content(100, 1)).await;
    let under = |key: &str, condition: WriteCondition| WriteRequest {
        condition,
        ..put_request(key)
    };
    let absent = || WriteCondition::absent();
    let matches = |etag: &str| WriteCondition {
        if_match: vec![ETagMatch::Is(etag.to_owned())],
        ..WriteCondition::default()
    };
    let etag = put(put_request("d/a")).await.expect("put").etag;
    done("put");
    put(under("d/b", absent())).await.expect("put");
    done("put if absent");
    put(under("d/a", matches(&etag))).await.expect("put");
    done("put if matches");
    put(under("d/a", absent())).await.expect_err("there");
    done("put that fails its condition");
    put(put_request("d/b")).await.expect("put");
    done("put over another");

    rig.get("d/a").await.expect("read");
    done("get");
    rig.get("d/large").await.expect("read");
    done("get of large content");
    store.head(ann, get("d/a")).await.expect("there");
    done("head");
    let list = ListRequest {
        bucket: bucket("first"),
        prefix: "d/".to_owned(),
        delimiter: String::new(),
        after: String::new(),
        max: 10,
    };
    store.list(ann, list).await.expect("listed");
    done("list");

    let copy = |target: &str, condition: WriteCondition| CopyRequest {
        hierarchy: Hierarchy::Flat,
        encryption: None,
        source_key: None,
        source_version: None,
        attributes: VersionAttributes::default(),
        source: object("d/a"),
        source_condition: ReadCondition::default(),
        target: object(target),
        replace_headers: false,
        checksum: None,
        condition,
        acl: None,
    };
    let copied = store.copy(ann, copy("d/c", WriteCondition::default()));
    copied.await.expect("copied");
    done("copy");
    store
        .copy(ann, copy("d/e", absent()))
        .await
        .expect("copied");
    done("copy if absent");
    let tags = [("a".to_owned(), "b".to_owned())].into();
    let set = store.set_tags(ann, &object("d/a"), None, tags).await;
    set.expect("set");
    done("set tags");
    let rename = |from: &str, to: &str, source_condition: WriteCondition| RenameRequest {
        source: object(from),
        source_condition,
        target: object(to).key,
        condition: WriteCondition::default(),
    };
    let renamed = store.rename(ann, rename("d/c", "d/f", WriteCondition::default()));
    renamed.await.expect("renamed");
    done("rename");
    let renamed = store.rename(ann, rename("d/f", "d/c", matches(&etag)));
    renamed.await.expect("renamed");
    done("rename if matches");
    let delete = |key: &str, condition: WriteCondition| DeleteRequest {
        version: None,
        bypass: false,
        object: object(key),
        condition,
    };
    let deleted = store.delete(ann, delete("d/c", WriteCondition::default()));
    deleted.await.expect("deleted");
    done("delete");
    let deleted = store.delete(ann, delete("d/e", matches(&etag)));
    deleted.await.expect("deleted");
    done("delete if matches");

    let create = CreateUploadRequest {
        encryption: None,
        attributes: VersionAttributes::default(),
        object: object("d/parts"),
        checksum: None,
        composite: false,
        acl: None,
    };
    let upload = store.create_upload(ann, create).await.expect("begun").id;
    done("create upload");
    let part = UploadPartRequest {
        customer_key: None,
        object: object("d/parts"),
        upload,
        number: 1,
        size: None,
        want: AlgorithmSet::EMPTY,
        checksum: None,
    };
    let mut part = store.upload_part(ann, part).await.expect("begun");
    part.write(content(100, 1)).await.expect("written");
    let part = part.commit(ExpectedContent::default()).await.expect("done");
    done("upload part");
    let complete = CompleteRequest {
        customer_key: None,
        object: object("d/parts"),
        upload,
        parts: vec![CompletePart {
            number: 1,
            etag: part.etag,
            checksum: None,
        }],
        size: None,
        checksum: None,
        condition: WriteCondition::default(),
    };
    store.complete_upload(ann, complete).await.expect("joined");
    done("complete upload");

    let make = |key: &str| MakeDirRequest {
        directory: object(key),
        mode: 0o755,
        parents: true,
        existing: false,
    };
    store.make_dir(ann, make("made")).await.expect("made");
    done("make directory");
    store.make_dir(ann, make("x/y/z")).await.expect("made");
    done("make directory and its parents");
    let write = WriteRequest::file(object("made/file"), WriteMode::New);
    let mut file = store.write(ann, write).await.expect("opened");
    done("open file for writing");
    file.write_at(0, content(100_000, 1).into())
        .await
        .expect("written");
    done("write file");
    file.commit(ExpectedContent::of_size(None))
        .await
        .expect("closed");
    done("close file");
    let file = store.open_file(ann, get("made/file")).await;
    let file = file.expect("opened");
    done("open file for reading");
    let mut bytes = file.read(ByteRange::whole(100_000));
    while let Some(bytes) = bytes.next().await {
        bytes.expect("read");
    }
    done("read file");
    store.stat(ann, &object("made/file")).await.expect("there");
    done("stat");
    let removed = store.remove_dir(ann, &object("x/y/z")).await;
    removed.expect("removed");
    done("remove directory");
}
