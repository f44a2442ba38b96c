//! Tools written as functions on types.

use std::{borrow::Cow, fmt::Display, future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{Handler, Reply, RequestContext, ServerDescription, TaskOptions, ToolSchema, page};
use crate::{
    RpcError,
    types::{
        CallToolParams, CallToolResult, Content, Implementation, ListChanged, ListToolsResult,
        ServerCapabilities, TASKS_EXTENSION, Tool,
    },
};

/// A server made of typed tools.
///
/// A tool's schema comes from its argument type, and each call's arguments are checked against it. Arguments that do
/// not fit are a failed tool call, which a model can mend (2025-11-25, "Error Handling").
///
/// ```
/// # use marquetry_protocol::server::Toolbox;
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let adder = Toolbox::new("adder", "1.0.0")
///     .tool("add", "Adds two numbers.", async |add: Add, _| Ok::<_, String>((add.a + add.b).to_string()));
/// assert_eq!(adder.tools().next().unwrap().input_schema["required"], serde_json::json!(["a", "b"]));
/// ```
pub struct Toolbox {
    description: ServerDescription,
    tools: Vec<TypedTool>,
    page_size: usize,
}

struct TypedTool {
    tool: Tool,
    schema: ToolSchema,
    /// The arguments that HTTP headers repeat.
    #[cfg(feature = "http")]
    headers: Option<Arc<super::HeaderArguments>>,
    task: Option<TaskOptions>,
    call: Box<dyn Fn(Value, RequestContext) -> CallFuture + Send + Sync>,
}

impl TypedTool {
    fn new<A, F, Fut, R, E>(name: String, description: String, call: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        F: Fn(A, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: ToolOutput,
        E: Display,
    {
        let input_schema = object_schema_of::<A>().expect("a tool's arguments are an object");
        let call = Arc::new(call);
        let tool = Tool {
            name,
            description: Some(description),
            input_schema,
            output_schema: R::output_schema(),
            ..Tool::default()
        };
        Self {
            schema: ToolSchema::of(&tool).expect("the schema of a type is a valid JSON Schema"),
            #[cfg(feature = "http")]
            headers: super::HeaderArguments::of(&tool.input_schema).ok().flatten(),
            tool,
            task: None,
            call: Box::new(move |arguments, cx| {
                let call = call.clone();
                Box::pin(async move {
                    // The unit type takes no arguments, which JSON writes as an empty object.
                    let arguments = if takes_nothing::<A>() { Value::Null } else { arguments };
                    match serde_json::from_value::<A>(arguments) {
                        Ok(arguments) => match call(arguments, cx).await {
                            Ok(output) => output.into_result(),
                            Err(error) => CallToolResult::error(error.to_string()),
                        },
                        Err(error) => {
                            CallToolResult::error(format!("arguments are not valid: {error}"))
                        }
                    }
                })
            }),
        }
    }
}

type CallFuture = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

impl Toolbox {
    /// A server without tools yet.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let capabilities = ServerCapabilities {
            tools: Some(ListChanged::default()),
            ..ServerCapabilities::default()
        };
        let info = Implementation::new(name, version);
        Self {
            description: ServerDescription { info, capabilities, instructions: None },
            tools: Vec::new(),
            page_size: 100,
        }
    }

    /// How to use the server, for the model.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.description.instructions = Some(text.into());
        self
    }

    /// Changes what the server says of itself: its title, description, web site and icons, capabilities.
    #[must_use]
    pub fn description(mut self, change: impl FnOnce(&mut ServerDescription)) -> Self {
        change(&mut self.description);
        self
    }

    /// Says more of the tool `name`, which was added before: a title, icons, hints, `_meta`. Its name and schemas stay
    /// what they are.
    ///
    /// # Panics
    /// When there is no such tool.
    #[must_use]
    pub fn tool_description(mut self, name: &str, change: impl FnOnce(&mut Tool)) -> Self {
        let typed = self.tools.iter_mut().find(|typed| typed.tool.name == name);
        let tool = &mut typed.expect("the tool was added before").tool;
        let (input_schema, output_schema) = (tool.input_schema.clone(), tool.output_schema.clone());
        change(tool);
        *tool = Tool { name: name.to_owned(), input_schema, output_schema, ..std::mem::take(tool) };
        self
    }

    /// Tools a page of `tools/list`: 100 unless said otherwise.
    #[must_use]
    pub fn page_size(mut self, tools: usize) -> Self {
        self.page_size = tools;
        self
    }

    /// Adds a tool; one that has the name already is replaced. An `Err` of `call` is a failed tool call, shown to the
    /// model.
    ///
    /// # Panics
    /// When `A` is no object (arguments always are one), or its schema is not valid: faults of the type, found as soon as
    /// the program starts.
    #[must_use]
    pub fn tool<A, F, Fut, R, E>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        call: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        F: Fn(A, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: ToolOutput,
        E: Display,
    {
        self.add(TypedTool::new(name.into(), description.into(), call))
    }

    /// Adds a tool whose calls run as tasks where the client knows those; elsewhere it is a tool as any other. The
    /// server then declares tasks.
    ///
    /// # Panics
    /// As [`Self::tool`].
    #[must_use]
    pub fn task_tool<A, F, Fut, R, E>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        options: TaskOptions,
        call: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        F: Fn(A, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: ToolOutput,
        E: Display,
    {
        self.description.capabilities.add_extension(TASKS_EXTENSION);
        let tool = TypedTool::new(name.into(), description.into(), call);
        self.add(TypedTool { task: Some(options), ..tool })
    }

    fn add(mut self, typed: TypedTool) -> Self {
        match self.tools.iter_mut().find(|known| known.tool.name == typed.tool.name) {
            Some(known) => *known = typed,
            None => self.tools.push(typed),
        }
        self
    }

    /// The tools, as they are listed.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|typed| &typed.tool)
    }

    /// Calls a tool; none when there is none of that name.
    pub async fn call(
        &self,
        name: &str,
        arguments: Option<&RawValue>,
        cx: &RequestContext,
    ) -> Option<CallToolResult> {
        let typed = self.tools.iter().find(|typed| typed.tool.name == name)?;
        let arguments = match arguments
            .map(|arguments| serde_json::from_str::<Value>(arguments.get()))
        {
            None => json!({}),
            Some(Ok(arguments)) => arguments,
            Some(Err(error)) => {
                return Some(CallToolResult::error(format!("arguments are not valid: {error}")));
            }
        };
        if let Some(refusal) = typed.schema.refusal(name, &arguments) {
            return Some(refusal);
        }
        Some(typed.schema.checked(name, (typed.call)(arguments, cx.clone()).await))
    }
}

#[async_trait]
impl Handler for Toolbox {
    fn describe(&self) -> ServerDescription {
        self.description.clone()
    }

    fn task_options(&self, tool: &str) -> Option<TaskOptions> {
        self.tools.iter().find(|typed| typed.tool.name == tool)?.task
    }

    #[cfg(feature = "http")]
    fn header_arguments(&self, tool: &str) -> Option<Arc<super::HeaderArguments>> {
        self.tools.iter().find(|typed| typed.tool.name == tool)?.headers.clone()
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        _cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let (range, next_cursor) = page(self.tools.len(), cursor, self.page_size)?;
        Ok(ListToolsResult {
            tools: self.tools().skip(range.start).take(range.len()).cloned().collect(),
            next_cursor,
        })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let result =
            self.call(&params.name, params.arguments.as_deref(), cx).await.ok_or_else(|| {
                RpcError::invalid_params(format!(
                    "unknown tool '{}'",
                    crate::error::shortened(&params.name)
                ))
            })?;
        result.try_into()
    }
}

/// A result type of typed tools.
pub trait ToolOutput: Send {
    /// The schema of the answer's `structuredContent`, if it has one.
    #[must_use]
    fn output_schema() -> Option<Value> {
        None
    }

    /// The answer.
    fn into_result(self) -> CallToolResult;
}

impl ToolOutput for CallToolResult {
    fn into_result(self) -> CallToolResult {
        self
    }
}

impl ToolOutput for String {
    fn into_result(self) -> CallToolResult {
        CallToolResult::text(self)
    }
}

impl ToolOutput for &str {
    fn into_result(self) -> CallToolResult {
        CallToolResult::text(self)
    }
}

impl ToolOutput for Vec<Content> {
    fn into_result(self) -> CallToolResult {
        CallToolResult { content: self, ..CallToolResult::default() }
    }
}

/// An answer as data: its type's schema is listed with the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send> ToolOutput for Json<T> {
    fn output_schema() -> Option<Value> {
        object_schema_of::<T>()
    }

    fn into_result(self) -> CallToolResult {
        match serde_json::to_value(&self.0) {
            Ok(value @ Value::Object(_)) => CallToolResult::structured(value),
            // Only objects are structured content in every revision.
            Ok(value) => CallToolResult::text(value.to_string()),
            Err(error) => CallToolResult::error(format!("result is no JSON: {error}")),
        }
    }
}

/// The JSON Schema (2020-12) of a type whose values are objects; none for other types.
fn object_schema_of<T: JsonSchema>() -> Option<Value> {
    if takes_nothing::<T>() {
        return Some(json!({ "type": "object", "additionalProperties": false }));
    }
    let mut schema =
        SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>();
    // A title is the type's name, which means nothing to a model.
    schema.remove("title");
    let mut schema = schema.to_value();
    remove_integer_formats(&mut schema);
    let members = schema.as_object_mut()?;
    match members.get("type") {
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
        // A choice between objects; clients want it said.
        None => _ = members.insert("type".to_owned(), json!("object")),
    }
    Some(schema)
}

fn takes_nothing<T: JsonSchema>() -> bool {
    T::schema_name() == Cow::Borrowed("null")
}

/// `uint32` and the like are formats of this language, which validators elsewhere complain of.
fn remove_integer_formats(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| format.starts_with("uint") || format.starts_with("int"))
            {
                members.remove("format");
            }
            members.values_mut().for_each(remove_integer_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_integer_formats),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(tag = "kind")]
    enum Choice {
        #[expect(dead_code, reason = "only its schema is looked at")]
        One { a: u32 },
    }

    #[test]
    fn schemas_are_of_objects() {
        let tools = Toolbox::new("t", "1")
            .tool("unit", "", async |(): (), _| Ok::<_, String>("done"))
            .tool("choice", "", async |_: Choice, _| Ok::<_, String>(Json(vec![1])))
            .tool("unit", "again", async |(): (), _| Ok::<_, String>("done"));
        let listed: Vec<&Tool> = tools.tools().collect();
        assert_eq!(listed.len(), 2, "a tool of the same name is replaced");
        assert_eq!(listed[0].description.as_deref(), Some("again"));
        for tool in &listed {
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        }
        assert_eq!(listed[1].output_schema, None);
        assert!(!listed[1].input_schema.to_string().contains("uint32"));
    }

    #[test]
    #[should_panic(expected = "a tool's arguments are an object")]
    fn arguments_that_are_no_object_are_found_at_once() {
        _ = Toolbox::new("t", "1").tool("list", "", async |_: Vec<i32>, _| Ok::<_, String>(""));
    }
}
