//! The listeners of a server, as the sections of the configuration describe them.

use std::time::Duration;

use crate::config::Config;
use crate::listener::{FrontContext, Fronts, Limits, ListenerSpec};

/// Largest read from a socket while the body of an upload streams (PERFORMANCE figures: half the CPU of
/// 64 KiB reads).
const CONTENT_READ_BYTES: usize = 1 << 20;

/// Requests of a metrics scraper are small.
const SMALL_READ_BYTES: usize = 16 * 1024;

const SMALL_LIMITS: Limits = Limits {
    connections_max: 64,
    // Nobody authenticates there.
    unauthenticated_share: 1,
    shared_addresses: Vec::new(),
    header_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(120),
    body_timeout: Duration::from_secs(30),
    header_bytes_max: 16 * 1024,
};

/// The listener of section `s3`.
#[must_use]
pub fn s3_listener<E>(config: &Config, fronts: fn(&E, FrontContext) -> Fronts) -> ListenerSpec<E> {
    let s3 = &config.s3;
    ListenerSpec {
        name: "s3",
        schemes: ["http", "https"],
        listen: s3.listen.clone(),
        plain_listen: Vec::new(),
        tls: s3.tls_certificate_file.clone().zip(s3.tls_key_file.clone()),
        limits: Limits {
            connections_max: number(s3.connections_max),
            unauthenticated_share: number(config.server.unauthenticated_share),
            shared_addresses: config.shared_addresses(),
            header_timeout: s3.header_timeout,
            idle_timeout: s3.idle_timeout,
            body_timeout: s3.body_timeout,
            header_bytes_max: usize::try_from(s3.header_bytes_max.0).unwrap_or(usize::MAX),
        },
        read_bytes_max: CONTENT_READ_BYTES,
        fronts,
    }
}

/// The listener of section `webdav`.
#[must_use]
pub fn webdav_listener<E>(
    config: &Config,
    fronts: fn(&E, FrontContext) -> Fronts,
) -> ListenerSpec<E> {
    let webdav = &config.webdav;
    let certificate = webdav.tls_certificate_file.clone();
    ListenerSpec {
        name: "webdav",
        schemes: ["http", "https"],
        listen: webdav.listen.clone(),
        plain_listen: webdav.plain_listen.clone(),
        tls: certificate.zip(webdav.tls_key_file.clone()),
        limits: Limits {
            connections_max: number(webdav.connections_max),
            unauthenticated_share: number(config.server.unauthenticated_share),
            shared_addresses: config.shared_addresses(),
            header_timeout: webdav.header_timeout,
            idle_timeout: webdav.idle_timeout,
            body_timeout: webdav.body_timeout,
            header_bytes_max: usize::try_from(webdav.header_bytes_max.0).unwrap_or(usize::MAX),
        },
        read_bytes_max: CONTENT_READ_BYTES,
        fronts,
    }
}

/// The listener of section `xrootd`.
#[must_use]
pub fn xrootd_listener<E>(
    config: &Config,
    fronts: fn(&E, FrontContext) -> Fronts,
) -> ListenerSpec<E> {
    let xrootd = &config.xrootd;
    let certificate = xrootd.tls_certificate_file.clone();
    ListenerSpec {
        name: "xrootd",
        schemes: ["root", "roots"],
        listen: xrootd.listen.clone(),
        plain_listen: Vec::new(),
        tls: certificate.zip(xrootd.tls_key_file.clone()),
        limits: Limits {
            connections_max: number(xrootd.connections_max),
            unauthenticated_share: number(config.server.unauthenticated_share),
            shared_addresses: config.shared_addresses(),
            idle_timeout: xrootd.idle_timeout,
            body_timeout: xrootd.stall_timeout,
            // The front has its own for these.
            ..SMALL_LIMITS
        },
        read_bytes_max: SMALL_READ_BYTES,
        fronts,
    }
}

/// The listener of section `metrics`.
pub(super) fn metrics_listener<E>(
    config: &Config,
    fronts: fn(&E, FrontContext) -> Fronts,
) -> ListenerSpec<E> {
    ListenerSpec {
        name: "metrics",
        schemes: ["http", "https"],
        listen: config.metrics.listen.clone(),
        plain_listen: Vec::new(),
        tls: None,
        limits: SMALL_LIMITS,
        read_bytes_max: SMALL_READ_BYTES,
        fronts,
    }
}

fn number(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
