//! The runner as CI calls it. That this test exists also makes `cargo test --workspace` build it
//! for `cargo xtask fuzz`.

use std::process::Command;

#[test]
fn an_unknown_target_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_dewar-fuzz"))
        .arg("no-such-target")
        .output()
        .expect("the runner runs");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no-such-target"), "{said}");
}
