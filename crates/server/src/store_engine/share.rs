//! Admin requests about shares.

use dewar_auth::Caller;
use dewar_env::Env;
use dewar_iam::NewShare;
use dewar_sigv4::{Credentials, Signer};
use dewar_store::Store;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_store::file::Node;
use dewar_types::{BucketName, Error, ErrorKind, ObjectKey, TenantName, UserId};

use super::admin::rfc3339;
use crate::admin::{AdminError, Failure, ShareInfo, ShareRequest};

type Result<T> = std::result::Result<T, AdminError>;

/// The target of share addresses.
pub(super) struct ShareEndpoint<'a> {
    /// The address of the S3 server, while it runs.
    pub(super) endpoint: Option<&'a str>,
    pub(super) region: &'a str,
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

/// Answers a request; `None` for a completed change.
pub(super) async fn answer(
    store: &Store,
    env: &Env,
    at: &ShareEndpoint<'_>,
    request: ShareRequest,
) -> Result<Option<Vec<ShareInfo>>> {
    let accounts = store.accounts();
    match request {
        ShareRequest::List {} => {
            let all = accounts.shares().await?.into_iter();
            Ok(Some(all.map(|share| info(env, share, None)).collect()))
        }
        ShareRequest::Revoke { id } => {
            accounts.revoke_share(&id).await?;
            Ok(None)
        }
        ShareRequest::Add {
            path,
            user,
            upload,
            seconds,
            endpoint,
        } => {
            let invalid = |words: String| AdminError::new(Failure::Invalid, words);
            let named = path.strip_prefix('/').and_then(|path| path.split_once('/'));
            let (bucket, key) = named.ok_or_else(|| {
                invalid(format!(
                    "{path:?} names a bucket; give an object: /BUCKET/KEY"
                ))
            })?;
            let bucket = BucketName::new(bucket).map_err(Error::from)?;
            let key = ObjectKey::new(key).map_err(Error::from)?;
            let endpoint = endpoint.as_deref().or(at.endpoint);
            let endpoint = endpoint.ok_or_else(|| {
                invalid("no server runs: --endpoint says where its door will be".to_owned())
            })?;
            let user = match user {
                Some(user) => user,
                None => owner(store, &bucket).await?,
            };
            if !upload {
                check_object(store, &user, &bucket, &key).await?;
            }
            let new = NewShare {
                user,
                bucket,
                key,
                upload,
                seconds,
            };
            let (share, secret) = accounts.add_share(new).await?;
            let credentials = Credentials::new(&share.id, secret.reveal());
            let mut signer = Signer::new(credentials, at.region, share.created.secs());
            let method = if upload { "PUT" } else { "GET" };
            let signed = signer.presigned_url(method, endpoint, &share.path, seconds);
            let Some(url) = signed else {
                accounts.revoke_share(&share.id).await?;
                return Err(invalid(format!("{endpoint:?} is no address of a door")));
            };
            Ok(Some(vec![info(env, share, Some(url))]))
        }
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
