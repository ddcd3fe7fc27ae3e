//! Tenants, and the actor of a change.

use bytes::Bytes;
use dewar_kv::{Batch, CommitError, Precondition};
use dewar_types::{EntryId, Error, ErrorKind, TenantId, TenantName, UserId};

use crate::record::{ChangeKind, ChangeRecord, Record, TenantRecord};
use crate::{Catalog, keys, tables};

/// Tenants read at once.
const PAGE: usize = 1000;

/// The originator of a change. The change log names it, and it owns the entries that are made.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// Owner of new entries.
    pub user: UserId,
    /// Name for the change log.
    pub principal: &'a str,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name; empty for the default tenant.
    pub name: TenantName,
    /// Its id.
    pub id: TenantId,
}

impl Tenant {
    /// The default tenant, whose root is entry 1.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self {
            name: TenantName::default(),
            id: TenantId(1),
        }
    }

    /// The directory that holds its buckets.
    #[must_use]
    pub fn root(&self) -> EntryId {
        EntryId(self.id.0)
    }
}

impl Catalog {
    /// Makes a tenant.
    ///
    /// # Errors
    /// `AlreadyExists`; errors of the engine.
    pub async fn create_tenant(
        &self,
        actor: &Actor<'_>,
        name: &TenantName,
    ) -> Result<Tenant, Error> {
        let id = if name.is_default() {
            Tenant::default_tenant().id
        } else {
            TenantId(self.ids().entry().await?.0)
        };
        let record = TenantRecord {
            id,
            created: self.env().clock.now(),
        };
        let key = keys::tenant(name.as_str());
        let path = format!("/@{name}");
        let above = EntryId(0);
        let change = ChangeRecord::new(ChangeKind::CreateTenant, above, above, record.root(), path);
        let batch = Batch {
            require: vec![Precondition::absent(key.clone())],
            puts: vec![(key, record.to_value())],
            log: vec![self.logged(actor, change).await?],
            ..Batch::default()
        };
        match self.kv().commit(batch).await {
            Ok(_) => Ok(Tenant {
                name: name.clone(),
                id,
            }),
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("tenant {name:?} exists"),
            )),
            Err(CommitError::Failed(error)) => Err(error),
        }
    }

    /// A change as the change log stores it, with its stamp and its actor.
    ///
    /// # Errors
    /// When no stamp can be reserved.
    pub async fn logged(
        &self,
        actor: &Actor<'_>,
        mut change: ChangeRecord,
    ) -> Result<Bytes, Error> {
        change.stamp = self.ids().version().await?;
        actor.principal.clone_into(&mut change.principal);
        Ok(change.to_value())
    }

    /// Finds a tenant by name.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn tenant(&self, name: &TenantName) -> Result<Option<Tenant>, Error> {
        let known = self.tenants.read().get(name).copied();
        let id = match known {
            Some(id) => id,
            None => {
                let key = keys::tenant(name.as_str());
                let Some(value) = self.kv.get(&key).await?.value else {
                    return Ok(None);
                };
                let id = TenantRecord::from_value(&key, &value)?.id;
                self.tenants.write().insert(name.clone(), id);
                id
            }
        };
        Ok(Some(Tenant {
            name: name.clone(),
            id,
        }))
    }

    /// All tenants.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn tenants(&self) -> Result<Vec<Tenant>, Error> {
        let mut tenants = Vec::new();
        let mut pages = tables::TENANT.keys().pages(&**self.kv(), PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let record = TenantRecord::from_value(key, value)?;
                let name = core::str::from_utf8(&key[1..])
                    .map_err(|_| keys::corrupt(key, tables::TENANT.name))?;
                tenants.push(Tenant {
                    name: TenantName::new(name)?,
                    id: record.id,
                });
            }
        }
        Ok(tenants)
    }
}
