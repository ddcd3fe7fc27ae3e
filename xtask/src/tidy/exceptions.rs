//! Exceptions to the rules, each with its reason.

/// Something that only the files below `path` may do.
pub(super) struct Exception {
    /// A file, or a folder with `/` at its end.
    pub(super) path: &'static str,
    pub(super) reason: &'static str,
}

const fn exception(path: &'static str, reason: &'static str) -> Exception {
    Exception { path, reason }
}

/// The file system: disks belong to the environment, so that the simulation owns them.
pub(super) const FILE_SYSTEM: &[Exception] = &[
    exception("crates/env/", "is the seam itself"),
    exception(
        "crates/engine/src/host/",
        "the files beside the disks: the master key and the memory of the pool",
    ),
    exception("crates/audit/", "the files of the audit log"),
    exception(
        "crates/transfer/src/record_log.rs",
        "the files with the records of copies",
    ),
    exception(
        "crates/admin/src/backup_admin.rs",
        "reads the memory of the pool for a backup",
    ),
    exception(
        "crates/admin/src/upkeep_admin.rs",
        "finds out why a folder does not hold its disk",
    ),
    exception(
        "crates/server/",
        "configuration, locks and sockets of the one process",
    ),
    exception(
        "crates/dewar/",
        "the command line reads and writes what it is told to",
    ),
    exception(
        "crates/client/",
        "the client side: result files, /proc of the server it measures",
    ),
    exception(
        "crates/fuzz/",
        "reads samples and writes down inputs that fail",
    ),
    exception("xtask/", "works on the tree"),
];

/// The system's clock: time belongs to the environment.
pub(super) const CLOCK: &[Exception] = &[
    exception("crates/env/", "is the seam itself"),
    exception(
        "crates/client/src/clock.rs",
        "a load driver measures real time",
    ),
    exception("crates/fuzz/src/runner.rs", "real time limits the search"),
];

/// Randomness: chance belongs to the environment.
pub(super) const CHANCE: &[Exception] = &[
    exception("crates/env/", "is the seam itself"),
    exception(
        "crates/client/src/login/browser.rs",
        "secrets of a person's login, on a person's machine",
    ),
];

/// Exceptions to clippy's list of disallowed methods.
pub(super) const DISALLOWED_METHODS: &[Exception] = &[
    exception("crates/env/", "is the seam itself"),
    exception(
        "crates/client/src/clock.rs",
        "a load driver measures real time",
    ),
    exception("crates/fuzz/src/runner.rs", "real time limits the search"),
    exception(
        "crates/server/src/socket_owner/",
        "asks the kernel for a socket; what is read is memory and no disk",
    ),
    exception(
        "crates/sim/src/main.rs",
        "runs simulations side by side and says how long they took",
    ),
    exception("xtask/src/phases.rs", "says how long builds and tests took"),
];

/// Unsafe code, each block with its SAFETY comment.
pub(super) const UNSAFE: &[Exception] = &[
    exception(
        "crates/erasure/src/codec/",
        "vector instructions of the codec",
    ),
    exception("crates/checksum/src/", "vector instructions of the digests"),
    exception(
        "crates/env/src/disk/",
        "aligned buffers and system calls of the disk queues",
    ),
];

/// Files that may be longer than the limit.
pub(super) const LONG: &[Exception] = &[];
