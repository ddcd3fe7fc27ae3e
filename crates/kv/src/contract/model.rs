//! Random operations against a plain map.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::bytes;
use crate::{Batch, CommitError, Kv, KvRead, Precondition, ReadValue, Scan};

/// The expected content of the engine: values and counters alike, as bytes.
pub type Model = BTreeMap<Bytes, Bytes>;

/// A small random number generator; its sequence depends only on its seed.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts from any seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize) % n.max(1)
    }
}

/// Applies a batch to the model as the engine must; `Err` is the index of the failed precondition.
pub fn apply(model: &mut Model, batch: &Batch) -> Result<(), usize> {
    for (index, require) in batch.require.iter().enumerate() {
        let holds = match require {
            Precondition::Same { key, value, .. } => model.get(key) == value.as_ref(),
            Precondition::Empty { from, to } => !model
                .range(from.clone()..)
                .any(|(key, _)| to.is_empty() || key < to),
            Precondition::AtMost { counter, max } => count_in(model, counter) <= *max,
        };
        if !holds {
            return Err(index);
        }
    }
    for (key, value) in &batch.puts {
        model.insert(key.clone(), value.clone());
    }
    for key in &batch.deletes {
        model.remove(key);
    }
    for (key, delta) in &batch.adds {
        let sum = count_in(model, key) + delta;
        model.insert(key.clone(), bytes(sum.to_be_bytes()));
    }
    Ok(())
}

fn count_in(model: &Model, counter: &Bytes) -> i64 {
    model.get(counter).map_or(0, |value| {
        i64::from_be_bytes(value[..].try_into().expect("a counter has 8 bytes"))
    })
}

/// Everything in `kv` equals the model, by a scan forward, one backward, and gets.
pub async fn compare(kv: &dyn KvRead, model: &Model, context: &str) {
    for reverse in [false, true] {
        let page = kv
            .scan(Scan {
                from: b"",
                to: b"",
                limit: usize::MAX,
                reverse,
            })
            .await
            .expect("scan");
        let mut expected: Vec<_> = model
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if reverse {
            expected.reverse();
        }
        assert_eq!(page.pairs, expected, "{context}, reverse {reverse}");
    }
    for i in 0..KEYS {
        for key in [plain(i), counter(i)] {
            let read = kv.get(&key).await.expect("get");
            assert_eq!(read.value.as_ref(), model.get(&key), "{context}");
        }
    }
}

const KEYS: usize = 24;

fn plain(i: usize) -> Bytes {
    bytes(format!("k{i:02}"))
}

fn counter(i: usize) -> Bytes {
    bytes(format!("n{:02}", i % 6))
}

/// A random batch; preconditions come from `reads`, which may be stale.
pub fn random_batch(dice: &mut Dice, reads: &[(Bytes, ReadValue)], step: usize) -> Batch {
    let mut batch = Batch::default();
    let mut used = Vec::new();
    for _ in 0..=dice.below(4) {
        let i = dice.below(KEYS);
        let key = if dice.below(10) == 0 {
            counter(i)
        } else {
            plain(i)
        };
        if used.contains(&key) {
            continue;
        }
        used.push(key.clone());
        match dice.below(3) {
            0 => batch.deletes.push(key),
            _ if key[0] == b'n' => {
                let value = bytes((step as i64).to_be_bytes());
                batch.puts.push((key, value));
            }
            _ => {
                let value = bytes(format!("{step}-{}", "x".repeat(dice.below(60))));
                batch.puts.push((key, value));
            }
        }
    }
    for _ in 0..dice.below(3) {
        let key = counter(dice.below(6));
        if !used.contains(&key) {
            batch.adds.push((key, dice.below(20) as i64 - 10));
        }
    }
    if dice.below(2) == 0 && !reads.is_empty() {
        let (key, read) = &reads[dice.below(reads.len())];
        batch.require.push(Precondition::same(key.clone(), read));
    }
    if dice.below(6) == 0 {
        let from = dice.below(KEYS);
        batch.require.push(Precondition::Empty {
            from: plain(from),
            to: plain(from + dice.below(4)),
        });
    }
    if dice.below(6) == 0 {
        batch.require.push(Precondition::AtMost {
            counter: counter(dice.below(6)),
            max: dice.below(60) as i64 - 10,
        });
    }
    if dice.below(4) == 0 {
        batch.log.push(bytes(format!("change {step}")));
    }
    batch
}

/// A few hundred random batches, snapshots and comparisons, for several seeds.
pub async fn random_operations_match_the_model(kv: Arc<dyn Kv>) {
    let mut model = Model::new();
    let mut log: Vec<(u64, Bytes)> = Vec::new();
    let mut views: Vec<(Arc<dyn KvRead>, Model)> = Vec::new();
    let mut reads: Vec<(Bytes, ReadValue)> = Vec::new();
    let mut dice = Dice::new(7);
    for step in 0..600 {
        if dice.below(2) == 0 {
            let key = plain(dice.below(KEYS));
            let read = kv.get(&key).await.expect("get");
            reads.push((key, read));
            if reads.len() > 12 {
                reads.remove(dice.below(12));
            }
        }
        let batch = random_batch(&mut dice, &reads, step);
        let expected = apply(&mut model, &batch);
        let records = batch.log.clone();
        match (kv.commit(batch).await, expected) {
            (Ok(seq), Ok(())) => log.extend(records.into_iter().map(|record| (seq, record))),
            (Err(CommitError::Conflict(got)), Err(index)) => assert_eq!(got, index),
            (got, expected) => panic!("step {step}: got {got:?}, expected {expected:?}"),
        }
        if dice.below(20) == 0 {
            views.push((kv.snapshot(), model.clone()));
        }
        if dice.below(25) == 0 && !views.is_empty() {
            let (view, then) = views.swap_remove(dice.below(views.len()));
            compare(&*view, &then, &format!("a snapshot at step {step}")).await;
        }
        if dice.below(40) == 0 {
            compare(&*kv, &model, &format!("step {step}")).await;
        }
    }
    for (view, then) in views {
        compare(&*view, &then, "a snapshot at the end").await;
    }
    compare(&*kv, &model, "the end").await;
    let changes = kv.changes(0, usize::MAX).await.expect("changes");
    assert_eq!(changes, log);
}
