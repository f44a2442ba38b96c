//! Tools that a View offers.

use std::time::Duration;

use marquetry_protocol::{RpcError, types::Tool};
use serde::Deserialize;
use serde_json::Value;

/// A tool that a View offers while it is shown (draft). A host tells the user which View it is
/// from, gives it a name that no tool of a server has, and asks before it calls one that is not
/// read-only.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AppTool {
    /// The tool's metadata, as the View describes it.
    pub tool: Tool,
}

impl AppTool {
    /// Returns whether the user must agree before the tool is called: true unless the tool is
    /// marked as read-only.
    #[must_use]
    pub fn needs_consent(&self) -> bool {
        let hints = self.tool.annotations.as_ref();
        hints.and_then(|hints| hints.read_only) != Some(true)
    }
}

/// Why the call of a View's tool has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AppCallError {
    /// The View is not ready, or was removed.
    #[error("the View is not open")]
    Closed,
    /// The View has no such tool.
    #[error("the View has no tool '{name}'")]
    UnknownTool {
        /// The name of the requested tool.
        name: String,
    },
    /// More calls wait than allowed.
    #[error("{calls} calls of the View's tools wait, the most that max_app_calls allows")]
    TooMany {
        /// The number of waiting calls.
        calls: usize,
    },
    /// The View did not answer in time.
    #[error("the View did not answer within {timeout:?} (app_call_timeout)")]
    Timeout {
        /// The time limit, [`Limits::app_call_timeout`](super::Limits::app_call_timeout).
        timeout: Duration,
    },
    /// The View answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The View's answer is not a tool result.
    #[error("the View's answer is not the result of a tool: {why}")]
    NoResult {
        /// The reason why the answer is not valid.
        why: String,
    },
}

/// The tools of a View, fetched page by page.
#[derive(Debug, Default)]
pub(super) struct AppToolList {
    tools: Vec<AppTool>,
    fetching: Option<Vec<AppTool>>,
    fetch_at: Option<Duration>,
    fetched_at: Option<Duration>,
}

/// The next step after a page was received.
#[derive(Debug, PartialEq)]
pub(super) enum Page {
    /// Ask for the next page.
    Next(String),
    /// The list is complete.
    Complete,
}

impl AppToolList {
    pub(super) fn tools(&self) -> &[AppTool] {
        &self.tools
    }

    /// Returns whether the list was never requested.
    pub(super) fn is_new(&self) -> bool {
        self.fetched_at.is_none() && self.fetch_at.is_none()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|it| it.tool.name == name)
    }

    /// Schedules a new fetch after a change of the list, at least `interval` after the last fetch.
    pub(super) fn changed(&mut self, now: Duration, interval: Duration) {
        let at = self.fetched_at.map_or(now, |fetched_at| fetched_at + interval).max(now);
        self.fetch_at.get_or_insert(at);
    }

    /// Starts a fetch if one is due, and returns whether it did.
    pub(super) fn start(&mut self, now: Duration) -> bool {
        let is_due = self.fetching.is_none() && self.fetch_at.is_some_and(|at| at <= now);
        if is_due {
            self.fetching = Some(Vec::new());
            self.fetch_at = None;
            self.fetched_at = Some(now);
        }
        is_due
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        if self.fetching.is_some() { None } else { self.fetch_at }
    }

    /// Adds the tools of a page. Leaves out tools that cannot be read, that repeat a name, or that
    /// exceed `max`.
    pub(super) fn page(&mut self, page: &Value, max: usize) -> Page {
        let Some(tools) = &mut self.fetching else { return Page::Complete };
        let listed = page.get("tools").and_then(Value::as_array);
        let before = tools.len();
        for tool in listed.into_iter().flatten() {
            let Ok(tool) = Tool::deserialize(tool) else { continue };
            let is_new = !tools.iter().any(|it| it.tool.name == tool.name);
            if is_new && tools.len() < max {
                tools.push(AppTool { tool });
            }
        }
        let cursor = page.get("nextCursor").and_then(Value::as_str);
        // A page without a new tool ends the list; otherwise a View could send pages without end.
        let may_follow = (before + 1..max).contains(&tools.len());
        match cursor {
            Some(cursor) if may_follow => Page::Next(cursor.to_owned()),
            _ => {
                self.tools = self.fetching.take().unwrap_or_default();
                Page::Complete
            }
        }
    }

    /// Ends the fetch after the View failed to send a list.
    pub(super) fn failed(&mut self) {
        self.fetching = None;
    }

    /// Removes all tools, and returns whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        let had_some = !self.tools.is_empty();
        *self = Self::default();
        had_some
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(names: &[&str], cursor: Option<&str>) -> Value {
        let tools: Vec<_> =
            names.iter().map(|name| json!({ "name": name, "inputSchema": {} })).collect();
        json!({ "tools": tools, "nextCursor": cursor })
    }

    #[test]
    fn pages_are_gathered_up_to_a_number() {
        let mut list = AppToolList::default();
        list.changed(Duration::ZERO, Duration::from_secs(1));
        assert!(list.start(Duration::ZERO) && !list.start(Duration::ZERO));
        assert_eq!(list.page(&page(&["a", "b", "a"], Some("2")), 3), Page::Next("2".into()));
        assert!(list.tools().is_empty());
        assert_eq!(list.page(&page(&["c", "d"], Some("3")), 3), Page::Complete);
        assert!(list.has("c") && !list.has("d"));
        assert!(list.clear() && !list.clear());
    }

    #[test]
    fn a_list_without_end_ends() {
        let mut list = AppToolList::default();
        list.changed(Duration::ZERO, Duration::ZERO);
        list.start(Duration::ZERO);
        assert_eq!(list.page(&page(&[], Some("again")), 3), Page::Complete);
        assert_eq!(list.page(&json!("nonsense"), 3), Page::Complete);
        list.changed(Duration::ZERO, Duration::ZERO);
        assert!(list.start(Duration::ZERO));
        assert_eq!(list.page(&page(&["a"], Some("again")), 3), Page::Next("again".to_owned()));
        assert_eq!(list.page(&page(&["a"], Some("again")), 3), Page::Complete);
    }

    #[test]
    fn changes_are_fetched_once_in_an_interval() {
        let mut list = AppToolList::default();
        let interval = Duration::from_secs(1);
        let at = Duration::from_millis;
        list.changed(at(0), interval);
        assert!(list.start(at(0)));
        list.page(&page(&[], None), 3);
        list.changed(at(10), interval);
        list.changed(at(20), interval);
        assert!(!list.start(at(20)));
        assert_eq!(list.deadline(), Some(at(1_000)));
        assert!(list.start(at(1_000)));
    }

    #[test]
    fn a_tool_that_does_not_say_that_it_reads_needs_consent() {
        fn needs(annotations: Value) -> bool {
            let tool = json!({ "name": "t", "inputSchema": {}, "annotations": annotations });
            AppTool { tool: serde_json::from_value(tool).unwrap() }.needs_consent()
        }
        assert!(needs(json!({})) && needs(json!({ "readOnlyHint": false })));
        assert!(!needs(json!({ "readOnlyHint": true })));
    }
}
