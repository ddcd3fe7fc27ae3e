//! How slow a source may be.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

/// Minimum speed of a source. A slower one blocks a slot that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes a second, on average over [`Self::over`]; 0 accepts any speed.
    pub rate_min: u64,
    /// Time spent waiting for the source; time of this server's disks is not counted.
    pub over: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            rate_min: 64 << 10,
            over: Duration::from_secs(300),
        }
    }
}

/// A source that was too slow.
#[derive(Debug, PartialEq, Eq)]
pub struct SlowSource {
    came: u64,
    pace: Pace,
}

impl std::fmt::Display for SlowSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { came, pace } = self;
        let (time, least) = (pace.over.as_secs_f64(), pace.rate_min);
        write!(
            f,
            "the source sent {came} bytes in {time:.0} s of waiting, less than {least} in a second"
        )
    }
}

/// Watches a source, of which is known how much it has sent in all: also of what is not whole yet, since
/// that may be more than comes in the whole time.
pub struct PaceMonitor {
    pace: Pace,
    waited: Duration,
    /// Bytes that had come when this period began.
    before: u64,
}

impl PaceMonitor {
    /// From now on; `received` bytes have come so far.
    #[must_use]
    pub fn new(pace: Pace, received: u64) -> Self {
        Self {
            pace,
            waited: Duration::ZERO,
            before: received,
        }
    }

    /// Waits for the source.
    ///
    /// # Errors
    /// [`SlowSource`].
    pub async fn wait<T>(
        &mut self,
        source: impl Future<Output = T>,
        received: impl Fn() -> u64,
    ) -> Result<T, SlowSource> {
        let mut source = pin!(source);
        loop {
            let left = self.pace.over.saturating_sub(self.waited);
            let begun = Instant::now();
            let outcome = timeout(left, &mut source).await;
            self.waited += begun.elapsed();
            if self.waited >= self.pace.over {
                self.judge(received())?;
            }
            if let Ok(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }

    /// Whether enough came in the time that is over; another one begins.
    fn judge(&mut self, received: u64) -> Result<(), SlowSource> {
        let (came, waited) = (received.saturating_sub(self.before), self.waited);
        (self.before, self.waited) = (received, Duration::ZERO);
        let least = u128::from(self.pace.rate_min) * waited.as_millis() / 1000;
        match u128::from(came) < least {
            true => Err(SlowSource {
                came,
                pace: self.pace,
            }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::sleep;

    use super::*;

    const PACE: Pace = Pace {
        rate_min: 1000,
        over: Duration::from_secs(60),
    };

    /// A source of which a piece comes at a time.
    struct Source {
        watch: PaceMonitor,
        received: Cell<u64>,
    }

    impl Source {
        fn new(pace: Pace) -> Self {
            Self {
                watch: PaceMonitor::new(pace, 5),
                received: Cell::new(5),
            }
        }

        async fn piece(&mut self, bytes: u64, after: u64) -> Result<(), SlowSource> {
            let came = async {
                sleep(Duration::from_secs(after)).await;
                self.received.set(self.received.get() + bytes);
            };
            self.watch.wait(came, || self.received.get()).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_or_little_is_not_waited_for() {
        let begun = Instant::now();
        let slow = Source::new(PACE).piece(1, 9999).await;
        let slow = slow.expect_err("nothing came").to_string();
        assert_eq!(begun.elapsed().as_secs(), 60);
        let said = "the source sent 0 bytes in 60 s of waiting, less than 1000 in a second";
        assert_eq!(slow, said);
        // A little now and then; and much at first, which helps for one time only.
        for first in [5_000, 10_000_000] {
            let mut source = Source::new(PACE);
            source.piece(first, 1).await.expect("so far");
            let begun = Instant::now();
            while source.piece(5_000, 7).await.is_ok() {
                assert!(begun.elapsed().as_secs() < 180, "it goes on");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_fast_enough_goes_on() {
        let mut source = Source::new(PACE);
        for _ in 0..100 {
            source.piece(8_000, 7).await.expect("fast enough");
            // The disks may take as long as they like.
            sleep(Duration::from_secs(100)).await;
        }
        let any = Pace {
            rate_min: 0,
            ..PACE
        };
        let waited = Source::new(any).piece(1, 9999).await;
        waited.expect("any will do");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_whole_yet_counts() {
        // Many pieces at the same time, none of which is there before the last second.
        let received = Cell::new(0);
        let source = async {
            for _ in 0..150 {
                sleep(Duration::from_secs(1)).await;
                received.set(received.get() + 1050);
            }
        };
        let mut watch = PaceMonitor::new(PACE, 0);
        let waited = watch.wait(source, || received.get()).await;
        waited.expect("fast enough");
    }
}
