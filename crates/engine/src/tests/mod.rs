//! The engine on simulated disks.

mod backup;
mod disaster;
mod format;
mod joining;
mod journal;
mod membership;
mod pools;
mod presence;
mod rebuild;
mod returned;
mod sample;
mod tokens;

use dewar_journal::OpenError;
use dewar_store::testing::{bucket, content, get, object, put_request, user};
use dewar_types::{DiskId, Error, ErrorKind};

use crate::{Folder, FolderContent, Folders, name_folders};

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}

#[test]
fn too_few_disks_are_told_by_folder_and_by_id() {
    let lost = DiskId(0x68cf);
    let error = OpenError::TooFewMembers {
        epoch: 3,
        found: 3,
        needed: 4,
        members: 6,
        away: vec![lost, DiskId(7)],
    };
    let absent = |label: &str| Folder {
        pool: 0,
        label: label.to_owned(),
        refused: None,
        content: FolderContent::Absent(Error::new(
            ErrorKind::Unavailable,
            format!("open {label}/: the disk is missing"),
        )),
    };
    let folders = Folders {
        all: vec![absent("/data/d2"), absent("/data/d5")],
    };
    let error = name_folders(error, &folders);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let message = error.to_string();
    for part in ["3 of the 6", "4 are needed", "/data/d2", "/data/d5"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(message.contains(&lost.to_string()), "{message}");
    assert!(!message.contains("DiskId("), "{message}");
}
