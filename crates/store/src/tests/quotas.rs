//! Directories that are limited and not counted yet when the process ends.

use std::time::Duration;

use dewar_meta::ns::record::Scope;
use dewar_meta::ns::{Actor, Quota, RenameOptions};
use dewar_types::{BlobId, ObjectKey, TenantName, UserId};

use super::{Rig, bucket, content, run};
use crate::workers::Workers;

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
        let tenant = tree.tenant(&TenantName::default()).await.expect("read");
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
        let scope = Scope::Space(marked.expect("marked"));
        // As after a start: that anything is limited is known.
        tree.limit(Scope::Bucket(first.id), quota)
            .await
            .expect("limited");
        let (from, to) = (key("above"), key("elsewhere"));
        let options = RenameOptions::default();
        tree.rename_dir(&actor, (&first, &from), (&first, &to), options)
            .await
            .expect("renamed");
        assert_eq!(tree.usage(scope).await.expect("read").bytes, 0);
        rig.workers = Some(Workers::start(&rig.store, BlobId(0)));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let tree = rig.store.tree();
        let usage = tree.usage(scope).await.expect("read");
        assert_eq!((usage.objects, usage.bytes), (2, 1000));
        // It is listed under the name that it has.
        let set = tree.all_quotas().await.expect("read");
        let space = set.iter().find(|set| set.scope == scope).expect("listed");
        assert_eq!(space.place, Some((first.id, key("elsewhere/limited"))));
        rig.settle().await;
    });
}
