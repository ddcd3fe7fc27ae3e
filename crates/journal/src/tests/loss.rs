//! Accepting that records are lost, and what becomes of the disks that had them.

use std::time::Duration;

use dewar_types::ErrorKind;

use super::*;

async fn accepting(world: &SimWorld) -> Result<(Journal, Recovery), OpenError> {
    let config = JournalConfig {
        accept_loss: true,
        ..config(1)
    };
    Journal::open(world.env(), disks(world), config).await
}

async fn loss(world: &SimWorld) -> Option<crate::AcceptedLoss> {
    let found = Journal::loss(world.env(), disks(world), config(1)).await;
    found.expect("looked at")
}

/// Five disks, 1 survived; three are away, and with them the last records of the three holders.
async fn half_gone() -> SimWorld {
    let world = formatted(1, 5, 1).await;
    let (journal, recovery) = open(&world, 1).await.expect("opens");
    std::mem::forget(journal.hold("index", 0));
    drop(recovery);
    for n in 0..10 {
        write(&journal, body(n)).await;
    }
    assert!(loss(&world.kill(7)).await.is_none(), "it opens without");
    let world = world.crash(2);
    for n in [0, 3, 4] {
        world.disk(n).vanish();
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_of_and_nothing_is_changed_by_that() {
    let world = half_gone().await;
    let before: Vec<_> = [1, 2].map(|n| world.disk(n).paths()).into();
    let ops = world.ops();
    let told = loss(&world).await.expect("three of five are away");
    assert!(
        matches!(told.why, OpenError::TooFewMembers { .. }),
        "{told:?}"
    );
    assert_eq!((told.members, told.away.len()), (5, 3));
    assert!(told.end >= 9 && told.acked >= told.end, "{told:?}");
    let after: Vec<_> = [1, 2].map(|n| world.disk(n).paths()).into();
    assert_eq!((before, ops), (after, world.ops()));
    open(&world, 1).await.expect_err("still");
}

#[tokio::test(start_paused = true)]
async fn disks_of_before_are_never_merged() {
    let world = half_gone().await;
    let (journal, recovery) = accepting(&world).await.expect("opens");
    let found = all(recovery).await;
    assert_eq!(
        found.values().filter(|body| body.is_empty()).count(),
        1,
        "the mark"
    );
    let status = journal.status();
    assert_eq!((status.members.len(), status.losses_accepted), (2, 1));
    assert_eq!(status.removed, [0, 3, 4].map(DiskId));
    let seq = write(&journal, body(100)).await;
    assert!(seq > 1 << 32, "a gap");
    // While it runs one of them returns, and another at the next opening, with what it had.
    world.disk(3).come_back();
    let refused = journal.attach(DiskId(3), Arc::new(world.disk(3))).await;
    assert_eq!(
        refused.expect_err("of before").kind(),
        ErrorKind::InvalidArgument
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    let world = world.crash(4);
    for n in [0, 3, 4] {
        world.disk(n).come_back();
    }
    assert!(loss(&world).await.is_none());
    let (journal, recovery) = open(&world, 1).await.expect("opens as ever");
    let again = all(recovery).await;
    assert_eq!(again.get(&seq), Some(&body(100)));
    assert_eq!(again.len(), found.len() + 1);
    let status = journal.status();
    assert_eq!((status.members.len(), status.removed.len()), (2, 3));
    // Accepting it a second time, on the side that was given up, leads nowhere.
    drop(journal);
    let world = world.crash(5);
    world.disk(1).vanish();
    world.disk(2).vanish();
    open(&world, 1).await.expect_err("three of five");
    let (journal, _) = accepting(&world).await.expect("opens");
    assert_eq!(journal.status().losses_accepted, 1);
    let world = world.crash(6);
    world.disk(1).come_back();
    world.disk(2).come_back();
    let error = open(&world, 1).await.expect_err("both went on");
    assert!(matches!(error, OpenError::SplitLineages(_)), "{error}");
}

/// The power fails at each operation of the opening that accepts; afterwards it is given again, or was
/// done.
#[tokio::test(start_paused = true)]
async fn a_crash_while_a_loss_is_accepted() {
    for ops in 1.. {
        let world = half_gone().await;
        world.crash_after(ops);
        let done = tokio::select! {
            biased;
            opened = accepting(&world) => opened.is_ok(),
            () = world.wait_for_power_failure() => false,
        };
        let ended = done && !world.power_failed();
        let world = world.crash(10 + ops);
        let opened = match loss(&world).await {
            Some(_) => accepting(&world).await,
            None => open(&world, 1).await,
        };
        let (journal, recovery) = opened.expect("opens");
        let records = all(recovery).await;
        let bodies: Vec<_> = records
            .into_values()
            .filter(|body| !body.is_empty())
            .collect();
        let expected: Vec<_> = (0..bodies.len() as u64).map(body).collect();
        assert!(bodies == expected && bodies.len() >= 9, "operation {ops}");
        assert_eq!(journal.status().losses_accepted, 1, "operation {ops}");
        if ended {
            assert!(ops > 5);
            return;
        }
    }
}
