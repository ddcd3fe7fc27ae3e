//! Damage to files on a disk, aimed at one kind of file.
//!
//! A random bit flip mostly hits bytes that nothing will ever read, or that a decoder refuses
//! whatever their checksum. There are therefore many flips, at positions whose bytes are used.

use bytes::Bytes;
use dewar_env::disk::sim::SimDisk;
use dewar_env::sim::SimRng;

use crate::plan::{Focus, pick, shuffle};

const PAGE: usize = 4096;

/// Bytes of a journal file's header that say something.
const LOG_HEADER: usize = 96;

/// Bytes of an epoch file before what it says.
const EPOCH_HEAD: usize = 20;

/// Does what the seed dwells on to what stands on a disk, if that is damage.
pub(crate) fn dwell(disk: &SimDisk, focus: Focus, rng: &SimRng) -> Option<&'static str> {
    Some(match focus {
        Focus::Upkeep => {
            disk.rot("blobs/", 1 + pick(rng, 10));
            "bits of shards flipped"
        }
        Focus::Shards if rng.coin() => {
            exchange_bodies(disk, rng);
            "shards got each other's pages"
        }
        Focus::Shards => {
            disk.rot("blobs/", 50 + pick(rng, 200));
            "bits of shards flipped"
        }
        Focus::Index => {
            // One or two in a piece: more of them no decoder takes.
            // Nor is anything read from a disk whose manifest is damaged.
            for (path, content) in files(disk, |path| path.ends_with(".run")) {
                let count = 1 + content.len() / 8000;
                flip(disk, &path, 0, content.len(), 1 + pick(rng, count), rng);
            }
            "bits of the index flipped"
        }
        Focus::Log if rng.coin() => {
            for (path, _) in files(disk, |path| path.ends_with(".log")) {
                let reach = if rng.coin() { LOG_HEADER } else { PAGE };
                flip(disk, &path, 0, reach, 1 + pick(rng, 3), rng);
            }
            "headers of the journal flipped"
        }
        Focus::Log => {
            for (path, content) in files(disk, |path| path.ends_with(".log")) {
                let end = content.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                if end > PAGE {
                    flip(disk, &path, PAGE, end, 1 + pick(rng, 60), rng);
                }
            }
            "records of the journal flipped"
        }
        Focus::EpochFiles => {
            for (path, content) in files(disk, |path| path == "journal/epoch") {
                if content.len() > EPOCH_HEAD {
                    let count = 1 + pick(rng, 2);
                    flip(disk, &path, EPOCH_HEAD, content.len(), count, rng);
                }
            }
            "bits of an epoch file flipped"
        }
        _ => return None,
    })
}

/// Files and what is in them.
fn files(disk: &SimDisk, wanted: impl Fn(&str) -> bool) -> Vec<(String, Bytes)> {
    let mut paths = disk.paths();
    paths.retain(|path| wanted(path));
    let content = |path: String| disk.peek(&path).map(|content| (path, content));
    paths.into_iter().filter_map(content).collect()
}

/// Inverts so many bits of a range.
fn flip(disk: &SimDisk, path: &str, from: usize, to: usize, count: usize, rng: &SimRng) {
    for _ in 0..count {
        let at = from + pick(rng, to - from);
        disk.flip_bit(path, at as u64, (rng.next() % 8) as u32);
    }
}

/// Shards get each other's pages, checksum pages and all, but keep their headers: what writes do
/// that go to the right place of the wrong file.
fn exchange_bodies(disk: &SimDisk, rng: &SimRng) {
    let mut files = files(disk, |path| path.starts_with("blobs/"));
    shuffle(rng, &mut files);
    // Where lengths differ what is read of the shorter one is too short.
    files.sort_by_key(|(_, content)| content.len());
    for pair in files.chunks_exact(2) {
        let [(a, of_a), (b, of_b)] = pair else {
            continue;
        };
        let len = of_a.len().min(of_b.len());
        if len > PAGE && rng.below(4) > 0 {
            disk.tamper(a, PAGE as u64, &of_b[PAGE..len]);
            disk.tamper(b, PAGE as u64, &of_a[PAGE..len]);
        }
    }
}
