//! How fast text is searched for blocks; prints JSON for `cargo xtask bench context-blocks`.
//!
//! `cargo run --release -p marquetry-context-blocks --example speed`: texts of 1 MB, gone through
//! 32 times in each turn, by everything in turns; the best turn counts. Time is that of the
//! processor, so that other programs do not count.

use std::{hint::black_box, sync::LazyLock};

use marquetry_context_blocks::{Filter, blocks, neutralize};
use memchr::memmem;
use regex::Regex;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const PASSES: usize = 32;
const TURNS: usize = 7;

/// The patterns by which seed 003 finds blocks (parts 6 and 7).
static SEED: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    [r"(?is)<mcp:context([^>]*)>(.*?)</mcp:context>", r"(?i)<mcp:resource([^>]*?)/>"]
        .map(|pattern| Regex::new(pattern).expect("the patterns are regular expressions"))
});

/// The work on a text. It returns a number, so that the compiler does not remove it.
type Work = fn(&str) -> usize;

const WORKS: [(&str, Work); 6] = [
    ("memmem for `<mcp:`", |text| memmem::find_iter(text.as_bytes(), b"<mcp:").count()),
    ("seed's regular expressions", |text| SEED.iter().map(|it| it.find_iter(text).count()).sum()),
    ("find", |text| blocks(text).count()),
    ("find, and read all JSON", |text| {
        blocks(text).filter(|block| block.payload().data.is_object()).count()
    }),
    ("filter", |text| Filter::default().apply(text).content.len()),
    ("neutralize", |text| neutralize(text).len()),
];

fn main() {
    let prose =
        "The quick brown fox jumps over the lazy dog, and 3 is more than 2: nobody doubts it.\n";
    let html = "<p class=\"x\"><a href=\"https://example.org/a\">link</a>: <b>bold</b></p>\n";
    let block = "<mcp:context type=\"resource\" uri=\"am7://reminder/u1\" ephemeral=\"true\">\n{\"schema\":\"s\",\"data\":{}}\n</mcp:context>\n";
    let spaced = format!("{}{block}", &prose.repeat(48)[..4096 - block.len()]);
    for (name, unit) in
        [("prose, no blocks", prose), ("HTML, no blocks", html), ("a block every 4 KB", &*spaced)]
    {
        let text = unit.repeat(1_000_000 / unit.len());
        let mut best = [f64::INFINITY; WORKS.len()];
        for _ in 0..TURNS {
            for ((_, work), best) in WORKS.iter().zip(&mut best) {
                let start = cpu();
                for _ in 0..PASSES {
                    black_box(work(black_box(&text)));
                }
                *best = best.min(cpu() - start);
            }
        }
        for ((work, _), best) in WORKS.iter().zip(best) {
            let rate = (text.len() * PASSES) as f64 / best / 1e9;
            println!("{}", json!({"text": name, "work": work, "gigabytes_per_second": rate}));
        }
    }
}

/// Returns the CPU time of this process in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
