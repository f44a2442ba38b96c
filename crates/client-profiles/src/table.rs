//! The table of known clients, from `profiles.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{profile::ClientProfile, settings::ClientSettings};

#[derive(Deserialize)]
struct Table {
    client: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    title: String,
    before: Option<String>,
    source: String,
    read: String,
    settings: ClientSettings,
}

impl From<Row> for ClientProfile {
    fn from(Row { name, title, before, source, read, settings }: Row) -> Self {
        let profile = Self {
            name: Some(name),
            title,
            before,
            source,
            read,
            // A client in the table has a limit only if the table says so.
            max_message_bytes: None,
            ..Self::default()
        };
        settings.applied_to(profile)
    }
}

/// Returns the profiles of the known clients, in the order of the table.
#[must_use]
pub fn known_clients() -> &'static [ClientProfile] {
    static CLIENTS: LazyLock<Vec<ClientProfile>> = LazyLock::new(|| {
        let table: Table =
            toml::from_str(include_str!("profiles.toml")).expect("a test reads the table");
        table.client.into_iter().map(ClientProfile::from).collect()
    });
    &CLIENTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_names_its_source_and_day() {
        assert!(known_clients().len() > 10);
        for client in known_clients() {
            assert!(!client.source.is_empty() && client.read.len() == 10, "{client:?}");
            assert!(
                client.shown_tokens() > 1_000 && client.shown_chars().is_none_or(|it| it > 1_000)
            );
        }
    }

    #[test]
    fn names_are_unique() {
        let clients = known_clients();
        let names: std::collections::BTreeSet<_> =
            clients.iter().map(|it| (&it.name, &it.before)).collect();
        assert_eq!(names.len(), clients.len());
    }
}
