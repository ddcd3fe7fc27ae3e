//! `dewar bench journal`: the speed of a bare journal on some disks, with the records of small puts
//! and without HTTP. The difference to `dewar bench s3` on the same disks is the cost of the other
//! layers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use dewar_env::{Disk, Env, RealDisk, RealDiskConfig};
use dewar_journal::{Journal, JournalConfig, LogReserve};
use dewar_types::{DiskId, Error, ErrorKind};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::columns;
use super::exit::{CONFLICT, CommandError, CommandResult, FAILED, NOT_FOUND};

/// The folder that it makes in each folder, and removes at the end.
const FOLDER: &str = "dewar-bench-journal";
/// Interval at which durable records are released.
const LET_GO_EVERY: Duration = Duration::from_millis(50);
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// The arguments of `dewar bench journal`.
#[derive(Clone, Debug, Args)]
pub struct JournalBenchArgs {
    /// Folders to write to, one for each disk: four for the holders of a pool of 4+2
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Writers side by side, one step for each number
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,4,16,64",
        value_name = "LIST"
    )]
    writers: Vec<u16>,
    /// Seconds of each step
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Bytes of a record; as it is, those of a put of 4 KiB: the object, its slot's header and its
    /// names
    #[arg(long, default_value_t = 4396, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    record_bytes: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of one step.
#[derive(Clone, Debug, Serialize)]
struct Row {
    writers: u16,
    records: usize,
    records_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us_per_record: f64,
    records_per_sync: f64,
}

/// Makes a journal below the folders, loads it, prints the results, and removes it.
pub(super) fn run(args: &JournalBenchArgs) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::new(FAILED, error))?;
    let mut made = Vec::new();
    let rows = make_folders(&args.folders, &mut made).and_then(|()| {
        let rows = runtime.block_on(steps(args, &made));
        rows.map_err(|error| CommandError::new(FAILED, error))
    });
    drop(runtime);
    for folder in made {
        if let Err(error) = std::fs::remove_dir_all(&folder) {
            eprintln!("warning: {} stays: {error}", folder.display());
        }
    }
    print_report(&rows?, args.json)?;
    Ok(0)
}

fn make_folders(folders: &[PathBuf], made: &mut Vec<PathBuf>) -> Result<(), CommandError> {
    for folder in folders {
        let folder = folder.join(FOLDER);
        std::fs::create_dir(&folder).map_err(|error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => NOT_FOUND,
                std::io::ErrorKind::AlreadyExists => CONFLICT,
                _ => FAILED,
            };
            CommandError::new(code, format!("{}: {error}", folder.display()))
        })?;
        made.push(folder);
    }
    Ok(())
}

fn print_report(rows: &[Row], json: bool) -> Result<(), CommandError> {
    if json {
        return columns::print_json(&rows);
    }
    let head = [
        "writers",
        "records/s",
        "p50 ms",
        "p99 ms",
        "CPU us",
        "records/sync",
    ];
    let cells = |row: &Row| {
        vec![
            row.writers.to_string(),
            format!("{:.0}", row.records_per_second),
            format!("{:.2}", row.p50_ms),
            format!("{:.2}", row.p99_ms),
            format!("{:.1}", row.cpu_us_per_record),
            format!("{:.1}", row.records_per_sync),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    columns::print(&columns::table(&head, &rows))
}

async fn steps(args: &JournalBenchArgs, folders: &[PathBuf]) -> Result<Vec<Row>, Error> {
    let env = Env::real();
    let mut disks: Vec<(DiskId, Arc<dyn Disk>)> = Vec::new();
    for (number, folder) in folders.iter().enumerate() {
        let disk = RealDisk::open(folder, RealDiskConfig::default()).await?;
        disks.push((DiskId(number as u128), Arc::new(disk)));
    }
    let config = JournalConfig::new(disks.len().saturating_sub(1).min(2));
    Journal::create(&env, &disks, &config).await?;
    let (journal, recovery) = Journal::open(env.clone(), disks, config).await?;
    drop(recovery);
    let mut rows = Vec::new();
    for &writers in &args.writers {
        rows.push(step(args, &env, &journal, writers).await?);
    }
    journal.close(CLOSE_WITHIN).await?;
    Ok(rows)
}

async fn step(
    args: &JournalBenchArgs,
    env: &Env,
    journal: &Journal,
    writers: u16,
) -> Result<Row, Error> {
    let hold = journal.hold("bench", journal.durable_seq());
    let stop = Arc::new(AtomicBool::new(false));
    let before = journal.status().counters;
    let cpu_before = cpu();
    let start = env.clock.elapsed();
    let body = Bytes::from(vec![0x5a; args.record_bytes as usize]);
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let load = write(
                journal.clone(),
                env.clone(),
                body.clone(),
                Arc::clone(&stop),
            );
            tokio::spawn(load)
        })
        .collect();
    let until = Duration::from_secs(args.seconds);
    while env.clock.elapsed() - start < until {
        tokio::time::sleep(LET_GO_EVERY).await;
        hold.advance(journal.durable_seq());
    }
    stop.store(true, Ordering::Relaxed);
    let mut took = Vec::new();
    for task in tasks {
        let ended = task.await;
        took.extend(ended.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))??);
    }
    let elapsed = (env.clock.elapsed() - start).as_secs_f64();
    let cpu = cpu().saturating_sub(cpu_before).as_secs_f64();
    let after = journal.status().counters;
    took.sort_unstable();
    let part = |percent: usize| {
        let at = took.get(took.len() * percent / 100);
        at.map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let records = took.len();
    let groups = (after.groups - before.groups).max(1);
    Ok(Row {
        writers,
        records,
        records_per_second: records as f64 / elapsed,
        p50_ms: part(50),
        p99_ms: part(99),
        cpu_us_per_record: cpu * 1e6 / records.max(1) as f64,
        records_per_sync: (after.records - before.records) as f64 / groups as f64,
    })
}

async fn write(
    journal: Journal,
    env: Env,
    body: Bytes,
    stop: Arc<AtomicBool>,
) -> Result<Vec<Duration>, Error> {
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = env.clock.elapsed();
        let permit = journal.admit(body.len(), LogReserve::Ordinary).await?;
        let seq = journal.append(permit, std::slice::from_ref(&body))?;
        journal.durable(seq).await?;
        took.push(env.clock.elapsed() - start);
    }
    Ok(took)
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders: Vec<PathBuf> = (0..3).map(|n| dir.path().join(n.to_string())).collect();
        for folder in &folders {
            std::fs::create_dir(folder).expect("made");
        }
        let args = JournalBenchArgs {
            folders: folders.clone(),
            writers: vec![2],
            seconds: 1,
            record_bytes: 100,
            json: true,
        };
        assert_eq!(run(&args).expect("runs"), 0);
        for folder in &folders {
            assert!(std::fs::read_dir(folder).expect("there").next().is_none());
        }
        let taken = folders[1].join(FOLDER);
        std::fs::create_dir(&taken).expect("made");
        assert_eq!(run(&args).expect_err("taken").code, CONFLICT);
        // What is not its own stays.
        assert!(taken.exists() && !folders[0].join(FOLDER).exists());
    }
}
