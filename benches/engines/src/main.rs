//! Engines for the catalog index, measured in the use Dewar makes of one: sorted batches on top of
//! many keys, gets, scans, what a snapshot must copy, what a kill leaves.
//!
//! `engines <engine> <folder> [million keys] [batches]`; one engine a process, so that memory and
//! CPU are its own. Results go to stdout as a line of the table in
//! `docs/decisions/2026-11-21-catalog-index.md`.

mod engine;
mod measure;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use engine::{Batch, BenchEngine};
use measure::timed;

const BATCH_KEYS: u64 = 100_000;
const GETS: u64 = 200_000;
const SCANS: u64 = 1000;
const SCAN_KEYS: usize = 1000;
const KILLS: u64 = 5;

/// Splits a number into well mixed ones (splitmix64).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// 100 bytes as a catalog has them: table, parent, a name with digits. Sorted by `n`.
fn key(n: u64) -> Vec<u8> {
    let mut key = b"e".to_vec();
    key.extend_from_slice(&(n / 2000 + 7).to_be_bytes());
    let name = format!("data26_13p6TeV.{n:012}.physics_Main.{:016x}", mix(n));
    key.extend_from_slice(name.as_bytes());
    key.resize(100, b'.');
    key
}

/// 300 bytes that do not compress.
fn value(n: u64) -> Vec<u8> {
    let words = (0..38).flat_map(|w| mix(n ^ w << 40).to_le_bytes());
    words.take(300).collect()
}

/// Batch `b` of new keys at random places among `keys`: the odd numbers.
fn random_batch(b: u64, keys: u64) -> Batch {
    let numbers = (0..BATCH_KEYS).map(|n| mix(b << 32 | n) % keys * 2 + 1);
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|n| (key(n), value(n))).collect()
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let name = args.next().context("which engine")?;
    let path = PathBuf::from(args.next().context("in which folder")?);
    let millions: u64 = args.next().map_or(Ok(10), |n| n.parse())?;
    let batches: u64 = args.next().map_or(Ok(20), |n| n.parse())?;
    let keys = millions * 1_000_000;
    if batches == 0 {
        return be_killed(&name, &path, keys);
    }
    let mut engine = engine::open(&name, &path)?;
    println!("engine {name}, {millions} M keys, {batches} batches of {BATCH_KEYS}");
    let mut upto = load(&mut *engine, keys)?;
    upto = feed(&mut *engine, keys, batches, upto)?;
    println!("size MB {:.0}", mb(measure::size(&path)?));
    drop(engine);
    let (engine, wall, _) = timed(|| engine::open(&name, &path));
    let mut engine = engine?;
    println!("open ms {:.0}", wall.as_secs_f64() * 1e3);
    read(&*engine, keys)?;
    let (all, own) = measure::resident();
    println!("resident MB {:.0}, not from files {:.0}", mb(all), mb(own));

    let before = measure::blocks(&path)?;
    let batch = random_batch(900_000, keys);
    let bytes: usize = batch.iter().map(|(k, v)| k.len() + v.len()).sum();
    upto += 1;
    engine.apply(batch, upto)?;
    engine.settle()?;
    let changed = measure::changed(&before, &measure::blocks(&path)?);
    println!(
        "snapshot MB {:.0} after {:.0} MB",
        mb(changed),
        mb(bytes as u64)
    );
    drop(engine);
    kills(&name, &path, millions)
}

fn load(engine: &mut dyn BenchEngine, keys: u64) -> Result<u64> {
    let mut upto = engine.applied()?;
    let (mut spent, mut wall) = (0.0, 0.0);
    for first in (0..keys).step_by(BATCH_KEYS as usize) {
        let numbers = (first..(first + BATCH_KEYS).min(keys)).map(|n| n * 2);
        let batch: Batch = numbers.map(|n| (key(n), value(n))).collect();
        upto += 1;
        let (done, took, cpu) = timed(|| engine.apply(batch, upto));
        done?;
        spent += cpu.as_secs_f64();
        wall += took.as_secs_f64();
    }
    let (done, took, cpu) = timed(|| engine.settle());
    done?;
    spent += cpu.as_secs_f64();
    wall += took.as_secs_f64();
    let per = 1e6 / keys as f64;
    println!("load us/key {:.2} CPU, {:.2} wall", spent * per, wall * per);
    Ok(upto)
}

fn feed(engine: &mut dyn BenchEngine, keys: u64, batches: u64, mut upto: u64) -> Result<u64> {
    let written = measure::written();
    let (mut spent, mut count, mut bytes) = (0.0, 0, 0);
    let mut walls = Vec::new();
    for b in 0..batches {
        let batch = random_batch(b, keys);
        count += batch.len();
        bytes += batch.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        upto += 1;
        let (done, wall, cpu) = timed(|| engine.apply(batch, upto));
        done?;
        walls.push(wall.as_secs_f64() * 1e3);
        spent += cpu.as_secs_f64();
    }
    let (done, _, cpu) = timed(|| engine.settle());
    done?;
    spent += cpu.as_secs_f64();
    walls.sort_by(f64::total_cmp);
    let amplified = (measure::written() - written) as f64 / bytes as f64;
    println!(
        "batches us/key {:.2} CPU, {amplified:.1} bytes written per byte; ms/batch {:.0} median, {:.0} worst",
        spent * 1e6 / count as f64,
        walls[walls.len() / 2],
        walls[walls.len() - 1],
    );
    Ok(upto)
}

fn read(engine: &dyn BenchEngine, keys: u64) -> Result<()> {
    // The second round is warm.
    for round in ["first", "second"] {
        let (found, wall, cpu) = timed(|| -> Result<u64> {
            let mut found = 0;
            for n in 0..GETS {
                let n = mix(n) % keys * 2;
                found += u64::from(engine.get(&key(n))?.is_some());
            }
            Ok(found)
        });
        anyhow::ensure!(found? == GETS, "keys are missing");
        let per = 1e6 / GETS as f64;
        println!(
            "get us, {round} time: {:.2} CPU, {:.2} wall",
            cpu.as_secs_f64() * per,
            wall.as_secs_f64() * per
        );
    }
    let (found, _, cpu) = timed(|| -> Result<u64> {
        let mut found = 0;
        for n in 0..GETS {
            let mut key = key(mix(n) % keys * 2);
            key.push(b'x');
            found += u64::from(engine.get(&key)?.is_some());
        }
        Ok(found)
    });
    anyhow::ensure!(found? == 0, "there are keys that never were");
    println!(
        "get of an absent key us {:.2}",
        cpu.as_secs_f64() * 1e6 / GETS as f64
    );
    let (bytes, _, cpu) = timed(|| -> Result<usize> {
        let mut bytes = 0;
        for n in 0..SCANS {
            bytes += engine.scan(&key(mix(n) % (keys - 2000) * 2), SCAN_KEYS)?;
        }
        Ok(bytes)
    });
    anyhow::ensure!(
        bytes? == SCANS as usize * SCAN_KEYS * 400,
        "scans are short"
    );
    println!(
        "scan of {SCAN_KEYS} us {:.0}",
        cpu.as_secs_f64() * 1e6 / SCANS as f64
    );
    Ok(())
}

/// Applies batches until somebody kills it, saying so after each.
fn be_killed(name: &str, path: &Path, keys: u64) -> Result<()> {
    let mut engine = engine::open(name, path)?;
    let mut upto = engine.applied()?;
    loop {
        upto += 1;
        engine.apply(random_batch(1_000_000 + upto, keys), upto)?;
        println!("{upto}");
    }
}

fn kills(name: &str, path: &Path, millions: u64) -> Result<()> {
    let mut slowest = 0.0_f64;
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe()?)
            .args([name, &path.to_string_lossy(), &millions.to_string(), "0"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let mut acknowledged = 0;
        for _ in 0..3 {
            acknowledged = lines.next().context("it ended by itself")??.parse()?;
        }
        // Somewhere within the next batch.
        std::thread::sleep(std::time::Duration::from_millis(mix(kill) % 150));
        child.kill()?;
        child.wait()?;
        for line in lines {
            acknowledged = line?.parse()?;
        }
        let start = Instant::now();
        let engine = engine::open(name, path)?;
        let applied = engine.applied()?;
        slowest = slowest.max(start.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(
            applied >= acknowledged,
            "{applied} of {acknowledged} batches are there"
        );
        for (key, value) in random_batch(1_000_000 + applied, millions * 1_000_000) {
            let found = engine.get(&key)?;
            anyhow::ensure!(
                found == Some(value.len()),
                "a key of batch {applied} is missing"
            );
        }
    }
    println!("killed {KILLS} times: nothing lost, reopened within {slowest:.0} ms");
    Ok(())
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
