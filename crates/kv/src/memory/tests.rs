use std::sync::Arc;

use super::MemoryKv;
use crate::contract::bytes;
use crate::{Batch, Kv};

crate::kv_contract!(async { Arc::new(MemoryKv::new()) as Arc<dyn Kv> });

fn put(value: &str) -> Batch {
    Batch {
        puts: vec![(bytes("k"), bytes(value))],
        ..Batch::default()
    }
}

#[tokio::test]
async fn old_versions_go_when_no_snapshot_sees_them() {
    let kv = MemoryKv::new();
    for i in 0..100 {
        kv.commit(put(&format!("{i}"))).await.expect("commit");
    }
    assert_eq!(kv.versions(), 1);
    let view = kv.snapshot();
    for i in 0..100 {
        kv.commit(put(&format!("{i}"))).await.expect("commit");
    }
    assert_eq!(kv.versions(), 101);
    drop(view);
    assert_eq!(kv.versions(), 1);
    let delete = Batch {
        deletes: vec![bytes("k"), bytes("other")],
        ..Batch::default()
    };
    kv.commit(delete).await.expect("commit");
    assert_eq!(kv.versions(), 0, "nothing stays of a deleted key");
}
