//! The matrix: a scenario runs once for every transport, revision and store.

use std::{borrow::Cow, fmt};

use marquetry_protocol::Revision;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// How the agent reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, for revisions with sessions.
    Sse,
}

/// The JSON Schema of [`Revision`].
struct RevisionSchema;

impl JsonSchema for RevisionSchema {
    fn schema_name() -> Cow<'static, str> {
        "Revision".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The revision of MCP that the agent speaks.",
            "type": "string",
            "enum": Revision::ALL,
        })
    }
}

/// The kind of the server's artifact store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// In memory.
    Memory,
    /// In a directory for this case only.
    Directory,
}

/// The cells that a scenario runs in. A missing side means all that the server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Matrix {
    /// How the agent reaches the server.
    #[schemars(with = "Side<Transport>")]
    transports: Option<Side<Transport>>,
    /// The revisions of MCP that the agent speaks.
    #[schemars(with = "Side<RevisionSchema>")]
    revisions: Option<Side<Revision>>,
    /// The kinds of the server's artifact store.
    #[schemars(with = "Vec<Store>", length(min = 1))]
    stores: Option<Vec<Store>>,
}

/// The cells that a server offers to scenarios.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Transports of a scenario that names none.
    pub transports: Vec<Transport>,
    /// Revisions of a scenario that names none.
    pub revisions: Vec<Revision>,
    /// Stores of a scenario that names none.
    pub stores: Vec<Store>,
    /// Whether scenarios may name other cells than those above.
    pub has_more: bool,
}

impl Default for Limits {
    /// The default cells of Marquetry's own scenarios.
    fn default() -> Self {
        Self {
            transports: vec![Transport::Stdio, Transport::Http],
            revisions: vec![Revision::V2025_11_25, Revision::V2026_07_28],
            stores: vec![Store::Memory, Store::Directory],
            has_more: true,
        }
    }
}

impl Limits {
    /// Returns the cells of a server with one transport and these revisions, whose artifact store
    /// the runner cannot choose.
    #[must_use]
    pub fn only(transport: Transport, revisions: Vec<Revision>) -> Self {
        Self {
            transports: vec![transport],
            revisions,
            stores: vec![Store::Memory],
            has_more: false,
        }
    }
}

/// One cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MatrixCell {
    /// How the agent reaches the server.
    pub transport: Transport,
    /// The revision of MCP that the agent speaks.
    pub revision: Revision,
    /// The kind of the server's artifact store.
    pub store: Store,
}

/// One side of the matrix: `all`, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side<T>(pub(crate) Vec<T>);

/// A value of one side.
pub(crate) trait Dimension: Copy + 'static {
    const ALL: &'static [Self];
}

impl Dimension for Transport {
    const ALL: &'static [Self] = &[Self::Stdio, Self::Http, Self::Sse];
}

impl Dimension for Revision {
    const ALL: &'static [Self] = &Self::ALL;
}

impl<'de, T: Dimension + Deserialize<'de>> Deserialize<'de> for Side<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Dimension + Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Side<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`all`, or a list")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Side<T>, E> {
                if text == "all" {
                    return Ok(Side(T::ALL.to_vec()));
                }
                Err(E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Side<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                Ok(Side(values))
            }
        }

        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Side<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}s", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({
            "anyOf": [{ "const": "all" }, { "type": "array", "items": value, "minItems": 1 }],
        })
    }
}

impl Matrix {
    /// Returns every cell that the server offers and the scenario allows. HTTP+SSE exists only in
    /// revisions with sessions.
    pub(crate) fn cells(&self, limits: &Limits) -> impl Iterator<Item = MatrixCell> + use<> {
        fn side<T: Copy + PartialEq>(said: Option<&[T]>, offered: &[T], has_more: bool) -> Vec<T> {
            let said = said.unwrap_or(offered).iter().copied();
            said.filter(|value| has_more || offered.contains(value)).collect()
        }
        let transports = self.transports.as_ref().map(|side| &side.0[..]);
        let revisions = self.revisions.as_ref().map(|side| &side.0[..]);
        let revisions = side(revisions, &limits.revisions, limits.has_more);
        // If the runner cannot choose the store, a scenario runs once, whatever stores it names.
        let stores = if limits.has_more {
            self.stores.clone().unwrap_or_else(|| limits.stores.clone())
        } else {
            limits.stores.clone()
        };
        let mut cells = Vec::new();
        for transport in side(transports, &limits.transports, limits.has_more) {
            for &revision in &revisions {
                cells.extend(stores.iter().map(|&store| MatrixCell { transport, revision, store }));
            }
        }
        cells.retain(|cell| {
            (cell.transport, cell.revision) != (Transport::Sse, Revision::V2026_07_28)
        });
        cells.into_iter()
    }

    /// Returns whether no server can run it.
    pub(crate) fn is_empty(&self) -> bool {
        self.cells(&Limits::default()).next().is_none()
    }
}

/// A value of a step's `only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Only {
    Stdio,
    Http,
    Sse,
    /// The revisions with sessions: all but the last one.
    Sessions,
    #[serde(rename = "2024-10-07")]
    V2024_10_07,
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
    Memory,
    Directory,
}

impl MatrixCell {
    /// Returns whether a step with this `only` runs in the cell: of each dimension that `only`
    /// names (transport, revision, store), it must name the cell's value.
    pub(crate) fn is_in(self, only: &[Only]) -> bool {
        let transports = [
            (Only::Stdio, self.transport == Transport::Stdio),
            (Only::Http, self.transport == Transport::Http),
            (Only::Sse, self.transport == Transport::Sse),
        ];
        let revisions = [
            (Only::Sessions, self.revision != Revision::V2026_07_28),
            (Only::V2024_10_07, self.revision == Revision::V2024_10_07),
            (Only::V2024_11_05, self.revision == Revision::V2024_11_05),
            (Only::V2025_03_26, self.revision == Revision::V2025_03_26),
            (Only::V2025_06_18, self.revision == Revision::V2025_06_18),
            (Only::V2025_11_25, self.revision == Revision::V2025_11_25),
            (Only::V2026_07_28, self.revision == Revision::V2026_07_28),
        ];
        let stores = [
            (Only::Memory, self.store == Store::Memory),
            (Only::Directory, self.store == Store::Directory),
        ];
        allows(only, &transports) && allows(only, &revisions) && allows(only, &stores)
    }
}

/// Returns whether `only` names no value of a dimension, or one that the cell has. `values` are all
/// values of the dimension, each with whether the cell has it.
fn allows(only: &[Only], values: &[(Only, bool)]) -> bool {
    let mut named = values.iter().filter(|(value, _)| only.contains(value)).peekable();
    named.peek().is_none() || named.any(|(_, is_cells)| *is_cells)
}

impl fmt::Display for MatrixCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.transport, self.revision, self.store)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
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
        let cells: Vec<_> =
            Matrix::default().cells(&Limits::default()).map(|cell| cell.to_string()).collect();
        assert_eq!(cells.len(), 8);
        assert_eq!(cells[0], "stdio/2025-11-25/memory");
        assert_eq!(cells[7], "http/2026-07-28/directory");
    }

    #[test]
    fn all_is_every_value() {
        let matrix: Matrix =
            serde_yaml::from_str("{transports: all, revisions: all, stores: [memory]}").unwrap();
        let cells: Vec<_> = matrix.cells(&Limits::default()).map(|cell| cell.to_string()).collect();
        assert_eq!(cells.len(), 17);
        assert!(cells.contains(&"sse/2024-10-07/memory".to_owned()));
        assert!(!cells.contains(&"sse/2026-07-28/memory".to_owned()));
        assert!(serde_yaml::from_str::<Matrix>("{transports: most}").is_err());
    }

    #[test]
    fn a_server_runs_what_it_offers() {
        let limits = Limits::only(Transport::Stdio, vec![Revision::V2025_06_18]);
        for (text, want) in [
            ("{}", &["stdio/2025-06-18/memory"][..]),
            (
                "{transports: all, revisions: all, stores: [directory, memory]}",
                &["stdio/2025-06-18/memory"],
            ),
            ("{transports: [http]}", &[]),
        ] {
            let matrix: Matrix = serde_yaml::from_str(text).unwrap();
            let cells: Vec<_> = matrix.cells(&limits).map(|cell| cell.to_string()).collect();
            assert_eq!(cells, want, "{text}");
        }
    }

    #[test]
    fn only_limits_each_dimension_by_itself() {
        let cell = MatrixCell {
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
            (&[Only::Sessions], false),
            (&[Only::Sessions, Only::V2026_07_28], true),
        ] {
            assert_eq!(cell.is_in(only), want, "{only:?}");
        }
    }
}
