//! The accepted hashes, without their texts, against which definitions are compared.

use std::collections::HashMap;

use crate::{
    Definition, DefinitionHash, Kind, PinChange, PinEvent, PinFile,
    file::{Pin, Pins},
};

/// Whether a definition is that of its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its server has had no definition of this kind before.
    FirstSight,
    /// It is that of its pin.
    Pinned,
    /// It differs from its pin.
    Changed,
    /// Its server has had others before, and not this one.
    New,
    /// The pins cannot be read or written.
    Unknown,
}

impl Verdict {
    /// Returns whether it is offered to clients in the mode that refuses what differs.
    #[must_use]
    pub fn is_trusted(self) -> bool {
        matches!(self, Self::FirstSight | Self::Pinned)
    }
}

/// The accepted hashes of all servers.
#[derive(Debug, Default)]
pub(crate) struct Snapshot(HashMap<String, ServerHashes>);

#[derive(Debug, Default)]
struct ServerHashes {
    tools: Option<HashMap<String, Option<DefinitionHash>>>,
    prompts: Option<HashMap<String, Option<DefinitionHash>>>,
    instructions: Option<Option<DefinitionHash>>,
    has_waiting: bool,
}

impl Snapshot {
    pub(crate) fn of(file: &PinFile) -> Self {
        let servers = file.servers.iter().map(|(server, pins)| {
            let hashes = ServerHashes {
                tools: pins.tools.as_ref().map(hashes_of),
                prompts: pins.prompts.as_ref().map(hashes_of),
                instructions: pins.instructions.as_ref().map(accepted_hash),
                has_waiting: pins.all().any(|pin| pin.waiting.is_some()),
            };
            (server.clone(), hashes)
        });
        Self(servers.collect())
    }

    pub(crate) fn has_waiting(&self, server: &str) -> bool {
        self.0.get(server).is_some_and(|hashes| hashes.has_waiting)
    }

    /// Returns the pinned hash of a definition: `None` if its list is not pinned, `Some(None)` if
    /// it is new in a pinned list.
    fn pinned(&self, server: &str, kind: Kind, name: &str) -> Option<Option<DefinitionHash>> {
        let hashes = self.0.get(server)?;
        match kind {
            Kind::Instructions => hashes.instructions,
            Kind::Tool => Some(hashes.tools.as_ref()?.get(name).copied().flatten()),
            Kind::Prompt => Some(hashes.prompts.as_ref()?.get(name).copied().flatten()),
        }
    }

    pub(crate) fn verdict(&self, server: &str, definition: &Definition) -> Verdict {
        match self.pinned(server, definition.kind, &definition.name) {
            None => Verdict::FirstSight,
            Some(None) => Verdict::New,
            Some(Some(hash)) if hash == definition.hash => Verdict::Pinned,
            Some(Some(_)) => Verdict::Changed,
        }
    }

    /// Returns the definitions of pinned lists that were accepted since an older snapshot.
    pub(crate) fn accepted_since(&self, old: &Self, file: &PinFile) -> Vec<PinEvent> {
        file.items()
            .filter(|item| {
                let Some(hash) = item.accepted.map(|it| it.hash) else { return false };
                let before = old.pinned(item.server, item.kind, item.name);
                before.is_some_and(|before| before != Some(hash))
            })
            .map(|item| PinEvent {
                server: item.server.to_owned(),
                kind: item.kind,
                name: item.name.to_owned(),
                change: PinChange::Accepted,
            })
            .collect()
    }
}

fn hashes_of(pins: &Pins) -> HashMap<String, Option<DefinitionHash>> {
    pins.iter().map(|(name, pin)| (name.clone(), accepted_hash(pin))).collect()
}

fn accepted_hash(pin: &Pin) -> Option<DefinitionHash> {
    pin.accepted.as_ref().map(|it| it.hash)
}
