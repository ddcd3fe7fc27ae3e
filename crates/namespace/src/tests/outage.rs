//! Changes that are told to have failed, and happen when the disks are back.

use std::time::Duration;

use super::engines::TestEngine;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_directory_that_moves_after_its_mover_was_told_of_a_failure_is_found_where_it_is() {
    let mut engine = TestEngine::embedded().await;
    let tree = engine.open().await;
    let bucket = make_bucket(&tree, "one").await;
    put(&tree, &bucket, "d/a").await;
    let TestEngine::Embedded { world, .. } = &engine else {
        panic!("it has disks");
    };
    world.disks().iter().for_each(|disk| disk.hang());
    let options = RenameOptions::default();
    let (from, to) = (key("d"), key("e"));
    let moved = tree
        .rename_dir(&ALICE, (&bucket, &from), (&bucket, &to), options)
        .await;
    let error = moved.expect_err("no disk answers");
    assert!(!error.left_unchanged(), "{error:?}");
    // Readers still find it, and look at its directory anew.
    let found = async |name: &str| {
        let found = tree.lookup(&bucket, &key(name)).await;
        found.expect("readable").is_some()
    };
    assert!(found("d/a").await && !found("e/a").await);
    world.disks().iter().for_each(|disk| disk.resume());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(found("e/a").await, "it became durable");
    assert!(!found("d/a").await, "and the directory is another's by now");
    assert_sound(&tree).await;
}
