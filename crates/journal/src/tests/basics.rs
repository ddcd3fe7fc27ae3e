//! One life after another, without faults.

use std::time::Duration;

use dewar_env::disk::sim::SimLatency;
use dewar_types::ErrorKind;

use super::*;
use crate::JournalState;

#[tokio::test(start_paused = true)]
async fn what_was_written_comes_back_in_order() {
    let mut world = formatted(1, 4, 2).await;
    let mut expected = BTreeMap::new();
    for life in 0..4 {
        let (journal, recovery) = open(&world, 2).await.expect("opens");
        assert_eq!(all(recovery).await, expected, "life {life}");
        for n in 0..50 {
            let body = body(life * 1000 + n);
            let seq = write(&journal, body.clone()).await;
            assert_eq!(seq, life * 50 + n + 1);
            expected.insert(seq, body);
        }
        world = world.kill(life);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_without_a_command() {
    let world = SimWorld::with_disks(1, 4);
    let error = open(&world, 2).await.expect_err("not formatted");
    assert!(matches!(error, OpenError::NotFormatted), "{error}");
    assert!(world.disk(0).paths().is_empty());
    let world = formatted(1, 4, 2).await;
    let again = Journal::create(&world.env(), &disks(&world), &config(2)).await;
    let again = again.expect_err("formatted twice");
    assert!(matches!(again, OpenError::Formatted(_)), "{again}");
}

#[tokio::test(start_paused = true)]
async fn every_layout_works() {
    for (count, m) in [(1, 0), (2, 0), (2, 1), (3, 1), (6, 2), (11, 3)] {
        let world = formatted(1, count, m).await;
        let (journal, _) = open(&world, m).await.expect("opens");
        write(&journal, "hello").await;
        let status = journal.status();
        assert_eq!(status.holders.len(), (m + 2).min(count), "{count} disks");
        assert_eq!(status.margin, status.holders.len() as i32 - 1);
        assert_eq!(status.state, JournalState::Running);
        let (_, recovery) = open(&world.crash(2), m).await.expect("opens again");
        assert_eq!(all(recovery).await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn large_records_and_limits() {
    let world = formatted(1, 3, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    let max = config(1).record_bytes_max();
    let large = Bytes::from(vec![3; max]);
    write(&journal, "before").await;
    write(&journal, large.clone()).await;
    write(&journal, "after").await;
    let error = journal
        .admit(max + 1, LogReserve::Ordinary)
        .await
        .expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let permit = journal.admit(10, LogReserve::Ordinary).await.expect("room");
    let longer = journal.append(permit, &[Bytes::from(vec![0; 30])]);
    assert_eq!(
        longer.expect_err("longer than admitted").kind(),
        ErrorKind::InvalidArgument
    );
    let (_, recovery) = open(&world.crash(1), 1).await.expect("opens");
    let records = all(recovery).await;
    assert_eq!(records.len(), 3);
    assert_eq!(records[&2], large);
}

#[tokio::test(start_paused = true)]
async fn many_writers_share_syncs() {
    let world = formatted(1, 4, 2).await;
    for disk in world.disks() {
        let sync = (Duration::from_micros(200), Duration::from_micros(400));
        disk.set_latency(SimLatency {
            sync,
            ..SimLatency::default()
        });
    }
    let (journal, _) = open(&world, 2).await.expect("opens");
    let before = world.disk(0).counters().durable_writes;
    let writers: Vec<_> = (0..32)
        .map(|writer| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    write(&journal, body(writer * 100 + n)).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let syncs = world.disk(0).counters().durable_writes - before;
    assert!(syncs <= 640 / 10, "{syncs} syncs for 640 records");
}

/// How many writes it takes when `early` writers append a record, and another as soon as that is durable, and `late` ones append
/// theirs while the first write is under way.
async fn groups_of(early: u64, late: u64) -> u64 {
    // No group reaches the end of a file.
    const SMALL: &[u8] = &[7; 64];
    let world = formatted(1, 4, 2).await;
    for disk in world.disks() {
        let sync = (Duration::from_millis(5), Duration::from_millis(5));
        disk.set_latency(SimLatency {
            sync,
            ..SimLatency::default()
        });
    }
    let one_at_a_time = JournalConfig {
        group_spacing: Duration::from_secs(1),
        ..config(2)
    };
    let (journal, _) = Journal::open(world.env(), disks(&world), one_at_a_time)
        .await
        .expect("opens");
    let groups = || journal.status().counters.groups;
    let before = groups();
    let again = (0..early).map(|_| {
        let journal = journal.clone();
        tokio::spawn(async move {
            write(&journal, SMALL).await;
            write(&journal, SMALL).await;
        })
    });
    let mut writers: Vec<_> = again.collect();
    while groups() == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..late {
        let journal = journal.clone();
        writers.push(tokio::spawn(async move {
            write(&journal, SMALL).await;
        }));
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
    groups() - before
}

#[tokio::test(start_paused = true)]
async fn who_can_append_at_once_shares_a_write() {
    // All of the first round in one write, all of the second in another.
    assert_eq!(groups_of(16, 0).await, 2);
    // Who came meanwhile waits for those who append again: they are more.
    assert_eq!(groups_of(16, 4).await, 2);
}

#[tokio::test(start_paused = true)]
async fn as_much_as_landed_waits_for_nobody() {
    // The late ones are a write of their own, beside which the early ones can be served.
    assert_eq!(groups_of(8, 8).await, 3);
}

#[tokio::test(start_paused = true)]
async fn slow_syncs_overlap_and_are_acknowledged_in_order() {
    let world = formatted(1, 3, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    for disk in world.disks() {
        let sync = (Duration::from_millis(2), Duration::from_millis(20));
        disk.set_latency(SimLatency {
            sync,
            ..SimLatency::default()
        });
    }
    let start = tokio::time::Instant::now();
    let mut last = 0;
    for n in 0..200 {
        last = append(&journal, body(n)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let durable = journal.durable_seq();
        assert!(durable <= last);
    }
    journal.durable(last).await.expect("durable");
    assert!(start.elapsed() < Duration::from_millis(450));
    let groups = journal.status().counters.groups;
    assert!(groups > 60, "only {groups} groups: they did not overlap");
}

#[tokio::test(start_paused = true)]
async fn holds_decide_what_is_kept() {
    let world = formatted(1, 4, 2).await;
    let (journal, recovery) = open(&world, 2).await.expect("opens");
    let index = journal.hold("index", 0);
    let segments = journal.hold("segments", 0);
    drop(recovery);
    // Far more than fits the log at once.
    for n in 0..2000 {
        let seq = write(&journal, body(n)).await;
        index.advance(seq);
        if seq % 20 == 0 {
            segments.advance(seq - 10);
        }
        assert!(journal.status().files <= 5);
    }
    let status = journal.status();
    assert_eq!(status.floor, 1990);
    let per_disk = world.disk(0).paths().len();
    assert!(per_disk <= 8, "{per_disk} files on a disk");
    let (_, recovery) = open(&world.crash(1), 2).await.expect("opens");
    assert!(recovery.floor() <= 1990);
    let records = all(recovery).await;
    for n in 1990..2000 {
        assert_eq!(records[&(n + 1)], body(n));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_log_makes_writers_wait_and_the_reserve_helps() {
    let world = formatted(1, 3, 1).await;
    let config = JournalConfig {
        files_max: 8,
        stall_max: Duration::from_secs(60),
        ..config(1)
    };
    let opened = Journal::open(world.env(), disks(&world), config).await;
    let (journal, recovery) = opened.expect("opens");
    let hold = journal.hold("index", 0);
    drop(recovery);
    let mut n = 0;
    let fill = async {
        loop {
            write(&journal, body(n)).await;
            n += 1;
        }
    };
    let filled: Result<(), _> = tokio::time::timeout(Duration::from_secs(30), fill).await;
    filled.expect_err("the log must become full");
    let files = journal.status().files;
    assert!((5..=8).contains(&files), "{files} files");
    let permit = journal.admit(1000, LogReserve::Reserve).await;
    drop(permit.expect("the reserve is for this"));
    // Who frees other things cannot use up what lets the log itself go, and does not wait for ever.
    let error = loop {
        match journal.admit(1000, LogReserve::Reserve).await {
            Ok(permit) => {
                let record = Bytes::from(vec![7; 1000]);
                let seq = journal.append(permit, &[record]).expect("appended");
                journal.durable(seq).await.expect("durable");
                n += 1;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind(), ErrorKind::Busy(_)), "{error:?}");
    let permit = journal.admit(1000, LogReserve::Last).await;
    drop(permit.expect("the last file is for this"));
    let waiting = journal.admit(4000, LogReserve::Ordinary);
    tokio::pin!(waiting);
    let still = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await;
    still.expect_err("no room");
    // Nobody waits for ever: what would make room may be waiting for who waits.
    let tired = tokio::time::timeout(
        Duration::from_secs(70),
        journal.admit(4000, LogReserve::Ordinary),
    );
    let error = tired.await.expect("told").expect_err("no room");
    assert!(matches!(error.kind(), ErrorKind::Busy(_)), "{error:?}");
    let waiting = journal.admit(4000, LogReserve::Ordinary);
    tokio::pin!(waiting);
    let still = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await;
    still.expect_err("no room");
    hold.advance(journal.durable_seq());
    let freed = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    drop(freed.expect("room again").expect("a permit"));
    assert_eq!(journal.status().files, 1);
    // The freed files are used again, and what they held is not looked for.
    let last = write(&journal, body(n)).await;
    for n in 0..40 {
        append(&journal, body(n)).await;
    }
    let (_, recovery) = open(&world.crash(1), 1).await.expect("opens");
    assert_eq!(recovery.floor() + 1, last);
    all(recovery).await;
}

#[tokio::test(start_paused = true)]
async fn full_disks_refuse_what_needs_a_new_file_and_keep_what_they_have() {
    let world = formatted(1, 3, 1).await;
    let (journal, recovery) = open(&world, 1).await.expect("opens");
    let hold = journal.hold("index", 0);
    drop(recovery);
    write(&journal, "first").await;
    // Three more files, and a little: less than what is kept for the index.
    for disk in world.dyn_disks().iter().zip(world.disks()) {
        let space = disk.0.space().await.expect("an answer");
        let used = space.total - space.available;
        disk.1.set_capacity(used + 3 * config(1).file_bytes + 1000);
    }
    let mut written = 1;
    let refused = loop {
        let admitted = journal.admit(3000, LogReserve::Ordinary);
        let admitted = tokio::time::timeout(Duration::from_secs(30), admitted).await;
        match admitted.expect("an answer") {
            Ok(permit) => {
                let seq = journal
                    .append(permit, &[Bytes::from(vec![1; 3000])])
                    .expect("open");
                journal.durable(seq).await.expect("durable");
                written += 1;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    assert!(written > 20);
    assert_eq!(journal.status().state, JournalState::Running);
    for disk in world.dyn_disks() {
        let space = disk.space().await.expect("an answer");
        assert!(space.available > space.reserve() / 8, "{space:?}");
    }
    // It goes on with what it has when that is free, and does not try without pause meanwhile.
    hold.advance(journal.durable_seq());
    tokio::time::sleep(Duration::from_secs(90)).await;
    write(&journal, body(0)).await;
    // When room is made, there is more.
    for disk in world.disks() {
        disk.set_capacity(1 << 30);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    write(&journal, body(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_leaves_nothing_to_replay() {
    let world = formatted(1, 4, 2).await;
    let (journal, recovery) = open(&world, 2).await.expect("opens");
    let hold = journal.hold("index", 0);
    drop(recovery);
    for n in 0..30 {
        append(&journal, body(n)).await;
    }
    let patience = Duration::from_secs(1);
    journal.durable(30).await.expect("durable");
    hold.advance(30);
    journal.close(patience).await.expect("closes");
    let error = journal
        .admit(1, LogReserve::Ordinary)
        .await
        .expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let (journal, recovery) = open(&world.kill(1), 2).await.expect("opens");
    assert_eq!(recovery.floor(), 30);
    assert!(all(recovery).await.is_empty());
    assert_eq!(write(&journal, "next").await, 31);
}

#[tokio::test(start_paused = true)]
async fn reading_only_changes_nothing() {
    let world = formatted(1, 2, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    write(&journal, "one").await;
    let world = world.crash(1);
    world.disk(1).vanish();
    // One of two disks cannot be written to with m = 1, but it can be read.
    let error = open(&world, 1).await.expect_err("too few");
    assert!(matches!(error, OpenError::TooFewLeft(_)), "{error}");
    let before = world.disk(0).paths();
    let read_only = JournalConfig {
        read_only: true,
        ..config(1)
    };
    let opened = Journal::open(world.env(), disks(&world), read_only).await;
    let (journal, recovery) = opened.expect("opens");
    assert_eq!(recovery.end(), 1);
    assert_eq!(all(recovery).await[&1], "one");
    let error = journal
        .admit(1, LogReserve::Ordinary)
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(world.disk(0).paths(), before);
}

/// The version of an epoch file is its ninth byte.
#[tokio::test(start_paused = true)]
async fn one_epoch_file_that_looks_newer_is_a_member_that_is_away() {
    let world = formatted(1, 4, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    write(&journal, body(1)).await;
    let world = world.kill(1);
    world.disk(2).tamper("journal/epoch", 8, &[9]);
    let (journal, recovery) = open(&world, 1).await.expect("opens without it");
    assert_eq!(all(recovery).await.len(), 1);
    drop(journal);

    let world = world.kill(2);
    for disk in [0, 2] {
        world.disk(disk).tamper("journal/epoch", 8, &[9]);
    }
    let error = open(&world, 1).await.expect_err("more than m say so");
    assert!(error.to_string().contains("version 9"), "{error}");
    let again = Journal::create(&world.env(), &disks(&world), &config(1)).await;
    assert!(again.is_err());
}
