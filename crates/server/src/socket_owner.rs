//! Whose a connection from this machine is, as the kernel's tables of sockets tell.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Tables of more than this are not looked through.
const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Whether the client's end of a connection belongs to the Unix user who runs this process, on
/// this machine. What cannot be found out is not so.
///
/// Blocks while the kernel makes the table: well under a millisecond for a thousand sockets, once
/// for each connection from this machine.
pub(crate) fn is_ours(client: SocketAddr, server: SocketAddr) -> bool {
    if !client.ip().to_canonical().is_loopback() {
        return false;
    }
    owner(client, server) == Some(rustix::process::geteuid().as_raw())
}

fn owner(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|path| {
        use std::io::Read as _;
        let mut table = String::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(TABLE_BYTES_MAX).read_to_string(&mut table).ok()?;
        owner_in(&table, client, server)
    })
}

/// The user of the socket that is at `local` and leads to `remote`.
fn owner_in(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    let (local, remote) = (canonical(local), canonical(remote));
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let here = parse(words.next()?)?;
        let there = parse(words.next()?)?;
        if here != local || there != remote {
            return None;
        }
        // State, queues, timer and retransmissions stand between.
        words.nth(4)?.parse().ok()
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
            1: 0100007F:9C40 0100007F:0446 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n";
        let at = |text: &str| text.parse().expect("an address");
        let server = at("127.0.0.1:1094");
        assert_eq!(owner_in(table, at("127.0.0.1:40000"), server), Some(1000));
        assert_eq!(
            owner_in(table, at("[::ffff:127.0.0.1]:40000"), server),
            Some(1000)
        );
        assert_eq!(owner_in(table, at("127.0.0.1:40001"), server), None);
        let table = "head\n\
            0: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:0446 01 0:0 00:0 0 7 0 2\n";
        assert_eq!(owner_in(table, at("127.0.0.1:40000"), server), Some(7));
    }

    #[tokio::test]
    async fn our_own_connection_is_ours() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("bound");
        let server = listener.local_addr().expect("bound");
        let client = tokio::net::TcpStream::connect(server)
            .await
            .expect("connected");
        let (_accepted, peer) = listener.accept().await.expect("accepted");
        assert!(is_ours(peer, server));
        let mut other = peer;
        other.set_port(1);
        assert!(!is_ours(other, server));
        assert!(!is_ours("192.0.2.1:1".parse().expect("an address"), server));
        drop(client);
    }
}
