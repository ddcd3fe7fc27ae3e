//! Documents of buckets through the store's verbs.

use dewar_types::ErrorKind;
use minicbor::{Decode, Encode};

use super::{Rig, bucket, run};
use crate::document::{Document as _, document_of};

#[derive(Debug, PartialEq, Encode, Decode)]
#[cbor(map)]
struct Notes {
    #[n(0)]
    text: String,
}

crate::cbor_document!(Notes, format 2, Tags, get GetBucketTagging, put PutBucketTagging, delete PutBucketTagging);

#[test]
fn documents_come_back_for_those_who_may() {
    run(async {
        let rig = Rig::new(1).await;
        let (store, first) = (&rig.store, bucket("first"));
        let notes = Notes { text: "a".into() };
        let get = store.get_bucket_document::<Notes>(&rig.ann, &first);
        assert_eq!(get.await.expect("none"), None);
        let put = store.put_bucket_document(&rig.ann, &first, &notes).await;
        put.expect("set");
        let get = store.get_bucket_document::<Notes>(&rig.ann, &first);
        assert_eq!(*get.await.expect("read").expect("set"), notes);

        for denied in [
            store
                .get_bucket_document::<Notes>(&rig.bob, &first)
                .await
                .map(drop),
            store.put_bucket_document(&rig.bob, &first, &notes).await,
            store
                .delete_bucket_document::<Notes>(&rig.bob, &first)
                .await,
        ] {
            assert_eq!(denied.expect_err("bob's").kind(), ErrorKind::Denied);
        }
        let found = store.inner.authorize_bucket(
            &rig.ann,
            dewar_auth::Action::GetObject,
            &first,
            Some("key"),
        );
        let found = found.await.expect("ann's");
        let parsed = document_of::<Notes>(&found).expect("parsed");
        assert_eq!(parsed.as_deref(), Some(&notes));

        let gone = store.delete_bucket_document::<Notes>(&rig.ann, &first);
        gone.await.expect("removed");
        let get = store.get_bucket_document::<Notes>(&rig.ann, &first);
        assert_eq!(get.await.expect("none"), None);
    });
}

#[test]
fn formats_are_told_apart() {
    let notes = Notes { text: "a".into() };
    let bytes = notes.to_bytes();
    assert_eq!(bytes[0], 2);
    let older = [&[1], &bytes[1..]].concat();
    assert_eq!(Notes::from_bytes(&older).expect("older"), notes);
    let kind = |bytes: &[u8]| Notes::from_bytes(bytes).expect_err("broken").kind();
    assert_eq!(kind(&[&[3], &bytes[1..]].concat()), ErrorKind::Unsupported);
    assert_eq!(kind(&[2, 0xff]), ErrorKind::Corrupt);
    assert_eq!(kind(&[]), ErrorKind::Corrupt);
}
