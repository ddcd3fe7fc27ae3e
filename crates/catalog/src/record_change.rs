//! Changes of records that depend on no other record.

use bytes::Bytes;
use dewar_kv::{Batch, CommitError, Precondition, ReadValue};
use dewar_types::{Error, ErrorKind};

use crate::Catalog;

/// The replacement of a record.
#[derive(Clone, Debug)]
pub struct RecordChange {
    /// Key of the record.
    pub key: Bytes,
    /// The read that the replacement is based on.
    pub read: ReadValue,
    /// The new value.
    pub value: Bytes,
}

impl Catalog {
    /// Puts a record or deletes it, whatever it was before.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn set(&self, key: Bytes, value: Option<Bytes>) -> Result<(), Error> {
        let mut batch = Batch::default();
        match value {
            Some(value) => batch.puts.push((key, value)),
            None => batch.deletes.push(key),
        }
        self.commit_unconditionally(batch).await
    }

    /// Commits a batch that has no preconditions.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(crate) async fn commit_unconditionally(&self, batch: Batch) -> Result<(), Error> {
        match self.kv().commit(batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Failed(error)) => Err(error),
            Err(CommitError::Conflict(_)) => {
                let message = "a batch without preconditions was refused";
                Err(Error::new(ErrorKind::Internal, message))
            }
        }
    }

    /// Replaces records in one batch, if all are as they were read. Otherwise it replaces each
    /// record that is. Returns whether all were replaced.
    ///
    /// # Errors
    /// Errors of the engine. Some records may have been replaced then.
    pub async fn replace(&self, changes: Vec<RecordChange>) -> Result<bool, Error> {
        if changes.is_empty() {
            return Ok(true);
        }
        match self.replace_at_once(&changes).await {
            Ok(true) => return Ok(true),
            done if changes.len() == 1 => return done,
            Ok(false) => {}
            // Some records are long: one at a time they fit.
            Err(error) if error.kind() == ErrorKind::TooLarge => {}
            Err(error) => return Err(error),
        }
        let mut all = true;
        for change in &changes {
            all &= self.replace_at_once(std::slice::from_ref(change)).await?;
        }
        Ok(all)
    }

    /// Replaces all records or none. Returns whether they were as they were read.
    async fn replace_at_once(&self, changes: &[RecordChange]) -> Result<bool, Error> {
        let mut batch = Batch::default();
        for RecordChange { key, read, value } in changes {
            batch.require.push(Precondition::same(key.clone(), read));
            batch.puts.push((key.clone(), value.clone()));
        }
        match self.kv().commit(batch).await {
            Ok(_) => Ok(true),
            Err(CommitError::Conflict(_)) => Ok(false),
            Err(CommitError::Failed(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dewar_env::Env;
    use dewar_kv::MemoryKv;

    use super::*;

    #[tokio::test]
    async fn a_record_that_changed_meanwhile_stays() {
        let catalog = Catalog::new(Arc::new(MemoryKv::new()), Env::real(), 0);
        let keys = [Bytes::from_static(b"wa"), Bytes::from_static(b"wb")];
        let old = Bytes::from_static(b"old");
        let mut changes = Vec::new();
        for key in &keys {
            catalog.set(key.clone(), Some(old.clone())).await.unwrap();
            changes.push(RecordChange {
                key: key.clone(),
                read: catalog.kv().get(key).await.unwrap(),
                value: Bytes::from_static(b"new"),
            });
        }
        let other = Bytes::from_static(b"other");
        catalog
            .set(keys[0].clone(), Some(other.clone()))
            .await
            .unwrap();
        assert!(!catalog.replace(changes).await.unwrap());
        let mut values = Vec::new();
        for key in &keys {
            values.push(catalog.kv().get(key).await.unwrap().value);
        }
        assert_eq!(values, [Some(other), Some(Bytes::from_static(b"new"))]);
        catalog.set(keys[0].clone(), None).await.unwrap();
        assert_eq!(catalog.kv().get(&keys[0]).await.unwrap().value, None);
    }
}
