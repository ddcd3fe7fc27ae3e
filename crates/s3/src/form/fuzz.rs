//! Fuzz function for the policies of forms.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dewar_types::Timestamp;

use super::policy::Policy;
use super::read::FormFields;

/// Fuzzes the policy document, as JSON and as the value of the field. No input may panic, and an
/// expired policy never allows anything.
pub fn fuzz_policy(data: &[u8]) {
    let fields = FormFields::default();
    let late = Timestamp::from_secs(u64::MAX);
    let packed = STANDARD.encode(data);
    let raw = std::str::from_utf8(data).unwrap_or_default();
    for document in [packed.as_str(), raw] {
        if let Ok(policy) = Policy::parse(document) {
            assert!(policy.check(&fields, "bucket", late).is_err());
        }
    }
}
