//! `kills` finds a process that remains after a kill, in any process group or session.

#![cfg(target_os = "linux")]

use std::process::Command;

#[test]
fn a_runaway_is_noticed_by_its_ancestry() {
    let mut kills = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output =
        kills.args(["kills", "--seed", "1", "--kills", "2", "--sabotage"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("processes remain after 10 s") && said.contains("sleep 1000"), "{said}");
    assert!(said.contains("rerun: cargo xtask kills --seed 1 --only 1"), "{said}");
}
