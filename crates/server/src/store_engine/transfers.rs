//! Third-party copies of this process: their client, their registry and their metrics.

use std::fmt::{Debug, Error, Formatter, Result};
use std::net::SocketAddr;
use std::sync::Arc;

use dewar_env::{BoxFuture, Env};
use dewar_transfer::{
    AllowList, AllowRule, ConnectRules, OwnAddresses, Pace, QueueLimits, RecordConfig, RecordLog,
    TransferClient, TransferConfig, TransferFigures, TransferRegistry, TransferRuntime,
    TransferTimes, TransferUrl, Trust,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use rustls::ClientConfig;

use super::metrics::{MetricsWriter, signed};
use crate::config::{Config, Transfer};
use crate::engine::Purpose;
use crate::listener::BoxError;
use crate::trust_store::TrustStore;

/// The registry as configured. Only a server that serves writes records and starts threads.
pub(super) fn registry(
    config: &Config,
    env: &Env,
    purpose: Purpose,
) -> std::result::Result<Arc<TransferRegistry>, BoxError> {
    let limits = limits(&config.transfer);
    if !purpose.serves() {
        return Ok(TransferRegistry::new(env.clone(), limits, None, None));
    }
    let folder = config.transfer_record_folder();
    let records = RecordLog::open(RecordConfig {
        folder: folder.clone(),
        file_bytes: config.transfer.record_file_size.0,
        files_max: number(config.transfer.record_files_max),
    });
    let records = records
        .map_err(|error| format!("the records of transfers in {}: {error}", folder.display()))?;
    let runtime = TransferRuntime::start()?;
    Ok(TransferRegistry::new(
        env.clone(),
        limits,
        Some(records),
        Some(runtime),
    ))
}

/// The limits of the queue.
pub(super) fn limits(config: &Transfer) -> QueueLimits {
    QueueLimits {
        active_max: number(config.active_max),
        waiting_max: number(config.waiting_max),
        wait_max: config.wait_max,
    }
}

/// The client as configured. It never connects to `own` addresses, and to the hosts of the public URLs only
/// by a rule for them.
pub(super) fn client(
    config: &Config,
    env: Env,
    own: &[SocketAddr],
    trusted: Arc<TrustStore>,
) -> TransferClient {
    let urls = config.server.public_urls.iter();
    let own_hosts = urls.filter_map(|url| Some(TransferUrl::parse(url).ok()?.host().to_owned()));
    let config = &config.transfer;
    let allow = config.allow.iter();
    let ports = config.ports.iter();
    let settings = TransferConfig {
        rules: ConnectRules {
            allow: AllowList(allow.filter_map(|rule| AllowRule::parse(rule)).collect()),
            public: config.public,
            ports: ports.filter_map(|port| port.parse().ok()).collect(),
            own: OwnAddresses::new(own),
            own_hosts: own_hosts.collect(),
        },
        redirect_trust: config.redirect_trust.clone(),
        times: TransferTimes {
            first_byte: config.first_byte_time,
            stall: config.stall_time,
            ..TransferTimes::default()
        },
        pace: Pace {
            rate_min: config.rate_min.0,
            over: config.rate_time,
        },
        retries: config.retries,
        streams_max: u8::try_from(config.streams_max).unwrap_or(u8::MAX),
        trust: Some(Arc::new(SystemTrust(trusted))),
        firefly_collectors: config.scitag_collectors.clone(),
    };
    TransferClient::new(settings, env)
}

fn number(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Trusts the certificate authorities of the system and of the configured folder.
pub(super) struct SystemTrust(pub(super) Arc<TrustStore>);

impl Trust for SystemTrust {
    fn client(&self) -> BoxFuture<'_, Option<Arc<ClientConfig>>> {
        Box::pin(async move {
            match self.0.client().await {
                Ok(config) => Some(config),
                Err(error) => {
                    tracing::debug!(
                        error,
                        "root:// copies go without TLS, and https copies fail"
                    );
                    None
                }
            }
        })
    }
}

/// Shows the figures of copies.
pub(super) struct TransferMetrics(pub(super) Arc<TransferRegistry>);

impl Debug for TransferMetrics {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("TransferMetrics")
    }
}

impl Collector for TransferMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::result::Result<(), Error> {
        write(&mut MetricsWriter(encoder), &self.0.figures())
    }
}

fn write(page: &mut MetricsWriter<'_>, figures: &TransferFigures) -> Result {
    page.gauge(
        "transfers_active",
        "Third-party copies that run",
        signed(figures.active),
    )?;
    page.gauge(
        "transfers_waiting",
        "Third-party copies that wait for their turn",
        signed(figures.waiting),
    )?;
    page.counter(
        "transfers_refused",
        "Third-party copies that failed at once because too many waited",
        figures.refused,
    )?;
    page.counters(
        "transfers_ended",
        "Third-party copies that ended, by cause: success, or why they failed",
        figures
            .ended
            .iter()
            .map(|((protocol, direction, cause), count)| {
                let labels = [
                    ("protocol", (*protocol).to_owned()),
                    ("direction", direction.name().to_owned()),
                    ("cause", (*cause).to_owned()),
                ];
                (labels, *count)
            }),
    )?;
    page.counters(
        "transfer_bytes",
        "Bytes that third-party copies moved, also in attempts that failed",
        figures.bytes.iter().map(|((protocol, direction), bytes)| {
            let labels = [
                ("protocol", (*protocol).to_owned()),
                ("direction", direction.name().to_owned()),
            ];
            (labels, *bytes)
        }),
    )?;
    page.counter(
        "transfer_waits",
        "Third-party copies whose wait in the queue is over",
        figures.waits.0,
    )?;
    page.counter_f64(
        "transfer_wait_seconds",
        "Time that third-party copies spent in the queue, together",
        figures.waits.1.as_secs_f64(),
    )?;
    page.counter(
        "transfer_records_lost",
        "Records of third-party copies that could not be written",
        figures.records_lost,
    )
}
