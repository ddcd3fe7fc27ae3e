//! The objects a campaign has put into a bucket, by number.

/// The objects of one size in one target's bucket, during one repeat of the campaign.
#[derive(Clone, Debug)]
pub(super) struct ObjectSet {
    /// The prefix of their keys, which end with their number. No other key has this prefix.
    pub(super) prefix: String,
    pub(super) size_bytes: u64,
    /// Numbers of the objects that are there.
    pub(super) live: Vec<u64>,
    /// Numbers of objects of failed requests, which may or may not exist.
    pub(super) doubtful: Vec<u64>,
    /// The next number that was never used.
    pub(super) next: u64,
}

impl ObjectSet {
    pub(super) fn new(prefix: String, size_bytes: u64) -> Self {
        Self {
            prefix,
            size_bytes,
            live: Vec::new(),
            doubtful: Vec::new(),
            next: 0,
        }
    }

    /// The key of an object: fixed width, so that numbers and keys sort alike.
    pub(super) fn key(&self, number: u64) -> String {
        format!("{}{number:010}", self.prefix)
    }

    /// Takes note of what a step did.
    pub(super) fn apply(&mut self, change: &Change) {
        self.next = self.next.max(change.next);
        let removed: std::collections::BTreeSet<_> =
            change.removed.iter().chain(&change.doubtful).collect();
        self.live.retain(|number| !removed.contains(number));
        self.live.extend(
            change
                .created
                .iter()
                .filter(|number| !removed.contains(number)),
        );
        self.live.sort_unstable();
        self.doubtful.extend(&change.doubtful);
    }
}

/// The changes of objects by a worker, or by a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) created: Vec<u64>,
    pub(super) removed: Vec<u64>,
    pub(super) doubtful: Vec<u64>,
    /// The first unused number.
    pub(super) next: u64,
}

impl Change {
    pub(super) fn merge(&mut self, other: Self) {
        self.created.extend(other.created);
        self.removed.extend(other.removed);
        self.doubtful.extend(other.doubtful);
        self.next = self.next.max(other.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_requests_leave_doubtful_objects_out() {
        let mut set = ObjectSet::new("p/".to_owned(), 1);
        set.apply(&Change {
            created: vec![2, 0],
            doubtful: vec![1],
            next: 3,
            ..Change::default()
        });
        assert_eq!(
            (&set.live[..], &set.doubtful[..], set.next),
            (&[0, 2][..], &[1][..], 3)
        );
        set.apply(&Change {
            created: vec![3, 4],
            removed: vec![0, 3],
            next: 5,
            ..Change::default()
        });
        assert_eq!((&set.live[..], set.next), (&[2, 4][..], 5));
        assert_eq!(set.key(4), "p/0000000004");
    }
}
