//! Blocks: sorted entries, whose keys omit the prefix that they share with the previous key.

use bytes::Bytes;

use super::wire::{put_var, short, size, take_var, u32_at};
use super::{KEY_BYTES_MAX, Malformed, body};

/// Every so many entries a key stands whole, so that a search can begin there.
const RESTART_EVERY: usize = 16;

/// Gathers entries into a block.
#[derive(Default)]
pub(in super::super) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    last: Vec<u8>,
}

impl BlockBuilder {
    /// Whether nothing was added.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// How large the block is at most with one more entry, in bytes.
    pub(in super::super) fn size_with(&self, key: &[u8], value: Option<&[u8]>) -> usize {
        self.bytes.len() + key.len() + value.map_or(0, <[u8]>::len) + 4 * self.restarts.len() + 27
    }

    /// Appends an entry above all before.
    pub(in super::super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        let shared = if self.restarts.is_empty() || self.since_restart == RESTART_EVERY {
            self.restarts.push(short(self.bytes.len()));
            self.since_restart = 0;
            0
        } else {
            let pairs = self.last.iter().zip(key);
            pairs.take_while(|(a, b)| a == b).count()
        };
        self.since_restart += 1;
        put_var(&mut self.bytes, short(shared));
        put_var(&mut self.bytes, short(key.len() - shared));
        put_var(&mut self.bytes, value.map_or(0, |v| short(v.len()) + 1));
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
    }

    /// The block without its checksum; the next one begins empty.
    pub(in super::super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.bytes);
        for restart in &self.restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        out.extend_from_slice(&short(self.restarts.len()).to_le_bytes());
        self.restarts.clear();
        self.since_restart = 0;
        self.last.clear();
    }
}

/// A block whose checksum was right.
#[derive(Clone, Debug)]
pub(in super::super) struct Block {
    bytes: Bytes,
    /// End of the entries and start of the restarts.
    end: usize,
    restarts: usize,
}

/// Where a value lies in its block; `None` for a deletion.
type Span = Option<(usize, usize)>;

struct Entry {
    shared: usize,
    key: (usize, usize),
    value: Span,
    next: usize,
}

impl Block {
    /// Takes a piece, checksum included, that was verified.
    pub(in super::super) fn parse(bytes: Bytes) -> Result<Self, Malformed> {
        let body = body(&bytes);
        let wrong = Malformed("a block's restarts do not fit");
        let tail = body.len().checked_sub(4).ok_or(wrong)?;
        let restarts = size(u32_at(body, tail));
        let end = restarts
            .checked_mul(4)
            .and_then(|n| tail.checked_sub(n))
            .filter(|_| restarts > 0)
            .ok_or(wrong)?;
        let block = Self {
            bytes,
            end,
            restarts,
        };
        let mut last = None;
        for n in 0..restarts {
            let at = block.restart(n);
            let above = last.map_or(at == 0, |last| at > last);
            if !above || at >= end {
                return Err(wrong);
            }
            last = Some(at);
        }
        Ok(block)
    }

    /// The piece that it was made of, checksum included.
    pub(in super::super) fn piece(&self) -> &Bytes {
        &self.bytes
    }

    /// What the key maps to: nothing, a deletion, or a value.
    #[allow(clippy::option_option, reason = "absent and deleted are two answers")]
    pub(in super::super) fn get(&self, key: &[u8]) -> Result<Option<Option<Bytes>>, Malformed> {
        let mut at = self.restart(self.restart_at_most(key)?);
        // How much of the key the entry before shares with the one sought: what an entry shares
        // with it decides without putting keys together.
        let mut matched = 0;
        let mut first = true;
        while at < self.end {
            let entry = self.entry(at)?;
            if first && entry.shared != 0 {
                return Err(NOT_WHOLE);
            }
            if !first && entry.shared < matched {
                // It turns away from the sought key earlier than the one before, upwards.
                return Ok(None);
            }
            if first || entry.shared == matched {
                let rest = &self.bytes[entry.key.0..entry.key.1];
                let sought = &key[matched..];
                let common = rest.iter().zip(sought).take_while(|(a, b)| a == b).count();
                if common == rest.len() && common == sought.len() {
                    return Ok(Some(self.value(entry.value)));
                }
                if common == sought.len() || (common < rest.len() && rest[common] > sought[common])
                {
                    return Ok(None);
                }
                matched += common;
            }
            first = false;
            at = entry.next;
        }
        Ok(None)
    }

    /// A copy of a value, which does not keep the block in memory.
    fn value(&self, span: Span) -> Option<Bytes> {
        span.map(|(from, to)| Bytes::copy_from_slice(&self.bytes[from..to]))
    }

    fn restart(&self, n: usize) -> usize {
        size(u32_at(&self.bytes, self.end + 4 * n))
    }

    /// The last restart whose key is not above `key`, or the first.
    fn restart_at_most(&self, key: &[u8]) -> Result<usize, Malformed> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let entry = self.entry(self.restart(middle))?;
            if entry.shared != 0 {
                return Err(NOT_WHOLE);
            }
            if &self.bytes[entry.key.0..entry.key.1] <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    #[inline]
    fn entry(&self, at: usize) -> Result<Entry, Malformed> {
        let bytes = &self.bytes[..self.end];
        let mut next = at;
        let shared = size(take_var(bytes, &mut next)?);
        let rest = size(take_var(bytes, &mut next)?);
        let tag = size(take_var(bytes, &mut next)?);
        let value_len = tag.saturating_sub(1);
        let after_key = next.checked_add(rest);
        let end = after_key.and_then(|n| n.checked_add(value_len));
        match (after_key, end) {
            (Some(middle), Some(end)) if end <= self.end && shared <= KEY_BYTES_MAX => Ok(Entry {
                shared,
                key: (next, middle),
                value: (tag > 0).then_some((middle, end)),
                next: end,
            }),
            _ => Err(Malformed("an entry reaches behind its block")),
        }
    }

    /// Puts an entry's key together; `key` holds the one before.
    #[inline]
    fn complete(&self, key: &mut Vec<u8>, entry: &Entry) -> Result<(), Malformed> {
        if entry.shared > key.len() {
            return Err(Malformed("an entry shares more than there is"));
        }
        key.truncate(entry.shared);
        key.extend_from_slice(&self.bytes[entry.key.0..entry.key.1]);
        Ok(())
    }
}

const NOT_WHOLE: Malformed = Malformed("a key at a restart is not whole");

/// Walks a block upwards.
pub(in super::super) struct BlockCursor {
    block: Block,
    next: usize,
    key: Vec<u8>,
    value: Span,
    valid: bool,
}

impl BlockCursor {
    /// Before the first entry: [`Self::advance`] or [`Self::seek`] comes next.
    pub(in super::super) fn new(block: Block) -> Self {
        Self {
            block,
            next: 0,
            key: Vec::new(),
            value: None,
            valid: false,
        }
    }

    /// Goes on in another block, before its first entry.
    pub(in super::super) fn enter(&mut self, block: Block) {
        self.block = block;
        self.next = 0;
        self.key.clear();
        self.valid = false;
    }

    /// The key it stands at.
    #[inline]
    pub(in super::super) fn key(&self) -> Option<&[u8]> {
        self.valid.then_some(&self.key)
    }

    /// The value it stands at; `None` for a deletion.
    #[inline]
    pub(in super::super) fn value(&self) -> Option<&[u8]> {
        self.value.map(|(from, to)| &self.block.bytes[from..to])
    }

    /// The same, sharing the block's memory.
    pub(in super::super) fn value_bytes(&self) -> Option<Bytes> {
        self.value
            .map(|(from, to)| self.block.bytes.slice(from..to))
    }

    /// Goes to the next entry; whether there is one.
    #[inline]
    pub(in super::super) fn advance(&mut self) -> Result<bool, Malformed> {
        self.valid = self.next < self.block.end;
        if self.valid {
            let entry = self.block.entry(self.next)?;
            self.block.complete(&mut self.key, &entry)?;
            self.value = entry.value;
            self.next = entry.next;
        }
        Ok(self.valid)
    }

    /// Goes to the first entry that is not below `key`; whether there is one.
    pub(in super::super) fn seek(&mut self, key: &[u8]) -> Result<bool, Malformed> {
        self.next = self.block.restart(self.block.restart_at_most(key)?);
        self.key.clear();
        while self.advance()? {
            if self.key.as_slice() >= key {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Walks a block downwards, a stretch between restarts at a time.
pub(in super::super) struct BlockReverse {
    block: Block,
    /// Restarts before the current range.
    below: usize,
    /// The keys of the range, one after the other.
    keys: Vec<u8>,
    stretch: Vec<(usize, usize, Span)>,
}

impl BlockReverse {
    /// At the last entry below `key`; an empty key stands for the end.
    pub(in super::super) fn before(block: Block, key: &[u8]) -> Result<Self, Malformed> {
        let mut below = block.restarts;
        if !key.is_empty() {
            below = block.restart_at_most(key)? + 1;
        }
        let mut reverse = Self {
            block,
            below,
            keys: Vec::new(),
            stretch: Vec::new(),
        };
        reverse.fill()?;
        if !key.is_empty() {
            while reverse.key().is_some_and(|at| at >= key) {
                reverse.advance()?;
            }
        }
        Ok(reverse)
    }

    /// The key it stands at.
    pub(in super::super) fn key(&self) -> Option<&[u8]> {
        self.stretch
            .last()
            .map(|&(from, to, _)| &self.keys[from..to])
    }

    /// The value it stands at, sharing the block's memory; `None` for a deletion.
    pub(in super::super) fn value_bytes(&self) -> Option<Bytes> {
        let (from, to) = self.stretch.last()?.2?;
        Some(self.block.bytes.slice(from..to))
    }

    /// Goes to the entry before; whether there is one.
    pub(in super::super) fn advance(&mut self) -> Result<bool, Malformed> {
        self.stretch.pop();
        if self.stretch.is_empty() {
            self.fill()?;
        }
        Ok(!self.stretch.is_empty())
    }

    fn fill(&mut self) -> Result<(), Malformed> {
        if self.below == 0 {
            return Ok(());
        }
        let end = if self.below == self.block.restarts {
            self.block.end
        } else {
            self.block.restart(self.below)
        };
        self.below -= 1;
        let mut at = self.block.restart(self.below);
        self.keys.clear();
        let mut key = Vec::new();
        while at < end {
            let entry = self.block.entry(at)?;
            self.block.complete(&mut key, &entry)?;
            let from = self.keys.len();
            self.keys.extend_from_slice(&key);
            self.stretch.push((from, self.keys.len(), entry.value));
            at = entry.next;
        }
        Ok(())
    }
}
