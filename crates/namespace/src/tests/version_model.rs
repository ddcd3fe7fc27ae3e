//! Versions against a plain list of them, after every step of a random story: order, names,
//! contents, pages, counters.

use std::collections::{BTreeMap, BTreeSet};

use dewar_catalog::record::{CounterScope, Versioning};
use dewar_types::{GroupId, VersionName};
use proptest::prelude::*;

use super::engines::TestEngine;
use super::model_ops::path;
use super::*;

/// Whose bucket it is: all in it is charged to it, too.
const GROUP: GroupId = GroupId(9);

#[derive(Clone, Debug)]
enum Op {
    Put(String),
    Delete(String),
    /// Of a key, the version at this place.
    DeleteVersion(String, usize),
    /// Keys with or without a version, in one list.
    DeleteMany(Vec<(String, Option<usize>)>),
    Copy(String, usize, String),
    Tag(String, usize),
    RenameDir(String, String),
    RenameFile(String, String),
    Keep(Versioning),
    Reclaim,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0usize..4;
    let keep = proptest::sample::select(vec![Versioning::Enabled, Versioning::Suspended]);
    let some = proptest::collection::vec((path(), proptest::option::of(at())), 1..12);
    prop_oneof![
        12 => path().prop_map(Op::Put),
        6 => path().prop_map(Op::Delete),
        8 => (path(), at()).prop_map(|(key, at)| Op::DeleteVersion(key, at)),
        4 => some.prop_map(Op::DeleteMany),
        4 => (path(), at(), path()).prop_map(|(from, at, to)| Op::Copy(from, at, to)),
        3 => (path(), at()).prop_map(|(key, at)| Op::Tag(key, at)),
        3 => (path(), path()).prop_map(|(from, to)| Op::RenameDir(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Op::RenameFile(from, to)),
        5 => keep.prop_map(Op::Keep),
        1 => Just(Op::Reclaim),
        1 => Just(Op::Reopen),
    ]
}

/// A version as the model has it; what it is made of is in the etag.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    /// 0 for `null`.
    id: u128,
    /// `None` for a delete marker.
    etag: Option<String>,
    size: u64,
    tags: BTreeMap<String, String>,
}

struct World {
    engine: TestEngine,
    tree: Tree,
    bucket: Bucket,
    versioning: Versioning,
    /// Newest first.
    keys: BTreeMap<String, Vec<Model>>,
    steps: u64,
}

fn shown(version: &VersionRecord) -> Model {
    Model {
        id: match version.name() {
            VersionName::Null => 0,
            VersionName::Id(id) => id.0,
        },
        etag: (!version.flags.delete_marker()).then(|| version.etag()),
        size: version.size,
        tags: version.tags.clone(),
    }
}

fn name_of(model: &Model) -> VersionName {
    match model.id {
        0 => VersionName::Null,
        id => VersionName::Id(VersionId(id)),
    }
}

impl World {
    /// A version goes on top, as the bucket has it.
    fn push(&mut self, key: &str, version: Model) {
        let versions = self.keys.entry(key.to_owned()).or_default();
        if self.versioning != Versioning::Enabled {
            assert_eq!(version.id, 0);
            versions.retain(|version| version.id != 0);
        } else {
            assert_ne!(version.id, 0);
        }
        versions.insert(0, version);
    }

    fn at(&self, key: &str, at: usize) -> Option<Model> {
        let versions = self.keys.get(key)?;
        versions.get(at % versions.len().max(1)).cloned()
    }

    fn removed(&mut self, key: &str, version: Option<&Model>, done: &DeleteOutcome) {
        match version {
            None if self.versioning == Versioning::Off => {
                let gone = self.keys.remove(key).map(|versions| versions[0].clone());
                assert_eq!(done.version.as_ref().map(shown), gone);
                assert!(done.marker.is_none());
            }
            None => {
                let marker = shown(done.marker.as_ref().expect("a marker"));
                assert_eq!((&marker.etag, marker.size), (&None, 0));
                self.push(key, marker);
            }
            Some(version) => {
                let versions = self.keys.get_mut(key);
                let place = versions.and_then(|versions| {
                    let place = versions.iter().position(|other| other.id == version.id)?;
                    Some(versions.remove(place))
                });
                assert_eq!(done.version.as_ref().map(shown), place);
            }
        }
        self.keys.retain(|_, versions| !versions.is_empty());
    }

    fn live(&self, dir: &str) -> bool {
        self.keys
            .iter()
            .any(|(key, versions)| key.starts_with(dir) && versions[0].etag.is_some())
    }

    async fn step(&mut self, op: Op) {
        self.steps += 1;
        let (tree, bucket) = (self.tree.clone(), self.bucket.clone());
        match op {
            Op::Put(k) => {
                let new = content(&tree, self.steps, &format!("e{}", self.steps)).await;
                let done = tree
                    .publish(
                        &ALICE,
                        (&bucket, &key(&k)).into(),
                        new,
                        &WriteCondition::NONE,
                        &DataChanges::default(),
                    )
                    .await
                    .expect("put");
                self.push(&k, shown(&done.version));
            }
            Op::Delete(k) => {
                let doomed = DeleteTarget::key(key(&k));
                let done = tree.delete(&ALICE, &bucket, &doomed, false).await;
                let done = done.expect("deleted");
                self.removed(&k, None, &done);
            }
            Op::DeleteVersion(k, at) => {
                let Some(version) = self.at(&k, at) else {
                    return;
                };
                let doomed = DeleteTarget {
                    version: Some(name_of(&version)),
                    ..DeleteTarget::key(key(&k))
                };
                let done = tree.delete(&ALICE, &bucket, &doomed, false).await;
                self.removed(&k, Some(&version), &done.expect("removed"));
            }
            Op::DeleteMany(list) => {
                // Versions as they are named before any of the list is done.
                let list: Vec<_> = list
                    .into_iter()
                    .filter_map(|(k, at)| match at {
                        None => Some((k, None)),
                        Some(at) => self.at(&k, at).map(|version| (k, Some(version))),
                    })
                    .collect();
                let doomed: Vec<_> = list
                    .iter()
                    .map(|(k, version)| DeleteTarget {
                        version: version.as_ref().map(name_of),
                        ..DeleteTarget::key(key(k))
                    })
                    .collect();
                let done = tree.delete_many(&ALICE, &bucket, &doomed, false).await;
                for ((k, version), done) in list.iter().zip(done.expect("deleted")) {
                    self.removed(k, version.as_ref(), &done.expect("no condition"));
                }
            }
            Op::Copy(from, at, to) => self.copy(&from, at, &to).await,
            Op::Tag(k, at) => {
                let Some(version) = self.at(&k, at) else {
                    return;
                };
                let value = self.steps.to_string();
                let name = Some(name_of(&version));
                let done = tree
                    .change_version(&ALICE, (&bucket, &key(&k)).into(), name, |version, _| {
                        version.tags = Some([("t".into(), value.clone())].into());
                        Ok(())
                    })
                    .await
                    .map_err(|error| error.kind());
                if version.etag.is_none() {
                    assert_eq!(done.map(drop), Err(ErrorKind::DeleteMarker));
                    return;
                }
                let versions = self.keys.get_mut(&k).expect("there");
                let tagged = versions.iter_mut().find(|other| other.id == version.id);
                let tagged = tagged.expect("there");
                tagged.tags = BTreeMap::from([("t".into(), value)]);
                assert_eq!(shown(&done.expect("tagged")), *tagged);
            }
            Op::RenameDir(from, to) => self.rename_dir(&from, &to).await,
            Op::RenameFile(from, to) => self.rename_file(&from, &to).await,
            Op::Keep(versioning) => {
                self.versioning = versioning;
                tree.configure_bucket(&ALICE, &bucket, |change| {
                    change.settings.versioning = versioning;
                    Ok(())
                })
                .await
                .expect("set");
            }
            Op::Reclaim => drop(tree.reclaim_empty_dirs(5).await.expect("reclaims")),
            Op::Reopen => self.tree = self.engine.open().await,
        }
    }

    async fn copy(&mut self, from: &str, at: usize, to: &str) {
        let source = self.at(from, at);
        let options = CopyOptions {
            source_name: source.as_ref().map(name_of),
            ..CopyOptions::default()
        };
        let done = self
            .tree
            .copy(
                &ALICE,
                (&self.bucket, &key(from)).into(),
                (&self.bucket, &key(to)).into(),
                &options,
            )
            .await
            .map_err(|error| error.kind());
        match source {
            None => assert_eq!(done.map(drop), Err(ErrorKind::NotFound)),
            Some(source) if source.etag.is_none() => {
                assert_eq!(done.map(drop), Err(ErrorKind::DeleteMarker));
            }
            Some(source) => {
                let copy = shown(&done.expect("copied").version);
                let id = copy.id;
                assert_eq!(copy, Model { id, ..source });
                self.push(to, copy);
            }
        }
    }

    async fn rename_dir(&mut self, from: &str, to: &str) {
        let options = RenameOptions {
            make_parents: true,
            ..RenameOptions::default()
        };
        let (b, old, new) = (&self.bucket, format!("{from}/"), format!("{to}/"));
        let done = self
            .tree
            .rename_dir(&ALICE, (b, &key(from)), (b, &key(to)), options)
            .await
            .map_err(|error| error.kind());
        let held = |dir: &str| self.keys.keys().any(|key| key.starts_with(dir));
        let expected = if !self.live(&old) {
            Err(ErrorKind::NotFound)
        } else if new != old && (new.starts_with(&old) || old.starts_with(&new)) {
            Err(ErrorKind::InvalidArgument)
        } else if new != old && held(&new) {
            Err(ErrorKind::NotEmpty)
        } else {
            Ok(())
        };
        assert_eq!(done, expected, "{from} to {to}");
        if expected.is_ok() {
            let moved = |path: String| match path.strip_prefix(&old) {
                Some(rest) => format!("{new}{rest}"),
                None => path,
            };
            let keys = std::mem::take(&mut self.keys).into_iter();
            self.keys = keys.map(|(key, versions)| (moved(key), versions)).collect();
        }
    }

    async fn rename_file(&mut self, from: &str, to: &str) {
        let none = (&WriteCondition::NONE, &WriteCondition::NONE);
        let b = &self.bucket;
        let done = self
            .tree
            .rename_file(
                &ALICE,
                (b, &key(from)).into(),
                (b, &key(to)).into(),
                none,
                Hierarchy::Flat,
            )
            .await
            .map_err(|error| error.kind());
        let source = self.keys.get(from);
        let live = source.is_some_and(|versions| versions[0].etag.is_some());
        let hides = self.versioning != Versioning::Off && from != to && self.keys.contains_key(to);
        let expected = match (live, hides) {
            (false, _) => Err(ErrorKind::NotFound),
            (true, true) => Err(ErrorKind::Unsupported),
            (true, false) => Ok(()),
        };
        assert_eq!(done.map(drop), expected, "{from} to {to}");
        if expected.is_ok()
            && let Some(versions) = self.keys.remove(from)
        {
            self.keys.insert(to.to_owned(), versions);
        }
    }
}

/// A listing to compare.
#[derive(Clone, Debug)]
struct Ask {
    prefix: String,
    delimiter: Option<&'static str>,
    max: usize,
}

fn ask() -> impl Strategy<Value = Ask> {
    let prefix = prop_oneof![Just(String::new()), path(), path().prop_map(|p| p + "/")];
    let delimiter = proptest::sample::select(vec![None, Some("/"), Some("a"), Some("a/")]);
    (prefix, delimiter, 1usize..5).prop_map(|(prefix, delimiter, max)| Ask {
        prefix,
        delimiter,
        max,
    })
}

/// All pages of a listing: prefixes as keys without a version.
async fn listed(world: &World, ask: &Ask) -> Vec<(String, Option<(bool, Model)>)> {
    let mut all = Vec::new();
    let mut next: Option<(String, Option<VersionId>)> = None;
    loop {
        let query = VersionQuery {
            prefix: &ask.prefix,
            delimiter: ask.delimiter,
            after: next.as_ref().map(|(key, _)| key.as_str()),
            after_version: next
                .as_ref()
                .and_then(|(_, version)| version.map(VersionName::Id)),
            max: ask.max,
        };
        let page = world.tree.list_versions(&world.bucket, query);
        let page = page.await.expect("lists");
        assert!(page.items.len() == ask.max || page.next.is_none());
        for item in page.items {
            match item {
                ListedVersion::Prefix(prefix) => all.push((prefix, None)),
                ListedVersion::Version {
                    key,
                    current,
                    version,
                } => {
                    assert_eq!(version.owner, Some(ALICE.user));
                    all.push((key, Some((current, shown(&version)))));
                }
            }
        }
        match page.next {
            Some(marker) => next = Some(marker),
            None => return all,
        }
    }
}

async fn compare(world: &World, ask: &Ask) {
    assert_sound(&world.tree).await;
    let mut expected = Vec::new();
    let mut prefixes = BTreeSet::new();
    for (key, versions) in &world.keys {
        let Some(rest) = key.strip_prefix(&ask.prefix) else {
            continue;
        };
        let rolled = ask
            .delimiter
            .and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
        if let Some(end) = rolled {
            let prefix = key[..ask.prefix.len() + end].to_owned();
            if prefixes.insert(prefix.clone()) {
                expected.push((prefix, None));
            }
            continue;
        }
        for (place, version) in versions.iter().enumerate() {
            expected.push((key.clone(), Some((place == 0, version.clone()))));
        }
    }
    assert_eq!(listed(world, ask).await, expected, "{ask:?}");
    let live: Vec<_> = world
        .keys
        .iter()
        .filter(|(_, versions)| versions[0].etag.is_some())
        .map(|(key, _)| key.clone())
        .collect();
    assert_eq!(all_keys(&world.tree, &world.bucket).await, live);
    let bytes: u64 = world.keys.values().flatten().map(|v| v.size).sum();
    for scope in [
        CounterScope::Bucket(world.bucket.id),
        CounterScope::User(ALICE.user),
        CounterScope::Group(GROUP),
    ] {
        let usage = world.tree.catalog().usage(scope).await.expect("reads");
        let versions = world.keys.values().flatten().count();
        assert_eq!((usage.objects, usage.bytes), (versions as u64, bytes));
    }
    for (k, versions) in &world.keys {
        for version in versions {
            let name = Some(name_of(version));
            let k = key(k);
            let found = world.tree.lookup_version(&world.bucket, &k, name);
            let found = found.await.expect("reads").expect("there");
            assert_eq!(shown(&found.current), *version);
        }
    }
}

async fn story(mut engine: TestEngine, ops: Vec<(Op, Ask)>) {
    let tree = engine.open().await;
    let bucket = make_bucket(&tree, "one").await;
    tree.set_group(&ALICE, &bucket, None, Some(GROUP))
        .await
        .expect("is set");
    let mut world = World {
        engine,
        tree,
        bucket,
        versioning: Versioning::Off,
        keys: BTreeMap::new(),
        steps: 0,
    };
    for (op, ask) in ops {
        let note = format!("{op:?}");
        world.step(op).await;
        compare(&world, &ask).await;
        tracing::trace!(note, "done");
    }
    reclaim_all(&world.tree).await;
    let audit = assert_sound(&world.tree).await;
    let mut needed = BTreeSet::new();
    for key in world.keys.keys() {
        needed.extend(key.match_indices('/').map(|(at, _)| &key[..=at]));
    }
    assert_eq!(audit.dirs, needed.len() as u64);
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn versions_are_what_s3_says(ops in proptest::collection::vec((op(), ask()), 1..60)) {
        runtime().block_on(story(TestEngine::memory(), ops));
    }
}

proptest! {
    #![proptest_config(config(20))]

    /// The same on the journal, where opening again means a power failure.
    #[test]
    fn versions_survive_power_failures(ops in proptest::collection::vec((op(), ask()), 1..60)) {
        runtime().block_on(async { story(TestEngine::embedded().await, ops).await });
    }
}
