//! Log messages about reads that avoid a disk. The messages are rate-limited, because with an
//! absent disk every read avoids it.

use std::collections::BTreeMap;
use std::time::Duration;

use dewar_types::DiskId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// After it was said of a disk, the same trouble with it is only counted for this long.
const QUIET: Duration = Duration::from_secs(60);

/// What was said lately: an entry for each disk and kind of trouble, so bounded by the disks.
#[derive(Debug, Default)]
pub(super) struct LogThrottle {
    said: Mutex<BTreeMap<(DiskId, &'static str), ThrottleEntry>>,
}

#[derive(Debug)]
struct ThrottleEntry {
    at: Instant,
    unsaid: u64,
}

impl LogThrottle {
    /// Whether to say now that there is this trouble with a disk; then, how often it was not said
    /// since the last time.
    pub(super) fn due(&self, disk: DiskId, trouble: &'static str) -> Option<u64> {
        let now = Instant::now();
        let mut said = self.said.lock();
        match said.get_mut(&(disk, trouble)) {
            Some(notice) if now < notice.at + QUIET => {
                notice.unsaid += 1;
                None
            }
            Some(notice) => {
                notice.at = now;
                Some(core::mem::take(&mut notice.unsaid))
            }
            None => {
                said.insert((disk, trouble), ThrottleEntry { at: now, unsaid: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn is_said_once_a_minute_for_each_disk_and_trouble() {
        let notices = LogThrottle::default();
        let (one, other) = (DiskId(1), DiskId(2));
        assert_eq!(notices.due(one, "missing"), Some(0));
        assert_eq!(notices.due(other, "missing"), Some(0));
        assert_eq!(notices.due(one, "page"), Some(0));
        for _ in 0..5 {
            assert_eq!(notices.due(one, "missing"), None);
        }
        tokio::time::advance(QUIET).await;
        assert_eq!(notices.due(one, "missing"), Some(5));
        assert_eq!(notices.due(one, "missing"), None);
        assert_eq!(notices.due(other, "missing"), Some(0));
    }
}
