//! Room for documents: XML, and the forms of IAM, which are whole in memory before a verb looks at them.
//!
//! All of them have a bound together, and nobody takes so much of it that others are refused. Who asks
//! counts by the account; where that is not known, by the address. A share is a quarter of all, and at
//! most half of what is left beside it: so those who are new find room also where several hold all that
//! they may, with bodies that arrive a byte at a time. Callers who have proven nothing have one share
//! together, however many addresses they have, and divide it in the same way.
//!
//! Room is refused and not waited for: a request that waits holds a connection, and its client knows
//! better whether to come back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use dewar_auth::{Caller, Origin};
use dewar_types::UserId;
use http::HeaderValue;
use http::header::RETRY_AFTER;
use parking_lot::Mutex;

use crate::error::{Code, Refusal};
use crate::limits::{DOCUMENT_SHARES, XML_BODIES_BYTES_MAX};

/// Bits of an address of IPv6 that tell holders apart: who has one has all that begin alike.
const PREFIX_BITS: u32 = 64;

/// Who holds room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BudgetHolder {
    /// An account.
    Account(UserId),
    /// Somebody at an address who has proven nothing.
    Address(Option<IpAddr>),
}

impl BudgetHolder {
    /// Whoever is at an address.
    pub(crate) fn at(origin: Origin) -> Self {
        Self::Address(origin.address.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => {
                let kept = address.to_bits() & (u128::MAX << (128 - PREFIX_BITS));
                IpAddr::V6(kept.into())
            }
            address @ IpAddr::V4(_) => address,
        }))
    }

    /// A caller.
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller.user() {
            Some(user) => Self::Account(user.account),
            None => Self::at(caller.origin()),
        }
    }
}

/// Bytes that are held.
#[derive(Debug, Default)]
struct ReservedBytes {
    all: usize,
    unproven: usize,
    /// By holder; who holds none is not in it.
    shares: BTreeMap<BudgetHolder, usize>,
}

/// The room of a door.
#[derive(Debug)]
pub(crate) struct DocumentBudget {
    bytes: usize,
    held: Mutex<ReservedBytes>,
}

/// Room that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct DocumentReservation {
    documents: Arc<DocumentBudget>,
    holder: BudgetHolder,
    bytes: usize,
}

impl Default for DocumentBudget {
    fn default() -> Self {
        Self::of(XML_BODIES_BYTES_MAX)
    }
}

impl DocumentBudget {
    fn of(bytes: usize) -> Self {
        Self {
            bytes,
            held: Mutex::new(ReservedBytes::default()),
        }
    }

    /// Room for a document of so many bytes; `None` where its holder has as much as it may.
    pub(crate) fn room(
        self: &Arc<Self>,
        holder: BudgetHolder,
        bytes: usize,
    ) -> Option<DocumentReservation> {
        let mut held = self.held.lock();
        let share = held.shares.get(&holder).copied().unwrap_or(0) + bytes;
        let all = held.all + bytes;
        let quarter = self.bytes / DOCUMENT_SHARES;
        let left = self.bytes.checked_sub(all)?;
        let mut most = quarter.min(left / 2);
        let mut unproven = held.unproven;
        if let BudgetHolder::Address(_) = holder {
            unproven += bytes;
            most = most.min(quarter.checked_sub(unproven)? / 2);
        }
        if share > most {
            return None;
        }
        held.all = all;
        held.unproven = unproven;
        held.shares.insert(holder, share);
        Some(DocumentReservation {
            documents: Arc::clone(self),
            holder,
            bytes,
        })
    }
}

impl Drop for DocumentReservation {
    fn drop(&mut self) {
        let mut held = self.documents.held.lock();
        held.all -= self.bytes;
        if let BudgetHolder::Address(_) = self.holder {
            held.unproven -= self.bytes;
        }
        if let Some(share) = held.shares.get_mut(&self.holder) {
            *share -= self.bytes;
            if *share == 0 {
                held.shares.remove(&self.holder);
            }
        }
    }
}

/// The refusal of who has as much as it may.
pub(crate) fn no_room() -> Refusal {
    Refusal::new(Code::SlowDown, "Please reduce your request rate.")
        .header(RETRY_AFTER, HeaderValue::from_static("1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: usize = 64;
    const ALL: usize = 2048;

    /// Takes as much as a holder gets.
    fn take_all(documents: &Arc<DocumentBudget>, holder: BudgetHolder) -> Vec<DocumentReservation> {
        let next = || documents.room(holder, DOCUMENT);
        std::iter::from_fn(next).collect()
    }

    fn account(id: u64) -> BudgetHolder {
        BudgetHolder::Account(UserId(id))
    }

    fn address(text: &str) -> BudgetHolder {
        BudgetHolder::at(Origin {
            address: Some(text.parse().expect("an address")),
            secure: true,
        })
    }

    #[test]
    fn nobody_takes_what_a_neighbour_needs() {
        let documents = Arc::new(DocumentBudget::of(ALL));
        let first = take_all(&documents, account(1));
        assert_eq!(first.len() * DOCUMENT, ALL / DOCUMENT_SHARES);
        // However many hold all that they may, one more finds room.
        let mut others = Vec::new();
        for id in 2..8 {
            let taken = take_all(&documents, account(id));
            assert!(!taken.is_empty(), "account {id} got nothing");
            others.push(taken);
        }
        drop((first, others));
        assert_eq!(documents.held.lock().all, 0);
        assert!(documents.held.lock().shares.is_empty());
        assert_eq!(take_all(&documents, account(1)).len(), 8);
    }

    #[test]
    fn who_proves_nothing_has_one_share_with_all_the_like() {
        let documents = Arc::new(DocumentBudget::of(ALL));
        let first = take_all(&documents, address("192.0.2.0"));
        let second = take_all(&documents, address("192.0.2.1"));
        assert!(first.len() >= second.len() && !second.is_empty());
        let strangers: Vec<_> = (2..64)
            .flat_map(|n| take_all(&documents, address(&format!("192.0.2.{n}"))))
            .collect();
        assert!(documents.held.lock().unproven <= ALL / DOCUMENT_SHARES);
        assert_eq!(take_all(&documents, account(1)).len(), 8);
        drop((first, second));
        drop(strangers);
        assert_eq!(documents.held.lock().unproven, 0);
        assert_eq!(address("2001:db8::1"), address("2001:db8::2"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }

    #[test]
    fn what_is_larger_than_all_is_refused() {
        let documents = Arc::new(DocumentBudget::of(ALL));
        assert!(documents.room(account(1), ALL + 1).is_none());
        assert!(
            documents
                .room(account(1), ALL / DOCUMENT_SHARES + 1)
                .is_none()
        );
    }
}
