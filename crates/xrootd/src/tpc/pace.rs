//! How slow a source may be.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

/// The slowest that a source may be. A slower one holds a place that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes a second, on average over [`Self::over`]; 0 takes any.
    pub rate_min: u64,
    /// The time in which the source was waited for; what this server's disks take is not counted.
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
pub(super) struct Slow {
    came: u64,
    pace: Pace,
}

impl std::fmt::Display for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { came, pace } = self;
        let (time, least) = (pace.over.as_secs_f64(), pace.rate_min);
        write!(
            f,
            "the source sent {came} bytes in {time:.0} s of waiting, less than {least} in a second"
        )
    }
}

/// Watches a source.
pub(super) struct Watch {
    pace: Pace,
    waited: Duration,
    came: u64,
}

impl Watch {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            waited: Duration::ZERO,
            came: 0,
        }
    }

    /// Bytes came.
    pub(super) fn came(&mut self, bytes: u64) {
        self.came += bytes;
    }

    /// Waits for the source.
    ///
    /// # Errors
    /// [`Slow`].
    pub(super) async fn wait<T>(&mut self, source: impl Future<Output = T>) -> Result<T, Slow> {
        let mut source = pin!(source);
        loop {
            let left = self.pace.over.saturating_sub(self.waited);
            let begun = Instant::now();
            let outcome = timeout(left, &mut source).await;
            self.waited += begun.elapsed();
            if self.waited >= self.pace.over {
                self.judge()?;
            }
            if let Ok(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }

    /// Whether enough came in the time that is over; another one begins.
    fn judge(&mut self) -> Result<(), Slow> {
        let (came, waited) = (self.came, self.waited);
        (self.came, self.waited) = (0, Duration::ZERO);
        let least = u128::from(self.pace.rate_min) * waited.as_millis() / 1000;
        match u128::from(came) < least {
            true => Err(Slow {
                came,
                pace: self.pace,
            }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const PACE: Pace = Pace {
        rate_min: 1000,
        over: Duration::from_secs(60),
    };

    async fn piece(watch: &mut Watch, bytes: u64, after: u64) -> Result<(), Slow> {
        watch.wait(sleep(Duration::from_secs(after))).await?;
        watch.came(bytes);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_or_little_is_not_waited_for() {
        let begun = Instant::now();
        let slow = piece(&mut Watch::new(PACE), 1, 9999).await;
        let slow = slow.expect_err("nothing came").to_string();
        assert_eq!(begun.elapsed().as_secs(), 60);
        let said = "the source sent 0 bytes in 60 s of waiting, less than 1000 in a second";
        assert_eq!(slow, said);
        // A little now and then; and much at first, which helps for one time only.
        for first in [5_000, 10_000_000] {
            let mut watch = Watch::new(PACE);
            piece(&mut watch, first, 1).await.expect("so far");
            let begun = Instant::now();
            while piece(&mut watch, 5_000, 7).await.is_ok() {
                assert!(begun.elapsed().as_secs() < 180, "it goes on");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_fast_enough_goes_on() {
        let mut watch = Watch::new(PACE);
        for _ in 0..100 {
            piece(&mut watch, 8_000, 7).await.expect("fast enough");
            // The disks may take as long as they like.
            sleep(Duration::from_secs(100)).await;
        }
        let any = Pace {
            rate_min: 0,
            ..PACE
        };
        let waited = piece(&mut Watch::new(any), 1, 9999).await;
        waited.expect("any will do");
    }
}
