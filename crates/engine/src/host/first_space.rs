//! The check for free space for an empty pool, before it is created.
//!
//! Later the journal reports a disk without space for a further file. A pool that is created with
//! too little space would accept a few objects and then nothing, not even deletes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use dewar_types::{Error, ErrorKind, Result};

use crate::{EngineConfig, FolderContent, Folders};

/// First journal files of a member: one in use and one made ahead.
const FIRST_FILES: u64 = 2;

/// Folders that share a file system.
#[derive(Debug)]
struct Device {
    labels: Vec<String>,
    available: u64,
}

/// Refuses folders that are too small.
///
/// # Errors
/// [`ErrorKind::NoSpace`] with the folders, the needed and the free space; those of the disks.
pub(super) async fn check(engine: &EngineConfig, folders: &Folders) -> Result<()> {
    let mut devices: BTreeMap<u64, Device> = BTreeMap::new();
    for folder in &folders.all {
        let (FolderContent::Blank { disk } | FolderContent::Disk { disk, .. }) = &folder.content
        else {
            continue;
        };
        let available = disk.space().await?.available;
        let device = std::fs::metadata(&folder.label).map_err(|error| {
            let what = format!("cannot look at {}: {error}", folder.label);
            Error::with_source(ErrorKind::Unavailable, what, error)
        })?;
        let device = devices.entry(device.dev()).or_insert(Device {
            labels: Vec::new(),
            available,
        });
        device.labels.push(folder.label.clone());
    }
    let holders = engine.journal.m + 2;
    match shortage(devices.values(), holders, engine.journal.file_bytes) {
        Some(message) => Err(Error::new(ErrorKind::NoSpace, message)),
        None => Ok(()),
    }
}

fn shortage<'a>(
    devices: impl IntoIterator<Item = &'a Device>,
    holders: usize,
    file_bytes: u64,
) -> Option<String> {
    let lines = devices.into_iter().filter_map(|device| {
        let journals = device.labels.len().min(holders) as u64;
        let needed = journals * FIRST_FILES * file_bytes;
        (device.available < needed).then(|| {
            format!(
                "no room for a pool on {}: its journal takes {} MiB there to begin with, and {} MiB \
                 are free",
                device.labels.join(", "),
                needed >> 20,
                device.available >> 20
            )
        })
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(labels: &[&str], mib: u64) -> Device {
        Device {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            available: mib << 20,
        }
    }

    #[test]
    fn folders_that_share_a_device_share_its_room() {
        let short = |devices: &[Device]| shortage(devices, 4, 32 << 20);
        let six = ["d1", "d2", "d3", "d4", "d5", "d6"];
        assert_eq!(short(&[device(&six, 256)]), None, "four hold the journal");
        let message = short(&[device(&six, 120)]).expect("too small");
        for part in ["d1, d2", "256 MiB", "120 MiB"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(short(&[device(&["a"], 64), device(&["b"], 64)]), None);
        let message = short(&[device(&["a"], 64), device(&["b"], 63)]).expect("too small");
        assert!(message.contains("on b:"), "{message}");
    }
}
