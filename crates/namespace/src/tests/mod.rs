//! Tests of the tree: against a model, under contention, and of single rules.

mod concurrency;
mod cost;
mod documents;
mod engines;
mod history;
mod listing;
mod locks;
mod model;
mod model_ops;
mod outage;
mod probe;
mod quotas;
mod removal;
mod rules;
mod version_model;

use std::sync::Arc;

use dewar_catalog::record::{ETag, Slot};
use dewar_catalog::{Quota, Tenant, Usage, record};
use dewar_checksum::DigestSet;
use dewar_env::Env;
use dewar_kv::MemoryKv;
use dewar_types::{BlobId, BucketName, ObjectKey, UserId};

use super::*;

pub(super) const ALICE: Actor<'static> = Actor {
    user: UserId(7),
    principal: "alice",
};

pub(super) const DIGESTS: fn() -> DigestSet = || DigestSet::new(1, 0);

pub(super) fn key(text: &str) -> ObjectKey {
    ObjectKey::new(text).expect("a valid key")
}

pub(super) async fn tree_on(kv: &MemoryKv) -> Tree {
    Tree::open(Arc::new(kv.clone()), Env::real(), 0)
        .await
        .expect("memory does not fail")
}

/// A tree with the bucket `one`.
pub(super) async fn tree() -> (Tree, Bucket) {
    let tree = tree_on(&MemoryKv::new()).await;
    let bucket = make_bucket(&tree, "one").await;
    (tree, bucket)
}

pub(super) async fn make_bucket(tree: &Tree, name: &str) -> Bucket {
    let name = BucketName::new(name).expect("a valid name");
    tree.create_bucket(
        &ALICE,
        &Tenant::default_tenant(),
        &name,
        NewBucket::default(),
    )
    .await
    .expect("the name is free")
}

/// A new version in a blob of its own; the ETag is a text.
pub(super) async fn content(tree: &Tree, size: u64, etag: &str) -> NewVersion {
    // Some tests let commits fail, also those that reserve ids.
    let blob = loop {
        if let Ok(blob) = tree.ids().blob().await {
            break blob;
        }
    };
    let extents = vec![Extent::large(blob, 0, size)];
    NewVersion::new(size, ETag::Text(etag.into()), DIGESTS(), extents)
}

pub(super) async fn put(tree: &Tree, bucket: &Bucket, name: &str) -> Published {
    let new = content(tree, 10, name).await;
    tree.publish(
        &ALICE,
        (bucket, &key(name)).into(),
        new,
        &WriteCondition::NONE,
        &DataChanges::default(),
    )
    .await
    .expect("nothing hinders it")
}

pub(super) async fn delete(tree: &Tree, bucket: &Bucket, name: &str) -> Option<VersionRecord> {
    tree.delete(&ALICE, bucket, &DeleteTarget::key(key(name)), false)
        .await
        .expect("nothing hinders it")
        .version
}

/// All keys of a bucket.
pub(super) async fn all_keys(tree: &Tree, bucket: &Bucket) -> Vec<String> {
    let query = ListQuery {
        max: LIST_MAX,
        ..ListQuery::default()
    };
    let page = tree
        .list(bucket, query)
        .await
        .expect("memory does not fail");
    page.items
        .iter()
        .map(|item| item.name().to_owned())
        .collect()
}

pub(super) async fn reclaim_all(tree: &Tree) {
    while tree
        .reclaim_empty_dirs(7)
        .await
        .expect("memory does not fail")
        .more
    {}
}

/// Frees all that was removed.
pub(super) async fn free_all(tree: &Tree) {
    for dir in tree.removed_dirs().await.expect("memory does not fail") {
        while tree.free_removed(dir).await.expect("frees") != FreeingStep::Done {}
    }
}

/// Fails with what the audit finds.
pub(super) async fn assert_sound(tree: &Tree) -> audit::Audit {
    let audit = tree.audit().await.expect("every record decodes");
    assert_eq!(audit.faults, Vec::<String>::new());
    audit
}

pub(super) fn slot(segment: BlobId, offset: u32, size: u32) -> Extent {
    Extent::small(
        segment,
        Slot {
            offset,
            header: 64,
            len: 64 + size,
        },
    )
}
