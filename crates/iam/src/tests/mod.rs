//! Accounts and the IAM API on a catalog in memory.

mod identities;

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_auth::{
    Action, BucketAccess, BucketPolicy, Caller, CredentialStore as _, Details, MasterKeys, Origin,
    Policy, PolicyKind, Resource, STORED_POLICY_BYTES_MAX, explain,
};
use dewar_catalog::record::{
    DirRecord, DocumentKind, DocumentRecord, EntryAttributes, Record as _,
};
use dewar_catalog::{Actor, Catalog, Tenant, keys as catalog};
use dewar_env::disk::sim::SimWorld;
use dewar_kv::{Batch, Kv, MemoryKv};
use dewar_types::{EntryId, TenantName, Timestamp, UserId, VersionId};

use crate::Accounts;

/// Accounts with two users.
pub(crate) struct Rig {
    pub(crate) accounts: Accounts,
    pub(crate) ann: Caller,
    pub(crate) bob: Caller,
}

impl Rig {
    pub(crate) async fn new(seed: u64) -> Self {
        let env = SimWorld::new(seed).env();
        let kv: Arc<dyn Kv> = Arc::new(MemoryKv::new());
        let master = Arc::new(MasterKeys::generate(&*env.rng));
        let catalog = Catalog::new(kv, env, 1);
        let actor = Actor {
            user: UserId(0),
            principal: "",
        };
        let made = catalog.create_tenant(&actor, &TenantName::default()).await;
        made.expect("made");
        let accounts = Accounts::new(catalog, master, Arc::default());
        let ann = user(&accounts, "ann", 10).await;
        let bob = user(&accounts, "bob", 11).await;
        Self { accounts, ann, bob }
    }

    /// Makes a bucket, as far as accounts know buckets.
    pub(crate) async fn bucket(&self, tenant: &Tenant, name: &str, owner: &Caller) -> TestBucket {
        let attributes = EntryAttributes {
            id: self.accounts.catalog.ids().entry().await.expect("an id"),
            owner: owner.account(),
            group: None,
            mode: 0o755,
            mtime: Timestamp(0),
            ctime: Timestamp(0),
            xattrs: BTreeMap::new(),
        };
        let id = attributes.id;
        let record = DirRecord {
            attributes,
            implicit: false,
            bucket: None,
            space: None,
        };
        self.write(Batch {
            puts: vec![(catalog::dir(tenant.root(), name), record.to_value())],
            ..Batch::default()
        })
        .await;
        TestBucket {
            tenant: tenant.clone(),
            name: name.to_owned(),
            owner: owner.account(),
            id,
            policy: None,
        }
    }

    /// Sets the policy of a bucket, or removes it.
    pub(crate) async fn set_policy(&self, bucket: &mut TestBucket, text: Option<&str>) {
        let key = catalog::document(bucket.id, DocumentKind::Policy as u8);
        bucket.policy = text.map(|text| {
            let kind = PolicyKind::Bucket(&bucket.name);
            let policy = Policy::parse(text, kind, STORED_POLICY_BYTES_MAX);
            Arc::new(policy.expect("a policy"))
        });
        let mut batch = Batch::default();
        match (text, &bucket.policy) {
            (Some(text), Some(policy)) => {
                let document = BucketPolicy {
                    text: text.to_owned(),
                    policy: Arc::clone(policy),
                    locks_owner_out: false,
                };
                let record = DocumentRecord {
                    stamp: VersionId(1),
                    modified: Timestamp(0),
                    content: document.to_bytes().into(),
                };
                batch.puts.push((key, record.to_value()));
            }
            _ => batch.deletes.push(key),
        }
        self.write(batch).await;
        self.accounts
            .bucket_policy_changed(bucket.tenant.id, bucket.owner, bucket.id);
    }

    pub(crate) async fn write(&self, batch: Batch) {
        self.accounts
            .catalog
            .kv()
            .commit(batch)
            .await
            .expect("committed");
    }
}

/// A bucket without content.
pub(crate) struct TestBucket {
    tenant: Tenant,
    name: String,
    owner: UserId,
    id: EntryId,
    policy: Option<Arc<Policy>>,
}

impl TestBucket {
    /// Whether a caller may read an object of the bucket.
    pub(crate) fn may_read(&self, caller: &Caller) -> bool {
        let access = BucketAccess {
            policy: self.policy.clone(),
            ..BucketAccess::default()
        };
        let resource = Resource::Bucket {
            tenant: &self.tenant.name,
            bucket: &self.name,
            owner: self.owner,
            access: Some(&access),
            key: Some("a"),
            object: None,
        };
        explain(caller, Action::GetObject, resource, &Details::default()).allowed
    }
}

async fn user(accounts: &Accounts, name: &str, id: u64) -> Caller {
    accounts.add_user(UserId(id), name).await.expect("added");
    let (key, _) = accounts.add_key(name, None, None).await.expect("added");
    let key = accounts.access_key(&key).await.expect("read");
    Caller::by_access_key(&key.expect("valid"), origin())
}

pub(crate) fn origin() -> Origin {
    Origin {
        address: None,
        secure: true,
    }
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}
