//! The master key replaced while the store serves: everything stays readable, is wrapped anew, and
//! the old key is needed until then and not after.

use dewar_auth::{MasterKeyId, Secret};

use dewar_auth::CredentialStore as _;
use dewar_checksum::{Algorithm, AlgorithmSet};

use super::*;
use crate::api::{
    CompletePart, CompleteRequest, CreateUploadRequest, ExpectedContent, RenameRequest,
    UploadPartRequest, VersionAttributes, Versioning, WriteCondition, WriteRequest,
};
use crate::{Encryption, PendingRewraps};

/// As an administrator does it, without the file; the key that was current until now.
async fn rotate(rig: &Rig) -> MasterKeyId {
    let master = rig.store.master_keys();
    let old = master.current();
    let next = master.with_new(&*rig.world.env().rng).expect("room");
    master.take_up(&next);
    rig.store.master_keys_changed().await.expect("noted");
    old
}

async fn needed(rig: &Rig, id: MasterKeyId) -> PendingRewraps {
    rig.store.old_key_needed(id).await.expect("counted")
}

async fn put(rig: &Rig, key: &str, bytes: &Bytes) {
    let request = WriteRequest {
        encryption: Some(Encryption::Dewar),
        ..put_request(key)
    };
    rig.put_as(request, bytes).await.expect("put");
}

fn upload_request() -> CreateUploadRequest {
    CreateUploadRequest {
        object: object("joined"),
        attributes: VersionAttributes::default(),
        encryption: Some(Encryption::Dewar),
        checksum: None,
        composite: false,
        acl: None,
    }
}

#[test]
fn everything_is_wrapped_anew_and_then_nothing_needs_the_old_key() {
    run(async {
        let rig = Rig::new(71).await;
        let accounts = rig.store.accounts();
        let secret = Secret::new("a secret of ann's".to_owned());
        let (key, _) = accounts
            .add_key("ann", None, Some(secret.clone()))
            .await
            .expect("added");
        rig.store
            .set_versioning(&rig.ann, &bucket("first"), Versioning::Enabled)
            .await
            .expect("set");
        let texts: Vec<Bytes> = [0, 3_000, 100_000].map(|len| content(len, 7)).into();
        for bytes in &texts {
            put(&rig, "versions", bytes).await;
            put(&rig, &format!("dir/{}", bytes.len()), bytes).await;
        }
        let plain = content(500, 3);
        rig.put("plain", &plain).await.expect("put");
        let upload = rig.store.create_upload(&rig.ann, upload_request()).await;
        let upload = upload.expect("begun").id;
        let part = UploadPartRequest {
            object: object("joined"),
            upload,
            number: 1,
            size: None,
            want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
            checksum: None,
            customer_key: None,
        };
        let mut written = rig.store.upload_part(&rig.ann, part).await.expect("begun");
        written.write(texts[2].clone()).await.expect("written");
        let etag = written
            .commit(ExpectedContent::default())
            .await
            .expect("kept")
            .etag;
        // It begins under the old key and ends under the new one.
        let slow = WriteRequest {
            encryption: Some(Encryption::Dewar),
            ..put_request("slow")
        };
        let mut slow = rig.store.write(&rig.ann, slow).await.expect("begun");
        slow.write(texts[1].clone()).await.expect("written");

        let old = rotate(&rig).await;
        let found = needed(&rig, old).await;
        let expected = PendingRewraps {
            access_keys: 3,
            versions: 6,
            uploads: 1,
        };
        assert_eq!(found, expected);
        let infos = rig.store.master_key_infos().await.expect("read");
        assert_eq!((infos[0].replaced, infos[0].done), (None, true));
        assert!(infos[1].id == old && infos[1].replaced.is_some() && !infos[1].done);
        rig.settle().await;
        let found = needed(&rig, old).await;
        assert_eq!(found, PendingRewraps::default());
        assert!(rig.store.master_key_infos().await.expect("read")[1].done);
        let alone = rig.store.master_keys().without(old).expect("it is there");
        rig.store.master_keys().take_up(&alone);
        rig.store.master_keys_changed().await.expect("noted");
        // What began under the old key ends without it.
        slow.commit(ExpectedContent::default())
            .await
            .expect("committed");
        assert_eq!(needed(&rig, old).await, PendingRewraps::default());
        let known = rig
            .store
            .accounts()
            .access_key(&key)
            .await
            .expect("read")
            .expect("valid");
        assert_eq!(known.secret, secret);
        for bytes in &texts {
            let got = rig.get(&format!("dir/{}", bytes.len())).await;
            assert_eq!(&got.expect("read"), bytes);
        }
        assert_eq!(rig.get("versions").await.expect("read"), texts[2]);
        assert_eq!(rig.get("slow").await.expect("read"), texts[1]);
        assert_eq!(rig.get("plain").await.expect("read"), plain);
        let request = CompleteRequest {
            object: object("joined"),
            upload,
            parts: vec![CompletePart {
                number: 1,
                etag,
                checksum: None,
            }],
            checksum: None,
            size: None,
            condition: WriteCondition::default(),
            customer_key: None,
        };
        let joined = rig.store.complete_upload(&rig.ann, request).await;
        joined.expect("completed");
        assert_eq!(rig.get("joined").await.expect("read"), texts[2]);
        assert_eq!(rig.store.master_key_infos().await.expect("read").len(), 1);
    });
}

#[test]
fn what_is_written_meanwhile_is_not_lost() {
    run(async {
        let rig = Rig::new(72).await;
        for n in 0..40 {
            put(&rig, &format!("k{n}"), &content(100 + n, n as u64)).await;
        }
        let old = rotate(&rig).await;
        for n in 0..40 {
            put(&rig, &format!("k{n}"), &content(200 + n, n as u64)).await;
            if n % 3 == 0 {
                let request = RenameRequest {
                    source: object(&format!("k{n}")),
                    source_condition: WriteCondition::default(),
                    target: ObjectKey::new(&format!("moved/{n}")).expect("valid"),
                    condition: WriteCondition::default(),
                };
                rig.store.rename(&rig.ann, request).await.expect("renamed");
            }
        }
        rig.settle().await;
        assert_eq!(needed(&rig, old).await, PendingRewraps::default());
        for n in 0..40 {
            let key = match n % 3 {
                0 => format!("moved/{n}"),
                _ => format!("k{n}"),
            };
            assert_eq!(
                rig.get(&key).await.expect("read"),
                content(200 + n, n as u64)
            );
        }
    });
}
