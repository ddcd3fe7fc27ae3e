//! Verbs about policies, ownership, the public access block and the payer of requests.

use bytes::Bytes;
use dewar_auth::{
    Acl, Action, BUCKET_POLICY_BYTES_MAX, BucketPolicy, Caller, Decision, Details, Ownership,
    Policy, PolicyError, PolicyKind, PublicAccessBlock, RequestPayment, Resource,
    STORED_POLICY_BYTES_MAX,
};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};

use super::access_of;
use crate::Store;
use crate::api::{BucketRef, ObjectRef};
use crate::authorize::{AccessFacts, actor};
use crate::document::{Document as _, document_in, document_of};
use crate::version_attributes::BucketTags;

impl Store {
    /// The policy of a bucket as it was written, with the ARNs that its users and roles have now;
    /// `None` when there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn bucket_policy(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<Option<String>> {
        let found = self
            .get_bucket_document::<BucketPolicy>(caller, bucket)
            .await?;
        match found {
            Some(document) => self
                .inner
                .accounts
                .shown_policy(&document.text)
                .await
                .map(Some),
            None => Ok(None),
        }
    }

    /// Sets the policy of a bucket. Unless `locks_owner_out` is set, the owner may always change it
    /// again, even if it denies that.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], also for a public policy where the public access block forbids it;
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::MalformedPolicy`].
    pub async fn put_bucket_policy(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        text: &str,
        locks_owner_out: bool,
    ) -> Result<()> {
        let found = self
            .inner
            .authorize_bucket(caller, BucketPolicy::PUT, bucket, None)
            .await?;
        let kind = PolicyKind::Bucket(found.name.as_str());
        Policy::parse(text, kind, BUCKET_POLICY_BYTES_MAX).map_err(malformed)?;
        let before = document_of::<BucketPolicy>(&found)?;
        let before = before.as_ref().map(|document| document.text.as_str());
        let text = self.inner.accounts.stored_policy(text, before).await?;
        let policy = Policy::parse(&text, kind, STORED_POLICY_BYTES_MAX).map_err(malformed)?;
        let public = policy.is_public();
        let document = BucketPolicy {
            text,
            policy: std::sync::Arc::new(policy),
            locks_owner_out,
        };
        let bytes = Bytes::from(document.to_bytes());
        let principal = caller.to_string();
        let set = self
            .inner
            .tree
            .configure_bucket(&actor(caller, &principal), &found, |change| {
                let block = document_in::<PublicAccessBlock>(change)?;
                if public && block.is_some_and(|block| block.block_public_policy) {
                    let message = "public policies are blocked by the bucket's public access block";
                    return Err(Error::new(ErrorKind::Denied, message));
                }
                change.put(BucketPolicy::KIND, bytes.clone());
                Ok(())
            })
            .await;
        // A failed change may still happen later.
        self.inner.bucket_policy_changed(&found);
        set
    }

    /// Removes the policy of a bucket. A missing policy is no error.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn delete_bucket_policy(&self, caller: &Caller, bucket: &BucketRef) -> Result<()> {
        self.delete_bucket_document::<BucketPolicy>(caller, bucket)
            .await
    }

    /// Whether the bucket is open to the public.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn bucket_is_public(&self, caller: &Caller, bucket: &BucketRef) -> Result<bool> {
        let action = Action::GetBucketPolicyStatus;
        let found = self
            .inner
            .authorize_bucket(caller, action, bucket, None)
            .await?;
        Ok(access_of(&found)?.is_public())
    }

    /// Whether a caller may do `action` on a bucket or on the object of a key, and the reason. It
    /// is for administrators: their right to know is not checked.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`].
    pub async fn explain(
        &self,
        who: &Caller,
        action: Action,
        bucket: &BucketRef,
        key: Option<&ObjectKey>,
    ) -> Result<Decision> {
        let inner = &self.inner;
        let found = inner.bucket_of(who, bucket).await?;
        let file = match key {
            Some(key) => inner.tree.lookup(&found, key).await?,
            None => None,
        };
        let access_facts = file.as_ref().map(AccessFacts::of).transpose()?;
        let access = access_of(&found)?;
        let resource = Resource::Bucket {
            tenant: &found.tenant.name,
            bucket: found.name.as_str(),
            owner: found.record.attributes.owner,
            access: Some(&access),
            key: key.map(ObjectKey::as_str),
            object: access_facts.as_ref().map(AccessFacts::access),
        };
        let tags = document_of::<BucketTags>(&found)?;
        let details = Details {
            bucket_tags: tags.as_ref().map(|document| &document.tags),
            ..inner.details()
        };
        Ok(dewar_auth::explain(who, action, resource, &details))
    }

    /// Checks whether a caller may write an object, for a front that would refuse the request for
    /// another reason. A caller without the right learns only that.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn can_put(&self, caller: &Caller, object: &ObjectRef) -> Result<()> {
        let key = Some(object.key.as_str());
        let action = Action::PutObject;
        let details = Details {
            creates: Some(true),
            ..self.inner.details()
        };
        self.inner
            .authorize_bucket_with(caller, action, &object.bucket, key, &details)
            .await?;
        Ok(())
    }

    /// The rule for the owner of objects that others write; `None` if it was never set.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn bucket_ownership(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<Option<Ownership>> {
        let found = self
            .get_bucket_document::<Ownership>(caller, bucket)
            .await?;
        Ok(found.map(|document| *document))
    }

    /// Sets the rule for the owner of objects that others write.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`]; [`ErrorKind::AclsGrant`] when lists are
    /// to be switched off while the bucket's list grants something to others.
    pub async fn put_bucket_ownership(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        ownership: Ownership,
    ) -> Result<()> {
        let action = Ownership::PUT;
        let details = Details {
            ownership: Some(ownership),
            ..self.inner.details()
        };
        let found = self
            .inner
            .authorize_bucket_with(caller, action, bucket, None, &details)
            .await?;
        let bytes = Bytes::from(ownership.to_bytes());
        let principal = caller.to_string();
        self.inner
            .tree
            .configure_bucket(&actor(caller, &principal), &found, |change| {
                let grants = document_in::<Acl>(change)?.is_some_and(|acl| acl.grants_others());
                if ownership == Ownership::BucketOwnerEnforced && grants {
                    let message = "Bucket cannot have ACLs set with ObjectOwnership's \
                                   BucketOwnerEnforced setting";
                    return Err(Error::new(ErrorKind::AclsGrant, message));
                }
                change.put(Ownership::KIND, bytes.clone());
                Ok(())
            })
            .await
    }

    /// Removes the rule: writers then own the objects that they write.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn delete_bucket_ownership(&self, caller: &Caller, bucket: &BucketRef) -> Result<()> {
        self.delete_bucket_document::<Ownership>(caller, bucket)
            .await
    }

    /// The public access block; `None` if it was never set.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn public_access_block(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<Option<PublicAccessBlock>> {
        let found = self
            .get_bucket_document::<PublicAccessBlock>(caller, bucket)
            .await?;
        Ok(found.map(|document| *document))
    }

    /// Sets the public access block.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn put_public_access_block(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        block: PublicAccessBlock,
    ) -> Result<()> {
        self.put_bucket_document(caller, bucket, &block).await
    }

    /// Removes the public access block.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn delete_public_access_block(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<()> {
        self.delete_bucket_document::<PublicAccessBlock>(caller, bucket)
            .await
    }

    /// Whether the requester pays for requests, and not the bucket's owner.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn requester_pays(&self, caller: &Caller, bucket: &BucketRef) -> Result<bool> {
        let found = self
            .get_bucket_document::<RequestPayment>(caller, bucket)
            .await?;
        Ok(found.is_some_and(|document| document.requester))
    }

    /// Sets the payer of requests.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn put_requester_pays(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        requester: bool,
    ) -> Result<()> {
        self.put_bucket_document(caller, bucket, &RequestPayment { requester })
            .await
    }
}

/// A policy that is not one.
pub(crate) fn malformed(error: PolicyError) -> Error {
    Error::with_source(ErrorKind::MalformedPolicy, error.to_string(), error)
}
