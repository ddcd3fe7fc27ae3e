use dewar_env::disk::sim::{SimOp, SimWorld};
use dewar_env::{Disk, DiskErrorKind};
use tokio::runtime::Handle;

use super::*;

fn epoch() -> EpochFile {
    let id = EpochId(7);
    let epoch = Epoch {
        lineage: EpochId(1),
        former: vec![EpochId(9)],
        id,
        number: 3,
        parent: Some(EpochId(6)),
        parent_end: 41,
        m: 2,
        members: (0..6).map(DiskId).collect(),
        holders: (0..4).map(DiskId).collect(),
        spans: vec![Span {
            epoch: id,
            number: 3,
            file: 12,
            first: 42,
            prev: 0xffff_0000,
            last: None,
        }],
        floor: 40,
        acked: 41,
        removed: vec![DiskId(8)],
    };
    EpochFile {
        confirmed: Some(epoch),
        proposed: Some(4),
    }
}

#[test]
fn an_epoch_comes_back() {
    let epoch = epoch();
    assert_eq!(EpochFile::decode(&epoch.encode()).expect("whole"), epoch);
}

#[test]
fn a_damaged_epoch_is_noticed() {
    let bytes = epoch().encode();
    for len in 0..bytes.len() {
        EpochFile::decode(&bytes[..len]).expect_err("cut short");
    }
    for bit in 0..bytes.len() * 8 {
        if (10 * 8..12 * 8).contains(&bit) {
            continue; // reserved
        }
        let mut bad = bytes.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        EpochFile::decode(&bad).expect_err("a bit is wrong");
    }
}

#[test]
fn a_later_version_is_named() {
    let mut bytes = epoch().encode().to_vec();
    bytes[8] = 2;
    let error = EpochFile::decode(&bytes).expect_err("version 2");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

fn members(world: &SimWorld) -> Vec<std::sync::Arc<Member>> {
    let disks = world.dyn_disks().into_iter().enumerate();
    disks
        .map(|(n, disk)| Member::new(DiskId(n as u128), disk))
        .collect()
}

fn publication(lists: Vec<(Vec<u128>, usize)>) -> Publication {
    Publication {
        content: epoch().encode(),
        lists: lists
            .into_iter()
            .map(|(list, m)| (list.into_iter().map(DiskId).collect(), m))
            .collect(),
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_m_of_every_list_must_have_it() {
    let world = SimWorld::with_disks(1, 4);
    let members = members(&world);
    world.disk(0).vanish();
    world.disk(1).fail_always(SimOp::Rename, DiskErrorKind::Io);
    let runtime = Handle::current();
    let enough = publication(vec![(vec![0, 1, 2, 3], 1)]);
    publish(&runtime, &members, &enough)
        .await
        .expect("two have it");
    let short = publication(vec![(vec![0, 1, 2, 3], 1), (vec![0, 1, 2], 1)]);
    let error = publish(&runtime, &members, &short)
        .await
        .expect_err("only one of the second list");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_gave_up_a_write_no_longer_counts() {
    let world = SimWorld::with_disks(1, 2);
    let members = members(&world);
    let both = publication(vec![(vec![0, 1], 1)]);
    let runtime = Handle::current();
    world.disk(0).fail_next(SimOp::Rename, DiskErrorKind::Io);
    publish(&runtime, &members, &both)
        .await
        .expect_err("one failed");
    publish(&runtime, &members, &both)
        .await
        .expect("an error is over when it is reported");
    world.disk(0).hang();
    publish(&runtime, &members, &both)
        .await
        .expect_err("one hangs");
    world.disk(0).resume();
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert!(world.disk(0).state().writable());
    publish(&runtime, &members, &both)
        .await
        .expect_err("the write that hung might still happen");
}
