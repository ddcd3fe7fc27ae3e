//! The contract of every engine, as functions that the tests of an engine call.
//!
//! Each function gets an empty engine and panics where the engine misbehaves.
//! [`crate::kv_contract`] makes one test of each:
//!
//! ```ignore
//! crate::kv_contract!(async { Arc::new(MemoryKv::new()) as Arc<dyn Kv> });
//! ```

mod batches;
mod concurrency;
mod model;
mod reads;

use std::sync::Arc;

use bytes::Bytes;

pub use batches::*;
pub use concurrency::*;
pub use model::*;
pub use reads::*;

use super::{Batch, CommitError, Kv, KvRead, Scan, ScanPage, Seq};

/// Makes a `#[tokio::test]` of every function of the suite. The argument is an expression for a
/// future that returns a fresh, empty `Arc<dyn Kv>`.
#[macro_export]
macro_rules! kv_contract {
    ($make:expr) => {
        $crate::kv_contract!(@each $make;
            empty_engine_has_nothing,
            put_get_delete,
            values_may_be_empty_and_large,
            scan_goes_both_ways_within_its_bounds,
            scan_limits_and_says_more,
            scan_resumes_without_gap_or_repeat,
            snapshot_stays_as_it_was,
            snapshots_of_different_ages,
            sequences_rise_and_reads_carry_them,
            failed_precondition_changes_nothing,
            same_is_about_the_value,
            same_by_old_reads,
            absent_and_create_once,
            empty_range_precondition,
            empty_range_sees_deletes,
            batch_writing_a_key_twice_is_refused,
            oversized_batch_is_refused,
            adds_sum_up,
            adds_over_puts_and_deletes,
            adds_need_no_precondition,
            counters_in_snapshots_and_scans,
            changes_in_commit_order,
            conflict_is_visible_at_once,
            concurrent_increments_are_exact,
            concurrent_adds_are_exact,
            limits_are_exact,
            transfers_keep_the_sum,
            random_operations_match_the_model,
        );
    };
    (@each $make:expr; $($name:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                let kv: ::std::sync::Arc<dyn $crate::Kv> = $make.await;
                $crate::contract::$name(kv).await;
            }
        )*
    };
}

pub(crate) fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

fn puts(pairs: &[(&str, &str)]) -> Batch {
    Batch {
        puts: pairs
            .iter()
            .map(|(key, value)| (bytes(key), bytes(value)))
            .collect(),
        ..Batch::default()
    }
}

fn deletes(keys: &[&str]) -> Batch {
    Batch {
        deletes: keys.iter().map(bytes).collect(),
        ..Batch::default()
    }
}

fn adds(pairs: &[(&str, i64)]) -> Batch {
    Batch {
        adds: pairs.iter().map(|(key, n)| (bytes(key), *n)).collect(),
        ..Batch::default()
    }
}

async fn commit(kv: &Arc<dyn Kv>, batch: Batch) -> Seq {
    kv.commit(batch).await.expect("the batch must be taken")
}

/// Commits and expects a conflict; gives the index of the failed precondition.
async fn conflict(kv: &Arc<dyn Kv>, batch: Batch) -> usize {
    match kv.commit(batch).await {
        Err(CommitError::Conflict(index)) => index,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

async fn get<R: KvRead + ?Sized>(kv: &R, key: &str) -> Option<String> {
    let read = kv.get(key.as_bytes()).await.expect("get must succeed");
    read.value
        .map(|value| String::from_utf8(value.to_vec()).expect("tests write text"))
}

async fn count<R: KvRead + ?Sized>(kv: &R, key: &str) -> Option<i64> {
    let read = kv.get(key.as_bytes()).await.expect("get must succeed");
    read.value
        .map(|value| i64::from_be_bytes(value[..].try_into().expect("a counter has 8 bytes")))
}

async fn scan<R: KvRead + ?Sized>(kv: &R, from: &str, to: &str, limit: usize) -> ScanPage {
    kv.scan(Scan {
        from: from.as_bytes(),
        to: to.as_bytes(),
        limit,
        reverse: false,
    })
    .await
    .expect("scan must succeed")
}

async fn scan_back<R: KvRead + ?Sized>(kv: &R, from: &str, to: &str, limit: usize) -> ScanPage {
    kv.scan(Scan {
        from: from.as_bytes(),
        to: to.as_bytes(),
        limit,
        reverse: true,
    })
    .await
    .expect("scan must succeed")
}

fn keys(page: &ScanPage) -> Vec<String> {
    page.pairs
        .iter()
        .map(|(key, _)| String::from_utf8(key.to_vec()).expect("tests write text"))
        .collect()
}
