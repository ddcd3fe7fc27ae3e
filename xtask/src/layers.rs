//! Samples of a profile by layer: one line for each layer of the server, from folded stacks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The position that a name must have in a stack for its layer.
#[derive(Clone, Copy)]
enum MatchScope {
    /// In the function that ran.
    Leaf,
    /// Anywhere among its callers.
    Stack,
}

/// The first that fits is a sample's layer. Kernels sample what runs with interrupts off at its end, so a switch or
/// the start of a transfer is counted to the call that was made.
const LAYERS: [(&str, MatchScope, &[&str]); 16] = [
    ("MD5", MatchScope::Leaf, &["md5"]),
    (
        "CRCs and Adler-32",
        MatchScope::Leaf,
        &["crc32", "crc64", "crc_fast", "adler"],
    ),
    (
        "SHA-256 (signatures, payloads)",
        MatchScope::Leaf,
        &["sha2", "sha256", "hmac"],
    ),
    ("Reed-Solomon", MatchScope::Leaf, &["dewar_erasure"]),
    ("TLS", MatchScope::Stack, &["rustls", "aws_lc", "gcm_"]),
    ("syncs", MatchScope::Stack, &["sys_fdatasync", "sys_fsync"]),
    (
        "names of files: make, open, look up, remove",
        MatchScope::Stack,
        &[
            "sys_openat",
            "sys_close",
            "newfstat",
            "sys_unlink",
            "sys_rename",
            "sys_mkdir",
        ],
    ),
    (
        "writes to disks (page cache, journal)",
        MatchScope::Stack,
        &["pwritev", "pwrite64"],
    ),
    (
        "reads from disks (page cache)",
        MatchScope::Stack,
        &["preadv", "pread64"],
    ),
    (
        "sockets",
        MatchScope::Stack,
        &[
            "sys_recv",
            "sys_send",
            "sys_writev",
            "do_writev",
            "sys_epoll",
            "sys_accept",
        ],
    ),
    (
        "waking threads",
        MatchScope::Stack,
        &["sys_futex", "sys_sched_yield"],
    ),
    (
        "memory from the kernel",
        MatchScope::Stack,
        &["page_fault", "sys_madvise", "sys_munmap", "sys_mmap"],
    ),
    (
        "interrupts and switches",
        MatchScope::Stack,
        &[
            "asm_common_interrupt",
            "asm_sysvec",
            "finish_task_switch",
            "entry_SYSCALL",
        ],
    ),
    (
        "copies and zeros in memory",
        MatchScope::Leaf,
        &["memmove", "memcpy", "memset"],
    ),
    ("allocator", MatchScope::Leaf, &["mi_"]),
    // Whatever is left.
    ("the server's own code", MatchScope::Leaf, &[""]),
];

fn layer_of(stack: &str) -> &'static str {
    let leaf = stack.rsplit(';').next().unwrap_or(stack);
    let fits = |(_, place, names): &&(&str, MatchScope, &[&str])| {
        let text = match place {
            MatchScope::Leaf => leaf,
            MatchScope::Stack => stack,
        };
        names.iter().any(|name| text.contains(name))
    };
    LAYERS.iter().find(fits).map_or("", |(layer, _, _)| layer)
}

/// A table of the layers of folded stacks, the largest first, in percent of all samples.
pub(crate) fn table(folded: &str) -> String {
    let mut samples: BTreeMap<&str, u64> = BTreeMap::new();
    for line in folded.lines() {
        if let Some((stack, count)) = line.rsplit_once(' ')
            && let Ok(count) = count.parse::<u64>()
        {
            *samples.entry(layer_of(stack)).or_default() += count;
        }
    }
    let all: u64 = samples.values().sum();
    let mut layers: Vec<_> = samples.into_iter().collect();
    layers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut table = String::new();
    for (layer, count) in layers {
        let share = 100.0 * count as f64 / all.max(1) as f64;
        let _ = writeln!(table, "{share:5.1} %  {layer}");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_by_what_was_called_for() {
        let folded = "\
tokio-rt-worker;main;update;dewar_checksum::md5::avx512::x8 30
sy disk1;start;__x64_sys_fdatasync;schedule;finish_task_switch.isra.0 20
sy disk2;start;do_pwritev;copy_folio_from_iter_atomic 20
tokio-rt-worker;main;serve;dewar_s3::ops::call 25
tokio-rt-worker;main;asm_exc_page_fault;clear_page_erms 5
";
        assert_eq!(
            table(folded),
            " 30.0 %  MD5
 25.0 %  the server's own code
 20.0 %  syncs
 20.0 %  writes to disks (page cache, journal)
  5.0 %  memory from the kernel
"
        );
        assert_eq!(table(""), "");
    }
}
