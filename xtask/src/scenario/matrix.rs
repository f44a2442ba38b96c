//! The matrix: one scenario runs once for every transport, revision and store.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the agent reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    Stdio,
    Http,
}

/// The revision of MCP that the agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub(crate) enum Revision {
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// Where the server keeps artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Store {
    Memory,
    Directory,
}

/// What a scenario runs on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Matrix {
    /// How the agent reaches the server.
    #[schemars(length(min = 1))]
    pub(crate) transports: Vec<Transport>,
    /// The revisions of MCP that the agent speaks.
    #[schemars(length(min = 1))]
    pub(crate) revisions: Vec<Revision>,
    /// Where the server keeps artifacts.
    #[schemars(length(min = 1))]
    pub(crate) stores: Vec<Store>,
}

impl Default for Matrix {
    fn default() -> Self {
        Self {
            transports: vec![Transport::Stdio, Transport::Http],
            revisions: vec![Revision::V2025_11_25, Revision::V2026_07_28],
            stores: vec![Store::Memory, Store::Directory],
        }
    }
}

/// One place of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    pub(crate) revision: Revision,
    pub(crate) store: Store,
}

impl Matrix {
    /// Every place of it.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell> {
        self.transports.iter().flat_map(move |&transport| {
            self.revisions.iter().flat_map(move |&revision| {
                self.stores.iter().map(move |&store| Cell { transport, revision, store })
            })
        })
    }
}

/// What a step may be limited to with `only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Only {
    Stdio,
    Http,
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
    Memory,
    Directory,
}

impl Cell {
    /// Whether a step with this `only` runs here: for each of transport, revision and store, one that
    /// it names, if it names any.
    pub(crate) fn is_in(self, only: &[Only]) -> bool {
        let fits = |names: &[(Only, bool)]| {
            let mut named = names.iter().filter(|(name, _)| only.contains(name)).peekable();
            named.peek().is_none() || named.any(|(_, here)| *here)
        };
        fits(&[
            (Only::Stdio, self.transport == Transport::Stdio),
            (Only::Http, self.transport == Transport::Http),
        ]) && fits(&[
            (Only::V2025_11_25, self.revision == Revision::V2025_11_25),
            (Only::V2026_07_28, self.revision == Revision::V2026_07_28),
        ]) && fits(&[
            (Only::Memory, self.store == Store::Memory),
            (Only::Directory, self.store == Store::Directory),
        ])
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.transport, self.revision, self.store)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        })
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Directory => "directory",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_matrix_has_eight_cells() {
        let cells: Vec<_> = Matrix::default().cells().map(|cell| cell.to_string()).collect();
        assert_eq!(cells.len(), 8);
        assert_eq!(cells[0], "stdio/2025-11-25/memory");
        assert_eq!(cells[7], "http/2026-07-28/directory");
    }

    #[test]
    fn only_limits_each_dimension_by_itself() {
        let cell = Cell {
            transport: Transport::Http,
            revision: Revision::V2026_07_28,
            store: Store::Memory,
        };
        for (only, want) in [
            (&[][..], true),
            (&[Only::Http], true),
            (&[Only::Stdio], false),
            (&[Only::Stdio, Only::Http], true),
            (&[Only::Http, Only::V2025_11_25], false),
            (&[Only::Http, Only::V2026_07_28, Only::Memory], true),
            (&[Only::Directory], false),
        ] {
            assert_eq!(cell.is_in(only), want, "{only:?}");
        }
    }
}
