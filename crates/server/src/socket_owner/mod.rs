//! The Unix user of a client on this machine, as the kernel reports it.
//!
//! A client is the server's own user only if its end of the connection is established and belongs
//! to an open socket of that user. A socket that its process has closed stays in the kernel for a
//! while without an owner, and the kernel shows it as root's. Such a socket has no inode, so it
//! counts as nobody's.
//!
//! In a user namespace the kernel shows all users that are not mapped as one number, the overflow
//! uid. A server that runs under that number cannot distinguish them from itself, so it has no
//! local clients.
//!
//! The server's own outgoing connections are never its user. A client can make the server connect
//! to itself, for example with a third-party copy, and would otherwise act as that user.

mod netlink;
mod table;

use std::net::SocketAddr;
use std::path::Path;

/// The state of an established connection (`TCP_ESTABLISHED` of the kernel).
const ESTABLISHED: u8 = 1;

/// The overflow uid where nothing else is set.
const OVERFLOW_UID: u32 = 65534;

/// A socket as the kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SocketEntry {
    state: u8,
    uid: u32,
    /// 0 if no process has it open.
    inode: u64,
}

impl SocketEntry {
    fn is_open(self) -> bool {
        self.state == ESTABLISHED && self.inode != 0
    }
}

/// Whether the client's end of a connection belongs to another process of the Unix user of this
/// one, on this machine. `false` also if that cannot be determined.
///
/// It costs some microseconds for the kernel's answer, and one more for each open file of this
/// process if the client is the same user.
pub(crate) async fn is_ours(client: SocketAddr, server: SocketAddr) -> bool {
    if !client.ip().to_canonical().is_loopback() {
        return false;
    }
    #[allow(
        clippy::disallowed_methods,
        reason = "what is read here is memory of the kernel, not a disk that may hang"
    )]
    let looking = tokio::task::spawn_blocking(move || {
        let found = entry(client, server).filter(|entry| entry.is_open());
        found.is_some_and(|entry| {
            let uid = rustix::process::geteuid().as_raw();
            entry.uid == uid && is_one_user(uid) && !is_of_this_process(entry.inode)
        })
    });
    looking.await.unwrap_or(false)
}

/// The client's end of a connection.
fn entry(client: SocketAddr, server: SocketAddr) -> Option<SocketEntry> {
    netlink::entry(client, server).unwrap_or_else(|error| {
        // A sandbox may allow no netlink sockets; the tables say the same more slowly.
        tracing::debug!(%error, "sockets cannot be looked up by netlink");
        table::entry(client, server)
    })
}

/// Whether a uid from the kernel means exactly one user.
fn is_one_user(uid: u32) -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let overflow = read("/proc/sys/kernel/overflowuid");
    let overflow = overflow.trim().parse().unwrap_or(OVERFLOW_UID);
    uid != overflow || maps_every_user(&read("/proc/self/uid_map"))
}

/// Whether a map of uids (`/proc/self/uid_map`) is the identity, as outside of user namespaces.
fn maps_every_user(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Whether this process has a socket open. `true` also if that cannot be determined.
fn is_of_this_process(inode: u64) -> bool {
    let name = format!("socket:[{inode}]");
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else {
        return true;
    };
    // A file that was closed meanwhile has no name any more.
    let mut names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    names.any(|open| open == Path::new(&name))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    async fn listening() -> (tokio::net::TcpListener, SocketAddr) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("bound");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    #[tokio::test]
    async fn another_process_of_this_user_is_ours_until_it_closes() {
        let (listener, server) = listening().await;
        // The shell says that it has closed its end, and stays.
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{}; read; exec 3>&-; echo closed; read",
            server.port()
        );
        let mut client = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let (accepted, peer) = listener.accept().await.expect("accepted");
        assert!(is_ours(peer, server).await);
        let by_table = table::entry(peer, server).expect("an entry");
        assert_eq!(entry(peer, server), Some(by_table));
        let mut other = peer;
        other.set_port(1);
        assert!(!is_ours(other, server).await);
        assert!(!is_ours("192.0.2.1:1".parse().expect("an address"), server).await);

        let mut input = client.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, b"\n").expect("told");
        let mut said = [0; 7];
        let mut output = client.stdout.take().expect("piped");
        output.read_exact(&mut said).expect("closed");
        // Its end waits for ours, and belongs to nobody.
        assert!(!is_ours(peer, server).await);
        assert!(!table::entry(peer, server).is_some_and(SocketEntry::is_open));
        drop(accepted);
        drop(input);
        client.wait().expect("ended");
    }

    #[test]
    fn the_overflow_uid_is_one_user_outside_of_namespaces_only() {
        assert!(is_one_user(0) && is_one_user(1000));
        assert!(maps_every_user("         0          0 4294967295\n"));
        for map in ["0 1000 1\n1 100000 65536\n", "0 1000 1\n", ""] {
            assert!(!maps_every_user(map), "{map:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_of_this_process_to_itself_is_not_ours() {
        let (listener, server) = listening().await;
        let client = tokio::net::TcpStream::connect(server).await;
        let client = client.expect("connected");
        let (_accepted, peer) = listener.accept().await.expect("accepted");
        let found = entry(peer, server).expect("an entry");
        assert!(found.is_open() && found.uid == rustix::process::geteuid().as_raw());
        assert!(!is_ours(peer, server).await);
        drop(client);
    }
}
