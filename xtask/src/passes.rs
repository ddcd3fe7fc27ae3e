//! Lists of the tests of a public suite that are known to pass. They may only grow.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Compares what ran (test, outcome) with a list, says what differs, and adds what passes for the
/// first time if `record` says so. `is_part`: not all tests ran, so those that did not are not
/// missed and nothing is added.
///
/// # Errors
/// A test of the list ran, or should have, and did not pass.
pub(crate) fn judge(
    list: &Path,
    ran: &BTreeMap<String, String>,
    is_part: bool,
    record: bool,
) -> Result<()> {
    let listed = std::fs::read_to_string(list).unwrap_or_default();
    let mut listed: Vec<String> = listed.lines().map(str::to_owned).collect();
    let passes = |test: &String| ran.get(test).is_some_and(|outcome| outcome == "passed");
    let (mut lost, mut new) = (Vec::new(), Vec::new());
    for test in &listed {
        let is_asked = !is_part || ran.contains_key(test);
        if is_asked && !passes(test) {
            lost.push(test.clone());
        }
    }
    for test in ran.keys().filter(|test| passes(test)) {
        if !listed.contains(test) {
            new.push(test.clone());
        }
    }
    for test in &new {
        println!("passes now: {test}");
    }
    for test in &lost {
        println!("passed once, not now: {test}");
    }
    if record && !is_part {
        listed.extend(new);
        listed.sort();
        std::fs::write(list, listed.join("\n") + "\n")
            .with_context(|| format!("write {}", list.display()))?;
    }
    let passed = ran.keys().filter(|test| passes(test)).count();
    println!("passed {passed} of {}", ran.len());
    if lost.is_empty() {
        return Ok(());
    }
    bail!("{} tests that passed once do not pass any more", lost.len())
}
