use super::*;

/// Batches of one life, enough for a merge in between.
const BATCHES: Seq = 11;

/// The states that the batches of a seed lead through.
fn states(seed: u64) -> (Vec<Vec<Entry>>, Vec<Model>) {
    let rng = SimRng::new(seed);
    let mut model = Model::new();
    let mut states = vec![model.clone()];
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let entries = batch(&rng, 40, 120);
        put(&mut model, &entries);
        states.push(model.clone());
        batches.push(entries);
    }
    (batches, states)
}

/// Applies all batches; the last one acknowledged before the power failed.
async fn live(world: &SimWorld, copies: usize, batches: &[Vec<Entry>], acknowledged: &mut Seq) {
    let work = async {
        let index = match open(world, copies).await {
            Ok(index) => index,
            Err(_) => return,
        };
        for (n, entries) in batches.iter().enumerate() {
            let upto = n as Seq + 1;
            if upto <= index.applied() {
                continue;
            }
            if index.apply(entries.clone(), upto).await.is_err() {
                return;
            }
            *acknowledged = upto;
        }
        index.settle().await;
    };
    tokio::select! {
        biased;
        () = world.wait_for_power_failure() => {}
        () = work => {}
    }
}

async fn crash_everywhere(copies: usize, count: usize, stride: usize) {
    let (batches, states) = states(7);
    for ops in (1..).step_by(stride) {
        let world = SimWorld::with_disks(ops, count);
        drop(create(&world, copies).await.unwrap());
        world.crash_after(ops);
        let mut acknowledged = 0;
        live(&world, copies, &batches, &mut acknowledged).await;
        let survived = !world.power_failed();
        // Any m disks may be gone as well.
        for lost in 0..if copies > 1 { count } else { 1 } {
            let after = world.crash(1_000_000 + 10 * ops + lost as u64);
            if copies > 1 {
                after.disk(lost).vanish();
            }
            let index = open(&after, copies).await;
            let index = index.unwrap_or_else(|e| panic!("at {ops} without {lost}: {e}"));
            let applied = index.applied();
            assert!(
                applied >= acknowledged,
                "at {ops}: {applied} of {acknowledged}"
            );
            check(&*index.view(), &states[applied as usize]).await;
            let status = index.status().await;
            assert_eq!(status.copies, copies.min(count - usize::from(copies > 1)));
        }
        // The next life goes on where this one ended, and leaves nothing behind.
        let after = world.crash(2_000_000 + ops);
        let mut acknowledged = 0;
        live(&after, copies, &batches, &mut acknowledged).await;
        let index = open(&after, copies).await.unwrap();
        check(&*index.view(), &states[BATCHES as usize]).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let status = index.status().await;
        let files = after.disks().iter().map(|d| d.paths().len()).sum::<usize>();
        assert_eq!(files, copies * (status.runs + 1), "at {ops}");
        if survived {
            assert!(ops > 100, "the power failed too rarely");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn crashes_anywhere_on_one_disk() {
    crash_everywhere(1, 1, 1).await;
}

#[tokio::test(start_paused = true)]
async fn crashes_anywhere_and_loses_a_disk() {
    crash_everywhere(2, 3, 3).await;
}

#[tokio::test(start_paused = true)]
async fn is_there_after_any_m_disks_are_lost() {
    let world = SimWorld::with_disks(5, 5);
    let index = create(&world, 3).await.unwrap();
    let model = fill(&index, &SimRng::new(5), 20).await;
    index.stop().await;
    for a in 0..5 {
        for b in a + 1..5 {
            let after = world.crash(5);
            after.disk(a).vanish();
            after.disk(b).vanish();
            let index = open(&after, 3).await.unwrap();
            check(&*index.view(), &model).await;
            let status = index.status().await;
            assert_eq!(
                (status.copies, status.applied),
                (3, 20),
                "without {a} and {b}"
            );
        }
    }
}

/// A process is killed in the middle of a batch, and the power fails after the next has opened what it
/// left: what is counted on then has to be there for the third.
#[tokio::test(start_paused = true)]
async fn what_a_killed_process_did_not_sync_counts_when_it_is_durable() {
    let (batches, states) = states(7);
    for ops in 1.. {
        let world = SimWorld::with_disks(ops, 3);
        drop(create(&world, 2).await.unwrap());
        world.crash_after(ops);
        let mut acknowledged = 0;
        live(&world, 2, &batches[..3], &mut acknowledged).await;
        let survived = !world.power_failed();
        let second = world.kill(1_000_000 + ops);
        let index = open(&second, 2).await.unwrap();
        let kept = index.kept();
        assert_eq!(kept, index.applied(), "all copies could be made");
        for chance in 0..3 {
            let third = second.crash(2_000_000 + 10 * ops + chance);
            let index = open(&third, 2).await.unwrap();
            let applied = index.applied();
            assert!(applied >= kept, "at {ops}: {applied} of {kept}");
            check(&*index.view(), &states[applied as usize]).await;
        }
        if survived {
            assert!(ops > 30, "the process was killed too rarely");
            return;
        }
    }
}

/// The power fails while a holder is being replaced. Half a copy must not count as one.
#[tokio::test(start_paused = true)]
async fn crashes_while_copies_are_made() {
    for ops in 1.. {
        let world = SimWorld::with_disks(ops, 3);
        let all = disks(&world);
        let index = RunIndex::create(world.env(), all.clone(), config(2), 0);
        let index = index.await.unwrap();
        let model = fill(&index, &SimRng::new(ops), 3).await;
        world.crash_after(ops);
        world.disk(0).vanish();
        tokio::select! {
            biased;
            () = world.wait_for_power_failure() => {}
            changed = index.set_disks(all[1..].to_vec()) => assert!(changed.is_ok()),
        }
        let survived = !world.power_failed();
        let after = world.crash(1_000_000 + ops);
        let index = open(&after, 2).await.unwrap();
        assert_eq!(index.applied(), 3);
        check(&*index.view(), &model).await;
        assert_eq!(
            index.verify().await.unwrap(),
            0,
            "at {ops}: half a copy counts"
        );
        assert_eq!(index.status().await.copies, 2);
        if survived {
            assert!(ops > 20);
            return;
        }
    }
}
