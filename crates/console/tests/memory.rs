//! The record of calls keeps its bound. What it counts itself is compared with what the system says
//! of the process, so this is the only test of its program.
#![cfg(target_os = "linux")]

use marquetry_console::{Console, NewCall, Options, Outcome};
use serde_json::{json, value::to_raw_value};

/// The memory that the process has in use.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn calls_take_no_more_memory_than_is_set() {
    const LIMIT: usize = 8 << 20;
    let mut options = Options::default();
    options.max_calls = 1_000_000;
    options.max_calls_bytes = LIMIT;
    let console = Console::new(options);
    // Answers of a few bytes, with everything around them as long as an upstream can make it.
    let items: Vec<_> =
        (0..1_000).map(|at| json!({"index": at, "kind": "text", "bytes": 2})).collect();
    let report = json!({"message": "saved", "items": items}).to_string();
    let decided = vec![json!({"setting": "a", "value": 1, "effect": "x".repeat(200)}); 5];
    let before = resident_bytes();
    for number in 0..20_000 {
        let names = (0..50).map(|at| format!("a-secret-member-with-a-long-name-{at}")).collect();
        let call = console.calls().begin(NewCall::new("tool").secret_names(names));
        call.upstream_said(&to_raw_value("ok").unwrap());
        call.decided((number % 10 == 0).then_some(&*report), decided.clone());
        (0..64).for_each(|_| call.step("a step"));
        call.end(Outcome::GatewayError { message: "x".repeat(4 << 10) }, None);
    }
    let grown = resident_bytes().saturating_sub(before);
    // The allocator keeps some of its own. Without the counts it is ten times the limit and more.
    assert!(grown < 3 * LIMIT, "{grown} bytes");
    let kept = console.calls().stats(&marquetry_console::Viewer::everything())["calls"].clone();
    assert!(kept.as_u64().is_some_and(|kept| kept > 200), "{kept}");
}
