//! Prompts: `chat_system_prompt`, and one for each `olio.llm.promptConfig` record.

mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use marquetry_context_blocks::neutralize;
use marquetry_knowledge::{
    Access, ErrorCode, Failure,
    kinds::{CHARACTER, PROMPT_CONFIG},
};
use marquetry_protocol::types::{
    CompleteArgument, Completion, Content, GetPromptResult, JsonObject, Prompt, PromptArgument,
    PromptMessage, Role,
};
use marquetry_rag::{Caller, Record, RecordFilter};
use serde_json::{Value, json};

use self::template::Template;
use crate::{
    characters::introduction,
    context::{self, ContextItem, Owner, Plan},
};

/// Argument of each prompt: reminders, keyframes and metrics. Only the built-in prompt lists it,
/// since clients show a field for each listed argument.
const CONTEXT: &str = "context";
const CONTEXT_DESCRIPTION: &str =
    "Reminders, keyframes and metrics for the model, as the JSON of am7_chat's argument context";

/// The built-in prompt.
pub const CHAT_SYSTEM_PROMPT: &str = "chat_system_prompt";

const SYSTEM_TEMPLATE: &str = "You are ${character}. Speak in a ${tone} tone. Stay who you are, answer what is asked, and say so when you do not \
know something.";
const DEFAULT_TONE: &str = "neutral";
const TONES: [&str; 8] = [
    "casual",
    "concise",
    "encouraging",
    "formal",
    "friendly",
    "humorous",
    "neutral",
    "professional",
];
/// Maximum promptConfigs in a list; others can be used by their object ids.
const MAX_PROMPTS: usize = 500;
/// Maximum suggestions of a completion (specification, "Completion": at most 100).
const MAX_SUGGESTIONS: usize = 100;

/// Values of template variables, by name.
type Values = BTreeMap<String, String>;

/// Lists the prompts that a caller may use; `access` is `None` if there are no records. A record
/// whose name is `taken` by another prompt is listed under its object id.
///
/// # Errors
///
/// Returns an error if the records cannot be read.
pub async fn list(
    access: Option<&Access>,
    taken: impl Fn(&str) -> bool,
) -> Result<Vec<Prompt>, Failure> {
    let mut prompts = vec![chat_system_prompt()];
    let Some(access) = access else { return Ok(prompts) };
    let mut names = BTreeSet::from([CHAT_SYSTEM_PROMPT.to_owned()]);
    for record in configs(access, None).await? {
        let mut name = record.name.clone();
        if name.is_empty() || taken(&name) || !names.insert(name.clone()) {
            name.clone_from(&record.object_id);
            if taken(&name) || !names.insert(name.clone()) {
                continue;
            }
        }
        prompts.push(described(&record, name));
    }
    Ok(prompts)
}

/// A request for a prompt.
#[derive(Clone, Debug)]
pub struct PromptRequest<'a> {
    /// The arguments; all values are texts.
    pub arguments: Option<&'a JsonObject>,
    /// The user who asks, to whom reminders in the argument `context` belong.
    pub caller: Caller,
    /// Maximum bytes of the blocks of the argument `context`.
    pub max_context_bytes: usize,
}

/// Fills in a prompt; `None` if no prompt here has this name.
///
/// The argument `context`, a list of [`ContextItem`] as JSON, becomes blocks: reminders and the
/// newest keyframe after the system prompt, metrics at the end. In a template with a variable of
/// this name it is that variable's value.
///
/// # Errors
///
/// Returns an error if an argument is missing or is not text (`invalid_params`), an item of the
/// context is invalid or does not fit, or if the records cannot be read.
pub async fn get(
    access: Option<&Access>,
    name: &str,
    request: &PromptRequest<'_>,
) -> Result<Option<GetPromptResult>, Failure> {
    if name == CHAT_SYSTEM_PROMPT {
        let values = values(request.arguments)?;
        let plan = planned_context(values.get(CONTEXT), request)?;
        let mut result = filled_system_prompt(access, values).await?;
        insert_blocks(&mut result.messages, 1, plan);
        return Ok(Some(result));
    }
    let Some(access) = access else { return Ok(None) };
    let Some(record) = config(access, name).await? else { return Ok(None) };
    let mut values = values(request.arguments)?;
    let given = values.get(CONTEXT).filter(|_| !names_of(&record).iter().any(|it| it == CONTEXT));
    let plan = planned_context(given, request)?;
    for argument in declared(&record) {
        if let Some(default) = argument["default"].as_str()
            && let Some(name) = argument["name"].as_str()
        {
            values.entry(name.to_owned()).or_insert_with(|| default.to_owned());
        }
    }
    check_complete(&record, &values)?;
    let mut messages = Vec::new();
    for (part, role) in
        [("system", Role::User), ("user", Role::User), ("assistant", Role::Assistant)]
    {
        if let Some(text) = text_of(&record, part) {
            let content = Content::text(neutralized(&text, &values)?);
            messages.push(PromptMessage { role, content });
        }
    }
    let system_messages = usize::from(text_of(&record, "system").is_some());
    insert_blocks(&mut messages, system_messages, plan);
    let description = record.attributes.get("description").and_then(Value::as_str);
    let meta = json!({"uri": record.uri()});
    Ok(Some(GetPromptResult {
        description: description.map(str::to_owned),
        messages,
        meta: meta.as_object().cloned(),
    }))
}

/// Reads the argument `context` of a prompt.
fn planned_context(given: Option<&String>, request: &PromptRequest<'_>) -> Result<Plan, Failure> {
    let Some(given) = given.filter(|given| !given.trim().is_empty()) else {
        return Ok(Plan::default());
    };
    let items: Vec<ContextItem> = serde_json::from_str(given).map_err(|error| {
        Failure::invalid(format!("argument \"context\" is not a list of context as JSON: {error}"))
    })?;
    let owner = Owner::new(&request.caller, None);
    let entries = context::check_items(&items, &owner, context::now())?;
    context::plan_whole(entries, request.max_context_bytes)
}

/// Inserts the blocks of a plan: those for all messages at `index`, metrics at the end.
fn insert_blocks(messages: &mut Vec<PromptMessage>, index: usize, plan: Plan) {
    for (index, blocks) in [(messages.len(), plan.metrics), (index, plan.before_history)] {
        if !blocks.is_empty() {
            let message = PromptMessage { role: Role::User, content: Content::text(blocks) };
            messages.insert(index, message);
        }
    }
}

/// Completes an argument of a prompt; `None` if no prompt here has this name.
///
/// # Errors
///
/// Returns an error if the records cannot be read.
pub async fn complete(
    access: Option<&Access>,
    name: &str,
    argument: &CompleteArgument,
) -> Result<Option<Completion>, Failure> {
    let known: Vec<String> = if name == CHAT_SYSTEM_PROMPT {
        match (argument.name.as_str(), access) {
            ("tone", _) => TONES.map(str::to_owned).into(),
            ("character", Some(access)) => {
                let mut names = vec!["assistant".to_owned()];
                let mut filter = RecordFilter::new(&access.caller.organization);
                filter.types = vec![CHARACTER.to_owned()];
                filter.limit = Some(MAX_PROMPTS);
                let characters = access.knowledge.records.list(&access.caller, &filter).await?;
                names.extend(characters.records.into_iter().map(|record| record.name));
                names
            }
            ("character", None) => vec!["assistant".to_owned()],
            _ => Vec::new(),
        }
    } else {
        let Some(access) = access else { return Ok(None) };
        let Some(record) = config(access, name).await? else { return Ok(None) };
        let found = declared(&record).find(|declared| declared["name"] == argument.name);
        let values = found.and_then(|found| found["values"].as_array()).into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let begun = argument.value.to_lowercase();
    let mut fitting: Vec<String> = known
        .into_iter()
        .filter(|value| !value.is_empty() && value.to_lowercase().starts_with(&begun))
        .collect();
    fitting.sort();
    fitting.dedup();
    let total = fitting.len();
    fitting.truncate(MAX_SUGGESTIONS);
    Ok(Some(Completion {
        has_more: Some(total > fitting.len()),
        total: Some(total as u64),
        values: fitting,
    }))
}

/// Returns the system prompt of a promptConfig.
pub(crate) fn system_of(record: &Record, values: &Values) -> Result<String, Failure> {
    check_complete(record, values).map_err(|failure| Failure {
        message: format!(
            "{}; give it in promptArguments, or a chatConfig with characters",
            failure.message
        ),
        ..failure
    })?;
    text_of(record, "system").map_or_else(|| Ok(String::new()), |text| filled(&text, values))
}

/// Returns the instruction of a promptConfig on how to use citations.
pub(crate) fn citation_instruction(
    record: &Record,
    values: &Values,
) -> Result<Option<String>, Failure> {
    text_of(record, "userCitation").map(|text| filled(&text, values)).transpose()
}

/// Fills in a template.
pub(crate) fn filled(template: &str, values: &Values) -> Result<String, Failure> {
    Template::parse(template).fill(values).map_err(|missing| missing_arguments(&missing))
}

/// Fills in a template. Texts of records and arguments must not look like blocks of the server,
/// which may stand beside them.
fn neutralized(template: &str, values: &Values) -> Result<String, Failure> {
    Ok(neutralize(&filled(template, values)?).into_owned())
}

fn missing_arguments(missing: &[String]) -> Failure {
    let names: Vec<String> = missing.iter().map(|name| format!("{name:?}")).collect();
    Failure::invalid(format!("missing argument {}", names.join(", ")))
}

/// Checks that every template of a prompt has all its values; the error lists all missing names.
fn check_complete(record: &Record, values: &Values) -> Result<(), Failure> {
    let missing: Vec<String> =
        names_of(record).into_iter().filter(|name| !values.contains_key(name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(missing_arguments(&missing)) }
}

fn prompt_argument(name: &str, description: &str, required: bool) -> PromptArgument {
    PromptArgument {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        required,
        ..PromptArgument::default()
    }
}

fn chat_system_prompt() -> Prompt {
    Prompt {
        name: CHAT_SYSTEM_PROMPT.to_owned(),
        title: Some("System prompt of a chat".to_owned()),
        description: Some("System prompt that gives the model a persona.".to_owned()),
        arguments: vec![
            prompt_argument(
                "character",
                "Persona: a word such as \"assistant\", or the name or am7:// URI of a character",
                true,
            ),
            prompt_argument(
                "tone",
                "Tone, such as \"professional\"; \"neutral\" by default",
                false,
            ),
            prompt_argument(CONTEXT, CONTEXT_DESCRIPTION, false),
        ],
        ..Prompt::default()
    }
}

async fn filled_system_prompt(
    access: Option<&Access>,
    mut values: Values,
) -> Result<GetPromptResult, Failure> {
    values.entry("tone".to_owned()).or_insert_with(|| DEFAULT_TONE.to_owned());
    if let (Some(access), Some(named)) = (access, values.get_mut("character"))
        && let Some(record) = character(access, named).await?
    {
        *named = introduction(&record);
        if let Some(description) = record.attributes.get("description").and_then(Value::as_str) {
            named.push_str(": ");
            named.push_str(description.trim().trim_end_matches('.'));
        }
    }
    let text = neutralized(SYSTEM_TEMPLATE, &values)?;
    let message = PromptMessage { role: Role::User, content: Content::text(text) };
    Ok(GetPromptResult {
        description: chat_system_prompt().description,
        messages: vec![message],
        meta: None,
    })
}

/// Returns the character with this URI or name, if there is one.
async fn character(access: &Access, named: &str) -> Result<Option<Record>, Failure> {
    let Access { knowledge, caller, .. } = access;
    if named.starts_with("am7://") {
        let record = knowledge.records.get(caller, named).await?;
        if record.kind == CHARACTER {
            return Ok(Some(record));
        }
        return Err(Failure::invalid(format!(
            "character: {named} is a {}, and should be a {CHARACTER}",
            record.kind
        )));
    }
    let mut filter = RecordFilter::new(&caller.organization);
    filter.types = vec![CHARACTER.to_owned()];
    filter.name = Some(named.to_owned());
    filter.limit = Some(1);
    Ok(knowledge.records.list(caller, &filter).await?.records.pop())
}

/// Returns the first promptConfigs of a caller, or those with a given name.
async fn configs(access: &Access, name: Option<&str>) -> Result<Vec<Record>, Failure> {
    let mut filter = RecordFilter::new(&access.caller.organization);
    filter.types = vec![PROMPT_CONFIG.to_owned()];
    filter.name = name.map(str::to_owned);
    filter.limit = Some(MAX_PROMPTS);
    Ok(access.knowledge.records.list(&access.caller, &filter).await?.records)
}

/// Returns the promptConfig with this name, or else with this object id.
async fn config(access: &Access, name: &str) -> Result<Option<Record>, Failure> {
    if let Some(record) = configs(access, Some(name)).await?.into_iter().next() {
        return Ok(Some(record));
    }
    let caller = &access.caller;
    let builder = marquetry_context_blocks::Am7Uri::builder().organization(&caller.organization);
    let Ok(uri) = builder.object_type(PROMPT_CONFIG).id(name).build() else { return Ok(None) };
    match access.knowledge.records.get(caller, &uri.to_string()).await.map_err(Failure::from) {
        Ok(record) => Ok(Some(record)),
        Err(Failure { code: ErrorCode::NotFound | ErrorCode::InvalidParams, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Converts a promptConfig for lists; its arguments are the variables in its texts.
fn described(record: &Record, name: String) -> Prompt {
    let arguments = names_of(record).into_iter().map(|name| {
        let known = declared(record).find(|argument| argument["name"] == name.as_str());
        PromptArgument {
            description: known.and_then(|known| known["description"].as_str()).map(str::to_owned),
            required: known.is_none_or(|known| !known["default"].is_string()),
            name,
            ..PromptArgument::default()
        }
    });
    Prompt {
        title: Some(record.name.clone()).filter(|title| *title != name),
        description: record
            .attributes
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned),
        arguments: arguments.collect(),
        name,
        ..Prompt::default()
    }
}

/// Returns the arguments that a promptConfig describes: `[{"name", "description", "default",
/// "values"}]`.
fn declared(record: &Record) -> impl Iterator<Item = &Value> {
    record.attributes.get("arguments").and_then(Value::as_array).into_iter().flatten()
}

/// Returns the variables in a promptConfig.
fn names_of(record: &Record) -> Vec<String> {
    let mut names = Vec::new();
    for part in ["system", "user", "assistant"] {
        let Some(text) = text_of(record, part) else { continue };
        for name in Template::parse(&text).names() {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// Returns the text of a part of a promptConfig, from its lines.
fn text_of(record: &Record, part: &str) -> Option<String> {
    let text = match record.attributes.get(part)? {
        Value::String(text) => text.clone(),
        Value::Array(lines) => {
            lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// Returns the arguments of a request, which must be strings (specification, "Prompts").
fn values(arguments: Option<&JsonObject>) -> Result<Values, Failure> {
    let arguments = arguments.into_iter().flatten();
    arguments
        .map(|(name, value)| match value {
            Value::String(text) => Ok((name.clone(), text.clone())),
            _ => Err(Failure::invalid(format!("argument {name:?} is not a text"))),
        })
        .collect()
}
