//! How fast text is searched for blocks: `cargo run --release --example speed`.
//!
//! Texts of 1 MB, gone through 64 times; the best of five rounds.

use std::{hint::black_box, time::Instant};

use marquetry_context_blocks::{Filter, blocks, neutralize};

const PASSES: usize = 64;

fn main() {
    let prose =
        "The quick brown fox jumps over the lazy dog, and 3 is more than 2: nobody doubts it.\n";
    let html = "<p class=\"x\"><a href=\"https://example.org/a\">link</a>: <b>bold</b></p>\n";
    let block = "<mcp:context type=\"resource\" uri=\"am7://reminder/u1\" ephemeral=\"true\">\n{\"schema\":\"s\",\"data\":{}}\n</mcp:context>\n";
    let spaced = format!("{}{block}", &prose.repeat(48)[..4096 - block.len()]);
    for (name, unit) in [
        ("prose without blocks", prose),
        ("HTML without blocks", html),
        ("a block every 4 KB", &spaced),
    ] {
        let text = unit.repeat(1_000_000 / unit.len());
        measure(&format!("{name}: find"), &text, |text| blocks(text).count());
        measure(&format!("{name}: filter"), &text, |text| {
            Filter::default().apply(text).content.len()
        });
        measure(&format!("{name}: neutralize"), &text, |text| neutralize(text).len());
    }
}

fn measure(name: &str, text: &str, work: impl Fn(&str) -> usize) {
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PASSES {
                black_box(work(black_box(text)));
            }
            start.elapsed()
        })
        .min()
        .expect("there are five");
    println!("{name:36} {:6.2} GB/s", (text.len() * PASSES) as f64 / best.as_secs_f64() / 1e9);
}
