//! Quota reservations of open writers, made before their content has a name.
//!
//! Bytes that a writer puts on disks are in no counter until it publishes. Meanwhile they are
//! reserved, in memory only, since a writer does not outlive the process. A reservation grows in
//! steps, so that most writes need no check. Every check of a quota adds the reserved bytes to the
//! counters.
//!
//! When a writer publishes, the bytes of the version that it replaces are freed. It may therefore
//! take as many bytes without a reservation, up to [`CREDIT_MAX`]. Only one writer of a name has
//! this credit at a time. The credit is small, because the version may be removed by other means
//! while the writer is open.

use std::sync::Arc;

use dewar_catalog::Usage;
use dewar_catalog::record::{CounterScope, FileRecord};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey, UserId};

use super::quota_table::Quotas;
use super::resolve::{ResolvedName, ResolvedPath};
use super::{Bucket, Tree, charge};

/// A reservation grows by as much as it has, but at most by this.
const STEP_MAX: u64 = 16 << 20;

/// Most bytes of a version that goes which its writer may take without a reservation.
const CREDIT_MAX: u64 = 16 << 20;

/// The bytes that one writer has reserved. Dropping it releases them.
#[derive(Debug)]
pub struct Reservation {
    quotas: Arc<Quotas>,
    owner: UserId,
    /// The name whose version goes, and its bytes, if this writer may count on them.
    credited: Option<(EntryId, ObjectKey)>,
    credit: u64,
    scopes: Vec<CounterScope>,
    bytes: u64,
}

impl Reservation {
    /// Bytes that the writer may have put on disks without asking again.
    #[must_use]
    pub fn covers(&self) -> u64 {
        self.credit.saturating_add(self.bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &self.quotas.reserved;
        reserved.release(&self.scopes, self.bytes);
        if let Some(name) = &self.credited {
            reserved.end_credit(name);
        }
    }
}

impl Tree {
    /// An empty reservation for a writer of a name whose present file is `there`.
    #[must_use]
    pub fn reservation(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        owner: UserId,
        there: Option<&FileRecord>,
    ) -> Reservation {
        let versioning = bucket.settings().map(|settings| settings.versioning);
        let goes = there.and_then(|file| charge::replaced(file, versioning.unwrap_or_default()));
        let goes = goes.map_or(0, |goes| goes.bytes.min(CREDIT_MAX));
        let name = (bucket.id, key.clone());
        let has_credit = goes > 0 && self.quotas.reserved.credit(&name);
        Reservation {
            quotas: Arc::clone(&self.quotas),
            owner,
            credited: has_credit.then_some(name),
            credit: if has_credit { goes } else { 0 },
            scopes: Vec::new(),
            bytes: 0,
        }
    }

    /// Checks whether a reservation could grow until a writer has put `bytes` on disks in all. The
    /// result may differ when the bytes come; this check only refuses early.
    ///
    /// # Errors
    /// As [`Tree::reserve`].
    pub async fn check_reservation(
        &self,
        reservation: &Reservation,
        target: &ResolvedName,
        bytes: u64,
    ) -> Result<(), Error> {
        if !self.has_quotas() {
            return Ok(());
        }
        let chain = &target.chain;
        let scopes = chain.scopes_with((reservation.owner, chain.group()));
        let more = Usage {
            objects: 0,
            bytes: bytes.saturating_sub(reservation.credit),
        };
        self.check_fit(&scopes, chain, more, reservation.bytes)
            .await
    }

    /// Makes a reservation large enough for a writer that has put `bytes` on disks in all, and larger
    /// if the quota allows it. Without limits, nothing is reserved.
    ///
    /// # Errors
    /// `Quota`, with the limited scope and its usage; the reservation is then unchanged.
    /// `NoSuchBucket`; errors of the engine.
    pub async fn reserve(
        &self,
        reservation: &mut Reservation,
        bucket: &Bucket,
        key: &ObjectKey,
        bytes: u64,
    ) -> Result<(), Error> {
        if bytes <= reservation.covers() || !self.has_quotas() {
            return Ok(());
        }
        let (dirs, _) = key.split();
        let chain = self.resolve(bucket, &dirs).await?;
        let scopes = chain.scopes_with((reservation.owner, chain.group()));
        let needed = bytes - reservation.credit;
        let more = reservation.bytes.min(STEP_MAX);
        let roomy = needed.max(reservation.bytes.saturating_add(more));
        if roomy > needed {
            let enlarged = self.enlarge(reservation, &scopes, &chain, roomy).await;
            match enlarged {
                Err(error) if error.kind() == ErrorKind::Quota => {}
                outcome => return outcome,
            }
        }
        self.enlarge(reservation, &scopes, &chain, needed).await
    }

    async fn enlarge(
        &self,
        reservation: &mut Reservation,
        scopes: &[CounterScope],
        chain: &ResolvedPath,
        bytes: u64,
    ) -> Result<(), Error> {
        let reserved = &self.quotas.reserved;
        // First taken, then judged: two that ask at once may both be refused, never both admitted. The
        // scopes may be others than before, since directories are renamed and limited.
        let before = (std::mem::take(&mut reservation.scopes), reservation.bytes);
        reserved.take(scopes, bytes);
        reserved.release(&before.0, before.1);
        (reservation.scopes, reservation.bytes) = (scopes.to_vec(), bytes);
        let more = Usage { objects: 0, bytes };
        let judged = self.check_fit(scopes, chain, more, bytes).await;
        if judged.is_err() {
            reserved.take(&before.0, before.1);
            reserved.release(scopes, bytes);
            (reservation.scopes, reservation.bytes) = before;
        }
        judged
    }
}
