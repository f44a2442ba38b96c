//! Costs and indexes of lists of tools, kept while the sources of the lists live.

use std::{
    any::Any,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use marquetry_apps_ext::types::Visibility;
use marquetry_protocol::types::Tool;
use marquetry_tokens::estimate;
use marquetry_tool_search::ToolIndex;
use serde_json::json;
use tokio::sync::OnceCell;

/// Lists that are kept: one for each group of callers that see the same tools.
const MAX_LISTS: usize = 16;

/// What a list of tools is made from. The list has the same tools as long as this is the same
/// value and their names are the same.
pub(crate) type Source = Arc<dyn Any + Send + Sync>;

/// The lists that were used last. The list used last is at the end.
#[derive(Default)]
pub(crate) struct Lists(Mutex<Vec<Entry>>);

struct Entry {
    /// Keeps the address of the source from being used again.
    source: Weak<dyn Any + Send + Sync>,
    /// Hash of the names.
    names: u64,
    list: Arc<List>,
}

/// What is known of a list of tools.
#[derive(Default)]
pub(crate) struct List {
    tokens: OnceLock<u64>,
    /// The index over the tools that a model may call.
    pub(crate) index: OnceCell<Arc<ToolIndex>>,
}

impl Lists {
    /// Returns the entry of a list of tools.
    pub(crate) fn of(&self, source: &Source, tools: &[&Tool]) -> Arc<List> {
        let mut hasher = DefaultHasher::new();
        for tool in tools {
            tool.name.hash(&mut hasher);
        }
        let names = hasher.finish();
        let source = Arc::downgrade(source);
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.source.strong_count() > 0);
        let known = entries
            .iter()
            .position(|entry| entry.names == names && Weak::ptr_eq(&entry.source, &source));
        let entry = match known {
            Some(at) => entries.remove(at),
            None => Entry { source, names, list: Arc::default() },
        };
        let list = entry.list.clone();
        if entries.len() == MAX_LISTS {
            entries.remove(0);
        }
        entries.push(entry);
        list
    }
}

impl List {
    /// Returns the tokens that the tools cost a model.
    pub(crate) fn tokens(&self, tools: &[&Tool]) -> u64 {
        *self.tokens.get_or_init(|| for_model(tools).map(tokens_of).sum())
    }
}

/// Returns the tools that a model may see and call.
pub(crate) fn for_model<'a>(tools: &[&'a Tool]) -> impl Iterator<Item = &'a Tool> {
    tools.iter().copied().filter(|tool| Visibility::of(tool).model)
}

/// Returns the tokens of the parts of a tool that clients give to models.
fn tokens_of(tool: &Tool) -> u64 {
    let shown = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    });
    estimate(&shown.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), ..Tool::default() }
    }

    #[test]
    fn lists_are_kept_while_their_source_is_the_same() {
        let lists = Lists::default();
        let first: Source = Arc::new(1);
        let a = tool("a");
        let b = tool("b");
        let kept = lists.of(&first, &[&a]);
        assert!(Arc::ptr_eq(&kept, &lists.of(&first, &[&a])));
        assert!(!Arc::ptr_eq(&kept, &lists.of(&first, &[&a, &b])));
        assert!(Arc::ptr_eq(&kept, &lists.of(&first, &[&a])));
        let second: Source = Arc::new(2);
        assert!(!Arc::ptr_eq(&kept, &lists.of(&second, &[&a])));
        assert!(Arc::ptr_eq(&kept, &lists.of(&first, &[&a])));
        drop(first);
        lists.of(&second, &[&a]);
        assert_eq!(lists.0.lock().unwrap().len(), 1, "lists of a source that is gone go");
    }

    #[test]
    fn the_list_used_longest_ago_goes() {
        let lists = Lists::default();
        let source: Source = Arc::new(());
        let tools: Vec<Tool> = (0..=MAX_LISTS).map(|number| tool(&number.to_string())).collect();
        let first = lists.of(&source, &[&tools[0]]);
        for tool in &tools[1..MAX_LISTS] {
            lists.of(&source, &[tool]);
        }
        assert!(Arc::ptr_eq(&first, &lists.of(&source, &[&tools[0]])), "it is used again");
        let second = lists.of(&source, &[&tools[1]]);
        assert!(Arc::ptr_eq(&first, &lists.of(&source, &[&tools[0]])));
        lists.of(&source, &[&tools[MAX_LISTS]]);
        assert!(Arc::ptr_eq(&first, &lists.of(&source, &[&tools[0]])));
        assert!(Arc::ptr_eq(&second, &lists.of(&source, &[&tools[1]])));
        assert_eq!(lists.0.lock().unwrap().len(), MAX_LISTS);
    }
}
