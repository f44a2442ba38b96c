//! Puts the definitions of a server into the pins: the first ones are trusted, later ones wait.

use std::collections::HashSet;

use serde::Serialize;

use crate::{
    Definition, Kind, PinFile, StoredDefinition,
    file::{Pin, Pins},
};

/// Most pins of one list. More definitions stay without pins.
const MAX_PINS: usize = 10_000;
/// Most servers with pins.
const MAX_SERVERS: usize = 1_000;
/// Longest name that is pinned, in bytes.
const MAX_NAME_BYTES: usize = 512;
/// Longest definition whose text is stored, in bytes. Of others, the hash is.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Bytes of text that are stored for one server, so that it leaves room for others.
const MAX_SERVER_TEXT_BYTES: usize = 2 << 20;

/// A change of what a server says, or of a pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PinEvent {
    /// The server.
    pub server: String,
    /// The kind of the definition.
    pub kind: Kind,
    /// Its name; empty for instructions.
    pub name: String,
    /// The kind of the change.
    pub change: PinChange,
}

/// The kind of a change of a definition or its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PinChange {
    /// It differs from its pin.
    Changed,
    /// Its server has had others before, and not this one.
    New,
    /// Somebody has accepted it.
    Accepted,
}

/// The outcome of [`record`].
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Whether the pins differ from before.
    pub(crate) is_changed: bool,
    /// Definitions that wait since now.
    pub(crate) events: Vec<PinEvent>,
}

/// Puts definitions of a server into the pins. Lists that are not among them stay as they are.
pub(crate) fn record(file: &mut PinFile, server: &str, definitions: &[Definition]) -> Recorded {
    let mut recorded = Recorded::default();
    let has_room = file.servers.len() < MAX_SERVERS || file.servers.contains_key(server);
    if definitions.is_empty() || !has_room || server.len() > MAX_NAME_BYTES {
        return recorded;
    }
    let mut texts = TextBudget::of(file, server);
    let pins = file.servers.entry(server.to_owned()).or_default();
    for (kind, list) in [(Kind::Tool, &mut pins.tools), (Kind::Prompt, &mut pins.prompts)] {
        let listed: Vec<_> = definitions.iter().filter(|it| it.kind == kind).collect();
        // A server that lists nothing may still be starting, or wait for a login.
        if !listed.is_empty() {
            record_list(server, list, &listed, &mut texts, &mut recorded);
        }
    }
    let said = definitions.iter().find(|it| it.kind == Kind::Instructions);
    match (&mut pins.instructions, said) {
        (Some(pin), Some(said)) => record_one(server, pin, said, &mut texts, &mut recorded),
        (none @ None, said) => {
            let accepted = said.map(|it| texts.stored(it));
            *none = Some(Pin { accepted, waiting: None });
            recorded.is_changed = true;
        }
        (Some(_), None) => {}
    }
    recorded
}

fn record_list(
    server: &str,
    list: &mut Option<Pins>,
    listed: &[&Definition],
    texts: &mut TextBudget,
    recorded: &mut Recorded,
) {
    let is_first = list.is_none();
    let pins = list.get_or_insert_default();
    let mut names = HashSet::new();
    for definition in listed {
        // A client sees the first of two with one name.
        if definition.name.len() > MAX_NAME_BYTES || !names.insert(&definition.name) {
            continue;
        }
        let count = pins.len();
        if let Some(pin) = pins.get_mut(&definition.name) {
            record_one(server, pin, definition, texts, recorded);
        } else if count < MAX_PINS {
            let mut pin = Pin::default();
            if is_first {
                pin.accepted = Some(texts.stored(definition));
                recorded.is_changed = true;
            } else {
                record_one(server, &mut pin, definition, texts, recorded);
            }
            pins.insert(definition.name.clone(), pin);
        }
    }
}

fn record_one(
    server: &str,
    pin: &mut Pin,
    definition: &Definition,
    texts: &mut TextBudget,
    recorded: &mut Recorded,
) {
    let hash = Some(definition.hash);
    if pin.accepted.as_ref().map(|it| it.hash) == hash {
        // It is as before again.
        recorded.is_changed |= pin.waiting.take().is_some();
        return;
    }
    if pin.waiting.as_ref().map(|it| it.hash) == hash {
        return;
    }
    pin.waiting = Some(texts.stored(definition));
    recorded.is_changed = true;
    recorded.events.push(PinEvent {
        server: server.to_owned(),
        kind: definition.kind,
        name: definition.name.clone(),
        change: if pin.accepted.is_some() { PinChange::Changed } else { PinChange::New },
    });
}

/// The room that is left for the texts of one server.
struct TextBudget(usize);

impl TextBudget {
    fn of(file: &PinFile, server: &str) -> Self {
        let items = file.items().filter(|item| item.server == server);
        let texts = items.flat_map(|item| [item.accepted, item.waiting]).flatten();
        let used: usize = texts.filter_map(StoredDefinition::text).map(str::len).sum();
        Self(MAX_SERVER_TEXT_BYTES.saturating_sub(used))
    }

    /// Returns a definition as it is stored.
    fn stored(&mut self, definition: &Definition) -> StoredDefinition {
        let bytes = definition.text.get().len();
        if bytes > MAX_TEXT_BYTES || bytes > self.0 {
            return StoredDefinition { hash: definition.hash, definition: None };
        }
        self.0 -= bytes;
        StoredDefinition::from(definition)
    }
}
