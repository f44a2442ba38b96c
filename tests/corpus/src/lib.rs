//! Feeds a fuzz target its corpus, and inputs that differ from it by a little, with any toolchain.
//!
//! `fuzz/run` is the long run, in which coverage leads the way; this is the short one, in
//! the ordinary tests.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// What a target does with its input: it panics when something is wrong.
pub type Target = fn(&[u8]);

/// How long changed inputs are tried on one target. The corpus itself is replayed whole.
const TIME: Duration = Duration::from_millis(1_500);
/// The most changed inputs of one target.
const CHANGED_INPUTS: u64 = 3_000;
/// The longest changed input, as in `fuzz/run`.
const MAX_BYTES: usize = 4_096;
/// The variable that chooses other changes, as it chooses other values for proptest.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Replays the corpus of each target below `fuzz/corpus`, then tries changed inputs.
///
/// # Panics
///
/// When a target does, and when a target has no corpus.
pub fn replay(targets: &[(&str, Target)]) {
    let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for &(target, run) in targets {
        let corpus = read(target);
        assert!(!corpus.is_empty(), "no corpus of {target}");
        for (path, input) in &corpus {
            println!("{}", path.display());
            run(input);
        }
        let inputs: Vec<&[u8]> = corpus.iter().map(|(_, input)| &input[..]).collect();
        let end = Instant::now() + TIME;
        for number in 0..CHANGED_INPUTS {
            if Instant::now() >= end {
                break;
            }
            let input = change(&inputs, &mut Random::new(seed, number));
            let _reporter = Reporter { target, input: &input };
            run(&input);
        }
    }
}

fn read(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|it| panic!("{}: {it}", folder.display()));
    let mut inputs: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry of the corpus").path();
            let input = fs::read(&path).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
            (path, input)
        })
        .collect();
    inputs.sort();
    inputs
}

/// Says which input a target panicked on.
struct Reporter<'a> {
    target: &'a str,
    input: &'a [u8],
}

impl Drop for Reporter<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (target, input) = (self.target, self.input.escape_ascii());
            eprintln!("{target} fails on this input; put it into fuzz/corpus/{target}: {input}");
        }
    }
}

/// One of the inputs with one to four changes.
fn change(inputs: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut input = inputs[random.below(inputs.len())].to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let end = at + random.below((input.len() - at).min(64) + 1);
        match random.below(7) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.byte(),
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            4 => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            5 => {
                let other = inputs[random.below(inputs.len())];
                let start = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[start..]);
            }
            _ => input.insert(at, random.byte()),
        }
    }
    input.truncate(MAX_BYTES);
    input
}

/// SplitMix64, which is enough to choose changes.
struct Random(u64);

impl Random {
    fn new(seed: u64, number: u64) -> Self {
        Self(seed.wrapping_add(number.wrapping_mul(0xA076_1D64_78BD_642F)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Any byte, and often one that means something to a parser.
    fn byte(&mut self) -> u8 {
        const SPECIAL: &[u8] = b"\0\n\r\t \"'\\<>&%/:;,.?#{}[]()=-+0919az\x7f\x80\xc3\xe2\xf0\xff";
        if self.below(2) == 0 { SPECIAL[self.below(SPECIAL.len())] } else { self.next() as u8 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn changes_are_many_and_come_again() {
        let inputs = [b"one".as_slice(), b"another"];
        let all = || (0..200).map(|number| change(&inputs, &mut Random::new(7, number)));
        assert!(all().collect::<HashSet<_>>().len() > 150);
        assert!(all().eq(all()));
        assert!(all().zip(0..200).any(|(it, n)| it != change(&inputs, &mut Random::new(8, n))));
    }

    #[test]
    #[should_panic(expected = "is found")]
    fn a_target_that_panics_on_few_inputs_is_noticed() {
        replay(&[("uri", |input| assert!(!input.contains(&b'\xff'), "it is found"))]);
    }
}
