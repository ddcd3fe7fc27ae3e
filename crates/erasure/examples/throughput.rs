//! Measures the codec: GB of user data per second of thread CPU time, for each kernel this
//! processor can run, encoding and reconstructing one and m lost shards. If ISA-L is installed, its
//! encoding is measured in the same run.
//!
//! `cargo run --release -p dewar-erasure --example throughput [shard bytes]`
//!
//! With the default of 64 KiB, the shards of all layouts fit the second-level cache. The same holds
//! when a stripe is encoded right after it was received. The result is thread CPU time, best of
//! several windows, because other processes on a shared machine take the rest.

#[path = "../tests/isal/mod.rs"]
mod isal;

use std::hint::black_box;

use dewar_erasure::{Codec, Error, Kernel};
use isal::Isal;
use rustix::time::{ClockId, clock_gettime};

const LAYOUTS: [(usize, usize); 6] = [(1, 1), (2, 1), (4, 2), (8, 3), (10, 4), (16, 4)];
const WINDOWS: usize = 15;
const WINDOW_NANOS: u64 = 20_000_000;

fn cpu_nanos() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Bytes per nanosecond (GB/s) of the best window.
fn rate(bytes: usize, mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut best = 0f64;
    for _ in 0..WINDOWS {
        let start = cpu_nanos();
        let mut rounds = 0;
        let spent = loop {
            for _ in 0..8 {
                work()?;
                rounds += 1;
            }
            let spent = cpu_nanos() - start;
            if spent >= WINDOW_NANOS {
                break spent;
            }
        };
        best = best.max((rounds * bytes) as f64 / spent as f64);
    }
    Ok(best)
}

fn data(k: usize, shard: usize) -> Vec<Vec<u8>> {
    (0..k)
        .map(|s| {
            (0..shard)
                .map(|n| (n * 31 + s * 7 + n / 251) as u8)
                .collect()
        })
        .collect()
}

fn measure_isal(isal: &Isal, k: usize, m: usize, shard: usize) -> Result<f64, Error> {
    let encoder = isal.encoder(k, m);
    let data = data(k, shard);
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity = vec![vec![0; shard]; m];
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    rate(k * shard, || {
        encoder.encode(black_box(&data), black_box(&mut parity));
        Ok(())
    })
}

fn measure(kernel: Kernel, k: usize, m: usize, shard: usize) -> Result<[f64; 3], Error> {
    let codec = Codec::with_kernel(k, m, kernel)?;
    let data = data(k, shard);
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity = vec![vec![0; shard]; m];
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    let encode = rate(k * shard, || {
        codec.encode(black_box(&data), black_box(&mut parity))
    })?;

    let lose = |lost: usize| {
        let present: Vec<(usize, &[u8])> = (lost..k)
            .map(|s| (s, data[s]))
            .chain((0..m).map(|row| (k + row, &*parity[row])))
            .take(k)
            .collect();
        let wanted: Vec<usize> = (0..lost.min(k)).collect();
        let mut out = vec![vec![0; shard]; wanted.len()];
        let mut out: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        rate(k * shard, || {
            codec.reconstruct(black_box(&present), &wanted, black_box(&mut out))
        })
    };
    Ok([encode, lose(1)?, lose(m.min(k))?])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shard = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 64 * 1024,
    };
    println!("shards of {shard} bytes, GB of user data per CPU second, best of {WINDOWS} windows");
    println!(
        "{:12} {:>6} {:>9} {:>9} {:>9}",
        "kernel", "layout", "encode", "1 lost", "m lost"
    );
    for kernel in Kernel::supported() {
        for (k, m) in LAYOUTS {
            let [encode, one, all] = measure(kernel, k, m, shard)?;
            let layout = format!("{k}+{m}");
            println!("{kernel:12} {layout:>6} {encode:9.1} {one:9.1} {all:9.1}");
        }
    }
    match Isal::load() {
        Err(error) => println!("isa-l: not installed ({error})"),
        Ok(isal) => {
            for (k, m) in LAYOUTS {
                let encode = measure_isal(&isal, k, m, shard)?;
                println!("{:12} {:>6} {encode:9.1}", "isa-l", format!("{k}+{m}"));
            }
        }
    }
    Ok(())
}
