//! stub
use crate::bench::result::Campaign;
pub(super) fn plots(_c: &Campaign) -> Vec<(String, String)> {
    Vec::new()
}
