//! Cost of the digests: CPU seconds per gigabyte (1e9 bytes), the best of several runs.
//!
//! `cargo run --release -p dewar-checksum --example cost`

use std::hint::black_box;

use bytes::Bytes;
use dewar_checksum::{
    Algorithm, AlgorithmSet, Crc32c, Md5Lanes, Pipeline, adler32, crc32, crc32c, crc32c_combine,
    crc64nvme, md5, md5_many,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

/// CPU time of this process in seconds: of one thread, except where a runtime has two.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The least seconds that one of several runs took.
fn best(mut run: impl FnMut()) -> f64 {
    run();
    (0..9)
        .map(|_| {
            let start = cpu();
            run();
            cpu() - start
        })
        .fold(f64::MAX, f64::min)
}

fn report(what: &str, bytes: usize, seconds: f64) {
    let per_gb = seconds / bytes as f64 * 1e9;
    println!("{what:<48} {per_gb:8.4} s/GB {:8.2} GB/s", 1.0 / per_gb);
}

/// Pseudo-random bytes.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

fn main() {
    let data = noise(16 << 20);
    slices(&data);
    pipelines(&data);
    md5_in_memory(&data);
    for threads in [1, 2] {
        let runtime = if threads == 1 {
            Builder::new_current_thread().build()
        } else {
            Builder::new_multi_thread().worker_threads(threads).build()
        };
        let runtime = runtime.expect("a runtime without drivers");
        println!("\n{threads} thread(s)");
        for chunk in [256 << 10, 64 << 10, 4 << 10] {
            md5_of_streams(&runtime, &data, chunk);
        }
    }
}

fn slices(data: &[u8]) {
    let warm = &data[..256 << 10];
    let each = |what: &str, size: usize, hash: &dyn Fn(&[u8]) -> u64| {
        let seconds = best(|| {
            for _ in 0..40 {
                for page in warm.chunks(size) {
                    black_box(hash(black_box(page)));
                }
            }
        });
        report(what, 40 * warm.len(), seconds);
    };
    each("crc32c, pages of 4 KiB", 4096, &|page| crc32c(page).into());
    each("crc32c, 64 KiB", 65_536, &|page| crc32c(page).into());
    each("crc32, 64 KiB", 65_536, &|page| crc32(page).into());
    each("crc64nvme, 64 KiB", 65_536, &crc64nvme);
    each("adler32, pages of 4 KiB", 4096, &|page| {
        adler32(page).into()
    });
    each("adler32, 64 KiB", 65_536, &|page| adler32(page).into());

    let crcs: Vec<u32> = warm.chunks(4096).map(crc32c).collect();
    let seconds = best(|| {
        for _ in 0..40 {
            let mut whole = Crc32c::new();
            for crc in &crcs {
                whole.append(black_box(*crc), 4096);
            }
            black_box(whole.value());
        }
    });
    report(
        "crc32c combined from those of pages",
        40 * warm.len(),
        seconds,
    );
    for length in [65_536, 262_144, 262_143, 10_000_000] {
        let seconds = best(|| {
            for crc in &crcs {
                black_box(crc32c_combine(black_box(7), *crc, black_box(length)));
            }
        });
        println!(
            "{:<48} {:8.1} ns",
            format!("crc32c_combine, {length} bytes"),
            seconds / crcs.len() as f64 * 1e9
        );
    }
}

fn pipelines(data: &[u8]) {
    for (what, want) in [
        ("pipeline: adler32, crc32c", AlgorithmSet::EMPTY),
        ("pipeline: and crc64nvme", Algorithm::Crc64Nvme.into()),
        ("pipeline: and sha1", Algorithm::Sha1.into()),
        ("pipeline: and sha256", Algorithm::Sha256.into()),
        ("pipeline: and md5", Algorithm::Md5.into()),
    ] {
        let seconds = best(|| {
            let mut pipeline = Pipeline::new(want);
            for chunk in data.chunks(256 << 10) {
                pipeline.update(black_box(chunk));
            }
            black_box(pipeline.finish());
        });
        report(what, data.len(), seconds);
    }
    let small = &data[..4096];
    let seconds = best(|| {
        for _ in 0..1000 {
            let mut pipeline = Pipeline::new(AlgorithmSet::EMPTY);
            pipeline.update(black_box(small));
            black_box(pipeline.finish());
        }
    });
    report(
        "pipeline: adler32, crc32c, objects of 4 KiB",
        1000 * small.len(),
        seconds,
    );
}

fn md5_in_memory(data: &[u8]) {
    let one = &data[..1 << 20];
    report(
        "md5, one slice",
        one.len(),
        best(|| {
            black_box(md5(black_box(one)));
        }),
    );
    for streams in [2, 3, 4, 8, 12, 16] {
        let slices: Vec<&[u8]> = data.chunks(256 << 10).take(streams).collect();
        let seconds = best(|| {
            black_box(md5_many(black_box(&slices)));
        });
        report(
            &format!("md5_many, {streams} slices"),
            streams * (256 << 10),
            seconds,
        );
    }
}

/// Uploads that all have bytes ready; then the same with chunks of uneven length.
fn md5_of_streams(runtime: &Runtime, data: &[u8], chunk: usize) {
    let body = Bytes::copy_from_slice(data);
    for uneven in [false, true] {
        for streams in [1usize, 2, 4, 8, 16, 32] {
            let lanes = Md5Lanes::new();
            let each = body.len() / streams;
            let seconds = best(|| {
                runtime.block_on(async {
                    let tasks: Vec<_> = (0..streams)
                        .map(|i| {
                            let mut stream = lanes.stream();
                            let mut rest = body.slice(i * each..(i + 1) * each);
                            let mut size = i + 1;
                            tokio::spawn(async move {
                                while !rest.is_empty() {
                                    size = (size * 7919) % 1009;
                                    let length = if uneven {
                                        chunk * size / 504 + 1
                                    } else {
                                        chunk
                                    };
                                    let next = rest.split_to(length.min(rest.len()));
                                    stream.update(next).await;
                                    tokio::task::yield_now().await;
                                }
                                stream.finish().await
                            })
                        })
                        .collect();
                    for task in tasks {
                        black_box(task.await.expect("no panic"));
                    }
                });
            });
            let used = lanes.lane_use();
            let what = format!(
                "md5 of {streams} streams, {} KiB{}, {:.1} lanes",
                chunk >> 10,
                if uneven { " uneven" } else { "" },
                used.jobs as f64 / used.batches.max(1) as f64
            );
            report(&what, each * streams, seconds);
        }
    }
}
