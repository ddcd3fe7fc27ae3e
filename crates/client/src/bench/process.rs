//! CPU time and memory of the server's processes, as the kernel counts them in /proc.
//!
//! CPU is user plus system time of all threads, in clock ticks (10 ms). A step that costs less than
//! about a second of server CPU is not measured well, and the reports say so. Work of kernel
//! threads (write-back) is not counted.
//!
//! With children, the descendants are counted as well. So is the time of ended children that their
//! parent waited for, because the kernel adds it to the parent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The processes of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Processes {
    pub(super) pids: Vec<u32>,
    pub(super) children: bool,
}

/// The usage at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) cpu_s: f64,
    /// Resident now.
    pub(super) rss_bytes: u64,
    /// The highest each process has been resident since it started, summed.
    pub(super) rss_peak_bytes: u64,
}

struct Stat {
    parent: u32,
    own_ticks: u64,
    waited_ticks: u64,
}

impl Processes {
    /// Reads the usage so far.
    pub(super) fn usage(&self) -> Result<Usage> {
        self.usage_in(Path::new("/proc"))
    }

    fn usage_in(&self, proc: &Path) -> Result<Usage> {
        let ticks_per_s = rustix::param::clock_ticks_per_second();
        let mut ticks = 0;
        let mut usage = Usage::default();
        for pid in self.all(proc)? {
            // A descendant may end between being found and being read; a named process may not.
            let read = stat(proc, pid).and_then(|stat| Ok((stat, resident(proc, pid)?)));
            let (stat, (now, peak)) = match read {
                Ok(read) => read,
                Err(_) if !self.pids.contains(&pid) => continue,
                Err(error) => return Err(error.context(format!("server process {pid}"))),
            };
            ticks += stat.own_ticks + if self.children { stat.waited_ticks } else { 0 };
            usage.rss_bytes += now;
            usage.rss_peak_bytes += peak;
        }
        usage.cpu_s = ticks as f64 / ticks_per_s as f64;
        Ok(usage)
    }

    fn all(&self, proc: &Path) -> Result<BTreeSet<u32>> {
        let mut all: BTreeSet<u32> = self.pids.iter().copied().collect();
        if !self.children {
            return Ok(all);
        }
        let mut parents = Vec::new();
        for entry in std::fs::read_dir(proc).with_context(|| format!("list {}", proc.display()))? {
            let name = entry
                .with_context(|| format!("list {}", proc.display()))?
                .file_name();
            if let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok())
                && let Ok(stat) = stat(proc, pid)
            {
                parents.push((pid, stat.parent));
            }
        }
        loop {
            let before = all.len();
            for (pid, parent) in &parents {
                if all.contains(parent) {
                    all.insert(*pid);
                }
            }
            if all.len() == before {
                return Ok(all);
            }
        }
    }
}

fn read(path: PathBuf) -> Result<String> {
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

fn stat(proc: &Path, pid: u32) -> Result<Stat> {
    let text = read(proc.join(pid.to_string()).join("stat"))?;
    // The second field is the program's name in parentheses and may hold anything.
    let fields: Vec<&str> = text
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let field = |n: usize| fields.get(n - 3).and_then(|text| text.parse::<u64>().ok());
    let (Some(parent), Some(user), Some(system), Some(waited_user), Some(waited_system)) =
        (field(4), field(14), field(15), field(16), field(17))
    else {
        bail!("process {pid}: unreadable stat {text:?}");
    };
    Ok(Stat {
        parent: u32::try_from(parent).unwrap_or(0),
        own_ticks: user + system,
        waited_ticks: waited_user + waited_system,
    })
}

/// Bytes resident now and at most.
fn resident(proc: &Path, pid: u32) -> Result<(u64, u64)> {
    let text = read(proc.join(pid.to_string()).join("status"))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
            .map(|kib| kib * 1_024)
    };
    // A process that is ending has no memory left.
    Ok((field("VmRSS:").unwrap_or(0), field("VmHWM:").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_process(proc: &Path, pid: u32, parent: u32, ticks: [u64; 4], kib: u64) {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let [user, system, waited_user, waited_system] = ticks;
        let stat = format!(
            "{pid} (a) name) S {parent} 1 1 0 -1 4194560 9 9 9 9 {user} {system} {waited_user} \
             {waited_system} 20 0 4 0 100 1 1"
        );
        std::fs::write(dir.join("stat"), stat).unwrap();
        let status = format!("Name:\tx\nVmHWM:\t  {} kB\nVmRSS:\t {kib} kB\n", kib * 2);
        std::fs::write(dir.join("status"), status).unwrap();
    }

    #[test]
    fn sums_own_time_and_with_children_that_of_descendants() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path();
        write_process(proc, 10, 1, [100, 50, 7, 3], 1_000);
        write_process(proc, 11, 10, [10, 5, 0, 0], 10);
        write_process(proc, 12, 11, [1, 1, 0, 0], 1);
        write_process(proc, 13, 1, [9_999, 0, 0, 0], 1);
        std::fs::create_dir(proc.join("self")).unwrap();
        let hz = rustix::param::clock_ticks_per_second() as f64;
        let alone = Processes {
            pids: vec![10],
            children: false,
        }
        .usage_in(proc)
        .unwrap();
        assert_eq!((alone.cpu_s, alone.rss_bytes), (150.0 / hz, 1_024_000));
        let all = Processes {
            pids: vec![10],
            children: true,
        }
        .usage_in(proc)
        .unwrap();
        assert_eq!(all.cpu_s, (160.0 + 15.0 + 2.0) / hz);
        assert_eq!(all.rss_peak_bytes, 1_011 * 2 * 1_024);
        let gone = Processes {
            pids: vec![10, 99],
            children: true,
        }
        .usage_in(proc);
        assert!(gone.unwrap_err().to_string().contains("process 99"));
    }

    #[test]
    fn this_process_uses_cpu() {
        let me = Processes {
            pids: vec![std::process::id()],
            children: false,
        };
        let before = me.usage().unwrap();
        assert!(before.rss_bytes > 0 && before.rss_peak_bytes >= before.rss_bytes);
        let until = crate::clock::process_cpu() + std::time::Duration::from_millis(60);
        let mut random = super::super::content::Random::new(1);
        while crate::clock::process_cpu() < until {
            std::hint::black_box(random.next());
        }
        assert!(me.usage().unwrap().cpu_s > before.cpu_s);
    }
}
