//! The tree against maps of whole keys, after every step of a random story.

use std::collections::{BTreeMap, BTreeSet};

use dewar_catalog::record::CounterScope;
use dewar_types::UploadId;
use proptest::prelude::*;

use super::engines::TestEngine;
use super::model_ops::{Op, World, op};
use super::*;

/// What S3 would say a bucket holds.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelBucket {
    pub(super) files: BTreeMap<String, ModelFile>,
    /// Directories made on request; each path ends in `/`.
    pub(super) dirs: BTreeSet<String>,
    /// Roots of spaces.
    pub(super) spaces: BTreeSet<String>,
    /// Those of them that have limits.
    pub(super) limited: BTreeSet<String>,
    pub(super) uploads: BTreeMap<(String, UploadId), BTreeMap<u16, ModelPart>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelFile {
    pub(super) etag: String,
    pub(super) size: u64,
    pub(super) extents: Vec<Extent>,
    pub(super) content_type: Option<String>,
    pub(super) upload: Option<UploadId>,
}

#[derive(Clone, Debug)]
pub(super) struct ModelPart {
    pub(super) etag: String,
    pub(super) size: u64,
    pub(super) extents: Vec<Extent>,
}

impl ModelBucket {
    /// Whether the directory (path with `/` at the end) exists for users.
    pub(super) fn visible(&self, dir: &str) -> bool {
        dir.is_empty() || self.dirs.iter().any(|d| d.starts_with(dir)) || self.live(dir)
    }

    /// Whether a file lives below.
    pub(super) fn live(&self, dir: &str) -> bool {
        self.files.keys().any(|key| key.starts_with(dir))
    }

    /// Whether something is in the directory.
    pub(super) fn occupied(&self, dir: &str) -> bool {
        self.live(dir) || self.dirs.iter().any(|d| d.starts_with(dir) && d != dir)
    }

    /// Everything in and below the directory goes.
    pub(super) fn remove_all(&mut self, dir: &str) {
        self.files.retain(|key, _| !key.starts_with(dir));
        self.dirs.retain(|inner| !inner.starts_with(dir));
        self.spaces.retain(|inner| !inner.starts_with(dir));
        self.limited.retain(|inner| !inner.starts_with(dir));
    }

    /// What a page of a listing shows, by the definition.
    pub(super) fn list(&self, query: ListQuery<'_>) -> (Vec<String>, bool) {
        let rolled = |path: &str| -> Option<String> {
            let delimiter = query.delimiter.filter(|d| !d.is_empty())?;
            let rest = path.strip_prefix(query.prefix)?;
            let end = query.prefix.len() + rest.find(delimiter)? + delimiter.len();
            Some(path[..end].to_owned())
        };
        let mut items = BTreeSet::new();
        for key in self
            .files
            .keys()
            .filter(|key| key.starts_with(query.prefix))
        {
            items.insert(rolled(key).unwrap_or_else(|| key.clone()));
        }
        if query.explicit_dirs {
            items.extend(self.dirs.iter().filter_map(|dir| rolled(dir)));
        }
        items.retain(|item| query.after.is_none_or(|after| item.as_str() > after));
        let max = query.max;
        let truncated = max > 0 && items.len() > max;
        (items.into_iter().take(max).collect(), truncated)
    }

    /// Directories that must exist in the catalog once everything empty is reclaimed.
    pub(super) fn dirs_needed(&self) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        for path in self.files.keys().chain(&self.dirs) {
            for (at, _) in path.match_indices('/') {
                needed.insert(path[..=at].to_owned());
            }
        }
        needed
    }
}

/// A listing to compare: everything that can be asked.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    prefix: String,
    delimiter: Option<&'static str>,
    after: Option<String>,
    max: usize,
    explicit_dirs: bool,
}

fn ask() -> impl Strategy<Value = Ask> {
    let text = || {
        prop_oneof![
            Just(String::new()),
            super::model_ops::name(),
            super::model_ops::path(),
            super::model_ops::path().prop_map(|path| path + "/"),
        ]
    };
    let delimiter = proptest::option::of(proptest::sample::select(vec![
        "/", "a", "-", "//", "/a", "b/", "é", "", "a/b",
    ]));
    (
        text(),
        delimiter,
        proptest::option::of(text()),
        0usize..6,
        any::<bool>(),
    )
        .prop_map(|(prefix, delimiter, after, max, explicit_dirs)| Ask {
            prefix,
            delimiter,
            after,
            max: if max == 5 { 1000 } else { max },
            explicit_dirs,
        })
}

async fn compare_listing(world: &World, ask: &Ask) {
    let query = ListQuery {
        prefix: &ask.prefix,
        delimiter: ask.delimiter,
        after: ask.after.as_deref(),
        max: ask.max,
        explicit_dirs: ask.explicit_dirs,
    };
    for (bucket, model) in world.buckets.iter().zip(&world.models) {
        let page = world.tree.list(bucket, query).await.expect("lists");
        let names: Vec<String> = page.items.iter().map(|i| i.name().to_owned()).collect();
        assert_eq!((names, page.truncated()), model.list(query), "{ask:?}");
        if ask.max == 0 {
            continue;
        }
        // Page by page it is the same list as at once.
        let mut paged = Vec::new();
        let mut after = ask.after.clone();
        loop {
            let query = ListQuery {
                after: after.as_deref(),
                ..query
            };
            let page = world.tree.list(bucket, query).await.expect("lists");
            paged.extend(page.items.iter().map(|i| i.name().to_owned()));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let whole = ListQuery {
            max: LIST_MAX,
            ..query
        };
        assert_eq!(paged, model.list(whole).0, "{ask:?} page by page");
        for names_max in 1..4 {
            compare_short_pages(world, bucket, query, model, names_max).await;
        }
    }
}

/// Pages that may look at few names show the same, in the same order. They may be empty, and may show
/// prefixes below which nothing lives.
async fn compare_short_pages(
    world: &World,
    bucket: &Bucket,
    query: ListQuery<'_>,
    model: &ModelBucket,
    names_max: usize,
) {
    let budget = ListBudget {
        names_max,
        gate: None,
    };
    let mut paged = Vec::new();
    let mut after = query.after.map(str::to_owned);
    loop {
        let page = ListQuery {
            after: after.as_deref(),
            ..query
        };
        let page = world.tree.list_within(bucket, page, budget).await;
        let page = page.expect("lists");
        paged.extend(page.items.iter().map(|item| item.name().to_owned()));
        match page.next {
            Some(next) => {
                assert!(after.is_none_or(|after| after < next), "no way forward");
                after = Some(next);
            }
            None => break,
        }
    }
    let whole = ListQuery {
        max: LIST_MAX,
        ..query
    };
    let right = model.list(whole).0;
    assert!(paged.is_sorted_by(|a, b| a < b), "{paged:?}");
    for name in &right {
        assert!(
            paged.contains(name),
            "{name} is missing, {query:?}, {names_max}"
        );
    }
    for name in paged.iter().filter(|name| !right.contains(name)) {
        let rolled = query
            .delimiter
            .is_some_and(|delimiter| name.ends_with(delimiter));
        assert!(
            rolled && !model.live(name),
            "{name} is no prefix, {query:?}"
        );
    }
}

/// Files, contents, counters and references are what the models say.
async fn compare(world: &World) {
    let audit = assert_sound(&world.tree).await;
    // What was removed and is not freed yet still counts; the audit says whether rightly.
    let freeing = !world.tree.removed_dirs().await.expect("reads").is_empty();
    let mut named: BTreeMap<(BlobId, Option<u32>), u64> = BTreeMap::new();
    let mut name = |extents: &[Extent]| {
        for extent in extents {
            let place = (extent.blob, extent.slot.map(|slot| slot.offset));
            *named.entry(place).or_default() += 1;
        }
    };
    let (mut objects, mut bytes) = (0, 0);
    for (bucket, model) in world.buckets.iter().zip(&world.models) {
        let usage = world
            .tree
            .catalog()
            .usage(CounterScope::Bucket(bucket.id))
            .await
            .expect("reads");
        let parts = model.uploads.values().flat_map(BTreeMap::values);
        let parts: u64 = parts.map(|part| part.size).sum();
        let files: u64 = model.files.values().map(|file| file.size).sum();
        let count = model.files.len() + model.uploads.len() + model.dirs.len();
        let least = (count as u64, files + parts);
        match freeing {
            false => assert_eq!((usage.objects, usage.bytes), least),
            true => assert!(usage.objects >= least.0 && usage.bytes >= least.1),
        }
        objects += usage.objects;
        bytes += usage.bytes;
        let query = ListQuery {
            max: LIST_MAX,
            ..ListQuery::default()
        };
        let page = world.tree.list(bucket, query).await.expect("lists");
        let mut seen = BTreeMap::new();
        for item in page.items {
            let Listed::File { key, file } = item else {
                panic!("a prefix without a delimiter");
            };
            let version = &file.current;
            let extents = world.tree.extents(version, 0).await.expect("is there");
            let file = ModelFile {
                etag: version.etag(),
                size: version.size,
                extents: extents.to_vec(),
                content_type: version.headers.content_type.clone(),
                upload: version.upload,
            };
            seen.insert(key, file);
        }
        assert_eq!(seen, model.files);
        for file in model.files.values() {
            name(&file.extents);
        }
        for part in model.uploads.values().flat_map(BTreeMap::values) {
            name(&part.extents);
        }
    }
    for scope in [
        CounterScope::Tenant(Tenant::default_tenant().id),
        CounterScope::User(ALICE.user),
    ] {
        let usage = world.tree.catalog().usage(scope).await.expect("reads");
        assert_eq!((usage.objects, usage.bytes), (objects, bytes), "{scope:?}");
    }
    if freeing {
        let more = |(place, &count): (&_, &u64)| audit.named.get(place) >= Some(&count);
        assert!(named.iter().all(more));
        named.clone_from(&audit.named);
    }
    assert_eq!(audit.named, named);
    // Nothing leaked, nothing freed early.
    for place in &world.written {
        let freed = match place {
            (blob, None) => audit.queued.contains(blob),
            (segment, Some(offset)) => audit.dead.contains(&(*segment, *offset)),
        };
        assert_ne!(named.contains_key(place), freed, "{place:?}");
    }
}

async fn story(engine: TestEngine, ops: Vec<(Op, usize, Ask)>) {
    let mut world = World::new(engine).await;
    for (step, (op, choice, ask)) in ops.into_iter().enumerate() {
        world.step(step, op, choice).await;
        compare(&world).await;
        compare_listing(&world, &ask).await;
    }
    reclaim_all(&world.tree).await;
    free_all(&world.tree).await;
    compare(&world).await;
    let audit = assert_sound(&world.tree).await;
    let needed: usize = world.models.iter().map(|m| m.dirs_needed().len()).sum();
    assert_eq!(
        audit.dirs, needed as u64,
        "empty directories are left, or full ones gone"
    );
}

fn stories(longest: usize) -> impl Strategy<Value = Vec<(Op, usize, Ask)>> {
    proptest::collection::vec((op(), any::<usize>(), ask()), 1..longest)
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
    #![proptest_config(config(150))]

    #[test]
    fn the_tree_is_what_s3_says(ops in stories(70)) {
        runtime().block_on(story(TestEngine::memory(), ops));
    }
}

proptest! {
    #![proptest_config(config(24))]

    /// The same on the journal, where opening again means a power failure.
    #[test]
    fn the_tree_survives_power_failures(ops in stories(70)) {
        runtime().block_on(async { story(TestEngine::embedded().await, ops).await });
    }
}
