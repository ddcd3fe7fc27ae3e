//! Documents of buckets: set, cached, changed together with their bucket, gone with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dewar_catalog::record::{ChangeKind, DocumentKind, Versioning};
use dewar_types::BucketName;

use super::probe::Probe;
use super::*;

async fn set(tree: &Tree, bucket: &Bucket, kind: DocumentKind, text: &'static str) {
    tree.configure_bucket(&ALICE, bucket, |change| {
        change.put(kind, Bytes::from_static(text.as_bytes()));
        Ok(())
    })
    .await
    .expect("nothing hinders it");
}

async fn remove(tree: &Tree, bucket: &Bucket, kind: DocumentKind) {
    tree.configure_bucket(&ALICE, bucket, |change| {
        change.remove(kind);
        Ok(())
    })
    .await
    .expect("nothing hinders it");
}

async fn look(tree: &Tree, name: &str) -> Option<Bucket> {
    let name = BucketName::new(name).expect("a valid name");
    tree.bucket(&Tenant::default_tenant(), &name)
        .await
        .expect("memory does not fail")
}

async fn text(tree: &Tree, kind: DocumentKind) -> Option<Bytes> {
    let bucket = look(tree, "one").await.expect("is there");
    bucket.document(kind).map(|found| found.content.clone())
}

#[tokio::test]
async fn documents_are_set_replaced_and_removed() {
    let (tree, bucket) = tree().await;
    assert_eq!(text(&tree, DocumentKind::Policy).await, None);
    set(&tree, &bucket, DocumentKind::Policy, "first").await;
    set(&tree, &bucket, DocumentKind::Tags, "tags").await;
    assert_eq!(
        text(&tree, DocumentKind::Policy).await.as_deref(),
        Some(&b"first"[..])
    );
    assert_sound(&tree).await;
    let before = look(&tree, "one").await.unwrap();
    set(&tree, &bucket, DocumentKind::Policy, "second").await;
    let after = look(&tree, "one").await.unwrap();
    let stamp = |bucket: &Bucket| bucket.document(DocumentKind::Policy).unwrap().stamp;
    assert!(stamp(&before) < stamp(&after));
    assert_eq!(
        before.document(DocumentKind::Policy).unwrap().content,
        "first",
        "who looked before keeps what they saw"
    );
    assert_eq!(
        text(&tree, DocumentKind::Policy).await.as_deref(),
        Some(&b"second"[..])
    );
    remove(&tree, &bucket, DocumentKind::Policy).await;
    remove(&tree, &bucket, DocumentKind::Policy).await;
    assert_eq!(text(&tree, DocumentKind::Policy).await, None);
    assert_eq!(
        text(&tree, DocumentKind::Tags).await.as_deref(),
        Some(&b"tags"[..])
    );
    assert_sound(&tree).await;
    // Another opening reads what is stored.
    let again = Tree::open(Arc::clone(tree.kv()), Env::real(), 0)
        .await
        .unwrap();
    assert_eq!(
        text(&again, DocumentKind::Tags).await.as_deref(),
        Some(&b"tags"[..])
    );
}

#[tokio::test]
async fn a_bucket_with_documents_costs_no_more_reads() {
    let kv = Probe::new();
    let counts = Arc::clone(&kv.counts);
    let tree = Tree::open(Arc::new(kv), Env::real(), 0).await.unwrap();
    let bucket = make_bucket(&tree, "one").await;
    put(&tree, &bucket, "known").await;
    set(&tree, &bucket, DocumentKind::Policy, "policy").await;
    counts.reset();
    look(&tree, "one").await.unwrap();
    assert_eq!(
        counts.read(),
        (2, 1, 1, 0),
        "once: the entry, and both of one moment"
    );
    counts.reset();
    let bucket = look(&tree, "one").await.unwrap();
    assert!(bucket.document(DocumentKind::Policy).is_some());
    assert_eq!(counts.read(), (0, 0, 0, 0));
    let new = content(&tree, 10, "new").await;
    counts.reset();
    tree.publish(
        &ALICE,
        (&bucket, &key("new")).into(),
        new,
        &WriteCondition::NONE,
        &DataChanges::default(),
    )
    .await
    .unwrap();
    assert_eq!(counts.read(), (1, 0, 0, 1), "as without documents");
}

#[tokio::test]
async fn documents_are_parsed_once() {
    let (tree, bucket) = tree().await;
    set(&tree, &bucket, DocumentKind::Policy, "12").await;
    let parse = |bytes: &[u8]| -> Result<u64, std::num::ParseIntError> {
        std::str::from_utf8(bytes).expect("text").parse()
    };
    let once = look(&tree, "one").await.unwrap();
    let once = once.document(DocumentKind::Policy).unwrap();
    assert_eq!(*once.parsed(parse).unwrap(), 12);
    let twice = look(&tree, "one").await.unwrap();
    let twice = twice.document(DocumentKind::Policy).unwrap();
    let never = |_: &[u8]| -> Result<u64, ()> { panic!("parsed again") };
    assert_eq!(*twice.parsed(never).unwrap(), 12);
    set(&tree, &bucket, DocumentKind::Policy, "x").await;
    let other = look(&tree, "one").await.unwrap();
    let other = other.document(DocumentKind::Policy).unwrap();
    assert!(other.parsed(parse).is_err());
}

#[tokio::test]
async fn what_a_document_decided_is_decided_anew() {
    let (tree, bucket) = tree().await;
    let seen = parking_lot::Mutex::new(Vec::new());
    let other = tree.clone();
    // Somebody sets the policy between the look and the commit of this change.
    let first = std::sync::atomic::AtomicBool::new(true);
    let change = |change: &mut BucketChange<'_>| {
        let policy = change.document(DocumentKind::Policy);
        seen.lock()
            .push(policy.map(|policy| policy.content.clone()));
        if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            let (other, bucket) = (other.clone(), bucket.clone());
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_time()
                        .build()
                        .expect("a runtime");
                    runtime.block_on(set(&other, &bucket, DocumentKind::Policy, "closed"));
                });
            });
        }
        change.settings.versioning = Versioning::Enabled;
        Ok(())
    };
    tree.configure_bucket(&ALICE, &bucket, change)
        .await
        .unwrap();
    assert_eq!(
        *seen.lock(),
        [None, Some(Bytes::from_static(b"closed"))],
        "judged again with what is there now"
    );
    let now = look(&tree, "one").await.unwrap();
    assert_eq!(now.settings().unwrap().versioning, Versioning::Enabled);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn documents_go_with_their_bucket() {
    let (tree, bucket) = tree().await;
    set(&tree, &bucket, DocumentKind::Policy, "policy").await;
    set(&tree, &bucket, DocumentKind::Cors, "rules").await;
    tree.delete_bucket(&ALICE, &bucket, Emptiness::Bare)
        .await
        .unwrap();
    assert_sound(&tree).await;
    assert!(look(&tree, "one").await.is_none());
    let late = tree
        .configure_bucket(&ALICE, &bucket, |change| {
            change.put(DocumentKind::Tags, Bytes::from_static(b"late"));
            Ok(())
        })
        .await
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NoSuchBucket);
    // Another of the same name has none of them, and the old handle does not reach it.
    make_bucket(&tree, "one").await;
    assert_eq!(text(&tree, DocumentKind::Policy).await, None);
    assert!(
        tree.configure_bucket(&ALICE, &bucket, |_| Ok(()))
            .await
            .is_err()
    );
    assert_sound(&tree).await;
}

#[tokio::test]
async fn a_bucket_may_begin_with_documents() {
    let tree = tree_on(&MemoryKv::new()).await;
    let name = BucketName::new("one").unwrap();
    let new = NewBucket {
        versioning: Versioning::Enabled,
        documents: BTreeMap::from([(DocumentKind::Acl, Bytes::from_static(b"acl"))]),
        ..NewBucket::default()
    };
    tree.create_bucket(&ALICE, &Tenant::default_tenant(), &name, new)
        .await
        .unwrap();
    assert_eq!(
        text(&tree, DocumentKind::Acl).await.as_deref(),
        Some(&b"acl"[..])
    );
    assert_sound(&tree).await;
}

#[tokio::test]
async fn changes_are_logged_and_refusals_are_not() {
    let (tree, bucket) = tree().await;
    set(&tree, &bucket, DocumentKind::Lifecycle, "rules").await;
    let log = tree.changes(0, 100).await.unwrap();
    let (seq, last) = log.last().unwrap();
    assert_eq!(last.verb, ChangeKind::ConfigureBucket);
    assert_eq!(last.documents, [DocumentKind::Lifecycle]);
    assert_eq!((last.entry, last.path.as_str()), (bucket.id, "/one/"));
    assert_eq!(last.principal, "alice");
    let refused = tree
        .configure_bucket(&ALICE, &bucket, |change| {
            change.put(DocumentKind::Policy, Bytes::new());
            Err(Error::new(ErrorKind::Conflict, "no"))
        })
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    tree.configure_bucket(&ALICE, &bucket, |change| {
        change.remove(DocumentKind::Policy);
        Ok(())
    })
    .await
    .unwrap();
    assert!(tree.changes(*seq, 100).await.unwrap().is_empty());
    let long = tree
        .configure_bucket(&ALICE, &bucket, |change| {
            change.put(DocumentKind::Policy, vec![0; DOCUMENT_BYTES_MAX + 1].into());
            Ok(())
        })
        .await;
    assert_eq!(long.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_sound(&tree).await;
}
