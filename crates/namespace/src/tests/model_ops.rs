//! The steps of the model test: each is done on the tree and on the model, and both must agree on
//! the outcome.

use std::collections::{BTreeMap, BTreeSet};

use dewar_catalog::record::ContentCopy;
use dewar_types::{ByteRange, ErrorKind, UploadId};
use proptest::prelude::*;

use super::engines::TestEngine;
use super::model::{ModelBucket, ModelFile, ModelPart};
use super::*;

/// A thing to do. Numbers choose among what is there, modulo.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Put {
        bucket: usize,
        key: String,
        shape: Shape,
        condition: Cond,
    },
    Delete {
        bucket: usize,
        key: String,
        condition: Cond,
    },
    DeleteMany {
        bucket: usize,
        keys: Vec<String>,
    },
    Copy {
        from: (usize, String),
        to: (usize, String),
        replace: bool,
        condition: Cond,
    },
    RenameFile {
        bucket: usize,
        from: String,
        to: String,
        condition: Cond,
    },
    RenameDir {
        bucket: usize,
        from: String,
        to: String,
        replaces: ReplaceRule,
        make_parents: bool,
    },
    MakeDir {
        bucket: usize,
        path: String,
        make_parents: bool,
    },
    DetachDir {
        bucket: usize,
        path: String,
    },
    Free {
        steps: usize,
    },
    RemoveDir {
        bucket: usize,
        path: String,
    },
    MarkSpace {
        bucket: usize,
        path: String,
        limit: bool,
    },
    CreateUpload {
        bucket: usize,
        key: String,
    },
    PutPart {
        upload: usize,
        number: u16,
        shape: Shape,
    },
    CopyPart {
        upload: usize,
        number: u16,
        from: (usize, String),
        cut: (u64, u64),
    },
    Complete {
        upload: usize,
        skip: Option<u16>,
        wrong: bool,
        min: u64,
        condition: Cond,
    },
    CompleteAgain {
        bucket: usize,
        key: String,
    },
    Abort {
        upload: usize,
    },
    Reclaim {
        limit: usize,
    },
    Reopen,
}

/// What a new content is made of.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Empty,
    Small(u32),
    Large(u64),
    /// Many pieces, two of each blob: goes to long lists.
    Pieces(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Cond {
    None,
    Absent,
    Present,
    Right,
    Wrong,
}

/// Few names, so that steps meet; among them the ones that make trouble.
pub(super) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just("a"),
        4 => Just("b"),
        1 => Just(""),
        1 => Just("a-"),
        1 => Just("a\0"),
        1 => Just("é"),
        1 => Just("ab"),
    ]
    .prop_map(str::to_owned)
}

/// A path of one to four names; `/` may stand anywhere.
pub(super) fn path() -> impl Strategy<Value = String> {
    let depth = prop_oneof![3 => Just(1usize), 4 => Just(2), 3 => Just(3), 1 => Just(4)];
    depth
        .prop_flat_map(|depth| proptest::collection::vec(name(), depth))
        .prop_map(|names| names.join("/"))
        .prop_filter("no key is empty", |path| !path.is_empty())
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        1 => Just(Shape::Empty),
        4 => (0u32..100).prop_map(Shape::Small),
        4 => (1u64..100_000).prop_map(Shape::Large),
        1 => (17usize..40).prop_map(Shape::Pieces),
    ]
}

fn cond() -> impl Strategy<Value = Cond> {
    prop_oneof![
        6 => Just(Cond::None),
        1 => Just(Cond::Absent),
        1 => Just(Cond::Present),
        1 => Just(Cond::Right),
        1 => Just(Cond::Wrong),
    ]
}

fn replaces() -> impl Strategy<Value = ReplaceRule> {
    prop_oneof![
        Just(ReplaceRule::Nothing),
        Just(ReplaceRule::EmptyDirectory),
        Just(ReplaceRule::Everything),
    ]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let b = || 0usize..2;
    prop_oneof![
        12 => (b(), path(), shape(), cond()).prop_map(|(bucket, key, shape, condition)| Op::Put { bucket, key, shape, condition }),
        5 => (b(), path(), cond()).prop_map(|(bucket, key, condition)| Op::Delete { bucket, key, condition }),
        2 => (b(), proptest::collection::vec(path(), 1..30)).prop_map(|(bucket, keys)| Op::DeleteMany { bucket, keys }),
        5 => ((b(), path()), (b(), path()), any::<bool>(), cond()).prop_map(|(from, to, replace, condition)| Op::Copy { from, to, replace, condition }),
        4 => (b(), path(), path(), cond()).prop_map(|(bucket, from, to, condition)| Op::RenameFile { bucket, from, to, condition }),
        5 => (b(), path(), path(), replaces(), any::<bool>()).prop_map(|(bucket, from, to, replaces, make_parents)| Op::RenameDir { bucket, from, to, replaces, make_parents }),
        3 => (b(), path(), any::<bool>()).prop_map(|(bucket, path, make_parents)| Op::MakeDir { bucket, path, make_parents }),
        3 => (b(), path()).prop_map(|(bucket, path)| Op::RemoveDir { bucket, path }),
        3 => (b(), path()).prop_map(|(bucket, path)| Op::DetachDir { bucket, path }),
        3 => (1usize..4).prop_map(|steps| Op::Free { steps }),
        2 => (b(), path(), proptest::bool::weighted(0.6)).prop_map(|(bucket, path, limit)| Op::MarkSpace { bucket, path, limit }),
        2 => (b(), path()).prop_map(|(bucket, key)| Op::CreateUpload { bucket, key }),
        9 => (any::<usize>(), 1u16..5, shape()).prop_map(|(upload, number, shape)| Op::PutPart { upload, number, shape }),
        2 => (any::<usize>(), 1u16..5, (b(), path()), (0u64..50, 1u64..50)).prop_map(|(upload, number, from, cut)| Op::CopyPart { upload, number, from, cut }),
        3 => (any::<usize>(), proptest::option::of(1u16..5), proptest::bool::weighted(0.1), prop_oneof![4 => Just(0u64), 1 => 1u64..100], cond()).prop_map(|(upload, skip, wrong, min, condition)| Op::Complete { upload, skip, wrong, min, condition }),
        1 => (b(), path()).prop_map(|(bucket, key)| Op::CompleteAgain { bucket, key }),
        1 => any::<usize>().prop_map(|upload| Op::Abort { upload }),
        2 => (1usize..5).prop_map(|limit| Op::Reclaim { limit }),
        2 => Just(Op::Reopen),
    ]
}

/// The tree, the models, and what was ever written.
pub(super) struct World {
    engine: TestEngine,
    pub(super) tree: Tree,
    pub(super) buckets: Vec<Bucket>,
    pub(super) models: Vec<ModelBucket>,
    pub(super) written: BTreeSet<(BlobId, Option<u32>)>,
    segment: BlobId,
    offset: u32,
}

type Outcome<T> = Result<T, ErrorKind>;

fn kind<T>(result: Result<T, Error>) -> Outcome<T> {
    result.map_err(|error| error.kind())
}

fn dir_of(path: &str) -> String {
    format!("{path}/")
}

/// The directory that holds the last name; empty for the bucket itself.
fn parent_of(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..=at])
}

impl World {
    pub(super) async fn new(mut engine: TestEngine) -> Self {
        let tree = engine.open().await;
        let buckets = vec![
            make_bucket(&tree, "one").await,
            make_bucket(&tree, "two").await,
        ];
        // What moves between the two keeps its group or gets another; the audit counts it.
        tree.set_group(&ALICE, &buckets[1], None, Some(dewar_types::GroupId(9)))
            .await
            .expect("is set");
        let segment = tree.ids().blob().await.expect("memory");
        Self {
            engine,
            tree,
            buckets,
            models: vec![ModelBucket::default(); 2],
            written: BTreeSet::new(),
            segment,
            offset: 0,
        }
    }

    /// New bytes in new places.
    async fn write(&mut self, shape: &Shape) -> (u64, Vec<Extent>) {
        let blob = self.tree.ids().blob().await.expect("memory");
        let extents = match *shape {
            Shape::Empty => Vec::new(),
            Shape::Small(size) => {
                let extent = slot(self.segment, self.offset, size);
                self.written.insert((self.segment, Some(self.offset)));
                self.offset += 64 + size;
                vec![extent]
            }
            Shape::Large(size) => {
                self.written.insert((blob, None));
                vec![Extent::large(blob, 0, size)]
            }
            Shape::Pieces(count) => {
                let mut extents = Vec::new();
                for piece in 0..count as u64 {
                    let blob = BlobId(blob.0 + (piece / 2) * (1 << 40));
                    self.written.insert((blob, None));
                    extents.push(Extent::large(blob, piece * 10, 10));
                }
                extents
            }
        };
        (extents.iter().map(|extent| extent.len).sum(), extents)
    }

    fn condition(&self, bucket: usize, key: &str, cond: Cond) -> WriteCondition {
        let current = self.models[bucket].files.get(key);
        let tag = |tag: String| WriteCondition {
            if_match: vec![ETagMatch::Is(tag)],
            ..WriteCondition::NONE
        };
        match cond {
            Cond::None => WriteCondition::NONE,
            Cond::Absent => WriteCondition::absent(),
            Cond::Present => WriteCondition {
                if_match: vec![ETagMatch::Any],
                ..WriteCondition::NONE
            },
            Cond::Right => tag(current.map_or("none".into(), |file| file.etag.clone())),
            Cond::Wrong => tag("wrong".into()),
        }
    }

    fn judge(&self, bucket: usize, key: &str, cond: Cond) -> Outcome<()> {
        match (self.models[bucket].files.contains_key(key), cond) {
            (_, Cond::None) | (true, Cond::Present | Cond::Right) | (false, Cond::Absent) => Ok(()),
            (true, Cond::Absent | Cond::Wrong) => Err(ErrorKind::Precondition),
            (false, Cond::Present | Cond::Right | Cond::Wrong) => Err(ErrorKind::NotFound),
        }
    }

    fn upload(&self, choice: usize) -> Option<(usize, String, UploadId)> {
        let all: Vec<_> = (0..2)
            .flat_map(|b| {
                self.models[b]
                    .uploads
                    .keys()
                    .map(move |(k, id)| (b, k.clone(), *id))
            })
            .collect();
        (!all.is_empty()).then(|| all[choice % all.len()].clone())
    }

    /// Turns most paths that are to be found into ones that are there.
    fn aim(&self, mut op: Op, choice: usize) -> Op {
        let pick = |bucket: usize, path: &mut String, dirs: bool, choice: usize| {
            let model = &self.models[bucket];
            let there: Vec<String> = if dirs {
                let visible = model.dirs_needed().into_iter();
                visible
                    .filter_map(|dir| dir.strip_suffix('/').map(str::to_owned))
                    .filter(|dir| !dir.is_empty())
                    .collect()
            } else {
                model.files.keys().cloned().collect()
            };
            if !choice.is_multiple_of(5) && !there.is_empty() {
                path.clone_from(&there[choice / 5 % there.len()]);
            }
        };
        match &mut op {
            Op::Delete { bucket, key, .. } => pick(*bucket, key, false, choice),
            Op::CompleteAgain { bucket, key } => {
                let mut files = self.models[*bucket].files.iter();
                if let Some((joined, _)) = files.find(|(_, file)| file.upload.is_some()) {
                    key.clone_from(joined);
                }
            }
            Op::DeleteMany { bucket, keys } => {
                for (at, key) in keys.iter_mut().enumerate() {
                    pick(*bucket, key, false, choice.wrapping_mul(at + 3));
                }
            }
            Op::Copy { from, to, .. } => {
                pick(from.0, &mut from.1, false, choice);
                // Now and then onto something, itself included.
                if choice.is_multiple_of(3) {
                    pick(to.0, &mut to.1, false, choice / 7);
                }
            }
            Op::CopyPart { from, .. } => pick(from.0, &mut from.1, false, choice),
            Op::RenameFile {
                bucket, from, to, ..
            } => {
                pick(*bucket, from, false, choice);
                if choice.is_multiple_of(3) {
                    pick(*bucket, to, false, choice / 7);
                }
            }
            Op::RenameDir {
                bucket, from, to, ..
            } => {
                pick(*bucket, from, true, choice);
                if choice.is_multiple_of(3) {
                    pick(*bucket, to, true, choice / 7);
                }
            }
            Op::RemoveDir { bucket, path } | Op::MarkSpace { bucket, path, .. } => {
                pick(*bucket, path, true, choice);
            }
            Op::Put { bucket, key, .. } if choice.is_multiple_of(3) => {
                pick(*bucket, key, false, choice / 3);
            }
            _ => {}
        }
        op
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each thing to do")]
    pub(super) async fn step(&mut self, step: usize, op: Op, choice: usize) {
        let op = self.aim(op, choice);
        let note = format!("step {step}: {op:?}");
        match op {
            Op::Put {
                bucket,
                key: k,
                shape,
                condition,
            } => self.put(&note, bucket, k, shape, condition).await,
            Op::Delete {
                bucket,
                key: k,
                condition,
            } => {
                let doomed = DeleteTarget {
                    condition: self.condition(bucket, &k, condition),
                    ..DeleteTarget::key(key(&k))
                };
                let result = self
                    .tree
                    .delete(&ALICE, &self.buckets[bucket], &doomed, false)
                    .await;
                let expected = match self.models[bucket].files.get(&k) {
                    None => Ok(None),
                    Some(file) => self
                        .judge(bucket, &k, condition)
                        .map(|()| Some(file.etag.clone())),
                };
                assert_eq!(
                    kind(result).map(|done| done.version.map(|v| v.etag())),
                    expected,
                    "{note}"
                );
                if expected.is_ok() {
                    self.models[bucket].files.remove(&k);
                }
            }
            Op::DeleteMany { bucket, keys } => {
                let list: Vec<_> = keys.iter().map(|k| DeleteTarget::key(key(k))).collect();
                let results = self
                    .tree
                    .delete_many(&ALICE, &self.buckets[bucket], &list, false)
                    .await
                    .expect("deletes");
                for (k, result) in keys.iter().zip(results) {
                    let gone = self.models[bucket].files.remove(k);
                    assert_eq!(
                        result.expect("no condition").version.map(|v| v.etag()),
                        gone.map(|f| f.etag),
                        "{note}"
                    );
                }
            }
            Op::Copy {
                from,
                to,
                replace,
                condition,
            } => self.copy(&note, from, to, replace, condition).await,
            Op::RenameFile {
                bucket,
                from,
                to,
                condition,
            } => self.rename_file(&note, bucket, from, to, condition).await,
            Op::RenameDir {
                bucket,
                from,
                to,
                replaces,
                make_parents,
            } => {
                self.rename_dir(
                    &note,
                    bucket,
                    &from,
                    &to,
                    RenameOptions {
                        replaces,
                        make_parents,
                        hierarchy: Hierarchy::Flat,
                    },
                )
                .await;
            }
            Op::MakeDir {
                bucket,
                path,
                make_parents,
            } => {
                let options = DirOptions {
                    existing: false,
                    hierarchy: Hierarchy::Flat,
                    group: None,
                    mode: 0o755,
                    make_parents,
                };
                let result = self
                    .tree
                    .make_dir(&ALICE, &self.buckets[bucket], &key(&path), options)
                    .await;
                let model = &mut self.models[bucket];
                let dir = dir_of(&path);
                let expected = if !make_parents && !model.visible(parent_of(&path)) {
                    Err(ErrorKind::NotFound)
                } else if model.visible(&dir) {
                    Err(ErrorKind::AlreadyExists)
                } else {
                    Ok(())
                };
                assert_eq!(kind(result).map(drop), expected, "{note}");
                if expected.is_ok() {
                    model.dirs.insert(dir);
                }
            }
            Op::RemoveDir { bucket, path } => {
                let result = self
                    .tree
                    .remove_dir(&ALICE, &self.buckets[bucket], &key(&path))
                    .await;
                let model = &mut self.models[bucket];
                let dir = dir_of(&path);
                let expected = if !model.visible(&dir) {
                    Err(ErrorKind::NotFound)
                } else if model.occupied(&dir) {
                    Err(ErrorKind::NotEmpty)
                } else {
                    Ok(())
                };
                assert_eq!(kind(result), expected, "{note}");
                if expected.is_ok() {
                    model.dirs.remove(&dir);
                    model.spaces.remove(&dir);
                    model.limited.remove(&dir);
                }
            }
            Op::DetachDir { bucket, path } => {
                let result = self
                    .tree
                    .detach_dir(&ALICE, &self.buckets[bucket], &key(&path))
                    .await;
                let result = kind(result);
                let dir = dir_of(&path);
                let model = &mut self.models[bucket];
                let limited = model.limited.iter().any(|it| it.starts_with(&dir));
                let expected = match (model.visible(&dir), limited) {
                    (false, _) => Err(ErrorKind::NotFound),
                    (true, true) => Err(ErrorKind::Unsupported),
                    (true, false) => Ok(()),
                };
                assert_eq!(result, expected, "{note}");
                if result.is_ok() {
                    model.remove_all(&dir);
                }
            }
            Op::Free { steps } => {
                for _ in 0..steps {
                    let removed = self.tree.removed_dirs().await.expect("reads");
                    let Some(&dir) = removed.last() else { break };
                    self.tree.free_removed(dir).await.expect("frees");
                }
            }
            Op::MarkSpace {
                bucket,
                path,
                limit,
            } => self.mark(&note, bucket, &path, limit).await,
            Op::CreateUpload { bucket, key: k } => {
                let record = self
                    .tree
                    .create_upload(
                        &ALICE,
                        &self.buckets[bucket],
                        &key(&k),
                        &NewUpload::default(),
                    )
                    .await
                    .expect("begins");
                self.models[bucket]
                    .uploads
                    .insert((k, record.id), BTreeMap::new());
            }
            Op::PutPart {
                upload,
                number,
                shape,
            } => {
                let Some((bucket, k, id)) = self.upload(upload) else {
                    return;
                };
                let (size, extents) = self.write(&shape).await;
                let etag = format!("part-{step}");
                let new = NewPart {
                    id: None,
                    size,
                    etag: ETag::Text(etag.clone()),
                    digests: DIGESTS(),
                    copies: vec![ContentCopy {
                        extents: extents.clone(),
                        ..ContentCopy::default()
                    }],
                    checksum: None,
                };
                self.tree
                    .put_part(
                        &self.buckets[bucket],
                        &key(&k),
                        id,
                        number,
                        &new,
                        &DataChanges::default(),
                    )
                    .await
                    .expect("puts");
                self.model_part(
                    bucket,
                    k,
                    id,
                    number,
                    ModelPart {
                        etag,
                        size,
                        extents,
                    },
                );
            }
            Op::CopyPart {
                upload,
                number,
                from,
                cut,
            } => self.copy_part(&note, upload, number, from, cut).await,
            Op::Complete {
                upload,
                skip,
                wrong,
                min,
                condition,
            } => {
                self.complete(&note, upload, skip, wrong, min, condition)
                    .await
            }
            Op::CompleteAgain { bucket, key: k } => self.complete_again(&note, bucket, &k).await,
            Op::Abort { upload } => {
                let Some((bucket, k, id)) = self.upload(upload) else {
                    return;
                };
                let object = key(&k);
                let abort = || {
                    self.tree
                        .abort_upload(&ALICE, &self.buckets[bucket], &object, id)
                };
                kind(abort().await).expect("aborts");
                assert_eq!(kind(abort().await), Err(ErrorKind::NoSuchUpload), "{note}");
                self.models[bucket].uploads.remove(&(k, id));
            }
            Op::Reclaim { limit } => {
                self.tree.reclaim_empty_dirs(limit).await.expect("reclaims");
            }
            Op::Reopen => self.tree = self.engine.open().await,
        }
    }

    async fn put(&mut self, note: &str, bucket: usize, k: String, shape: Shape, cond: Cond) {
        let before = self.written.clone();
        let (size, extents) = self.write(&shape).await;
        let etag = note.split(' ').take(2).collect::<String>();
        let mut new = NewVersion::new(size, ETag::Text(etag.clone()), DIGESTS(), extents.clone());
        new.attributes.headers.content_type = Some(etag.clone());
        let condition = self.condition(bucket, &k, cond);
        let result = self
            .tree
            .publish(
                &ALICE,
                (&self.buckets[bucket], &key(&k)).into(),
                new,
                &condition,
                &DataChanges::default(),
            )
            .await;
        let expected = self.judge(bucket, &k, cond);
        let replaced = self.models[bucket]
            .files
            .get(&k)
            .map(|file| file.etag.clone());
        assert_eq!(
            kind(result).map(|p| p.replaced.map(|v| v.etag())),
            expected.map(|()| replaced),
            "{note}"
        );
        if expected.is_err() {
            // Nothing names what was written; the data layer sweeps it.
            self.written = before;
            return;
        }
        let file = ModelFile {
            etag: etag.clone(),
            size,
            extents,
            content_type: Some(etag),
            upload: None,
        };
        self.models[bucket].files.insert(k, file);
    }

    async fn copy(
        &mut self,
        note: &str,
        from: (usize, String),
        to: (usize, String),
        replace: bool,
        cond: Cond,
    ) {
        let mut attributes = VersionAttributes::default();
        attributes.headers.content_type = Some("replaced".into());
        let options = CopyOptions {
            attributes,
            replace_headers: replace,
            target: self.condition(to.0, &to.1, cond),
            ..CopyOptions::default()
        };
        let result = self
            .tree
            .copy(
                &ALICE,
                (&self.buckets[from.0], &key(&from.1)).into(),
                (&self.buckets[to.0], &key(&to.1)).into(),
                &options,
            )
            .await;
        let source = self.models[from.0].files.get(&from.1).cloned();
        let expected = match &source {
            None => Err(ErrorKind::NotFound),
            Some(_) => self.judge(to.0, &to.1, cond),
        };
        assert_eq!(kind(result).map(drop), expected, "{note}");
        if let (Ok(()), Some(mut file)) = (expected, source) {
            file.upload = None;
            if replace {
                file.content_type = Some("replaced".into());
            }
            self.models[to.0].files.insert(to.1, file);
        }
    }

    async fn rename_file(
        &mut self,
        note: &str,
        bucket: usize,
        from: String,
        to: String,
        cond: Cond,
    ) {
        let condition = self.condition(bucket, &to, cond);
        let b = &self.buckets[bucket];
        let result = self
            .tree
            .rename_file(
                &ALICE,
                (b, &key(&from)).into(),
                (b, &key(&to)).into(),
                (&WriteCondition::NONE, &condition),
                Hierarchy::Flat,
            )
            .await;
        let expected = if self.models[bucket].files.contains_key(&from) {
            self.judge(bucket, &to, cond)
        } else {
            Err(ErrorKind::NotFound)
        };
        assert_eq!(kind(result).map(drop), expected, "{note}");
        if expected.is_ok() {
            let files = &mut self.models[bucket].files;
            let file = files.remove(&from).expect("is there");
            files.insert(to, file);
        }
    }

    async fn rename_dir(
        &mut self,
        note: &str,
        bucket: usize,
        from: &str,
        to: &str,
        options: RenameOptions,
    ) {
        let b = &self.buckets[bucket];
        let result = self
            .tree
            .rename_dir(&ALICE, (b, &key(from)), (b, &key(to)), options)
            .await;
        let model = &mut self.models[bucket];
        let (old, new) = (dir_of(from), dir_of(to));
        let above = |path: &str, own: bool| -> Vec<String> {
            let inside =
                |space: &&String| path.starts_with(space.as_str()) && (own || **space != path);
            model.spaces.iter().filter(inside).cloned().collect()
        };
        let expected = if !model.visible(&old) {
            Err(ErrorKind::NotFound)
        } else if new.starts_with(&old) && new != old {
            Err(ErrorKind::InvalidArgument)
        } else if new == old {
            assert_eq!(kind(result), Ok(()), "{note}");
            return;
        } else if !options.make_parents && !model.visible(parent_of(to)) {
            Err(ErrorKind::NotFound)
        } else if above(&old, false) != above(parent_of(to), true) {
            Err(ErrorKind::Unsupported)
        } else if model.visible(&new) && old.starts_with(&new) {
            Err(ErrorKind::InvalidArgument)
        } else if model.dirs.contains(&new) && options.replaces == ReplaceRule::Nothing {
            Err(ErrorKind::AlreadyExists)
        } else if options.replaces == ReplaceRule::Everything && model.visible(&new) {
            match model.limited.iter().any(|it| it.starts_with(&new)) {
                true => Err(ErrorKind::Unsupported),
                false => Ok(()),
            }
        } else if model.occupied(&new) || model.spaces.contains(&new) {
            Err(ErrorKind::NotEmpty)
        } else {
            Ok(())
        };
        assert_eq!(kind(result), expected, "{note}");
        if expected.is_err() {
            return;
        }
        let moved = |path: String| match path.strip_prefix(&old) {
            Some(rest) => format!("{new}{rest}"),
            None => path,
        };
        model.remove_all(&new);
        model.files = std::mem::take(&mut model.files)
            .into_iter()
            .map(|(k, f)| (moved(k), f))
            .collect();
        model.dirs = std::mem::take(&mut model.dirs)
            .into_iter()
            .map(moved)
            .collect();
        model.spaces = std::mem::take(&mut model.spaces)
            .into_iter()
            .map(moved)
            .collect();
        model.limited = std::mem::take(&mut model.limited)
            .into_iter()
            .map(moved)
            .collect();
    }

    async fn mark(&mut self, note: &str, bucket: usize, path: &str, limit: bool) {
        let b = &self.buckets[bucket];
        let model = &mut self.models[bucket];
        let dir = dir_of(path);
        let expected = if model.visible(&dir) {
            Ok(())
        } else {
            Err(ErrorKind::NotFound)
        };
        let quota = Quota {
            max_objects: limit.then_some(1 << 40),
            ..Quota::default()
        };
        let result = self.tree.mark_space(&ALICE, b, &key(path), quota).await;
        assert_eq!(kind(result).map(drop), expected, "{note}");
        if expected.is_ok() {
            let usage = self.tree.count_space(b, &key(path)).await.expect("counts");
            let below: Vec<_> = model
                .files
                .iter()
                .filter(|(k, _)| k.starts_with(&dir))
                .collect();
            let dirs = model.dirs.iter();
            let dirs = dirs.filter(|inner| inner.starts_with(&dir) && **inner != dir);
            // Uploads that began while it was a space before still count; the audit says which.
            let least = below.len() + dirs.count();
            let most = least + model.uploads.len();
            let removed = self.tree.removed_dirs().await.expect("reads");
            // What was removed from it and is not freed yet counts as well.
            let most = if removed.is_empty() { most } else { usize::MAX };
            let counted = least as u64..=most as u64;
            assert!(counted.contains(&usage.objects), "{note}");
            model.dirs.insert(dir.clone());
            match limit {
                true => model.limited.insert(dir.clone()),
                false => model.limited.remove(&dir),
            };
            model.spaces.insert(dir);
        }
    }

    fn model_part(&mut self, bucket: usize, k: String, id: UploadId, number: u16, part: ModelPart) {
        let parts = self.models[bucket]
            .uploads
            .get_mut(&(k, id))
            .expect("in the model");
        parts.insert(number, part);
    }

    async fn copy_part(
        &mut self,
        note: &str,
        upload: usize,
        number: u16,
        from: (usize, String),
        cut: (u64, u64),
    ) {
        let Some((bucket, k, id)) = self.upload(upload) else {
            return;
        };
        let source = self.models[from.0].files.get(&from.1).cloned();
        let range = ByteRange {
            start: cut.0,
            end: cut.0 + cut.1,
        };
        let etag = note.split(' ').take(2).collect::<String>();
        let result = self
            .tree
            .copy_part(
                (&self.buckets[from.0], &key(&from.1)).into(),
                Some(range),
                &CopyOptions::default(),
                (&self.buckets[bucket], &key(&k)),
                id,
                number,
                PartNames {
                    etag: ETag::Text(etag.clone()),
                    digests: DIGESTS(),
                    checksum: None,
                },
            )
            .await;
        let expected = match &source {
            None => Err(ErrorKind::NotFound),
            Some(file) if file.size < range.end => Err(ErrorKind::InvalidRange),
            Some(_) => Ok(()),
        };
        assert_eq!(kind(result).map(drop), expected, "{note}");
        if let (Ok(()), Some(file)) = (expected, source) {
            let extents = cut_out(&file.extents, range);
            self.model_part(
                bucket,
                k,
                id,
                number,
                ModelPart {
                    etag,
                    size: range.len(),
                    extents,
                },
            );
        }
    }

    async fn complete(
        &mut self,
        note: &str,
        upload: usize,
        skip: Option<u16>,
        wrong: bool,
        min: u64,
        cond: Cond,
    ) {
        let Some((bucket, k, id)) = self.upload(upload) else {
            return;
        };
        let parts = self.models[bucket].uploads[&(k.clone(), id)].clone();
        let chosen: Vec<_> = parts
            .iter()
            .filter(|(number, _)| Some(**number) != skip)
            .collect();
        let mut list: Vec<_> = chosen
            .iter()
            .map(|(number, part)| CompletePart {
                number: **number,
                etag: part.etag.clone(),
            })
            .collect();
        if let Some(last) = list.last_mut().filter(|_| wrong) {
            last.etag = "wrong".into();
        }
        let etag = note.split(' ').take(2).collect::<String>();
        let condition = self.condition(bucket, &k, cond);
        let joined = etag.clone();
        let join = move |_: &record::UploadRecord, _: &[(u16, &record::PartRecord)]| {
            Ok(CompletedObject {
                encryption: None,
                etag: ETag::Text(joined.clone()),
                digests: DIGESTS(),
                checksum: None,
                part_digests: Vec::new(),
                version: None,
            })
        };
        let result = self
            .tree
            .complete_upload(
                &ALICE,
                (&self.buckets[bucket], &key(&k)).into(),
                id,
                &list,
                min,
                &condition,
                &join,
            )
            .await;
        let small = chosen.iter().rev().skip(1).any(|(_, part)| part.size < min);
        let expected = if list.is_empty() {
            Err(ErrorKind::InvalidArgument)
        } else if let Err(unmet) = self.judge(bucket, &k, cond) {
            Err(unmet)
        } else if small {
            Err(ErrorKind::PartTooSmall)
        } else if wrong {
            Err(ErrorKind::InvalidPart)
        } else {
            Ok(())
        };
        assert_eq!(kind(result).map(drop), expected, "{note}");
        if expected.is_ok() {
            let file = ModelFile {
                etag,
                size: chosen.iter().map(|(_, part)| part.size).sum(),
                extents: chosen
                    .iter()
                    .flat_map(|(_, part)| part.extents.clone())
                    .collect(),
                content_type: None,
                upload: Some(id),
            };
            self.models[bucket].uploads.remove(&(k.clone(), id));
            self.models[bucket].files.insert(k, file);
        }
    }

    /// A client that missed the answer asks once more.
    async fn complete_again(&mut self, note: &str, bucket: usize, k: &str) {
        let file = self.models[bucket].files.get(k);
        let Some((file, id)) = file.and_then(|file| Some((file, file.upload?))) else {
            return;
        };
        let list = [CompletePart {
            number: 1,
            etag: "whatever".into(),
        }];
        let join = |_: &record::UploadRecord, _: &[(u16, &record::PartRecord)]| {
            Err(Error::new(ErrorKind::Internal, "joined twice"))
        };
        let again = self
            .tree
            .complete_upload(
                &ALICE,
                (&self.buckets[bucket], &key(k)).into(),
                id,
                &list,
                0,
                &WriteCondition::NONE,
                &join,
            )
            .await;
        assert_eq!(
            kind(again).map(|p| p.version.etag()),
            Ok(file.etag.clone()),
            "{note}"
        );
    }
}

/// The pieces of a range, byte by byte and then joined: slow and plain.
fn cut_out(extents: &[Extent], range: ByteRange) -> Vec<Extent> {
    let mut at = 0;
    let mut pieces = Vec::new();
    for extent in extents {
        let first = (at..at + extent.len).find(|byte| (range.start..range.end).contains(byte));
        let count = (at..at + extent.len)
            .filter(|byte| (range.start..range.end).contains(byte))
            .count();
        if let Some(first) = first {
            pieces.push(Extent {
                offset: extent.offset + first - at,
                len: count as u64,
                ..*extent
            });
        }
        at += extent.len;
    }
    pieces
}
