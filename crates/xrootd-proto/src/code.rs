//! The numbers of requests, replies and errors, with their names in the specification.

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident: $repr:ty { $($(#[$item:meta])* $variant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the specification's names")]
        #[repr($repr)]
        pub enum $name { $($(#[$item])* $variant = $value),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Of a number on the wire.
            #[must_use]
            pub const fn from_number(number: $repr) -> Option<Self> {
                match number { $($value => Some(Self::$variant),)* _ => None }
            }

            /// As it goes over the wire.
            #[must_use]
            pub const fn number(self) -> $repr {
                self as $repr
            }

            /// As the specification names it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

numbers! {
    /// A request.
    RequestCode: u16 {
        Auth = 3000, "auth";
        Query = 3001, "query";
        Chmod = 3002, "chmod";
        Close = 3003, "close";
        Dirlist = 3004, "dirlist";
        Gpfile = 3005, "gpfile";
        Protocol = 3006, "protocol";
        Login = 3007, "login";
        Mkdir = 3008, "mkdir";
        Mv = 3009, "mv";
        Open = 3010, "open";
        Ping = 3011, "ping";
        Chkpoint = 3012, "chkpoint";
        Read = 3013, "read";
        Rm = 3014, "rm";
        Rmdir = 3015, "rmdir";
        Sync = 3016, "sync";
        Stat = 3017, "stat";
        Set = 3018, "set";
        Write = 3019, "write";
        Fattr = 3020, "fattr";
        Prepare = 3021, "prepare";
        Statx = 3022, "statx";
        Endsess = 3023, "endsess";
        Bind = 3024, "bind";
        Readv = 3025, "readv";
        Pgwrite = 3026, "pgwrite";
        Locate = 3027, "locate";
        Truncate = 3028, "truncate";
        Sigver = 3029, "sigver";
        Pgread = 3030, "pgread";
        Writev = 3031, "writev";
        Clone = 3032, "clone";
    }
}

numbers! {
    /// How a reply begins.
    Status: u16 {
        Ok = 0, "ok";
        OkSoFar = 4000, "oksofar";
        Attn = 4001, "attn";
        AuthMore = 4002, "authmore";
        Error = 4003, "error";
        Redirect = 4004, "redirect";
        Wait = 4005, "wait";
        WaitResp = 4006, "waitresp";
        Status = 4007, "status";
    }
}

numbers! {
    /// The subject of an unsolicited message; other numbers are obsolete.
    AttnAction: u32 {
        Message = 5002, "asyncms";
        Response = 5008, "asynresp";
    }
}

numbers! {
    /// Why a request failed.
    ErrorCode: u32 {
        ArgInvalid = 3000, "ArgInvalid";
        ArgMissing = 3001, "ArgMissing";
        ArgTooLong = 3002, "ArgTooLong";
        FileLocked = 3003, "FileLocked";
        FileNotOpen = 3004, "FileNotOpen";
        FsError = 3005, "FSError";
        InvalidRequest = 3006, "InvalidRequest";
        IoError = 3007, "IOError";
        NoMemory = 3008, "NoMemory";
        NoSpace = 3009, "NoSpace";
        NotAuthorized = 3010, "NotAuthorized";
        NotFound = 3011, "NotFound";
        ServerError = 3012, "ServerError";
        Unsupported = 3013, "Unsupported";
        NoServer = 3014, "noserver";
        NotFile = 3015, "NotFile";
        IsDirectory = 3016, "isDirectory";
        Cancelled = 3017, "Cancelled";
        ItExists = 3018, "ItExists";
        ChkSumErr = 3019, "ChkSumErr";
        InProgress = 3020, "inProgress";
        OverQuota = 3021, "overQuota";
        SigVerErr = 3022, "SigVerErr";
        DecryptErr = 3023, "DecryptErr";
        Overloaded = 3024, "Overloaded";
        FsReadOnly = 3025, "fsReadOnly";
        BadPayload = 3026, "BadPayload";
        AttrNotFound = 3027, "AttrNotFound";
        TlsRequired = 3028, "TLSRequired";
        NoReplicas = 3029, "noReplicas";
        AuthFailed = 3030, "AuthFailed";
        Impossible = 3031, "Impossible";
        Conflict = 3032, "Conflict";
        TooManyErrs = 3033, "TooManyErrs";
        ReqTimedOut = 3034, "ReqTimedOut";
        TimerExpired = 3035, "TimerExpired";
    }
}

numbers! {
    /// The subject of a `query`.
    QueryKind: u16 {
        Stats = 1, "stats";
        Prepare = 2, "prepare";
        Checksum = 3, "checksum";
        Xattr = 4, "xattr";
        Space = 5, "space";
        ChecksumScan = 6, "ckscan";
        Config = 7, "config";
        Visa = 8, "visa";
        FileInfo = 9, "finfo";
        FsInfo = 10, "fsinfo";
        Opaque = 16, "opaque";
        OpaqueFile = 32, "opaquefile";
        OpaqueHandle = 64, "opaquehandle";
    }
}
