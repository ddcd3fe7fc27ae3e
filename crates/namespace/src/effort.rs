//! Limits of the names that a listing examines.
//!
//! A page of a listing skips names that it does not show: delete markers, and directories without
//! live entries. Their number is unlimited, so the effort of one page is limited. At the limit the
//! page ends early and says where the next one continues.

use dewar_types::Error;

/// Default for the maximum number of names that a page examines.
pub const LIST_NAMES_MAX: usize = 10_000;

/// Names that a page may look at without showing them before it counts as expensive.
const CHEAP: usize = 2_000;

/// After so many names other tasks get their turn.
const YIELD_EVERY: usize = 256;

/// Limits of the effort for a page of a listing.
#[derive(Clone, Copy)]
pub struct ListBudget<'a> {
    /// Maximum number of names that the page examines, whether it shows them or not; at least one
    /// is examined.
    pub names_max: usize,
    /// Asked once, when the page has skipped more than 2,000 names.
    pub gate: Option<&'a dyn ListGate>,
}

/// Decides whether expensive listings may continue.
pub trait ListGate: Send + Sync {
    /// Called when the listing turns out to be expensive.
    ///
    /// # Errors
    /// The listing ends with this error.
    fn admit(&self) -> Result<(), Error>;
}

impl Default for ListBudget<'_> {
    fn default() -> Self {
        Self {
            names_max: LIST_NAMES_MAX,
            gate: None,
        }
    }
}

/// What a page has cost so far.
pub(super) struct Effort<'a> {
    budget: ListBudget<'a>,
    looked: usize,
    shown: usize,
    admitted: bool,
}

impl<'a> Effort<'a> {
    pub(super) fn new(budget: ListBudget<'a>) -> Self {
        Self {
            admitted: budget.gate.is_none(),
            budget,
            looked: 0,
            shown: 0,
        }
    }

    /// Another name is looked at; `false` when that is one too many.
    pub(super) async fn look(&mut self) -> Result<bool, Error> {
        self.looked += 1;
        if self.looked.is_multiple_of(YIELD_EVERY) {
            tokio::task::yield_now().await;
        }
        if !self.admitted && self.looked.saturating_sub(self.shown) > CHEAP {
            self.admitted = true;
            if let Some(gate) = self.budget.gate {
                gate.admit()?;
            }
        }
        Ok(self.looked <= self.budget.names_max.max(1))
    }

    /// Names that were looked at are shown.
    pub(super) fn show(&mut self, names: usize) {
        self.shown += names;
    }
}
