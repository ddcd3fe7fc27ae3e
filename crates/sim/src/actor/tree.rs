//! Copying and removing directories with their content.

use dewar_env::sim::SimRng;
use dewar_store::file::{CopyTreeRequest, TreeReport};

use crate::bench::{OpOutcome, Process};

/// Copies a directory and removes the original: a rename in many steps. The caller keeps all others
/// away.
pub(super) async fn move_directory(process: &Process, rng: &SimRng) {
    let (slot, source) = {
        let dirs = process.bench.dirs.lock();
        let slot = crate::plan::pick(rng, dirs.len());
        (slot, dirs[slot].clone())
    };
    let target = format!("d{}", process.bench.number() + 1);
    let inside = format!("{source}/");
    let mut keys = process.bench.model.lock().keys();
    keys.retain(|key| key.starts_with(&inside));
    let copies: Vec<_> = {
        let mut model = process.bench.model.lock();
        let begun = keys.iter().map(|key| {
            let to = format!("{target}/{}", &key[inside.len()..]);
            model.begin_from(&to, key)
        });
        begun.collect()
    };
    let request = CopyTreeRequest {
        source: process.object(&source),
        target: process.object(&target),
        overwrite: true,
    };
    let copied = process
        .ask(rng, process.store.copy_tree(&process.caller, request))
        .await;
    if !is_whole(process, &format!("copy {source}/ to {target}/"), &copied) {
        return;
    }
    // Keys that were there only perhaps may still be absent.
    for copy in &copies {
        process.bench.model.lock().done_perhaps(copy);
    }
    let removals: Vec<_> = {
        let mut model = process.bench.model.lock();
        keys.iter().map(|key| model.begin(key, None)).collect()
    };
    let directory = process.object(&source);
    let removed = process
        .ask(rng, process.store.remove_tree(&process.caller, &directory))
        .await;
    if is_whole(process, &format!("remove {source}/"), &removed) {
        let mut model = process.bench.model.lock();
        removals.iter().for_each(|removal| model.done(removal));
    }
    process.bench.dirs.lock()[slot] = target;
}

/// Whether all names were dealt with. What is known of the others is nothing: the verbs take many
/// steps, and each may have happened.
fn is_whole(process: &Process, what: &str, outcome: &OpOutcome<TreeReport>) -> bool {
    let told = match outcome {
        OpOutcome::Done(report) => format!("{} done, {} failed", report.done, report.failed),
        OpOutcome::Refused(error) | OpOutcome::Undone(error) | OpOutcome::Open(Some(error)) => {
            error.to_string()
        }
        OpOutcome::Open(None) => "left".to_owned(),
    };
    process.bench.trace.note(format_args!("{what}: {told}"));
    matches!(outcome, OpOutcome::Done(report) if report.failed == 0)
}
