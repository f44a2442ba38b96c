//! Merges the servers of several clients.

use indexmap::IndexMap;
use marquetry_client_config::Client;
use serde_json::{Map, Value};

/// A server of a client, in the form of an `mcp.json`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) entry: Map<String, Value>,
    /// The client, or [`None`] for a server of Marquetry's own file.
    pub(crate) client: Option<Client>,
}

/// What becomes of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It is new.
    Added,
    /// The same server is there, under this name.
    Same(String),
    /// A different server has its name.
    Differs,
}

/// The servers that were collected, by name.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    pub(crate) servers: IndexMap<String, Found>,
}

impl Collection {
    /// Adds a server unless the same one is there, or a different one of its name.
    pub(crate) fn add(&mut self, found: Found) -> Outcome {
        if let Some(same) = self.servers.values().find(|known| known.entry == found.entry) {
            return Outcome::Same(same.name.clone());
        }
        if self.servers.contains_key(&found.name) {
            return Outcome::Differs;
        }
        self.servers.insert(found.name.clone(), found);
        Outcome::Added
    }

    /// Puts a server in the place of the one of its name.
    pub(crate) fn replace(&mut self, found: Found) {
        self.servers.insert(found.name.clone(), found);
    }

    /// Adds a server under a name that is free, and returns the name.
    pub(crate) fn add_beside(&mut self, mut found: Found) -> String {
        let suffix = found.client.map_or("2", Client::id);
        let base = format!("{}-{suffix}", found.name);
        let mut name = base.clone();
        let mut number = 2;
        while self.servers.contains_key(&name) {
            name = format!("{base}-{number}");
            number += 1;
        }
        found.name.clone_from(&name);
        self.servers.insert(name.clone(), found);
        name
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, command: &str, client: Client) -> Found {
        let Value::Object(entry) = json!({"command": command, "args": []}) else { unreachable!() };
        Found { name: name.to_owned(), entry, client: Some(client) }
    }

    #[test]
    fn equal_servers_become_one_and_others_are_noticed() {
        let mut all = Collection::default();
        assert_eq!(all.add(found("a", "x", Client::Cursor)), Outcome::Added);
        assert_eq!(all.add(found("a", "x", Client::Zed)), Outcome::Same("a".to_owned()));
        assert_eq!(all.add(found("b", "x", Client::Zed)), Outcome::Same("a".to_owned()));
        assert_eq!(all.add(found("a", "y", Client::Zed)), Outcome::Differs);
        assert_eq!(all.add_beside(found("a", "y", Client::Zed)), "a-zed");
        assert_eq!(all.add_beside(found("a", "z", Client::Zed)), "a-zed-2");
        all.replace(found("a", "w", Client::Zed));
        let commands: Vec<_> =
            all.servers.values().map(|it| it.entry["command"].as_str().unwrap()).collect();
        assert_eq!(commands, ["w", "y", "z"]);
    }
}
