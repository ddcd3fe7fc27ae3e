//! What the disks say of blobs without a catalog.

use dewar_env::Disk as _;

use super::*;
use crate::blob::shelf_of;

async fn found(store: &BlobStore, id: u64) -> Vec<crate::blob::ScannedShard> {
    let shelf = store.shelf(&shelf_of(BlobId(id))).await;
    assert_eq!((shelf.unread.len(), shelf.foreign), (0, 0));
    shelf.blobs.get(&BlobId(id)).cloned().unwrap_or_default()
}

#[test]
fn a_blob_is_put_together_from_what_counts() {
    run(async {
        let world = SimWorld::with_disks(1, 7);
        let store = store(&world, layout(4, 2));
        let bytes = content(300_000, 1);
        let record = write(&store, 5_000, &bytes, 9_000).await.expect("written");
        write(&store, 5, &bytes, 9_000).await.expect("written");
        let (shelves, unread) = store.shelves().await;
        assert_eq!(unread, [""; 0]);
        let names: Vec<&str> = shelves.iter().map(|name| &name[..]).collect();
        assert_eq!(names, ["0000-000000000", "0000-000000001"]);
        let shards = found(&store, 5_000).await;
        assert_eq!(shards.len(), 6);
        assert_eq!(store.files_of(&record).await, 6);
        let whole = store.assemble(BlobId(5_000), &shards).await.expect("whole");
        assert_eq!(
            whole.record,
            BlobRecord {
                written: None,
                ..record.clone()
            }
        );
        assert_eq!(
            (whole.kind, &whole.owner[..]),
            (ShardKind::Object, &b"a test"[..])
        );

        // One shard is lost, one has a torn header.
        let path = |shard: usize| record.shard_path(shard);
        let disk = |shard: usize| world.disk(record.disks[shard].0 as usize - 1);
        assert!(disk(1).lose_file(&path(1)));
        assert!(disk(4).flip_bit(&path(4), 77, 1));
        let shards = found(&store, 5_000).await;
        let partly = store
            .assemble(BlobId(5_000), &shards)
            .await
            .expect("enough");
        assert_eq!(partly.record.missing, [1, 4]);
        let read_back = read(&store, &partly.record, ByteRange::whole(300_000)).await;
        assert!(read_back.expect("readable") == bytes);

        // A file of another disk, copied here, is none.
        let copy = disk(0).peek(&path(0)).expect("there");
        let stray = (0..7)
            .find(|n| !record.disks.contains(&DiskId(n + 1)))
            .expect("seven disks");
        let made = world
            .disk(stray as usize)
            .create_whole(&path(0), vec![(0, vec![copy])])
            .await;
        made.expect("written");
        assert!(disk(0).lose_file(&path(0)));
        let shards = found(&store, 5_000).await;
        let error = store.assemble(BlobId(5_000), &shards).await;
        let error = error.expect_err("three are left");
        assert!(error.to_string().contains("3 of the 4"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    });
}
