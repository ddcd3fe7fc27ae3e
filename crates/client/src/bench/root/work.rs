//! The work of a worker, and its counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::{Bytes, BytesMut};
use dewar_xrootd_client::{Error, File, Result};
use dewar_xrootd_proto::options::open as bits;
use dewar_xrootd_proto::request::Open;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;

use super::args::Work;
use super::{RootContext, Session};
use crate::bench::content::{ObjectContent, Random};
use crate::bench::tally::Latencies;
use crate::clock;
use crate::http::Bytes as _;

/// Bytes of a listing that is taken.
const LIST_BYTES_MAX: usize = 256 << 20;

/// Files of one size in a directory of their own, numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct FileSet {
    pub(super) folder: String,
    pub(super) size: u64,
    /// How many there are.
    pub(super) live: u64,
}

impl FileSet {
    pub(super) fn new(folder: String, size: u64) -> Self {
        Self {
            folder,
            size,
            live: 0,
        }
    }

    pub(super) fn name(&self, number: u64) -> String {
        format!("{}/{number:010}", self.folder)
    }
}

/// The counters of the work.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) ops: u64,
    pub(super) bytes: u64,
    pub(super) keys: u64,
    pub(super) errors: u64,
    pub(super) latencies: Latencies,
    /// Errors in full, and how often each came.
    pub(super) by_text: BTreeMap<String, u64>,
}

/// Most different errors that are printed.
const TEXTS_MAX: usize = 5;

impl Default for Tally {
    fn default() -> Self {
        Self {
            ops: 0,
            bytes: 0,
            keys: 0,
            errors: 0,
            latencies: Latencies::new(),
            by_text: BTreeMap::new(),
        }
    }
}

impl Tally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.keys += other.keys;
        self.errors += other.errors;
        self.latencies.merge(&other.latencies);
        for (text, count) in &other.by_text {
            self.note(text.clone(), *count);
        }
    }

    fn note(&mut self, text: String, count: u64) {
        if self.by_text.len() < TEXTS_MAX || self.by_text.contains_key(&text) {
            *self.by_text.entry(text).or_default() += count;
        }
    }

    pub(super) fn examples(&self) -> String {
        let texts = self.by_text.iter();
        let texts: Vec<String> = texts
            .map(|(text, count)| format!("{count} x {text}"))
            .collect();
        texts.join("; ")
    }
}

/// Bytes moved and names listed by one operation.
type OpVolume = (u64, u64);

/// A session that works.
pub(super) struct FileWorker {
    shared: Arc<RootContext>,
    session: Session,
    number: u64,
    /// The file that vectors are read from.
    open: Option<File>,
}

impl FileWorker {
    pub(super) fn new(shared: Arc<RootContext>, session: Session, number: u64) -> Self {
        Self {
            shared,
            session,
            number,
            open: None,
        }
    }

    /// Works until there is nothing left to do.
    pub(super) async fn run(mut self) -> Tally {
        let mut tally = Tally::default();
        while let Some(ticket) = self.shared.ticket() {
            let begun = clock::now();
            match self.perform(ticket).await {
                Ok((bytes, keys)) => {
                    tally.ops += 1;
                    tally.bytes += bytes;
                    tally.keys += keys;
                    tally.latencies.record(clock::now().duration_since(begun));
                }
                Err(error) => {
                    tally.errors += 1;
                    tally.note(error.to_string(), 1);
                    self.shared.failures.fetch_add(1, Relaxed);
                    if self.session.is_over() {
                        break;
                    }
                }
            }
        }
        tally
    }

    async fn perform(&mut self, ticket: u64) -> Result<OpVolume> {
        let shared = Arc::clone(&self.shared);
        let set = &shared.set;
        let number = ticket % set.live.max(1);
        match shared.step.work {
            Work::Put => self.put(set.live + ticket, true).await,
            Work::PutPlain => self.put(set.live + ticket, false).await,
            Work::Get => self.get(number, true).await,
            Work::GetPlain => self.get(number, false).await,
            Work::Vector => self.vector(ticket).await,
            Work::Open => self.open_and_read(number).await,
            Work::Stat => {
                let stat = self.session.stat(&set.name(number)).await?;
                whole(stat.size, set.size)?;
                Ok((0, 0))
            }
            Work::List => {
                let listed = self.session.dirlist(&set.folder, LIST_BYTES_MAX).await?;
                let count = listed.len() as u64;
                whole(count, set.live)?;
                Ok((0, count))
            }
        }
    }

    async fn put(&self, number: u64, paged: bool) -> Result<OpVolume> {
        let set = &self.shared.set;
        let name = set.name(number);
        let path = format!("{name}?oss.asize={}", set.size);
        let options = bits::NEW | bits::UPDATE | bits::MKPATH;
        let file = self.file(path, options, 0o644).await?;
        let content = ObjectContent::new(&name, set.size);
        let mut under_way = FuturesOrdered::new();
        let mut at = 0;
        loop {
            while at < set.size && under_way.len() < self.shared.args.ahead as usize {
                let len = self.shared.args.chunk.0.min(set.size - at);
                let data = piece(&content, at, len);
                let (file, offset) = (&file, at);
                under_way.push_back(async move {
                    match paged {
                        true => file.write_pages(offset, data).await,
                        false => file.write(offset, data).await,
                    }
                });
                at += len;
            }
            match under_way.next().await {
                Some(outcome) => outcome?,
                None => break,
            }
        }
        drop(under_way);
        file.close().await?;
        Ok((set.size, 0))
    }

    async fn get(&self, number: u64, paged: bool) -> Result<OpVolume> {
        let set = &self.shared.set;
        let name = set.name(number);
        let file = self.file(name.clone(), bits::READ, 0).await?;
        let content = self
            .shared
            .args
            .verify
            .then(|| ObjectContent::new(&name, set.size));
        let mut under_way = FuturesOrdered::new();
        let (mut at, mut came) = (0, 0);
        loop {
            while at < set.size && under_way.len() < self.shared.args.ahead as usize {
                let len = self.shared.args.chunk.0.min(set.size - at) as u32;
                let (file, offset) = (&file, at);
                under_way.push_back(async move {
                    match paged {
                        true => file.read_pages(offset, len).await,
                        false => file.read(offset, len).await,
                    }
                });
                at += u64::from(len);
            }
            let Some(pieces) = under_way.next().await else {
                break;
            };
            for bytes in pieces? {
                if let Some(content) = &content {
                    same(content, came, &bytes)?;
                }
                came += bytes.len() as u64;
            }
        }
        drop(under_way);
        whole(came, set.size)?;
        file.close().await?;
        Ok((came, 0))
    }

    async fn vector(&mut self, ticket: u64) -> Result<OpVolume> {
        let shared = Arc::clone(&self.shared);
        let (set, args) = (&shared.set, &shared.args);
        let name = set.name(self.number % set.live.max(1));
        if self.open.is_none() {
            self.open = Some(self.file(name.clone(), bits::READ, 0).await?);
        }
        let Some(file) = &self.open else {
            return Ok((0, 0));
        };
        let len = args.vector_size.0 as u32;
        let mut random = Random::new(ticket.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut place = || (random.below(set.size - u64::from(len) + 1), len);
        let places: Vec<(u64, u32)> = (0..args.vector_items).map(|_| place()).collect();
        let pieces = file.read_vector(&places).await?;
        if args.verify {
            let content = ObjectContent::new(&name, set.size);
            for ((offset, _), bytes) in places.iter().zip(&pieces) {
                same(&content, *offset, bytes)?;
            }
        }
        Ok((u64::from(len) * u64::from(args.vector_items), 0))
    }

    async fn open_and_read(&self, number: u64) -> Result<OpVolume> {
        let shared = &self.shared;
        let name = shared.set.name(number);
        let file = self.file(name.clone(), bits::READ, 0).await?;
        let wanted = shared.args.vector_size.0.min(shared.set.size);
        let bytes = file.read(0, wanted as u32).await?.concat();
        whole(bytes.len() as u64, wanted)?;
        if shared.args.verify {
            same(&ObjectContent::new(&name, shared.set.size), 0, &bytes)?;
        }
        file.close().await?;
        Ok((wanted, 0))
    }

    async fn file(&self, path: String, options: u16, mode: u16) -> Result<File> {
        let open = Open {
            mode,
            options: options | bits::RETSTAT | bits::ASYNC,
            path,
            ..Open::default()
        };
        File::open(&self.session, &open).await
    }
}

fn whole(came: u64, expected: u64) -> Result<()> {
    match came == expected {
        true => Ok(()),
        false => Err(Error::Data(format!("{came} in place of {expected}"))),
    }
}

fn piece(content: &ObjectContent, mut at: u64, len: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(len as usize);
    let end = at + len;
    while at < end {
        let bytes = content.at(at);
        let take = bytes.len().min((end - at) as usize);
        out.extend_from_slice(&bytes[..take]);
        at += take as u64;
    }
    out.freeze()
}

fn same(content: &ObjectContent, offset: u64, bytes: &[u8]) -> Result<()> {
    match piece(content, offset, bytes.len() as u64) == bytes {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "other bytes than were written at {offset}"
        ))),
    }
}
