//! The pins of upstreams, and lists that are compared with them.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_pins::{Definition, DefinitionHash, Kind, PinEvent, PinMode, PinStore, Verdict};
use tokio::sync::Notify;

use crate::listing::Listing;

/// Receives changes of what upstreams say, and of pins.
#[derive(Clone)]
pub struct PinListener(pub(crate) Arc<dyn Fn(&PinEvent) + Send + Sync>);

impl PinListener {
    /// Creates a listener from a function, which must not block.
    #[must_use]
    pub fn new(listener: impl Fn(&PinEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }
}

impl fmt::Debug for PinListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PinListener")
    }
}

/// The pins of all upstreams.
#[derive(Debug)]
pub(crate) struct PinKeeper {
    pub(crate) store: PinStore,
    /// Notified when an upstream has something to be stored.
    pub(crate) wake: Notify,
    /// The last problem that was logged.
    problem: Mutex<Option<String>>,
}

impl PinKeeper {
    /// Reads the file. This blocks: call it at the start of a program.
    pub(crate) fn open(path: &Path) -> Self {
        let keeper =
            Self { store: PinStore::open(path), wake: Notify::new(), problem: Mutex::default() };
        keeper.log_problem();
        keeper
    }

    /// Looks at the file now.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Logs a problem once.
    pub(crate) fn log_problem(&self) {
        let problem = self.store.problem();
        let mut logged = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = problem.as_ref().filter(|it| Some(*it) != logged.as_ref()) {
            tracing::error!(problem, "the file of pins cannot be used");
        }
        *logged = problem;
    }
}

/// A definition that differs from its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unpinned {
    /// Its kind.
    pub kind: Kind,
    /// Its name at the upstream; empty for instructions.
    pub name: String,
    /// How it differs.
    pub verdict: Verdict,
}

impl Unpinned {
    /// Returns what is wrong with it, for people.
    #[must_use]
    pub fn problem(&self) -> &'static str {
        match self.verdict {
            Verdict::Changed => "has changed",
            Verdict::New => "is new",
            _ => "cannot be compared, since the file of pins cannot be used",
        }
    }
}

/// The definitions of an upstream that differ from their pins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinReport {
    /// They, in the order of the upstream's lists.
    pub unpinned: Vec<Unpinned>,
    /// Whether they are held back.
    pub is_refused: bool,
}

/// The lists of an upstream: those that it has sent, and those that are offered.
#[derive(Default)]
pub(crate) struct PinnedListing {
    pub(crate) sent: Arc<Listing>,
    /// The same lists unless something is held back.
    pub(crate) offered: Arc<Listing>,
    pub(crate) report: Arc<PinReport>,
    /// Whether its definitions are to be stored.
    pub(crate) is_unstored: bool,
    /// The hashes of the definitions that were stored last.
    pub(crate) stored: Vec<DefinitionHash>,
}

impl PinnedListing {
    /// Creates lists that nothing was compared with yet.
    pub(crate) fn new(sent: Listing) -> Self {
        Self { sent: Arc::new(sent), ..Self::default() }
    }

    /// Compares the lists with their pins. If they have just arrived (`is_new`), what differs is
    /// to be stored.
    pub(crate) fn compare(
        &mut self,
        name: &str,
        mode: PinMode,
        keeper: Option<&PinKeeper>,
        is_new: bool,
    ) {
        let Some(keeper) = keeper.filter(|_| mode != PinMode::Off) else {
            self.offered = self.sent.clone();
            self.report = Arc::default();
            return;
        };
        let definitions = definitions_of(&self.sent);
        let verdicts = keeper.store.verdicts(name, &definitions);
        let is_pinned = verdicts.iter().all(|verdict| *verdict == Verdict::Pinned);
        // A list that expires every few seconds is stored once.
        let is_other =
            is_new && !definitions.iter().map(Definition::hash).eq(self.stored.iter().copied());
        // Somebody may have removed the pins.
        let is_first = verdicts.contains(&Verdict::FirstSight);
        if is_first || (is_other && (!is_pinned || keeper.store.has_waiting(name))) {
            self.is_unstored = true;
            keeper.wake();
        }
        let is_refused = mode == PinMode::Refuse;
        let unpinned = definitions.iter().zip(&verdicts).filter(|(_, verdict)| match verdict {
            // The log and health name the file.
            Verdict::Unknown => is_refused,
            verdict => !verdict.is_trusted(),
        });
        let unpinned = unpinned.map(|(definition, verdict)| Unpinned {
            kind: definition.kind(),
            name: definition.name().to_owned(),
            verdict: *verdict,
        });
        let report = PinReport { unpinned: unpinned.collect(), is_refused };
        if is_refused && !report.unpinned.is_empty() {
            self.offered = Arc::new(trusted(&self.sent, &verdicts));
        } else {
            self.offered = self.sent.clone();
        }
        if report != *self.report {
            log(name, &report);
            self.report = Arc::new(report);
        }
    }
}

/// Returns what an upstream tells models.
pub(crate) fn definitions_of(listing: &Listing) -> Vec<Definition> {
    let instructions = listing.instructions.iter().map(|text| Definition::instructions(text));
    let tools = listing.tools.iter().map(|tool| Definition::tool(&tool.name, tool));
    let prompts = listing.prompts.iter().map(|prompt| Definition::prompt(&prompt.name, prompt));
    instructions.chain(tools).chain(prompts).flatten().collect()
}

/// Returns lists without the definitions that are not trusted. The verdicts have the order of
/// [`definitions_of`]; every definition is JSON, as it was read from JSON.
fn trusted(sent: &Listing, verdicts: &[Verdict]) -> Listing {
    let mut is_trusted = verdicts.iter().map(|verdict| verdict.is_trusted());
    let mut offered = sent.clone();
    if sent.instructions.is_some() && !is_trusted.next().unwrap_or_default() {
        offered.instructions = None;
    }
    offered.tools.retain(|_| is_trusted.next().unwrap_or_default());
    offered.prompts.retain(|_| is_trusted.next().unwrap_or_default());
    offered
}

fn log(upstream: &str, report: &PinReport) {
    /// More are counted alone.
    const MAX_SHOWN: usize = 10;
    if report.unpinned.is_empty() {
        return;
    }
    let shown = report.unpinned.iter().take(MAX_SHOWN).map(|it| match it.kind {
        Kind::Instructions => format!("its instructions ({})", it.problem()),
        kind => format!("{kind} {:?} ({})", it.name, it.problem()),
    });
    let definitions = shown.collect::<Vec<_>>().join(", ");
    let count = report.unpinned.len();
    if report.is_refused {
        tracing::warn!(
            upstream,
            count,
            definitions,
            "definitions differ from their pins and are not offered; see `marquetry pins diff`"
        );
    } else {
        tracing::warn!(
            upstream,
            count,
            definitions,
            "definitions differ from their pins; see `marquetry pins diff`"
        );
    }
}

#[cfg(test)]
mod tests {
    use marquetry_protocol::types::{Prompt, Tool};

    use super::*;

    fn listing(tools: &[(&str, &str)], instructions: Option<&str>) -> Listing {
        let tools = tools.iter().map(|(name, description)| Tool {
            name: (*name).to_owned(),
            description: Some((*description).to_owned()),
            ..Tool::default()
        });
        Listing {
            tools: tools.collect(),
            prompts: vec![Prompt { name: "p".to_owned(), ..Prompt::default() }],
            instructions: instructions.map(str::to_owned),
            ..Listing::default()
        }
    }

    /// Pins a list, and returns another one as it is offered.
    fn offered(mode: PinMode, first: Listing, then: Listing) -> PinnedListing {
        let folder = tempfile::tempdir().unwrap();
        let keeper = PinKeeper::open(&folder.path().join("pins.json"));
        let mut lists = PinnedListing::new(first);
        lists.compare("a", mode, Some(&keeper), true);
        assert!(Arc::ptr_eq(&lists.sent, &lists.offered), "the first sight is trusted");
        assert_eq!(lists.is_unstored, mode != PinMode::Off);
        keeper.store.record("a", &definitions_of(&lists.sent)).unwrap();
        lists = PinnedListing::new(then);
        lists.compare("a", mode, Some(&keeper), true);
        lists
    }

    #[test]
    fn a_list_as_before_is_offered_without_a_copy() {
        let list = listing(&[("t", "d"), ("u", "d")], Some("i"));
        for mode in [PinMode::Off, PinMode::Warn, PinMode::Refuse] {
            let lists = offered(mode, list.clone(), list.clone());
            assert!(Arc::ptr_eq(&lists.sent, &lists.offered) && !lists.is_unstored, "{mode:?}");
            assert!(lists.report.unpinned.is_empty(), "{mode:?}");
        }
    }

    #[test]
    fn what_differs_is_reported_or_held_back() {
        let first = listing(&[("t", "d"), ("u", "d")], Some("i"));
        let then = listing(&[("t", "e"), ("u", "d"), ("v", "d")], Some("j"));
        let lists = offered(PinMode::Warn, first.clone(), then.clone());
        assert!(Arc::ptr_eq(&lists.sent, &lists.offered) && lists.is_unstored);
        let names: Vec<_> =
            lists.report.unpinned.iter().map(|it| (it.name.as_str(), it.problem())).collect();
        assert_eq!(names, [("", "has changed"), ("t", "has changed"), ("v", "is new")]);
        assert!(!lists.report.is_refused);
        let lists = offered(PinMode::Refuse, first.clone(), then);
        assert_eq!(*lists.offered, listing(&[("u", "d")], None));
        assert!(lists.report.is_refused && lists.report.unpinned.len() == 3);
        // Definitions that disappear are no difference.
        let lists = offered(PinMode::Refuse, first, listing(&[("u", "d")], None));
        assert!(Arc::ptr_eq(&lists.sent, &lists.offered));
    }

    #[test]
    fn a_list_that_differs_is_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = PinKeeper::open(&folder.path().join("pins.json"));
        let mut lists = PinnedListing::new(listing(&[("t", "d")], None));
        keeper.store.record("a", &definitions_of(&listing(&[("t", "e")], None))).unwrap();
        lists.compare("a", PinMode::Warn, Some(&keeper), true);
        assert!(lists.is_unstored);
        lists.is_unstored = false;
        lists.stored = definitions_of(&lists.sent).iter().map(Definition::hash).collect();
        lists.compare("a", PinMode::Warn, Some(&keeper), true);
        assert!(!lists.is_unstored);
    }
}
