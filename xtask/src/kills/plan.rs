//! The victims and moments, derived from the seed alone.

use std::{fmt, path::Path, path::PathBuf};

use marquetry_scenarios::{Revision, Transport};
use serde::{Deserialize, Serialize};

/// One kill.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) number: u32,
    pub(super) victim: Victim,
    pub(super) transport: Transport,
    pub(super) revision: Revision,
    pub(super) program: Program,
    /// Milliseconds from the start of the first process to the kill. A victim that starts later is
    /// killed when it has started.
    pub(super) moment_ms: u64,
}

/// The processes that are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Victim {
    Client,
    Server,
    /// An upstream's program.
    Upstream,
    /// The process that guards an upstream's program.
    Guard,
    ClientAndServer,
}

/// The kind of the upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Program {
    /// Exits when its input ends.
    Polite,
    /// Exits neither when its input ends nor when it gets SIGTERM.
    Stubborn,
    /// Has started a process that does not exit by itself.
    Parent,
    /// Has started a process that does not exit by itself, in another process group and session.
    ParentOfRunaway,
    /// A server of another project: the script that Node.js runs.
    Real(PathBuf),
}

impl Victim {
    pub(super) const ALL: [Self; 5] =
        [Self::Client, Self::Server, Self::Upstream, Self::Guard, Self::ClientAndServer];
}

/// Returns `kills` plans, and six with real servers if their script is installed.
pub(super) fn plans(seed: u64, kills: u32, real: Option<&Path>) -> Vec<Plan> {
    let programs = [Program::Polite, Program::Stubborn, Program::Parent, Program::ParentOfRunaway];
    let mut all = Vec::new();
    for victim in Victim::ALL {
        for transport in [Transport::Stdio, Transport::Http] {
            for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
                for program in &programs {
                    // If the guard that adopted a detached process is killed, no process can find
                    // the detached one any more.
                    if (victim, program) == (Victim::Guard, &Program::ParentOfRunaway) {
                        continue;
                    }
                    all.push((victim, transport, revision, program.clone()));
                }
            }
        }
    }
    let mut random = Random(seed);
    let mut plans = Vec::new();
    while plans.len() < kills as usize {
        // Each round has every combination once, in another order.
        for last in (1..all.len()).rev() {
            all.swap(last, random.below(last as u64 + 1) as usize);
        }
        let room = kills as usize - plans.len();
        plans.extend(all.iter().take(room).cloned());
    }
    if let Some(script) = real {
        for victim in [Victim::Client, Victim::Server, Victim::Upstream] {
            for transport in [Transport::Stdio, Transport::Http] {
                let program = Program::Real(script.to_owned());
                plans.push((victim, transport, Revision::V2026_07_28, program));
            }
        }
    }
    (1..)
        .zip(plans)
        .map(|(number, (victim, transport, revision, program))| {
            // Half of the kills are during the start, which is short; a real server starts more
            // slowly.
            let slow = if matches!(program, Program::Real(_)) { 5 } else { 1 };
            let latest = if random.below(2) == 0 { 250 } else { 1_200 };
            let moment_ms = random.below(latest * slow);
            Plan { number, victim, transport, revision, program, moment_ms }
        })
        .collect()
}

/// SplitMix64: numbers that depend only on the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, victim, transport, revision, program, moment_ms } = self;
        write!(f, "#{number}: {victim} after {moment_ms} ms, {transport}, {revision}, {program}")
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Upstream => "upstream",
            Self::Guard => "guard",
            Self::ClientAndServer => "client and server",
        })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Polite => "polite upstream",
            Self::Stubborn => "stubborn upstream",
            Self::Parent => "upstream with a child",
            Self::ParentOfRunaway => "upstream with a runaway child",
            Self::Real(_) => "real upstream",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_kills_and_every_combination() {
        assert_eq!(descriptions(7), descriptions(7));
        assert_ne!(descriptions(7), descriptions(8));
        let mut first: Vec<_> = plans(7, 76, None)
            .iter()
            .map(|plan| {
                format!("{} {} {} {}", plan.victim, plan.transport, plan.revision, plan.program)
            })
            .collect();
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 76);
        assert_eq!(plans(7, 200, Some(Path::new("x"))).len(), 206);
    }

    fn descriptions(seed: u64) -> Vec<String> {
        plans(seed, 200, None).iter().map(Plan::to_string).collect()
    }
}
