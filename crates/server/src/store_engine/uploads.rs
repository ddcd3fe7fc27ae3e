//! The part of `status` about uploads that are not completed yet.

use dewar_store::Store;
use dewar_types::{Result, Timestamp};

use crate::admin::{OpenUploads, UploadOwner};

/// Most owners that are named.
const OWNERS_MAX: usize = 10;

/// The owners of open uploads, by bytes in descending order.
pub(super) async fn open_uploads(store: &Store, now: Timestamp) -> Result<OpenUploads> {
    let all = store.upload_usage().await?;
    let mut open = OpenUploads {
        uploads: all.iter().map(|usage| usage.uploads).sum(),
        bytes: all.iter().map(|usage| usage.bytes).sum(),
        owners: Vec::new(),
        further_owners: all.len().saturating_sub(OWNERS_MAX) as u64,
    };
    for usage in all.into_iter().take(OWNERS_MAX) {
        let name = store.account_called(usage.owner).await?;
        let age = |began: Timestamp| now.0.saturating_sub(began.0) / 1_000_000_000;
        open.owners.push(UploadOwner {
            owner: name.unwrap_or_else(|| usage.owner.to_string()),
            uploads: usage.uploads,
            bytes: usage.bytes,
            oldest_seconds: usage.oldest.map(age),
        });
    }
    Ok(open)
}
