//! Changing the attributes of a name: permission bits and extended attributes.

use dewar_catalog::Actor;
use dewar_catalog::record::{ChangeKind, ChangeRecord, Entry, EntryAttributes, Record};
use dewar_types::{Error, ObjectKey};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::charge::ChargedItem;
use super::resolve::{NameRef, not_found};
use super::retry::ConflictRetry;
use super::{Bucket, Tree};

impl Tree {
    /// Changes a file's attributes and returns the new ones. `alter` is called with the present
    /// attributes, and again after a lost race. An error of `alter` is returned. Nothing is written
    /// when `alter` changes nothing.
    ///
    /// # Errors
    /// Those of `alter`; `NotFound`; `Conflict`; `NoSuchBucket`; errors of the engine.
    pub async fn alter_file(
        &self,
        actor: &Actor<'_>,
        mut name: NameRef<'_>,
        alter: impl Fn(&mut EntryAttributes) -> Result<(), Error>,
    ) -> Result<EntryAttributes, Error> {
        let mut turn = ConflictRetry::new(self, name.path());
        loop {
            let target = name.resolve(self).await?;
            let (Some((at, read)), Some(Entry::File(file))) = (&target.slot, &target.entry) else {
                return Err(not_found(&target.path));
            };
            if !file.is_live() {
                return Err(not_found(&target.path));
            }
            let mut file = file.clone();
            let before = file.attributes.clone();
            alter(&mut file.attributes)?;
            if file.attributes == before {
                return Ok(before);
            }
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            stage.watch(&target.chain);
            stage.same(at.clone(), read);
            file.attributes.ctime = stage.now();
            if let Some(Entry::File(before)) = &target.entry {
                let after = ChargedItem::Current(&file);
                stage.recharge(ChargedItem::Current(before), after, &target.chain);
            }
            stage.put(at.clone(), file.to_value());
            let log = ChangeRecord {
                version: Some((&file.current).into()),
                ..target.change(ChangeKind::SetAttributes, target.chain.last_id(), before.id)
            };
            stage.log(actor, log).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(file.attributes),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// The same for a directory. One that only slashes made stays from then on.
    ///
    /// # Errors
    /// As [`Tree::alter_file`].
    pub async fn alter_dir(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
        alter: impl Fn(&mut EntryAttributes) -> Result<(), Error>,
    ) -> Result<EntryAttributes, Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(path.as_str()));
        loop {
            let chain = self.dir_chain(bucket, path).await?;
            if !self.stands(&chain).await? {
                return Err(not_found(turn.path()));
            }
            let mut record = chain.last().record.clone();
            let before = record.attributes.clone();
            alter(&mut record.attributes)?;
            if record.attributes == before {
                return Ok(before);
            }
            record.implicit = false;
            let above = chain.above();
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            stage.watch(&chain);
            record.attributes.ctime = stage.now();
            stage.recharge_dir(&above, Some(&chain.last().record), Some(&record));
            let key = chain.last().key.clone();
            // The cache knows it as it was.
            stage.forget(key.clone());
            let attributes = record.attributes.clone();
            stage.put_dir(key, record);
            let log = bucket.change(
                ChangeKind::SetAttributes,
                above.last_id(),
                before.id,
                turn.path(),
            );
            stage.log(actor, log).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(attributes),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }
}
