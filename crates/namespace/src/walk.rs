//! Walking the tree in the order of whole keys, from any key on.

use std::collections::VecDeque;

use bytes::Bytes;
use dewar_catalog::keys::{self, KeyRange};
use dewar_catalog::record::{DirRecord, Entry, FileRecord, Record};
use dewar_kv::{KvRead, Scan};
use dewar_types::{EntryId, Error};

use super::effort::Effort;

/// Largest page read at once from a directory.
const PAGE_MAX: usize = 1024;

/// Page read after what was read has been skipped.
const PAGE_AFTER_SKIP: usize = 8;

/// What stands next in the walk. Paths begin below the root of the walk.
pub(super) enum WalkStep {
    File(String, FileRecord),
    Symlink(String),
    /// The path ends in `/`. The walk continues after the directory unless it is entered.
    Dir(String, DirRecord),
}

impl WalkStep {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::File(path, _) | Self::Symlink(path) | Self::Dir(path, _) => path,
        }
    }
}

/// A directory that is being read.
struct Frame {
    range: KeyRange,
    dir: EntryId,
    /// Bytes of the walk's path that lead here.
    depth: usize,
    pairs: VecDeque<(Bytes, Bytes)>,
    /// Start of the next read; `None` at the end.
    next: Option<Bytes>,
    page: usize,
}

impl Frame {
    /// Goes on at `from` or where it is, whichever is later.
    fn skip(&mut self, from: Bytes) {
        while self.pairs.front().is_some_and(|(key, _)| *key < from) {
            self.pairs.pop_front();
        }
        if self.pairs.is_empty()
            && let Some(next) = &mut self.next
            && *next < from
        {
            // Skipping as seldom reads on far: begin small again.
            self.page = PAGE_AFTER_SKIP;
            *next = from;
        }
    }
}

/// A walk through a snapshot.
pub(super) struct Walk<'k> {
    kv: &'k dyn KvRead,
    path: String,
    frames: Vec<Frame>,
    page: usize,
}

impl<'k> Walk<'k> {
    /// A walk of everything below `root`. Directories are read in pages that begin with `page`
    /// entries and grow.
    pub(super) fn new(kv: &'k dyn KvRead, root: EntryId, page: usize) -> Self {
        let mut walk = Self {
            kv,
            path: String::new(),
            frames: Vec::new(),
            page: page.clamp(1, PAGE_MAX),
        };
        walk.push(root);
        walk
    }

    fn push(&mut self, dir: EntryId) {
        let range = keys::entries(dir);
        self.frames.push(Frame {
            dir,
            depth: self.path.len(),
            pairs: VecDeque::new(),
            next: Some(range.from.clone()),
            range,
            page: self.page,
        });
    }

    /// The next entry.
    pub(super) async fn next(&mut self) -> Result<Option<WalkStep>, Error> {
        while let Some(frame) = self.frames.last_mut() {
            self.path.truncate(frame.depth);
            if let Some((key, value)) = frame.pairs.pop_front() {
                let (_, name, _) = keys::parse_entry(&key)?;
                let mut path = String::with_capacity(self.path.len() + name.len() + 1);
                path.push_str(&self.path);
                path.push_str(name);
                return Ok(Some(match Entry::from_value(&key, &value)? {
                    Entry::File(file) => WalkStep::File(path, file),
                    Entry::Symlink(_) => WalkStep::Symlink(path),
                    Entry::Dir(dir) => {
                        path.push('/');
                        WalkStep::Dir(path, dir)
                    }
                }));
            }
            let Some(from) = frame.next.take() else {
                self.frames.pop();
                continue;
            };
            let page = self
                .kv
                .scan(Scan {
                    from: &from,
                    to: &frame.range.to,
                    limit: frame.page,
                    reverse: false,
                })
                .await?;
            if page.more
                && let Some((last, _)) = page.pairs.last()
            {
                frame.next = Some(keys::just_after(last));
            }
            frame.page = (frame.page * 2).min(PAGE_MAX);
            frame.pairs = page.pairs.into();
        }
        Ok(None)
    }

    /// The directory of the entry that [`Walk::next`] gave last.
    pub(super) fn dir(&self) -> EntryId {
        // An entry comes from the last frame, which stays until its end is seen.
        self.frames.last().map_or(EntryId(0), |frame| frame.dir)
    }

    /// Goes into the directory that [`Walk::next`] gave last.
    pub(super) fn enter(&mut self, path: String, dir: &DirRecord) {
        self.path = path;
        self.push(dir.attributes.id);
    }

    /// Goes on with the first path at or above `target`, which lies above where the walk is.
    pub(super) async fn seek(&mut self, target: &[u8]) -> Result<(), Error> {
        while let Some(frame) = self.frames.last() {
            self.path.truncate(frame.depth);
            if target.starts_with(self.path.as_bytes()) {
                break;
            }
            self.frames.pop();
        }
        while let Some(frame) = self.frames.last_mut() {
            let rest = &target[frame.depth..];
            let Some(slash) = rest.iter().position(|&byte| byte == b'/') else {
                frame.skip(keys::entries_from(frame.dir, rest));
                return Ok(());
            };
            let key = keys::entries_from(frame.dir, &rest[..=slash]);
            frame.skip(keys::just_after(&key));
            let Some(value) = self.kv.get(&key).await?.value else {
                return Ok(());
            };
            let dir = DirRecord::from_value(&key, &value)?;
            let (_, name, _) = keys::parse_entry(&key)?;
            self.path.push_str(name);
            self.path.push('/');
            self.push(dir.attributes.id);
        }
        Ok(())
    }
}

/// What counts as something that lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    /// A file that can be read.
    Readable,
    /// The same, a symlink, or a directory that was made on request.
    Explicit,
    /// Any version of a file, delete markers too.
    Version,
}

/// Whether anything lives below `dir`; `None` when the effort was used up before that was clear.
pub(super) async fn has_live(
    kv: &dyn KvRead,
    dir: EntryId,
    living: Liveness,
    effort: &mut Effort<'_>,
) -> Result<Option<bool>, Error> {
    let mut walk = Walk::new(kv, dir, 2);
    while let Some(step) = walk.next().await? {
        if !effort.look().await? {
            return Ok(None);
        }
        match step {
            WalkStep::File(_, file) if file.is_live() || living == Liveness::Version => {
                return Ok(Some(true));
            }
            WalkStep::Symlink(_) if living == Liveness::Explicit => return Ok(Some(true)),
            WalkStep::Dir(_, dir) if living == Liveness::Explicit && !dir.implicit => {
                return Ok(Some(true));
            }
            WalkStep::Dir(path, dir) => walk.enter(path, &dir),
            WalkStep::File(..) | WalkStep::Symlink(_) => {}
        }
    }
    Ok(Some(false))
}
