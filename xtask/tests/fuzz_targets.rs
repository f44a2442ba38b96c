//! Each fuzz target of `fuzz/` calls a function that exists, and its corpus is replayed.

use std::{fs, path::Path};

/// Only nightly compilers build the targets; this test checks with the stable one that the called
/// functions exist.
#[test]
fn each_target_calls_a_function_of_a_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let call = regex::Regex::new(r"marquetry_(\w+)::fuzz::(\w+)\(data\)").unwrap();
    let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    for entry in fs::read_dir(root.join("fuzz/targets")).unwrap() {
        let path = entry.unwrap().path();
        let target = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let parts = call.captures(&text).unwrap_or_else(|| panic!("{target} calls nothing"));
        let file = format!("crates/{}/src/fuzz.rs", parts[1].replace('_', "-"));
        let functions = fs::read_to_string(root.join(&file)).unwrap();
        let function = format!("pub fn {}(", &parts[2]);
        assert!(functions.contains(&function), "{file} has no `{function}`");
        assert!(functions.contains(&format!("(\"{target}\", ")), "{file} does not replay {target}");
        assert!(manifest.contains(&format!("path = \"targets/{target}.rs\"")), "{target}");
    }
}
