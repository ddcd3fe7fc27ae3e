//! The report that precedes the acceptance of a loss.

use dewar_checksum::crc32c;
use dewar_disks::pool::DewarId;
use dewar_journal::AcceptedLoss;
use dewar_types::Result;

use super::folders::Folders;

/// A possible loss that an administrator must accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossReport {
    /// The possible loss, in whole lines for people.
    pub text: String,
    /// The code of this loss. It is computed from the pool, the absent disks and the end of the
    /// journal, so that a consent for one loss is not valid for another.
    pub code: String,
}

/// See [`LossReport::code`].
fn code(dewar: DewarId, pool: u16, loss: &AcceptedLoss) -> String {
    let mut away = loss.away.clone();
    away.sort_unstable();
    let mut named = dewar.0.to_be_bytes().to_vec();
    named.extend(pool.to_be_bytes());
    named.extend(loss.end.to_be_bytes());
    for id in away {
        named.extend(id.0.to_be_bytes());
    }
    let crc = crc32c(&named);
    format!("{:04x}-{:04x}", crc >> 16, crc & 0xffff)
}

/// Why the catalog could not be opened even if a loss were accepted.
pub(super) fn catalog_trouble(loss: &AcceptedLoss, index: &Result<u64>) -> Option<String> {
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

pub(super) fn report(
    dewar: DewarId,
    pool: u16,
    loss: &AcceptedLoss,
    folders: &Folders,
) -> LossReport {
    LossReport {
        text: text(loss, folders),
        code: code(dewar, pool, loss),
    }
}

fn text(loss: &AcceptedLoss, folders: &Folders) -> String {
    let mut text = format!("The pool does not open without a loss: {}\n\n", loss.why);
    text.push_str(
        "If that is accepted it opens with the disks that are there, and these may be lost for good:\n",
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
        "Disks that are away now are not used by themselves when they return: what only their journals \
         have is lost, their objects can be had back with `dewar disk readmit`. If they may still return, \
         wait: nothing is lost by waiting.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use dewar_journal::OpenError;
    use dewar_types::DiskId;

    use super::*;

    #[test]
    fn the_code_names_one_loss() {
        let loss = |away: &[u128], end: u64| AcceptedLoss {
            why: OpenError::NotFormatted,
            epoch: 3,
            members: 6,
            away: away.iter().copied().map(DiskId).collect(),
            floor: 0,
            end,
            acked: 9,
        };
        let one = code(DewarId(7), 0, &loss(&[1, 2, 3], 9));
        assert_eq!(one.len(), 9, "{one}");
        assert_eq!(one, code(DewarId(7), 0, &loss(&[3, 1, 2], 9)));
        for other in [
            code(DewarId(8), 0, &loss(&[1, 2, 3], 9)),
            code(DewarId(7), 1, &loss(&[1, 2, 3], 9)),
            code(DewarId(7), 0, &loss(&[1, 2, 4], 9)),
            code(DewarId(7), 0, &loss(&[1, 2, 3, 4], 9)),
            code(DewarId(7), 0, &loss(&[1, 2, 3], 10)),
        ] {
            assert_ne!(one, other);
        }
    }
}
