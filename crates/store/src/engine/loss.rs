//! What is said before a loss is accepted.

use dewar_journal::Loss;
use dewar_types::Result;

use super::folders::Folders;

/// Why the catalog could not be opened even if a loss were accepted.
pub(super) fn catalog_trouble(loss: &Loss, index: &Result<u64>) -> Option<String> {
    let why = match index {
        Ok(applied) if *applied >= loss.floor => return None,
        // It is built anew from the journal.
        Err(_) if loss.floor == 0 => return None,
        Ok(applied) => format!(
            "its index ends with record {applied}, and the journal begins after record {}",
            loss.floor
        ),
        Err(error) => error.to_string(),
    };
    Some(format!(
        "the catalog cannot be opened with the disks that are there, even if a loss is accepted: {why}. \
         Nothing was changed. Bring one of the disks back that are away ({}): one of those has it",
        loss.away
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    ))
}

/// A report for people, in whole lines.
pub(super) fn report(loss: &Loss, folders: &Folders) -> String {
    let mut text = format!("The pool does not open without a loss: {}\n\n", loss.why);
    text.push_str(
        "With --accept-loss it opens with the disks that are there, and these may be lost for good:\n",
    );
    let lost = loss.acked.saturating_sub(loss.end);
    let known = match lost {
        0 => "how many that are cannot be known".to_owned(),
        lost => format!("{lost} of them are known to have been acknowledged"),
    };
    text.push_str(&format!(
        "- every change (objects written, deleted, renamed; users and keys) after journal record {}; \
         {known}\n",
        loss.end
    ));
    if !loss.away.is_empty() {
        text.push_str(&format!(
            "- every object with too many parts on the {} of {} disks that are away; `dewar fsck` names \
             those afterwards\n",
            loss.away.len(),
            loss.members
        ));
        for id in &loss.away {
            text.push_str(&format!("    disk {id}\n"));
        }
    }
    if let Some(without) = folders.without_disk() {
        text.push_str("- folders that have no disk to be used now:\n");
        for line in without.split("; ") {
            text.push_str(&format!("    {line}\n"));
        }
    }
    text.push_str(
        "Disks that are away now are not used again when they return: what is on them can only be \
         salvaged. If they may still return, wait: nothing is lost by waiting.\n",
    );
    text
}
