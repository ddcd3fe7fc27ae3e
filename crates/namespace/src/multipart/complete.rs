//! Completing an upload.

use std::collections::BTreeMap;

use dewar_catalog::Actor;
use dewar_catalog::record::{
    ChangeKind, ContentCopy, DisplayedChecksum, ETag, EncryptionRecord, PartRecord, PartRun,
    PartSizes, UploadRecord, VersionRecord,
};
use dewar_checksum::DigestSet;
use dewar_types::{Error, ErrorKind, Timestamp, UploadId, VersionId};
use minicbor::bytes::ByteVec;

use super::super::Tree;
use super::super::batch_builder::{BatchBuilder, CommitOutcome};
use super::super::condition::WriteCondition;
use super::super::publish::{NewFile, Published};
use super::super::resolve::NameRef;
use super::super::retry::ConflictRetry;
use super::super::version_attributes::VersionAttributes;
use super::{OpenUpload, StoredPart};

/// A part as the client lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletePart {
    /// Its number.
    pub number: u16,
    /// Its ETag without quotes.
    pub etag: String,
}

/// Names of the joined file, computed from the parts.
#[derive(Clone, Debug)]
pub struct CompletedObject {
    /// ETag of the whole.
    pub etag: ETag,
    /// Digests of the whole.
    pub digests: DigestSet,
    /// The checksum to be shown to readers.
    pub checksum: Option<DisplayedChecksum>,
    /// How the parts are encrypted.
    pub encryption: Option<EncryptionRecord>,
    /// The parts' checksums, when that one is over them.
    pub part_digests: Vec<ByteVec>,
    /// Id and time of the version, for salvage. A new id otherwise.
    pub version: Option<VersionId>,
}

/// Computes the names of the joined file from the upload and the numbered parts, in order.
pub type CompleteFn<'a> =
    dyn Fn(&UploadRecord, &[(u16, &PartRecord)]) -> Result<CompletedObject, Error> + Sync + 'a;

impl Tree {
    /// Joins parts to a file: their extents in order, without copying a byte. Parts that are not
    /// listed are freed. `join` computes ETag and digests, and may refuse, for example because of
    /// checksums that the client listed.
    ///
    /// If the upload is gone but made the version that `key` holds now, that version is returned. A
    /// client that missed the answer may therefore repeat the request.
    ///
    /// # Errors
    /// `InvalidPartOrder`, `InvalidPart`, `PartTooSmall` (a part but the last below `min_part`
    /// bytes), `InvalidArgument` for an empty list; `NoSuchUpload`; errors of `join`; as
    /// [`Tree::publish`]. The upload stays open after an error.
    #[allow(clippy::too_many_arguments, reason = "the wire's own list")]
    pub async fn complete_upload(
        &self,
        actor: &Actor<'_>,
        mut name: NameRef<'_>,
        upload: UploadId,
        list: &[CompletePart],
        min_part: u64,
        condition: &WriteCondition,
        join: &CompleteFn<'_>,
    ) -> Result<Published, Error> {
        check_order(list)?;
        let id = self.ids().version().await?;
        let (bucket, key) = (name.bucket, name.key);
        let mut turn = ConflictRetry::new(self, name.path());
        loop {
            let target = name.resolve(self).await?;
            let open = match self.open_upload(bucket, key, upload).await {
                Ok(open) => open,
                Err(error) if error.kind() == ErrorKind::NoSuchUpload => {
                    // Looked up again: the completion may have come between the two reads.
                    let target = self.find_name(bucket, key).await?;
                    return match target.file() {
                        Some(file) if file.current.upload == Some(upload) => Ok(Published {
                            entry: file.attributes.id,
                            version: file.current.clone(),
                            replaced: None,
                        }),
                        _ => Err(error),
                    };
                }
                Err(error) => return Err(error),
            };
            condition.check(turn.path(), target.file().map(|file| &file.current))?;
            let parts = self.all_parts(upload).await?;
            let chosen = choose(turn.path(), list, &parts, min_part)?;
            let named: Vec<(u16, &PartRecord)> = chosen
                .iter()
                .map(|part| (part.number, &part.record))
                .collect();
            let joined = join(&open.record, &named)?;

            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            stage.close_upload(&open, &parts).await?;
            let Some(copies) = self.join_copies(&chosen).await? else {
                turn.lost().await?;
                continue;
            };
            for part in &parts {
                if chosen.iter().any(|chosen| chosen.number == part.number) {
                    stage.drop_lists(part.record.id, &part.record.copies);
                } else {
                    stage.release(part.record.id, &part.record.copies).await?;
                }
            }
            let id = joined.version.unwrap_or(id);
            let size = chosen.iter().map(|part| part.record.size).sum();
            let modified = joined
                .version
                .map_or(stage.now(), |version| Timestamp(version.clock()));
            let version = VersionAttributes::from(&open.record).apply(VersionRecord {
                copies,
                parts: Some(part_sizes(&chosen, joined.part_digests)),
                upload: Some(upload),
                encryption: joined.encryption,
                checksum: joined.checksum,
                ..VersionRecord::new(id, size, joined.etag, modified, joined.digests)
            });
            let file = new_file(&open, version);
            let published = stage.place(actor, &target, file).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(published),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// The extents of the parts in order. Copies are joined pool by pool; `None` when a long list
    /// is gone already.
    async fn join_copies(&self, chosen: &[&StoredPart]) -> Result<Option<Vec<ContentCopy>>, Error> {
        // Every part has a copy in the pool of its upload; other copies are made later, of the whole.
        let mut joined: Vec<ContentCopy> = Vec::new();
        for part in chosen {
            for (list, copy) in part.record.copies.iter().enumerate() {
                let Some(extents) = self.load_extents(part.record.id, list, copy).await? else {
                    return Ok(None);
                };
                match joined.get_mut(list) {
                    Some(whole) => whole.extents.extend_from_slice(&extents),
                    None => joined.push(ContentCopy {
                        extents: extents.into_owned(),
                        chunks: 0,
                        ..copy.clone()
                    }),
                }
            }
        }
        Ok(Some(joined))
    }
}

fn new_file(open: &OpenUpload, version: VersionRecord) -> NewFile {
    NewFile {
        version,
        owner: open.record.owner,
        group: open.record.group,
        mode: open.record.mode,
        xattrs: BTreeMap::new(),
        verb: ChangeKind::Complete,
        source: None,
    }
}

fn check_order(list: &[CompletePart]) -> Result<(), Error> {
    if list.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "the list of parts is empty",
        ));
    }
    if let Some(pair) = list
        .windows(2)
        .find(|pair| pair[0].number >= pair[1].number)
    {
        return Err(Error::new(
            ErrorKind::InvalidPartOrder,
            format!(
                "part {} is listed after part {}",
                pair[1].number, pair[0].number
            ),
        ));
    }
    Ok(())
}

/// The stored parts that the client lists.
fn choose<'p>(
    path: &str,
    list: &[CompletePart],
    parts: &'p [StoredPart],
    min_part: u64,
) -> Result<Vec<&'p StoredPart>, Error> {
    let mut chosen = Vec::with_capacity(list.len());
    for (index, wanted) in list.iter().enumerate() {
        let found = parts
            .binary_search_by_key(&wanted.number, |part| part.number)
            .ok()
            .map(|at| &parts[at])
            .filter(|part| part.record.etag() == wanted.etag);
        let Some(part) = found else {
            return Err(Error::new(
                ErrorKind::InvalidPart,
                format!(
                    "part {} of {path} was not uploaded, or not with ETag {:?}",
                    wanted.number, wanted.etag
                ),
            ));
        };
        if index + 1 < list.len() && part.record.size < min_part {
            return Err(Error::new(
                ErrorKind::PartTooSmall,
                format!(
                    "part {} of {path} has {} bytes; all but the last need {min_part}",
                    wanted.number, part.record.size
                ),
            ));
        }
        chosen.push(part);
    }
    Ok(chosen)
}

fn part_sizes(chosen: &[&StoredPart], digests: Vec<ByteVec>) -> PartSizes {
    let mut runs: Vec<PartRun> = Vec::new();
    for part in chosen {
        match runs.last_mut() {
            Some(run) if run.size == part.record.size => run.count += 1,
            _ => runs.push(PartRun {
                count: 1,
                size: part.record.size,
            }),
        }
    }
    PartSizes {
        count: chosen.len() as u32,
        runs,
        chunks: 0,
        digests,
        digest_chunks: 0,
    }
}
