//! Every key there is. A doc line here is the doc line of `dewar config explain`, of
//! `dewar config default` and of the reference; a default here is the default.
//!
//! Add a key only with a reason that somebody measured or an administrator asked for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::load::Values;
use super::table::{Key, Range, Reload, Section, read, sections};
use super::value::{ByteSize, Context, Field, LayoutChoice, LogFormat, LogLevel, UnwritableAudit};

fn is_pool_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(plain)
}

fn is_ownership(text: &str) -> bool {
    dewar_auth::Ownership::parse(text).is_some()
}

fn is_region(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

fn is_class(text: &str) -> bool {
    let (class, pool) = split_class(text);
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    !class.is_empty()
        && class.len() <= 64
        && class.bytes().all(plain)
        && pool.is_none_or(is_pool_name)
}

fn split_class(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((class, pool)) => (class, Some(pool)),
        None => (text, None),
    }
}

fn is_pool_disk(text: &str) -> bool {
    let split = text.split_once('=');
    split.is_some_and(|(pool, folder)| is_pool_name(pool) && Path::new(folder).is_absolute())
}

fn is_pool_layout(text: &str) -> bool {
    let split = text.split_once('=');
    split.is_some_and(|(pool, layout)| is_pool_name(pool) && parse_layout(layout).is_some())
}

fn parse_layout(text: &str) -> Option<dewar_types::Layout> {
    let (k, m) = text.split_once('+')?;
    dewar_types::Layout::new(k.parse().ok()?, m.parse().ok()?).ok()
}

fn is_translation(text: &str) -> bool {
    dewar_xrootd::Translation::parse(text).is_some()
}

fn is_tpc_source(text: &str) -> bool {
    dewar_xrootd::AllowRule::parse(text).is_some()
}

fn is_network(text: &str) -> bool {
    dewar_auth::Network::parse(text).is_some()
}

fn is_elsewhere(text: &str) -> bool {
    dewar_xrootd::RedirectTarget::parse(text).is_some()
}

fn is_when(text: &str) -> bool {
    dewar_xrootd::RedirectMode::parse(text).is_some()
}

fn is_provider_host(text: &str) -> bool {
    let fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    let bare = text.strip_prefix("*.").unwrap_or(text);
    text == "*" || (!bare.is_empty() && bare.len() <= 253 && bare.bytes().all(fit))
}

fn is_audience(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

sections! {
    /// The process itself.
    [server] Server {
        /// Number of this deployment within its realm. It is a part of every id that is given
        /// out, so it must never be changed once data has been written, and two zones that
        /// exchange data must not share it.
        zone: u16 = "1" { range: Range::Between("1", "65535") };
        /// Folder for what belongs to this server and is no data: the lock that keeps two
        /// processes apart, and by default the admin socket and the master key. It is created
        /// with mode 0700 if it does not exist, and must not be inside a disk of the pool.
        state_dir: PathBuf = "/var/lib/dewar";
        /// Unix socket for `dewar user`, `dewar key` and `dewar status`, mode 0600; only root
        /// and the user who runs the server are answered. Empty: `admin.sock` in the state_dir.
        admin_socket: Option<PathBuf> = "";
        /// How long running requests may go on after the server was asked to stop. What still
        /// runs then is cut; a write that was cut has not happened.
        graceful_stop_timeout: Duration = "30s" { range: Range::Between("0s", "1h"), reload: Reload::Live };
        /// The part of a door's connections (`connections_max`) that one address may hold before its
        /// clients have authenticated: one in so many, and always 16. Of IPv6 a network of 64 bits counts
        /// as one address. Further connections are told to slow down. 1: all of them.
        unauthenticated_share: u32 = "16" {
            range: Range::Between("1", "1000000"), reload: Reload::Live,
        };
        /// Addresses and networks that many clients share, as proxies and NAT gateways: each address may hold
        /// half of a door's connections before its clients have authenticated. Addresses of this machine
        /// itself (127.0.0.1, ::1) always may.
        shared_addresses: Vec<String> = "" {
            range: Range::Rule("an address or a network, like 10.0.0.0/8", is_network),
            reload: Reload::Live,
        };
    }

    /// What is said about the work. Logs go to standard error and never hold a secret.
    [log] Log {
        /// How lines look: readable text, or one JSON object per line.
        format: LogFormat = "human" { range: Range::OneOf(&["human", "json"]) };
        /// The least important kind of event that is still logged.
        level: LogLevel = "info" {
            range: Range::OneOf(&["error", "warn", "info", "debug", "trace"]),
            reload: Reload::Live,
        };
        /// The access log: a line for each request, whatever the level, with its id, peer, user,
        /// verb, bucket, key, status, bytes and duration. It costs about 10 microseconds of CPU a
        /// request, a third of what a HEAD costs, and grows by 300 bytes with each.
        access: bool = "false" { reload: Reload::Live };
    }

    /// The disks, and how objects are spread over them.
    [pool] Pool {
        /// Name of the pool in logs, metrics and status. It is the main one if there are several.
        name: String = "main" {
            range: Range::Rule("1 to 32 lower-case letters, digits or dashes", is_pool_name),
        };
        /// The folders that are its disks, each on a device of its own. A folder that is absent
        /// or not the one that was formatted counts as a missing disk; it is never created or
        /// formatted in passing.
        disks: Vec<PathBuf> = "";
        /// Erasure layout of new objects: k data and m parity shards, so that any m disks may be
        /// lost. `auto` takes what suits the number of disks: 4+2 from six, 8+3 from eleven,
        /// 1+0 for one.
        layout: LayoutChoice = "auto" { range: Range::Rule("auto, or 1+0 to 16+4", |_| true) };
        /// Bytes that lie together on one disk before the next disk follows. Smaller units make
        /// more disks work on a middling object, larger ones let a read touch fewer.
        stripe_unit: ByteSize = "64KiB" { range: Range::Pages("4KiB", "4MiB") };
        /// Objects up to this size ride in the journal and share its sync instead of becoming
        /// one file per shard.
        small_object_threshold: ByteSize = "128KiB" { range: Range::Between("0B", "1MiB") };
        /// A disk that does not answer an operation within this time is treated as missing.
        disk_deadline: Duration = "10s" { range: Range::Between("100ms", "5m") };
        /// Objects that are read at once because a client asked for a checksum that was not computed
        /// when they were written; further ones are told to wait. An account may begin one while it
        /// runs fewer than are free, so alone it gets half of them.
        checksums_max: u32 = "8" { range: Range::Between("1", "1000"), unit: "objects" };
        /// How long one of them may take before the client is told that it takes too long.
        checksum_time_max: Duration = "6h" { range: Range::Between("1s", "7d") };
    }

    /// Further pools: disks of their own, for objects of certain storage classes
    /// (`lifecycle.storage_classes`). Names of users, objects and all else are in one catalog, whose journal
    /// and index may be on any of the disks.
    [pools] Pools {
        /// The folders that are their disks, each `NAME=/folder`, like `archive=/srv/a1`. A disk keeps its
        /// pool, and a pool its name: the name is what its disks are known by. Into a Dewar that exists,
        /// disks come by `dewar disk add --pool NAME`.
        disks: Vec<String> = "" {
            range: Range::Rule("NAME=/folder, with a name as pool.name has it and a path from the root", is_pool_disk),
        };
        /// Their layouts, each `NAME=K+M`. A pool that is not named here gets what suits the number of its
        /// disks, as `pool.layout` does. The stripe unit is the main pool's.
        layouts: Vec<String> = "" { range: Range::Rule("NAME=K+M, from 1+0 to 16+4", is_pool_layout) };
    }

    /// What keeps stored bytes safe: scrub, which reads everything from the disks once in a while,
    /// and repair, which writes what was lost again. Rates are bytes per second; 0 is no limit.
    [upkeep] Upkeep {
        /// How fast repair may read and write while clients are served.
        repair_rate: ByteSize = "64MiB";
        /// How fast while no client asked for anything within a second.
        repair_rate_idle: ByteSize = "512MiB";
        /// How fast each disk is scrubbed while clients are served.
        scrub_rate: ByteSize = "16MiB";
        /// How fast while no client asked for anything within a second.
        scrub_rate_idle: ByteSize = "64MiB";
        /// How often each disk is scrubbed as a whole.
        scrub_interval: Duration = "14d" { range: Range::Between("1s", "365d") };
        /// How long a disk may be away before its shards are rebuilt on other disks, where there
        /// are any without a shard of the same object.
        rebuild_after: Duration = "10m" { range: Range::Between("0s", "30d") };
    }

    /// What expires by the rules of buckets, and the storage classes that objects may have.
    [lifecycle] Lifecycle {
        /// How long a day of a rule lasts. Another length than a day is for tests: then nothing is
        /// rounded to midnight, and buckets are looked at every second or so.
        day: Duration = "1d" { range: Range::Between("1s", "1d") };
        /// Storage classes beside `STANDARD`, each `NAME` or `NAME=POOL`: objects of that class are put into
        /// the pool of that name, the main pool where none is named. `STANDARD=POOL` puts there what has no
        /// class. What was written before stays where it is.
        storage_classes: Vec<String> = "" {
            range: Range::Rule(
                "upper-case letters, digits, dashes or underscores, or that, `=` and the name of a pool",
                is_class
            ),
        };
        /// How long after its last part an upload in parts ends that nobody completes. Its parts are freed, and
        /// its owner's quota gets them back. A rule of the bucket may end it earlier.
        uploads_expire_after: Duration = "7d" { range: Range::Between("1s", "3650d") };
        /// Whether storage classes that `storage_classes` does not name are refused. Else Amazon's names
        /// (`STANDARD_IA`, `ONEZONE_IA`, `INTELLIGENT_TIERING`, `GLACIER`, `GLACIER_IR`, `DEEP_ARCHIVE`,
        /// `REDUCED_REDUNDANCY`) are taken as well: objects keep them as labels, are put where
        /// `STANDARD` is, and can be read at once.
        strict_storage_classes: bool = "false";
    }

    /// What listings of names may cost, over S3 and over root://.
    [listing] Listing {
        /// Most names that a page of a listing looks at, whether it shows them or not: delete markers and empty
        /// directories are not shown. A page that has looked at so many ends early, and its client asks for the
        /// next one.
        names_max: u32 = "10000" { range: Range::Between("100", "1000000"), unit: "names" };
        /// Most listings of one account at a time that pass over more than 2,000 names each without showing them.
        /// Further ones are told to slow down.
        expensive_max: u32 = "4" { range: Range::Between("1", "1000"), unit: "listings" };
    }

    /// Where secrets are kept safe.
    [security] Security {
        /// The key that wraps every stored secret: a file of mode 0600, outside every disk of
        /// the pool. It is made when a pool is formatted and never again, so keep a copy in
        /// another place: without it no stored credential can be read. Empty: `master.key` in
        /// the state_dir.
        master_key_file: Option<PathBuf> = "";
        /// How long a bearer token may be good in all, from its `iat` to its `exp`. One that is good for
        /// longer is refused, however soon it ends.
        token_lifetime_max: Duration = "30d" { range: Range::Between("1m", "3650d") };
    }

    /// Logins from outside, as far as accounts let them in by themselves: OpenID Connect providers of
    /// the IAM API. Issuers that `dewar issuer` lets in are the server's and not meant here.
    [federation] Federation {
        /// Hosts of the providers that accounts may let in for their own roles over the IAM API: `host`,
        /// `host:port`, `*.domain`, or `*` for any. The server connects to them to fetch keys. `*` and
        /// `*.domain` do not mean this machine. Empty: accounts let nobody in, and who manages a tenant
        /// does not either.
        provider_hosts: Vec<String> = "" {
            range: Range::Rule("host, host:port, *.domain or *", is_provider_host),
        };
        /// What tokens name as their audience that are for this service, such as its address. A provider
        /// of the IAM API without client ids takes tokens for these. Empty: such a provider takes none.
        audiences: Vec<String> = "" {
            range: Range::Rule("1 to 255 visible characters", is_audience),
        };
        /// Whether the trust policy of a role may let in all users of a provider whose tokens are for a
        /// certain client, by a condition on `aud`, `azp`, `app_id` or `aws:TagKeys`. Otherwise it needs a
        /// claim that tells users apart, such as `sub` or `groups`, since many clients serve everybody.
        client_trust: bool = "false";
        /// Whether conditions on `aws:TagKeys` see the keys of a session's tags where a request gives no
        /// tags, as in Ceph. In AWS they see those of the request alone, so that a policy can demand them.
        session_tag_keys: bool = "false";
    }

    /// How much an account may make of users, keys and policies, and what all of them may take in memory.
    /// The numbers are the quotas of AWS. They hold for what belongs to an account, as `ann/robot` does;
    /// what an administrator gives to a tenant is not counted. What is there already stays.
    [accounts] Accounts {
        /// Memory that compiled policies may take in all. An account may have compiled policies as long as
        /// they take no more than is free, so alone it gets half; a request that needs more is answered
        /// 503 SlowDown.
        compiled_policies: ByteSize = "64MiB" { range: Range::Between("16MiB", "64GiB") };
        /// Memory that directories and documents of buckets (policies, lifecycle rules, tags and the like)
        /// may take which are remembered. What does not fit is read again when it is needed.
        remembered_directories: ByteSize = "64MiB" { range: Range::Between("8MiB", "64GiB") };
        /// How many users an account may have.
        users_max: u32 = "5000" { range: Range::Between("1", "1000000"), unit: "users" };
        /// How many groups an account may have.
        groups_max: u32 = "300" { range: Range::Between("1", "1000000"), unit: "groups" };
        /// How many roles an account may have.
        roles_max: u32 = "1000" { range: Range::Between("1", "1000000"), unit: "roles" };
        /// How many managed policies an account may have.
        policies_max: u32 = "1500" { range: Range::Between("1", "1000000"), unit: "policies" };
        /// Access keys that a user may have for another one to be made over the IAM API. `dewar key add`
        /// makes any number.
        keys_per_user: u32 = "2" { range: Range::Between("1", "1000"), unit: "keys" };
        /// Groups that a user of an account may be in.
        groups_per_user: u32 = "10" { range: Range::Between("1", "32"), unit: "groups" };
        /// Managed policies that may be attached to a user, group or role of an account.
        attached_policies: u32 = "10" { range: Range::Between("1", "32"), unit: "policies" };
        /// Characters of a managed policy of an account, white space not counted.
        managed_policy_size: u32 = "6144" { range: Range::Between("1", "20480"), unit: "characters" };
        /// Characters of all inline policies of a user of an account, white space not counted.
        user_policy_size: u32 = "2048" { range: Range::Between("1", "655360"), unit: "characters" };
        /// Characters of all inline policies of a group of an account, white space not counted.
        group_policy_size: u32 = "5120" { range: Range::Between("1", "655360"), unit: "characters" };
        /// Characters of all inline policies of a role of an account, white space not counted.
        role_policy_size: u32 = "10240" { range: Range::Between("1", "655360"), unit: "characters" };
    }

    /// The audit log: who asked for what, from where, by which credential, and what decided. One
    /// JSON object per line, searched with `dewar audit`. It never holds a secret.
    [audit] Audit {
        /// Folder of its files, mode 0700. Empty: `audit` in the state_dir.
        folder: Option<PathBuf> = "";
        /// Whether reading and listing that was allowed is recorded too. What was refused always is,
        /// and what was allowed and changes something.
        reads: bool = "false";
        /// A file that has got this long is followed by another one.
        file_size: ByteSize = "64MiB" { range: Range::Between("64KiB", "16GiB") };
        /// Most files of each of the two sets, of data and of security; the oldest are removed. 0 keeps all.
        files_max: u32 = "64" { unit: "files" };
        /// Changes of data by one account that are recorded one by one in a minute. Further ones are
        /// counted, and a record says how many there were.
        account_records_per_minute: u32 = "6000" {
            range: Range::Between("1", "10000000"), unit: "records",
        };
        /// The same for refusals of one account, for its logins and sessions, and for its calls of the IAM
        /// API: each of the three has this rate of its own. Requests of nobody in particular count as those of one account, and one address has at most half of it.
        account_security_records_per_minute: u32 = "600" {
            range: Range::Between("1", "10000000"), unit: "records",
        };
        /// What happens when nothing can be recorded, since the disk is full or too slow: `alarm`
        /// goes on and says how much is missing, `refuse` refuses what would have to be recorded.
        unwritable: UnwritableAudit = "alarm" { range: Range::OneOf(&["alarm", "refuse"]) };
    }

    /// The S3 door.
    [s3] S3 {
        /// Addresses to listen on. The default is reachable from this machine alone; give the
        /// other addresses a certificate.
        listen: Vec<SocketAddr> = "127.0.0.1:9000";
        /// Domains whose subdomains are buckets (virtual-host style): with `s3.example.org`
        /// the host `data.s3.example.org` means the bucket `data`. Path style always works.
        domains: Vec<String> = "" {
            range: Range::Rule("a domain name in lower case", is_domain),
        };
        /// Who owns the objects that others write into new buckets, where CreateBucket does not
        /// say: `BucketOwnerEnforced` switches access control lists off, `BucketOwnerPreferred`
        /// and `ObjectWriter` leave them on.
        object_ownership: String = "BucketOwnerEnforced" {
            range: Range::Rule("BucketOwnerEnforced, BucketOwnerPreferred or ObjectWriter", is_ownership),
        };
        /// The region that clients sign for.
        region: String = "us-east-1" {
            range: Range::Rule("1 to 64 letters, digits, dashes or underscores", is_region),
        };
        /// Certificate chain in PEM, the server's own first. A new file is taken up within
        /// seconds, or at once on SIGHUP; one that does not fit its key is refused and the old
        /// one kept. Empty: no TLS.
        tls_certificate_file: Option<PathBuf> = "";
        /// Private key of the certificate in PEM (PKCS #8, PKCS #1 or SEC 1).
        tls_key_file: Option<PathBuf> = "";
        /// Connections that may be open at once; further ones are answered 503 and closed. At most
        /// a quarter of the files that the kernel lets the process open.
        connections_max: u32 = "4096" {
            range: Range::Between("1", "1000000"), unit: "connections", reload: Reload::Live,
        };
        /// From the first byte of a request, or of a TLS handshake, to the end of its headers.
        header_timeout: Duration = "15s" {
            range: Range::Between("1s", "10m"), reload: Reload::Live,
        };
        /// How long a connection may stay open without a request.
        idle_timeout: Duration = "5m" {
            range: Range::Between("1s", "1d"), reload: Reload::Live,
        };
        /// How long a client may send nothing of a body that is awaited, or take nothing of an
        /// answer, before the connection is closed.
        body_timeout: Duration = "1m" {
            range: Range::Between("1s", "1h"), reload: Reload::Live,
        };
        /// Bytes that the names and values of a request's headers may have together; more is
        /// answered 431.
        header_bytes_max: ByteSize = "32KiB" {
            range: Range::Between("4KiB", "256KiB"), reload: Reload::Live,
        };
    }

    /// The XRootD door: `root://`.
    [xrootd] Xrootd {
        /// Addresses to listen on, usually port 1094. Empty: no such door.
        listen: Vec<SocketAddr> = "";
        /// Certificate chain in PEM, the server's own first; exchanged like the S3 door's. With it,
        /// connections of clients that can are encrypted, which tokens need. Empty: no TLS.
        tls_certificate_file: Option<PathBuf> = "";
        /// Private key of the certificate in PEM (PKCS #8, PKCS #1 or SEC 1).
        tls_key_file: Option<PathBuf> = "";
        /// As which user clients on this machine act whose connection belongs to the Unix user
        /// that runs the server; nobody else is let in by it. Empty: as none.
        local_user: String = "";
        /// Whether clients may say themselves which user they are (protocol `unix`), from
        /// wherever they come. Only for networks in which nobody lies.
        trust_names: bool = "false";
        /// Keys of services, in the format of `xrdsssadmin`, readable for this server's user only
        /// (its group too, if the name ends in `.grp`). Who has one is let in as its user (protocol
        /// `sss`), until the server's next look at the file, which is at every login. Empty: nobody.
        sss_keytab_file: Option<PathBuf> = "";
        /// Beginnings of paths that mean others, as `/store=/cms/store`; the longest that fits
        /// counts.
        paths: Vec<String> = "" {
            range: Range::Rule("two absolute paths with = between them", is_translation),
        };
        /// Name of the site, told to clients that ask.
        site: String = "";
        /// From where clients may have this server fetch files (third-party copies): hosts, `*.domain`,
        /// addresses, networks as `10.0.0.0/8`, `*`, each with `:port` for that port alone, else for
        /// those from 1024 on. `*` and `*.domain` mean addresses of the public network only; others must
        /// be listed as themselves, as a network, or by the full name of their host. Empty: from nowhere, and
        /// clients copy by themselves.
        tpc_sources: Vec<String> = "" {
            range: Range::Rule("a host, a network, *.domain or *, with or without a port", is_tpc_source),
        };
        /// Third-party copies that may run at once; further ones are told to wait. An account may begin
        /// one while it runs fewer than are free, so alone it gets half of them. Each takes up to 16 MiB
        /// of memory.
        tpc_copies_max: u32 = "16" { range: Range::Between("1", "10000"), unit: "copies" };
        /// Bytes a second that the source of a third-party copy must send on average; a slower one loses
        /// the copy. 0B: any speed will do.
        tpc_rate_min: ByteSize = "64KiB" { range: Range::Between("0B", "1GiB") };
        /// For how long a source is waited for before its speed is judged, each time.
        tpc_rate_time: Duration = "5m" { range: Range::Between("1s", "1h") };
        /// Servers with the same files, to which clients are sent that read: `host:port`, or
        /// `host:port=network` for one that clients of a network prefer. Each is looked at once a
        /// second. Empty: none.
        redirect_to: Vec<String> = "" {
            range: Range::Rule("HOST[:PORT] or HOST[:PORT]=NETWORK", is_elsewhere),
        };
        /// The same for clients that write, or change names. Empty: they are sent nowhere.
        redirect_writes_to: Vec<String> = "" {
            range: Range::Rule("HOST[:PORT] or HOST[:PORT]=NETWORK", is_elsewhere),
        };
        /// When clients are sent there: `stopping`, who opens a file while this server stops;
        /// `balanced`, also who opens one while another server has clearly fewer sessions or is nearer;
        /// `always`, with everything: this server is a redirector then, serves no file itself and asks
        /// nobody who it is.
        redirect: String = "stopping" {
            range: Range::Rule("stopping, balanced or always", is_when),
        };
        /// Connections that may be open at once; further ones are closed. At most a quarter of the
        /// files that the kernel lets the process open.
        connections_max: u32 = "4096" {
            range: Range::Between("1", "1000000"), unit: "connections",
        };
        /// Files that the client of one connection may have open.
        files_max: u32 = "4096" { range: Range::Between("1", "1000000"), unit: "files" };
        /// Files that an account may write at once, over all its connections. Opening a further one waits
        /// until another is closed. Uploads whose connection broke count until they are given up.
        writers_max: u32 = "256" { range: Range::Between("1", "1000000"), unit: "files" };
        /// How long a connection may stay open without a request.
        idle_timeout: Duration = "1h" { range: Range::Between("1s", "30d") };
        /// How long a client may send nothing of a request that it began, or take nothing of an
        /// answer, before the connection is closed.
        stall_timeout: Duration = "1m" { range: Range::Between("1s", "1h") };
        /// How long an upload whose connection broke waits for its client to go on with it, which clients of
        /// the reference implementation do by themselves. With 0s it is given up at once.
        resume_time: Duration = "5m" { range: Range::Between("0s", "1h") };
        /// Bytes on their way in, and bytes on their way out, that all connections together may
        /// hold. Beyond that each goes on with little at a time. As many again are for what open files
        /// keep in memory until they are closed; beyond, opening a further file waits. One account gets
        /// no more of these than are free, so alone it gets half of them.
        buffers: ByteSize = "256MiB" { range: Range::Between("16MiB", "64GiB") };
    }

    /// Prometheus metrics at `/metrics`, liveness at `/live` and readiness at `/ready`.
    [metrics] Metrics {
        /// Addresses to listen on. There is no login: stay on loopback, or behind something that
        /// asks for one. An empty list switches it off.
        listen: Vec<SocketAddr> = "127.0.0.1:9001";
    }

    /// For tests of Dewar itself. Whatever is set here makes waits short or files small that
    /// protect a real deployment; a server that starts with any of it logs a warning.
    [testing] Testing {
        /// Size of a journal file, a multiple of 4 KiB. A new disk of the journal has two of them
        /// filled with zeros, and the largest record must fit into one.
        journal_file_size: ByteSize = "32MiB" { range: Range::Pages("2MiB", "1GiB") };
        /// How long a replaced master key is kept at least, for what was being written under it.
        key_settle_time: Duration = "1m" { range: Range::Between("1s", "1m") };
        /// Time between two fetches of an issuer's keys that tokens with unknown keys ask for.
        unknown_key_interval: Duration = "10s" { range: Range::Between("1s", "10s") };
    }
}

impl Config {
    /// The admin socket: as configured, else `admin.sock` in the state folder.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.beside_state(self.server.admin_socket.as_deref(), "admin.sock")
    }

    /// The master key file: as configured, else `master.key` in the state folder.
    #[must_use]
    pub fn master_key_file(&self) -> PathBuf {
        self.beside_state(self.security.master_key_file.as_deref(), "master.key")
    }

    /// The folder of the audit log: as configured, else `audit` in the state folder.
    #[must_use]
    pub fn audit_folder(&self) -> PathBuf {
        self.beside_state(self.audit.folder.as_deref(), "audit")
    }

    /// The networks of [`Server::shared_addresses`].
    #[must_use]
    pub fn shared_addresses(&self) -> Vec<dewar_auth::Network> {
        let texts = self.server.shared_addresses.iter();
        texts
            .filter_map(|text| dewar_auth::Network::parse(text))
            .collect()
    }

    fn beside_state(&self, given: Option<&Path>, name: &str) -> PathBuf {
        given.map_or_else(|| self.server.state_dir.join(name), Path::to_path_buf)
    }

    /// The layout that new objects get while every disk is there, with the stripe unit.
    #[must_use]
    pub fn layout(&self) -> dewar_types::Layout {
        let layout = match self.pool.layout {
            LayoutChoice::Auto => dewar_types::Layout::default_for(self.pool.disks.len()),
            LayoutChoice::Fixed(layout) => layout,
        };
        // The key's range ends at 4 MiB.
        let unit = u32::try_from(self.pool.stripe_unit.0).unwrap_or(layout.unit);
        dewar_types::Layout { unit, ..layout }
    }
}

/// A pool beside the main one, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherPool {
    /// Its name.
    pub name: String,
    /// Its layout while every disk is there, with the stripe unit.
    pub layout: dewar_types::Layout,
    /// Its folders.
    pub disks: Vec<PathBuf>,
}

impl FurtherPool {
    /// The number that its disks and records know it by.
    #[must_use]
    pub fn number(&self) -> u16 {
        dewar_data::pool::number_of(&self.name)
    }
}

impl Config {
    /// The pools beside the main one, by name.
    #[must_use]
    pub fn further_pools(&self) -> Vec<FurtherPool> {
        let mut pools: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
        let split = |text: &'_ String| {
            text.split_once('=')
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        };
        let layouts: BTreeMap<String, String> =
            self.pools.layouts.iter().filter_map(split).collect();
        for name in layouts.keys() {
            pools.insert(name, Vec::new());
        }
        for (name, folder) in self
            .pools
            .disks
            .iter()
            .filter_map(|text| text.split_once('='))
        {
            pools.entry(name).or_default().push(PathBuf::from(folder));
        }
        let unit = self.layout().unit;
        let pools = pools.into_iter().map(|(name, disks)| {
            let given = layouts.get(name).and_then(|layout| parse_layout(layout));
            let layout = given.unwrap_or_else(|| dewar_types::Layout::default_for(disks.len()));
            FurtherPool {
                name: name.to_owned(),
                layout: dewar_types::Layout { unit, ..layout },
                disks,
            }
        });
        pools.collect()
    }

    /// The number of the pool of this name, if it is configured.
    #[must_use]
    pub fn pool_number(&self, name: &str) -> Option<u16> {
        if name == self.pool.name {
            return Some(0);
        }
        let further = self.further_pools();
        let found = further.iter().find(|pool| pool.name == name);
        found.map(FurtherPool::number)
    }

    /// The name of the pool of this number, if it is configured.
    #[must_use]
    pub fn pool_name(&self, number: u16) -> Option<String> {
        if number == 0 {
            return Some(self.pool.name.clone());
        }
        let mut further = self.further_pools().into_iter();
        let found = further.find(|pool| pool.number() == number);
        found.map(|pool| pool.name)
    }

    /// The folders of all pools, those of the main one first, each with its pool's number.
    #[must_use]
    pub fn folders(&self) -> Vec<(PathBuf, u16)> {
        let main = self.pool.disks.iter().map(|folder| (folder.clone(), 0));
        let further = self.further_pools().into_iter().flat_map(|pool| {
            let number = pool.number();
            pool.disks.into_iter().map(move |folder| (folder, number))
        });
        main.chain(further).collect()
    }

    /// Takes a further folder for a disk of a pool; of the main one, where no pool has this number.
    pub fn add_folder(&mut self, folder: PathBuf, pool: u16) {
        match self.pool_name(pool).filter(|_| pool != 0) {
            Some(name) => self
                .pools
                .disks
                .push(format!("{name}={}", folder.display())),
            None => self.pool.disks.push(folder),
        }
    }

    /// Forgets a folder.
    pub fn drop_folder(&mut self, folder: &Path) {
        self.pool.disks.retain(|known| known != folder);
        let other = |text: &String| {
            let known = text.split_once('=').map(|(_, known)| Path::new(known));
            known != Some(folder)
        };
        self.pools.disks.retain(other);
    }

    /// Storage classes and the numbers of their pools, `None` for the main one.
    #[must_use]
    pub fn classes(&self) -> BTreeMap<String, Option<u16>> {
        let classes = self.lifecycle.storage_classes.iter().map(|text| {
            let (class, pool) = split_class(text);
            let number = pool.and_then(|pool| self.pool_number(pool));
            (class.to_owned(), number.filter(|number| *number != 0))
        });
        classes.collect()
    }

    /// The pools that storage classes name.
    pub(super) fn named_pools(&self) -> impl Iterator<Item = &str> {
        let classes = self.lifecycle.storage_classes.iter();
        classes.filter_map(|text| split_class(text).1)
    }
}

/// The key called `section.name`.
#[must_use]
pub fn find(path: &str) -> Option<&'static Key> {
    let (section, name) = path.split_once('.')?;
    let section = SECTIONS.iter().find(|s| s.name == section)?;
    section.keys.iter().find(|key| key.name == name)
}

/// Every key of every section.
pub fn all() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|section| section.keys)
}
