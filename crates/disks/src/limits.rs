//! Limits that several parts of the crate share.

use std::time::Duration;

/// Time that a blob outlives its last name, so that readers who have just looked it up find it.
pub(crate) const FREE_GRACE: Duration = Duration::from_secs(5);
