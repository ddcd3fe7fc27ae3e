//! SciTags: tells network operators which experiment a flow belongs to.
//!
//! A firefly is a datagram at the start of a flow and one at its end, in the form of a syslog line with
//! JSON, to port 10514 of the other side and to configured collectors (<https://www.scitags.org>). Routers on
//! the way see the first, and collectors the others. A datagram that is lost is not sent again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use dewar_http_front::moment;
use dewar_types::Timestamp;
use serde_json::{Value, json};
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use crate::client::TransferClient;
use crate::limits::FIREFLY_PORT;
use crate::progress::TransferProgress;
use crate::request::Direction;

/// Valid SciTags: six bits of activity below those of the experiment.
pub const SCITAGS: std::ops::RangeInclusive<u16> = 65..=65535;

const TIME: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]+00:00");

/// The flow of one transfer: its first connection stands for all of them.
pub(crate) struct FlowMarker {
    clock: Arc<dyn dewar_env::Clock>,
    collectors: Vec<SocketAddr>,
    direction: Direction,
    /// `None` without a valid SciTag.
    scitag: Option<u16>,
    flow: Option<Flow>,
    remote: Option<SocketAddr>,
    progress: Arc<TransferProgress>,
}

#[derive(Clone, Copy)]
struct Flow {
    local: SocketAddr,
    remote: SocketAddr,
    begun: Timestamp,
}

impl FlowMarker {
    pub(crate) fn new(
        client: &TransferClient,
        direction: Direction,
        scitag: Option<u16>,
        progress: &Arc<TransferProgress>,
    ) -> Self {
        Self {
            clock: Arc::clone(&client.env.clock),
            collectors: client.config.firefly_collectors.clone(),
            direction,
            scitag: scitag.filter(|tag| SCITAGS.contains(tag)),
            flow: None,
            remote: None,
            progress: Arc::clone(progress),
        }
    }

    /// The address of the last connection.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// A connection carries the file. The first one is announced.
    pub(crate) fn begin(&mut self, local: SocketAddr, remote: SocketAddr) {
        self.remote = Some(remote);
        let at_home = remote.ip().to_canonical().is_loopback() || local.ip() == remote.ip();
        if self.scitag.is_none() || self.flow.is_some() || at_home {
            return;
        }
        let flow = Flow {
            local,
            remote,
            begun: self.clock.now(),
        };
        self.flow = Some(flow);
        self.send(&flow, "start", 0);
    }

    fn send(&self, flow: &Flow, state: &str, moved: u64) {
        let Some(packet) = self.packet(flow, state, moved) else {
            return;
        };
        let peer = SocketAddr::new(flow.remote.ip(), FIREFLY_PORT);
        for to in self.collectors.iter().chain([&peer]) {
            let any: IpAddr = match to {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let sent = UdpSocket::bind((any, 0)).and_then(|socket| {
                socket.set_nonblocking(true)?;
                socket.send_to(packet.as_bytes(), to)
            });
            if let Err(error) = sent {
                tracing::debug!(%to, %error, "no firefly was sent");
            }
        }
    }

    fn packet(&self, flow: &Flow, state: &str, moved: u64) -> Option<String> {
        let text = |when: Timestamp| moment(when).format(&TIME).ok();
        let now = text(self.clock.now())?;
        let tag = self.scitag?;
        // The source of a flow is the sender of the data.
        let (from, to, received, sent) = match self.direction {
            Direction::Pull => (flow.remote, flow.local, moved, 0),
            Direction::Push => (flow.local, flow.remote, 0, moved),
        };
        let (from, to) = (canonical(from), canonical(to));
        let mut lifecycle = json!({
            "state": state,
            "current-time": now,
            "start-time": text(flow.begun)?,
        });
        if state == "end" {
            lifecycle["end-time"] = Value::from(now.clone());
        }
        let packet = json!({
            "version": 1,
            "flow-lifecycle": lifecycle,
            "usage": { "received": received, "sent": sent },
            "context": {
                "experiment-id": tag >> 6,
                "activity-id": tag & 63,
                "application": "dewar",
            },
            "flow-id": {
                "afi": if from.is_ipv4() { "ipv4" } else { "ipv6" },
                "src-ip": from.ip().to_string(),
                "dst-ip": to.ip().to_string(),
                "protocol": "tcp",
                "src-port": from.port(),
                "dst-port": to.port(),
            },
        });
        let host = canonical(flow.local).ip();
        Some(format!(
            "<134>1 {now} {host} dewar - firefly-json - {packet}"
        ))
    }
}

/// The transfer is over, also if it was cancelled.
impl Drop for FlowMarker {
    fn drop(&mut self) {
        if let Some(flow) = self.flow.take() {
            self.send(&flow, "end", self.progress.moved());
        }
    }
}

/// The address as the network sees it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use dewar_env::Env;

    use super::*;
    use crate::client::TransferConfig;

    fn marker(direction: Direction, scitag: Option<u16>) -> FlowMarker {
        let client = TransferClient::new(TransferConfig::default(), Env::real());
        let progress = Arc::new(TransferProgress::new());
        FlowMarker::new(&client, direction, scitag, &progress)
    }

    fn flow() -> Flow {
        Flow {
            local: "[::ffff:192.0.2.1]:40000".parse().expect("valid"),
            remote: "192.0.2.2:8443".parse().expect("valid"),
            begun: Timestamp(1_700_000_000_123_456_789),
        }
    }

    #[test]
    fn a_firefly_names_experiment_and_flow() {
        let packet = marker(Direction::Pull, Some(2 << 6 | 3)).packet(&flow(), "end", 10);
        let packet = packet.expect("a packet");
        let (head, body) = packet.split_once(" - firefly-json - ").expect("two parts");
        assert!(
            head.starts_with("<134>1 20") && head.ends_with(" 192.0.2.1 dewar"),
            "{head}"
        );
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["version"], 1);
        let lifecycle = &body["flow-lifecycle"];
        assert_eq!(lifecycle["state"], "end");
        assert_eq!(lifecycle["start-time"], "2023-11-14T22:13:20.123456+00:00");
        assert_eq!(lifecycle["end-time"], lifecycle["current-time"]);
        assert_eq!(body["context"]["experiment-id"], 2);
        assert_eq!(body["context"]["activity-id"], 3);
        assert_eq!(body["usage"]["received"], 10);
        let id = &body["flow-id"];
        assert_eq!(
            (&id["afi"], &id["src-ip"]),
            (&json!("ipv4"), &json!("192.0.2.2"))
        );
        assert_eq!(
            (&id["dst-ip"], &id["dst-port"]),
            (&json!("192.0.2.1"), &json!(40000))
        );

        let packet = marker(Direction::Push, Some(65)).packet(&flow(), "start", 0);
        let packet = packet.expect("a packet");
        assert!(packet.contains(r#""src-ip":"192.0.2.1""#) && !packet.contains("end-time"));
    }

    #[test]
    fn only_valid_tags_of_flows_through_the_network_are_announced() {
        for tag in [None, Some(0), Some(64)] {
            assert!(
                marker(Direction::Push, tag)
                    .packet(&flow(), "start", 0)
                    .is_none()
            );
        }
        let mut home = marker(Direction::Push, Some(65));
        let loopback: SocketAddr = "127.0.0.1:1".parse().expect("valid");
        home.begin(loopback, loopback);
        assert!(home.flow.is_none() && home.remote() == Some(loopback));
    }

    #[test]
    fn collectors_hear_of_start_and_end() {
        let collector = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let time = std::time::Duration::from_secs(30);
        collector.set_read_timeout(Some(time)).expect("set");
        let mut marker = marker(Direction::Push, Some(65));
        marker.collectors = vec![collector.local_addr().expect("bound")];
        let flow = flow();
        marker.begin(flow.local, flow.remote);
        // Another connection of the same transfer.
        marker.begin(flow.local, flow.remote);
        marker.progress.count(7, 7);
        drop(marker);
        let heard = || {
            let mut packet = [0; 2048];
            let len = collector.recv(&mut packet).expect("a packet");
            String::from_utf8_lossy(&packet[..len]).into_owned()
        };
        assert!(heard().contains(r#""state":"start""#));
        let end = heard();
        assert!(
            end.contains(r#""state":"end""#) && end.contains(r#""sent":7"#),
            "{end}"
        );
    }
}
