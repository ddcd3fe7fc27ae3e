//! Digests that a version does not have yet. They are computed by reading when a client asks for
//! one, and kept with the version.
//!
//! - **One reader per version.** Clients that ask meanwhile wait for the same pass.
//! - **No pass without a client.** The waiting clients share one future. It ends with the last of
//!   them.
//! - **Limits.** Passes are shared fairly ([`FairShares`]), and end after [`DigestLimits::time_max`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dewar_auth::Caller;
use dewar_auth::fair_share::{FairShares, ShareOwner, SharePermit};
use dewar_catalog::record::VersionRecord;
use dewar_checksum::{Algorithm, AlgorithmSet, Digest, DigestSet, StreamDigests};
use dewar_env::BoxFuture;
use dewar_namespace::Bucket;
use dewar_types::{ByteRange, Error, ErrorKind, ObjectKey, Result, VersionId, VersionName};
use futures_util::FutureExt as _;
use futures_util::future::{Shared as SharedFuture, WeakShared};
use parking_lot::Mutex;

use crate::api::{GetRequest, ObjectRef};
use crate::authorize::actor;
use crate::content_reader::{ContentReader, ReadOrder};
use crate::encryption;
use crate::limits::{DIGEST_ATTEMPTS_MAX, DIGEST_LATER};
use crate::{Inner, SharedStore, Store};

/// Limits for computing digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestLimits {
    /// Versions that are read for their digests at the same time. A user may start another one
    /// while it has fewer than are free.
    pub running_max: usize,
    /// For one version.
    pub time_max: Duration,
}

impl Default for DigestLimits {
    fn default() -> Self {
        Self {
            running_max: 8,
            time_max: Duration::from_secs(6 * 3600),
        }
    }
}

/// The result of a pass or its error, for each waiting client.
type Outcome = Result<DigestSet, (ErrorKind, Arc<str>)>;
type Pass = BoxFuture<'static, Outcome>;

/// The passes that run.
pub(crate) struct DigestPasses {
    time_max: Duration,
    shares: Arc<FairShares>,
    running: Arc<Mutex<BTreeMap<VersionId, WeakShared<Pass>>>>,
}

/// Counts a pass until it ends.
struct RunningPass {
    running: Arc<Mutex<BTreeMap<VersionId, WeakShared<Pass>>>>,
    version: VersionId,
    _reservation: SharePermit,
}

impl Drop for RunningPass {
    fn drop(&mut self) {
        self.running.lock().remove(&self.version);
    }
}

impl DigestPasses {
    pub(crate) fn new(limits: DigestLimits) -> Self {
        Self {
            time_max: limits.time_max,
            shares: FairShares::new(limits.running_max),
            running: Arc::default(),
        }
    }

    /// The pass over a version, if one runs.
    fn running(&self, version: VersionId) -> Option<SharedFuture<Pass>> {
        self.running.lock().get(&version)?.upgrade()
    }

    /// Starts a pass, or joins one that has started meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when too many are running.
    fn begin(
        &self,
        sharer: &ShareOwner,
        version: VersionId,
        pass: impl Future<Output = Result<DigestSet>> + Send + 'static,
    ) -> Result<SharedFuture<Pass>> {
        let mut running = self.running.lock();
        if let Some(there) = running.get(&version).and_then(WeakShared::upgrade) {
            return Ok(there);
        }
        let Some(reservation) = self.shares.take(sharer) else {
            let message = "too many checksums are being computed";
            return Err(Error::new(ErrorKind::Busy(DIGEST_LATER), message));
        };
        let counted = RunningPass {
            running: Arc::clone(&self.running),
            version,
            _reservation: reservation,
        };
        let time_max = self.time_max;
        let pass: Pass = Box::pin(async move {
            let _counted = counted;
            match tokio::time::timeout(time_max, pass).await {
                Ok(Ok(digests)) => Ok(digests),
                Ok(Err(error)) => Err((error.kind(), error.message().into())),
                Err(_) => {
                    let seconds = time_max.as_secs();
                    let message = format!("no checksum after {seconds} s of reading");
                    Err((ErrorKind::Timeout, message.into()))
                }
            }
        });
        let pass = pass.shared();
        if let Some(weak) = pass.downgrade() {
            running.insert(version, weak);
        }
        Ok(pass)
    }
}

impl Store {
    /// A digest of the current version of an object: the stored one, or one that is computed by
    /// reading the content and then stored.
    ///
    /// # Errors
    /// As [`Store::head`] for a stored one. As [`Store::get`] for one that must be computed, and
    /// also [`ErrorKind::Busy`] when too many passes are running, and [`ErrorKind::Timeout`] for
    /// content that takes too long.
    pub async fn digest(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        algorithm: Algorithm,
    ) -> Result<Digest> {
        let inner = &self.inner;
        let bucket = inner.bucket_of(caller, &object.bucket).await?;
        let request = GetRequest::whole(object.clone());
        let path = bucket.path(object.key.as_str());
        for _ in 0..DIGEST_ATTEMPTS_MAX {
            let found = inner.tree.find_name(&bucket, &object.key).await?;
            let name = found.clone();
            let (file, _, _) = inner.find_in(caller, &bucket, &request, name, true).await?;
            let stored = file.current.digests;
            if let Some(digest) = stored.get(algorithm) {
                return Ok(digest);
            }
            let version = file.current.id;
            let pass = match inner.digests.running(version) {
                // A digest that was not stored tells of the content: it is for those who may read that.
                Some(pass) => {
                    inner
                        .find_in(caller, &bucket, &request, found, false)
                        .await?;
                    pass
                }
                None => {
                    let order = ReadOrder::Random;
                    let opened = inner
                        .open_version(caller, &bucket, &request, Some(found), order)
                        .await?;
                    if opened.info.version != version {
                        continue;
                    }
                    let pass = DigestPass {
                        shared: SharedStore::clone(inner),
                        caller: caller.clone(),
                        bucket: bucket.clone(),
                        key: object.key.clone(),
                        want: algorithm.into(),
                        stored,
                        file: opened,
                    };
                    let sharer = ShareOwner::of(caller);
                    let begun = inner.digests.begin(&sharer, version, pass.run());
                    begun.map_err(|error| error.context(&path))?
                }
            };
            let computed = pass
                .await
                .map_err(|(kind, message)| Error::new(kind, &*message).context(&path))?;
            // The pass may have been for another algorithm.
            if let Some(digest) = computed.get(algorithm) {
                return Ok(digest);
            }
        }
        let message = format!("{path} changes too often for its checksum");
        Err(Error::new(ErrorKind::Busy(DIGEST_LATER), message))
    }
}

/// One reading of a version.
struct DigestPass {
    shared: SharedStore,
    caller: Caller,
    bucket: Bucket,
    key: ObjectKey,
    want: AlgorithmSet,
    stored: DigestSet,
    file: ContentReader,
}

impl DigestPass {
    async fn run(self) -> Result<DigestSet> {
        let size = self.file.info.size;
        let mut digests = StreamDigests::new(self.want, &self.shared.lanes);
        let mut bytes = self.file.read(ByteRange::whole(size));
        while let Some(piece) = bytes.next().await {
            digests.update(piece?).await;
            // Pages that are in memory come without waiting.
            tokio::task::yield_now().await;
        }
        let (read, computed) = (digests.length(), digests.finish().await);
        let differs = |digest: Digest| computed.verify(&digest) == Some(false);
        if read != size || self.stored.iter().any(differs) {
            let message = "what was read is not what was written";
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        if let Err(error) = self.keep(&computed).await {
            // It is the right one all the same, and computed once more when it is asked for again.
            let path = self.bucket.path(self.key.as_str());
            tracing::debug!(path, %error, "a computed checksum could not be stored");
        }
        Ok(computed)
    }

    /// Stores the computed digests with the version, even if the version has been renamed.
    async fn keep(&self, computed: &DigestSet) -> Result<()> {
        let principal = self.caller.to_string();
        let name: Option<VersionName> = self.file.info.name;
        let learn = |version: &mut VersionRecord| {
            let key = self.file.key();
            let (master, rng) = (&self.shared.master, &*self.shared.env.rng);
            encryption::learn(version, key, master, rng, computed)
        };
        let (tree, version) = (&self.shared.tree, (name, self.file.info.version));
        let actor = actor(&self.caller, &principal);
        let amended = tree.amend_version(&actor, &self.bucket, &self.key, version, learn);
        if !amended.await? {
            tracing::debug!("the version of a computed checksum is gone");
        }
        Ok(())
    }
}

impl Inner {
    /// How many passes may begin.
    #[cfg(test)]
    pub(crate) fn free_digest_passes(&self) -> usize {
        self.digests.shares.free()
    }
}
