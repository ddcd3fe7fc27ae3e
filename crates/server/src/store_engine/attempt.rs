//! An attempt to rebuild or restore the catalog: what it found, and what is remembered of it until it
//! has ended.
//!
//! Whoever was interrupted types the same command again and wants to hear of all that came of it. What
//! the first attempt found lost, or saw of a catalog that is another by now, no later one can find. So
//! before anything is changed `catalog-work.json` in the state folder says what was there, every finding is in
//! the report as soon as it is made, and both stay until the command has ended. A report that is whole
//! is kept when the next one begins.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use dewar_env::Clock;
use dewar_store::engine::{Made, Told};
use dewar_store::salvage::Finding;
use dewar_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::catalog::{rebuilt_info, restored_info};
use crate::admin::{BlobsInfo, CatalogInfo};
use crate::config::Config;
use crate::listener::BoxError;
use crate::ready::replace_private_file;

/// What is under way, in the state folder.
const WORK_FILE: &str = "catalog-work.json";

/// The report, in the state folder, unless another file is named.
const REPORT: &str = "catalog-report";

/// Which command it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Command {
    Rebuild,
    Restore { source: PathBuf },
}

/// The content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Work {
    command: Command,
    report: PathBuf,
    /// What was there when it began; at the end, what came of it.
    info: CatalogInfo,
    /// Only settling it was left.
    ended: bool,
}

/// See the module.
pub(super) struct Attempt {
    state: PathBuf,
    command: Command,
    dry_run: bool,
    wanted: Option<PathBuf>,
    now: String,
    work: Option<Work>,
    report: Option<Report>,
    /// What came of an attempt that ended without being told of.
    untold: Option<CatalogInfo>,
    failed: Option<std::io::Error>,
}

struct Report {
    path: PathBuf,
    file: File,
    /// What attempts before this one did, which no later one finds again.
    earlier: BlobsInfo,
}

impl Attempt {
    /// Looks what is remembered of an attempt that did not end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn open(
        config: &Config,
        clock: &dyn Clock,
        command: Command,
        dry_run: bool,
        report: Option<PathBuf>,
    ) -> std::result::Result<Self, BoxError> {
        let state = config.server.state_dir.clone();
        let path = state.join(WORK_FILE);
        let work = match std::fs::read(&path) {
            // One that cannot be understood counts as none: what is under way the catalog says, too.
            Ok(bytes) => serde_json::from_slice::<Work>(&bytes).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
        };
        let goes_on = |work: &Work| work.command == command || command == Command::Rebuild;
        Ok(Self {
            work: work.filter(|work| !dry_run && goes_on(work)),
            state,
            command,
            dry_run,
            wanted: report,
            now: super::admin::rfc3339(clock.now()),
            report: None,
            untold: None,
            failed: None,
        })
    }

    /// Whether the same was begun before and is not known to have ended.
    pub(super) fn is_again(&self) -> bool {
        self.work.is_some()
    }

    /// What came of an attempt that had ended but for telling it, if there is one.
    pub(super) fn untold(&mut self) -> Option<CatalogInfo> {
        let work = self.work.as_ref().filter(|work| work.ended)?;
        Some(CatalogInfo {
            gone_on: true,
            ..work.info.clone()
        })
    }

    /// What came of it in all, `now` being what came of this attempt, which went on with an earlier one
    /// or not.
    ///
    /// # Errors
    /// The report is not whole.
    pub(super) fn close(
        mut self,
        now: CatalogInfo,
        gone_on: bool,
    ) -> std::result::Result<CatalogInfo, BoxError> {
        let mut info = now;
        match self.untold.take() {
            Some(untold) => info = untold,
            None => self.complete(&mut info, gone_on)?,
        }
        if !self.dry_run {
            let path = self.state.join(WORK_FILE);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("cannot remove {}: {error}", path.display()).into());
                }
                _ => {}
            }
        }
        if let Some(error) = self.failed.take() {
            // The work is done: that the report is not whole must be said, and undoes nothing.
            let path = info.report.unwrap_or_default();
            return Err(format!(
                "all was done, but the report {} is not whole: {error}",
                path.display()
            )
            .into());
        }
        Ok(info)
    }

    /// Adds what earlier attempts say.
    fn complete(&mut self, info: &mut CatalogInfo, gone_on: bool) -> Result<()> {
        if let Some(work) = self.work.as_ref().filter(|_| gone_on) {
            let first = work.info.clone();
            *info = CatalogInfo {
                blobs: info.blobs.take(),
                settled: info.settled,
                mended: info.mended.max(first.mended),
                entries: info.entries,
                ..first
            };
        }
        info.gone_on = gone_on;
        let report = self.report_file()?;
        info.report = Some(report.path.clone());
        if let Some(blobs) = &mut info.blobs {
            blobs.add_done(&report.earlier);
        }
        Ok(())
    }

    /// The report, opened when it is first needed: after [`Told::begins`] it is a new one.
    fn report_file(&mut self) -> Result<&mut Report> {
        if self.report.is_none() {
            let made_of = self.work.as_ref().map(|work| work.info.made_of.clone());
            let known = self.work.as_ref().map(|work| work.report.clone());
            self.report = Some(match (known, made_of) {
                (Some(path), Some(made_of)) => Report::go_on(path, &made_of)?,
                _ => Report::begin(
                    self.path(),
                    &self.now,
                    self.wanted.is_some() || self.dry_run,
                )?,
            });
        }
        // It was opened above.
        self.report
            .as_mut()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "the report is not open"))
    }

    fn path(&self) -> PathBuf {
        match (&self.wanted, self.dry_run) {
            (Some(path), _) => path.clone(),
            (None, true) => self.state.join(format!("{REPORT}-dry-run.jsonl")),
            (None, false) => self.state.join(format!("{REPORT}.jsonl")),
        }
    }

    fn remember(&mut self, work: Work) -> Result<()> {
        let path = self.state.join(WORK_FILE);
        let text = serde_json::to_vec_pretty(&work)
            .map_err(|error| Error::with_source(ErrorKind::Internal, "the attempt", error))?;
        replace_private_file(&path, &text).map_err(|error| {
            Error::with_source(ErrorKind::Unavailable, error.to_string(), error)
        })?;
        self.work = Some(work);
        Ok(())
    }

    fn info(&self, made: Made<'_>) -> CatalogInfo {
        match made {
            Made::Rebuild(report) => rebuilt_info(report, self.dry_run),
            Made::Restore(report) => restored_info(report, self.dry_run),
        }
    }
}

impl Told for Attempt {
    fn found(&mut self, finding: &Finding) {
        if self.failed.is_some() {
            return;
        }
        let mut text = line(finding).to_string();
        text.push('\n');
        let written = match self.report_file() {
            // Not gathered: what a killed attempt found must be there.
            Ok(report) => report.file.write_all(text.as_bytes()),
            Err(error) => Err(std::io::Error::other(error)),
        };
        self.failed = written.err();
    }

    fn begins(&mut self, made: Made<'_>) -> Result<()> {
        let info = self.info(made);
        if info.made_of == "exact"
            && let Some(untold) = self.untold()
        {
            self.untold = Some(untold);
            return Ok(());
        }
        self.work = None;
        self.report = None;
        let report = self.report_file()?.path.clone();
        self.remember(Work {
            command: self.command.clone(),
            report,
            info,
            ended: false,
        })
    }

    fn ends(&mut self, made: Made<'_>) -> Result<()> {
        let gone_on = match made {
            Made::Rebuild(report) => report.diagnosis.rebuilt.is_some(),
            Made::Restore(report) => report.gone_on,
        };
        if self.untold.is_some() {
            return Ok(());
        }
        let mut info = self.info(made);
        self.complete(&mut info, gone_on)?;
        self.remember(Work {
            command: self.command.clone(),
            report: info.report.clone().unwrap_or_default(),
            info,
            ended: true,
        })
    }
}

fn cannot(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let what = format!("cannot {doing} {}", path.display());
    move |error| Error::with_source(ErrorKind::Unavailable, format!("{what}: {error}"), error)
}

impl Report {
    /// A new one; what is under its name is kept under another, unless it is to be replaced.
    fn begin(path: PathBuf, now: &str, replace: bool) -> Result<Self> {
        if !replace && std::fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
            let stamp: String = now.chars().filter(char::is_ascii_alphanumeric).collect();
            let kept = path.with_file_name(format!("{REPORT}-before-{stamp}.jsonl"));
            std::fs::rename(&path, &kept).map_err(cannot("rename", &path))?;
        }
        // It names objects: nobody else's business.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(cannot("write", &path))?;
        Ok(Self {
            path,
            file,
            earlier: BlobsInfo::default(),
        })
    }

    /// That of an attempt that was cut short.
    fn go_on(path: PathBuf, made_of: &str) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(cannot("write", &path))?;
        let mut earlier = BlobsInfo::default();
        let mut before = Value::Null;
        for line in BufReader::new(&file).lines() {
            let line = line.map_err(cannot("read", &path))?;
            // The last one may be cut short.
            let Ok(found) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            count_done(&mut earlier, made_of, &before, &found);
            before = found;
        }
        Ok(Self {
            path,
            file,
            earlier,
        })
    }
}

/// Counts what is done once and for all.
fn count_done(done: &mut BlobsInfo, made_of: &str, before: &Value, found: &Value) {
    let size = |found: &Value| found["size"].as_u64().unwrap_or(0);
    match found["found"].as_str().unwrap_or_default() {
        "object" => {
            // What makes way for a newer one had been put back before.
            let replaces =
                made_of == "blobs" && before["found"] == "older" && before["path"] == found["path"];
            if replaces {
                done.objects = done.objects.saturating_sub(1);
                done.bytes = done.bytes.saturating_sub(size(before));
            }
            done.objects += 1;
            done.bytes += size(found);
        }
        "older" => {
            done.kept += 1;
            done.kept_bytes += size(found);
        }
        "part" => done.parts += 1,
        "joined" => {
            done.joined += 1;
            done.objects += 1;
            done.bytes += size(found);
        }
        "moved" => done.moved += 1,
        "user" => done.users += 1,
        "bucket" => done.buckets += 1,
        // What is lost or open is found again.
        _ => {}
    }
}

fn line(finding: &Finding) -> serde_json::Value {
    let hex = |id: u128| format!("{id:032x}");
    match finding {
        Finding::Put {
            path,
            version,
            size,
        } => json!({"found": "object", "path": path, "version": hex(version.0), "size": size}),
        Finding::Kept {
            path,
            version,
            size,
            now,
        } => json!({"found": "older", "path": path, "version": hex(version.0), "size": size,
                "now": now}),
        Finding::Part {
            path,
            upload,
            number,
            size,
        } => json!({"found": "part", "path": path, "upload": hex(upload.0), "number": number,
                "size": size}),
        Finding::Joined {
            path,
            upload,
            parts,
            size,
        } => json!({"found": "joined", "path": path, "upload": hex(upload.0), "parts": parts,
                "size": size}),
        Finding::Open { path, upload, why } => {
            json!({"found": "open upload", "path": path, "upload": hex(upload.0), "why": why})
        }
        Finding::Known { path, version } => {
            json!({"found": "known", "path": path, "version": hex(version.0)})
        }
        Finding::Lacking { blob, path, why } => {
            json!({"found": "too few shards", "blob": blob.to_string(), "path": path, "why": why})
        }
        Finding::Nameless { blob, why } => {
            json!({"found": "nameless", "blob": blob.to_string(), "why": why})
        }
        Finding::Unreadable { blob, offset, len } => {
            json!({"found": "unreadable", "blob": blob.to_string(), "offset": offset, "len": len})
        }
        Finding::Mended { blob } => json!({"found": "moved", "blob": blob.to_string()}),
        Finding::Gone {
            blob,
            shards,
            readable,
        } => json!({"found": "gone", "blob": blob.to_string(), "shards": shards,
                "readable": readable}),
        Finding::Unread { why } => json!({"found": "not looked at", "why": why}),
        Finding::User { name } => json!({"found": "user", "name": name}),
        Finding::Bucket { path } => json!({"found": "bucket", "path": path}),
    }
}
