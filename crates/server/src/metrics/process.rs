//! Metrics of this process from the kernel, under the names that common dashboards use.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads `/proc/self` at each scrape.
#[derive(Debug)]
pub(super) struct Process;

/// The used fields of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: u64,
    threads: i64,
    virtual_bytes: i64,
    resident_pages: i64,
}

impl Stat {
    /// Parses the fields after the command, which is in parentheses and may contain anything.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // proc(5) counts from 1; field 3 is the first here.
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Self {
            cpu_ticks: u64::try_from(field(14)? + field(15)?).ok()?,
            threads: field(20)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: i64) -> Result<(), Error> {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(stat) = Stat::parse(&text) {
            let page = i64::try_from(rustix::param::page_size()).unwrap_or(4096);
            let ticks = rustix::param::clock_ticks_per_second().max(1);
            #[allow(clippy::cast_precision_loss, reason = "CPU time in seconds")]
            let seconds = stat.cpu_ticks as f64 / ticks as f64;
            let metric = encoder.encode_descriptor(
                "process_cpu_seconds",
                "User and system CPU time",
                None,
                MetricType::Counter,
            )?;
            ConstCounter::new(seconds).encode(metric)?;
            let resident = stat.resident_pages.saturating_mul(page);
            gauge(
                &mut encoder,
                "process_resident_memory_bytes",
                "Memory in use",
                resident,
            )?;
            let space = stat.virtual_bytes;
            gauge(
                &mut encoder,
                "process_virtual_memory_bytes",
                "Address space",
                space,
            )?;
            gauge(&mut encoder, "process_threads", "Threads", stat.threads)?;
        }
        if let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") {
            let open = i64::try_from(descriptors.count()).unwrap_or(i64::MAX);
            gauge(
                &mut encoder,
                "process_open_fds",
                "Open file descriptors",
                open,
            )?;
        }
        if let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            gauge(
                &mut encoder,
                "process_max_fds",
                "Descriptors that may be open",
                limit,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_command_with_parentheses_and_spaces() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 3 0 123 8192 2 184";
        let expected = Stat {
            cpu_ticks: 12,
            threads: 3,
            virtual_bytes: 8192,
            resident_pages: 2,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse(""), None);
        assert_eq!(Stat::parse("1 (x) S 1"), None);
    }
}
