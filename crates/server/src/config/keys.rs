//! The table of all configuration keys. A doc line here is the doc line of `dewar config explain`,
//! of `dewar config default` and of the reference. A default here is the default.
//!
//! Add a key only if a measurement or an administrator's request shows that it is needed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key_rules::{
    is_audience, is_class, is_domain, is_elsewhere, is_network, is_ownership, is_pool_disk,
    is_pool_layout, is_pool_name, is_port, is_provider_host, is_public_url, is_reader, is_region,
    is_report_path, is_tpc_source, is_translation, is_trusted_host, is_when,
};
use super::load::Values;
use super::table::{Key, Range, Reload, Section, read, sections};
use super::value::{ByteSize, Context, Field, LayoutChoice, LogFormat, LogLevel, UnwritableAudit};

sections! {
    /// Settings of the server process.
    [server] Server {
        /// Number of this deployment (zone) within its realm. It is part of every id that the
        /// server creates, so never change it once data has been written. Two zones that exchange
        /// data must have different numbers.
        zone: u16 = "1" { range: Range::Between("1", "65535") };
        /// Folder for files of this server that are not stored data: the lock that keeps a second
        /// process from starting, and by default the admin socket and the master key. It is created
        /// with mode 0700 if it does not exist. It must not be inside a disk of the pool.
        state_dir: PathBuf = "/var/lib/dewar";
        /// Unix socket for the administrator's commands, such as `dewar user` and `dewar status`,
        /// mode 0600. The server answers only root and the Unix user that it runs as. Empty:
        /// `admin.sock` in the state_dir.
        admin_socket: Option<PathBuf> = "";
        /// Time that running requests get to finish after the server was asked to stop. After it
        /// they are cut off. A write that is cut off has no effect.
        graceful_stop_timeout: Duration = "30s" { range: Range::Between("0s", "1h"), reload: Reload::Live };
        /// Addresses under which clients know this server, as `https://storage.example.org:8443`. A
        /// COPY or MOVE to one of them stays within this server. The address that a client asked
        /// always counts.
        public_urls: Vec<String> = "" {
            range: Range::Rule("http:// or https://, a host, and a port or none", is_public_url),
        };
        /// Folder with certificate authorities that this server trusts as a client, beside those of the
        /// system: for third-party copies, and for the keys of issuers. Grid sites have it at
        /// `/etc/grid-security/certificates`: files `HASH.0` with certificates, and `HASH.r0` with
        /// lists of revoked ones. It is read again every 10 minutes. Empty: only those of the system.
        authority_folder: Option<PathBuf> = "";
        /// Limit on the connections of one address whose clients have not authenticated yet:
        /// `connections_max` of its listener divided by this number, but at least 16. An IPv6
        /// network of 64 bits counts as one address. Further connections are asked to slow down. 1:
        /// no such limit.
        unauthenticated_share: u32 = "16" {
            range: Range::Between("1", "1000000"), reload: Reload::Live,
        };
        /// Addresses and networks that many clients share, such as proxies and NAT gateways. Each
        /// address may hold half of `connections_max` of each listener before its clients have
        /// authenticated. Addresses of this machine itself (127.0.0.1, ::1) always may.
        shared_addresses: Vec<String> = "" {
            range: Range::Rule("an address or a network, like 10.0.0.0/8", is_network),
            reload: Reload::Live,
        };
    }

    /// Logs. They go to standard error and never contain a secret.
    [log] Log {
        /// Format of log lines: readable text, or one JSON object per line.
        format: LogFormat = "human" { range: Range::OneOf(&["human", "json"]) };
        /// Least important level that is still logged.
        level: LogLevel = "info" {
            range: Range::OneOf(&["error", "warn", "info", "debug", "trace"]),
            reload: Reload::Live,
        };
        /// Whether to write the access log: one line for each request, at every log level. A line
        /// has the request's id, peer, user, verb, bucket, key, status, bytes and duration. It
        /// costs about 10 microseconds of CPU per request, a third of the cost of a HEAD, and 300
        /// bytes of log.
        access: bool = "false" { reload: Reload::Live };
    }

    /// The disks, and the erasure coding of objects on them.
    [pool] Pool {
        /// Name of the pool in logs, metrics and status. If there are several pools, this is the
        /// main one.
        name: String = "main" {
            range: Range::Rule("1 to 32 lower-case letters, digits or dashes", is_pool_name),
        };
        /// Folders that are the disks of the pool, each on a device of its own. A folder that is
        /// absent, or not the one that was formatted, counts as a missing disk. Once the pool
        /// exists, the server never creates or formats such a folder.
        disks: Vec<PathBuf> = "";
        /// Erasure layout of new objects: k data and m parity shards, so that any m disks may be
        /// lost. `auto` chooses by the number of disks: 1+0 for one, 1+1 for two, 2+1 for three,
        /// 3+1 for four, 3+2 for five, 4+2 from six, 8+3 from eleven.
        layout: LayoutChoice = "auto" { range: Range::Rule("auto, or 1+0 to 16+4", |_| true) };
        /// Number of consecutive bytes of an object on one disk before the next disk follows. With
        /// smaller units, more disks share the work on an object of medium size. With larger ones,
        /// a read touches fewer disks.
        stripe_unit: ByteSize = "64KiB" { range: Range::Pages("4KiB", "4MiB") };
        /// Objects up to this size are written into the journal and share its sync, instead of one
        /// file per shard.
        small_object_threshold: ByteSize = "128KiB" { range: Range::Between("0B", "1MiB") };
        /// A disk that does not complete an operation within this time is treated as missing.
        disk_deadline: Duration = "10s" { range: Range::Between("100ms", "5m") };
        /// Most objects that are read at the same time because a client asked for a checksum that
        /// was not computed at writing. Clients that ask for more are asked to wait. An account
        /// that already has as many as are still free gets no more, so a single account gets half
        /// of them.
        checksums_max: u32 = "8" { range: Range::Between("1", "1000"), unit: "objects" };
        /// Time after which such a checksum is given up, and the client gets an error.
        checksum_time_max: Duration = "6h" { range: Range::Between("1s", "7d") };
    }

    /// Further pools: disks of their own, for objects of certain storage classes
    /// (`lifecycle.storage_classes`). All pools share one catalog, whose journal and index may be
    /// on any of the disks.
    [pools] Pools {
        /// Folders that are the disks of these pools, each `NAME=/folder`, like `archive=/srv/a1`.
        /// A disk never changes its pool, and a pool never changes its name, because its disks
        /// store the name. To add disks to an existing deployment, use `dewar disk add --pool
        /// NAME`.
        disks: Vec<String> = "" {
            range: Range::Rule("NAME=/folder, with a name as pool.name has it and a path from the root", is_pool_disk),
        };
        /// Erasure layouts of these pools, each `NAME=K+M`. A pool that is not named here gets a
        /// layout by the number of its disks, as with `pool.layout`. The stripe unit is that of the
        /// main pool.
        layouts: Vec<String> = "" { range: Range::Rule("NAME=K+M, from 1+0 to 16+4", is_pool_layout) };
    }

    /// Background work that keeps data safe: scrub reads all data from the disks periodically, and
    /// repair rebuilds lost data. Rates are in bytes per second; 0 means no limit.
    [upkeep] Upkeep {
        /// Rate of repair while clients are served.
        repair_rate: ByteSize = "64MiB";
        /// Rate of repair after a second without a request.
        repair_rate_idle: ByteSize = "512MiB";
        /// Rate of the scrub of each disk while clients are served.
        scrub_rate: ByteSize = "16MiB";
        /// Rate of the scrub of each disk after a second without a request.
        scrub_rate_idle: ByteSize = "64MiB";
        /// Interval between two complete scrubs of a disk.
        scrub_interval: Duration = "14d" { range: Range::Between("1s", "365d") };
        /// Time that a disk may be absent before its shards are rebuilt on other disks. Rebuilding
        /// needs a disk that has no shard of the same object.
        rebuild_after: Duration = "10m" { range: Range::Between("0s", "30d") };
    }

    /// Expiry of objects by the rules of buckets, and storage classes.
    [lifecycle] Lifecycle {
        /// Length of a day in lifecycle rules. Another length than a day is for tests: then times
        /// are not rounded to midnight, and buckets are scanned about every second.
        day: Duration = "1d" { range: Range::Between("1s", "1d") };
        /// Storage classes beside `STANDARD`, each `NAME` or `NAME=POOL`. Objects of the class are
        /// stored in the pool of that name, or in the main pool if none is named. `STANDARD=POOL`
        /// sets the pool of objects without a class. Objects that were written before stay in their
        /// pool.
        storage_classes: Vec<String> = "" {
            range: Range::Rule(
                "upper-case letters, digits, dashes or underscores, or that, `=` and the name of a pool",
                is_class
            ),
        };
        /// Time after its last part when an incomplete multipart upload ends. Its parts are freed,
        /// and no longer count for its owner's quota. A rule of the bucket may end it earlier.
        uploads_expire_after: Duration = "7d" { range: Range::Between("1s", "3650d") };
        /// Whether to refuse storage classes that `storage_classes` does not name. If not, Amazon's
        /// names (`STANDARD_IA`, `ONEZONE_IA`, `INTELLIGENT_TIERING`, `GLACIER`, `GLACIER_IR`,
        /// `DEEP_ARCHIVE`, `REDUCED_REDUNDANCY`) are accepted as well. Such an object keeps the
        /// name as a label. It is stored in the pool of `STANDARD`, and can be read at once.
        strict_storage_classes: bool = "false";
    }

    /// Limits for listings, over S3 and over root://.
    [listing] Listing {
        /// Most names that one page of a listing reads, including names that it does not show:
        /// delete markers and empty directories. A page that reaches this limit ends early, and its
        /// client asks for the next one.
        names_max: u32 = "10000" { range: Range::Between("100", "1000000"), unit: "names" };
        /// Most concurrent expensive listings of one account. A listing is expensive if it reads
        /// more than 2,000 names that it does not show. Further ones are asked to slow down.
        expensive_max: u32 = "4" { range: Range::Between("1", "1000"), unit: "listings" };
    }

    /// The master key and tokens.
    [security] Security {
        /// The key that encrypts every stored secret: a file of mode 0600, outside every disk of
        /// the pool. It is created when the pool is formatted and never again. Without it the
        /// server does not start, and no stored credential or encrypted object can be read. Keep a
        /// copy in another place. Empty: `master.key` in the state_dir.
        master_key_file: Option<PathBuf> = "";
        /// Longest lifetime of a bearer token, from its `iat` to its `exp`. A token with a longer
        /// lifetime is refused, even shortly before its end.
        token_lifetime_max: Duration = "30d" { range: Range::Between("1m", "3650d") };
    }

    /// Login providers that accounts add by themselves: OpenID Connect providers of the IAM API.
    /// Issuers that were added with `dewar issuer` are independent of these keys.
    [federation] Federation {
        /// Hosts of the providers that accounts may add for their own roles over the IAM API:
        /// `host`, `host:port`, `*.domain`, or `*` for any. The server connects to them to fetch
        /// keys. `*` and `*.domain` do not include this machine. Empty: neither accounts nor
        /// administrators of a tenant can add providers.
        provider_hosts: Vec<String> = "" {
            range: Range::Rule("host, host:port, *.domain or *", is_provider_host),
        };
        /// Audiences of tokens that are for this service, such as its address. A provider of the
        /// IAM API without client ids accepts tokens for these audiences. Empty: such a provider
        /// accepts no tokens.
        audiences: Vec<String> = "" {
            range: Range::Rule("1 to 255 visible characters", is_audience),
        };
        /// Whether the trust policy of a role may let in all users of a provider whose tokens are
        /// for a certain client, by a condition on `aud`, `azp`, `app_id` or `aws:TagKeys`. If not,
        /// the policy must test a claim that distinguishes users, such as `sub` or `groups`,
        /// because many clients serve everybody.
        client_trust: bool = "false";
        /// Whether conditions on `aws:TagKeys` use the keys of a session's tags if a request has no
        /// tags, as in Ceph. In AWS they use only the tags of the request, so that a policy can
        /// demand them.
        session_tag_keys: bool = "false";
    }

    /// Limits on the users, keys and policies of an account, and on the memory for those of all
    /// accounts. The numbers are the quotas of AWS. They apply to everything that belongs to an
    /// account, such as the user `ann/robot`. Users and policies that an administrator adds to a
    /// tenant are not counted. A lower limit removes nothing that exists.
    [accounts] Accounts {
        /// Memory for all compiled policies. An account that already uses as much as is still free
        /// gets no more, so a single account gets half. A request that needs more is answered 503
        /// SlowDown.
        compiled_policies: ByteSize = "64MiB" { range: Range::Between("16MiB", "64GiB") };
        /// Memory for cached directories and documents of buckets (policies, lifecycle rules, tags
        /// and the like). Data beyond it is read again when it is needed.
        remembered_directories: ByteSize = "64MiB" { range: Range::Between("8MiB", "64GiB") };
        /// Most users of an account.
        users_max: u32 = "5000" { range: Range::Between("1", "1000000"), unit: "users" };
        /// Most groups of an account.
        groups_max: u32 = "300" { range: Range::Between("1", "1000000"), unit: "groups" };
        /// Most roles of an account.
        roles_max: u32 = "1000" { range: Range::Between("1", "1000000"), unit: "roles" };
        /// Most managed policies of an account.
        policies_max: u32 = "1500" { range: Range::Between("1", "1000000"), unit: "policies" };
        /// Most access keys of a user that the IAM API creates. `dewar key add` has no limit.
        keys_per_user: u32 = "2" { range: Range::Between("1", "1000"), unit: "keys" };
        /// Most groups that a user of an account may be in.
        groups_per_user: u32 = "10" { range: Range::Between("1", "32"), unit: "groups" };
        /// Most managed policies that may be attached to a user, group or role of an account.
        attached_policies: u32 = "10" { range: Range::Between("1", "32"), unit: "policies" };
        /// Most characters of a managed policy of an account, not counting white space.
        managed_policy_size: u32 = "6144" { range: Range::Between("1", "20480"), unit: "characters" };
        /// Most characters of all inline policies of a user of an account, not counting white
        /// space.
        user_policy_size: u32 = "2048" { range: Range::Between("1", "655360"), unit: "characters" };
        /// Most characters of all inline policies of a group of an account, not counting white
        /// space.
        group_policy_size: u32 = "5120" { range: Range::Between("1", "655360"), unit: "characters" };
        /// Most characters of all inline policies of a role of an account, not counting white
        /// space.
        role_policy_size: u32 = "10240" { range: Range::Between("1", "655360"), unit: "characters" };
    }

    /// The audit log: the user, address, credential, action and target of each decision, and its
    /// reason. One JSON object per line, searched with `dewar audit`. It never contains a secret.
    [audit] Audit {
        /// Folder of the log files, mode 0700. Empty: `audit` in the state_dir.
        folder: Option<PathBuf> = "";
        /// Whether to record allowed reads and listings too. Refused requests and allowed changes
        /// are always recorded.
        reads: bool = "false";
        /// Size at which the server begins a new file.
        file_size: ByteSize = "64MiB" { range: Range::Between("64KiB", "16GiB") };
        /// Most files of each of the two sets, data and security. The oldest are removed. 0 keeps
        /// all.
        files_max: u32 = "64" { unit: "files" };
        /// Most changes of data by one account per minute that are recorded one by one. Further
        /// ones are counted, and one record has their number.
        account_records_per_minute: u32 = "6000" {
            range: Range::Between("1", "10000000"), unit: "records",
        };
        /// The same limit for refusals of one account, for its logins and sessions, and for its
        /// calls of the IAM API. Each of the three has its own limit. Requests without a user count
        /// as one account. One address may use at most half of that account's limit.
        account_security_records_per_minute: u32 = "600" {
            range: Range::Between("1", "10000000"), unit: "records",
        };
        /// Action to take when records cannot be written, because the disk is full or too slow.
        /// `alarm` continues and reports the number of missing records. `refuse` refuses requests
        /// that must be recorded.
        unwritable: UnwritableAudit = "alarm" { range: Range::OneOf(&["alarm", "refuse"]) };
    }

    /// The S3 server.
    [s3] S3 {
        /// Addresses to listen on. The default can be reached from this machine only. For other
        /// addresses, configure a certificate.
        listen: Vec<SocketAddr> = "127.0.0.1:9000";
        /// Domains whose subdomains are buckets (virtual-host style): with `s3.example.org` the
        /// host `data.s3.example.org` means the bucket `data`. Path style always works.
        domains: Vec<String> = "" {
            range: Range::Rule("a domain name in lower case", is_domain),
        };
        /// Object ownership of new buckets, if CreateBucket does not set it. `BucketOwnerEnforced`
        /// switches access control lists off. `BucketOwnerPreferred` and `ObjectWriter` leave them
        /// on.
        object_ownership: String = "BucketOwnerEnforced" {
            range: Range::Rule("BucketOwnerEnforced, BucketOwnerPreferred or ObjectWriter", is_ownership),
        };
        /// Region that clients sign for.
        region: String = "us-east-1" {
            range: Range::Rule("1 to 64 letters, digits, dashes or underscores", is_region),
        };
        /// Certificate chain in PEM, the server's own certificate first. The server loads a new
        /// file within seconds, or at once on SIGHUP. A certificate that does not match its key is
        /// refused, and the old one stays in use. Empty: no TLS.
        tls_certificate_file: Option<PathBuf> = "";
        /// Private key of the certificate in PEM (PKCS #8, PKCS #1 or SEC 1).
        tls_key_file: Option<PathBuf> = "";
        /// Most open connections. Further ones are answered 503 and closed. An account gets at most
        /// as many as are free for others. All listeners together get at most half of the files that
        /// the kernel lets the process open.
        connections_max: u32 = "4096" {
            range: Range::Between("1", "1000000"), unit: "connections", reload: Reload::Live,
        };
        /// Time from the first byte of a request, or of a TLS handshake, to the end of its headers.
        header_timeout: Duration = "15s" {
            range: Range::Between("1s", "10m"), reload: Reload::Live,
        };
        /// Time after which a connection without a request is closed.
        idle_timeout: Duration = "5m" {
            range: Range::Between("1s", "1d"), reload: Reload::Live,
        };
        /// Time after which a connection is closed if the client sends nothing of an expected body,
        /// or reads nothing of an answer. Besides, 60 KiB of a body must come in each 60 s of
        /// waiting for the client, or in this time if it is longer.
        body_timeout: Duration = "1m" {
            range: Range::Between("1s", "1h"), reload: Reload::Live,
        };
        /// Most bytes of the names and values of a request's headers together. A request with more
        /// is answered 431.
        header_bytes_max: ByteSize = "32KiB" {
            range: Range::Between("4KiB", "256KiB"), reload: Reload::Live,
        };
    }

    /// The WebDAV server: `http://` and `https://`.
    [webdav] Webdav {
        /// Addresses to listen on. Empty: WebDAV is off. For addresses other than those of this
        /// machine, configure a certificate: passwords and tokens are accepted over TLS only.
        listen: Vec<SocketAddr> = "";
        /// Further addresses without TLS, also if there is a certificate. For addresses of this machine,
        /// or for clients that need no login.
        plain_listen: Vec<SocketAddr> = "";
        /// Certificate chain in PEM, the server's own certificate first; reloaded like that of S3.
        /// Empty: no TLS.
        tls_certificate_file: Option<PathBuf> = "";
        /// Private key of the certificate in PEM (PKCS #8, PKCS #1 or SEC 1).
        tls_key_file: Option<PathBuf> = "";
        /// Whether DELETE removes a directory with its content. If not, a directory that is not
        /// empty is refused with 409, also as the destination of a COPY or MOVE.
        recursive_delete: bool = "true";
        /// Whether PROPFIND with `Depth: infinity` is answered. If not, it is refused with 403.
        propfind_infinity: bool = "false";
        /// A further path of the storage report (SRR), beside `/.well-known/srr`, for WebDAV and S3:
        /// `/static/srr`, for example. It hides a file of the same path. Empty: no further path.
        srr_path: String = "" {
            range: Range::Rule("an absolute path without a slash at its end", is_report_path),
        };
        /// Users who may read the storage report, `NAME` or `TENANT:NAME`. `*`: everybody, without
        /// credentials too. Empty: nobody.
        srr_readers: Vec<String> = "*" {
            range: Range::Rule("a user, or *", is_reader),
        };
        /// Most open connections. Further ones are answered 503 and closed. All listeners together
        /// get at most half of the files that the kernel lets the process open.
        connections_max: u32 = "1536" {
            range: Range::Between("1", "1000000"), unit: "connections", reload: Reload::Live,
        };
        /// Time from the first byte of a request, or of a TLS handshake, to the end of its headers.
        header_timeout: Duration = "15s" {
            range: Range::Between("1s", "10m"), reload: Reload::Live,
        };
        /// Time after which a connection without a request is closed.
        idle_timeout: Duration = "5m" {
            range: Range::Between("1s", "1d"), reload: Reload::Live,
        };
        /// Time after which a connection is closed if the client sends nothing of an expected body,
        /// or reads nothing of an answer.
        body_timeout: Duration = "1m" {
            range: Range::Between("1s", "1h"), reload: Reload::Live,
        };
        /// Most bytes of the names and values of a request's headers together. A request with more
        /// is answered 431. The ranges of a GET are among them.
        header_bytes_max: ByteSize = "64KiB" {
            range: Range::Between("4KiB", "256KiB"), reload: Reload::Live,
        };
    }

    /// The XRootD server: `root://`.
    [xrootd] Xrootd {
        /// Addresses to listen on, usually port 1094. Empty: XRootD is off.
        listen: Vec<SocketAddr> = "";
        /// Certificate chain in PEM, the server's own certificate first; reloaded like that of S3.
        /// With it, connections of clients that support TLS are encrypted. Logins with tokens need
        /// it. Empty: no TLS.
        tls_certificate_file: Option<PathBuf> = "";
        /// Private key of the certificate in PEM (PKCS #8, PKCS #1 or SEC 1).
        tls_key_file: Option<PathBuf> = "";
        /// User for clients on this machine whose connection belongs to the Unix user that runs the
        /// server. Other Unix users are not let in by this key. Empty: no such logins.
        local_user: String = "";
        /// Whether clients may name their user without proof (protocol `unix`), from any address.
        /// Every client can then act as every user. Use it only in a network in which every client
        /// is trusted.
        trust_names: bool = "false";
        /// File with keys of services, in the format of `xrdsssadmin`. Only this server's user may
        /// have read access (its group too, if the name ends in `.grp`). A client with one of the
        /// keys is logged in as the key's user (protocol `sss`). The server reads the file again at
        /// every login. Empty: no such logins.
        sss_keytab_file: Option<PathBuf> = "";
        /// Prefixes of paths that are replaced, as `/store=/cms/store`. The longest prefix that
        /// matches is used.
        paths: Vec<String> = "" {
            range: Range::Rule("two absolute paths with = between them", is_translation),
        };
        /// Name of the site, for clients that ask for it.
        site: String = "";
        /// Hosts from which this server fetches files when a client asks it to (third-party copy):
        /// hosts, `*.domain`, addresses, networks as `10.0.0.0/8`, or `*`. With `:port` an entry
        /// allows that port only, otherwise all from 1024 on. `*` and `*.domain` include only
        /// addresses of the public network. List others by their address, their network or the full
        /// name of the host. Empty: third-party copy is off, and clients copy by themselves.
        tpc_sources: Vec<String> = "" {
            range: Range::Rule("a host, a network, *.domain or *, with or without a port", is_tpc_source),
        };
        /// Most third-party copies at the same time. Further ones are asked to wait. An account
        /// that already runs as many as are still free gets no more, so a single account gets half
        /// of them. Each uses up to 16 MiB of memory.
        tpc_copies_max: u32 = "16" { range: Range::Between("1", "10000"), unit: "copies" };
        /// Lowest average rate of the source of a third-party copy, in bytes per second, over
        /// `tpc_rate_time`. A copy from a slower source fails. 0B: no lower limit.
        tpc_rate_min: ByteSize = "64KiB" { range: Range::Between("0B", "1GiB") };
        /// Time over which the average rate of the source is measured. It is measured again and
        /// again during a copy.
        tpc_rate_time: Duration = "5m" { range: Range::Between("1s", "1h") };
        /// Servers with the same files to which clients are redirected for reading: `host:port`, or
        /// `host:port=network` for one that clients of a network prefer. Each is checked once a
        /// second. Empty: none.
        redirect_to: Vec<String> = "" {
            range: Range::Rule("HOST[:PORT] or HOST[:PORT]=NETWORK", is_elsewhere),
        };
        /// Servers to which clients are redirected for writing and for changes of names. Empty:
        /// none.
        redirect_writes_to: Vec<String> = "" {
            range: Range::Rule("HOST[:PORT] or HOST[:PORT]=NETWORK", is_elsewhere),
        };
        /// When clients are redirected. `stopping`: when they open a file while this server stops.
        /// `balanced`: also when they open a file while another server has clearly fewer sessions
        /// or is nearer. `always`: for everything. With `always` this server is a redirector: it
        /// serves no files and authenticates nobody.
        redirect: String = "stopping" {
            range: Range::Rule("stopping, balanced or always", is_when),
        };
        /// Most open connections. Further ones are closed. An account gets at most as many as are
        /// free for others. All listeners together get at most half of the files that the kernel lets
        /// the process open.
        connections_max: u32 = "4096" {
            range: Range::Between("1", "1000000"), unit: "connections",
        };
        /// Most open files of one connection.
        files_max: u32 = "4096" { range: Range::Between("1", "1000000"), unit: "files" };
        /// Most files that an account may write at the same time, over all its connections. Opening
        /// another one waits until one is closed. Uploads with a broken connection count until they
        /// are given up.
        writers_max: u32 = "256" { range: Range::Between("1", "1000000"), unit: "files" };
        /// Time after which a connection without a request is closed.
        idle_timeout: Duration = "1h" { range: Range::Between("1s", "30d") };
        /// Time after which a connection is closed if the client sends nothing of a request that it
        /// began, or reads nothing of an answer.
        stall_timeout: Duration = "1m" { range: Range::Between("1s", "1h") };
        /// Time that an upload with a broken connection waits for its client to continue. Clients
        /// of the reference implementation do so by themselves. With 0s the upload is given up at
        /// once.
        resume_time: Duration = "5m" { range: Range::Between("0s", "1h") };
        /// Limit on buffers for received data, and the same limit again for data to be sent, over
        /// all connections. Beyond it, each connection continues with small amounts. Data that open
        /// files keep in memory until they are closed has the same limit once more; beyond it,
        /// opening another file waits. An account that already has as much of that memory as is
        /// still free gets no more, so a single account gets half.
        buffers: ByteSize = "256MiB" { range: Range::Between("16MiB", "64GiB") };
    }

    /// Third-party copies: this server fetches a file from another server, or sends one to it, when a
    /// client asks for it. The queue and the records are also for copies over `root://`.
    [transfer] Transfer {
        /// Most copies that run at the same time. Further ones wait. A user alone gets half of them, and
        /// a collaboration alone three quarters, so that others find a place at once.
        active_max: u32 = "200" {
            range: Range::Between("1", "100000"), unit: "copies", reload: Reload::Live,
        };
        /// Most copies that wait at the same time. A user may have as many as are free for others.
        /// Further ones fail at once, and FTS tries them again.
        waiting_max: u32 = "4000" {
            range: Range::Between("1", "1000000"), unit: "copies", reload: Reload::Live,
        };
        /// Longest wait of a copy. After it the copy fails, and FTS tries it again.
        wait_max: Duration = "5m" { range: Range::Between("1s", "1h"), reload: Reload::Live };
        /// Time until the other server sends the first byte of an answer.
        first_byte_time: Duration = "2m" { range: Range::Between("1s", "1h") };
        /// Time without a byte of progress after which an attempt fails.
        stall_time: Duration = "1m" { range: Range::Between("1s", "1h") };
        /// Lowest average rate of the other server in bytes per second, over `rate_time`. A slower copy
        /// fails. 0B: no lower limit.
        rate_min: ByteSize = "64KiB" { range: Range::Between("0B", "1GiB") };
        /// Time over which the average rate is measured, again and again during a copy.
        rate_time: Duration = "5m" { range: Range::Between("1s", "1h") };
        /// Further attempts of a copy after the first failed for a passing reason. An attempt goes on
        /// where the last one ended if the source shows that its file is the same.
        retries: u32 = "3" { range: Range::Between("0", "20"), unit: "attempts" };
        /// Most connections of one copy from another server.
        streams_max: u32 = "4" { range: Range::Between("1", "64"), unit: "connections" };
        /// Hosts to which copies may connect beside those of the public network: hosts, `*.domain`,
        /// addresses, networks as `10.0.0.0/8`, or `*`. With `:port` an entry allows that port only,
        /// otherwise all from 1024 on. `*` and `*.domain` include only addresses of the public network.
        /// List others by their address, their network or the full name of the host. Addresses and
        /// ports on which this server listens are never allowed.
        allow: Vec<String> = "" {
            range: Range::Rule("a host, a network, *.domain or *, with or without a port", is_tpc_source),
        };
        /// Whether copies may connect to hosts of the public network that `allow` does not name.
        public: bool = "true";
        /// Ports of hosts of the public network that copies may connect to.
        ports: Vec<String> = "443, 1094, 2880, 8443" {
            range: Range::Rule("a port from 1 to 65535", is_port),
        };
        /// Hosts that get the headers of the client for the other server, such as its token, also after
        /// a redirect from another host: hosts, or `*.domain`.
        redirect_trust: Vec<String> = "" {
            range: Range::Rule("a host or *.domain", is_trusted_host),
        };
        /// Collectors of SciTags fireflies, beside the other server.
        scitag_collectors: Vec<SocketAddr> = "";
        /// Folder with a record of each copy that ended, one JSON object per line, mode 0700. Empty:
        /// `transfers` in the state_dir.
        record_folder: Option<PathBuf> = "";
        /// Size at which the server begins a new file of records.
        record_file_size: ByteSize = "64MiB" { range: Range::Between("64KiB", "16GiB") };
        /// Most files of records. The oldest are removed. 0 keeps all.
        record_files_max: u32 = "64" { unit: "files" };
    }

    /// Prometheus metrics at `/metrics`, liveness at `/live` and readiness at `/ready`.
    [metrics] Metrics {
        /// Addresses to listen on. There is no login: use a loopback address, or a proxy that asks
        /// for a login. Empty: off.
        listen: Vec<SocketAddr> = "127.0.0.1:9001";
    }

    /// Settings for tests of Dewar itself. They shorten waiting times or reduce file sizes that
    /// protect a real deployment. A server that starts with any of them logs a warning.
    [testing] Testing {
        /// Size of a journal file, a multiple of 4 KiB. A new disk of the journal gets two files of
        /// this size, filled with zeros. The largest record must fit into one.
        journal_file_size: ByteSize = "32MiB" { range: Range::Pages("2MiB", "1GiB") };
        /// Shortest time that a replaced master key is kept, for writes that were in progress with
        /// it.
        key_settle_time: Duration = "1m" { range: Range::Between("1s", "1m") };
        /// Shortest time between two fetches of an issuer's keys that are caused by tokens with
        /// unknown keys.
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

    /// The folder with the records of third-party copies: as configured, else `transfers` in the state
    /// folder.
    #[must_use]
    pub fn transfer_record_folder(&self) -> PathBuf {
        self.beside_state(self.transfer.record_folder.as_deref(), "transfers")
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
