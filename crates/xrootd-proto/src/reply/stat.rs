//! The `stat` reply: words of one line.

use core::fmt;

use crate::DecodeError;

/// The first two lines of a `dirlist` with `stat` replies. Clients of both generations crash when
/// such a reply begins with anything else.
pub const DIRLIST_STAT_HEAD: &str = ".\n0 0 0 0\n";

/// The kind of an entry and the permitted operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFlags(pub u32);

impl StatFlags {
    /// Executable, or a directory that can be searched.
    pub const XSET: Self = Self(1);
    /// A directory.
    pub const DIRECTORY: Self = Self(2);
    /// Neither file nor directory.
    pub const OTHER: Self = Self(4);
    /// Not on disk.
    pub const OFFLINE: Self = Self(8);
    /// May be read.
    pub const READABLE: Self = Self(16);
    /// May be written.
    pub const WRITABLE: Self = Self(32);
    /// Appears when it is closed.
    pub const POSC_PENDING: Self = Self(64);
    /// A copy is elsewhere too.
    pub const BACKUP_EXISTS: Self = Self(128);

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The `stat` reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatText {
    /// Id of the entry.
    pub id: u64,
    /// Bytes.
    pub size: u64,
    /// Kind and permissions.
    pub flags: StatFlags,
    /// When its content changed, in seconds since the epoch.
    pub mtime: i64,
    /// Fields that later servers add.
    pub more: Option<StatExtension>,
}

/// The fields that later servers add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatExtension {
    /// When anything of it changed.
    pub ctime: i64,
    /// When it was read.
    pub atime: i64,
    /// Permission bits.
    pub mode: u32,
    /// Owner, without spaces.
    pub owner: String,
    /// Group, without spaces.
    pub group: String,
}

impl fmt::Display for StatText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            size,
            flags,
            mtime,
            ..
        } = self;
        write!(f, "{id} {size} {} {mtime}", flags.0)?;
        if let Some(more) = &self.more {
            // Clients take a mode of less than four characters for none.
            let word = |text: &str| match text {
                "" => "*".to_owned(),
                text => text.replace(char::is_whitespace, "_"),
            };
            write!(
                f,
                " {} {} {:04o} {} {}",
                more.ctime,
                more.atime,
                more.mode,
                word(&more.owner),
                word(&more.group)
            )?;
        }
        Ok(())
    }
}

impl StatText {
    /// Parses a line; unknown further words are ignored.
    ///
    /// # Errors
    /// Fewer than four numbers.
    pub fn parse(line: &str) -> Result<Self, DecodeError> {
        let bad = DecodeError::Invalid("what stat says");
        let mut words = line.trim_end_matches('\0').split_ascii_whitespace();
        let mut number = || words.next().and_then(|word| word.parse::<i64>().ok());
        let (Some(id), Some(size), Some(flags), Some(mtime)) =
            (number(), number(), number(), number())
        else {
            return Err(bad);
        };
        let (Ok(size), Ok(flags)) = (u64::try_from(size), u32::try_from(flags)) else {
            return Err(bad);
        };
        let mut text = Self {
            id: id as u64,
            size,
            flags: StatFlags(flags),
            mtime,
            more: None,
        };
        if let (Some(ctime), Some(atime), Some(mode), Some(owner), Some(group)) = (
            words.next(),
            words.next(),
            words.next(),
            words.next(),
            words.next(),
        ) && let (Ok(ctime), Ok(atime), Ok(mode)) =
            (ctime.parse(), atime.parse(), u32::from_str_radix(mode, 8))
        {
            text.more = Some(StatExtension {
                ctime,
                atime,
                mode,
                owner: owner.to_owned(),
                group: group.to_owned(),
            });
        }
        Ok(text)
    }
}
