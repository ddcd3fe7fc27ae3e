//! Copies of an index, and indexes founded on them.

use super::*;
use crate::index::sorted_runs::{ReadOnlyRuns, RunFile, remains, runs_in_files};
use dewar_env::CreateOptions;

async fn bytes_of(held: &ReadOnlyRuns, n: usize) -> Vec<u8> {
    let mut reader = held.reader(n).expect("a run");
    let mut bytes = Vec::new();
    while let Some(some) = reader.next().await.expect("readable") {
        bytes.extend_from_slice(&some);
    }
    bytes
}

fn path(file: &RunFile) -> String {
    format!("index/{:016x}.run", file.id)
}

#[tokio::test(start_paused = true)]
async fn a_held_state_is_copied_and_founds_another_index() {
    let world = SimWorld::with_disks(1, 4);
    let rng = SimRng::new(1);
    let index = create(&world, 3).await.expect("made");
    let mut model = fill(&index, &rng, 5).await;
    let held = index.hold();
    let files = held.files();
    // What comes later does not touch it, and neither does merging.
    for n in 0..40 {
        let upto = index.applied() + 1;
        let entries = vec![(key(n), Some(Bytes::from_static(b"later")))];
        index.apply(entries, upto).await.expect("applied");
    }
    index.settle().await;
    assert_eq!(held.applied(), 5);
    let other = SimWorld::with_disks(2, 4);
    let store: Arc<dyn Disk> = Arc::new(other.disk(3));
    let mut copied = Vec::new();
    for (n, file) in files.iter().enumerate() {
        let bytes = bytes_of(&held, n).await;
        assert_eq!(bytes.len() as u64, file.len);
        assert_eq!(dewar_checksum::crc32c(&bytes), file.crc);
        let made = store.create(&path(file), CreateOptions::default()).await;
        made.expect("new")
            .write_at(0, vec![bytes.into()])
            .await
            .expect("written");
        copied.push((*file, Arc::clone(&store), path(file)));
    }
    let runs = runs_in_files(copied.clone(), 5).await.expect("opened");
    check(&*runs.view(), &model).await;

    let there: Disks = disks(&other).into_iter().take(3).collect();
    let top = vec![
        (key(1), None),
        (Bytes::from_static(b"z"), Some(Bytes::from_static(b"top"))),
    ];
    put(&mut model, &top);
    let founded = RunIndex::bootstrap(
        other.env(),
        there.clone(),
        config(3),
        Some(&runs),
        top,
        1_000,
    );
    let (founded, lost) = founded.await.expect("founded");
    assert!(lost.is_empty());
    assert_eq!(founded.applied(), 1_000);
    check(&*founded.view(), &model).await;
    drop(founded);
    let other = other.crash(1);
    let there: Disks = disks(&other).into_iter().take(3).collect();
    let opened = RunIndex::open(other.env(), there, config(3))
        .await
        .expect("opened");
    assert_eq!(opened.status().await.copies, 3);
    check(&*opened.view(), &model).await;
    // One that is cut off is refused by its name.
    let (file, _, _) = copied[0];
    other.disk(3).lose_file(&path(&file));
    let store: Arc<dyn Disk> = Arc::new(other.disk(3));
    let error = runs_in_files(vec![(file, store, path(&file))], 5).await;
    let error = error.err().expect("it is gone").to_string();
    assert!(error.contains(&path(&file)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_no_copy_has_right_is_named_and_the_rest_is_kept() {
    let world = SimWorld::with_disks(3, 3);
    let index = create(&world, 2).await.expect("made");
    let mut model = Model::new();
    let entries: Vec<Entry> = (0..4_000)
        .map(|n| (format!("e/{n:05}").into(), Some(Bytes::from(vec![7; 50]))))
        .collect();
    put(&mut model, &entries);
    index.apply(entries, 1).await.expect("applied");
    let file = index.hold().files()[0];
    drop(index);
    let world = world.kill(1);
    let whole = remains(disks(&world), &config(2), true)
        .await
        .expect("there");
    assert_eq!(
        (whole.copies, whole.bad_pieces, whole.lost.len()),
        (2, 0, 0)
    );
    // In one copy it is only a bad piece, in both it is lost.
    for (disk, (bad, lost)) in [(0, (1, 0)), (1, (2, 1))] {
        assert!(world.disk(disk).flip_bit(&path(&file), 40_000, 2));
        let found = remains(disks(&world), &config(2), true)
            .await
            .expect("there");
        assert!(found.bad_pieces >= bad, "{}", found.bad_pieces);
        assert_eq!(found.lost.len(), lost);
        if let Some(lost) = found.lost.first() {
            let (after, before) = (lost.after.clone(), lost.before.clone());
            let (after, before) = (after.expect("not first"), before.expect("not last"));
            let env = world.env();
            let founded =
                RunIndex::bootstrap(env, disks(&world), config(2), Some(&found.runs), vec![], 2);
            let (founded, told) = founded.await.expect("founded");
            assert_eq!(told, found.lost);
            model.retain(|key, _| *key <= after || *key >= before);
            assert!(model.len() < 4_000 && model.len() > 3_000);
            check(&*founded.view(), &model).await;
        }
    }
}
