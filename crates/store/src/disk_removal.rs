//! Removal of disks: refused while data could not be read without the disk.

use std::collections::BTreeSet;

use dewar_types::{DiskId, Error, ErrorKind, Result};

use crate::Store;
use crate::names_at_risk::NAMED_MAX;
use dewar_disks::upkeep::Decision;

/// Objects that a refusal names.
const SHOWN_MAX: usize = 5;

impl Store {
    /// Decides about a disk, or takes a decision to drain it back (`None`).
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when removing it would lose data, with its description;
    /// [`ErrorKind::NotFound`] for a disk that no folder and no record names;
    /// [`ErrorKind::InvalidArgument`] for taking back a removal.
    pub async fn decide(&self, disk: DiskId, decision: Option<Decision>) -> Result<()> {
        self.decide_about(disk, decision, false).await
    }

    /// The same; `known` says that there is or was such a disk.
    ///
    /// # Errors
    /// As [`Store::decide`].
    pub async fn decide_about(
        &self,
        disk: DiskId,
        decision: Option<Decision>,
        known: bool,
    ) -> Result<()> {
        let disks = &self.inner.disks;
        let before = disks.decision(disk);
        if before == decision {
            return Ok(());
        }
        if before == Some(Decision::Remove) {
            let message = format!(
                "disk {disk} was removed: `dewar disk readmit` takes it back with its content"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if decision == Some(Decision::Remove) {
            let on_it = self.refuse_loss(disk).await?;
            let known = known || before.is_some() || self.inner.blobs.pool().member(disk).is_some();
            if on_it == 0 && !known {
                let message = format!("no folder and no record knows a disk {disk}");
                return Err(Error::new(ErrorKind::NotFound, message));
            }
        }
        disks.record_decision(disk, decision).await
    }

    /// Refuses the removal of a disk if data could not be read without it. The error describes the
    /// data. Returns the number of encodings with a part on the disk.
    async fn refuse_loss(&self, disk: DiskId) -> Result<u64> {
        let loss = self.inner.disks.loss_without(disk).await?;
        if loss.unreadable > 0 {
            let objects = self.objects_in(&loss.blobs).await?;
            let some = loss.unreadable > loss.blobs.len() as u64;
            let message = refusal(disk, loss.unreadable, &objects, some, &loss.unknown);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(loss.encodings)
    }
}

/// The data that would be lost without a disk: its amount, the first few objects, and the way to
/// list the others. Shards on disks in `unknown` may exist nevertheless.
fn refusal(
    disk: DiskId,
    blobs: u64,
    objects: &[String],
    some: bool,
    unknown: &BTreeSet<DiskId>,
) -> String {
    let named = &objects[..objects.len().min(SHOWN_MAX)];
    let mut lines: Vec<String> = named.iter().map(|path| format!("  {path}")).collect();
    let rest = objects.len() - named.len();
    // As many as are looked for.
    let least = match some || objects.len() >= NAMED_MAX {
        true => "at least ",
        false => "",
    };
    if rest > 0 {
        lines.push(format!(
            "  and {least}{rest} more; `dewar fsck` names what has 0 failures left"
        ));
    }
    let advice = match unknown.len() {
        0 => "Bring other disks back first, or delete what may be lost".to_owned(),
        count => format!("The content of {count} disks is still being checked: try again later"),
    };
    format!(
        "without disk {disk} {blobs} blobs could not be read any more, and with them {least}{} \
         objects:\n{}\n{advice}",
        objects.len(),
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_everything_and_names_a_few() {
        let objects: Vec<String> = (0..90).map(|n| format!("bucket/{n}")).collect();
        let said = refusal(DiskId(7), 40, &objects, false, &BTreeSet::new());
        assert!(
            said.contains("40 blobs") && said.contains("with them 90 objects"),
            "{said}"
        );
        assert!(said.contains("bucket/4\n  and 85 more"), "{said}");
        assert_eq!(said.lines().count(), SHOWN_MAX + 3, "{said}");
        let few = refusal(
            DiskId(7),
            1,
            &objects[..2],
            false,
            &BTreeSet::from([DiskId(8)]),
        );
        assert!(
            !few.contains("more; ") && few.contains("try again later"),
            "{few}"
        );
    }
}
