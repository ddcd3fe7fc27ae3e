//! The simulation tested: safeguards that are switched off one at a time, and rare branches that
//! must have been taken.
//!
//! A safeguard is a place in the code where [`dewar_env::safeguard`] stands, or a kind of sync of
//! the simulated disk. Without it some seed must fail, or the simulation would not notice if it
//! were lost. docs/durability.md has the table of how many seeds that took.

/// A safeguard, and within how many seeds its absence must be noticed.
#[derive(Clone, Copy, Debug)]
pub struct Safeguard {
    /// As the code calls it.
    pub name: &'static str,
    /// So many seeds at most.
    pub seeds_max: u64,
}

const fn within(seeds_max: u64, name: &'static str) -> Safeguard {
    Safeguard { name, seeds_max }
}

/// All of them.
pub const SAFEGUARDS: &[Safeguard] = &[
    within(500, "sync of shards"),
    within(500, "sync of the folders of shards"),
    within(500, "sync of runs and manifests"),
    within(500, "sync of the folder of the index"),
    within(500, "durable writes of the journal"),
    within(500, "sync of epoch files"),
    within(500, "sync of the folder of the journal"),
    within(500, "sync of the folder of the identity"),
    within(500, "checksums of pages"),
    within(500, "checksums of the index"),
    within(500, "m+1 copies before an acknowledgement"),
    within(500, "preconditions of batches"),
    within(500, "the journal is kept for the index"),
    within(500, "the journal is kept for unsealed segments"),
    within(500, "ids are reserved before they are used"),
    within(500, "the sweep spares new blobs"),
    within(500, "emptied segments stay gone"),
];

/// Safeguards whose absence no seed among the first hundred noticed: other safeguards stand behind
/// them, or what they protect from is too rare. The simulation has to become harder.
pub const UNNOTICED: &[&str] = &[
    "identities are made durable again",
    "pages know their place",
    "checksums of journal records",
    "sequence of records",
    "the opening rule",
    "epochs on more than m members",
    "room for what empties the journal",
    "only what is durable is shown",
    "readers keep what they read",
];

/// Branches that are rarely taken and that a thousand seeds must take.
pub const RARE: &[&str] = &[
    "a shard was decoded around",
    "decoding overtook a slow shard",
    "a page was healed",
    "a slot came back from the journal",
    "segments were compacted",
    "an epoch began while running",
    "a holder was replaced",
    "a record was bad in one copy",
    "a commit collided",
    "leftovers were swept",
];
