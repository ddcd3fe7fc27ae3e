//! What the operating system knows about this process and its files.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

/// CPU time of the process so far, all threads.
pub fn cpu() -> Duration {
    // SAFETY: `usage` is a plain struct that the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Bytes that the process has had written to disks.
pub fn written() -> u64 {
    field("/proc/self/io", "write_bytes:")
}

/// Resident memory now, in bytes: all of it, and what is not mapped from files.
pub fn resident() -> (u64, u64) {
    let all = field("/proc/self/status", "VmRSS:") * 1024;
    (all, field("/proc/self/status", "RssAnon:") * 1024)
}

fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Wall and CPU time of something.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration, Duration) {
    let (wall, before) = (Instant::now(), cpu());
    let result = work();
    (result, wall.elapsed(), cpu() - before)
}

/// The blocks of 4 KiB of all files under a folder, as hashes; holes count as blocks of zeros.
pub type Blocks = BTreeMap<PathBuf, Vec<u64>>;

pub fn blocks(folder: &Path) -> Result<Blocks> {
    let mut blocks = Blocks::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files(folder)? {
        let mut file = std::fs::File::open(&path)?;
        let mut hashes = Vec::new();
        loop {
            let mut filled = 0;
            while filled < buffer.len() {
                let n = file.read(&mut buffer[filled..])?;
                if n == 0 {
                    break;
                }
                filled += n;
            }
            if filled == 0 {
                break;
            }
            for block in buffer[..filled].chunks(4096) {
                let mut hasher = DefaultHasher::new();
                hasher.write(block);
                hashes.push(hasher.finish());
            }
        }
        blocks.insert(path, hashes);
    }
    Ok(blocks)
}

/// Bytes of blocks that are not where they were.
pub fn changed(before: &Blocks, after: &Blocks) -> u64 {
    let mut changed = 0;
    for (path, blocks) in after {
        let old = before.get(path).map_or(&[][..], Vec::as_slice);
        for (n, block) in blocks.iter().enumerate() {
            changed += u64::from(old.get(n) != Some(block));
        }
    }
    changed * 4096
}

/// Bytes that the files under a folder occupy.
pub fn size(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for path in files(folder)? {
        bytes += std::fs::metadata(path)?.blocks() * 512;
    }
    Ok(bytes)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    Ok(found)
}
