//! Many tasks on the same names. Whatever they do to each other: the catalog agrees with itself,
//! nothing leaks, and the change log, replayed in commit order, gives exactly what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dewar_catalog::record::ChangeKind;

use super::engines::TestEngine;
use super::probe::Probe;
use super::*;

async fn contended_tree() -> (Tree, Bucket, Probe<MemoryKv>) {
    let kv = Probe::new();
    let tree = Tree::open(Arc::new(kv.clone()), Env::real(), 0)
        .await
        .unwrap();
    let bucket = make_bucket(&tree, "one").await;
    kv.counts.yields.store(true, Ordering::Relaxed);
    (tree, bucket, kv)
}

/// A small generator, so that a failing run can be told apart by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn path(&mut self) -> ObjectKey {
        let names = ["a", "b", ""];
        let depth = 1 + self.roll(3);
        let path: Vec<_> = (0..depth).map(|_| names[self.roll(3)]).collect();
        ObjectKey::new(&path.join("/")).unwrap_or_else(|_| key("a"))
    }
}

/// Losing is allowed; anything else is not.
fn tolerate<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let allowed = [
                ErrorKind::NotFound,
                ErrorKind::NotEmpty,
                ErrorKind::AlreadyExists,
                ErrorKind::InvalidArgument,
                ErrorKind::Precondition,
                ErrorKind::NoSuchUpload,
                ErrorKind::InvalidPart,
                ErrorKind::Unavailable,
            ];
            assert!(allowed.contains(&error.kind()), "{error:?}");
            None
        }
    }
}

/// One task's work; gives the blobs that it published.
async fn work(tree: Tree, bucket: Bucket, seed: u64, steps: usize) -> Vec<BlobId> {
    let mut dice = Dice(seed);
    let mut published = Vec::new();
    let none = (&WriteCondition::NONE, &WriteCondition::NONE);
    for _ in 0..steps {
        let (from, to) = (dice.path(), dice.path());
        match dice.roll(12) {
            0..4 => {
                let new = content(&tree, 10, "x").await;
                let blob = new.copies[0].extents[0].blob;
                let condition = if dice.roll(3) == 0 {
                    WriteCondition::absent()
                } else {
                    WriteCondition::NONE
                };
                let done = tree
                    .publish(
                        &ALICE,
                        (&bucket, &to).into(),
                        new,
                        &condition,
                        &DataChanges::default(),
                    )
                    .await;
                published.extend(tolerate(done).map(|_| blob));
            }
            4 => drop(tolerate(
                tree.delete(&ALICE, &bucket, &DeleteTarget::key(to.clone()), false)
                    .await,
            )),
            5 => {
                let list: Vec<_> = (0..5).map(|_| DeleteTarget::key(dice.path())).collect();
                tolerate(tree.delete_many(&ALICE, &bucket, &list, false).await);
            }
            6 => drop(tolerate(
                tree.copy(
                    &ALICE,
                    (&bucket, &from).into(),
                    (&bucket, &to).into(),
                    &CopyOptions::default(),
                )
                .await,
            )),
            7 => drop(tolerate(
                tree.rename_file(
                    &ALICE,
                    (&bucket, &from).into(),
                    (&bucket, &to).into(),
                    none,
                    Hierarchy::Flat,
                )
                .await,
            )),
            8 => {
                let options = RenameOptions {
                    replaces: ReplaceRule::EmptyDirectory,
                    make_parents: dice.roll(2) == 0,
                    hierarchy: Hierarchy::Flat,
                };
                tolerate(
                    tree.rename_dir(&ALICE, (&bucket, &from), (&bucket, &to), options)
                        .await,
                );
            }
            9 => {
                let options = DirOptions {
                    existing: false,
                    hierarchy: Hierarchy::Flat,
                    group: None,
                    mode: 0o755,
                    make_parents: true,
                };
                if dice.roll(2) == 0 {
                    tolerate(tree.make_dir(&ALICE, &bucket, &to, options).await);
                } else {
                    tolerate(tree.remove_dir(&ALICE, &bucket, &to).await);
                }
            }
            10 => drop(tolerate(tree.reclaim_empty_dirs(3).await)),
            _ => {
                let query = ListQuery {
                    delimiter: Some("/"),
                    max: 10,
                    ..ListQuery::default()
                };
                tolerate(tree.list(&bucket, query).await);
            }
        }
    }
    published
}

/// Replays the log on a map of keys. Each record must fit what the ones before made.
async fn replay(tree: &Tree, bucket: &Bucket) -> BTreeMap<String, VersionId> {
    let mut files: BTreeMap<String, VersionId> = BTreeMap::new();
    let top = bucket.path("");
    let below = |path: &str| path.strip_prefix(&top).expect("one bucket").to_owned();
    for (seq, change) in tree.changes(0, usize::MAX).await.unwrap() {
        let version = change.version.as_ref().map(|version| version.id);
        match change.verb {
            ChangeKind::Put | ChangeKind::Copy | ChangeKind::Complete => {
                if let (ChangeKind::Copy, Some(source)) = (change.verb, &change.source) {
                    assert!(files.contains_key(&below(source)), "{seq}: {change:?}");
                }
                let old = files.insert(below(&change.path), version.unwrap());
                assert_eq!(old, change.replaced, "{seq}: {change:?}");
            }
            ChangeKind::Delete => {
                assert_eq!(
                    files.remove(&below(&change.path)),
                    version,
                    "{seq}: {change:?}"
                );
            }
            ChangeKind::Rename => {
                let source = below(change.source.as_ref().unwrap());
                assert_eq!(files.remove(&source), version, "{seq}: {change:?}");
                let old = files.insert(below(&change.path), version.unwrap());
                assert_eq!(old, change.replaced, "{seq}: {change:?}");
            }
            ChangeKind::RenameDir => {
                let (old, new) = (
                    below(change.source.as_ref().unwrap()) + "/",
                    below(&change.path) + "/",
                );
                assert!(
                    !files.keys().any(|key| key.starts_with(&new)),
                    "{seq}: {change:?}"
                );
                files = files
                    .into_iter()
                    .map(|(key, version)| match key.strip_prefix(&old) {
                        Some(rest) => (format!("{new}{rest}"), version),
                        None => (key, version),
                    })
                    .collect();
            }
            ChangeKind::RemoveDir => {
                let dir = below(&change.path) + "/";
                assert!(
                    !files.keys().any(|key| key.starts_with(&dir)),
                    "{seq}: {change:?}"
                );
            }
            _ => {}
        }
    }
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_crowd_leaves_a_sound_catalog() {
    let mut conflicts = 0;
    for round in 0..8_u64 {
        let (tree, bucket, kv) = contended_tree().await;
        let published = crowd(&tree, &bucket, round, 60).await;
        conflicts += kv.counts.conflicts.load(Ordering::Relaxed);
        kv.counts.yields.store(false, Ordering::Relaxed);
        judge(&tree, &bucket, &published).await;
    }
    // One round may have a processor for itself.
    assert!(conflicts > 20, "no contention, no test");
}

/// On the journal, where conflicts are judged against what is not durable yet.
#[tokio::test(start_paused = true)]
async fn any_crowd_on_the_journal_leaves_a_sound_catalog() {
    for round in 0..4_u64 {
        let mut engine = TestEngine::embedded().await;
        let tree = engine.open().await;
        let bucket = make_bucket(&tree, "one").await;
        let published = crowd(&tree, &bucket, round, 40).await;
        judge(&tree, &bucket, &published).await;
        // All of it was acknowledged, so all of it survives.
        drop(tree);
        let tree = engine.open().await;
        judge(&tree, &bucket, &published).await;
    }
}

/// Twelve tasks at once; gives the blobs they published.
async fn crowd(tree: &Tree, bucket: &Bucket, round: u64, steps: usize) -> BTreeSet<BlobId> {
    let tasks: Vec<_> = (0..12)
        .map(|n| {
            let seed = (round + 1) * 1_000_003 + n * 7919 + 1;
            tokio::spawn(work(tree.clone(), bucket.clone(), seed, steps))
        })
        .collect();
    let mut published = BTreeSet::new();
    for task in tasks {
        published.extend(task.await.unwrap());
    }
    published
}

/// The catalog agrees with itself, with the log, and with what was published.
async fn judge(tree: &Tree, bucket: &Bucket, published: &BTreeSet<BlobId>) {
    let audit = assert_sound(tree).await;
    for blob in published {
        let named = audit.named.contains_key(&(*blob, None));
        assert_ne!(
            named,
            audit.queued.contains(blob),
            "{blob}: named and freed, or lost"
        );
    }
    let named: BTreeSet<_> = audit.named.keys().map(|(blob, _)| *blob).collect();
    assert!(named.is_subset(published));

    let expected = replay(tree, bucket).await;
    let query = ListQuery {
        max: LIST_MAX,
        ..ListQuery::default()
    };
    let page = tree.list(bucket, query).await.unwrap();
    let there: BTreeMap<_, _> = page
        .items
        .into_iter()
        .map(|item| match item {
            Listed::File { key, file } => (key, file.current.id),
            Listed::Prefix { .. } => panic!("no delimiter"),
        })
        .collect();
    assert_eq!(there, expected);
    // The cache of directories says the same as the catalog.
    for text in there.keys() {
        let found = tree.lookup(bucket, &key(text)).await.unwrap();
        assert!(found.is_some(), "{text}");
    }
    reclaim_all(tree).await;
    let hidden = assert_sound(tree).await.dirs;
    let keys: Vec<_> = there.into_keys().collect();
    let needed = dirs_of(&keys, &explicit_dirs(tree, bucket).await);
    assert_eq!(hidden, needed, "empty directories are left");
}

/// A commit may fail, applied or not, at every step of every verb; whoever opens the catalog next
/// finds it sound, and the log tells what became true.
#[tokio::test]
async fn failures_at_every_commit_leave_a_sound_catalog() {
    for every in 2..40_usize {
        let (mut tree, bucket, kv) = contended_tree().await;
        for n in 0..4 {
            put(&tree, &bucket, &format!("a/b/{n}")).await;
        }
        kv.counts.fail_every.store(every, Ordering::Relaxed);
        for run in 0..6_u64 {
            let seed = 1 + every as u64 * 1_000_003 + run * 7919;
            work(tree.clone(), bucket.clone(), seed, 12).await;
            kv.counts.fail_every.store(0, Ordering::Relaxed);
            tree = Tree::open(Arc::new(kv.clone()), Env::real(), 0)
                .await
                .unwrap();
            assert_sound(&tree).await;
            let there: BTreeSet<_> = all_keys(&tree, &bucket).await.into_iter().collect();
            let told: BTreeSet<_> = replay(&tree, &bucket).await.into_keys().collect();
            assert_eq!(there, told);
            kv.counts.fail_every.store(every, Ordering::Relaxed);
        }
        kv.counts.fail_every.store(0, Ordering::Relaxed);
        reclaim_all(&tree).await;
        let needed = dirs_of(
            &all_keys(&tree, &bucket).await,
            &explicit_dirs(&tree, &bucket).await,
        );
        assert_eq!(
            assert_sound(&tree).await.dirs,
            needed,
            "empty directories are left"
        );
    }
}

/// How many directories these keys and directories need.
fn dirs_of(keys: &[String], dirs: &[String]) -> u64 {
    let mut needed = BTreeSet::new();
    for path in keys.iter().chain(dirs) {
        needed.extend(path.match_indices('/').map(|(at, _)| &path[..=at]));
    }
    needed.len() as u64
}

/// Paths of directories made on request, found level by level.
async fn explicit_dirs(tree: &Tree, bucket: &Bucket) -> Vec<String> {
    let mut open = vec![String::new()];
    let mut found = Vec::new();
    while let Some(prefix) = open.pop() {
        let query = ListQuery {
            prefix: &prefix,
            delimiter: Some("/"),
            max: LIST_MAX,
            explicit_dirs: true,
            ..ListQuery::default()
        };
        for item in tree.list(bucket, query).await.unwrap().items {
            if let Listed::Prefix {
                prefix,
                dir: Some(dir),
            } = item
            {
                if !dir.implicit {
                    found.push(prefix.clone());
                }
                open.push(prefix);
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_creates() {
    let (tree, bucket, _) = contended_tree().await;
    for round in 0..20 {
        let name = format!("d{round}/once");
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (tree, bucket, name) = (tree.clone(), bucket.clone(), key(&name));
                tokio::spawn(async move {
                    let new = content(&tree, 1, "x").await;
                    tree.publish(
                        &ALICE,
                        (&bucket, &name).into(),
                        new,
                        &WriteCondition::absent(),
                        &DataChanges::default(),
                    )
                    .await
                    .map_err(|error| error.kind())
                })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => won += 1,
                Err(kind) => assert_eq!(kind, ErrorKind::Precondition),
            }
        }
        assert_eq!(won, 1);
    }
    assert_sound(&tree).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_empty_is_removed_while_empty_directories_are_collected() {
    let (tree, _, _) = contended_tree().await;
    for round in 0..200 {
        let bucket = make_bucket(&tree, &format!("round-{round}")).await;
        for name in ["top/a/b/c/file", "top/a/d/file", "e/f/g/file"] {
            put(&tree, &bucket, name).await;
            delete(&tree, &bucket, name).await;
        }
        let collector = {
            let tree = tree.clone();
            tokio::spawn(async move { tree.reclaim_empty_dirs(100).await })
        };
        tree.delete_bucket(&ALICE, &bucket, Emptiness::Bare)
            .await
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        collector.await.unwrap().unwrap();
    }
    assert_sound(&tree).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unconditional_writers_of_one_key_all_succeed() {
    let (tree, bucket, _) = contended_tree().await;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (tree, bucket) = (tree.clone(), bucket.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    put(&tree, &bucket, "hot/key").await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let audit = assert_sound(&tree).await;
    assert_eq!((audit.named.len(), audit.queued.len()), (1, 64 * 5 - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn if_match_loses_no_update() {
    let (tree, bucket, _) = contended_tree().await;
    let new = content(&tree, 1, "0").await;
    tree.publish(
        &ALICE,
        (&bucket, &key("counter")).into(),
        new,
        &WriteCondition::NONE,
        &DataChanges::default(),
    )
    .await
    .unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (tree, bucket) = (tree.clone(), bucket.clone());
            tokio::spawn(async move {
                let mut won = 0_u64;
                while won < 10 {
                    let found = tree
                        .lookup(&bucket, &key("counter"))
                        .await
                        .unwrap()
                        .unwrap();
                    let etag = found.current.etag();
                    let next: u64 = etag.parse::<u64>().unwrap() + 1;
                    let new = content(&tree, 1, &next.to_string()).await;
                    let condition = WriteCondition {
                        if_match: vec![ETagMatch::Is(etag)],
                        ..WriteCondition::NONE
                    };
                    match tree
                        .publish(
                            &ALICE,
                            (&bucket, &key("counter")).into(),
                            new,
                            &condition,
                            &DataChanges::default(),
                        )
                        .await
                    {
                        Ok(_) => won += 1,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Precondition),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let last = tree
        .lookup(&bucket, &key("counter"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(last.current.etag(), "80");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn complete_or_abort_but_not_both() {
    let (tree, bucket, _) = contended_tree().await;
    let (mut completed, mut aborted) = (0, 0);
    for round in 0..60 {
        let name = key(&format!("up/{}", round % 3));
        let upload = tree
            .create_upload(&ALICE, &bucket, &name, &NewUpload::default())
            .await
            .unwrap()
            .id;
        let new_part = async || NewPart {
            id: None,
            size: 10,
            etag: ETag::Text("p".into()),
            digests: DIGESTS(),
            copies: content(&tree, 10, "p").await.copies,
            checksum: None,
        };
        for number in [1, 3, 4] {
            let part = new_part().await;
            tree.put_part(
                &bucket,
                &name,
                upload,
                number,
                &part,
                &DataChanges::default(),
            )
            .await
            .unwrap();
        }
        let complete = || {
            let (tree, bucket, name) = (tree.clone(), bucket.clone(), name.clone());
            tokio::spawn(async move {
                let list: Vec<_> = [1, 3]
                    .into_iter()
                    .map(|number| CompletePart {
                        number,
                        etag: "p".into(),
                    })
                    .collect();
                let join = |_: &record::UploadRecord, _: &[(u16, &record::PartRecord)]| {
                    Ok(CompletedObject {
                        encryption: None,
                        etag: ETag::Text("whole".into()),
                        digests: DIGESTS(),
                        checksum: None,
                        part_digests: Vec::new(),
                        version: None,
                    })
                };
                tree.complete_upload(
                    &ALICE,
                    (&bucket, &name).into(),
                    upload,
                    &list,
                    0,
                    &WriteCondition::NONE,
                    &join,
                )
                .await
            })
        };
        let abort = {
            let (tree, bucket, name) = (tree.clone(), bucket.clone(), name.clone());
            tokio::spawn(async move { tree.abort_upload(&ALICE, &bucket, &name, upload).await })
        };
        let late = {
            let (tree, bucket, name, part) =
                (tree.clone(), bucket.clone(), name.clone(), new_part().await);
            let blob = part.copies[0].extents[0].blob;
            tokio::spawn(async move {
                tree.put_part(
                    &bucket,
                    &name,
                    upload,
                    2 + round % 4,
                    &part,
                    &DataChanges::default(),
                )
                .await
                .map(|_| blob)
            })
        };
        let (first, second) = (complete(), complete());
        let first = tolerate(first.await.unwrap());
        let second = tolerate(second.await.unwrap());
        let abort = tolerate(abort.await.unwrap());
        tolerate(late.await.unwrap());
        assert_ne!(first.is_some() || second.is_some(), abort.is_some());
        if let (Some(first), Some(second)) = (&first, &second) {
            assert_eq!(first.version, second.version, "the same completion twice");
        }
        completed += u32::from(abort.is_none());
        aborted += u32::from(abort.is_some());
    }
    assert!(completed > 0, "{completed} completed, {aborted} aborted");
    let audit = assert_sound(&tree).await;
    assert_eq!(audit.files, all_keys(&tree, &bucket).await.len() as u64);
    assert!(audit.named.len() <= 3 * 2);
}

/// Lets `slow` read all it needs, then does `quick`, and only then lets `slow` commit.
async fn overtaken<T: Send + 'static>(
    kv: &Probe<MemoryKv>,
    slow: impl Future<Output = T> + Send + 'static,
    quick: impl Future<Output = ()>,
) -> T {
    let gate = Arc::new(tokio::sync::Notify::new());
    *kv.counts.gate.lock() = Some(Arc::clone(&gate));
    let slow = tokio::spawn(slow);
    while kv.counts.gate.lock().is_some() {
        tokio::task::yield_now().await;
    }
    quick.await;
    gate.notify_one();
    slow.await.unwrap()
}

#[tokio::test]
async fn parts_and_aborts_that_overtake_each_other_leak_nothing() {
    let (tree, bucket, kv) = contended_tree().await;
    kv.counts.yields.store(false, Ordering::Relaxed);
    let name = key("k");
    let begin = async || {
        let new = NewUpload::default();
        let upload = tree.create_upload(&ALICE, &bucket, &name, &new).await;
        upload.unwrap().id
    };
    // Prepared first, put when the future that this gives is polled.
    #[allow(clippy::async_yields_async)]
    let part = async |upload, number| {
        let part = NewPart {
            id: None,
            size: 10,
            etag: ETag::Text("p".into()),
            digests: DIGESTS(),
            copies: content(&tree, 10, "p").await.copies,
            checksum: None,
        };
        let (tree, bucket, name) = (tree.clone(), bucket.clone(), name.clone());
        async move {
            let extra = DataChanges::default();
            tree.put_part(&bucket, &name, upload, number, &part, &extra)
                .await
                .map_err(|error| error.kind())
        }
    };
    let abort = |upload| {
        let (tree, bucket, name) = (tree.clone(), bucket.clone(), name.clone());
        async move {
            tree.abort_upload(&ALICE, &bucket, &name, upload)
                .await
                .expect("the upload is there");
        }
    };

    // A part comes when the upload is gone.
    let upload = begin().await;
    let late = overtaken(&kv, part(upload, 1).await, abort(upload)).await;
    assert_eq!(late.unwrap_err(), ErrorKind::NoSuchUpload);
    assert_eq!(assert_sound(&tree).await.named.len(), 0);

    // Parts come into a gap, at the end, and in another's place while the abort is on its way.
    for number in [2, 4, 3] {
        let upload = begin().await;
        part(upload, 1).await.await.unwrap();
        part(upload, 3).await.await.unwrap();
        let put = part(upload, number).await;
        let before = assert_sound(&tree).await.queued.len();
        overtaken(&kv, abort(upload), async {
            put.await.unwrap();
        })
        .await;
        let audit = assert_sound(&tree).await;
        assert_eq!((audit.named.len(), audit.queued.len()), (0, before + 3));
    }
}

/// A path whose directory is renamed between a put's reads and its commit.
#[tokio::test]
async fn a_put_follows_the_path_not_the_directory() {
    let (tree, bucket, kv) = contended_tree().await;
    kv.counts.yields.store(false, Ordering::Relaxed);
    put(&tree, &bucket, "a/b/c/old").await;
    let slow = {
        let (tree, bucket) = (tree.clone(), bucket.clone());
        async move { put(&tree, &bucket, "a/b/c/new").await }
    };
    overtaken(&kv, slow, async {
        let (from, to) = (key("a"), key("z"));
        let options = RenameOptions::default();
        tree.rename_dir(&ALICE, (&bucket, &from), (&bucket, &to), options)
            .await
            .unwrap();
    })
    .await;
    assert_eq!(all_keys(&tree, &bucket).await, ["a/b/c/new", "z/b/c/old"]);
    // Nor does a lookup follow the old directory, which the cache knew.
    let old = tree.lookup(&bucket, &key("a/b/c/old")).await.unwrap();
    assert!(old.is_none());
    assert_sound(&tree).await;
}
