//! Verified pieces in memory: sharded, bounded, evicted by the clock.

use std::collections::HashMap;

use parking_lot::Mutex;

const SHARDS: usize = 16;

/// A run and an offset in it.
type PieceKey = (u64, u64);

/// A bounded cache. A piece that is used again before the clock's hand comes round stays; one that
/// is read once, as by a long listing, goes first.
pub(super) struct PieceCache<T> {
    shards: Vec<Mutex<Shard<T>>>,
    shard_bytes: usize,
}

struct Shard<T> {
    slots: HashMap<PieceKey, usize>,
    ring: Vec<Slot<T>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
}

struct Slot<T> {
    place: PieceKey,
    /// `None` in an empty slot.
    piece: Option<T>,
    bytes: usize,
    used: bool,
}

impl<T: Clone> PieceCache<T> {
    /// Holds up to `bytes` bytes of pieces.
    pub(super) fn new(bytes: usize) -> Self {
        let shard = || Shard {
            slots: HashMap::new(),
            ring: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
        };
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            shard_bytes: bytes / SHARDS,
        }
    }

    /// The piece at this offset of the run.
    pub(super) fn get(&self, run: u64, offset: u64) -> Option<T> {
        let mut shard = self.shard(run, offset).lock();
        let slot = *shard.slots.get(&(run, offset))?;
        let slot = shard.ring.get_mut(slot)?;
        slot.used = true;
        slot.piece.clone()
    }

    /// Keeps a piece of `bytes` bytes, unless it is larger than a shard.
    pub(super) fn insert(&self, run: u64, offset: u64, piece: T, bytes: usize) {
        if bytes > self.shard_bytes {
            return;
        }
        let place = (run, offset);
        let mut shard = self.shard(run, offset).lock();
        if shard.slots.contains_key(&place) {
            return;
        }
        shard.make_room(self.shard_bytes - bytes);
        shard.bytes += bytes;
        let slot = Slot {
            place,
            piece: Some(piece),
            bytes,
            used: false,
        };
        let number = match shard.free.pop() {
            Some(number) => {
                shard.ring[number] = slot;
                number
            }
            None => {
                shard.ring.push(slot);
                shard.ring.len() - 1
            }
        };
        shard.slots.insert(place, number);
    }

    /// Bytes of the pieces held.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    fn shard(&self, run: u64, offset: u64) -> &Mutex<Shard<T>> {
        let mixed = (run ^ offset).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = usize::try_from(mixed >> 32).unwrap_or(0) % SHARDS;
        &self.shards[number]
    }
}

impl<T> Shard<T> {
    fn make_room(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let hand = self.hand;
            self.hand += 1;
            let Some(slot) = self.ring.get_mut(hand) else {
                return;
            };
            if slot.used {
                slot.used = false;
            } else if slot.piece.take().is_some() {
                self.bytes -= slot.bytes;
                self.slots.remove(&slot.place);
                self.free.push(hand);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_its_bounds_and_keeps_what_is_used() {
        let cache = PieceCache::new(SHARDS * 1000);
        for n in 0..10_000_u64 {
            cache.insert(1, n, n, 100);
            assert_eq!(cache.get(1, 0), Some(0), "used each time, after {n}");
            assert!(cache.bytes() <= SHARDS * 1000);
        }
        let held = (0..10_000).filter(|&n| cache.get(1, n) == Some(n)).count();
        assert!((100..=160).contains(&held), "{held}");
        cache.insert(2, 0, 7, 1001);
        assert_eq!(cache.get(2, 0), None);
        let slots: usize = cache.shards.iter().map(|s| s.lock().ring.len()).sum();
        assert!(slots <= 160, "{slots} slots are left behind");
    }
}
