//! A campaign: all steps, on all targets, repeated as requested.
//!
//! Order: each repeat runs the steps in turn, and each step runs the targets in turn, every other
//! repeat in reverse. So targets are compared within minutes of each other, and no target is always
//! the one on a warm machine.
//!
//! Objects: each target has one set of objects for each size and repeat. A step that writes (put,
//! multipart) begins with an empty set. A step that reads, lists or deletes first fills the set
//! with the objects that it needs. Both happen outside the measurement. After the last step of a
//! size its set is removed. A campaign that fails leaves its objects, and prints their prefix.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::args::{LoadArgs, S3Args};
use super::job::{Job, StepOutcome, run_job};
use super::objects::ObjectSet;
use super::plan::{BenchVerb, Limit, Step, Workload, plan};
use super::profiler::Profiler;
use super::progress::CampaignProgress;
use super::report;
use super::result::{Campaign, StepRun};
use super::size::ByteSize;
use super::target::{BenchTarget, CommonOptions, targets};
use crate::clock;
use crate::s3::S3Error;

/// Connections used for work that is not measured.
const UNMEASURED_CONCURRENCY: u32 = 16;

/// Runs the campaign that `args` describe and prints its results.
pub(super) fn run(args: &S3Args) -> Result<()> {
    let load = &args.load;
    ensure!(
        load.prefix
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b)),
        "--prefix {:?}: only letters, digits and -_./",
        load.prefix
    );
    let steps = plan(load)?;
    let common = CommonOptions {
        payload_mode: load.payload_mode,
        request_limit: Duration::from_secs_f64(load.deadline),
    };
    let targets = targets(&args.targets, common)?;
    for target in &targets {
        check_bucket(target).with_context(|| format!("target {}", target.name))?;
    }
    let mut campaign = Campaign::new(args, &targets, clock::unix_s());
    let mut progress = CampaignProgress::new(steps.len() * targets.len() * load.repeat as usize);
    for repeat in 1..=load.repeat {
        let mut objects = Objects {
            load,
            base: format!(
                "{}/{:x}-{}",
                load.prefix,
                clock::unix_s(),
                std::process::id()
            ),
            repeat,
            sets: BTreeMap::new(),
        };
        objects
            .run_steps(&steps, &targets, &mut progress, &mut campaign)
            .with_context(|| format!("objects are left under {}", objects.base))?;
    }
    progress.finish();
    report::write_reports(&campaign, &args.output)?;
    let failed = campaign.errors();
    ensure!(failed == 0, "{failed} requests failed");
    Ok(())
}

/// The objects of one repeat, for each target and size.
struct Objects<'a> {
    load: &'a LoadArgs,
    base: String,
    repeat: u32,
    sets: BTreeMap<(usize, ByteSize), ObjectSet>,
}

impl Objects<'_> {
    fn run_steps(
        &mut self,
        steps: &[Step],
        targets: &[BenchTarget],
        progress: &mut CampaignProgress,
        campaign: &mut Campaign,
    ) -> Result<()> {
        for (index, step) in steps.iter().enumerate() {
            let mut turn: Vec<_> = targets.iter().enumerate().collect();
            if self.repeat.is_multiple_of(2) {
                turn.reverse();
            }
            let last_of_size = steps[index + 1..]
                .iter()
                .all(|later| later.size != step.size);
            for (at, target) in turn {
                let place = || format!("{step} on {}", target.name);
                progress.begin(&place(), step.limit);
                let outcome = self
                    .run_step(step, (at, target), progress)
                    .with_context(place)?;
                let run = StepRun::new(index, step, self.repeat, &target.name, &outcome);
                progress.end(&run);
                campaign.runs.push(run);
                if last_of_size && !self.load.keep {
                    self.remove(step.size, (at, target)).with_context(place)?;
                }
            }
        }
        Ok(())
    }

    fn run_step(
        &mut self,
        step: &Step,
        (at, target): (usize, &BenchTarget),
        progress: &CampaignProgress,
    ) -> Result<StepOutcome> {
        if step.fills() {
            self.remove(step.size, (at, target))?;
        } else {
            self.fill(step, (at, target))?;
        }
        let warmup_s = self.load.warmup;
        let mut job = self.job(step.workload, step.concurrency, step.limit);
        let set = self.set(step.size, at);
        if step.workload == Workload::One(BenchVerb::Delete)
            && let Limit::Requests(requests) = &mut job.limit
        {
            *requests = (*requests).min(set.live.len() as u64);
        }
        let warm = warmup_s > 0.0 && step.workload != Workload::One(BenchVerb::Delete);
        if warm {
            let limit = Limit::Seconds(warmup_s);
            let warmup = Job {
                limit,
                settle: Duration::ZERO,
                ..job.clone()
            };
            let outcome = run_job(target, &warmup, set, |_| {})?;
            set.apply(&outcome.change);
        }
        let beside = self
            .load
            .beside
            .as_deref()
            .map(Profiler::start)
            .transpose()?;
        let set = self.set(step.size, at);
        let outcome = run_job(target, &job, set, |begun| progress.at(begun));
        let stopped = beside.map_or(Ok(()), Profiler::stop);
        let outcome = outcome?;
        stopped?;
        set.apply(&outcome.change);
        Ok(outcome)
    }

    fn set(&mut self, size: ByteSize, at: usize) -> &mut ObjectSet {
        let prefix = format!("{}/{}-{}/", self.base, size.0, self.repeat);
        self.sets
            .entry((at, size))
            .or_insert_with(|| ObjectSet::new(prefix, size.0))
    }

    fn job(&self, workload: Workload, concurrency: u32, limit: Limit) -> Job {
        Job {
            workload,
            concurrency,
            limit,
            part_bytes: self.load.part_size.0,
            range_bytes: self.load.range_size.0,
            page_keys: self.load.page_keys,
            mix: self.load.mix.clone(),
            verify: self.load.verify,
            errors_max: self.load.errors_max.max(1),
            settle: Duration::from_secs_f64(self.load.settle),
        }
    }

    /// Puts objects until there are as many as the step needs.
    fn fill(&mut self, step: &Step, (at, target): (usize, &BenchTarget)) -> Result<()> {
        let missing = step
            .objects
            .saturating_sub(self.set(step.size, at).live.len() as u64);
        self.unmeasured(BenchVerb::Put, missing, step.size, (at, target))
    }

    /// Removes all objects of a size.
    fn remove(&mut self, size: ByteSize, (at, target): (usize, &BenchTarget)) -> Result<()> {
        let set = self.set(size, at);
        let doubtful = std::mem::take(&mut set.doubtful);
        set.live.extend(doubtful);
        let present = set.live.len() as u64;
        self.unmeasured(BenchVerb::Delete, present, size, (at, target))
    }

    fn unmeasured(
        &mut self,
        verb: BenchVerb,
        requests: u64,
        size: ByteSize,
        (at, target): (usize, &BenchTarget),
    ) -> Result<()> {
        if requests == 0 {
            return Ok(());
        }
        let concurrency = UNMEASURED_CONCURRENCY.min(u32::try_from(requests).unwrap_or(u32::MAX));
        let job = Job {
            settle: Duration::ZERO,
            ..self.job(Workload::One(verb), concurrency, Limit::Requests(requests))
        };
        let set = self.set(size, at);
        let outcome = run_job(target, &job, set, |_| {})?;
        set.apply(&outcome.change);
        match outcome.tally.examples.values().next() {
            None => Ok(()),
            Some(example) => bail!("{} of {requests} objects: {example}", verb.name()),
        }
    }
}

fn check_bucket(target: &BenchTarget) -> Result<()> {
    for gateway in 0..target.transports.len() {
        let mut client = target.client(gateway);
        let bucket = &target.access.bucket;
        let exists = client
            .bucket_exists()
            .with_context(|| format!("look for the bucket {bucket}"))?;
        if !exists {
            ensure!(
                target.create_bucket,
                "no bucket {bucket} (make it with --create-bucket)"
            );
            match client.create_bucket() {
                // Somebody else was faster: fine as long as it is there.
                Err(S3Error::Status { status: 409, .. }) => {}
                result => result.with_context(|| format!("create the bucket {bucket}"))?,
            }
        }
    }
    Ok(())
}
