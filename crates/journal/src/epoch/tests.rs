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

fn members(world: &SimWorld) -> Vec<std::sync::Arc<JournalMember>> {
    let disks = world.dyn_disks().into_iter().enumerate();
    disks
        .map(|(n, disk)| JournalMember::new(DiskId(n as u128), disk))
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
async fn a_disk_that_gave_up_a_write_counts_again_when_that_has_ended() {
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
    assert!(!members[0].countable());
    publish(&runtime, &members, &both)
        .await
        .expect_err("its write may still happen");
    world.disk(0).resume();
    assert!(members[0].countable());
    publish(&runtime, &members, &both)
        .await
        .expect("nothing is under way any more");
}

/// A disk that went away in the middle of a write and was opened anew at another device: the write
/// goes on below, and what was opened anew does not know of it.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_given_up_is_open_for_the_disk_that_was_opened_anew() {
    let world = SimWorld::with_disks(1, 2);
    let runtime = Handle::current();
    let only = publication(vec![(vec![0], 0)]);
    let before = JournalMember::new(DiskId(0), world.dyn_disks()[0].clone());
    world.disk(0).hang();
    publish(&runtime, std::slice::from_ref(&before), &only)
        .await
        .expect_err("it hangs");
    world.disk(0).vanish();
    let after = [before.succeed(world.dyn_disks()[1].clone())];
    assert!(world.disk(1).state().writable() && !after[0].countable());
    let error = publish(&runtime, &after, &only)
        .await
        .expect_err("the first write may still happen");
    assert!(error.to_string().contains("given up"), "{error}");
    // However often it is opened anew.
    let later = [after[0].succeed(world.dyn_disks()[1].clone())];
    assert!(!later[0].countable());
    world.disk(0).resume();
    world.disk(0).come_back();
    publish(&runtime, &later, &only)
        .await
        .expect("the first write has ended");
}
