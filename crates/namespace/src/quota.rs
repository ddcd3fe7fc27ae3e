//! Quotas: limits of the content of a tenant, a user, a bucket or a space.
//!
//! They are checked when batches are put in order, against counters that are changed in the same
//! batches. They are therefore exact, however many clients write at once, and after a crash. They
//! limit only changes that add content. Changes that free, repair or rebuild are never refused.
//!
//! The limits of a space are in its mark and move with the directory. The others are few and are
//! kept in memory. A new limit applies to batches that are made after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_catalog::record::{CounterScope, Entry, PartRecord, QuotaRecord, Record};
use dewar_catalog::{Actor, Quota, Usage, keys};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey, UploadId, UserId};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::quota_table::{Quotas, quota_exceeded};
use super::resolve::{ResolvedName, ResolvedPath, not_found};
use super::{Bucket, Tree, charge};

/// No quota holds until this is dropped.
pub struct SuspendedQuotas(Arc<Quotas>);

impl Drop for SuspendedQuotas {
    fn drop(&mut self) {
        self.0.resume();
    }
}

impl Tree {
    /// Whether anything at all is limited, from memory.
    #[must_use]
    pub fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Lifts all limits until the result is dropped: content that exists already gets its names
    /// back, however large the quotas are by now. The store must not be served meanwhile.
    #[must_use]
    pub fn suspend_quotas(&self) -> SuspendedQuotas {
        self.quotas.suspend();
        SuspendedQuotas(Arc::clone(&self.quotas))
    }

    /// The limits of a tenant, a user or a bucket, from memory.
    #[must_use]
    pub fn quota(&self, scope: CounterScope) -> Option<Quota> {
        self.quotas.get(scope)
    }

    /// Limits a bucket, unless a named space in it has a larger quota.
    ///
    /// # Errors
    /// `InvalidArgument`; errors of the engine.
    pub async fn limit_bucket(&self, bucket: &Bucket, quota: Quota) -> Result<(), Error> {
        let _hold = self.spaces.hold().await;
        self.check_inner_quotas(bucket, None, quota).await?;
        self.limit(CounterScope::Bucket(bucket.id), quota).await
    }

    /// Limits a tenant, a user or a bucket; an empty quota removes the limits. Existing content
    /// stays, however large it is.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn limit(&self, scope: CounterScope, quota: Quota) -> Result<(), Error> {
        let _one = self.quotas.changing.lock().await;
        let mut stage = BatchBuilder::new(self);
        if quota.is_empty() {
            stage.delete(scope.quota_key());
        } else {
            stage.put(scope.quota_key(), record(quota, None).to_value());
        }
        // It reads nothing, so it cannot lose.
        let CommitOutcome::Done = stage.commit().await? else {
            return Err(Error::new(ErrorKind::Conflict, "a quota is being changed"));
        };
        if quota.is_empty() {
            self.quotas.forget(scope);
        } else {
            self.quotas.put(scope, quota);
        }
        Ok(())
    }

    /// The limits of the space at a path and its id; `None` when the directory is no space.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory; errors of the engine.
    pub async fn space(
        &self,
        bucket: &Bucket,
        path: &ObjectKey,
    ) -> Result<Option<(EntryId, Quota)>, Error> {
        let chain = self.dir_chain(bucket, path).await?;
        if !self.stands(&chain).await? {
            return Err(not_found(&bucket.path(path.as_str())));
        }
        let mark = chain.last().record.space.as_ref();
        Ok(mark.map(|mark| (chain.last_id(), Quota::of_mark(mark))))
    }

    /// Checks whether an object of this size fits under its name, in addition to the present
    /// content and in place of the name's content. The result may differ when the object is
    /// published; this check only refuses early.
    ///
    /// # Errors
    /// `Quota`, with the limited scope and its usage; errors of the engine.
    pub async fn check_room(
        &self,
        target: &ResolvedName,
        owner: UserId,
        size: u64,
    ) -> Result<(), Error> {
        if !self.has_quotas() {
            return Ok(());
        }
        let goes = match &target.entry {
            Some(Entry::File(file)) => {
                charge::replaced(file, target.chain.versioning()).unwrap_or(Usage {
                    objects: 1,
                    bytes: size,
                })
            }
            _ => Usage::default(),
        };
        let more = Usage {
            objects: 1_u64.saturating_sub(goes.objects),
            bytes: size.saturating_sub(goes.bytes),
        };
        let scopes = target.chain.scopes_with((owner, target.chain.group()));
        self.check_fit(&scopes, &target.chain, more, 0).await
    }

    /// The same for a part of an upload, in place of the part with the same number.
    ///
    /// # Errors
    /// As [`Tree::check_room`]; `NoSuchUpload`.
    pub async fn check_part_room(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        upload: UploadId,
        number: u16,
        size: u64,
    ) -> Result<(), Error> {
        if !self.has_quotas() {
            return Ok(());
        }
        let open = self.open_upload(bucket, key, upload).await?;
        let at = keys::part(upload, number);
        let replaced = match self.kv().get(&at).await?.value {
            Some(value) => PartRecord::from_value(&at, &value)?.size,
            None => 0,
        };
        let more = Usage {
            objects: 0,
            bytes: size.saturating_sub(replaced),
        };
        let scopes = charge::scopes_of_upload(bucket, &open.record);
        self.check_fit(&scopes, &open.chain, more, 0).await
    }

    /// Whether so much more fits beside what is there and what is reserved but for `own` bytes.
    ///
    /// # Errors
    /// As [`Tree::check_room`].
    pub(super) async fn check_fit(
        &self,
        scopes: &[CounterScope],
        chain: &ResolvedPath,
        more: Usage,
        own: u64,
    ) -> Result<(), Error> {
        let spaces: BTreeMap<CounterScope, Quota> = chain.quotas().collect();
        for &scope in scopes {
            let limit = match scope {
                CounterScope::Space(_) => spaces.get(&scope).copied(),
                _ => self.quota(scope),
            };
            let Some(quota) = limit else { continue };
            let usage = self.catalog().usage(scope).await?;
            let reserved = self.quotas.reserved.bytes(scope);
            let taken = Usage {
                bytes: usage.bytes.saturating_add(reserved.saturating_sub(own)),
                ..usage
            };
            if !quota.fits(taken, more.objects, more.bytes) {
                let what = self.scope_words(scope);
                return Err(quota_exceeded(&what, quota, usage, reserved));
            }
        }
        Ok(())
    }

    /// The limits of the innermost limited space that a path is in, or is.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn innermost_space(
        &self,
        bucket: &Bucket,
        path: &ObjectKey,
    ) -> Result<Option<(CounterScope, Quota)>, Error> {
        let chain = self.dir_chain(bucket, path).await?;
        Ok(chain.quotas().filter(|(_, quota)| !quota.is_empty()).last())
    }

    /// Notes where a space with limits is, for the list of quotas.
    pub(super) fn note_space(
        stage: &mut BatchBuilder<'_>,
        id: EntryId,
        quota: Quota,
        place: (EntryId, &ObjectKey),
    ) {
        if quota.is_empty() {
            stage.delete(CounterScope::Space(id).quota_key());
            stage.changes_limits(id);
        } else {
            Self::renote_space(stage, id, place);
        }
    }

    /// Notes where a space is that has limits.
    pub(super) fn renote_space(
        stage: &mut BatchBuilder<'_>,
        id: EntryId,
        place: (EntryId, &ObjectKey),
    ) {
        let value = record(Quota::default(), Some(place)).to_value();
        stage.put(CounterScope::Space(id).quota_key(), value);
        stage.changes_limits(id);
    }

    /// Limits a directory, which makes it a space, and counts its present content. An empty quota
    /// leaves it a space without limits.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for the directory of a named space without a limit of bytes, and
    /// for limits that contradict those of a named space around it or in it; `Conflict`; errors of the
    /// engine.
    pub async fn limit_space(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
        quota: Quota,
    ) -> Result<EntryId, Error> {
        let hold = self.spaces.hold().await;
        let chain = self.dir_chain(bucket, path).await?;
        let name = match chain.missing {
            None => self.spaces.name(chain.last_id()),
            Some(_) => None,
        };
        if let Some(name) = name {
            if quota.max_bytes.is_none() {
                let message = format!("the space {name} needs a limit of bytes");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            self.check_outer_quotas(&chain, quota)?;
        }
        self.check_inner_quotas(bucket, Some(path), quota).await?;
        if !quota.is_empty() {
            // Before the mark, or what is put meanwhile would not know that there is any limit.
            self.quotas
                .put(CounterScope::Space(chain.last_id()), Quota::default());
        }
        let id = self.mark_held(actor, (bucket, path), quota, &hold).await?;
        drop(hold);
        self.count_space(bucket, path).await?;
        Ok(id)
    }

    /// Counts a space if its counting was interrupted. Returns whether it was.
    ///
    /// # Errors
    /// `NotFound`; `Conflict`; errors of the engine.
    pub async fn count_if_uncounted(
        &self,
        bucket: &Bucket,
        path: &ObjectKey,
    ) -> Result<bool, Error> {
        let chain = self.dir_chain(bucket, path).await?;
        let mark = chain.last().record.space.as_ref();
        if chain.missing.is_some() || mark.is_none_or(|mark| mark.counted) {
            return Ok(false);
        }
        self.count_space(bucket, path).await?;
        Ok(true)
    }
}

fn record(quota: Quota, place: Option<(EntryId, &ObjectKey)>) -> QuotaRecord {
    QuotaRecord {
        max_bytes: quota.max_bytes,
        max_objects: quota.max_objects,
        soft_bytes: quota.soft_bytes,
        soft_objects: quota.soft_objects,
        place: place.map(|(bucket, path)| (bucket, path.as_str().to_owned())),
    }
}
