//! The kernel's tables of sockets (`/proc/net/tcp`), where netlink cannot be used.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::SocketEntry;

/// Tables of more than this are not looked through.
const TABLE_BYTES_MAX: u64 = 64 << 20;

/// The socket at `local` that is connected to `remote`. Blocks while the kernel makes the table: well
/// under a millisecond for a thousand sockets.
pub(super) fn entry(local: SocketAddr, remote: SocketAddr) -> Option<SocketEntry> {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|path| {
        let mut table = String::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(TABLE_BYTES_MAX).read_to_string(&mut table).ok()?;
        entry_in(&table, local, remote)
    })
}

fn entry_in(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<SocketEntry> {
    let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    let (local, remote) = (canonical(local), canonical(remote));
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let here = parse(words.next()?)?;
        let there = parse(words.next()?)?;
        if here != local || there != remote {
            return None;
        }
        let state = u8::from_str_radix(words.next()?, 16).ok()?;
        // Queues, timer and retransmissions stand between, and a timeout before the inode.
        let uid = words.nth(3)?.parse().ok()?;
        let inode = words.nth(1)?.parse().ok()?;
        Some(SocketEntry { state, uid, inode })
    })
}

/// An address as the tables have it: words of 32 bits in the machine's byte order, and a port.
fn parse(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some((ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn owners_are_read_from_the_tables() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:0446 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n\
            1: 0100007F:9C40 0100007F:0446 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n\
            2: 0100007F:9C42 0100007F:0446 05 00000000:00000000 03:000005DC 00000000     0        0 0 3 0\n";
        let at = |text: &str| text.parse().expect("an address");
        let found = |table: &str, local: &str| entry_in(table, at(local), at("127.0.0.1:1094"));
        let entry = |state, uid, inode| Some(SocketEntry { state, uid, inode });
        assert_eq!(found(table, "127.0.0.1:40000"), entry(1, 1000, 2));
        assert_eq!(found(table, "[::ffff:127.0.0.1]:40000"), entry(1, 1000, 2));
        assert_eq!(found(table, "127.0.0.1:40001"), None);
        // Closed by its process, and shown as root's.
        let closed = found(table, "127.0.0.1:40002").expect("an entry");
        assert!(closed.uid == 0 && !closed.is_open());
        let table = "head\n\
            0: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:0446 01 0:0 00:0 0 7 0 2\n";
        assert_eq!(found(table, "127.0.0.1:40000"), entry(1, 7, 2));
    }
}
