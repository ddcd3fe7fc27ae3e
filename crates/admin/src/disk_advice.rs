//! The problems of disks, worded for the administrator, with the action to take.

use crate::disks::{FULL, NO_IDENTITY, NO_RIGHT, NOWHERE};
use crate::status::HealthIssue;

/// Digits of an id that name a disk in commands.
pub const ID_DIGITS: usize = 8;

/// The problem of a disk and the action to take, in one line; `None` if it has none.
pub(crate) fn disk_advice(
    state: &str,
    path: Option<&str>,
    number: Option<u32>,
    id: Option<&str>,
    detail: Option<&str>,
) -> Option<String> {
    // A removed disk that is nowhere, or whose folder another one has, needs nothing.
    if state == "removed" && path.is_none() {
        return None;
    }
    let number = number.map(|number| number.to_string());
    let id = id.map(|id| id.get(..ID_DIGITS).unwrap_or(id));
    let name = number.as_deref().or(id).or(path)?;
    let nowhere = || format!("{name}, in no known folder,");
    let place = path.map_or_else(nowhere, str::to_owned);
    let HealthIssue { what, advice } = disk_issue(state, &place, name, detail)?;
    Some(format!("{what}: {advice}"))
}

/// The problem of a disk in the state `state`, as [`crate::disks::DiskInfo::state`] has it; `None` if
/// it has none. In commands, the disk is called `name`.
#[must_use]
pub fn disk_issue(
    state: &str,
    path: &str,
    name: &str,
    detail: Option<&str>,
) -> Option<HealthIssue> {
    let told = detail.map_or(String::new(), |detail| format!(" ({detail})"));
    let (what, advice) = match state {
        "online" => (
            format!("disk {path}: {}", detail?),
            match detail {
                Some(FULL) => {
                    "delete something, or `dewar disk add FOLDER`; what is not Dewar's on the \
                               device goes first"
                        .to_owned()
                }
                _ => "the other disks go on without it".to_owned(),
            },
        ),
        "draining" => return None,
        "missing" => about_missing(path, name, detail),
        "blank" => (
            format!("{path} is blank{told}"),
            format!(
                "an unmounted disk: mount it; if it is a new one: `dewar disk add {path}`, or for a disk \
                 that is lost `dewar disk replace {name} {path}`"
            ),
        ),
        "hung" => (
            format!("disk {path} does not answer"),
            format!(
                "look at the kernel's log; if it stays so pull it: `dewar disk replace {name} NEW-FOLDER`"
            ),
        ),
        "read-only" => (
            format!("disk {path} is read-only: it is read, and nothing new is written to it{told}"),
            format!(
                "it is used again by itself when it can be written; if the device is failing: `dewar disk \
                 replace {name} NEW-FOLDER`"
            ),
        ),
        "failed" => (
            format!("a sync failed on disk {path}: it takes no writes until a restart"),
            format!(
                "look at the kernel's log; `dewar disk replace {name} NEW-FOLDER` empties it while it \
                 reads"
            ),
        ),
        "replacing" => (
            format!("disk {path} is being replaced"),
            "it can be taken away when it is removed: see SHARDS in `dewar disk list`".to_owned(),
        ),
        "removed" => (
            format!("disk {path} was removed from the pool and is not used{told}"),
            format!(
                "`dewar disk readmit {path}` takes it back with its shards. Keep it while something \
                 cannot be read; if nothing on it is needed, take it away, and out of pool.disks. Emptied, \
                 the folder can be added as a new disk"
            ),
        ),
        "returning" => (
            format!("disk {path} was taken back, and its shards are looked through"),
            "it is in use already; nothing is to be done".to_owned(),
        ),
        "foreign" => (
            detail.map_or_else(
                || format!("{path} is a disk of another Dewar"),
                str::to_owned,
            ),
            "it is not used: mount the right disk, or take the folder out of pool.disks".to_owned(),
        ),
        "copy" => (
            detail.map_or_else(
                || format!("{path} is a copy of another disk"),
                str::to_owned,
            ),
            "it is not used: unmount it, or take the folder out of pool.disks".to_owned(),
        ),
        other => (
            format!("disk {path} is {other}"),
            "see `dewar disk list`".to_owned(),
        ),
    };
    Some(HealthIssue { what, advice })
}

fn about_missing(path: &str, name: &str, detail: Option<&str>) -> (String, String) {
    let told = detail.map_or(String::new(), |detail| format!(" ({detail})"));
    let begins = |with: &str| detail.is_some_and(|detail| detail.starts_with(with));
    let is_there = format!("disk {path} is there, and is not used{told}");
    let is_missing = format!("disk {path} is missing{told}");
    let mount =
        "mount it there again or put the folder back, and it is used at once; if it is lost";
    if begins(NO_RIGHT) {
        let advice = "nothing is lost: with the right it is used at once";
        return (is_there, advice.to_owned());
    }
    if begins(NO_IDENTITY) {
        let advice = format!(
            "put the file back from a copy or a backup of the host, and the disk is used at once, with all \
             that is on it; if there is none: `dewar disk replace {name} NEW-FOLDER`, and keep the folder \
             until `dewar status` says that all is whole"
        );
        return (is_there, advice);
    }
    if begins(NOWHERE) {
        let advice = format!(
            "mount it, name its folder in pool.disks and restart; if it is lost: `dewar disk replace {name} \
             NEW-FOLDER`, or without a new disk `dewar disk remove {name}`"
        );
        return (
            format!("disk {name} is missing, and its folder is not known"),
            advice,
        );
    }
    // Nothing remembers which disk it had.
    if name == path {
        let advice = format!(
            "{mount}: `dewar disk list` has the missing disks under their ids, and `dewar disk remove \
             {path}` forgets the folder"
        );
        return (is_missing, advice);
    }
    let advice = format!(
        "{mount}: `dewar disk replace {name} NEW-FOLDER`, or without a new disk `dewar disk remove {name}`"
    );
    (is_missing, advice)
}
