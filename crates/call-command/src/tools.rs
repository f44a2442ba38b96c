//! `marquetry tools`

use marquetry_printable::{printable_json, printable_line};
use marquetry_protocol::types::{ListToolsResult, Tool};

use crate::{
    CallCommandError, EXIT_UNREACHABLE, EXIT_USAGE, Session, ToolsArgs, listing, print,
    session::connection_error,
};

/// Lists tools.
///
/// # Errors
///
/// Returns an error if the list cannot be fetched, no tool has the part in its name, or the only
/// server is not running.
pub async fn tools(arguments: &ToolsArgs, session: &Session) -> Result<(), CallCommandError> {
    let all = session.client.list_tools().await;
    let all = all.map_err(|error| connection_error(&error))?;
    session.bar.finish_and_clear();
    let filter = arguments.filter.as_deref().unwrap_or_default().to_lowercase();
    let is_empty = all.is_empty();
    let found: Vec<Tool> =
        all.into_iter().filter(|tool| tool.name.to_lowercase().contains(&filter)).collect();
    for down in session.down() {
        let name = printable_line(&down.name);
        let problem = printable_line(&down.problem);
        eprintln!("warning: server {name} is down: {problem}; `marquetry doctor {name}` says more");
    }
    let has_found = !found.is_empty();
    if arguments.json {
        let list = ListToolsResult { tools: found, ..ListToolsResult::default() };
        let list = serde_json::to_value(list).unwrap_or_default();
        print(&format!("{}\n", printable_json(&format!("{list:#}"))))?;
    } else {
        print(&listing::text(found.iter()))?;
    }
    if !session.down().is_empty() && (is_empty || arguments.server().is_some()) {
        // Each server was reported.
        return Err(CallCommandError::new(EXIT_UNREACHABLE, ""));
    }
    if !has_found && !filter.is_empty() {
        let mut message = format!("no tool has {filter:?} in its name");
        if let Some(hidden) = session.hidden_tools() {
            message = format!("{message}; {hidden}");
        }
        return Err(CallCommandError::new(EXIT_USAGE, message));
    }
    if let Some(hidden) = session.hidden_tools().filter(|_| filter.is_empty()) {
        eprintln!("note: {hidden}");
    }
    Ok(())
}
