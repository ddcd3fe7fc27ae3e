//! Memory limits for request documents: XML and the forms of IAM, which are read as a whole before
//! a verb uses them.
//!
//! All documents in memory share one limit. No caller may take so much of it that others are
//! refused. Callers are counted by account, or by address if the account is not known. The share of
//! a caller is a quarter of the limit, and at most half of the memory that the others leave free.
//! So a new caller finds memory even if several callers use their whole share with bodies that
//! arrive a byte at a time. All callers that have not authenticated have one share together,
//! however many addresses they have. They divide it by the same rule, and so do the persons for whom
//! one issuer vouches.
//!
//! A document that does not fit is refused at once instead of waiting. A waiting request would hold
//! a connection, and its client knows better when to retry.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use dewar_auth::fair_share::ShareOwner;
use dewar_auth::{Caller, Origin, client_network};
use dewar_types::UserId;
use parking_lot::Mutex;

use crate::limits::{DOCUMENT_SHARES, DOCUMENTS_BYTES_MAX};

/// The holder of memory for documents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetHolder {
    /// An account.
    Account(UserId),
    /// A person for whom the issuer with that account vouches.
    Person(UserId, ShareOwner),
    /// An address without authentication.
    Address(Option<IpAddr>),
}

impl BudgetHolder {
    /// The holder at an address.
    #[must_use]
    pub fn at(origin: Origin) -> Self {
        Self::Address(origin.address.map(client_network))
    }

    /// A caller.
    #[must_use]
    pub fn of(caller: &Caller) -> Self {
        match caller.user() {
            Some(user) => match ShareOwner::of(caller) {
                person if person.is_person() => Self::Person(user.account, person),
                _ => Self::Account(user.account),
            },
            None => Self::at(caller.origin()),
        }
    }

    /// The holder that also counts what this one has, and shares it out.
    fn group(&self) -> Option<Self> {
        match self {
            Self::Person(account, _) => Some(Self::Account(*account)),
            Self::Account(_) | Self::Address(_) => None,
        }
    }
}

/// Bytes that are held.
#[derive(Debug, Default)]
struct ReservedBytes {
    all: usize,
    unproven: usize,
    /// The bytes of each holder. A holder without bytes is not in the map.
    shares: BTreeMap<BudgetHolder, usize>,
}

/// The memory for the documents of a front.
#[derive(Debug)]
pub struct DocumentBudget {
    bytes: usize,
    held: Mutex<ReservedBytes>,
}

/// Reserved memory, released on drop.
#[derive(Debug)]
pub struct DocumentReservation {
    documents: Arc<DocumentBudget>,
    holder: BudgetHolder,
    bytes: usize,
}

impl Default for DocumentBudget {
    fn default() -> Self {
        Self::of(DOCUMENTS_BYTES_MAX)
    }
}

impl DocumentBudget {
    fn of(bytes: usize) -> Self {
        Self {
            bytes,
            held: Mutex::new(ReservedBytes::default()),
        }
    }

    /// Reserves memory for a document of `bytes`; `None` if the holder's share is used up.
    #[must_use]
    pub fn room(
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
        let group = holder.group();
        let grouped = group.as_ref().and_then(|group| held.shares.get(group));
        let grouped = grouped.copied().unwrap_or(0) + bytes;
        if group.is_some() {
            most = most.min(quarter.checked_sub(grouped)? / 2);
        }
        if share > most {
            return None;
        }
        if let Some(group) = group {
            held.shares.insert(group, grouped);
        }
        held.all = all;
        held.unproven = unproven;
        held.shares.insert(holder.clone(), share);
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
        for holder in std::iter::once(self.holder.clone()).chain(self.holder.group()) {
            if let Some(share) = held.shares.get_mut(&holder) {
                *share -= self.bytes;
                if *share == 0 {
                    held.shares.remove(&holder);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: usize = 64;
    const ALL: usize = 2048;

    /// Takes as much as a holder gets.
    fn take_all(documents: &Arc<DocumentBudget>, holder: BudgetHolder) -> Vec<DocumentReservation> {
        let next = || documents.room(holder.clone(), DOCUMENT);
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
    fn persons_of_an_issuer_share_what_one_account_has() {
        let documents = Arc::new(DocumentBudget::of(ALL));
        let person = |name: &str| BudgetHolder::Person(UserId(1), ShareOwner::named(name));
        let eve = take_all(&documents, person("eve"));
        let alice = take_all(&documents, person("alice"));
        assert!(eve.len() >= alice.len() && !alice.is_empty());
        let many: Vec<_> = (0..64)
            .flat_map(|n| take_all(&documents, person(&n.to_string())))
            .collect();
        assert!(documents.held.lock().all <= ALL / DOCUMENT_SHARES);
        assert_eq!(take_all(&documents, account(2)).len(), 8);
        drop((eve, alice));
        drop(many);
        assert!(documents.held.lock().shares.is_empty());
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
