//! Only owners get in: every verb refuses a stranger and nobody, and changes nothing.

use dewar_auth::{Caller, CredentialStore};
use dewar_types::{ErrorKind, Result, UploadId};

use super::{Rig, bucket, content, get, object, origin, put_request, run};
use crate::api::{
    AttributesRequest, CompleteRequest, CopyRequest, CreateUploadRequest, DeleteItem,
    DeleteRequest, Emptiness, Hierarchy, ListPartsRequest, ListRequest, ListUploadsRequest,
    ListVersionsRequest, ObjectLock, Overwrite, PartSource, ReadCondition, RenameNodeRequest,
    RenameRequest, Tags, UploadPartRequest, VersionAttributes, Versioning, WriteCondition,
    WriteMode, WriteRequest,
};
use crate::file::{CopyTreeRequest, LockRequest, LockToken, MakeDirRequest, ReadDirRequest};
use crate::limits::LOCK_TIME_MAX;

/// The verbs of objects.
#[allow(clippy::too_many_lines, reason = "a list of all verbs")]
async fn every_verb(rig: &Rig, who: &Caller, upload: UploadId) -> Vec<(&'static str, Result<()>)> {
    let store = &rig.store;
    let part = || UploadPartRequest {
        customer_key: None,
        object: object("key"),
        upload,
        number: 1,
        size: None,
        want: dewar_checksum::AlgorithmSet::EMPTY,
        checksum: None,
    };
    let source = PartSource {
        customer_key: None,
        version: None,
        object: object("key"),
        range: None,
        condition: ReadCondition::default(),
    };
    let copy = CopyRequest {
        hierarchy: Hierarchy::Flat,
        encryption: None,
        source_key: None,
        source_version: None,
        attributes: VersionAttributes::default(),
        source: object("key"),
        source_condition: ReadCondition::default(),
        target: object("copy"),
        replace_headers: false,
        checksum: None,
        condition: WriteCondition::default(),
        acl: None,
    };
    let rename = RenameRequest {
        source: object("key"),
        source_condition: WriteCondition::default(),
        target: object("moved").key,
        condition: WriteCondition::default(),
    };
    let create = CreateUploadRequest {
        encryption: None,
        attributes: VersionAttributes::default(),
        object: object("key"),
        checksum: None,
        composite: false,
        acl: None,
    };
    let complete = CompleteRequest {
        customer_key: None,
        object: object("key"),
        upload,
        parts: Vec::new(),
        size: None,
        checksum: None,
        condition: WriteCondition::default(),
    };
    let delete = DeleteRequest {
        version: None,
        bypass: false,
        object: object("key"),
        condition: WriteCondition::default(),
    };
    let list = ListRequest {
        bucket: bucket("first"),
        prefix: String::new(),
        delimiter: String::new(),
        after: String::new(),
        max: 0,
    };
    let list_parts = ListPartsRequest {
        object: object("key"),
        upload,
        customer_key: None,
        after: 0,
        max: 10,
    };
    let list_uploads = ListUploadsRequest {
        bucket: bucket("first"),
        prefix: String::new(),
        delimiter: String::new(),
        after_key: String::new(),
        after_upload: None,
        max: 0,
    };
    let list_versions = ListVersionsRequest {
        bucket: bucket("first"),
        prefix: String::new(),
        delimiter: String::new(),
        after: String::new(),
        after_version: None,
        max: 0,
    };
    let attributes = AttributesRequest {
        customer_key: None,
        object: object("key"),
        version: None,
        after: 0,
        max: 10,
    };
    let key = object("key");
    let first = bucket("first");
    let many = vec![DeleteItem {
        key: object("key").key,
        version: None,
        condition: WriteCondition::default(),
    }];
    vec![
        (
            "head_bucket",
            store.head_bucket(who, &first).await.map(drop),
        ),
        (
            "delete_bucket",
            store.delete_bucket(who, &first, Emptiness::Bare).await,
        ),
        ("put", store.write(who, put_request("key")).await.map(drop)),
        ("get", store.get(who, get("key")).await.map(drop)),
        ("get of none", store.get(who, get("none")).await.map(drop)),
        ("head", store.head(who, get("key")).await.map(drop)),
        ("list", store.list(who, list).await.map(drop)),
        ("delete", store.delete(who, delete).await.map(drop)),
        (
            "delete_many",
            match store.delete_many(who, &first, many, false).await {
                Ok(mut each) => each.remove(0).map(drop),
                Err(error) => Err(error),
            },
        ),
        ("copy", store.copy(who, copy).await.map(drop)),
        ("rename", store.rename(who, rename).await),
        (
            "create_upload",
            store.create_upload(who, create).await.map(drop),
        ),
        (
            "upload_part",
            store.upload_part(who, part()).await.map(drop),
        ),
        (
            "upload_part_copy",
            store.upload_part_copy(who, part(), source).await.map(drop),
        ),
        (
            "complete_upload",
            store.complete_upload(who, complete).await.map(drop),
        ),
        (
            "abort_upload",
            store.abort_upload(who, object("key"), upload).await,
        ),
        (
            "list_parts",
            store.list_parts(who, list_parts).await.map(drop),
        ),
        (
            "list_uploads",
            store.list_uploads(who, list_uploads).await.map(drop),
        ),
        (
            "list_versions",
            store.list_versions(who, list_versions).await.map(drop),
        ),
        (
            "get_versioning",
            store.get_versioning(who, &first).await.map(drop),
        ),
        (
            "set_versioning",
            store
                .set_versioning(who, &first, Versioning::Suspended)
                .await,
        ),
        (
            "get_object_lock",
            store.get_object_lock(who, &first).await.map(drop),
        ),
        (
            "set_object_lock",
            store
                .set_object_lock(who, &first, ObjectLock::default())
                .await,
        ),
        (
            "attributes",
            store.attributes(who, attributes).await.map(drop),
        ),
        ("get_tags", store.get_tags(who, &key, None).await.map(drop)),
        (
            "set_tags",
            store.set_tags(who, &key, None, Tags::new()).await.map(drop),
        ),
        (
            "delete_tags",
            store.delete_tags(who, &key, None).await.map(drop),
        ),
        (
            "get_retention",
            store.get_retention(who, &key, None).await.map(drop),
        ),
        (
            "set_retention",
            store.set_retention(who, &key, None, None, true).await,
        ),
        (
            "get_legal_hold",
            store.get_legal_hold(who, &key, None).await.map(drop),
        ),
        (
            "set_legal_hold",
            store.set_legal_hold(who, &key, None, true).await,
        ),
    ]
}

/// The verbs of files and directories.
async fn every_file_verb(rig: &Rig, who: &Caller) -> Vec<(&'static str, Result<()>)> {
    let store = &rig.store;
    let rename_node = RenameNodeRequest {
        source: object("key"),
        target: object("moved"),
        overwrite: Overwrite::Files,
    };
    let over_directory = RenameNodeRequest {
        source: object("key"),
        target: object("tree"),
        overwrite: Overwrite::Everything,
    };
    let make_dir = MakeDirRequest {
        directory: object("made"),
        mode: 0o755,
        parents: false,
        existing: true,
    };
    let lock = LockRequest {
        resource: object("tree"),
        shared: false,
        deep: true,
        owner: String::new(),
        time: LOCK_TIME_MAX,
    };
    let token = LockToken(1);
    let copy_tree = CopyTreeRequest {
        source: object("tree"),
        target: object("copy"),
        overwrite: true,
    };
    let read_dir = ReadDirRequest {
        bucket: bucket("first"),
        directory: "tree".to_owned(),
        after: None,
        max: 10,
    };
    let write = WriteRequest::file(object("key"), WriteMode::Replace);
    let key = object("key");
    let tree = object("tree");
    vec![
        ("stat", store.stat(who, &key).await.map(drop)),
        ("read_dir", store.read_dir(who, read_dir).await.map(drop)),
        ("make_dir", store.make_dir(who, make_dir).await),
        ("remove_file", store.remove_file(who, &key).await),
        (
            "remove_file of none",
            store.remove_file(who, &object("none")).await,
        ),
        (
            "remove_file of a directory",
            store.remove_file(who, &tree).await,
        ),
        ("remove_dir", store.remove_dir(who, &tree).await),
        ("remove_tree", store.remove_tree(who, &tree).await.map(drop)),
        (
            "copy_tree",
            store.copy_tree(who, copy_tree.clone()).await.map(drop),
        ),
        ("move_tree", store.move_tree(who, copy_tree).await.map(drop)),
        (
            "move_file",
            store
                .move_file(who, key.clone(), object("moved"), true)
                .await,
        ),
        (
            "rename_node over a directory",
            store.rename_node(who, over_directory).await,
        ),
        ("lock", store.lock(who, lock).await.map(drop)),
        (
            "extend_lock",
            store
                .extend_lock(who, &tree, token, LOCK_TIME_MAX)
                .await
                .map(drop),
        ),
        ("unlock", store.unlock(who, &tree, token).await),
        ("remove_locks", store.remove_locks(who, &tree).await),
        (
            "copy_dir",
            store.copy_dir(who, &tree, &object("copied")).await,
        ),
        ("rename_node", store.rename_node(who, rename_node).await),
        (
            "write_file",
            store.write(who, write.clone()).await.map(drop),
        ),
        ("authorize_write", store.authorize_write(who, &write).await),
        (
            "open_file",
            store.open_file(who, get("key")).await.map(drop),
        ),
    ]
}

#[test]
fn every_verb_refuses_strangers_and_nobody() {
    run(async {
        let rig = Rig::new(1).await;
        rig.put("key", &content(100, 1)).await.expect("put");
        rig.put("tree/key", &content(100, 1)).await.expect("put");
        let create = CreateUploadRequest {
            encryption: None,
            attributes: VersionAttributes::default(),
            object: object("key"),
            checksum: None,
            composite: false,
            acl: None,
        };
        let upload = rig
            .store
            .create_upload(&rig.ann, create)
            .await
            .expect("begun")
            .id;
        for who in [rig.bob.clone(), Caller::anonymous(origin())] {
            let mut results = Box::pin(every_verb(&rig, &who, upload)).await;
            results.extend(Box::pin(every_file_verb(&rig, &who)).await);
            for (verb, result) in results {
                let error = result.map(|()| format!("{who} may {verb}"));
                assert_eq!(
                    error.expect_err("refused").kind(),
                    ErrorKind::Denied,
                    "{verb}"
                );
            }
        }
        let nobody = Caller::anonymous(origin());
        let made = rig.store.create_bucket(&nobody, &bucket("mine")).await;
        assert_eq!(made.expect_err("refused").kind(), ErrorKind::Denied);
        let listed = rig.store.list_buckets(&nobody, None, 10).await;
        assert!(listed.expect("empty").buckets.is_empty());
        // Nobody learns which buckets there are.
        let gone = rig.store.head_bucket(&nobody, &bucket("none")).await;
        assert_eq!(gone.expect_err("refused").kind(), ErrorKind::Denied);
        let gone = rig.store.head_bucket(&rig.bob, &bucket("none")).await;
        let error = gone.expect_err("a user of the tenant may know");
        assert_eq!(error.kind(), ErrorKind::NoSuchBucket);
        let bobs = rig
            .store
            .list_buckets(&rig.bob, None, 10)
            .await
            .expect("own");
        assert!(bobs.buckets.is_empty());
        let taken = rig.store.create_bucket(&rig.bob, &bucket("first")).await;
        assert_eq!(taken.expect_err("taken").kind(), ErrorKind::AlreadyExists);
        // From somebody's bucket into one's own is reading somebody's.
        rig.store
            .create_bucket(&rig.bob, &bucket("bobs"))
            .await
            .expect("made");
        let mut target = object("copy");
        target.bucket = bucket("bobs");
        let steal = CopyRequest {
            hierarchy: Hierarchy::Flat,
            encryption: None,
            source_key: None,
            source_version: None,
            attributes: VersionAttributes::default(),
            source: object("key"),
            source_condition: ReadCondition::default(),
            target,
            replace_headers: false,
            checksum: None,
            condition: WriteCondition::default(),
            acl: None,
        };
        let stolen = rig.store.copy(&rig.bob, steal).await;
        assert_eq!(stolen.expect_err("refused").kind(), ErrorKind::Denied);
        assert_eq!(rig.keys().await, ["key", "tree/key"]);
        rig.store
            .abort_upload(&rig.ann, object("key"), upload)
            .await
            .expect("aborted");
        for key in ["key", "tree/key"] {
            rig.delete(key).await.expect("deleted");
        }
        rig.assert_empty().await;
    });
}

#[test]
fn a_file_is_not_renamed_out_of_a_deny_to_read_it() {
    run(async {
        let rig = Rig::new(3).await;
        for key in ["secret/x", "tagged", "open"] {
            rig.put(key, &content(100, 1)).await.expect("put");
        }
        let tags = Tags::from([("class".to_owned(), "secret".to_owned())]);
        let tagged = object("tagged");
        let set = rig.store.set_tags(&rig.ann, &tagged, None, tags).await;
        set.expect("tagged");
        let policy = r#"{"Version":"2012-10-17","Statement":[
            {"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::first","arn:aws:s3:::first/*"]},
            {"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::first/secret/*"},
            {"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::first/*",
             "Condition":{"StringEquals":{"s3:ExistingObjectTag/class":"secret"}}}]}"#;
        let put = rig
            .store
            .put_bucket_policy(&rig.ann, &bucket("first"), policy, false)
            .await;
        put.expect("put");
        let rename = async |from: &str, to: &str| {
            let request = RenameRequest {
                source: object(from),
                source_condition: WriteCondition::default(),
                target: object(to).key,
                condition: WriteCondition::default(),
            };
            let renamed = rig.store.rename(&rig.bob, request).await;
            renamed.err().map(|error| error.kind())
        };
        assert_eq!(rename("secret/x", "x").await, Some(ErrorKind::Denied));
        assert_eq!(rename("tagged", "y").await, Some(ErrorKind::Denied));
        assert_eq!(rename("none", "z").await, Some(ErrorKind::NotFound));
        assert_eq!(rename("open", "secret/y").await, None);
        assert_eq!(rig.keys().await, ["secret/x", "secret/y", "tagged"]);
    });
}

#[test]
fn what_is_switched_off_is_no_key() {
    run(async {
        let rig = Rig::new(2).await;
        let accounts = rig.store.accounts();
        let (key, secret) = accounts.add_key("bob", None, None).await.expect("added");
        let found = rig
            .store
            .accounts()
            .access_key(&key)
            .await
            .expect("read")
            .expect("valid");
        assert_eq!(found.secret.reveal(), secret.reveal());
        accounts.set_key_disabled(&key, true).await.expect("off");
        assert!(accounts.access_key(&key).await.expect("read").is_none());
        accounts.set_key_disabled(&key, false).await.expect("on");
        assert!(accounts.access_key(&key).await.expect("read").is_some());
        accounts.set_user_disabled("bob", true).await.expect("off");
        assert!(accounts.access_key(&key).await.expect("read").is_none());
        accounts.remove_user("bob").await.expect("removed");
        assert!(accounts.access_key(&key).await.expect("read").is_none());
        assert!(
            accounts
                .access_keys(Some("bob"))
                .await
                .expect("listed")
                .is_empty()
        );
    });
}

/// A list is put back as it was read, also where somebody in it is gone meanwhile.
#[test]
fn lists_with_somebody_who_is_gone_can_be_put_back() {
    run(async {
        use dewar_auth::{Grantee, Permission};

        use crate::api::{GranteeName, NewAcl};

        let rig = Rig::new(3).await;
        rig.put("key", &content(100, 1)).await.expect("put");
        let (key, first) = (object("key"), bucket("first"));
        let bob = GranteeName::Id(rig.bob.account().to_string());
        let ann = GranteeName::Id(rig.ann.account().to_string());
        let wish = NewAcl::Grants(vec![
            (ann, Permission::FullControl),
            (bob, Permission::Read),
        ]);
        let store = &rig.store;
        let put = store.put_object_acl(&rig.ann, &key, None, &wish).await;
        put.expect("granted");
        let put = store.put_bucket_acl(&rig.ann, &first, &wish).await;
        put.expect("granted");
        let gone = store.accounts().remove_user("bob").await;
        gone.expect("removed");
        let shown = store.object_acl(&rig.ann, &key, None).await.expect("shown");
        let again = store.put_object_acl(&rig.ann, &key, None, &wish).await;
        again.expect("put back");
        let after = store.object_acl(&rig.ann, &key, None).await.expect("shown");
        assert_eq!(after.acl, shown.acl);
        let theirs = Grantee::User(rig.bob.account());
        assert!(after.acl.grants.iter().any(|grant| grant.grantee == theirs));
        let again = store.put_bucket_acl(&rig.ann, &first, &wish).await;
        again.expect("put back");
        // Who was not in it does not come in.
        rig.put("other", &content(100, 1)).await.expect("put");
        let other = object("other");
        let put = store.put_object_acl(&rig.ann, &other, None, &wish).await;
        assert_eq!(put.expect_err("refused").kind(), ErrorKind::InvalidArgument);
    });
}
