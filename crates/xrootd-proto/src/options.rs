//! Bits of requests and replies.

/// Of `open` ([`crate::request::Open::options`]).
pub mod open {
    /// Replace an existing file.
    pub const DELETE: u16 = 0x0002;
    /// Ignore rules of use.
    pub const FORCE: u16 = 0x0004;
    /// There must be nothing.
    pub const NEW: u16 = 0x0008;
    /// For reading.
    pub const READ: u16 = 0x0010;
    /// For reading and writing.
    pub const UPDATE: u16 = 0x0020;
    /// Replies may come later.
    pub const ASYNC: u16 = 0x0040;
    /// Look up the place of the file again.
    pub const REFRESH: u16 = 0x0080;
    /// Make directories that are missing.
    pub const MKPATH: u16 = 0x0100;
    /// Only append.
    pub const APPEND: u16 = 0x0200;
    /// Return the `stat` reply.
    pub const RETSTAT: u16 = 0x0400;
    /// Is a replica.
    pub const REPLICA: u16 = 0x0800;
    /// Persist on successful close.
    pub const POSC: u16 = 0x1000;
    /// Do not wait for a file that is offline.
    pub const NOWAIT: u16 = 0x2000;
    /// Will be read in order.
    pub const SEQIO: u16 = 0x4000;
    /// For writing alone.
    pub const WRITE: u16 = 0x8000;
}

/// Of `open` ([`crate::request::Open::options_more`]).
pub mod open_more {
    /// The new file has the content of the template.
    pub const DUP: u16 = 0x0001;
    /// On the template's file system.
    pub const SAMEFS: u16 = 0x0002;
    /// With the extended `stat` reply.
    pub const RETSTATX: u16 = 0x0004;
    /// Around caches.
    pub const DIRECTIO: u16 = 0x0008;
}

/// Of `dirlist`.
pub mod dirlist {
    /// Only online copies.
    pub const ONLINE: u8 = 1;
    /// With the `stat` reply.
    pub const STAT: u8 = 2;
    /// With checksums and the `stat` reply.
    pub const CHECKSUM: u8 = 4;
    /// With the extended `stat` reply.
    pub const STATX: u8 = 8;
}

/// Of `mkdir`.
pub mod mkdir {
    /// Make directories that are missing above it.
    pub const PATH: u8 = 1;
}

/// Of `stat`.
pub mod stat {
    /// About the file system.
    pub const VFS: u8 = 1;
}

/// Of `locate`.
pub mod locate {
    /// Hosts by name.
    pub const PREFER_NAMES: u16 = 0x0100;
    /// For a `dirlist`.
    pub const FOR_DIRLIST: u16 = 0x0400;
}

/// Of `fattr`.
pub mod fattr {
    /// `set`: there must be none of the name.
    pub const NEW: u8 = 0x01;
    /// `list`: values too.
    pub const VALUES: u8 = 0x10;
}

/// Of `prepare`.
pub mod prepare {
    /// Take an earlier one back.
    pub const CANCEL: u8 = 1;
    /// Notify the client at the end.
    pub const NOTIFY: u8 = 2;
    /// Do not report errors.
    pub const NOERRS: u8 = 4;
    /// Bring files online.
    pub const STAGE: u8 = 8;
    /// For writing.
    pub const WRITE: u8 = 16;
    /// Next to each other.
    pub const COLOCATE: u8 = 32;
    /// Refresh access times.
    pub const FRESH: u8 = 64;
    /// In the second word: no longer needed.
    pub const EVICT: u16 = 1;
}

/// Of `pgread` and `pgwrite`.
pub mod pages {
    /// Pages sent again.
    pub const RETRY: u8 = 0x01;
}

/// Of `writev`.
pub mod writev {
    /// Durable when it is answered.
    pub const SYNC: u8 = 0x01;
}

/// Of `protocol` requests.
pub mod protocol {
    /// Return the requests that must be signed.
    pub const SECREQS: u8 = 0x01;
    /// The client can do TLS.
    pub const ABLE_TLS: u8 = 0x02;
    /// The client wants TLS.
    pub const WANT_TLS: u8 = 0x04;
    /// Return the requirements for binding.
    pub const BIFREQS: u8 = 0x08;
    /// The next request is a `bind`.
    pub const EXPECT_BIND: u8 = 1;
    /// The next request is a `login`.
    pub const EXPECT_LOGIN: u8 = 3;
    /// The next request is a third-party copy.
    pub const EXPECT_TPC: u8 = 4;
}

/// Of `protocol` replies.
pub mod server {
    /// It has files.
    pub const IS_SERVER: u32 = 0x0000_0001;
    /// It sends clients to others.
    pub const IS_MANAGER: u32 = 0x0000_0002;
    /// Persist on successful close is there.
    pub const SUPPORTS_POSC: u32 = 0x0010_0000;
    /// Page reads and writes are there.
    pub const SUPPORTS_PAGES: u32 = 0x0020_0000;
    /// Data must be encrypted.
    pub const TLS_DATA: u32 = 0x0100_0000;
    /// Logins must be encrypted.
    pub const TLS_LOGIN: u32 = 0x0400_0000;
    /// Everything after the login must be encrypted.
    pub const TLS_SESSION: u32 = 0x0800_0000;
    /// Third-party copies must be encrypted.
    pub const TLS_TPC: u32 = 0x1000_0000;
    /// The connection changes to TLS right after this reply.
    pub const GOTO_TLS: u32 = 0x4000_0000;
    /// TLS is there.
    pub const HAVE_TLS: u32 = 0x8000_0000;
}
