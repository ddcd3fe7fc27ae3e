//! Problems, worded for the administrator of the server.

use serde::{Deserialize, Serialize};

/// Something that an administrator should look after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthIssue {
    /// The problem, as a sentence without a full stop.
    pub what: String,
    /// The action to take.
    pub advice: String,
}
