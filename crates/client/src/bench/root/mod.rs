//! `dewar bench root`: load servers over root://, and report throughput and cost.
//!
//! Each worker of a step is a session of its own with one operation at a time, like a separate
//! client process. Files are read and written in chunks with several in flight, as clients do.
//! Steps, turns and units are those of `dewar bench s3`. [`work`] is the work of a worker, and
//! [`report`] its results.

mod args;
mod report;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use dewar_xrootd_client::{
    BearerToken, Client, Connection, Endpoint, Identity, Options, SystemResolver,
};

pub use args::RootArgs;
use args::{RootStep, Work};
use report::{RootReport, RootRun};
use work::{FileSet, FileWorker, Tally};

use super::plan::Limit;
use super::process::{Processes, Usage};
use crate::clock;
use crate::http::{Trust, tls_config};

/// One server to load.
struct RootTarget {
    name: String,
    place: Endpoint,
    /// The directory to work in, without a slash behind it.
    folder: String,
    client: Client,
    processes: Processes,
}

/// Sessions for work that is not measured.
const UNMEASURED: u32 = 8;

/// Bytes of a token file that may be one.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Runs the steps that `args` describe and prints their results.
pub(super) fn run(args: &RootArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start threads")?;
    runtime.block_on(campaign(args))
}

async fn campaign(args: &RootArgs) -> Result<()> {
    let targets = targets(args)?;
    let mut report = RootReport::new(args);
    for repeat in 1..=args.repeat {
        let base = format!(
            "dewar-bench/{:x}-{}-{repeat}",
            clock::unix_s(),
            std::process::id()
        );
        let mut sets: Vec<Vec<FileSet>> = targets.iter().map(|_| Vec::new()).collect();
        let outcome = steps(args, &targets, repeat, &base, &mut sets, &mut report).await;
        if !args.keep {
            for (target, sets) in targets.iter().zip(&sets) {
                clear(target, &base, sets).await;
            }
        }
        outcome?;
    }
    report.write(args.json.as_deref())?;
    let failed = report.errors();
    ensure!(failed == 0, "{failed} operations failed");
    Ok(())
}

async fn steps(
    args: &RootArgs,
    targets: &[RootTarget],
    repeat: u32,
    base: &str,
    sets: &mut [Vec<FileSet>],
    report: &mut RootReport,
) -> Result<()> {
    for (index, step) in args.steps.iter().enumerate() {
        let mut order: Vec<usize> = (0..targets.len()).collect();
        if repeat.is_multiple_of(2) {
            order.reverse();
        }
        for turn in order {
            let target = &targets[turn];
            let sets = &mut sets[turn];
            let at = match sets.iter().position(|set| set.size == step.size.0) {
                Some(at) => at,
                None => {
                    let folder = format!("{}/{base}/{}", target.folder, step.size.0);
                    sets.push(FileSet::new(folder, step.size.0));
                    sets.len() - 1
                }
            };
            let mut run = one(args, target, step, &mut sets[at])
                .await
                .with_context(|| {
                    format!("{} {} on {}", step.work.name(), step.size, target.name)
                })?;
            run.step = index;
            run.target.clone_from(&target.name);
            run.repeat = repeat;
            eprintln!("{}", run.line());
            report.runs.push(run);
        }
    }
    Ok(())
}

/// Runs one step on one target: writes the missing objects, then measures.
async fn one(
    args: &RootArgs,
    target: &RootTarget,
    step: &RootStep,
    set: &mut FileSet,
) -> Result<RootRun> {
    let reads = !matches!(step.work, Work::Put | Work::PutPlain);
    if reads && set.live < step.objects {
        let fill = RootStep {
            work: Work::Put,
            concurrency: UNMEASURED,
            limit: Limit::Requests(step.objects - set.live),
            ..*step
        };
        let filled = drive(args, target, &fill, set, false).await?;
        ensure!(filled.tally.errors == 0, "{}", filled.tally.examples());
        set.live = step.objects;
    }
    if step.work == Work::Vector {
        let least = args.vector_size.0;
        ensure!(step.size.0 >= least, "elements of {least} bytes do not fit");
    }
    let outcome = drive(args, target, step, set, true).await?;
    if !reads {
        set.live += outcome.tickets;
    }
    Ok(RootRun::of(step, &outcome))
}

/// The result of a step.
struct RootOutcome {
    elapsed: Duration,
    tally: Tally,
    /// Pieces of work that were begun.
    tickets: u64,
    client_cpu: Duration,
    server: Option<(Usage, Usage)>,
}

/// The state that the workers of a step share.
struct RootContext {
    args: RootArgs,
    step: RootStep,
    set: FileSet,
    tickets: AtomicU64,
    failures: AtomicU64,
    end: Option<Instant>,
}

impl RootContext {
    /// The next piece of work; `None` when there is none left.
    fn ticket(&self) -> Option<u64> {
        let given_up = self.failures.load(Relaxed) >= self.args.errors_max;
        if given_up || self.end.is_some_and(|end| clock::now() >= end) {
            return None;
        }
        let next = |tickets: u64| match self.step.limit {
            Limit::Requests(requests) if tickets >= requests => None,
            _ => Some(tickets + 1),
        };
        self.tickets.fetch_update(Relaxed, Relaxed, next).ok()
    }
}

async fn drive(
    args: &RootArgs,
    target: &RootTarget,
    step: &RootStep,
    set: &FileSet,
    measured: bool,
) -> Result<RootOutcome> {
    let mut connections = Vec::new();
    for _ in 0..step.concurrency {
        connections.push(target.client.connect(&target.place).await?);
    }
    let known = measured && !target.processes.pids.is_empty();
    let usage = || known.then(|| target.processes.usage()).transpose();
    let before = usage().context("the server's processes")?;
    let cpu = clock::process_cpu();
    let start = clock::now();
    let shared = Arc::new(RootContext {
        args: args.clone(),
        step: *step,
        set: set.clone(),
        tickets: AtomicU64::new(0),
        failures: AtomicU64::new(0),
        end: match step.limit {
            Limit::Seconds(seconds) => Some(start + Duration::from_secs_f64(seconds)),
            Limit::Requests(_) => None,
        },
    });
    let mut workers = Vec::new();
    for (number, connection) in connections.into_iter().enumerate() {
        let worker = FileWorker::new(Arc::clone(&shared), connection, number as u64);
        workers.push(tokio::spawn(worker.run()));
    }
    let mut tally = Tally::default();
    for worker in workers {
        tally.merge(&worker.await.context("a worker")?);
    }
    let elapsed = clock::now().duration_since(start);
    let client_cpu = clock::process_cpu().saturating_sub(cpu);
    if known {
        tokio::time::sleep(Duration::from_secs(args.settle)).await;
    }
    let after = usage().context("the server's processes")?;
    Ok(RootOutcome {
        elapsed,
        tally,
        tickets: shared.tickets.load(Relaxed),
        client_cpu,
        server: before.zip(after),
    })
}

/// Removes the objects of the steps, and prints the ones that remain.
async fn clear(target: &RootTarget, base: &str, sets: &[FileSet]) {
    let outcome = async {
        let connection = target.client.connect(&target.place).await?;
        for set in sets {
            let names = (0..set.live).map(|number| set.name(number));
            let mut names: Vec<String> = names.collect();
            names.push(set.folder.clone());
            for name in names {
                gone(connection.remove(&name).await)?;
            }
        }
        gone(
            connection
                .remove(&format!("{}/{base}", target.folder))
                .await,
        )?;
        // Others may work beside this one.
        let _ = connection
            .remove(&format!("{}/dewar-bench", target.folder))
            .await;
        Ok::<_, dewar_xrootd_client::Error>(())
    };
    if let Err(error) = outcome.await {
        eprintln!("files are left under {}/{base}: {error}", target.folder);
    }
}

/// A missing file counts as removed.
fn gone(outcome: dewar_xrootd_client::Result<()>) -> dewar_xrootd_client::Result<()> {
    match outcome {
        Err(error) if error.code() == Some(dewar_xrootd_proto::ErrorCode::NotFound) => Ok(()),
        outcome => outcome,
    }
}

fn labelled(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, rest)) if !name.contains(['/', ':', '?']) => (Some(name), rest),
        _ => (None, text),
    }
}

fn targets(args: &RootArgs) -> Result<Vec<RootTarget>> {
    let trust = match (&args.ca, args.insecure) {
        (_, true) => Trust::Anyone,
        (Some(path), _) => Trust::File(path.clone()),
        _ => Trust::System,
    };
    // Without authorities on this machine there can still be servers without TLS.
    let tls = match tls_config(&trust) {
        Ok(config) => Some(config),
        Err(_) if trust == Trust::System => None,
        Err(error) => return Err(error.into()),
    };
    let token = match &args.token_file {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = zeroize::Zeroizing::new(text.with_context(|| path.display().to_string())?);
            ensure!(
                text.len() <= TOKEN_BYTES_MAX,
                "{}: no token",
                path.display()
            );
            Some(BearerToken::new(text.trim()))
        }
    };
    let client = Client {
        resolver: Arc::new(SystemResolver),
        tls,
        identity: Identity {
            user: std::env::var("USER").unwrap_or_else(|_| "dewar".to_owned()),
            token,
            program: "dewar-bench".to_owned(),
            third_party: false,
        },
        options: Options {
            request_time: Duration::from_secs(args.deadline),
            wait_time: Duration::from_secs(args.deadline),
            ..Options::default()
        },
    };
    let mut targets: Vec<RootTarget> = Vec::new();
    for text in &args.urls {
        let (name, url) = labelled(text);
        let (place, path) = Endpoint::of_url(url)?;
        let name = name.map_or_else(|| place.to_string(), str::to_owned);
        if targets.iter().any(|target| target.name == name) {
            bail!("two targets are called {name}");
        }
        let folder = format!("/{}", path.trim_matches('/'));
        ensure!(
            folder.len() > 1,
            "{url}: name a bucket, root://HOST//BUCKET"
        );
        targets.push(RootTarget {
            name,
            place,
            folder,
            client: client.clone(),
            processes: Processes {
                pids: Vec::new(),
                children: args.server_children,
            },
        });
    }
    for text in &args.server_pid {
        let (name, pid) = labelled(text);
        let pid = pid
            .parse()
            .with_context(|| format!("{text:?} is no process"))?;
        let target = match name {
            Some(name) => targets.iter_mut().find(|target| target.name == name),
            None if targets.len() == 1 => targets.first_mut(),
            None => bail!("--server-pid {text}: whose? NAME=PID"),
        };
        let target = target.with_context(|| format!("--server-pid {text}: no such target"))?;
        target.processes.pids.push(pid);
    }
    Ok(targets)
}

/// A session of a worker.
type Session = Connection;
