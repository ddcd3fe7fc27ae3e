//! The file that describes a backup: text that an administrator can read, with a checksum at its
//! end. Format: `docs/formats/backup.md`.

use std::fmt::Write as _;

use dewar_checksum::crc32c;
use dewar_disks::pool::DewarId;
use dewar_kv::index::sorted_runs::RunFile;
use dewar_types::{DiskId, Timestamp};

/// The folder of other files.
pub(super) const FILES: &str = "files";

const FIRST_LINE: &str = "Dewar catalog backup, format 1";
const FOLDER_LINE: &str = "Dewar backups, format 1";

/// Longest file. A file with more runs is not a backup file.
const BYTES_MAX: usize = 8 << 20;

/// A file that goes with a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackupExtra {
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) crc: u32,
}

impl BackupExtra {
    pub(super) fn path(&self) -> String {
        format!("{FILES}/{:08x}-{}", self.crc, self.name)
    }
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackupFile {
    pub(super) dewar: DewarId,
    pub(super) pool: u16,
    /// Everything that was acknowledged before is in it.
    pub(super) since: Timestamp,
    /// The last batch in it.
    pub(super) upto: u64,
    pub(super) layout: String,
    /// Id of the key that secrets in it are wrapped with.
    pub(super) master_key: String,
    /// The disks that were there.
    pub(super) disks: Vec<DiskId>,
    /// Newest first.
    pub(super) runs: Vec<RunFile>,
    pub(super) files: Vec<BackupExtra>,
}

impl BackupFile {
    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\ndewar = {}\npool = {}\nsince = {}\nupto = {}\nlayout = {}\nmaster_key = {}\n",
            self.dewar, self.pool, self.since.0, self.upto, self.layout, self.master_key
        );
        // Writing into a string cannot fail.
        for disk in &self.disks {
            let _ = writeln!(text, "disk = {disk}");
        }
        for run in &self.runs {
            let _ = writeln!(
                text,
                "run = {:016x} {} {} {} {:08x} {}",
                run.id, run.len, run.entries, run.deletions, run.crc, run.level
            );
        }
        for file in &self.files {
            let _ = writeln!(text, "file = {} {} {:08x}", file.name, file.len, file.crc);
        }
        sealed(text)
    }

    /// Parses the content of a file, or returns its error.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let body = opened(bytes, FIRST_LINE)?;
        let mut file = Self {
            dewar: DewarId(0),
            pool: 0,
            since: Timestamp(0),
            upto: 0,
            layout: String::new(),
            master_key: String::new(),
            disks: Vec::new(),
            runs: Vec::new(),
            files: Vec::new(),
        };
        let mut named = 0;
        for line in body.lines().skip(1) {
            let bad = || format!("its line {line:?} makes no sense");
            let (name, value) = line.split_once(" = ").ok_or_else(bad)?;
            match name {
                "dewar" => file.dewar = DewarId(hex(value).ok_or_else(bad)?),
                "pool" => file.pool = value.parse().map_err(|_| bad())?,
                "since" => file.since = Timestamp(value.parse().map_err(|_| bad())?),
                "upto" => file.upto = value.parse().map_err(|_| bad())?,
                "layout" => value.clone_into(&mut file.layout),
                "master_key" => value.clone_into(&mut file.master_key),
                "disk" => file.disks.push(value.parse().map_err(|_| bad())?),
                "run" => file.runs.push(run(value).ok_or_else(bad)?),
                "file" => file.files.push(extra(value).ok_or_else(bad)?),
                _ => return Err(bad()),
            }
            named += usize::from(matches!(
                name,
                "dewar" | "pool" | "since" | "upto" | "layout" | "master_key"
            ));
        }
        if named != 6 {
            return Err("a line is missing, or stands in it twice".to_owned());
        }
        Ok(file)
    }
}

fn run(value: &str) -> Option<RunFile> {
    let mut words = value.split(' ');
    let run = RunFile {
        id: u64::from_str_radix(words.next()?, 16).ok()?,
        len: words.next()?.parse().ok()?,
        entries: words.next()?.parse().ok()?,
        deletions: words.next()?.parse().ok()?,
        crc: u32::from_str_radix(words.next()?, 16).ok()?,
        level: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(run)
}

fn extra(value: &str) -> Option<BackupExtra> {
    let mut words = value.split(' ');
    let file = BackupExtra {
        name: words.next()?.to_owned(),
        len: words.next()?.parse().ok()?,
        crc: u32::from_str_radix(words.next()?, 16).ok()?,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let good = !file.name.is_empty() && file.name.chars().all(plain);
    (good && words.next().is_none()).then_some(file)
}

fn hex(text: &str) -> Option<u128> {
    u128::from_str_radix(text, 16).ok()
}

fn sealed(body: String) -> String {
    let sum = crc32c(body.as_bytes());
    format!("{body}crc32c = {sum:08x}\n")
}

fn opened<'a>(bytes: &'a [u8], first: &str) -> Result<&'a str, String> {
    let text = core::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
    if text.len() > BYTES_MAX || text.lines().next() != Some(first) {
        return Err(format!("it does not begin with {first:?}"));
    }
    let end = text.trim_end_matches('\n').rfind('\n').map(|at| at + 1);
    let (body, last) = text.split_at(end.unwrap_or(0));
    if last != format!("crc32c = {:08x}\n", crc32c(body.as_bytes())) {
        return Err("its checksum does not fit: it was changed, cut or damaged".to_owned());
    }
    Ok(body)
}

/// The file that says whose backups a folder holds.
pub(super) fn folder_text(dewar: DewarId) -> String {
    sealed(format!("{FOLDER_LINE}\ndewar = {dewar}\n"))
}

/// Reads it.
pub(super) fn read_folder_text(bytes: &[u8]) -> Option<DewarId> {
    let body = opened(bytes, FOLDER_LINE).ok()?;
    let line = body
        .lines()
        .find_map(|line| line.strip_prefix("dewar = "))?;
    hex(line).map(DewarId)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Nothing panics, and what parses prints as it was.
        #[test]
        fn any_lines_are_refused_or_come_back(
            lines in proptest::collection::vec("(dewar|pool|since|upto|layout|master_key|disk|run|file|x) = [0-9a-f. /-]{0,40}", 0..12)
        ) {
            let body = format!("{FIRST_LINE}\n{}\n", lines.join("\n"));
            if let Ok(file) = BackupFile::parse(sealed(body).as_bytes()) {
                prop_assert_eq!(BackupFile::parse(file.to_text().as_bytes()), Ok(file));
            }
        }
    }

    #[test]
    fn reads_what_it_writes_and_notices_every_changed_byte() {
        let file = BackupFile {
            dewar: DewarId(7),
            pool: 1,
            since: Timestamp(9),
            upto: 11,
            layout: "4+2".to_owned(),
            master_key: "abc".to_owned(),
            disks: vec![DiskId(1), DiskId(2)],
            runs: vec![RunFile {
                id: 3,
                len: 100,
                entries: 5,
                deletions: 1,
                crc: 0xdead_beef,
                level: 2,
            }],
            files: vec![BackupExtra {
                name: "dewar.toml".to_owned(),
                len: 12,
                crc: 13,
            }],
        };
        let text = file.to_text();
        assert_eq!(BackupFile::parse(text.as_bytes()), Ok(file), "{text}");
        for at in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            assert!(BackupFile::parse(&bad).is_err(), "byte {at}");
        }
        for cut in 0..text.len() {
            assert!(
                BackupFile::parse(&text.as_bytes()[..cut]).is_err(),
                "cut at {cut}"
            );
        }
        for bad in [
            "file = ../a 1 00000001",
            "file = a/b 1 00000001",
            "run = 1 2",
        ] {
            let body = format!(
                "{FIRST_LINE}\ndewar = 1\npool = 0\nsince = 1\nupto = 1\nlayout = x\nmaster_key = k\n{bad}\n"
            );
            assert!(BackupFile::parse(sealed(body).as_bytes()).is_err(), "{bad}");
        }
        let dewar = DewarId(0xabc);
        assert_eq!(read_folder_text(folder_text(dewar).as_bytes()), Some(dewar));
    }
}
