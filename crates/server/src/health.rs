//! What is wrong, in words for whoever looks after the server.

use serde::{Deserialize, Serialize};

/// Something that an administrator should look after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthIssue {
    /// What is wrong, as a sentence without a full stop.
    pub what: String,
    /// What to do.
    pub advice: String,
}
