//! A set of shards of one blob.

use core::fmt;

/// A set of shard indices, 0 to 31; a blob has at most 20.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ShardSet(u32);

impl ShardSet {
    /// The set without members.
    pub const EMPTY: Self = Self(0);

    /// The first `count` shards, at most 32.
    #[must_use]
    pub const fn first(count: usize) -> Self {
        match count {
            0..32 => Self((1 << count) - 1),
            _ => Self(u32::MAX),
        }
    }

    /// Whether `shard` is a member.
    #[must_use]
    pub const fn contains(self, shard: usize) -> bool {
        shard < 32 && self.0 >> shard & 1 != 0
    }

    /// The set with `shard`, which is below 32 (others change nothing).
    #[must_use]
    pub const fn with(self, shard: usize) -> Self {
        match shard {
            0..32 => Self(self.0 | 1 << shard),
            _ => self,
        }
    }

    /// The set without `shard`.
    #[must_use]
    pub const fn without(self, shard: usize) -> Self {
        match shard {
            0..32 => Self(self.0 & !(1 << shard)),
            _ => self,
        }
    }

    /// Number of members.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it has no member.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |&shard| self.contains(shard))
    }
}

impl FromIterator<usize> for ShardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(shards: I) -> Self {
        shards.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
