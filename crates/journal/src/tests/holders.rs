//! Disks that fail, hang, lag and come back while the journal runs.

use std::time::Duration;

use dewar_env::DiskErrorKind;
use dewar_env::disk::sim::{SimLatency, SimOp};
use dewar_types::ErrorKind;

use super::*;
use crate::JournalState;
use crate::format::{BLOCK_BYTES, FileHeader};

async fn settled(journal: &Journal, wanted: impl Fn(&crate::Status) -> bool) -> crate::Status {
    for _ in 0..200 {
        let status = journal.status();
        if wanted(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never settled: {:?}", journal.status());
}

/// The record count of what `m` further losses leave.
async fn survives(world: &SimWorld, m: usize, lost: &[usize], count: usize) {
    let world = world.crash(99);
    for disk in lost {
        world.disk(*disk).vanish();
    }
    let (_, recovery) = open(&world, m).await.expect("opens");
    assert_eq!(all(recovery).await.len(), count, "without {lost:?}");
}

/// All holders hang at once and others take over, which get what nobody but those had as soon as they
/// answer.
#[tokio::test(start_paused = true)]
async fn older_files_come_from_the_disks_of_former_holders() {
    let world = formatted(1, 8, 2).await;
    let (journal, recovery) = open(&world, 2).await.expect("opens");
    let _hold = journal.hold("index", 0);
    drop(recovery);
    for n in 0..80 {
        write(&journal, body(n)).await;
    }
    let before = journal.status();
    assert!(before.files > 2, "{before:?}");
    for id in &before.holders {
        world.disk(id.0 as usize).hang();
    }
    // It may be refused, and happen nevertheless.
    let mut written = 80;
    while journal.status().epoch_number == before.epoch_number || written < 90 {
        if let Ok(permit) = journal
            .admit(body(written).len(), LogReserve::Ordinary)
            .await
        {
            let seq = journal.append(permit, &[body(written)]).expect("open");
            let _ = journal.durable(seq).await;
            written += 1;
        }
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let alone = journal.status();
    assert!(alone.files_to_copy > 0 && alone.margin < 0, "{alone:?}");
    for id in &before.holders {
        world.disk(id.0 as usize).resume();
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    let after = journal.status();
    assert_eq!((after.files_to_copy, after.margin), (0, 3), "{after:?}");
    let last = journal.durable_seq() as usize;
    assert!(last >= 80);
    survives(
        &world,
        2,
        &[after.holders[0].0 as usize, after.holders[1].0 as usize],
        last,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_fails_is_replaced_and_gets_the_older_files() {
    let world = formatted(1, 6, 2).await;
    let (journal, recovery) = open(&world, 2).await.expect("opens");
    let _hold = journal.hold("index", 0);
    drop(recovery);
    for n in 0..60 {
        write(&journal, body(n)).await;
    }
    let first = journal.status();
    world
        .disk(1)
        .fail_always(SimOp::WriteDurable, DiskErrorKind::Io);
    for n in 60..120 {
        write(&journal, body(n)).await;
    }
    let status = settled(&journal, |s| s.holders.len() == 4 && s.files_to_copy == 0).await;
    assert!(status.epoch_number > first.epoch_number);
    assert!(!status.holders.contains(&DiskId(1)));
    assert_eq!((status.margin, status.state), (3, JournalState::Running));
    for n in 120..150 {
        write(&journal, body(n)).await;
    }
    // The new holder has everything: two of the old ones may go.
    survives(&world, 2, &[0, 2], 150).await;
    survives(&world, 2, &[3, 4], 150).await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_vanishes_hangs_or_is_pulled_does_not_stop_writing() {
    type Fault = fn(&dewar_env::disk::sim::SimDisk);
    let faults: [(&str, Fault); 3] = [
        ("vanish", |disk| disk.vanish()),
        ("pull", |disk| disk.pull()),
        ("hang", |disk| disk.hang()),
    ];
    for (name, fault) in faults {
        let world = formatted(1, 6, 2).await;
        let (journal, _) = open(&world, 2).await.expect("opens");
        for n in 0..20 {
            write(&journal, body(n)).await;
        }
        fault(&world.disk(2));
        for n in 20..60 {
            let start = tokio::time::Instant::now();
            write(&journal, body(n)).await;
            let took = start.elapsed();
            assert!(
                took < Duration::from_secs(1),
                "{name}: a write took {took:?}"
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let status = settled(&journal, |s| s.holders.len() == 4 && s.files_to_copy == 0).await;
        assert!(!status.holders.contains(&DiskId(2)), "{name}");
        survives(&world, 2, &[0, 2], 60).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_holder_is_dropped_when_it_lags_too_far() {
    let world = formatted(1, 4, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    let sync = (Duration::from_secs(3), Duration::from_secs(4));
    world.disk(0).set_latency(SimLatency {
        sync,
        ..SimLatency::default()
    });
    for n in 0..100 {
        let start = tokio::time::Instant::now();
        write(&journal, body(n)).await;
        assert!(start.elapsed() < Duration::from_millis(500));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = settled(&journal, |s| s.files_to_copy == 0 && s.holders.len() == 3).await;
    assert!(!status.holders.contains(&DiskId(0)), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn too_few_disks_refuse_and_go_on_when_they_are_back() {
    let world = formatted(1, 3, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    write(&journal, body(0)).await;
    world.disk(0).vanish();
    world.disk(1).vanish();
    let pending = append(&journal, body(1)).await;
    let error = journal.durable(pending).await.expect_err("one disk of two");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = journal
        .admit(5, LogReserve::Ordinary)
        .await
        .expect_err("stalled");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let state = journal.status().state;
    assert!(matches!(state, JournalState::Stalled(_)), "{state:?}");
    world.disk(0).come_back();
    let status = settled(&journal, |s| s.state == JournalState::Running).await;
    assert_eq!(status.holders.len(), 2);
    journal.durable(pending).await.expect("durable at last");
    write(&journal, body(2)).await;
    world.disk(1).come_back();
    settled(&journal, |s| s.margin == 2).await;
    survives(&world, 1, &[2], 3).await;
    survives(&world, 1, &[0], 3).await;
}

/// Too few remain who could say so if a write that was given up never ended; it ends with the hang.
#[tokio::test(start_paused = true)]
async fn disks_that_all_hung_while_an_epoch_began_count_again_without_a_restart() {
    let world = formatted(1, 4, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    write(&journal, body(0)).await;
    // A holder goes, so an epoch begins, and its record gets nowhere.
    world.disk(0).vanish();
    (1..4).for_each(|disk| world.disk(disk).hang());
    let pending = append(&journal, body(1)).await;
    journal.durable(pending).await.expect_err("all disks hang");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let state = journal.status().state;
    assert!(matches!(state, JournalState::Stalled(_)), "{state:?}");
    (1..4).for_each(|disk| world.disk(disk).resume());
    settled(&journal, |s| s.state == JournalState::Running).await;
    journal.durable(pending).await.expect("durable at last");
    write(&journal, body(2)).await;
    world.disk(0).come_back();
    survives(&world, 1, &[], 3).await;
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_under_load() {
    for seed in 0..12 {
        let world = formatted(seed, 6, 2).await;
        let (journal, _) = open(&world, 2).await.expect("opens");
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let journal = journal.clone();
                tokio::spawn(async move {
                    let mut written = Vec::new();
                    for n in 0..12 {
                        let n = writer * 100 + n;
                        written.push((write(&journal, body(n)).await, n));
                        let pause = Duration::from_millis(20 + writer);
                        tokio::time::sleep(pause).await;
                    }
                    written
                })
            })
            .collect();
        let chaos = async {
            for round in 0..3 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let victim = ((seed + round * 2) % 6) as usize;
                match (seed + round) % 3 {
                    0 => world.disk(victim).vanish(),
                    1 => world.disk(victim).hang(),
                    _ => world
                        .disk(victim)
                        .fail_next(SimOp::WriteDurable, DiskErrorKind::Io),
                }
                tokio::time::sleep(Duration::from_millis(400)).await;
                world.disk(victim).come_back();
                world.disk(victim).resume();
            }
        };
        chaos.await;
        let mut expected = BTreeMap::new();
        for writer in writers {
            for (seq, n) in writer.await.expect("a writer") {
                assert!(expected.insert(seq, body(n)).is_none(), "a sequence twice");
            }
        }
        settled(&journal, |s| s.margin >= 2).await;
        let world = world.crash(seed);
        world.disk((seed % 6) as usize).vanish();
        world.disk(((seed + 3) % 6) as usize).vanish();
        let (_, recovery) = open(&world, 2).await.expect("opens");
        assert_eq!(all(recovery).await, expected, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_disk_becomes_a_member() {
    let world = formatted(1, 3, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    write(&journal, body(0)).await;
    let disk = world.add_disk("new");
    journal
        .attach(DiskId(3), Arc::new(disk))
        .await
        .expect("new");
    settled(&journal, |s| s.members.len() == 4).await;
    write(&journal, body(1)).await;
    let world = world.crash(1);
    let (journal, recovery) = open(&world, 1).await.expect("opens");
    assert_eq!(all(recovery).await.len(), 2);
    assert_eq!(journal.status().members.len(), 4);
    // Declared lost, a member leaves.
    let world = world.crash(2);
    world.disk(0).vanish();
    let config = JournalConfig {
        lost: vec![DiskId(0)],
        ..config(1)
    };
    let there = disks(&world).into_iter().skip(1).collect();
    let (journal, _) = Journal::open(world.env(), there, config)
        .await
        .expect("opens");
    assert_eq!(journal.status().members.len(), 3);
}

/// Disks without room for one file: an append says so at once, names them, and they are not asked
/// again and again. When there is room they are used.
#[tokio::test(start_paused = true)]
async fn disks_too_small_for_the_journal_are_named_and_left_in_peace() {
    let world = formatted(1, 4, 2).await;
    for n in [0, 1] {
        world.disk(n).set_capacity(40_000);
    }
    let (journal, _) = open(&world, 2).await.expect("an empty log needs no file");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = async || {
        let admitted = journal.admit(100, LogReserve::Ordinary);
        let admitted = tokio::time::timeout(Duration::from_secs(5), admitted).await;
        let error = admitted.expect("an answer").expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        error.to_string()
    };
    let message = refused().await;
    for n in 0..4 {
        let named = message.contains(world.disk(n).label());
        assert_eq!(named, n < 2, "{message}");
    }
    assert!(message.contains("65536 bytes"), "{message}");
    // Disks that say that they have room are asked for a file.
    for n in [0, 1] {
        world.disk(n).set_capacity(10 << 20);
        world
            .disk(n)
            .fail_always(SimOp::Create, DiskErrorKind::Full);
    }
    let asked = |n: usize| world.disk(n).counters().name_changes;
    let before = asked(0);
    for _ in 0..600 {
        refused().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let asked = asked(0) - before;
    assert!(
        (5..30).contains(&asked),
        "asked {asked} times in five minutes"
    );
    world.disk(0).heal();
    tokio::time::sleep(Duration::from_secs(31)).await;
    write(&journal, body(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_somebody_removes_holds_nothing_and_is_filled_anew() {
    for busy in [false, true] {
        let world = formatted(1, 5, 2).await;
        let (journal, recovery) = open(&world, 2).await.expect("opens");
        let _hold = journal.hold("index", 0);
        drop(recovery);
        for n in 0..40 {
            write(&journal, body(n)).await;
        }
        let first = journal.status();
        world.disk(1).lose_folder("journal");
        if busy {
            // It counts no more from the first write on.
            write(&journal, body(40)).await;
            assert!(journal.status().margin < 3, "{:?}", journal.status());
        }
        let later = |s: &crate::Status| s.epoch_number > first.epoch_number;
        let whole = |s: &crate::Status| s.margin == 3 && s.files_to_copy == 0;
        let status = settled(&journal, |s| later(s) && whole(s)).await;
        assert_eq!(status.holders.len(), 4, "{status:?}");
        let epoch = || world.disk(1).paths().contains(&"journal/epoch".to_owned());
        assert!(epoch());
        let count = if busy { 41 } else { 40 };
        survives(&world, 2, &[0, 2], count).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_epoch_file_somebody_removes_gets_it_again() {
    let world = formatted(1, 6, 2).await;
    let (journal, _) = open(&world, 2).await.expect("opens");
    write(&journal, body(1)).await;
    let gone: Vec<usize> = (0..6)
        .filter(|n| world.disk(*n).lose_file("journal/epoch"))
        .collect();
    assert_eq!(gone.len(), 6);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(journal.status().state, JournalState::Running);
    survives(&world, 2, &[0, 3], 1).await;
}

/// What rots while nobody reads it is found, does not count, and is written anew; of two bad copies each
/// gives the other what it lacks.
#[tokio::test(start_paused = true)]
async fn files_that_rot_while_it_runs_are_found_and_mended() {
    let world = formatted(3, 5, 2).await;
    let (journal, recovery) = open(&world, 2).await.expect("opens");
    let _hold = journal.hold("index", 0);
    drop(recovery);
    for n in 0..80 {
        write(&journal, body(n)).await;
    }
    let status = journal.status();
    assert!(status.files > 2, "{status:?}");
    assert_eq!(journal.verify().await.expect("sound"), 0);
    // Those with records, in the order of the log.
    let files = |number: usize| {
        let disk = world.disk(number);
        let mut files = BTreeMap::new();
        for path in disk.paths() {
            let bytes = disk.peek(&path).unwrap_or_default();
            let block = BLOCK_BYTES as usize;
            if path.ends_with(".log")
                && bytes[block..].iter().any(|byte| *byte != 0)
                && let Ok(Some(header)) = FileHeader::decode(&bytes[..block])
            {
                files.insert(header.file, path);
            }
        }
        files.into_values().collect::<Vec<String>>()
    };
    let (one, two) = (status.holders[0].0 as usize, status.holders[1].0 as usize);
    let first = (files(one)[0].clone(), files(two)[0].clone());
    assert!(world.disk(one).flip_bit(&first.0, 8192 + 200, 3));
    // The header of a file, and a record that the other still has.
    assert!(world.disk(two).flip_bit(&first.1, 20, 1));
    assert_eq!(journal.verify().await.expect("mended"), 2);
    assert_eq!(journal.verify().await.expect("sound"), 0);
    let status = journal.status();
    assert_eq!((status.files_to_copy, status.counters.damaged), (0, 2));
    assert!(
        !world.disk(one).paths().contains(&first.0),
        "the bad one is gone"
    );
    // Without room for another copy it counts no more.
    let second = files(one)[0].clone();
    world.disk(one).set_capacity(0);
    assert!(world.disk(one).flip_bit(&second, 8192 + 200, 3));
    assert!(journal.verify().await.is_err());
    let worse = journal.status();
    assert_eq!((worse.files_to_copy, worse.margin), (1, status.margin - 1));
    world.disk(one).set_capacity(1 << 40);
    assert_eq!(journal.verify().await.expect("mended"), 1);
    assert_eq!(journal.status().margin, status.margin);
    let others = (0..5).filter(|n| *n != one && *n != two);
    let others: Vec<usize> = others.take(2).collect();
    survives(&world, 2, &others, 80).await;
}

/// On a quiet pool the file that is being written is the only place of what was acknowledged for days.
#[tokio::test(start_paused = true)]
async fn rot_in_the_file_that_is_being_written_is_found_and_mended() {
    let world = formatted(5, 5, 2).await;
    let (journal, _) = open(&world, 2).await.expect("opens");
    let _hold = journal.hold("index", 0);
    for n in 0..3 {
        write(&journal, body(n)).await;
    }
    let status = journal.status();
    assert_eq!((status.files, status.margin), (1, 3), "{status:?}");
    assert_eq!(journal.verify().await.expect("sound"), 0);
    assert_eq!(journal.status().epoch_number, status.epoch_number);
    // The last record, behind a header and two others, on all holders but two.
    let holders: Vec<usize> = status.holders.iter().map(|id| id.0 as usize).collect();
    for holder in &holders[..2] {
        let disk = world.disk(*holder);
        let path = disk.paths().into_iter().find(|path| {
            let bytes = disk.peek(path).unwrap_or_default();
            path.ends_with(".log") && bytes.get(3 * BLOCK_BYTES as usize) != Some(&0)
        });
        assert!(disk.flip_bit(&path.expect("has records"), 3 * BLOCK_BYTES + 100, 3));
    }
    assert_eq!(journal.verify().await.expect("mended"), 2);
    assert_eq!(journal.verify().await.expect("sound"), 0);
    let mended = journal.status();
    assert_eq!(
        (mended.margin, mended.holders),
        (status.margin, status.holders)
    );
    write(&journal, body(3)).await;
    survives(&world, 2, &holders[2..4], 4).await;
}

/// Nothing is left of the journal on disks that hold it no more once others have all of it, so one disk after
/// the other may be away for a moment although none has room for much more than the journal.
#[tokio::test(start_paused = true)]
async fn full_disks_can_hold_the_journal_again_after_they_were_away() {
    let world = formatted(4, 6, 2).await;
    let (journal, recovery) = open(&world, 2).await.expect("opens");
    drop(recovery);
    let hold = journal.hold("index", 0);
    let logs = |n: usize| {
        let paths = world.disk(n).paths().into_iter();
        paths.filter(|path| path.ends_with(".log")).count() as u64
    };
    for n in 0..60 {
        write(&journal, body(n)).await;
    }
    hold.advance(journal.durable_seq());
    for n in 0..6 {
        // A few files, the spare ones, and what is given up where there is no room for an epoch.
        world.disk(n).set_capacity(12 * (64 << 10));
    }
    let mut written = 60;
    for round in 0..24 {
        let status = settled(&journal, |status| {
            status.state == JournalState::Running && status.margin == 3
        })
        .await;
        let id = status.holders[round % 4];
        world.disk(id.0 as usize).vanish();
        tokio::time::sleep(Duration::from_millis(2500)).await;
        world.disk(id.0 as usize).come_back();
        for _ in 0..3 {
            write(&journal, body(written)).await;
            written += 1;
        }
        hold.advance(journal.durable_seq().saturating_sub(3));
    }
    let status = settled(&journal, |status| status.margin == 3).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for n in 0..6 {
        let holds = status.holders.contains(&DiskId(n as u128));
        assert_eq!(logs(n) > 0, holds, "disk {n}: {status:?}");
    }
    let lost = [status.holders[0].0 as usize, status.holders[1].0 as usize];
    let recovered = {
        let world = world.crash(99);
        lost.iter().for_each(|disk| world.disk(*disk).vanish());
        all(open(&world, 2).await.expect("opens").1).await
    };
    assert_eq!(recovered.keys().next_back(), Some(&written));
}
