//! One audit record for a request that decides about many names.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{AuditRecord, AuditSink};

/// Names that a summarized record lists; the others are only counted.
pub const BATCH_NAMES_MAX: usize = 10;

/// Kinds of decisions that a batch records separately. Further ones are added to the last equal
/// action.
const BATCH_RECORDS_MAX: usize = 16;

/// Collects the decisions of one request and passes them on when it is dropped. It makes one record
/// for all decisions with the same action, outcome and reason.
pub struct AuditBatch {
    sink: Arc<dyn AuditSink>,
    records: Mutex<Vec<AuditRecord>>,
}

impl AuditBatch {
    /// An empty batch whose records go to `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn AuditSink>) -> Self {
        Self {
            sink,
            records: Mutex::default(),
        }
    }
}

impl AuditSink for AuditBatch {
    fn keeps_reads(&self) -> bool {
        self.sink.keeps_reads()
    }

    fn is_ready(&self) -> bool {
        self.sink.is_ready()
    }

    fn record(&self, record: AuditRecord) {
        let mut records = self.records.lock();
        let same_kind = |other: &AuditRecord| {
            other.event == record.event
                && other.outcome == record.outcome
                && other.action == record.action
        };
        let is_full = records.len() >= BATCH_RECORDS_MAX;
        let equal = records
            .iter()
            .rposition(|other| same_kind(other) && other.why == record.why);
        let found = equal.or_else(|| {
            let last = records.iter().rposition(same_kind);
            last.filter(|_| is_full)
        });
        match found.and_then(|at| records.get_mut(at)) {
            Some(into) => add(into, record),
            None => records.push(record),
        }
    }
}

/// Adds a decision to an equal one.
fn add(into: &mut AuditRecord, record: AuditRecord) {
    if into.count == 1 {
        into.names.push(into.target.clone());
    }
    if into.why != record.why {
        into.why = "several reasons, of which the log has no more room for one by one".to_owned();
    }
    into.count += record.count;
    let shared = shared_folder(&into.target, &record.target).len();
    into.target.truncate(shared);
    if into.names.len() < BATCH_NAMES_MAX {
        into.names.push(record.target);
    }
}

/// The longest path, by components, that both paths are or lie below.
fn shared_folder<'a>(left: &'a str, right: &str) -> &'a str {
    let mut end = 0;
    for (at, _) in left.match_indices('/').chain([(left.len(), "")]) {
        let (ours, others) = (left.get(..at), right.get(..at));
        let ends = right.len() == at || right.as_bytes().get(at) == Some(&b'/');
        if ours != others || !ends {
            break;
        }
        end = at;
    }
    left.get(..end).unwrap_or_default()
}

impl Drop for AuditBatch {
    fn drop(&mut self) {
        for record in self.records.get_mut().drain(..) {
            self.sink.record(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caller, Origin};

    #[derive(Default)]
    struct Recorder(Mutex<Vec<AuditRecord>>);

    impl AuditSink for Recorder {
        fn keeps_reads(&self) -> bool {
            false
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn record(&self, record: AuditRecord) {
            self.0.lock().push(record);
        }
    }

    fn record(target: &str) -> AuditRecord {
        let origin = Origin {
            address: None,
            secure: true,
        };
        AuditRecord::of(&Caller::anonymous(origin), "s3:DeleteObject", target.into())
    }

    #[test]
    fn equal_decisions_become_one_record() {
        let recorder = Arc::new(Recorder::default());
        let batch = AuditBatch::new(Arc::clone(&recorder) as _);
        for n in 0..1000 {
            batch.record(record(&format!("/data/run/{n}")));
        }
        batch.record(record("/data/secret").refused("nothing allows it"));
        drop(batch);
        let found = recorder.0.lock();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].count, found[0].target.as_str()),
            (1000, "/data/run")
        );
        assert_eq!(found[0].names.len(), BATCH_NAMES_MAX);
        assert_eq!(found[0].names[..2], ["/data/run/0", "/data/run/1"]);
        assert_eq!(
            (found[1].count, found[1].target.as_str()),
            (1, "/data/secret")
        );
        assert!(found[1].names.is_empty());
    }

    #[test]
    fn a_batch_keeps_a_bounded_number_of_records() {
        let recorder = Arc::new(Recorder::default());
        let batch = AuditBatch::new(Arc::clone(&recorder) as _);
        for n in 0..1000 {
            batch.record(record(&format!("/data/{n}")).refused(format!("statement {n}")));
        }
        drop(batch);
        let found = recorder.0.lock();
        assert_eq!(found.len(), BATCH_RECORDS_MAX);
        assert_eq!(found.iter().map(|record| record.count).sum::<u64>(), 1000);
    }

    #[test]
    fn a_shared_folder_ends_at_a_whole_component() {
        assert_eq!(shared_folder("/data/ab", "/data/ac"), "/data");
        assert_eq!(shared_folder("/data/a", "/data/ab"), "/data");
        assert_eq!(shared_folder("/data/a", "/data/a"), "/data/a");
        assert_eq!(shared_folder("/data/a/b", "/data/a"), "/data/a");
        assert_eq!(shared_folder("/data", "/other"), "");
    }
}
