//! A query for one socket by its two addresses (`sock_diag`). Its cost does not depend on the
//! number of sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::SocketEntry;

/// The numbers of `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
const NLMSG_ERROR: u16 = 2;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

/// Bytes of `nlmsghdr`, and of `inet_diag_req_v2` and `inet_diag_msg` behind it.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = 56;
const ANSWER_BYTES: usize = 72;

/// The socket at `local` that is connected to `remote`.
///
/// # Errors
/// The kernel cannot be asked this way.
pub(super) fn entry(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketEntry>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        flags,
        Some(SOCK_DIAG),
    )?;
    let request = request(local, remote);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request, SendFlags::empty(), &kernel)?;
    // The answer is there when the request was taken. What is too long for it is an attribute.
    let mut answer = [0; 1024];
    let (read, _) = recv(&socket, &mut answer, RecvFlags::TRUNC)?;
    parse(&answer[..read.min(1024)])
}

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let (local, remote) = (canonical(local), canonical(remote));
    let mut out = Vec::with_capacity(HEADER_BYTES + REQUEST_BYTES);
    let len = u32::try_from(HEADER_BYTES + REQUEST_BYTES).unwrap_or_default();
    out.extend(len.to_ne_bytes());
    out.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port: there is one request.
    out.extend([0; 8]);
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    out.extend([family, IPPROTO_TCP, 0, 0]);
    // Every state.
    out.extend(u32::MAX.to_ne_bytes());
    out.extend(local.port().to_be_bytes());
    out.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        let mut bytes = [0; 16];
        match address.ip() {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes = ip.octets(),
        }
        out.extend(bytes);
    }
    // Any interface, and no cookie (twice `INET_DIAG_NOCOOKIE`).
    out.extend(0_u32.to_ne_bytes());
    out.extend([u8::MAX; 8]);
    out
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn parse(answer: &[u8]) -> io::Result<Option<SocketEntry>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let word = |at: usize| -> io::Result<u32> {
        let bytes = answer.get(at..at + 4).ok_or_else(malformed)?;
        Ok(u32::from_ne_bytes(
            bytes.try_into().map_err(|_| malformed())?,
        ))
    };
    let kind = answer.get(4..6).ok_or_else(malformed)?;
    match u16::from_ne_bytes([kind[0], kind[1]]) {
        SOCK_DIAG_BY_FAMILY => {
            let body = answer.get(HEADER_BYTES..HEADER_BYTES + ANSWER_BYTES);
            let state = body.ok_or_else(malformed)?[1];
            Ok(Some(SocketEntry {
                state,
                uid: word(HEADER_BYTES + 64)?,
                inode: word(HEADER_BYTES + 68)?.into(),
            }))
        }
        NLMSG_ERROR => {
            let code = word(HEADER_BYTES)?.cast_signed();
            let error = io::Error::from_raw_os_error(code.saturating_neg());
            match error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) {
                true => Ok(None),
                false => Err(error),
            }
        }
        _ => Err(malformed()),
    }
}
