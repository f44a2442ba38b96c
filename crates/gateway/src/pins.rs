//! Pins of what upstreams tell models: which of it differs, and which is therefore held back.
//!
//! A list is compared with its pins when it arrives, before clients see it, and without I/O. One
//! task stores what was seen first or differs, and compares again when the file has changed.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use marquetry_pins::{Definition, Kind, PinError, PinEvent, Verdict};
use marquetry_protocol::RpcError;
use tokio_util::sync::CancellationToken;

use crate::{
    CallFailure, Catalog, Gateway, ItemKind, Upstream,
    pin_keeper::{PinKeeper, PinListener, PinReport, definitions_of},
};

/// Time between two looks at the file.
const WATCH: Duration = Duration::from_secs(2);

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
