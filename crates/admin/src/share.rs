//! Shares.

use dewar_auth::Caller;
use dewar_env::Env;
use dewar_iam::NewShare;
use dewar_sigv4::{Credentials, Signer};
use dewar_store::Store;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_store::file::Node;
use dewar_types::{BucketName, Error, ErrorKind, ObjectKey, TenantName, UserId};
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::time_text::rfc3339;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<ShareAdd>(),
    CommandEntry::of::<ShareList>(),
    CommandEntry::of::<ShareRevoke>(),
];

/// A share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareInfo {
    /// Its access key, by which it is revoked.
    pub id: String,
    /// The owner: `[TENANT:]NAME`.
    pub user: String,
    /// Of what: `/bucket/key`.
    pub path: String,
    /// Whether something may be put there, not fetched.
    pub upload: bool,
    /// When it was made, RFC 3339 in UTC.
    pub created: String,
    /// When it ends, RFC 3339 in UTC.
    pub expires: String,
    /// Whether it has ended.
    pub over: bool,
    /// The address, shown only once. It is a secret: everybody who has it can use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Shares an object, or a name for one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareAdd {
    /// `/bucket/key`.
    pub path: String,
    /// As whom: `[TENANT:]NAME`; the bucket's owner if absent.
    pub user: Option<String>,
    /// Whether something may be put there, not fetched.
    pub upload: bool,
    /// How long it lasts.
    pub seconds: u64,
    /// The address of the S3 server for recipients; its listening address if absent.
    pub endpoint: Option<String>,
}

/// Lists shares.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareList {}

/// Ends a share.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareRevoke {
    /// Its access key.
    pub id: String,
}

impl AdminCommand for ShareAdd {
    const SPEC: CommandSpec =
        CommandSpec::changes("share.add", "admin:share-add").replies("shares");
    type Reply = Vec<ShareInfo>;

    fn target(&self) -> String {
        self.path.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<ShareInfo>> {
        let (store, accounts) = (&admin.store, admin.store.accounts());
        let invalid = |words: String| AdminError::new(Failure::Invalid, words);
        let path = &self.path;
        let named = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let (bucket, key) = named.ok_or_else(|| {
            invalid(format!(
                "{path:?} names a bucket; give an object: /BUCKET/KEY"
            ))
        })?;
        let bucket = BucketName::new(bucket).map_err(Error::from)?;
        let key = ObjectKey::new(key).map_err(Error::from)?;
        let mut doors = admin.doors.list.iter();
        let door = doors.find(|door| door.name == "s3");
        let endpoint = self
            .endpoint
            .as_deref()
            .or(door.map(|door| &*door.endpoint));
        let endpoint = endpoint.ok_or_else(|| {
            invalid("no server runs: --endpoint says where its door will be".to_owned())
        })?;
        let user = match self.user {
            Some(user) => user,
            None => owner(store, &bucket).await?,
        };
        if !self.upload {
            check_object(store, &user, &bucket, &key).await?;
        }
        let new = NewShare {
            user,
            bucket,
            key,
            upload: self.upload,
            seconds: self.seconds,
        };
        let (share, secret) = accounts.add_share(new).await?;
        let credentials = Credentials::new(&share.id, secret.reveal());
        let mut signer = Signer::new(credentials, &admin.region, share.created.secs());
        let method = if self.upload { "PUT" } else { "GET" };
        let signed = signer.presigned_url(method, endpoint, &share.path, self.seconds);
        let Some(url) = signed else {
            accounts.revoke_share(&share.id).await?;
            return Err(invalid(format!("{endpoint:?} is no address of a door")));
        };
        Ok(vec![info(&admin.env, share, Some(url))])
    }
}

impl AdminCommand for ShareList {
    const SPEC: CommandSpec =
        CommandSpec::reads("share.list", "admin:share-list").replies("shares");
    type Reply = Vec<ShareInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<ShareInfo>> {
        let all = admin.store.accounts().shares().await?.into_iter();
        Ok(all.map(|share| info(&admin.env, share, None)).collect())
    }
}

impl AdminCommand for ShareRevoke {
    const SPEC: CommandSpec =
        CommandSpec::changes("share.revoke", "admin:share-revoke").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.id.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        admin.store.accounts().revoke_share(&self.id).await?;
        Ok(Done::Done)
    }
}

fn info(env: &Env, share: dewar_iam::ShareInfo, url: Option<String>) -> ShareInfo {
    ShareInfo {
        created: rfc3339(share.created),
        expires: rfc3339(share.expires),
        over: share.expires <= env.clock.now(),
        id: share.id,
        user: share.user,
        path: share.path,
        upload: share.upload,
        url,
    }
}

/// That there is an object to fetch.
async fn check_object(
    store: &Store,
    user: &str,
    bucket: &BucketName,
    key: &ObjectKey,
) -> Result<()> {
    let tenant = user
        .split_once(':')
        .map(|(tenant, _)| TenantName::new(tenant));
    let object = ObjectRef {
        bucket: BucketRef {
            tenant: tenant.transpose().map_err(Error::from)?,
            name: bucket.clone(),
        },
        key: key.clone(),
    };
    let refused = |kind, words: String| AdminError::from(Error::new(kind, words));
    match store.stat(&Caller::system(), &object).await {
        Ok(Node::Directory(_)) => {
            let words = format!("/{bucket}/{key} is a directory: a share is of one object");
            Err(AdminError::new(Failure::Invalid, words))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let words = format!("/{bucket}/{key} is not there: --upload lets it be put there");
            Err(refused(ErrorKind::NotFound, words))
        }
        Err(error) => Err(error.into()),
    }
}

/// The account that owns a bucket of the default tenant.
async fn owner(store: &Store, bucket: &BucketName) -> Result<String> {
    let tree = store.tree();
    let tenant = tree.catalog().tenant(&TenantName::default()).await?;
    let found = match &tenant {
        Some(tenant) => tree.bucket(tenant, bucket).await?,
        None => None,
    };
    let owner: Option<UserId> = found.map(|found| found.record.attributes.owner);
    let user = match owner {
        Some(owner) => store.accounts().user_by_id(owner).await?,
        None => None,
    };
    let user = user.ok_or_else(|| {
        let words = format!("bucket {bucket} is not there, or has no owner: --user says as whom");
        Error::new(ErrorKind::NoSuchBucket, words)
    })?;
    Ok(user.name.clone())
}
