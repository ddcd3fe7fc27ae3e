//! The simulation as CI calls it. That this test exists also makes `cargo test --workspace` build
//! its binary for `cargo xtask sim`.

use std::process::Command;

fn simulation(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_dewar-sim"))
        .args(args)
        .output()
        .expect("the simulation runs")
}

#[test]
fn a_seed_that_passes_succeeds_and_one_without_a_safeguard_fails() {
    assert!(simulation(&["--seed", "3"]).status.success());
    let without = simulation(&["--seeds", "12", "--off", "durable writes of the journal"]);
    assert!(!without.status.success());
    let said = String::from_utf8_lossy(&without.stdout);
    assert!(said.contains("cargo xtask sim --seed"), "{said}");
}
