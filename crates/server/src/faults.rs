//! Parts of the server that fail, as `/healthz` reports them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use marquetry_rate_limit::LogLimit;
use tokio::time::Instant;

/// The artifact store: a save has failed.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// The artifact store: it failed when `/readyz` tried it.
pub(crate) const ARTIFACT_STORE: &str = "artifact store";

/// The audit log: it cannot be written.
pub(crate) const AUDIT: &str = "audit";

/// The database of records: it failed when `/readyz` tried it.
pub(crate) const DATABASE: &str = "database";

/// The configuration: it could not be read again.
pub(crate) const CONFIGURATION: &str = "configuration";

/// The pins of definitions: their file cannot be used.
pub(crate) const PINS: &str = "pins";

/// The certificate: its files cannot be used as they are now.
pub(crate) const TLS: &str = "tls";

/// Records and search: a call of a tool has failed.
pub(crate) const KNOWLEDGE: &str = "knowledge";

/// Parts of the server that failed when they were last used, each with its problem.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    problems: Mutex<BTreeMap<&'static str, Fault>>,
    /// By part, so that a part which fails often does not silence another.
    logged: Mutex<BTreeMap<&'static str, LogLimit>>,
}

#[derive(Debug)]
struct Fault {
    problem: String,
    /// When the part failed last.
    failed: Instant,
}

impl Faults {
    /// Records that a part has failed, and logs it at a bounded rate.
    pub(crate) fn raise(&self, part: &'static str, problem: String) {
        if let Some(suppressed) = self.admit(part) {
            tracing::error!(part, problem, suppressed, "part of the server failed");
        }
        self.problems().insert(part, Fault { problem, failed: Instant::now() });
    }

    /// Returns whether a failure may be logged now, and how many were left out since the last one.
    fn admit(&self, part: &'static str) -> Option<u64> {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.entry(part).or_insert_with(|| LogLimit::new(1)).admit()
    }

    /// Records that a part works.
    pub(crate) fn clear(&self, part: &'static str) {
        if self.problems().remove(part).is_some() {
            tracing::info!(part, "part of the server works again");
        }
    }

    /// Returns whether a part has failed within this time and not worked since.
    pub(crate) fn has_within(&self, part: &'static str, time: Duration) -> bool {
        self.problems().get(part).is_some_and(|fault| fault.failed.elapsed() < time)
    }

    /// Returns each failing part with its problem.
    pub(crate) fn list(&self) -> Vec<(&'static str, String)> {
        self.problems().iter().map(|(part, fault)| (*part, fault.problem.clone())).collect()
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<&'static str, Fault>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_lasts_until_its_part_works() {
        let faults = Faults::default();
        faults.raise("artifacts", "disk is full".to_owned());
        faults.raise("artifacts", "disk is full".to_owned());
        faults.clear("knowledge");
        assert_eq!(faults.list(), [("artifacts", "disk is full".to_owned())]);
        faults.clear("artifacts");
        assert_eq!(faults.list(), []);
    }

    #[test]
    fn a_part_that_fails_often_does_not_silence_another() {
        let faults = Faults::default();
        (0..100).for_each(|_| faults.raise("artifacts", "disk is full".to_owned()));
        assert_eq!(faults.admit("artifacts"), None);
        assert_eq!(faults.admit("knowledge"), Some(0));
    }
}
