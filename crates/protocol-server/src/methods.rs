//! The methods of each era.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError},
};

use marquetry_protocol_wire::{
    Era, Feature, Revision, RpcError,
    members::OwnedMembers,
    shortened,
    types::{
        CallToolParams, CallToolResult, DiscoverResult, InitializeParams, InitializeResult,
        JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, LogLevel, TASKS_EXTENSION, meta_key,
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{json, value::RawValue};

use super::{
    Handler, Reply, RequestContext,
    conversation::{ClientFacts, SessionFacts},
    listen::listen,
    method_table::{Method, MethodCall, MethodTable},
    notifier::Filter,
    reply::keep_object_schemas,
    subscriptions::Subscriptions,
    task_methods,
};

/// A table for each era.
#[derive(Clone)]
pub(super) struct Tables {
    session: MethodTable,
    stateless: MethodTable,
    /// Methods of extensions, in both eras.
    extension: MethodTable,
}

/// A server has a method with that name already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server has a method '{name}' already; give the new one another name")]
pub struct MethodExists {
    /// The name.
    pub name: &'static str,
}

impl Tables {
    pub(super) fn new() -> Self {
        let mut session = common();
        session.add("initialize", initialize);
        session.add("ping", async |_| Reply::json(&json!({})));
        session.add("logging/setLevel", set_level);
        session.add("resources/subscribe", async |call: MethodCall| {
            let UriAlone { uri } = call.params()?;
            if let Some(facts) = call.cx.request().conversation.session.get() {
                let handler = &call.server.shared.handler;
                facts.subscriptions.add(&uri, handler.subscribe(&uri, &call.cx)).await?;
            }
            Reply::json(&json!({}))
        });
        session.add("resources/unsubscribe", async |call: MethodCall| {
            let UriAlone { uri } = call.params()?;
            if let Some(facts) = call.cx.request().conversation.session.get() {
                facts.subscriptions.remove(&uri).await;
            }
            Reply::json(&json!({}))
        });
        let mut stateless = common();
        stateless.add("server/discover", discover);
        stateless.add("subscriptions/listen", async |call: MethodCall| {
            listen(&call.server, &call.cx, call.params()?).await
        });
        stateless.add("tasks/get", async |call: MethodCall| {
            task_methods::get(&call.server.shared.tasks, &call.cx, call.params()?)
        });
        stateless.add("tasks/update", async |call: MethodCall| {
            task_methods::update(&call.server.shared.tasks, &call.cx, call.params()?)
        });
        stateless.add("tasks/cancel", async |call: MethodCall| {
            task_methods::cancel(&call.server.shared.tasks, &call.cx, call.params()?)
        });
        Self { session, stateless, extension: MethodTable::default() }
    }

    /// Adds a method of an extension.
    ///
    /// # Errors
    /// Returns an error if a method has that name.
    pub(super) fn with<F, Fut>(
        mut self,
        name: &'static str,
        answer: F,
    ) -> Result<Self, MethodExists>
    where
        F: Fn(Option<Box<RawValue>>, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
    {
        let tables = [&self.session, &self.stateless, &self.extension];
        if tables.iter().any(|table| table.find(name).is_some()) {
            return Err(MethodExists { name });
        }
        let answer = Arc::new(answer);
        self.extension.add(name, move |call: MethodCall| answer(call.raw_params, call.cx));
        Ok(self)
    }

    pub(super) fn find(&self, era: Era, name: &str) -> Option<Method> {
        let ours = match era {
            Era::Session => &self.session,
            Era::Stateless => &self.stateless,
        };
        ours.find(name).or_else(|| {
            let mut method = self.extension.find(name)?;
            method.is_extension = true;
            Some(method)
        })
    }
}

/// The parameters of a method for one resource.
#[derive(Deserialize)]
struct UriAlone {
    uri: String,
}

/// The parameters of every list.
#[derive(Default, Deserialize)]
struct ListParams {
    cursor: Option<String>,
}

/// A list method of the handler.
type ListMethod<T> = for<'a> fn(
    &'a dyn Handler,
    Option<&'a str>,
    &'a RequestContext,
) -> Pin<Box<dyn Future<Output = Result<T, RpcError>> + Send + 'a>>;

/// Most pages that are joined into one.
const MAX_PAGES: usize = 1_000;

/// A page of a list, to which further pages can be added.
trait Pages {
    fn next_cursor(&mut self) -> &mut Option<String>;
    fn append(&mut self, page: Self);
}

macro_rules! pages {
    ($($list:ident . $items:ident),*) => {
        $(impl Pages for $list {
            fn next_cursor(&mut self) -> &mut Option<String> {
                &mut self.next_cursor
            }

            fn append(&mut self, page: Self) {
                self.$items.extend(page.$items);
            }
        })*
    };
}

pages! {
    ListToolsResult.tools, ListResourcesResult.resources, ListResourceTemplatesResult.resource_templates,
    ListPromptsResult.prompts
}

/// Returns the methods of both eras.
fn common() -> MethodTable {
    let mut table = MethodTable::default();
    table.add("tools/list", async |call: MethodCall| {
        let mut list = call.pages(|handler, cursor, cx| handler.list_tools(cursor, cx)).await?;
        if call.cx.revision().era() == Era::Session {
            keep_object_schemas(&mut list.tools);
        }
        Reply::json(&list)
    });
    table.add("tools/call", async |call: MethodCall| {
        let params = call.tool_call()?;
        let handler = &call.server.shared.handler;
        let tool = CheckedTool::of(&**handler, &params);
        if let Some(refusal) = tool.refusal(&params, &call.cx).await {
            return Reply::json(&refusal);
        }
        match handler.task_options(&params.name) {
            None => tool.checked(handler.call_tool(params, &call.cx).await?),
            Some(options) => {
                let handler = handler.clone();
                call.cx
                    .run_as_task(options, async move |cx: RequestContext| {
                        tool.checked(handler.call_tool(params, &cx).await?)
                    })
                    .await
            }
        }
    });
    table.add("resources/list", async |call: MethodCall| {
        let list = call.pages(|handler, cursor, cx| handler.list_resources(cursor, cx)).await?;
        if call.cx.revision() != Revision::V2024_10_07 {
            return Reply::json(&list);
        }
        // The first revision has no list of templates; they are in the list of resources.
        let templates =
            call.pages(|handler, cursor, cx| handler.list_resource_templates(cursor, cx)).await;
        let templates = templates.map(|list| list.resource_templates).unwrap_or_default();
        Reply::json(&json!({ "resources": list.resources, "resourceTemplates": templates }))
    });
    table.add("resources/templates/list", async |call: MethodCall| {
        Reply::json(
            &call.pages(|handler, cursor, cx| handler.list_resource_templates(cursor, cx)).await?,
        )
    });
    table.add("resources/read", async |call: MethodCall| {
        call.server.shared.handler.read_resource(call.params()?, &call.cx).await
    });
    table.add("completion/complete", async |call: MethodCall| {
        Reply::json(&call.server.shared.handler.complete(call.params()?, &call.cx).await?)
    });
    table.add("prompts/list", async |call: MethodCall| {
        Reply::json(&call.pages(|handler, cursor, cx| handler.list_prompts(cursor, cx)).await?)
    });
    table.add("prompts/get", async |call: MethodCall| {
        call.server.shared.handler.get_prompt(call.params()?, &call.cx).await
    });
    table
}

/// A tool of a call, with the schemas for its checks.
struct CheckedTool {
    #[cfg(feature = "schema")]
    schema: Option<(String, Arc<super::ToolSchema>)>,
}

#[cfg(feature = "schema")]
impl CheckedTool {
    fn of(handler: &dyn Handler, params: &CallToolParams) -> Self {
        let schema = handler.tool_schema(&params.name);
        Self { schema: schema.map(|schema| (params.name.clone(), schema)) }
    }

    async fn refusal(
        &self,
        params: &CallToolParams,
        cx: &RequestContext,
    ) -> Option<CallToolResult> {
        let (name, schema) = self.schema.as_ref()?;
        let Some(arguments) = &params.arguments else { return schema.refusal(name, &json!({})) };
        match cx.parse(arguments).await {
            Ok(arguments) => schema.refusal(name, &arguments),
            Err(why) => Some(CallToolResult::error(format!("arguments are not valid: {why}"))),
        }
    }

    fn checked(&self, reply: Reply) -> Result<Reply, RpcError> {
        let schema = self.schema.as_ref();
        match schema.and_then(|(name, schema)| schema.error_for(name, reply.get())) {
            Some(error) => Reply::json(&error),
            None => Ok(reply),
        }
    }
}

#[cfg(not(feature = "schema"))]
impl CheckedTool {
    fn of(_: &dyn Handler, _: &CallToolParams) -> Self {
        Self {}
    }

    async fn refusal(&self, _: &CallToolParams, _: &RequestContext) -> Option<CallToolResult> {
        None
    }

    fn checked(&self, reply: Reply) -> Result<Reply, RpcError> {
        Ok(reply)
    }
}

impl MethodCall {
    fn params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        self.members()?.parse().map_err(|error| RpcError::invalid_params(error.to_string()))
    }

    fn members(&self) -> Result<&OwnedMembers, RpcError> {
        self.cx.params().ok_or_else(|| {
            RpcError::invalid_params(format!("method '{}' needs parameters", self.cx.method()))
        })
    }

    /// Parses the parameters of `tools/call`. The arguments may be long and are known to be valid
    /// JSON, so they are not parsed again.
    fn tool_call(&self) -> Result<CallToolParams, RpcError> {
        let members = self.members()?;
        let rest: CallToolParams = members
            .parse_without("arguments")
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        let arguments = members.get("arguments").filter(|arguments| arguments.get() != "null");
        if let Some(kind) = arguments.and_then(|arguments| kind_unless_object(arguments.get())) {
            let tool = shortened(&rest.name);
            return Err(RpcError::invalid_params(format!(
                "arguments of tool '{tool}' must be an object, not {kind}"
            )));
        }
        Ok(CallToolParams { arguments: arguments.map(ToOwned::to_owned), ..rest })
    }

    /// Returns the requested page; for revisions without pages, all pages in one.
    async fn pages<T: Pages>(&self, list: ListMethod<T>) -> Result<T, RpcError> {
        let ListParams { cursor } = self.params_or_default()?;
        let handler = &*self.server.shared.handler;
        let mut all = list(handler, cursor.as_deref(), &self.cx).await?;
        if self.cx.revision().has(Feature::Pagination) {
            return Ok(all);
        }
        for _ in 0..MAX_PAGES {
            let Some(cursor) = all.next_cursor().take() else { return Ok(all) };
            let mut page = list(handler, Some(&cursor), &self.cx).await?;
            *all.next_cursor() = page.next_cursor().take();
            all.append(page);
        }
        Err(RpcError::limit_exceeded(format!("the list has more than {MAX_PAGES} pages")))
    }

    fn params_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, RpcError> {
        if self.cx.params().is_none() { Ok(T::default()) } else { self.params() }
    }
}

/// Returns what a JSON value is, if it is not an object.
fn kind_unless_object(json: &str) -> Option<&'static str> {
    match json.as_bytes().first() {
        Some(b'{') => None,
        Some(b'[') => Some("an array"),
        Some(b'"') => Some("a string"),
        Some(b't' | b'f') => Some("a boolean"),
        _ => Some("a number"),
    }
}

async fn initialize(call: MethodCall) -> Result<Reply, RpcError> {
    let params: InitializeParams = call.params()?;
    let revision = Revision::negotiate(&params.protocol_version);
    let handler = call.server.shared.handler.clone();
    let subscriptions =
        Subscriptions::new(handler, call.cx.conversation(), call.server.limits().max_subscriptions);
    let client =
        Arc::new(ClientFacts { info: Some(params.client_info), capabilities: params.capabilities });
    let facts = SessionFacts {
        revision,
        client: client.clone(),
        listener: call
            .server
            .notifier()
            .listen(Filter::Session { subscriptions: subscriptions.clone() }, call.cx.recipient()),
        subscriptions,
    };
    if call.cx.request().conversation.session.set(facts).is_err() {
        return Err(RpcError::invalid_request("the session is already initialized"));
    }
    let mut description = call.server.shared.handler.describe_to(&client.capabilities, &call.cx);
    // Tasks of this form are newer than sessions.
    description.capabilities.extensions.shift_remove(TASKS_EXTENSION);
    if !revision.has(Feature::Icons) {
        // Extensions are newer than these revisions, so only extensions that the client names are
        // announced.
        description.capabilities.extensions.retain(|id, _| client.capabilities.has_extension(id));
    }
    let reply = Reply::json(&InitializeResult {
        protocol_version: revision.as_str().to_owned(),
        capabilities: description.capabilities,
        server_info: description.info,
        instructions: description.instructions,
    })?;
    // The request itself had no revision yet.
    reply.shaped("initialize", revision)
}

async fn set_level(call: MethodCall) -> Result<Reply, RpcError> {
    #[derive(Deserialize)]
    struct LevelAlone {
        level: LogLevel,
    }
    if call.server.shared.handler.describe().capabilities.logging.is_none() {
        return Err(RpcError::method_not_found(call.cx.method()));
    }
    let LevelAlone { level } = call.params()?;
    *call.cx.request().conversation.log_level.lock().unwrap_or_else(PoisonError::into_inner) =
        level;
    call.server.shared.handler.set_log_level(level, &call.cx).await;
    Reply::json(&json!({}))
}

async fn discover(call: MethodCall) -> Result<Reply, RpcError> {
    let handler = &call.server.shared.handler;
    let description = handler.describe_to(call.cx.capabilities(), &call.cx);
    let mut meta = JsonObject::new();
    meta.insert(meta_key::SERVER_INFO.to_owned(), json!(description.info));
    Reply::json(&DiscoverResult {
        supported_versions: Revision::SERVED.iter().rev().map(ToString::to_string).collect(),
        capabilities: description.capabilities,
        instructions: description.instructions,
        meta,
    })
}
