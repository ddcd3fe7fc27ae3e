//! Rebuilding and restoring the catalog, for administrators.

use std::sync::Arc;
use std::time::Duration;

use dewar_admin::catalog::{BlobsInfo, CatalogInfo, RebuildRequest, RestoreRequest};
use dewar_admin::{backup_folder, rfc3339};
use dewar_auth::MasterKeyId;
use dewar_disks::RebuildSource;
use dewar_engine::host::pool_state_file;
use dewar_engine::salvage::{KEPT_BUCKET, KEPT_USER, SalvageReport, SalvageTotals};
use dewar_engine::{
    BackgroundWork, Diagnosis, Engine, JournalCondition, JournalTail, Rebuild, RebuildMethod,
    RebuildOutcome, RebuildReport, Restore, RestoreReport,
};
use dewar_types::{Error, ErrorKind};

use super::rebuild_report::{RebuildAttempt, RebuildCommand, RebuildOptions, forget_ended};
use super::{OpenContext, OpenStore};
use crate::config::Config;
use crate::engine::Purpose;
use crate::listener::BoxError;

/// How long closing may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(600);

/// Facts that cannot be recovered without the catalog.
const UNKNOWN: [&str; 8] = [
    "names given after the bytes were written: renamed objects are under the path they were written to, copies are not there",
    "what was deleted since: it is back where its bytes still are",
    "objects without content, which leave nothing on the disks",
    "names and keys of users: each writer becomes a user `salvaged-<number>` without a key",
    "tags, locks, and policies, lists and settings of buckets",
    "owners of buckets: a bucket belongs to the writer of the first object found for it",
    "whether an upload had been completed, and with which of its parts",
    "small objects that were in the journal only and not sealed yet",
];

/// Facts that cannot be recovered if they are newer than a backup, or than the available journal.
const UNKNOWN_SINCE: [&str; 8] = [
    "names given since: renamed objects are under the path they were written to, copies are not there",
    "what was deleted since: it is named again, and can be read where its bytes still are",
    "objects without content that were written since, which leave nothing on the disks",
    "small objects written since that were in the journal only and not sealed yet",
    "users and keys made or changed since: whoever wrote something and is not known is a user \
     `salvaged-<number>` without a key",
    "tags, locks, and policies, lists and settings of buckets that were changed since",
    "owners of buckets made since: a bucket belongs to the writer of the first object found for it",
    "whether an upload begun since had been completed, and with which of its parts",
];

/// The configuration as it is in force, as a file.
pub(super) fn effective(config: &Config) -> String {
    let mut text = String::new();
    let mut section = "";
    for (key, value) in config.rendered() {
        if key.section != section {
            section = key.section;
            text.push_str(&format!("[{section}]\n"));
        }
        text.push_str(&format!("{} = {value}\n", key.name));
    }
    text
}

impl OpenStore {
    pub(super) async fn rebuild_catalog(
        &self,
        config: &Config,
        wish: RebuildRequest,
    ) -> std::result::Result<CatalogInfo, BoxError> {
        let ground = self.ground(config, Purpose::Administer).await?;
        let OpenContext {
            folders,
            dewar,
            master,
            engine,
        } = ground;
        let env = &self.env;
        if wish.discard_unnamed {
            let work = BackgroundWork::Off;
            let open = Engine::open(env, &engine, dewar, &folders, master, work).await?;
            let was = open.store().disks().rebuilt().await?;
            let settled = open.store().disks().settle_rebuilt().await;
            let closed = open.close(CLOSE_PATIENCE).await;
            settled?;
            closed?;
            forget_ended(config, true)?;
            return Ok(CatalogInfo {
                made_of: was.map_or_else(|| "exact".to_owned(), |was| was.source),
                settled: true,
                ..CatalogInfo::default()
            });
        }
        let (dry_run, clock) = (wish.dry_run, &*env.clock);
        let asked = RebuildOptions {
            dry_run,
            places: true,
            report: wish.report,
            master: Arc::clone(&master),
            progress: wish.progress,
        };
        let mut attempt = RebuildAttempt::open(config, clock, RebuildCommand::Rebuild, asked)?;
        let how = Rebuild {
            write: !wish.dry_run,
            accept_loss: wish.accept_loss,
            report: &mut attempt,
        };
        let rebuilt = Engine::rebuild(env, &engine, dewar, &folders, master, how)
            .await
            .map_err(|error| spelled(config, error))?;
        let gone_on = rebuilt.diagnosis.rebuilt.is_some();
        let info = attempt.info(RebuildOutcome::Rebuild(&rebuilt));
        attempt.close(info, gone_on)
    }

    pub(super) async fn restore_catalog(
        &self,
        config: &Config,
        wish: RestoreRequest,
    ) -> std::result::Result<CatalogInfo, BoxError> {
        let ground = self.ground(config, Purpose::Administer).await?;
        let source = backup_folder(&wish.source).await?;
        let command = RebuildCommand::Restore {
            source: wish.source.clone(),
        };
        let OpenContext {
            folders,
            dewar,
            master,
            engine,
        } = ground;
        let asked = RebuildOptions {
            dry_run: wish.dry_run,
            places: wish.salvage,
            report: wish.report,
            master: Arc::clone(&master),
            progress: wish.progress,
        };
        let mut attempt = RebuildAttempt::open(config, &*self.env.clock, command, asked)?;
        let how = Restore {
            source,
            name: wish.backup,
            write: !wish.dry_run,
            force: wish.force,
            salvage: wish.salvage,
            again: attempt.is_again(),
            report: &mut attempt,
        };
        let env = &self.env;
        let restored = Engine::restore(env, &engine, dewar, &folders, master, how).await;
        let restored = match restored {
            Ok(restored) => restored,
            // It was all done; and may have been interrupted before that was said.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return match (attempt.done_before(), attempt.last_report()) {
                    (Some(done), _) => Ok(done),
                    (None, Some(report)) => Err(Error::new(
                        error.kind(),
                        format!(
                            "{}. What the last restore or rebuild found is in {}",
                            error.message(),
                            report.display()
                        ),
                    )
                    .into()),
                    (None, None) => Err(error.into()),
                };
            }
            Err(error) => return Err(spelled(config, error)),
        };
        let info = attempt.info(RebuildOutcome::Restore(&restored));
        attempt.close(info, restored.gone_on)
    }
}

/// With disks named by their folders.
fn spelled(config: &Config, error: dewar_types::Error) -> BoxError {
    let message = pool_state_file::spelled(&config.server.state_dir, &error.to_string());
    dewar_types::Error::with_source(error.kind(), message, error).into()
}

/// The result of a rebuild, or the state at its beginning.
pub(super) fn rebuilt_info(report: &RebuildReport, dry_run: bool) -> CatalogInfo {
    let mut info = diagnosed(&report.diagnosis);
    info.dry_run = dry_run;
    info.placed = true;
    info.mended = report.mended;
    info.entries = report.entries;
    match &report.salvaged {
        Some(salvaged) => add_salvaged(&mut info, salvaged),
        None => info.settled = report.diagnosis.way.is_exact(),
    }
    info
}

/// The result of a restore, or the state at its beginning.
pub(super) fn restored_info(report: &RestoreReport, asked: &RebuildOptions) -> CatalogInfo {
    let mut info = diagnosed(&report.diagnosis);
    info.placed = asked.places;
    info.made_of = "backup".to_owned();
    info.unknown = UNKNOWN_SINCE.map(str::to_owned).to_vec();
    info.upto = Some(report.upto);
    info.dry_run = asked.dry_run;
    info.entries = report.entries;
    info.backup = Some(report.name.clone());
    info.backup_taken = Some(rfc3339(report.taken));
    if let (RebuildMethod::Exact { upto }, None) = (report.diagnosis.way, &report.diagnosis.rebuilt)
    {
        info.here_upto = Some(upto);
    }
    match report.followed {
        Some(JournalTail { upto, until, exact }) => {
            info.followed_upto = Some(upto);
            info.upto = Some(upto);
            info.settled = exact;
            if exact {
                info.made_of = "exact".to_owned();
                info.unknown.clear();
            } else {
                info.exact_until = Some(rfc3339(until.unwrap_or(report.taken)));
            }
        }
        None => info.exact_until = Some(rfc3339(report.taken)),
    }
    if let Some(salvaged) = &report.salvaged {
        add_salvaged(&mut info, salvaged);
    }
    // It may have been replaced since: then the file still has it, until it is retired.
    let wrapped = report.master_key.parse::<MasterKeyId>();
    if !wrapped.is_ok_and(|id| asked.master.holds(id)) {
        info.unknown.push(format!(
            "secrets in the backup are wrapped with master key {}, and the file of this server does not \
             hold it: access keys do not work until its line is put back",
            report.master_key
        ));
    }
    info
}

/// The result for the catalog, in a few words.
pub(super) fn summary(info: &CatalogInfo) -> String {
    let mut words = format!("the catalog is made of: {}", info.made_of);
    if let Some(upto) = info.upto {
        words.push_str(&format!(", up to batch {upto}"));
    }
    if let Some(backup) = &info.backup {
        words.push_str(&format!(", from backup {backup}"));
    }
    words
}

fn diagnosed(diagnosis: &Diagnosis) -> CatalogInfo {
    let (made_of, upto) = match diagnosis.way {
        RebuildMethod::Exact { upto } => ("exact", Some(upto)),
        RebuildMethod::Journal { upto } => ("part of the journal", Some(upto)),
        RebuildMethod::Index { upto } => ("index", Some(upto)),
        RebuildMethod::Blobs => ("blobs", None),
    };
    let journal = match &diagnosis.journal {
        JournalCondition::Whole { floor, end } => {
            format!("whole, batches {} to {end}", (floor + 1).min(*end))
        }
        JournalCondition::Part { floor, end, why } => {
            format!(
                "batches {} to {end} are there; {why}",
                (floor + 1).min(*end)
            )
        }
        JournalCondition::None { why } => format!("none; {why}"),
    };
    let index = match &diagnosis.index {
        Some(index) => format!(
            "batch {}, {} entries, {} bytes, {} whole copies, {} bad pieces, {} stretches of keys lost",
            index.applied,
            index.entries,
            index.bytes,
            index.copies,
            index.bad_pieces,
            index.lost.len()
        ),
        None => "none that can be opened".to_owned(),
    };
    // What it was made of counts until that is settled, however whole it is by now.
    let (made_of, upto) = match &diagnosis.rebuilt {
        None => (made_of, upto),
        Some(rebuilt) => match rebuilt.from {
            RebuildSource::Blobs => ("blobs", None),
            RebuildSource::Backup => ("backup", Some(rebuilt.upto)),
            RebuildSource::SurvivingRuns if diagnosis.way.is_exact() => {
                ("index", Some(rebuilt.upto))
            }
            RebuildSource::SurvivingRuns => (made_of, upto),
        },
    };
    let unknown = match made_of {
        "exact" => &[][..],
        "backup" => &UNKNOWN_SINCE[..],
        _ => &UNKNOWN[..],
    };
    let since = diagnosis.rebuilt.as_ref().map(|rebuilt| rebuilt.since);
    CatalogInfo {
        made_of: made_of.to_owned(),
        upto,
        exact_until: since.filter(|since| since.0 > 0).map(rfc3339),
        journal,
        index,
        unknown: unknown.iter().map(|line| (*line).to_owned()).collect(),
        ..CatalogInfo::default()
    }
}

/// Adds the unknown facts about contents that share a path, when all of them are counted.
pub(super) fn add_kept(info: &mut CatalogInfo) {
    const WHICH: &str = "which of several contents of one path was current";
    info.unknown.retain(|line| !line.starts_with(WHICH));
    let kept = info.blobs.as_ref().map_or(0, |blobs| blobs.kept);
    if kept > 0 && info.placed && !info.dry_run {
        info.unknown.push(format!(
            "{WHICH}: the newest is, {kept} older ones are in bucket {KEPT_BUCKET} of user {KEPT_USER}"
        ));
    }
}

fn add_salvaged(info: &mut CatalogInfo, salvaged: &SalvageReport) {
    let SalvageTotals {
        blobs,
        known,
        leftover,
        objects,
        bytes,
        kept,
        kept_bytes,
        parts,
        joined,
        open,
        lacking,
        nameless,
        unreadable,
        mended,
        gone,
        degraded,
        unread,
        users,
        buckets,
    } = salvaged.totals;
    info.settled = salvaged.settled;
    info.blobs = Some(BlobsInfo {
        looked_at: blobs,
        named: known,
        leftover,
        objects,
        bytes,
        kept,
        kept_bytes,
        parts,
        joined,
        open_uploads: open,
        too_few_shards: lacking,
        nameless,
        unreadable,
        moved: mended,
        gone,
        degraded,
        unread,
        users,
        buckets,
    });
}
