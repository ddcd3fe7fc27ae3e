//! Records whose change failed and may happen yet.

use std::sync::Arc;

use super::{Rig, content, get, run};

#[test]
fn a_record_that_may_change_unseen_is_read_anew_and_its_files_stay() {
    run(async {
        let rig = Rig::new(1).await;
        rig.put("large", &content(300_000, 1)).await.expect("put");
        let table = &rig.store.inner.table;
        let version = rig.found("large").await;
        let blob = version.copies[0].extents[0].blob;
        let record = async || table.record(blob).await.expect("named");
        assert!(Arc::ptr_eq(&record().await, &record().await), "remembered");
        assert!(table.is_decided(blob) && !table.is_needed(blob));

        table.leave_open(blob);
        assert!(!table.is_decided(blob) && table.is_needed(blob));
        assert!(!Arc::ptr_eq(&record().await, &record().await), "read anew");

        // Reads take everything into account that this catalog has.
        assert_eq!(table.newly_decided().await.expect("read"), [blob]);
        assert!(table.is_decided(blob) && !table.is_needed(blob));
        assert!(Arc::ptr_eq(&record().await, &record().await), "remembered");
    });
}

#[test]
fn files_of_what_is_being_read_are_needed() {
    run(async {
        let rig = Rig::new(1).await;
        rig.put("large", &content(300_000, 1)).await.expect("put");
        let blob = rig.found("large").await.copies[0].extents[0].blob;
        let table = &rig.store.inner.table;
        let request = get("large");
        let reader = rig.store.get(&rig.ann, request).await.expect("opened");
        assert!(table.is_needed(blob));
        drop(reader);
        assert!(!table.is_needed(blob));
    });
}
