//! Runs one target on many inputs, catches its panics, and notices when it does not come back.
#![allow(
    clippy::disallowed_methods,
    reason = "real time limits the search, nothing else"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};

use crate::mutate::{self, Random};

/// How to run.
pub(crate) struct FuzzPlan<'a> {
    pub(crate) seed: u64,
    pub(crate) limit: Duration,
    /// The folder for an input that fails.
    pub(crate) artifacts: &'a Path,
}

/// An input that fails, made smaller.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) path: PathBuf,
    pub(crate) len: usize,
}

/// A target that needs longer for one input has hung.
const HANG: Duration = Duration::from_secs(10);
/// Attempts to make a failing input smaller.
const SHRINK_TRIES: usize = 2_000;

/// A seed that is another one each time.
pub(crate) fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Runs `target` until the time is over or an input fails; prints the number of inputs that passed.
pub(crate) fn run(
    name: &str,
    target: fn(&[u8]),
    samples: &[Vec<u8>],
    plan: &FuzzPlan<'_>,
) -> Result<Result<u64, Failure>> {
    let watch = Watch::start(name, plan.artifacts);
    let mut random = Random::new(plan.seed);
    let mut input = Vec::new();
    let begun = Instant::now();
    let mut count = 0;
    // The samples themselves first.
    let mut whole = samples.iter();
    while count == 0 || begun.elapsed() < plan.limit {
        match whole.next() {
            Some(sample) => input.clone_from(sample),
            None => mutate::input(samples, &mut random, &mut input),
        }
        watch.begin(&input);
        if !passes(target, &input) {
            let small = shrink(target, input, &watch);
            let path = write(plan.artifacts, name, &small)?;
            return Ok(Err(Failure {
                path,
                len: small.len(),
            }));
        }
        count += 1;
    }
    Ok(Ok(count))
}

fn passes(target: fn(&[u8]), input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(input))).is_ok()
}

/// Removes pieces, large ones first, as long as the rest still fails.
fn shrink(target: fn(&[u8]), mut input: Vec<u8>, watch: &Watch) -> Vec<u8> {
    // The message was printed once; a thousand times would hide it.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut piece = input.len() / 2;
    let mut tries = 0;
    while piece > 0 && tries < SHRINK_TRIES {
        let mut at = 0;
        while at + piece <= input.len() && tries < SHRINK_TRIES {
            tries += 1;
            let mut smaller = input.clone();
            smaller.drain(at..at + piece);
            watch.begin(&smaller);
            if passes(target, &smaller) {
                at += piece;
            } else {
                input = smaller;
            }
        }
        piece /= 2;
    }
    std::panic::set_hook(hook);
    input
}

fn write(folder: &Path, name: &str, input: &[u8]) -> Result<PathBuf> {
    let sum = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let path = folder.join(format!("{name}-{sum:016x}"));
    std::fs::write(&path, input).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// A thread that ends the process, with the input written down, when one input takes too long.
struct Watch {
    current: Arc<Mutex<(Instant, Vec<u8>)>>,
    /// Dropping it ends the thread.
    _end: mpsc::Sender<()>,
}

impl Watch {
    fn start(name: &str, artifacts: &Path) -> Self {
        let current = Arc::new(Mutex::new((Instant::now(), Vec::new())));
        let (end, ended) = mpsc::channel();
        let (watched, name, artifacts) =
            (Arc::clone(&current), name.to_owned(), artifacts.to_owned());
        std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_secs(1)) {
                let current = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if current.0.elapsed() > HANG {
                    let path = write(&artifacts, &name, &current.1);
                    println!("{name}: no answer within {} s: {path:?}", HANG.as_secs());
                    std::process::exit(2);
                }
            }
        });
        Self { current, _end: end }
    }

    fn begin(&self, input: &[u8]) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.0 = Instant::now();
        current.1.clear();
        current.1.extend_from_slice(input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_shrunk_and_written() {
        fn fragile(input: &[u8]) {
            assert!(
                !input.windows(2).any(|two| two == [b'%', b'\n']),
                "a planted mistake"
            );
        }
        let dir = tempfile::tempdir().expect("a folder");
        let plan = FuzzPlan {
            seed: 7,
            limit: Duration::from_secs(20),
            artifacts: dir.path(),
        };
        let samples = [b"some text with 100% of it\r\n in two lines".to_vec()];
        let failure = run("fragile", fragile, &samples, &plan)
            .expect("runs")
            .expect_err("fails");
        assert_eq!(failure.len, 2);
        assert_eq!(std::fs::read(failure.path).expect("written"), b"%\n");
    }

    #[test]
    fn what_does_not_fail_passes() {
        let dir = tempfile::tempdir().expect("a folder");
        let plan = FuzzPlan {
            seed: 7,
            limit: Duration::from_millis(20),
            artifacts: dir.path(),
        };
        let count = run("fine", |_| {}, &[Vec::new()], &plan)
            .expect("runs")
            .expect("passes");
        assert!(count > 100, "{count}");
    }
}
