//! Listing while others change the keys.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use dewar_env::sim::SimRng;
use dewar_store::api::ListRequest;

use crate::bench::Process;

/// One page of keys, each of which must be there, or must not, as far as that is known.
pub(super) async fn page(process: &Process, rng: &SimRng) {
    let bench = &process.bench;
    bench.ops.fetch_add(1, Ordering::Relaxed);
    let after = if rng.coin() {
        bench.key(rng)
    } else {
        String::new()
    };
    let prefix = if rng.coin() {
        format!("{}/", bench.dirs.lock()[0])
    } else {
        String::new()
    };
    let request = ListRequest {
        bucket: process.bucket(),
        prefix: prefix.clone(),
        delimiter: String::new(),
        after: after.clone(),
        max: 1 + crate::plan::pick(rng, 20),
    };
    let since = bench.model.lock().tick();
    let page = match process.store.list(&process.caller, request).await {
        Ok(page) => page,
        Err(error) => {
            bench.trace.note(format_args!("list: {error}"));
            if !process.excuses(true) {
                bench.fail(format!("a listing failed: {error:?}"));
            }
            return;
        }
    };
    let listed: BTreeMap<&str, u64> = page
        .objects
        .iter()
        .map(|object| (object.key.as_str(), object.size))
        .collect();
    bench
        .trace
        .note(format_args!("list {prefix:?} after {after:?}: {listed:?}"));
    let model = bench.model.lock();
    let mut wrong = None;
    for key in model.keys() {
        let inside = key.starts_with(&prefix)
            && key > after
            && page.next.as_ref().is_none_or(|next| key <= *next);
        if !inside {
            continue;
        }
        let values = model.values(&key, since);
        let fits = match listed.get(key.as_str()) {
            Some(size) => values
                .iter()
                .flatten()
                .any(|content| content.len() == *size),
            None => values.contains(&None),
        };
        if !fits {
            wrong = Some(format!(
                "{key} is listed as {:?}; possible are {values:?}, of {}",
                listed.get(key.as_str()),
                model.describe(&key)
            ));
        }
    }
    let known = model.keys();
    if let Some(other) = listed.keys().find(|key| !known.iter().any(|k| k == *key)) {
        wrong = Some(format!("{other} is listed, which nobody wrote"));
    }
    drop(model);
    if let Some(wrong) = wrong {
        bench.fail(wrong);
    }
}
