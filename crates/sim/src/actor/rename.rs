//! Renaming objects and directories.

use dewar_env::sim::SimRng;
use dewar_store::api::{RenameRequest, WriteCondition};
use dewar_types::GroupId;

use crate::bench::{OpOutcome, Process, object_key};

pub(super) async fn object(process: &Process, rng: &SimRng) {
    let (source, target) = (process.bench.key(rng), process.bench.key(rng));
    if source == target {
        return;
    }
    let request = RenameRequest {
        source: process.object(&source),
        source_condition: WriteCondition::default(),
        target: object_key(&target),
        condition: WriteCondition::default(),
    };
    let (to, from) = {
        let mut model = process.bench.model.lock();
        (
            model.begin_from(&target, &source),
            model.begin(&source, None),
        )
    };
    let outcome = process
        .ask(rng, process.store.rename(&process.caller, request))
        .await;
    process.conclude(
        &format!("rename {source} to {target}"),
        &[to, from],
        &outcome,
    );
}

/// The caller keeps all others away.
pub(super) async fn directory(process: &Process, rng: &SimRng) {
    let (slot, source) = {
        let dirs = process.bench.dirs.lock();
        let slot = crate::plan::pick(rng, dirs.len());
        (slot, dirs[slot].clone())
    };
    let target = format!("d{}", process.bench.number() + 1);
    let request = RenameRequest {
        source: process.object(&format!("{source}/")),
        source_condition: WriteCondition::default(),
        target: object_key(&format!("{target}/")),
        condition: WriteCondition::default(),
    };
    let writes = {
        let mut model = process.bench.model.lock();
        let inside = format!("{source}/");
        let keys = model.keys();
        let mut writes = Vec::new();
        for key in keys {
            if let Some(rest) = key.strip_prefix(&inside) {
                let to = format!("{target}/{rest}");
                writes.push(model.begin_from(&to, &key));
                writes.push(model.begin(&key, None));
            }
        }
        writes
    };
    let outcome = process
        .ask(rng, process.store.rename(&process.caller, request))
        .await;
    if matches!(outcome, OpOutcome::Done(())) {
        // What is in it stays charged to whom it was; what comes is charged to another group, or to the
        // bucket's again.
        let group = slot.is_multiple_of(2);
        let owned = process.own(&target, group.then_some(GroupId(8))).await;
        if let Err(error) = owned {
            let trace = &process.bench.trace;
            trace.note(format_args!("own {target}/: {error}"));
        }
        process.bench.dirs.lock()[slot].clone_from(&target);
        // Keys that were there only perhaps may still be absent.
        let mut model = process.bench.model.lock();
        for write in &writes {
            model.done_perhaps(write);
        }
        drop(model);
        process
            .bench
            .trace
            .note(format_args!("rename {source}/ to {target}/: done"));
    } else {
        process.conclude(&format!("rename {source}/ to {target}/"), &writes, &outcome);
    }
}
