//! Tools, resources and prompts written as functions.

mod listed;
mod output;
mod schema;

use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use marquetry_protocol_wire::{
    Era, Revision, RpcError,
    types::{
        CallToolParams, CallToolResult, GetPromptParams, GetPromptResult, Implementation,
        JsonObject, ListChanged, ListPromptsResult, ListResourcesResult, ListToolsResult, Prompt,
        ReadResourceParams, ReadResourceResult, Resource, ResourceContents, ResourcesCapability,
        ServerCapabilities, TASKS_EXTENSION, Tool,
    },
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};

pub use self::output::{Json, ToolOutput};
use self::{
    listed::{ListedPrompt, ListedResource},
    schema::{object_schema_of, takes_nothing, wrap, wrapped},
};
#[cfg(feature = "http")]
use super::HeaderArguments;
use super::{
    Handler, Reply, RequestContext, ServerDescription, TaskOptions, ToolSchema, page,
    states::States,
};

/// A server of typed tools, resources and prompts.
///
/// The type of a tool's arguments defines its schema, and each call is checked against it. Invalid
/// arguments result in a failed tool call, which a model can correct (2025-11-25, "Error
/// Handling").
///
/// ```
/// # use marquetry_protocol_server::Toolbox;
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let adder = Toolbox::new("adder", "1.0.0")
///     .tool("add", "Adds two numbers.", async |add: Add, _| (add.a + add.b).to_string());
/// assert_eq!(adder.tools().next().unwrap().input_schema["required"], serde_json::json!(["a", "b"]));
/// ```
pub struct Toolbox {
    description: ServerDescription,
    tools: Vec<TypedTool>,
    resources: Vec<ListedResource>,
    prompts: Vec<ListedPrompt>,
    states: Arc<States>,
    page_size: usize,
}

struct TypedTool {
    tool: Tool,
    schema: ToolSchema,
    /// The output schema for clients whose revision knows only objects, if it differs.
    wrapped_output: Option<Value>,
    /// The arguments that HTTP headers repeat.
    #[cfg(feature = "http")]
    headers: Option<Arc<HeaderArguments>>,
    task: Option<TaskOptions>,
    call: Box<dyn Fn(Value, RequestContext) -> CallFuture + Send + Sync>,
}

impl TypedTool {
    fn new<A, F, Fut>(name: String, description: String, call: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        F: Fn(A, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        let input_schema = object_schema_of::<A>().expect("a tool's arguments are an object");
        let call = Arc::new(call);
        let tool = Tool {
            name,
            description: Some(description),
            input_schema,
            output_schema: Fut::Output::output_schema(),
            ..Tool::default()
        };
        Self {
            schema: ToolSchema::of(&tool).expect("the schema of a type is a valid JSON Schema"),
            #[cfg(feature = "http")]
            headers: HeaderArguments::of(&tool.input_schema).ok().flatten(),
            wrapped_output: tool.output_schema.as_ref().and_then(wrapped),
            tool,
            task: None,
            call: Box::new(move |arguments, cx| {
                let call = call.clone();
                Box::pin(async move {
                    // The unit type takes no arguments, which are an empty object in JSON.
                    let arguments = if takes_nothing::<A>() { Value::Null } else { arguments };
                    match serde_json::from_value::<A>(arguments) {
                        Ok(arguments) => call(arguments, cx).await.into_result(),
                        Err(error) => {
                            CallToolResult::error(format!("arguments are not valid: {error}"))
                        }
                    }
                })
            }),
        }
    }
}

impl TypedTool {
    /// Returns whether clients of `revision` accept only objects as structured content.
    fn wraps(&self, revision: Revision) -> bool {
        self.wrapped_output.is_some() && revision.era() == Era::Session
    }

    /// Returns the tool in the form for clients of `revision`.
    fn listed_for(&self, revision: Revision) -> Tool {
        let mut tool = self.tool.clone();
        if self.wraps(revision) {
            tool.output_schema.clone_from(&self.wrapped_output);
        }
        tool
    }
}

type CallFuture = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

impl Toolbox {
    /// Creates a server without tools.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ListChanged::default());
        let info = Implementation::new(name, version);
        Self {
            description: ServerDescription { info, capabilities, instructions: None },
            tools: Vec::new(),
            resources: Vec::new(),
            prompts: Vec::new(),
            states: Arc::default(),
            page_size: 100,
        }
    }

    /// Sets the instructions for the model.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.description.instructions = Some(text.into());
        self
    }

    /// Changes the server's description: its title, web site and icons, capabilities.
    #[must_use]
    pub fn description(mut self, change: impl FnOnce(&mut ServerDescription)) -> Self {
        change(&mut self.description);
        self
    }

    /// Changes the description of the tool `name`, which must exist: its title, icons, hints,
    /// `_meta`. Its name and schemas stay unchanged.
    ///
    /// # Panics
    /// If there is no such tool.
    #[must_use]
    pub fn tool_description(mut self, name: &str, change: impl FnOnce(&mut Tool)) -> Self {
        let typed = self.tools.iter_mut().find(|typed| typed.tool.name == name);
        let tool = &mut typed.expect("the tool was added before").tool;
        let input_schema = tool.input_schema.clone();
        let output_schema = tool.output_schema.clone();
        change(tool);
        *tool = Tool { name: name.to_owned(), input_schema, output_schema, ..std::mem::take(tool) };
        self
    }

    /// Adds a value for the functions of tools, resources and prompts; [`RequestContext::state`]
    /// returns it. There is one value of each type; a second one replaces the first.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # use marquetry_protocol_server::{RequestContext, Toolbox};
    /// let counter = Toolbox::new("counter", "1.0.0")
    ///     .with_state(AtomicU64::new(0))
    ///     .tool("count", "Counts its calls.", async |(), cx: RequestContext| {
    ///         cx.state::<AtomicU64>().fetch_add(1, Ordering::Relaxed).to_string()
    ///     });
    /// ```
    #[must_use]
    pub fn with_state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        Arc::make_mut(&mut self.states).insert(state);
        self
    }

    /// Sets the number of tools on a page of `tools/list`; 100 by default.
    #[must_use]
    pub fn page_size(mut self, tools: usize) -> Self {
        self.page_size = tools;
        self
    }

    /// Adds a tool, or replaces one with the same name. An `Err` from `call` is a failed tool call,
    /// whose message the model reads.
    ///
    /// # Panics
    /// If `A` is not an object, or its schema is invalid. Both are errors in the program, and
    /// appear as soon as it starts.
    #[must_use]
    pub fn tool<A, F, Fut>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        call: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        F: Fn(A, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        self.add(TypedTool::new(name.into(), description.into(), call))
    }

    /// Adds a tool whose calls run as tasks for clients that support tasks, and as ordinary calls
    /// for others. The server then declares tasks.
    ///
    /// # Panics
    /// As [`Self::tool`].
    #[must_use]
    pub fn task_tool<A, F, Fut>(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        options: TaskOptions,
        call: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send,
        F: Fn(A, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        self.description.capabilities.add_extension(TASKS_EXTENSION);
        let tool = TypedTool::new(name.into(), description.into(), call);
        self.add(TypedTool { task: Some(options), ..tool })
    }

    /// Adds a resource, or replaces one with the same URI. `read` returns its text or its contents.
    ///
    /// ```
    /// # use marquetry_protocol_server::Toolbox; use marquetry_protocol_wire::types::Resource;
    /// let motd = Resource { uri: "motd://today".into(), name: "motd".into(), ..Resource::default() };
    /// let server = Toolbox::new("motd", "1.0.0").resource(motd, async |_| Ok("Hello."));
    /// ```
    #[must_use]
    pub fn resource<F, Fut, C>(mut self, resource: Resource, read: F) -> Self
    where
        F: Fn(RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C, RpcError>> + Send + 'static,
        C: Into<ResourceContents>,
    {
        self.description.capabilities.resources.get_or_insert_with(ResourcesCapability::default);
        self.resources.retain(|known| known.resource.uri != resource.uri);
        self.resources.push(ListedResource::new(resource, read));
        self
    }

    /// Adds a prompt, or replaces one with the same name. `get` fills it in with the arguments, by
    /// name.
    ///
    /// ```
    /// # use marquetry_protocol_server::Toolbox; use marquetry_protocol_wire::types::Prompt;
    /// let greet = Prompt { name: "greet".into(), ..Prompt::default() };
    /// let server = Toolbox::new("greeter", "1.0.0")
    ///     .prompt(greet, async |arguments, _| Ok(format!("Greet {}.", arguments["who"])));
    /// ```
    #[must_use]
    pub fn prompt<F, Fut, P>(mut self, prompt: Prompt, get: F) -> Self
    where
        F: Fn(JsonObject, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<P, RpcError>> + Send + 'static,
        P: Into<GetPromptResult>,
    {
        self.description.capabilities.prompts.get_or_insert_with(ListChanged::default);
        self.prompts.retain(|known| known.prompt.name != prompt.name);
        self.prompts.push(ListedPrompt::new(prompt, get));
        self
    }

    fn add(mut self, typed: TypedTool) -> Self {
        match self.tools.iter_mut().find(|known| known.tool.name == typed.tool.name) {
            Some(known) => *known = typed,
            None => self.tools.push(typed),
        }
        self
    }

    /// Returns the tools for lists.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|typed| &typed.tool)
    }

    /// Returns the resources for lists.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter().map(|listed| &listed.resource)
    }

    /// Returns the prompts for lists.
    pub fn prompts(&self) -> impl Iterator<Item = &Prompt> {
        self.prompts.iter().map(|listed| &listed.prompt)
    }

    /// Calls a tool; [`None`] if there is no tool with that name.
    pub async fn call(
        &self,
        name: &str,
        arguments: Option<&RawValue>,
        cx: &RequestContext,
    ) -> Option<CallToolResult> {
        let typed = self.tools.iter().find(|typed| typed.tool.name == name)?;
        let arguments = match arguments {
            None => json!({}),
            Some(arguments) => match cx.parse(arguments).await {
                Ok(arguments) => arguments,
                Err(why) => {
                    return Some(CallToolResult::error(format!("arguments are not valid: {why}")));
                }
            },
        };
        if let Some(refusal) = typed.schema.refusal(name, &arguments) {
            return Some(refusal);
        }
        let called = (typed.call)(arguments, cx.with_states(&self.states)).await;
        let mut result = typed.schema.checked(name, called);
        if typed.wraps(cx.revision()) {
            result.structured_content = result.structured_content.map(wrap);
        }
        Some(result)
    }
}

#[cfg(feature = "http")]
impl super::ToolHeaders for Toolbox {
    fn arguments(
        &self,
        tool: &str,
        _: Option<&Implementation>,
        _: &super::Peer,
    ) -> Option<Arc<HeaderArguments>> {
        self.tools.iter().find(|typed| typed.tool.name == tool)?.headers.clone()
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
    fn tool_headers(&self) -> Option<&dyn super::ToolHeaders> {
        Some(self)
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let (range, next_cursor) = page(self.tools.len(), cursor, self.page_size)?;
        let tools = self.tools[range].iter().map(|it| it.listed_for(cx.revision())).collect();
        Ok(ListToolsResult { tools, next_cursor })
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
                    marquetry_protocol_wire::shortened(&params.name)
                ))
            })?;
        result.try_into()
    }

    async fn list_resources(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        if self.description.capabilities.resources.is_none() {
            return Err(RpcError::method_not_found(cx.method()));
        }
        let (range, next_cursor) = page(self.resources.len(), cursor, self.page_size)?;
        let resources = self.resources[range].iter().map(|it| it.resource.clone()).collect();
        Ok(ListResourcesResult { resources, next_cursor })
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let known = self.resources.iter().find(|known| known.resource.uri == params.uri);
        let known = known.ok_or_else(|| {
            if self.resources.is_empty() {
                RpcError::method_not_found(cx.method())
            } else {
                RpcError::resource_not_found(&params.uri)
            }
        })?;
        let contents = known.read(cx.with_states(&self.states)).await?;
        Reply::json(&ReadResourceResult { contents: vec![contents], meta: None })
    }

    async fn list_prompts(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListPromptsResult, RpcError> {
        if self.description.capabilities.prompts.is_none() {
            return Err(RpcError::method_not_found(cx.method()));
        }
        let (range, next_cursor) = page(self.prompts.len(), cursor, self.page_size)?;
        let prompts = self.prompts[range].iter().map(|it| it.prompt.clone()).collect();
        Ok(ListPromptsResult { prompts, next_cursor })
    }

    async fn get_prompt(
        &self,
        params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let known = self.prompts.iter().find(|known| known.prompt.name == params.name);
        let known = known.ok_or_else(|| {
            if self.prompts.is_empty() {
                RpcError::method_not_found(cx.method())
            } else {
                RpcError::invalid_params(format!(
                    "unknown prompt '{}'",
                    marquetry_protocol_wire::shortened(&params.name)
                ))
            }
        })?;
        Reply::json(
            &known.get(params.arguments.unwrap_or_default(), cx.with_states(&self.states)).await?,
        )
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
        assert_eq!(listed[1].output_schema.as_ref().unwrap()["type"], "array");
        assert!(!listed[1].input_schema.to_string().contains("uint32"));
    }

    #[test]
    #[should_panic(expected = "a tool's arguments are an object")]
    fn arguments_that_are_no_object_are_found_at_once() {
        _ = Toolbox::new("t", "1").tool("list", "", async |_: Vec<i32>, _| Ok::<_, String>(""));
    }
}
