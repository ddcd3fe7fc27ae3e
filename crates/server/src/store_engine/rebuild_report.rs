//! An attempt to rebuild or restore the catalog: its findings, and the record of them for a
//! repetition.
//!
//! After an interruption, the administrator types the same command again and expects a report of
//! everything. A later attempt cannot find again the losses that the first one found, because the
//! catalog has changed. So `catalog-work.json` in the state folder records the situation before
//! anything is changed, and every finding is in the report before the change that it describes.
//! Both files stay when the command has ended, because it may have been killed before anybody read
//! its output. A server that starts removes `catalog-work.json`, because it changes the catalog. A
//! complete report is kept when the next attempt begins.
//!
//! An attempt that continues another one counts the findings in the report and its own. If the
//! earlier attempt was killed before a change was done, the change is done again, but reported only
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dewar_admin::catalog::{BlobsInfo, CatalogInfo};
use dewar_admin::rfc3339;
use dewar_auth::MasterKeys;
use dewar_engine::host::private_file::replace_private_file;
use dewar_engine::salvage::{Finding, FindingReporter};
use dewar_engine::{ProgressReporter, RebuildOutcome};
use dewar_env::{Clock, WorkProgress};
use dewar_types::{BlobId, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::catalog::{add_kept, rebuilt_info, restored_info};
use crate::config::Config;
use crate::listener::BoxError;

/// The file in the state folder about the current attempt.
const WORK_FILE: &str = "catalog-work.json";

/// The report, in the state folder, unless another file is named.
const REPORT: &str = "catalog-report";

/// The command of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RebuildCommand {
    Rebuild,
    Restore { source: PathBuf },
}

/// The content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct BackgroundWork {
    command: RebuildCommand,
    report: PathBuf,
    /// The state of the catalog when the attempt began; at the end, the result.
    info: CatalogInfo,
    /// Only settling it was left.
    ended: bool,
    /// When this was written, RFC 3339 in UTC.
    #[serde(default)]
    at: String,
}

/// The options of an attempt.
pub(super) struct RebuildOptions {
    /// Nothing is changed.
    pub(super) dry_run: bool,
    /// Whether objects that the catalog does not know are put back.
    pub(super) places: bool,
    /// The path of the report, if it is not in the state folder.
    pub(super) report: Option<PathBuf>,
    /// The keys that this server has.
    pub(super) master: Arc<MasterKeys>,
    /// Counts the blobs that were inspected, and those of which something is lost.
    pub(super) progress: Arc<WorkProgress>,
}

/// See the module.
pub(super) struct RebuildAttempt {
    state: PathBuf,
    command: RebuildCommand,
    asked: RebuildOptions,
    now: String,
    work: Option<BackgroundWork>,
    /// Whether the recorded attempt, which had ended, made the catalog.
    again: bool,
    /// Whether blobs were inspected that the catalog may lack.
    looked: bool,
    report: Option<Report>,
    failed: Option<std::io::Error>,
}

struct Report {
    path: PathBuf,
    file: File,
    /// The reports of earlier attempts; `None` for the first attempt.
    earlier: Option<EarlierAttempts>,
}

/// The reports of earlier attempts, and the work of all attempts.
#[derive(Default)]
struct EarlierAttempts {
    /// The source of the catalog.
    made_of: String,
    /// The final work of all attempts.
    done: BlobsInfo,
    /// Hashes of the lines about this work. If two lines have the same hash, the second is not
    /// reported, without other effects.
    lines: BTreeSet<u64>,
    /// The line before.
    before: Value,
    /// Lines about losses, by blob; without the blobs that this attempt has inspected.
    lost: BTreeMap<String, BTreeSet<String>>,
}

impl RebuildAttempt {
    /// Opens the record of an unfinished attempt.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn open(
        config: &Config,
        clock: &dyn Clock,
        command: RebuildCommand,
        asked: RebuildOptions,
    ) -> std::result::Result<Self, BoxError> {
        let state = config.server.state_dir.clone();
        let work = remembered(&state.join(WORK_FILE))?;
        let goes_on =
            |work: &BackgroundWork| work.command == command || command == RebuildCommand::Rebuild;
        Ok(Self {
            work: work.filter(|work| !asked.dry_run && goes_on(work)),
            state,
            command,
            asked,
            now: rfc3339(clock.now()),
            again: false,
            looked: false,
            report: None,
            failed: None,
        })
    }

    /// Whether the same was begun before and is not known to have ended.
    pub(super) fn is_again(&self) -> bool {
        self.work.as_ref().is_some_and(|work| !work.ended)
    }

    /// The result of the same command before, if it had completed everything.
    pub(super) fn done_before(&self) -> Option<CatalogInfo> {
        // One that was killed at its very end has lost nothing, if it had nothing to lose.
        let is_done = |work: &&BackgroundWork| work.ended || work.info.made_of == "exact";
        let work = self.work.as_ref().filter(is_done)?;
        Some(CatalogInfo {
            gone_on: true,
            ended_before: Some(work.at.clone()),
            report: Some(work.report.clone()),
            ..work.info.clone()
        })
    }

    /// The report of the last attempt, if there is one.
    pub(super) fn last_report(&self) -> Option<PathBuf> {
        let path = self.state.join(format!("{REPORT}.jsonl"));
        std::fs::metadata(&path)
            .is_ok_and(|found| found.len() > 0)
            .then_some(path)
    }

    /// The result of all attempts. `now` is the result of this attempt, which may have continued an
    /// earlier one.
    ///
    /// # Errors
    /// The report is incomplete.
    pub(super) fn close(
        mut self,
        now: CatalogInfo,
        gone_on: bool,
    ) -> std::result::Result<CatalogInfo, BoxError> {
        let mut info = now;
        self.complete(&mut info, gone_on || self.again)?;
        // Nothing can be lost that is not found again.
        let idle = self.command == RebuildCommand::Rebuild && info.made_of == "exact";
        if !self.asked.dry_run {
            match idle {
                true => forget(&self.state.join(WORK_FILE))?,
                false => {
                    let report = info.report.clone().unwrap_or_default();
                    self.remember(report, info.clone(), true)?;
                }
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
            // Of a catalog that is settled all the rest is a leftover.
            if let (true, false, Some(then)) = (work.ended, self.looked, &first.blobs)
                && let Some(now) = &mut info.blobs
            {
                now.too_few_shards = now.too_few_shards.max(then.too_few_shards);
            }
            let mut unknown = first.unknown.clone();
            unknown.retain(|line| !info.unknown.contains(line));
            unknown.append(&mut info.unknown);
            *info = CatalogInfo {
                blobs: info.blobs.take(),
                placed: info.placed,
                settled: info.settled,
                mended: info.mended.max(first.mended),
                entries: info.entries,
                unknown,
                ..first
            };
        }
        info.gone_on = gone_on;
        let places = self.places();
        let report = self.report_file()?;
        info.report = Some(report.path.clone());
        if let Some(blobs) = &mut info.blobs {
            report.add_earlier(blobs, places);
        }
        add_kept(info);
        Ok(())
    }

    /// The report, opened when it is first needed. After [`ProgressReporter::begins`] it is a new one.
    fn report_file(&mut self) -> Result<&mut Report> {
        if self.report.is_none() {
            let made_of = self.work.as_ref().map(|work| work.info.made_of.clone());
            let known = self.work.as_ref().map(|work| work.report.clone());
            self.report = Some(match (known, made_of) {
                (Some(path), Some(made_of)) => Report::go_on(path, &made_of, &self.now)?,
                _ => Report::begin(
                    self.path(),
                    &self.now,
                    self.asked.report.is_some() || self.asked.dry_run,
                )?,
            });
        }
        // It was opened above.
        self.report
            .as_mut()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "the report is not open"))
    }

    fn path(&self) -> PathBuf {
        match (&self.asked.report, self.asked.dry_run) {
            (Some(path), _) => path.clone(),
            (None, true) => self.state.join(format!("{REPORT}-dry-run.jsonl")),
            (None, false) => self.state.join(format!("{REPORT}.jsonl")),
        }
    }

    fn remember(&mut self, report: PathBuf, info: CatalogInfo, ended: bool) -> Result<()> {
        let work = BackgroundWork {
            command: self.command.clone(),
            report,
            info,
            ended,
            at: self.now.clone(),
        };
        let path = self.state.join(WORK_FILE);
        let text = serde_json::to_vec_pretty(&work)
            .map_err(|error| Error::with_source(ErrorKind::Internal, "the attempt", error))?;
        replace_private_file(&path, &text).map_err(|error| {
            Error::with_source(ErrorKind::Unavailable, error.to_string(), error)
        })?;
        self.work = Some(work);
        Ok(())
    }

    /// The result of one attempt, or the state at its beginning.
    pub(super) fn info(&self, made: RebuildOutcome<'_>) -> CatalogInfo {
        match made {
            RebuildOutcome::Rebuild(report) => rebuilt_info(report, self.asked.dry_run),
            RebuildOutcome::Restore(report) => restored_info(report, &self.asked),
        }
    }

    /// Whether anything is put back now.
    fn places(&self) -> bool {
        self.asked.places && !self.asked.dry_run
    }
}

impl FindingReporter for RebuildAttempt {
    fn found(&mut self, finding: &Finding) {
        if is_loss(finding) {
            self.asked.progress.add_error();
        }
        if self.failed.is_some() {
            return;
        }
        let mut found = line(finding);
        if !self.places() && is_placing(finding) {
            found["put_back"] = false.into();
        }
        let written = match self.report_file() {
            Ok(report) => report.write_line(found),
            Err(error) => Err(std::io::Error::other(error)),
        };
        self.failed = written.err();
    }

    fn looks_at(&mut self, blob: BlobId) {
        self.looked = true;
        self.asked.progress.add_done(1);
        if self.failed.is_some() || self.work.is_none() {
            return;
        }
        let written = match self.report_file() {
            Ok(report) => report.looks_at(blob),
            Err(error) => Err(std::io::Error::other(error)),
        };
        self.failed = written.err();
    }
}

impl ProgressReporter for RebuildAttempt {
    fn begins(&mut self, made: RebuildOutcome<'_>) -> Result<()> {
        let info = self.info(made);
        let done = self.work.as_ref().is_some_and(|work| work.ended);
        if info.made_of == "exact" && done {
            self.again = true;
            return Ok(());
        }
        // What it had put back may be there, although the catalog is damaged again.
        let goes_on =
            matches!(made, RebuildOutcome::Rebuild(report) if report.diagnosis.rebuilt.is_some());
        if !goes_on {
            self.work = None;
        }
        self.report = None;
        let report = self.report_file()?.path.clone();
        self.remember(report, info, false)
    }

    fn ends(&mut self, made: RebuildOutcome<'_>) -> Result<()> {
        let gone_on = match made {
            RebuildOutcome::Rebuild(report) => report.diagnosis.rebuilt.is_some(),
            RebuildOutcome::Restore(report) => report.gone_on,
        };
        let mut info = self.info(made);
        self.complete(&mut info, gone_on || self.again)?;
        let report = info.report.clone().unwrap_or_default();
        self.remember(report, info, true)
    }
}

/// The record of an attempt.
fn remembered(path: &Path) -> std::result::Result<Option<BackgroundWork>, BoxError> {
    match std::fs::read(path) {
        // What cannot be understood counts as none: what is under way the catalog says, too.
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display()).into()),
    }
}

fn forget(path: &Path) -> std::result::Result<(), BoxError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()).into())
        }
        _ => Ok(()),
    }
}

/// Removes the record of a finished attempt: later attempts start from its result. An unfinished
/// attempt is kept so that it can be continued, unless `all` is set.
///
/// # Errors
/// The file cannot be read or removed.
pub(super) fn forget_ended(config: &Config, all: bool) -> std::result::Result<(), BoxError> {
    let path = config.server.state_dir.join(WORK_FILE);
    match remembered(&path)? {
        Some(work) if work.ended || all => forget(&path),
        _ => Ok(()),
    }
}

fn cannot(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let what = format!("cannot {doing} {}", path.display());
    move |error| Error::with_source(ErrorKind::Unavailable, format!("{what}: {error}"), error)
}

impl Report {
    /// A new report. An existing file of this name is renamed, unless it is to be replaced.
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
            earlier: None,
        })
    }

    /// That of earlier attempts.
    fn go_on(path: PathBuf, made_of: &str, now: &str) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(cannot("write", &path))?;
        let mut earlier = EarlierAttempts {
            made_of: made_of.to_owned(),
            ..EarlierAttempts::default()
        };
        let (mut lines, mut line) = (BufReader::new(&file), Vec::new());
        let mut is_whole = true;
        while lines
            .read_until(b'\n', &mut line)
            .map_err(cannot("read", &path))?
            > 0
        {
            // The last one may be cut short.
            is_whole = line.last() == Some(&b'\n');
            if let Ok(found) = serde_json::from_slice::<Value>(&line) {
                earlier.take(found);
            }
            line.clear();
        }
        let mut text = json!({"found": "attempt", "began": now}).to_string();
        text.push('\n');
        if !is_whole {
            text.insert(0, '\n');
        }
        file.write_all(text.as_bytes())
            .map_err(cannot("write", &path))?;
        Ok(Self {
            path,
            file,
            earlier: Some(earlier),
        })
    }

    /// Writes a line, unless an earlier attempt wrote the same line about final work.
    fn write_line(&mut self, found: Value) -> std::io::Result<()> {
        let mut text = found.to_string();
        if self.earlier.as_mut().is_some_and(|e| !e.take(found)) {
            return Ok(());
        }
        text.push('\n');
        // Not gathered: what a killed attempt found must be there.
        self.file.write_all(text.as_bytes())
    }

    /// Drops the earlier lines about losses in a blob. The inspection finds the losses again if
    /// they still exist.
    fn looks_at(&mut self, blob: BlobId) -> std::io::Result<()> {
        let blob = blob.to_string();
        match &self.earlier {
            Some(earlier) if earlier.lost.contains_key(&blob) => {
                self.write_line(json!({"found": "looked at again", "blob": blob}))
            }
            _ => Ok(()),
        }
    }

    /// Adds the finished work and the losses of earlier attempts to the counts of this one.
    fn add_earlier(&self, blobs: &mut BlobsInfo, places: bool) {
        let Some(earlier) = &self.earlier else {
            return;
        };
        blobs.set_done(&earlier.done, places);
        // Those of this attempt are among the lines of their blob, and counted.
        let (mut nameless, mut unreadable) = (0, 0);
        for line in earlier.lost.values().flatten() {
            match line.contains(NAMELESS) {
                true => nameless += 1,
                false => unreadable += 1,
            }
        }
        blobs.nameless = blobs.nameless.max(nameless);
        blobs.unreadable = blobs.unreadable.max(unreadable);
    }
}

/// The start of a line about content without a known name.
const NAMELESS: &str = "\"found\":\"nameless\"";

impl EarlierAttempts {
    /// Counts a line; whether it says something new.
    fn take(&mut self, found: Value) -> bool {
        let blob = || found["blob"].as_str().unwrap_or_default().to_owned();
        match found["found"].as_str().unwrap_or_default() {
            "nameless" | "unreadable" => {
                let of_blob = self.lost.entry(blob()).or_default();
                return of_blob.insert(found.to_string());
            }
            "looked at again" => {
                self.lost.remove(&blob());
            }
            "object" | "older" | "part" | "joined" | "moved" | "user" | "bucket"
                if found["put_back"] != false =>
            {
                let hasher = BuildHasherDefault::<DefaultHasher>::default();
                if !self.lines.insert(hasher.hash_one(found.to_string())) {
                    return false;
                }
                count_done(&mut self.done, &self.made_of, &self.before, &found);
                self.before = found;
            }
            // What is lost or open otherwise is found again.
            _ => {}
        }
        true
    }
}

/// Counts final work.
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

/// Whether a finding is about an object that is put back, if that is requested.
fn is_loss(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::Lacking { .. }
            | Finding::Nameless { .. }
            | Finding::Unreadable { .. }
            | Finding::Gone {
                readable: false,
                ..
            }
            | Finding::Unread { .. }
    )
}

fn is_placing(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::Put { .. }
            | Finding::Kept { .. }
            | Finding::Part { .. }
            | Finding::User { .. }
            | Finding::Bucket { .. }
    )
}

fn line(finding: &Finding) -> Value {
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

#[cfg(test)]
mod tests {
    use dewar_types::{UserId, VersionId};

    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn put(n: u8) -> Value {
        line(&Finding::Put {
            path: format!("/b/{n}"),
            version: VersionId(u128::from(n)),
            size: 10,
        })
    }

    fn lost(blob: u64, offset: u64) -> Value {
        let blob = BlobId(blob);
        let len = 4096;
        line(&Finding::Unreadable { blob, offset, len })
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).expect("there");
        let lines = text.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    #[test]
    fn what_is_done_once_more_is_counted_and_told_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("report");
        let mut first = Report::begin(path.clone(), NOW, true).expect("begun");
        for n in 0..3 {
            first.write_line(put(n)).expect("written");
        }
        // Only looked at, by one that does not put back.
        let mut looked = put(7);
        looked["put_back"] = false.into();
        first.write_line(looked).expect("written");
        first
            .file
            .write_all(b"{\"found\": \"obj")
            .expect("cut short");
        drop(first);
        let mut second = Report::go_on(path.clone(), "backup", NOW).expect("goes on");
        for n in 2..5 {
            second.write_line(put(n)).expect("written");
        }
        drop(second);
        let mut third = Report::go_on(path.clone(), "backup", NOW).expect("goes on");
        third.write_line(put(7)).expect("written");
        let mut blobs = BlobsInfo {
            objects: 1,
            bytes: 10,
            open_uploads: 2,
            ..BlobsInfo::default()
        };
        third.add_earlier(&mut blobs, true);
        assert_eq!((blobs.objects, blobs.bytes, blobs.open_uploads), (6, 60, 2));
        let told = lines(&path);
        let objects = told.iter().filter(|line| line["put_back"] != false);
        let objects = objects.filter(|line| line["found"] == "object");
        assert_eq!(objects.count(), 6, "{told:?}");
        let attempts = told.iter().filter(|line| line["found"] == "attempt");
        assert_eq!(attempts.count(), 2);
    }

    #[test]
    fn what_is_lost_in_what_is_done_with_stays_told_and_what_is_looked_at_again_does_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("report");
        let mut first = Report::begin(path.clone(), NOW, true).expect("begun");
        for found in [lost(1, 0), lost(1, 4096), lost(2, 0), lost(3, 0)] {
            first.write_line(found).expect("written");
        }
        drop(first);
        let mut second = Report::go_on(path.clone(), "blobs", NOW).expect("goes on");
        // One of them can be read now, one cannot.
        second.looks_at(BlobId(2)).expect("written");
        second.looks_at(BlobId(3)).expect("written");
        second.looks_at(BlobId(9)).expect("nothing to be written");
        second.write_line(lost(3, 0)).expect("written");
        drop(second);
        let third = Report::go_on(path.clone(), "blobs", NOW).expect("goes on");
        let mut blobs = BlobsInfo::default();
        third.add_earlier(&mut blobs, true);
        assert_eq!((blobs.unreadable, blobs.nameless), (3, 0));
        let again = lines(&path);
        let again = again
            .iter()
            .filter(|line| line["found"] == "looked at again");
        assert_eq!(again.count(), 2);
    }

    #[test]
    fn an_attempt_that_ended_is_remembered_until_a_server_starts() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.server.state_dir = dir.path().to_path_buf();
        let clock = dewar_env::Env::real().clock;
        let open = |places| {
            let source = PathBuf::from("/backups");
            let asked = RebuildOptions {
                dry_run: false,
                places,
                report: None,
                master: Arc::new(MasterKeys::generate(&*dewar_env::Env::real().rng)),
                progress: Arc::default(),
            };
            RebuildAttempt::open(&config, &*clock, RebuildCommand::Restore { source }, asked)
                .expect("opened")
        };
        let mut first = open(true);
        let report = first.report_file().expect("opened").path.clone();
        let began = CatalogInfo {
            made_of: "backup".to_owned(),
            ..CatalogInfo::default()
        };
        first
            .remember(report.clone(), began, false)
            .expect("written");
        let user = UserId(4);
        first.found(&Finding::User {
            name: format!("salvaged-{user}"),
        });
        drop(first);
        let second = open(true);
        assert!(second.is_again() && second.done_before().is_none());
        forget_ended(&config, false).expect("kept: it did not end");
        let info = CatalogInfo {
            made_of: "backup".to_owned(),
            placed: true,
            settled: true,
            blobs: Some(BlobsInfo::default()),
            ..CatalogInfo::default()
        };
        let told = second.close(info, true).expect("ended");
        assert!(told.placed && told.gone_on, "{told:?}");
        assert_eq!(told.blobs.as_ref().map(|blobs| blobs.users), Some(1));
        let third = open(true);
        assert!(!third.is_again());
        let again = third.done_before().expect("it had ended");
        assert!(again.ended_before.is_some() && again.placed, "{again:?}");
        assert_eq!((again.blobs, again.report), (told.blobs, Some(report)));
        forget_ended(&config, false).expect("forgotten");
        let fourth = open(true);
        assert!(fourth.done_before().is_none() && fourth.last_report().is_some());
    }
}
