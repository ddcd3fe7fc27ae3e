//! The loop of one connection: take a ticket, run the operation, record the result.

use std::time::{Duration, Instant};

use super::content::{ObjectContent, Random};
use super::job::JobContext;
use super::objects::Change;
use super::plan::{BenchVerb, Limit, Workload};
use super::tally::Tally;
use crate::clock;
use crate::http::Sink;
use crate::s3::{S3Client, S3Error};

/// One worker.
pub(super) struct Worker<'a> {
    shared: &'a JobContext<'a>,
    client: S3Client,
    tally: Tally,
    change: Change,
    listing: Listing,
    /// Objects this worker made in a mixed step; only these does it delete.
    own: Vec<u64>,
}

/// The position of a worker in its listing of all objects.
#[derive(Default)]
struct Listing {
    next: Option<String>,
    keys: u64,
    last: Option<String>,
}

/// The report of a worker at the end.
pub(super) struct Report {
    pub(super) tally: Tally,
    pub(super) change: Change,
    pub(super) finished: Instant,
}

/// Content bytes moved and keys listed by one operation.
type OpVolume = (u64, u64);

/// Pause of a worker after a failure, so that it does not flood a failed server.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(20);

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a JobContext<'a>, client: S3Client) -> Self {
        Self {
            shared,
            client,
            tally: Tally::default(),
            change: Change::default(),
            listing: Listing::default(),
            own: Vec::new(),
        }
    }

    /// Opens the connection ahead of the first request. A failure is not counted here: the first
    /// request will fail as well.
    pub(super) fn open(&mut self) {
        let _ = self.client.open();
    }

    /// Works until there is nothing left to do.
    pub(super) fn run(mut self) -> Report {
        let end = match self.shared.job.limit {
            Limit::Requests(_) => None,
            Limit::Seconds(seconds) => Some(clock::now() + Duration::from_secs_f64(seconds)),
        };
        while let Some(ticket) = self.shared.ticket(end) {
            let mut random = Random::new(ticket.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let verb = match self.shared.job.workload {
                Workload::One(verb) => verb,
                Workload::Mixed => {
                    let mix = &self.shared.job.mix;
                    match mix.pick(random.below(mix.total())) {
                        // Nothing of its own to delete yet: make something.
                        BenchVerb::Delete if self.own.is_empty() => BenchVerb::Put,
                        verb => verb,
                    }
                }
            };
            let Some(number) = self.object(verb, ticket, &mut random) else {
                break;
            };
            let result = self.perform(verb, number, &mut random);
            let latency = self.client.take_busy();
            self.note(verb, number, &result);
            match result {
                Ok((bytes, keys)) => self.tally.succeed(verb, latency, bytes, keys),
                Err(error) => {
                    self.tally.fail(verb, &error.kind(), || error.to_string());
                    self.shared.fail();
                    std::thread::sleep(PAUSE_AFTER_ERROR);
                }
            }
        }
        self.tally.resent = self.client.resent();
        if self.shared.job.workload == Workload::Mixed {
            self.change.created.append(&mut self.own);
        }
        Report {
            tally: self.tally,
            change: self.change,
            finished: clock::now(),
        }
    }

    /// The object of the ticket; `None` if there is none left to delete.
    fn object(&mut self, verb: BenchVerb, ticket: u64, random: &mut Random) -> Option<u64> {
        let set = self.shared.set;
        let nth = |n: u64| {
            usize::try_from(n)
                .ok()
                .and_then(|n| set.live.get(n))
                .copied()
        };
        let mixed = self.shared.job.workload == Workload::Mixed;
        match verb {
            BenchVerb::Put | BenchVerb::Multipart => {
                let number = set.next + ticket;
                self.change.next = self.change.next.max(number + 1);
                Some(number)
            }
            BenchVerb::Delete if mixed => self.own.pop(),
            BenchVerb::Delete => nth(ticket),
            BenchVerb::List => Some(0),
            BenchVerb::Get | BenchVerb::Head | BenchVerb::Range if set.live.is_empty() => None,
            BenchVerb::Get | BenchVerb::Head | BenchVerb::Range if mixed => {
                nth(random.below(set.live.len() as u64))
            }
            BenchVerb::Get | BenchVerb::Head | BenchVerb::Range => {
                nth(ticket % set.live.len() as u64)
            }
        }
    }

    fn perform(
        &mut self,
        verb: BenchVerb,
        number: u64,
        random: &mut Random,
    ) -> Result<OpVolume, S3Error> {
        let (set, job) = (self.shared.set, self.shared.job);
        let size = set.size_bytes;
        let key = set.key(number);
        match verb {
            BenchVerb::Put => {
                self.client.put(&key, &ObjectContent::new(&key, size))?;
                Ok((size, 0))
            }
            BenchVerb::Multipart => {
                self.client
                    .multipart(&key, &ObjectContent::new(&key, size), job.part_bytes)?;
                Ok((size, 0))
            }
            BenchVerb::Get | BenchVerb::Range => {
                let range = (verb == BenchVerb::Range).then(|| {
                    let start = random.below(size - job.range_bytes + 1);
                    start..start + job.range_bytes
                });
                let bytes = range.as_ref().map_or(size, |range| range.end - range.start);
                let offset = range.as_ref().map_or(0, |range| range.start);
                let content = job.verify.then(|| ObjectContent::new(&key, size));
                let mut sink = match &content {
                    Some(content) => Sink::Compare(content, offset),
                    None => Sink::Discard,
                };
                self.client.get(&key, size, range, &mut sink)?;
                Ok((bytes, 0))
            }
            BenchVerb::Head => {
                self.client.head(&key, size)?;
                Ok((0, 0))
            }
            BenchVerb::Delete => {
                self.client.delete(&key)?;
                Ok((0, 0))
            }
            BenchVerb::List => self.list(),
        }
    }

    /// One page of the worker's own walk over all objects.
    fn list(&mut self) -> Result<OpVolume, S3Error> {
        let (set, job) = (self.shared.set, self.shared.job);
        let Listing { next, keys, last } = std::mem::take(&mut self.listing);
        let page = self
            .client
            .list(&set.prefix, job.page_keys, next.as_deref())?;
        let keys = keys + page.keys;
        let wrong = |what| Err(S3Error::Promise { verb: "list", what });
        if let (Some(last), Some((first, _))) = (&last, &page.ends)
            && first <= last
        {
            return wrong(format!("{first:?} comes after {last:?}"));
        }
        let changing = job.workload == Workload::Mixed || !set.doubtful.is_empty();
        if page.next.is_none() && job.verify && !changing && keys != set.live.len() as u64 {
            return wrong(format!("{keys} keys in place of {}", set.live.len()));
        }
        let moved = (0, page.keys);
        if page.next.is_some() {
            let last = page.ends.map(|(_, last)| last).or(last);
            self.listing = Listing {
                next: page.next,
                keys,
                last,
            };
        }
        Ok(moved)
    }

    /// Records the result of a request on the object.
    fn note(&mut self, verb: BenchVerb, number: u64, result: &Result<OpVolume, S3Error>) {
        let mixed = self.shared.job.workload == Workload::Mixed;
        match (verb, result.is_ok()) {
            (BenchVerb::Put | BenchVerb::Multipart, true) if mixed => self.own.push(number),
            (BenchVerb::Put | BenchVerb::Multipart, true) => self.change.created.push(number),
            (BenchVerb::Delete, true) => self.change.removed.push(number),
            (BenchVerb::Put | BenchVerb::Multipart | BenchVerb::Delete, false) => {
                self.change.doubtful.push(number);
            }
            _ => {}
        }
    }
}
