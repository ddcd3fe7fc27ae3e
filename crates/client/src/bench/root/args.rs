//! The command line of `dewar bench root`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::super::plan::{Limit, Unit};
use super::super::size::ByteSize;

/// `dewar bench root …`.
#[derive(Clone, Debug, Args)]
pub struct RootArgs {
    /// The directory to work in: root://HOST[:PORT]//BUCKET or a directory in it, roots:// for TLS.
    /// Several are compared with the first
    #[allow(rustdoc::broken_intra_doc_links, reason = "[:PORT] is no link")]
    #[arg(required = true, value_name = "[NAME=]URL")]
    pub(super) urls: Vec<String>,
    /// The steps, each WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS]; REQUESTS may be a time as in
    /// 30s. Workloads: put, put-plain, get, get-plain, vector, open, stat, list
    #[allow(rustdoc::broken_intra_doc_links, reason = "[:OBJECTS] is no link")]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "put:100m:2:20,get:100m:2:40:20,get-plain:100m:2:40:20,vector:100m:2:200:20,\
                         put:8k:4:1000,open:8k:4:4000:1000,stat:8k:4:10000:1000,list:8k:2:50:1000"
    )]
    pub(super) steps: Vec<RootStep>,
    /// Bytes of one read or write of put and get
    #[arg(long, value_name = "SIZE", default_value = "8m", value_parser = chunk)]
    pub(super) chunk: ByteSize,
    /// The number of reads or writes in flight for a file
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(super) ahead: u32,
    /// Elements of a vector
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(super) vector_items: u32,
    /// Bytes of an element of a vector, and of the read of open
    #[arg(long, value_name = "SIZE", default_value = "8k", value_parser = element)]
    pub(super) vector_size: ByteSize,
    /// The number of repetitions; targets take turns within each step, in alternating order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repeat: u32,
    /// Seconds between the last answer and the reading of the server's CPU
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) settle: u64,
    /// Seconds a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) deadline: u64,
    /// Compare every byte received with what was written
    #[arg(long)]
    pub(super) verify: bool,
    /// A process of the server, to account its CPU and memory
    #[arg(long, value_name = "[NAME=]PID")]
    pub(super) server_pid: Vec<String>,
    /// Account the descendants of the server's processes as well
    #[arg(long)]
    pub(super) server_children: bool,
    /// File with a bearer token for servers that want one
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    pub(super) insecure: bool,
    /// Accept the certificates of the authorities in this PEM file only
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Errors after which a step is given up
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) errors_max: u64,
    /// Leave the files there
    #[arg(long)]
    pub(super) keep: bool,
    /// Write everything as JSON (docs/bench.md describes it)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

fn chunk(text: &str) -> Result<ByteSize, String> {
    between(text, 4_096, 16 << 20)
}

fn element(text: &str) -> Result<ByteSize, String> {
    between(text, 1, 2_097_136)
}

fn between(text: &str, least: u64, most: u64) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    match (least..=most).contains(&size.0) {
        true => Ok(size),
        false => Err(format!("must be from {least} to {most} bytes")),
    }
}

/// The workload of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A new file, by page writes.
    Put,
    /// A new file, by plain writes.
    PutPlain,
    /// A whole file, by page reads.
    Get,
    /// A whole file, by plain reads.
    GetPlain,
    /// One vector at random places of an open file.
    Vector,
    /// Open, a read of a few bytes, close.
    Open,
    /// The `stat` of a path.
    Stat,
    /// A whole directory with what `stat` says.
    List,
}

impl Work {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Put, "put"),
        (Self::PutPlain, "put-plain"),
        (Self::Get, "get"),
        (Self::GetPlain, "get-plain"),
        (Self::Vector, "vector"),
        (Self::Open, "open"),
        (Self::Stat, "stat"),
        (Self::List, "list"),
    ];

    /// Its name on the command line and in results.
    pub(super) fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(work, _)| *work == self);
        found.map_or("", |(_, name)| name)
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RootStep {
    pub(super) work: Work,
    pub(super) size: ByteSize,
    pub(super) concurrency: u32,
    pub(super) limit: Limit,
    /// Files that must be there before a step that reads.
    pub(super) objects: u64,
}

impl RootStep {
    /// The best unit for its CPU.
    pub(super) fn unit(&self) -> Unit {
        match self.work {
            Work::Open | Work::Stat => Unit::ThousandOps,
            Work::List => Unit::HundredThousandKeys,
            Work::Vector => Unit::Gigabyte,
            _ if self.size.0 <= 64 << 10 => Unit::ThousandOps,
            _ => Unit::Gigabyte,
        }
    }
}

impl FromStr for RootStep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(':').collect();
        let [work, size, concurrency, limit, objects @ ..] = &parts[..] else {
            return Err(format!(
                "{text:?} is not WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS]"
            ));
        };
        let number = |text: &str| {
            let number = text.parse::<u64>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{text:?} is no count"))
        };
        let names = Work::ALL.map(|(_, name)| name).join(", ");
        let found = Work::ALL.iter().find(|(_, name)| name == work);
        let (work, _) = found.ok_or_else(|| format!("{work:?} is none of {names}"))?;
        let limit = match limit.strip_suffix('s') {
            Some(seconds) => match seconds.parse::<f64>() {
                Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Limit::Seconds(seconds),
                _ => return Err(format!("{seconds:?} is no time in seconds")),
            },
            None => Limit::Requests(number(limit)?),
        };
        let objects = match objects {
            [] => 16,
            [objects] => number(objects)?,
            _ => return Err(format!("{text:?} has too many parts")),
        };
        let concurrency = u32::try_from(number(concurrency)?).map_err(|error| error.to_string())?;
        if concurrency > 10_000 {
            return Err(format!("{concurrency} connections are too many"));
        }
        Ok(Self {
            work: *work,
            size: size.parse().map_err(|error| format!("{error}"))?,
            concurrency,
            limit,
            objects,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let step: RootStep = "vector:100m:2:30s:4".parse().expect("a step");
        assert_eq!((step.work, step.objects), (Work::Vector, 4));
        assert_eq!(step.limit, Limit::Seconds(30.0));
        for bad in [
            "get",
            "get:1:1",
            "got:1:1:1",
            "get:1:0:1",
            "get:x:1:1",
            "get:1:1:1:1:1",
        ] {
            assert!(bad.parse::<RootStep>().is_err(), "{bad}");
        }
        for size in ["1k", "17m", "x"] {
            assert!(chunk(size).is_err(), "{size}");
        }
    }
}
