//! Directories that are limited and not counted yet when the process ends.

use std::time::Duration;

use dewar_catalog::record::CounterScope;
use dewar_catalog::{Actor, Quota};
use dewar_namespace::RenameOptions;
use dewar_types::{BlobId, ErrorKind, GroupId, ObjectKey, TenantName, UserId};

use super::{Rig, bucket, content, object, run};
use crate::api::{ExpectedContent, RenameRequest, WriteCondition, WriteMode, WriteRequest};
use crate::quota::QuotaTarget;

#[test]
fn a_directory_that_was_renamed_before_it_was_counted_is_found_and_counted() {
    run(async {
        let mut rig = Rig::new(21).await;
        rig.put("above/limited/a", &content(700, 1))
            .await
            .expect("put");
        rig.put("above/limited/b", &content(300, 2))
            .await
            .expect("put");
        rig.workers.take().expect("running").stop().await;
        let tree = rig.store.tree();
        let tenant = tree
            .catalog()
            .tenant(&TenantName::default())
            .await
            .expect("read");
        let tenant = tenant.expect("there");
        let name = bucket("first").name;
        let first = tree.bucket(&tenant, &name).await.expect("read");
        let first = first.expect("there");
        let actor = Actor {
            user: UserId(10),
            principal: "ann",
        };
        let key = |path: &str| ObjectKey::new(path).expect("valid");
        let quota = Quota {
            max_bytes: Some(5000),
            ..Quota::default()
        };
        // The process ends before it counts, and the directory above is renamed.
        let place = key("above/limited");
        let marked = tree.mark_space(&actor, &first, &place, quota).await;
        let scope = CounterScope::Space(marked.expect("marked"));
        // As after a start: that anything is limited is known.
        tree.limit(CounterScope::Bucket(first.id), quota)
            .await
            .expect("limited");
        let (from, to) = (key("above"), key("elsewhere"));
        let options = RenameOptions::default();
        tree.rename_dir(&actor, (&first, &from), (&first, &to), options)
            .await
            .expect("renamed");
        assert_eq!(tree.catalog().usage(scope).await.expect("read").bytes, 0);
        rig.workers = Some(crate::workers::start(&rig.store, BlobId(0)));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let tree = rig.store.tree();
        let usage = tree.catalog().usage(scope).await.expect("read");
        assert_eq!((usage.objects, usage.bytes), (2, 1000));
        // It is listed under the name that it has.
        let set = tree.catalog().all_quotas().await.expect("read");
        let space = set.iter().find(|set| set.scope == scope).expect("listed");
        assert_eq!(space.place, Some((first.id, key("elsewhere/limited"))));
        rig.settle().await;
    });
}

fn directory(path: &str) -> QuotaTarget {
    QuotaTarget::Directory(bucket("first"), ObjectKey::new(path).expect("valid"))
}

async fn charged(rig: &Rig, path: &str) -> Option<(Option<String>, String)> {
    let found = rig.store.charged_group(&directory(path)).await;
    found.expect("told").map(|found| (found.name, found.by))
}

#[test]
fn a_group_that_is_charged_stays_and_one_that_goes_leaves_its_places_to_nobody() {
    run(async {
        let rig = Rig::new(22).await;
        let (store, none) = (&rig.store, TenantName::default());
        let accounts = store.accounts();
        let make = || accounts.make_group(&none, "muons", "/");
        let first = GroupId(make().await.expect("made").id);
        rig.put("m/before", &content(10, 1)).await.expect("put");
        assert_eq!(charged(&rig, "m/x").await, None);
        let given = store.set_group(&directory("m"), Some("muons")).await;
        given.expect("given");
        let muons = Some((Some("muons".to_owned()), "/first/m".to_owned()));
        assert_eq!(charged(&rig, "m").await, muons);
        assert_eq!(charged(&rig, "m/deep/er/file").await, muons);
        assert_eq!(charged(&rig, "n").await, None);
        rig.put("m/a", &content(700, 1)).await.expect("put");
        let error = accounts.remove_group(&none, "muons").await;
        let error = error.expect_err("it is charged");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("1 objects"), "{error}");
        rig.delete("m/a").await.expect("deleted");
        accounts
            .remove_group(&none, "muons")
            .await
            .expect("removed");
        // Its place is taken as one of nobody that can be seen, and whoever is called so later is another.
        let removed = Some((None, "/first/m".to_owned()));
        assert_eq!(charged(&rig, "m/x").await, removed);
        rig.put("m/b", &content(300, 1)).await.expect("put");
        let second = GroupId(make().await.expect("made again").id);
        assert_ne!(first, second);
        assert_eq!(charged(&rig, "m/x").await, removed);
        let target = QuotaTarget::Group("muons".to_owned());
        let report = store.quota(&target).await.expect("told");
        assert_eq!((report.usage.objects, report.usage.bytes), (0, 0));
        let given = store.set_group(&directory("m"), Some("muons")).await;
        given.expect("given");
        assert_eq!(charged(&rig, "m/x").await, muons);
        rig.put("m/c", &content(200, 1)).await.expect("put");
        let report = store.quota(&target).await.expect("told");
        assert_eq!((report.usage.objects, report.usage.bytes), (1, 200));
        // A file takes its group along, and what is made for it on the way gets none.
        let request = RenameRequest {
            source: object("m/c"),
            source_condition: WriteCondition::default(),
            target: ObjectKey::new("n/way/c").expect("valid"),
            condition: WriteCondition::default(),
        };
        store.rename(&rig.ann, request).await.expect("renamed");
        assert_eq!(charged(&rig, "n/way/x").await, None);
        let report = store.quota(&target).await.expect("told");
        assert_eq!(report.usage.bytes, 200);
        let audit = store.tree().audit().await.expect("read");
        assert!(audit.faults.is_empty(), "{:?}", audit.faults);
    });
}

/// A writer is charged for all that it puts on disks, however often it writes over the same bytes.
#[test]
fn an_open_writer_is_charged_for_all_that_it_writes() {
    run(async {
        let rig = Rig::new(23).await;
        let limit = Quota {
            max_bytes: Some(8 << 20),
            ..Quota::default()
        };
        let target = QuotaTarget::Bucket(bucket("first"));
        rig.store.set_quota(&target, limit).await.expect("limited");
        let begin = async |key: &str, mode| {
            let write = WriteRequest::file(object(key), mode);
            rig.store.write(&rig.ann, write).await.expect("begun")
        };
        let piece = content(1 << 20, 3);
        let mut open = begin("open", WriteMode::New).await;
        for _ in 0..8 {
            open.write_at(0, piece.clone().into()).await.expect("fits");
        }
        assert_eq!(open.size(), 1 << 20);
        let refused = open.write_at(0, piece.slice(..1).into()).await;
        assert_eq!(refused.expect_err("full").kind(), ErrorKind::Quota);
        let refused = rig.put("other", &piece).await;
        assert_eq!(refused.expect_err("full").kind(), ErrorKind::Quota);
        // What the version does not name is given back with the commit.
        open.commit(ExpectedContent::of_size(None))
            .await
            .expect("committed");
        let usage = rig.store.quota(&target).await.expect("read").usage;
        assert_eq!((usage.objects, usage.bytes), (1, 1 << 20));
        // The version that goes makes room for the one that comes.
        let mut open = begin("open", WriteMode::Replace).await;
        for at in 0..8 {
            open.write_at(at << 20, piece.clone().into())
                .await
                .expect("fits");
        }
        open.commit(ExpectedContent::of_size(None))
            .await
            .expect("committed");
        let refused = rig.put("other", &piece).await;
        assert_eq!(refused.expect_err("full").kind(), ErrorKind::Quota);
        // And what is given up is free at once.
        rig.delete("open").await.expect("deleted");
        let mut open = begin("open", WriteMode::New).await;
        open.write_at(0, piece.clone().into()).await.expect("fits");
        drop(open);
        let whole = content(8 << 20, 4);
        rig.put("other", &whole).await.expect("fits");
    });
}
