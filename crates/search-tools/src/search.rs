//! The list of tools for a client, and the tool that searches.

use std::{
    any::Any,
    sync::{Arc, PoisonError, RwLock},
};

use marquetry_apps_ext::types::Visibility;
use marquetry_embed::builtin::StaticModel;
use marquetry_nearest::nearest;
use marquetry_protocol::types::{CallToolParams, CallToolResult, Tool};
use marquetry_tool_search::{Argument, Embed, Hit, ToolIndex, ToolText};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    answer::{self, Detail},
    definitions::{CALL, DEFAULT_LIMIT, MAX_LIMIT, SEARCH, definitions},
    lists::{Lists, Source, for_model},
    options::{Client, Mode, SearchOptions},
};

/// Where a tool comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The name of its server.
    pub server: String,
    /// Its name there.
    pub name: String,
}

/// Gives clients two tools in place of a long list, and answers their searches.
#[derive(Default)]
pub struct ToolSearch {
    options: RwLock<Arc<SearchOptions>>,
    lists: Lists,
}

/// The arguments of [`SEARCH`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    detail: Option<Detail>,
}

/// A tool in an index that is built on another thread.
struct OwnedTool {
    tool: Tool,
    origin: Origin,
}

impl ToolSearch {
    /// Creates a search with these options.
    #[must_use]
    pub fn new(options: SearchOptions) -> Self {
        Self { options: RwLock::new(Arc::new(options)), lists: Lists::default() }
    }

    /// Replaces the options. The next list and call use them.
    pub fn set_options(&self, options: SearchOptions) {
        *self.options.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
    }

    /// Returns a warning for each pattern of [`SearchOptions::always`] that matches none of these
    /// names, which are all tools.
    #[must_use]
    pub fn unmatched(&self, names: &[&str]) -> Vec<String> {
        let options = self.options();
        if options.mode == Mode::Off {
            return Vec::new();
        }
        let patterns = options.always.iter();
        let unmatched = patterns.filter(|pattern| !names.iter().any(|name| pattern.matches(name)));
        let warnings = unmatched.map(|pattern| {
            let pattern = pattern.as_str();
            let meant = nearest(pattern, names).map(|it| format!("; did you mean {it:?}?"));
            format!(
                "tools.search.always: {pattern:?} matches no tool{}",
                meant.unwrap_or_else(|| "; use the names that `marquetry tools` prints".to_owned())
            )
        });
        warnings.collect()
    }

    /// Returns whether a tool is one of the two, and they can be called.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        (tool == SEARCH || tool == CALL) && self.options().mode != Mode::Off
    }

    /// Returns the tools to list in place of all; `None` if all are listed. `source` is the value
    /// from which the list was made.
    ///
    /// Tools that only Views may call stay listed: they cost the model nothing, since the hosts of
    /// Views hide them from it, and the hosts check the calls of Views against the list.
    #[must_use]
    pub fn shown<'a, S: Any + Send + Sync>(
        &self,
        source: &Arc<S>,
        tools: &[&'a Tool],
        client: Client,
    ) -> Option<Vec<&'a Tool>> {
        let options = self.options();
        let is_replaced = match options.mode {
            Mode::Off => false,
            Mode::On => true,
            Mode::Auto => {
                let source: Source = source.clone();
                !client.loads_on_demand(tools.len())
                    && self.lists.of(&source, tools).tokens(tools) > options.threshold_tokens
            }
        };
        if !is_replaced {
            return None;
        }
        let stay = tools.iter().copied();
        let stay = stay.filter(|tool| !Visibility::of(tool).model || options.keeps(&tool.name));
        Some(definitions().iter().chain(stay).collect())
    }

    /// Answers a call of [`SEARCH`] over these tools, those that the caller would get without a
    /// search. `origin` returns where a tool comes from.
    pub async fn answer<S: Any + Send + Sync>(
        &self,
        params: &CallToolParams,
        source: &Arc<S>,
        tools: &[&Tool],
        origin: impl Fn(&str) -> Origin,
    ) -> CallToolResult {
        let given = params.arguments.as_deref().map_or("{}", RawValue::get);
        let read: SearchArguments = match serde_json::from_str(given) {
            Ok(read) => read,
            Err(error) => {
                return CallToolResult::error(format!(
                    "arguments of '{SEARCH}' are not valid: {error}; it takes query, limit, detail"
                ));
            }
        };
        let source: Source = source.clone();
        let list = self.lists.of(&source, tools);
        let tools: Vec<&Tool> = for_model(tools).collect();
        let index = list.index.get_or_try_init(|| build(&tools, &origin)).await;
        let limit = read.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let hits = match index {
            Ok(index) => hits(index.clone(), read.query.clone(), limit).await,
            Err(error) => Err(error),
        };
        match hits {
            Ok(hits) if hits.is_empty() => {
                let servers =
                    tools.iter().map(|tool| (origin(&tool.name).server, tool.name.as_str()));
                CallToolResult::text(answer::without_hits(&read.query, servers))
            }
            Ok(hits) => {
                let found = hits.iter().filter_map(|hit| tools.get(hit.tool).copied());
                CallToolResult::text(answer::with_hits(found, read.detail.unwrap_or_default()))
            }
            Err(error) => CallToolResult::error(format!("the search failed: {error}")),
        }
    }

    fn options(&self) -> Arc<SearchOptions> {
        self.options.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Builds an index where blocking is allowed.
async fn build(
    tools: &[&Tool],
    origin: &impl Fn(&str) -> Origin,
) -> Result<Arc<ToolIndex>, tokio::task::JoinError> {
    let tools = tools.iter().copied();
    let owned: Vec<OwnedTool> =
        tools.map(|tool| OwnedTool { tool: tool.clone(), origin: origin(&tool.name) }).collect();
    tokio::task::spawn_blocking(move || Arc::new(indexed(&owned))).await
}

/// Searches where blocking is allowed.
async fn hits(
    index: Arc<ToolIndex>,
    query: String,
    limit: usize,
) -> Result<Vec<Hit>, tokio::task::JoinError> {
    tokio::task::spawn_blocking(move || index.search(&query, limit)).await
}

fn indexed(tools: &[OwnedTool]) -> ToolIndex {
    let arguments: Vec<Vec<Argument<'_>>> =
        tools.iter().map(|owned| arguments(&owned.tool.input_schema)).collect();
    let texts: Vec<ToolText<'_>> = tools
        .iter()
        .zip(&arguments)
        .map(|(OwnedTool { tool, origin }, arguments)| {
            ToolText::new(&origin.name)
                .title(tool.title.as_deref().unwrap_or_default())
                .description(tool.description.as_deref().unwrap_or_default())
                .server(&origin.server)
                .arguments(arguments)
        })
        .collect();
    ToolIndex::with_embedding(&texts, Arc::new(BuiltInModel))
}

fn arguments(schema: &Value) -> Vec<Argument<'_>> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties
        .map(|(name, property)| Argument {
            name,
            description: property.get("description").and_then(Value::as_str).unwrap_or_default(),
        })
        .collect()
}

struct BuiltInModel;

impl Embed for BuiltInModel {
    fn embed(&self, text: &str) -> Vec<f32> {
        StaticModel::built_in().embed(text)
    }

    fn knows(&self, word: &str) -> bool {
        StaticModel::built_in().coverage(word) >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use marquetry_artifacts::glob::Glob;

    use super::*;

    #[test]
    fn patterns_that_match_no_tool_are_warned_of() {
        let always = ["github__*", "read_artefact", "x*"].map(Glob::new).to_vec();
        let mut options = SearchOptions { always, ..SearchOptions::default() };
        let search = ToolSearch::new(options.clone());
        let names = ["github__push", "read_artifact"];
        assert!(search.unmatched(&names).is_empty(), "it is off");
        options.mode = Mode::On;
        search.set_options(options);
        assert_eq!(
            search.unmatched(&names),
            [
                "tools.search.always: \"read_artefact\" matches no tool; did you mean \"read_artifact\"?",
                "tools.search.always: \"x*\" matches no tool; use the names that `marquetry tools` prints",
            ]
        );
    }
}
