//! Digests that are computed when somebody asks.

use std::sync::Arc;

use dewar_auth::token::{BasePath, Capabilities};
use dewar_auth::{Bounds, Caller, Limit, Origin, Principal};
use dewar_checksum::{Algorithm, Digest};
use dewar_types::{ErrorKind, Result};
use futures_util::FutureExt as _;

use super::{Rig, SMALL, content, get, object, put_request, run};
use crate::DigestLimits;
use crate::api::{ObjectInfo, WriteRequest};
use crate::encryption::Encryption;

async fn digest(rig: &Rig, caller: &Caller, key: &str, algorithm: Algorithm) -> Result<Digest> {
    rig.store.digest(caller, &object(key), algorithm).await
}

async fn info(rig: &Rig, key: &str) -> ObjectInfo {
    rig.store.head(&rig.ann, get(key)).await.expect("there").0
}

fn free(rig: &Rig) -> usize {
    rig.store.inner.free_digest_passes()
}

#[test]
fn a_digest_is_computed_once_and_kept_with_the_version() {
    run(async {
        let rig = Rig::new(50).await;
        let sizes = [0, 1, SMALL as usize + 1, 3_000_000];
        for (len, how) in sizes.map(|len| (len, None)).into_iter().chain([
            (500, Some(Encryption::Dewar)),
            (100_000, Some(Encryption::Dewar)),
        ]) {
            let bytes = content(len, 3);
            let request = WriteRequest {
                encryption: how,
                ..put_request("key")
            };
            rig.put_as(request, &bytes).await.expect("put");
            let before = info(&rig, "key").await;
            assert_eq!(before.digests.crc32(), None);
            let found = digest(&rig, &rig.ann, "key", Algorithm::Crc32).await;
            let expected = dewar_checksum::crc32(&bytes);
            assert_eq!(found.expect("computed").as_bytes(), expected.to_be_bytes());
            let after = info(&rig, "key").await;
            assert_eq!(after.digests, before.digests.with_crc32(expected));
            assert_eq!(
                (after.version, after.modified),
                (before.version, before.modified)
            );
            assert_eq!((after.etag, after.checksum), (before.etag, before.checksum));
            // Another one leaves the first.
            let found = digest(&rig, &rig.ann, "key", Algorithm::PosixCksum).await;
            let cksum = after.digests.with_posix_cksum({
                let found = found.expect("computed");
                u32::from_be_bytes(found.as_bytes().try_into().expect("four bytes"))
            });
            assert_eq!(info(&rig, "key").await.digests, cksum);
            assert_eq!(rig.get("key").await.expect("read"), bytes);
        }
        let limits = DigestLimits::default();
        assert_eq!(free(&rig), limits.running_max);
    });
}

#[test]
fn a_version_has_one_reader_and_none_when_nobody_waits() {
    run(async {
        let rig = Rig::new(51).await;
        let all = DigestLimits::default().running_max;
        let bytes = content(3_000_000, 1);
        rig.put("key", &bytes).await.expect("put");
        let mut waiting: Vec<_> = (0..5)
            .map(|_| Box::pin(digest(&rig, &rig.ann, "key", Algorithm::Sha256)))
            .collect();
        // All of them are under way before one is done.
        while waiting
            .iter_mut()
            .all(|waits| waits.now_or_never().is_none())
            && free(&rig) == all
        {
            tokio::task::yield_now().await;
        }
        for waits in &mut waiting {
            assert!(waits.now_or_never().is_none());
        }
        assert_eq!(free(&rig), all - 1);
        // Whoever began it may go.
        drop(waiting.remove(0));
        assert_eq!(free(&rig), all - 1);
        let last = waiting.pop().expect("four are left");
        drop(waiting);
        last.await.expect("computed");
        assert_eq!(free(&rig), all);

        let mut waits = Box::pin(digest(&rig, &rig.ann, "key", Algorithm::Sha1));
        while free(&rig) == all {
            assert!((&mut waits).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(waits);
        assert_eq!(free(&rig), all);
        assert_eq!(info(&rig, "key").await.digests.sha1(), None);
    });
}

#[test]
fn a_user_takes_half_of_the_passes_and_leaves_some_to_others() {
    run(async {
        let rig = Rig::new(52).await;
        let all = DigestLimits::default().running_max;
        let mut waiting = Vec::new();
        for number in 0..=all / 2 {
            let key = format!("key{number}");
            rig.put(&key, &content(3_000_000, 1)).await.expect("put");
            let store = rig.store.clone();
            let (ann, object) = (rig.ann.clone(), object(&key));
            waiting.push(Box::pin(async move {
                store.digest(&ann, &object, Algorithm::Sha1).await
            }));
        }
        let mut last = waiting.pop().expect("one more");
        while free(&rig) > all - all / 2 {
            for waits in &mut waiting {
                assert!(waits.now_or_never().is_none());
            }
            tokio::task::yield_now().await;
        }
        let refused = (&mut last).await.expect_err("too many");
        assert!(matches!(refused.kind(), ErrorKind::Busy(_)), "{refused}");
        drop(waiting);
        assert_eq!(free(&rig), all);
    });
}

#[test]
fn who_may_not_look_has_nothing_computed() {
    run(async {
        let rig = Rig::new(53).await;
        rig.put("key", &content(100_000, 1)).await.expect("put");
        let refused = digest(&rig, &rig.bob, "key", Algorithm::Sha1).await;
        assert_eq!(refused.expect_err("not his").kind(), ErrorKind::Denied);
        let missing = digest(&rig, &rig.ann, "none", Algorithm::Sha1).await;
        assert_eq!(missing.expect_err("none").kind(), ErrorKind::NotFound);
        rig.recall_is_needed("key").await;
        let nearline = digest(&rig, &rig.ann, "key", Algorithm::Sha1).await;
        let later = nearline.expect_err("nearline").kind();
        assert!(matches!(later, ErrorKind::Later(_)), "{later:?}");
        // What is stored needs no reading.
        digest(&rig, &rig.ann, "key", Algorithm::Adler32)
            .await
            .expect("stored");
    });
}

/// A token that lets its bearer write a path lets it stat the path, and not read it. Such a caller gets the
/// digests that are stored, and neither begins a pass over the content nor joins one.
#[test]
fn who_may_only_stat_gets_stored_digests_and_has_none_computed() {
    run(async {
        let rig = Rig::new(54).await;
        let all = DigestLimits::default().running_max;
        rig.put("key", &content(3_000_000, 1)).await.expect("put");
        let Principal::User(ann) = rig.ann.principal() else {
            panic!("ann is a user");
        };
        let limited = |scope: &str| {
            let base = BasePath::parse("/").expect("a base");
            let parsed = Capabilities::parse(scope, &base, false).expect("scopes");
            let bounds = Bounds {
                limits: vec![Limit::Capabilities(Arc::new(parsed.expect("some")))],
                ..Bounds::default()
            };
            let origin = Origin {
                address: None,
                secure: true,
            };
            Caller::by_token(Arc::clone(ann), Arc::new(bounds), origin)
        };
        let (looks, reads) = (
            limited("storage.create:/first/key"),
            limited("storage.read:/first/key"),
        );
        let head = rig.store.stat(&looks, &object("key")).await;
        head.expect("it may look");
        digest(&rig, &looks, "key", Algorithm::Adler32)
            .await
            .expect("stored");
        let refused = digest(&rig, &looks, "key", Algorithm::Sha1).await;
        assert_eq!(refused.expect_err("to read").kind(), ErrorKind::Denied);
        assert_eq!(free(&rig), all);
        assert_eq!(info(&rig, "key").await.digests.sha1(), None);
        // Nor does it get what a pass computes for another.
        let mut waits = Box::pin(digest(&rig, &reads, "key", Algorithm::Sha1));
        while free(&rig) == all {
            assert!((&mut waits).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        let refused = digest(&rig, &looks, "key", Algorithm::Sha1).await;
        assert_eq!(refused.expect_err("to read").kind(), ErrorKind::Denied);
        assert_eq!(free(&rig), all - 1);
        waits.await.expect("it may read");
        // It is stored by now.
        digest(&rig, &looks, "key", Algorithm::Sha1)
            .await
            .expect("stored");
    });
}
