//! Test of the simulation itself: safeguards are switched off one at a time, and rare branches must
//! have been taken.
//!
//! A safeguard is a call of [`dewar_env::safeguard`] in the code, or a kind of sync of the
//! simulated disk. Without it some seed must fail; otherwise the simulation would not notice its
//! loss. docs/durability.md has the table of how many seeds fail. The behaviour of a seed changes
//! with every change of the core. The seed that is known to fail is therefore tried first, and
//! others are searched when it passes. [`crate::plan::Focus`] ensures that more than a few seeds
//! fail. Safeguards without a failing seed are not here but in that table's text.

/// A safeguard, and the number of seeds within which its absence must be noticed.
#[derive(Clone, Copy, Debug)]
pub struct Safeguard {
    /// As the code calls it.
    pub name: &'static str,
    /// The first seed that noticed its absence at the last search.
    pub known: u64,
}

const fn known(known: u64, name: &'static str) -> Safeguard {
    Safeguard { name, known }
}

/// Number of seeds within which every absence is noticed; even the rarest by some twenty of them.
pub const SEEDS_MAX: u64 = 3000;

/// All of them.
pub const SAFEGUARDS: &[Safeguard] = &[
    known(3, "sync of shards"),
    known(3, "sync of the folders of shards"),
    known(4, "sync of runs and manifests"),
    known(9, "sync of the folder of the index"),
    known(3, "durable writes of the journal"),
    known(3, "sync of epoch files"),
    known(4, "sync of the folder of the journal"),
    known(2, "sync of the folder of the identity"),
    known(43, "identities are made durable again"),
    known(19, "checksums of pages"),
    known(172, "pages know their place"),
    known(38, "checksums of the index"),
    known(99, "checksums of journal records"),
    known(2, "checksums of journal files"),
    known(115, "checksums of epoch files"),
    known(4, "the opening rule"),
    known(57, "epochs on more than m members"),
    known(146, "m+1 copies before an acknowledgement"),
    known(97, "k+1 shards before an acknowledgement"),
    known(0, "room for what empties the journal"),
    known(17, "the journal is kept for the index"),
    known(0, "the journal is kept for unsealed segments"),
    known(58, "only what is durable is shown"),
    known(7, "preconditions of batches"),
    known(0, "ids are reserved before they are used"),
    known(108, "the sweep spares new blobs"),
    known(10, "emptied segments stay gone"),
    known(129, "readers keep what they read"),
    known(382, "one hand on a blob"),
    known(27, "a repair replaces what it read"),
    known(444, "tokens of disks"),
];

/// Rare branches that a thousand seeds must take.
pub const RARE: &[&str] = &[
    // Power and processes that fail.
    "the log ended with a torn record",
    "an epoch was proposed and no more",
    "a slot came back from the journal",
    "the sealing of a segment was cut short",
    "a compaction was cut short",
    "a repair was cut short",
    "leftovers were swept",
    // Disks that lie, are slow, or come back.
    "a record was bad in one copy",
    "a piece of the index was bad in one copy",
    "a shard was decoded around",
    "a bad shard won the race and was refused",
    "decoding overtook a slow shard",
    "a page was healed",
    "a disk came back with an old epoch",
    "a stale disk lacked a shard",
    "a shard was another's",
    "a disk joined while running",
    "a member came back to the journal",
    // Upkeep.
    "a blob was laid out narrower",
    "a narrowed blob was laid out again",
    "a blob was laid out for fewer disks",
    "a shard was written again in its place",
    "a shard moved to another disk",
    "a leftover was named again",
    "the scrub found a bad shard",
    "a disk was found to be an old copy",
    "a doubt was settled",
    "segments were compacted",
    // The journal while it runs.
    "an epoch began while running",
    "a holder was replaced",
    "the journal was full",
    "a commit collided",
    // What the simulation itself does.
    "a client left in the middle",
    "an opening in fog was refused",
    "a disk was to be emptied",
    "a disk was removed",
    "a removed disk was taken back",
    "a disk that was taken back was looked through",
    "files changed places",
    "a write went astray",
    "it came back old",
    "two disks changed places",
    "the clock jumped",
];
