//! The contract of every [`Disk`], as tests that run on any implementation.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;

use bytes::Bytes;

use crate::{Access, CreateOptions, Disk, DiskError, DiskErrorKind, DiskState};

const CACHED: CreateOptions = CreateOptions {
    zeroed_bytes: 0,
    direct: false,
};

/// Runs all cases on an empty writable disk; each works in a folder of its own.
///
/// # Panics
/// If the disk breaks the contract of the trait.
pub async fn check(disk: &Arc<dyn Disk>) {
    let disk = &**disk;
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
    bytes(disk).await;
    many_buffers(disk).await;
    sparse(disk).await;
    zeroed(disk).await;
    direct(disk).await;
    whole_files(disk).await;
    names(disk).await;
    renames(disk).await;
    open_files_outlive_their_names(disk).await;
    removed_files_promise_nothing(disk).await;
    small_files(disk).await;
    wrong_paths(disk).await;
    wrong_accesses(disk).await;
    many_at_once(disk).await;
    let space = disk.space().await.unwrap();
    assert!(space.total >= space.available && space.available > 0);
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
    assert!(!disk.label().is_empty());
}

/// Prepares the files that [`check_read_only`] needs, while the disk can be written.
///
/// # Panics
/// If the disk breaks the contract of the trait.
pub async fn prepare_read_only(disk: &dyn Disk) {
    disk.replace_file("kept/a", "hello".into()).await.unwrap();
}

/// Checks the behaviour of a disk that was made read-only, or was so when it was opened. No write
/// has been tried yet, so its state need not show it.
///
/// # Panics
/// If the disk breaks the contract of the trait.
pub async fn check_read_only(disk: &dyn Disk) {
    let refused = DiskErrorKind::Refused;
    assert_eq!(kind(disk.create("new", CACHED).await), refused);
    assert_eq!(disk.state(), DiskState::ReadOnly { returns: 0 });
    assert!(disk.state().readable() && !disk.state().writable());
    assert_eq!(kind(disk.create_whole("new", Vec::new()).await), refused);
    assert_eq!(
        kind(disk.replace_file("kept/a", Bytes::new()).await),
        refused
    );
    assert_eq!(kind(disk.remove("kept/a").await), refused);
    assert_eq!(kind(disk.rename("kept/a", "b").await), refused);
    assert_eq!(kind(disk.sync_dir("kept").await), refused);
    for access in [Access::Read, Access::Write, Access::Direct] {
        let file = disk.open("kept/a", access).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 5);
        if access == Access::Direct {
            assert_eq!(file.read_at(0, 4096).await.unwrap(), "hello");
        } else {
            assert_eq!(file.read_at(1, 4).await.unwrap(), "ello");
        }
        if access != Access::Read {
            let page = || vec![Bytes::from(vec![0; 4096])];
            assert_eq!(kind(file.write_at(0, page()).await), refused);
            assert_eq!(kind(file.write_durable(0, page()).await), refused);
            assert_eq!(kind(file.sync().await), refused);
        }
    }
    assert_eq!(disk.read_file("kept/a").await.unwrap(), "hello");
    assert_eq!(disk.list("kept").await.unwrap().len(), 1);
    assert!(disk.list("new").await.unwrap().is_empty());
    assert_eq!(disk.state(), DiskState::ReadOnly { returns: 0 });
}

/// Checks the same disk when it can be written again and its state shows it.
///
/// # Panics
/// If the disk breaks the contract of the trait.
pub async fn check_writable_again(disk: &dyn Disk) {
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
    disk.replace_file("kept/a", "again".into()).await.unwrap();
    let file = disk.open("kept/a", Access::Write).await.unwrap();
    file.write_durable(0, vec!["A".into()]).await.unwrap();
    assert_eq!(disk.read_file("kept/a").await.unwrap(), "Again");
}

fn kind<T>(result: Result<T, DiskError>) -> DiskErrorKind {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => error.kind(),
    }
}

async fn bytes(disk: &dyn Disk) {
    let file = disk.create("bytes/a", CACHED).await.unwrap();
    assert_eq!(file.len().await.unwrap(), 0);
    assert_eq!(file.read_at(0, 10).await.unwrap(), "");
    let parts = vec!["hello".into(), Bytes::new(), ", world".into()];
    file.write_at(3, parts).await.unwrap();
    assert_eq!(file.len().await.unwrap(), 15);
    assert_eq!(file.read_at(0, 100).await.unwrap(), "\0\0\0hello, world");
    assert_eq!(file.read_at(10, 5).await.unwrap(), "world");
    assert_eq!(file.read_at(15, 5).await.unwrap(), "");
    assert_eq!(file.read_at(1000, 5).await.unwrap(), "");
    file.write_durable(0, vec!["abc".into()]).await.unwrap();
    let pieces = vec![(10, vec!["W".into()]), (20, vec!["x".into(), "y".into()])];
    file.write_pieces(pieces).await.unwrap();
    file.sync().await.unwrap();
    disk.sync_dir("bytes").await.unwrap();
    let read = file.read_pieces(vec![(18, 9), (0, 3), (9, 3), (30, 1)]);
    assert_eq!(read.await.unwrap(), ["\0\0xy", "abc", " Wo", ""]);
    // What is answered at once is the same, if anything is.
    for (offset, len) in [(0, 22), (0, 100), (10, 5), (22, 1), (21, 1)] {
        if let Some(now) = file.read_now(offset, len) {
            assert_eq!(now.unwrap(), file.read_at(offset, len).await.unwrap());
        }
    }
    let again = disk.open("bytes/a", Access::Read).await.unwrap();
    assert_eq!(again.read_at(0, 5).await.unwrap(), "abche");
}

async fn many_buffers(disk: &dyn Disk) {
    let file = disk.create("buffers", CACHED).await.unwrap();
    let buffers: Vec<Bytes> = (0..5000_u32)
        .map(|n| n.to_be_bytes().to_vec().into())
        .collect();
    file.write_at(7, buffers.clone()).await.unwrap();
    assert_eq!(file.read_at(7, 30_000).await.unwrap(), buffers.concat());
    file.write_durable(0, buffers.clone()).await.unwrap();
    assert_eq!(file.read_at(0, 20_000).await.unwrap(), buffers.concat());
    file.write_at(0, Vec::new()).await.unwrap();
    assert_eq!(file.len().await.unwrap(), 20_007);
}

async fn sparse(disk: &dyn Disk) {
    let file = disk.create("sparse", CACHED).await.unwrap();
    file.write_at(3 << 20, vec!["end".into()]).await.unwrap();
    let all = file.read_at(0, 8 << 20).await.unwrap();
    assert_eq!(all.len(), (3 << 20) + 3);
    assert!(all[..3 << 20].iter().all(|b| *b == 0));
}

async fn zeroed(disk: &dyn Disk) {
    let options = CreateOptions {
        zeroed_bytes: (5 << 20) + 1,
        direct: false,
    };
    let file = disk.create("zeroed", options).await.unwrap();
    let all = disk.read_file("zeroed").await.unwrap();
    assert!(all.len() == (5 << 20) + 1 && all.iter().all(|b| *b == 0));
    file.write_durable(4 << 20, vec!["x".into()]).await.unwrap();
    assert_eq!(file.len().await.unwrap(), (5 << 20) + 1);
}

async fn whole_files(disk: &dyn Disk) {
    let pieces = || {
        vec![
            (3, vec!["lo".into(), ", you".into()]),
            (0, vec!["Hel".into()]),
        ]
    };
    disk.create_whole("whole/a/b", pieces()).await.unwrap();
    assert_eq!(disk.read_file("whole/a/b").await.unwrap(), "Hello, you");
    let again = disk.create_whole("whole/a/b", Vec::new()).await;
    assert_eq!(kind(again), DiskErrorKind::Exists);
    assert_eq!(disk.read_file("whole/a/b").await.unwrap(), "Hello, you");
    let wrong = disk.create_whole("whole/../b", pieces()).await;
    assert_eq!(kind(wrong), DiskErrorKind::Invalid);
    let file = disk.create("whole/c", CACHED).await.unwrap();
    file.complete(pieces()).await.unwrap();
    file.complete(vec![(6, vec!["me".into()])]).await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap(), "Hello,meou");
    let read_only = disk.open("whole/c", Access::Read).await.unwrap();
    assert_eq!(
        kind(read_only.complete(pieces()).await),
        DiskErrorKind::Invalid
    );
}

async fn direct(disk: &dyn Disk) {
    let options = CreateOptions {
        zeroed_bytes: 1 << 20,
        direct: true,
    };
    let file = disk.create("direct/j", options).await.unwrap();
    disk.sync_dir("direct").await.unwrap();
    assert_eq!(file.len().await.unwrap(), 1 << 20);
    // Neither aligned nor in whole blocks each; together they are.
    let odd = Bytes::from(vec![1; 5000]).slice(1..);
    let parts = vec![odd.clone(), Bytes::from(vec![2; 8192 - 4999])];
    file.write_durable(4096, parts).await.unwrap();
    file.write_at(1 << 20, vec![Bytes::from(vec![3; 4096])])
        .await
        .unwrap();
    file.sync().await.unwrap();
    let read = file.read_at(0, 16384).await.unwrap();
    let sum = |bytes: &[u8]| bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
    assert_eq!(sum(&read[..4096]), 0);
    assert_eq!(read[4096..4096 + 4999], odd);
    assert_eq!(sum(&read), 4999 + 2 * (8192 - 4999));
    let end = file.read_at(1 << 20, 1 << 20).await.unwrap();
    assert_eq!(end, vec![3; 4096]);
    assert_eq!(file.read_at(2 << 20, 4096).await.unwrap(), "");
    assert!(file.read_now(0, 4096).is_none());

    let block = || vec![Bytes::from(vec![0; 4096])];
    assert_eq!(
        kind(file.write_durable(512, block()).await),
        DiskErrorKind::Invalid
    );
    assert_eq!(
        kind(file.write_at(0, vec!["short".into()]).await),
        DiskErrorKind::Invalid
    );
    assert_eq!(kind(file.read_at(0, 100).await), DiskErrorKind::Invalid);
    assert_eq!(kind(file.read_at(100, 4096).await), DiskErrorKind::Invalid);
    drop(file);
    let again = disk.open("direct/j", Access::Direct).await.unwrap();
    assert_eq!(again.read_at(4096, 4096).await.unwrap(), odd[..4096]);
    let uneven = CreateOptions {
        zeroed_bytes: 100,
        direct: true,
    };
    assert_eq!(
        kind(disk.create("direct/k", uneven).await),
        DiskErrorKind::Invalid
    );
}

async fn names(disk: &dyn Disk) {
    assert_eq!(disk.list("nowhere").await.unwrap(), []);
    assert_eq!(
        kind(disk.sync_dir("nowhere").await),
        DiskErrorKind::NotFound
    );
    for path in ["names/b", "names/a/x/y", "names/c", "names/a.b"] {
        disk.create(path, CACHED).await.unwrap();
    }
    let listed = disk.list("names").await.unwrap();
    let listed: Vec<_> = listed.iter().map(|e| (&*e.name, e.is_dir)).collect();
    assert_eq!(
        listed,
        [("a", true), ("a.b", false), ("b", false), ("c", false)]
    );
    assert_eq!(disk.list("names/a").await.unwrap().len(), 1);
    disk.sync_dir("names/a/x").await.unwrap();
    disk.sync_dir("names").await.unwrap();
    disk.sync_dir("").await.unwrap();

    assert_eq!(
        kind(disk.create("names/b", CACHED).await),
        DiskErrorKind::Exists
    );
    assert_eq!(
        kind(disk.create("names/a", CACHED).await),
        DiskErrorKind::Exists
    );
    for path in ["names/d", "nowhere/d"] {
        assert_eq!(
            kind(disk.open(path, Access::Read).await),
            DiskErrorKind::NotFound
        );
        assert_eq!(kind(disk.remove(path).await), DiskErrorKind::NotFound);
        assert_eq!(
            kind(disk.rename(path, "names/e").await),
            DiskErrorKind::NotFound
        );
        assert_eq!(kind(disk.read_file(path).await), DiskErrorKind::NotFound);
    }
    // A file is no folder, and a folder no file.
    assert!(disk.create("names/b/x", CACHED).await.is_err());
    assert!(disk.open("names/a", Access::Read).await.is_err());
    assert!(disk.rename("names/b", "names/a").await.is_err());
    disk.remove("names/b").await.unwrap();
    disk.create("names/b", CACHED).await.unwrap();
}

async fn renames(disk: &dyn Disk) {
    for (path, content) in [("ren/a", "A"), ("ren/b", "B")] {
        let file = disk.create(path, CACHED).await.unwrap();
        file.write_at(0, vec![content.into()]).await.unwrap();
    }
    disk.rename("ren/a", "ren/b").await.unwrap();
    assert_eq!(disk.read_file("ren/b").await.unwrap(), "A");
    assert_eq!(kind(disk.read_file("ren/a").await), DiskErrorKind::NotFound);
    disk.rename("ren/b", "ren/b").await.unwrap();
    disk.rename("ren/b", "ren/new/dir/c").await.unwrap();
    disk.sync_dir("ren").await.unwrap();
    disk.sync_dir("ren/new/dir").await.unwrap();
    assert_eq!(disk.read_file("ren/new/dir/c").await.unwrap(), "A");
}

async fn open_files_outlive_their_names(disk: &dyn Disk) {
    let file = disk.create("open/a", CACHED).await.unwrap();
    file.write_at(0, vec!["one".into()]).await.unwrap();
    disk.remove("open/a").await.unwrap();
    let other = disk.create("open/a", CACHED).await.unwrap();
    other.write_at(0, vec!["two".into()]).await.unwrap();
    file.write_at(3, vec!["!".into()]).await.unwrap();
    assert_eq!(file.read_at(0, 9).await.unwrap(), "one!");
    disk.rename("open/a", "open/b").await.unwrap();
    assert_eq!(other.read_at(0, 9).await.unwrap(), "two");
    disk.replace_file("open/b", "three".into()).await.unwrap();
    assert_eq!(other.read_at(0, 9).await.unwrap(), "two");
    assert_eq!(disk.read_file("open/b").await.unwrap(), "three");
}

async fn removed_files_promise_nothing(disk: &dyn Disk) {
    let direct = CreateOptions {
        zeroed_bytes: 4096,
        direct: true,
    };
    for options in [CACHED, direct] {
        let file = disk.create("place/a", options).await.unwrap();
        let block = Bytes::from(vec![1; 4096]);
        file.write_durable(0, vec![block.clone()]).await.unwrap();
        assert!(file.is_in_place().await.unwrap());
        disk.remove("place/a").await.unwrap();
        for replaced in [false, true] {
            if replaced {
                let other = disk.create("place/a", CACHED).await.unwrap();
                assert!(other.is_in_place().await.unwrap());
            }
            assert!(!file.is_in_place().await.unwrap());
            let not_found = DiskErrorKind::NotFound;
            let written = file.write_durable(0, vec![block.clone()]).await;
            assert_eq!(kind(written), not_found);
            assert_eq!(kind(file.sync().await), not_found);
            let whole = file.complete(vec![(0, vec![block.clone()])]).await;
            assert_eq!(kind(whole), not_found);
            assert_eq!(file.read_at(0, 4096).await.unwrap(), block);
        }
        disk.remove("place/a").await.unwrap();
    }
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
}

async fn small_files(disk: &dyn Disk) {
    let big = Bytes::from(vec![7; 1 << 20]);
    for content in ["one".into(), Bytes::new(), big, "two".into()] {
        disk.replace_file("small/dir/epoch", content.clone())
            .await
            .unwrap();
        assert_eq!(disk.read_file("small/dir/epoch").await.unwrap(), content);
    }
    // What a crash may have left behind does no harm.
    disk.create("small/dir/epoch.tmp", CACHED).await.unwrap();
    disk.replace_file("small/dir/epoch", "three".into())
        .await
        .unwrap();
    assert_eq!(disk.list("small/dir").await.unwrap().len(), 1);
    let file = disk.create("small/large", CACHED).await.unwrap();
    file.write_at(16 << 20, vec!["x".into()]).await.unwrap();
    assert_eq!(
        kind(disk.read_file("small/large").await),
        DiskErrorKind::Invalid
    );
}

async fn wrong_paths(disk: &dyn Disk) {
    for path in [
        "../escape",
        "/etc/hostname",
        "a/../../b",
        "",
        "a//b",
        ".",
        "a/",
        "a\0",
    ] {
        let invalid = DiskErrorKind::Invalid;
        assert_eq!(kind(disk.create(path, CACHED).await), invalid, "{path:?}");
        assert_eq!(kind(disk.open(path, Access::Read).await), invalid);
        assert_eq!(kind(disk.remove(path).await), invalid);
        assert_eq!(kind(disk.rename(path, "ok").await), invalid);
        assert_eq!(kind(disk.read_file(path).await), invalid);
        assert_eq!(kind(disk.replace_file(path, Bytes::new()).await), invalid);
        assert_eq!(kind(disk.rename("bytes/a", path).await), invalid);
        if !path.is_empty() {
            assert_eq!(kind(disk.list(path).await), invalid);
            assert_eq!(kind(disk.sync_dir(path).await), invalid);
        }
    }
}

async fn wrong_accesses(disk: &dyn Disk) {
    let file = disk.open("bytes/a", Access::Read).await.unwrap();
    let byte = || vec![Bytes::from_static(b"x")];
    assert_eq!(kind(file.write_at(0, byte()).await), DiskErrorKind::Invalid);
    assert_eq!(
        kind(file.write_durable(0, byte()).await),
        DiskErrorKind::Invalid
    );
    let file = disk.open("bytes/a", Access::Write).await.unwrap();
    assert_eq!(
        kind(file.write_at(u64::MAX, byte()).await),
        DiskErrorKind::Invalid
    );
    assert_eq!(
        kind(file.read_at(u64::MAX, 1).await),
        DiskErrorKind::Invalid
    );
    assert_eq!(disk.state(), DiskState::Online { returns: 0 });
}

async fn many_at_once(disk: &dyn Disk) {
    let file = disk.create("many", CACHED).await.unwrap();
    let writes = (0..64_u8).map(|n| file.write_at(u64::from(n) * 100, vec![vec![n; 100].into()]));
    for written in futures_util::future::join_all(writes).await {
        written.unwrap();
    }
    let reads = (0..64).map(|n| file.read_at(n * 100, 100));
    for (n, read) in (0..64_u8).zip(futures_util::future::join_all(reads).await) {
        assert_eq!(read.unwrap(), vec![n; 100]);
    }
}
