//! Pins of what upstreams tell models: which of it differs, and which is therefore held back.
//!
//! A list is compared with its pins when it arrives, before clients see it, and without I/O. One
//! task stores what was seen first or differs, and compares again when the file has changed.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use marquetry_pins::{
    Definition, DefinitionHash, Kind, PinError, PinEvent, PinMode, PinStore, Verdict,
};
use marquetry_protocol::RpcError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{CallFailure, Catalog, Gateway, ItemKind, Upstream, listing::Listing};

/// Time between two looks at the file.
const WATCH: Duration = Duration::from_secs(2);

/// Receives changes of what upstreams say, and of pins.
#[derive(Clone)]
pub struct PinListener(Arc<dyn Fn(&PinEvent) + Send + Sync>);

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
    store: PinStore,
    /// Notified when an upstream has something to be stored.
    wake: Notify,
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
    fn log_problem(&self) {
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
    is_unstored: bool,
    /// The hashes of the definitions that were stored last.
    stored: Vec<DefinitionHash>,
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
            self.offered = Arc::new(trusted(&self.sent, &definitions, &verdicts));
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
fn definitions_of(listing: &Listing) -> Vec<Definition> {
    let instructions = listing.instructions.iter().map(|text| Definition::instructions(text));
    let tools = listing.tools.iter().map(|tool| Definition::tool(&tool.name, tool));
    let prompts = listing.prompts.iter().map(|prompt| Definition::prompt(&prompt.name, prompt));
    instructions.chain(tools).chain(prompts).flatten().collect()
}

/// Returns lists without the definitions that are not trusted.
fn trusted(sent: &Listing, definitions: &[Definition], verdicts: &[Verdict]) -> Listing {
    let mut is_trusted = definitions.iter().zip(verdicts).map(|(it, verdict)| {
        // What is no JSON has no definition, and cannot be sent to clients either.
        (it.kind(), it.name(), verdict.is_trusted())
    });
    let mut offered = sent.clone();
    if sent.instructions.is_some() && !is_trusted.next().is_some_and(|(_, _, it)| it) {
        offered.instructions = None;
    }
    offered.tools.retain(|_| is_trusted.next().is_some_and(|(_, _, it)| it));
    offered.prompts.retain(|_| is_trusted.next().is_some_and(|(_, _, it)| it));
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

impl Upstream {
    /// Returns what differs from its pins.
    #[must_use]
    pub fn pins(&self) -> Arc<PinReport> {
        self.lists().report.clone()
    }

    /// Compares its lists with their pins again. Returns whether others are offered now.
    pub(crate) fn compare_again(&self, is_new: bool) -> bool {
        let mode = self.settings().options.pins;
        let mut lists = self.lists_mut();
        let before = lists.offered.clone();
        lists.compare(self.name(), mode, self.pin_keeper(), is_new);
        *before != *lists.offered
    }

    /// Returns the definitions that are to be stored.
    fn take_unstored(&self) -> Option<Vec<Definition>> {
        let mut lists = self.lists_mut();
        if !std::mem::take(&mut lists.is_unstored) {
            return None;
        }
        let definitions = definitions_of(&lists.sent);
        lists.stored = definitions.iter().map(Definition::hash).collect();
        Some(definitions)
    }
}

/// Stores definitions, and looks at the file, until the gateway stops.
pub(crate) async fn keep_pins(
    gateway: Weak<Gateway>,
    keeper: Arc<PinKeeper>,
    stopping: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = keeper.wake.notified() => {}
            () = tokio::time::sleep(WATCH) => {}
        }
        let Some(gateway) = gateway.upgrade() else { return };
        gateway.store_pins(&keeper).await;
    }
}

impl Gateway {
    /// Returns the number of definitions that differ from their pins.
    #[must_use]
    pub fn pins_changed(&self) -> usize {
        self.upstreams().iter().map(|upstream| upstream.pins().unpinned.len()).sum()
    }

    /// Returns why the file of pins cannot be used at present. The text names the file.
    #[must_use]
    pub fn pins_problem(&self) -> Option<String> {
        self.options.pin_keeper.as_ref()?.store.problem()
    }

    async fn store_pins(&self, keeper: &Arc<PinKeeper>) {
        let had_problem = keeper.store.problem().is_some();
        let file = keeper.clone();
        let refreshed = tokio::task::spawn_blocking(move || file.store.refresh()).await;
        let mut is_changed = match refreshed {
            Ok(Ok(Some(events))) => {
                self.report_pins(&events);
                true
            }
            Ok(Err(_)) => true,
            _ => false,
        };
        for upstream in self.upstreams().iter() {
            let Some(definitions) = upstream.take_unstored() else { continue };
            let file = keeper.clone();
            let name = upstream.name().to_owned();
            let stored =
                tokio::task::spawn_blocking(move || file.store.record(&name, &definitions)).await;
            match stored {
                Ok(Ok(events)) => self.report_pins(&events),
                // At the next look, another program may have released the file.
                Ok(Err(PinError::Locked { .. } | PinError::Io { .. })) => {
                    upstream.lists_mut().is_unstored = true;
                }
                _ => {}
            }
            is_changed = true;
        }
        keeper.log_problem();
        if is_changed || had_problem != keeper.store.problem().is_some() {
            let upstreams = self.upstreams();
            let changed = upstreams.iter().filter(|upstream| upstream.compare_again(false));
            if changed.count() > 0 {
                self.relist();
            }
        }
    }

    fn report_pins(&self, events: &[PinEvent]) {
        if let Some(PinListener(listener)) = &self.options.pin_listener {
            for event in events {
                listener(event);
            }
        }
    }

    /// Returns the failure of a call of a tool that is held back, by its name for clients; `None`
    /// if the caller may not see the tool.
    pub(crate) fn held_tool(&self, exposed: &str, view: &Catalog) -> Option<CallFailure> {
        self.held(Kind::Tool, |upstream, name| {
            if !view.may_see(ItemKind::Tool, upstream.number(), name) {
                return false;
            }
            let settings = upstream.settings();
            let changed = settings.options.overrides.get(name).and_then(|it| it.name.as_deref());
            let name = changed.unwrap_or(name);
            settings.namer.tool(name).is_ok_and(|it| it == exposed)
                || settings.namer.hashed_tool(name) == exposed
        })
        .map(|why| CallFailure::Refused(format!("tool '{exposed}' {why}")))
    }

    /// Returns the error for a prompt that is held back, by its name for clients; `None` if the
    /// caller may not see the prompt.
    pub(crate) fn held_prompt(&self, exposed: &str, view: &Catalog) -> Option<RpcError> {
        let why = self.held(Kind::Prompt, |upstream, name| {
            view.may_see(ItemKind::Prompt, upstream.number(), name)
                && upstream.settings().namer.prompt(name).is_ok_and(|it| it == exposed)
        })?;
        Some(RpcError::invalid_params(format!("prompt '{exposed}' {why}")))
    }

    /// Returns why a definition is held back.
    fn held(&self, kind: Kind, is_meant: impl Fn(&Upstream, &str) -> bool) -> Option<String> {
        for upstream in self.upstreams().iter() {
            let report = upstream.pins();
            let held = report.unpinned.iter().filter(|it| report.is_refused && it.kind == kind);
            for it in held {
                let is_allowed = upstream.settings().options.filter.allows(&it.name);
                if (kind == Kind::Prompt || is_allowed) && is_meant(upstream, &it.name) {
                    let name = format!("{}/{}", upstream.name(), it.name);
                    return Some(match it.verdict {
                        Verdict::Unknown => "is not offered, since its pin cannot be checked; the log of this server says why".to_owned(),
                        _ => format!(
                            "is not offered, since it {} and its server has pins = \"refuse\". A person can see the difference with `marquetry pins diff {name}`, and accept it with `marquetry pins accept {name}`",
                            it.problem()
                        ),
                    });
                }
            }
        }
        None
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
            assert_eq!(*lists.report, PinReport::default());
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
        // What disappears is no difference.
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
