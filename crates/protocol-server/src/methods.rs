//! The methods of each era, as jsonrpsee's method tables.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError},
};

use jsonrpsee::{
    Extensions,
    core::{
        RegisterMethodError,
        server::{MethodCallback, MethodResponse, Methods},
    },
    types::Params,
};
use marquetry_protocol_wire::{
    Era, Feature, Revision, RpcError,
    envelope::write_notification,
    members::OwnedMembers,
    shortened,
    types::{
        CallToolParams, CallToolResult, DiscoverResult, InitializeParams, InitializeResult,
        JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, LogLevel, TASKS_EXTENSION, meta_key,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{
    Handler, Reply, RequestContext, Server,
    conversation::{ClientFacts, Conversation, SessionFacts},
    notifier::{Filter, tagged},
    outgoing::Outgoing,
    reply::keep_object_schemas,
    subscriptions::{Subscriptions, Unsubscribing},
    task_methods, tasks,
};

/// A table for each era.
#[derive(Clone)]
pub(super) struct Tables {
    session: Methods,
    stateless: Methods,
    /// Methods of extensions, in both eras.
    extension: Methods,
}

/// A method from the table.
pub(super) struct Found<'a> {
    pub(super) name: &'static str,
    pub(super) callback: &'a MethodCallback,
    /// Whether it takes its parameters from jsonrpsee; the protocol's own methods take them from
    /// the [`RequestContext`], without a copy.
    pub(super) is_extension: bool,
}

/// A server has a method with that name already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server has a method '{name}' already; give the new one another name")]
pub struct MethodExists {
    /// The name.
    pub name: &'static str,
}

/// The result of one of our methods, stored in the extensions of its response, so that a large
/// result is not serialised again.
#[derive(Clone)]
pub(super) struct Outcome(pub(super) Result<Reply, RpcError>);

/// A call of one of our methods.
struct Call {
    server: Server,
    conversation: Arc<Conversation>,
    cx: RequestContext,
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
const MOST_PAGES: usize = 1_000;

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

impl Tables {
    pub(super) fn new() -> Self {
        let mut session = common();
        add(&mut session, "initialize", initialize);
        add(&mut session, "ping", async |_| Reply::json(&json!({})));
        add(&mut session, "logging/setLevel", set_level);
        add(&mut session, "resources/subscribe", async |call: Call| {
            let UriAlone { uri } = call.params()?;
            if let Some(facts) = call.conversation.session.get() {
                let handler = &call.server.shared.handler;
                facts.subscriptions.add(&uri, handler.subscribe(&uri, &call.cx)).await?;
            }
            Reply::json(&json!({}))
        });
        add(&mut session, "resources/unsubscribe", async |call: Call| {
            let UriAlone { uri } = call.params()?;
            if let Some(facts) = call.conversation.session.get() {
                facts.subscriptions.remove(&uri).await;
            }
            Reply::json(&json!({}))
        });
        let mut stateless = common();
        add(&mut stateless, "server/discover", discover);
        add(&mut stateless, "subscriptions/listen", listen);
        add(&mut stateless, "tasks/get", async |call: Call| {
            task_methods::get(&call.server.shared.tasks, &call.cx, call.params()?)
        });
        add(&mut stateless, "tasks/update", async |call: Call| {
            task_methods::update(&call.server.shared.tasks, &call.cx, call.params()?)
        });
        add(&mut stateless, "tasks/cancel", async |call: Call| {
            task_methods::cancel(&call.server.shared.tasks, &call.cx, call.params()?)
        });
        Self { session, stateless, extension: Methods::new() }
    }

    /// Adds a method of an extension.
    ///
    /// # Errors
    /// If a method has that name.
    pub(super) fn with<F, Fut>(
        mut self,
        name: &'static str,
        answer: F,
    ) -> Result<Self, MethodExists>
    where
        F: Fn(Option<Box<RawValue>>, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
    {
        let exists = |_: RegisterMethodError| MethodExists { name };
        let extension = method(name, answer).map_err(exists)?;
        self.session.clone().merge(extension.clone()).map_err(exists)?;
        self.stateless.clone().merge(extension.clone()).map_err(exists)?;
        self.extension.merge(extension).map_err(exists)?;
        Ok(self)
    }

    pub(super) fn find(&self, era: Era, method: &str) -> Option<Found<'_>> {
        let ours = match era {
            Era::Session => &self.session,
            Era::Stateless => &self.stateless,
        };
        match ours.method_with_name(method) {
            Some((name, callback)) => Some(Found { name, callback, is_extension: false }),
            None => self.extension.method_with_name(method).map(|(name, callback)| Found {
                name,
                callback,
                is_extension: true,
            }),
        }
    }
}

/// Returns the methods of both eras.
fn common() -> Methods {
    let mut table = Methods::new();
    add(&mut table, "tools/list", async |call: Call| {
        let mut list = call.pages(|handler, cursor, cx| handler.list_tools(cursor, cx)).await?;
        if call.cx.revision().era() == Era::Session {
            keep_object_schemas(&mut list.tools);
        }
        Reply::json(&list)
    });
    add(&mut table, "tools/call", async |call: Call| {
        let params = call.tool_call()?;
        let handler = &call.server.shared.handler;
        let tool = Called::of(&**handler, &params);
        if let Some(refusal) = tool.refusal(&params) {
            return Reply::json(&refusal);
        }
        match handler.task_options(&params.name) {
            None => tool.checked(handler.call_tool(params, &call.cx).await?),
            Some(options) => {
                let handler = handler.clone();
                let work = async move |cx: RequestContext| {
                    tool.checked(handler.call_tool(params, &cx).await?)
                };
                call.cx.run_as_task(options, work).await
            }
        }
    });
    add(&mut table, "resources/list", async |call: Call| {
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
    add(&mut table, "resources/templates/list", async |call: Call| {
        Reply::json(
            &call.pages(|handler, cursor, cx| handler.list_resource_templates(cursor, cx)).await?,
        )
    });
    add(&mut table, "resources/read", async |call: Call| {
        call.server.shared.handler.read_resource(call.params()?, &call.cx).await
    });
    add(&mut table, "completion/complete", async |call: Call| {
        Reply::json(&call.server.shared.handler.complete(call.params()?, &call.cx).await?)
    });
    add(&mut table, "prompts/list", async |call: Call| {
        Reply::json(&call.pages(|handler, cursor, cx| handler.list_prompts(cursor, cx)).await?)
    });
    add(&mut table, "prompts/get", async |call: Call| {
        call.server.shared.handler.get_prompt(call.params()?, &call.cx).await
    });
    table
}

impl Server {
    /// Returns an empty set of subscriptions for one client.
    pub(super) fn subscriptions(&self, most: usize) -> Arc<Subscriptions> {
        let handler = self.shared.handler.clone();
        let unsubscribe = move |uri: String| -> Unsubscribing {
            let handler = handler.clone();
            Box::pin(async move { handler.unsubscribe(&uri).await })
        };
        Subscriptions::new(Arc::new(unsubscribe), most)
    }
}

/// A tool of a call, with the schemas for its checks.
struct Called {
    #[cfg(feature = "schema")]
    schema: Option<(String, Arc<super::ToolSchema>)>,
}

#[cfg(feature = "schema")]
impl Called {
    fn of(handler: &dyn Handler, params: &CallToolParams) -> Self {
        let schema = handler.tool_schema(&params.name);
        Self { schema: schema.map(|schema| (params.name.clone(), schema)) }
    }

    fn refusal(&self, params: &CallToolParams) -> Option<CallToolResult> {
        let (name, schema) = self.schema.as_ref()?;
        schema.refusal_of_raw(name, params.arguments.as_deref())
    }

    fn checked(&self, reply: Reply) -> Result<Reply, RpcError> {
        match &self.schema {
            Some((name, schema)) => schema.checked_reply(name, reply),
            None => Ok(reply),
        }
    }
}

#[cfg(not(feature = "schema"))]
impl Called {
    fn of(_: &dyn Handler, _: &CallToolParams) -> Self {
        Self {}
    }

    fn refusal(&self, _: &CallToolParams) -> Option<CallToolResult> {
        None
    }

    fn checked(&self, reply: Reply) -> Result<Reply, RpcError> {
        Ok(reply)
    }
}

impl Call {
    /// Returns an empty set of subscriptions for the client.
    fn subscriptions(&self) -> Arc<Subscriptions> {
        self.server.subscriptions(self.server.limits().max_subscriptions)
    }

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
        for _ in 0..MOST_PAGES {
            let Some(cursor) = all.next_cursor().take() else { return Ok(all) };
            let mut page = list(handler, Some(&cursor), &self.cx).await?;
            *all.next_cursor() = page.next_cursor().take();
            all.append(page);
        }
        Err(RpcError::limit_exceeded(format!("the list has more than {MOST_PAGES} pages")))
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

fn add<F, Fut>(table: &mut Methods, name: &'static str, method: F)
where
    F: Fn(Call) -> Fut + Send + Sync + Copy + 'static,
    Fut: Future<Output = Result<Reply, RpcError>> + Send,
{
    let callback = MethodCallback::Async(Arc::new(
        move |_id, _params, _connection, _limit, extensions: Extensions| {
            Box::pin(async move {
                let outcome = match call_of(&extensions) {
                    Some(call) => method(call).await,
                    None => Err(RpcError::internal("call came without its context")),
                };
                let mut extensions = Extensions::new();
                extensions.insert(Outcome(outcome));
                MethodResponse::notification().with_extensions(extensions)
            })
        },
    ));
    table.verify_and_insert(name, callback).expect("each name is added once, just above");
}

/// Returns a table with one method of an extension.
fn method<F, Fut>(name: &'static str, answer: F) -> Result<Methods, RegisterMethodError>
where
    F: Fn(Option<Box<RawValue>>, RequestContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
{
    let answer = Arc::new(answer);
    let callback = MethodCallback::Async(Arc::new(
        move |_id, params: Params<'static>, _connection, _limit, extensions: Extensions| {
            let answer = answer.clone();
            Box::pin(async move {
                let params = params.as_str().map(|text| RawValue::from_string(text.to_owned()));
                let outcome = match (extensions.get::<RequestContext>(), params.transpose()) {
                    (Some(cx), Ok(params)) => answer(params, cx.clone()).await,
                    (None, _) => Err(RpcError::internal("call came without its context")),
                    (_, Err(error)) => Err(RpcError::invalid_params(error.to_string())),
                };
                let mut extensions = Extensions::new();
                extensions.insert(Outcome(outcome));
                MethodResponse::notification().with_extensions(extensions)
            })
        },
    ));
    let mut table = Methods::new();
    table.verify_and_insert(name, callback)?;
    Ok(table)
}

fn call_of(extensions: &Extensions) -> Option<Call> {
    Some(Call {
        server: extensions.get::<Server>()?.clone(),
        conversation: extensions.get::<Arc<Conversation>>()?.clone(),
        cx: extensions.get::<RequestContext>()?.clone(),
    })
}

async fn initialize(call: Call) -> Result<Reply, RpcError> {
    let params: InitializeParams = call.params()?;
    let revision = Revision::negotiate(&params.protocol_version);
    let subscriptions = call.subscriptions();
    let client =
        Arc::new(ClientFacts { info: Some(params.client_info), capabilities: params.capabilities });
    let facts = SessionFacts {
        revision,
        client: client.clone(),
        listener: call.server.notifier().listen(
            Filter::Session { subscriptions: subscriptions.clone() },
            call.cx.principal().cloned(),
        ),
        subscriptions,
    };
    if call.conversation.session.set(facts).is_err() {
        return Err(RpcError::invalid_request("the session is already initialized"));
    }
    let mut description = call.server.shared.handler.describe_for(&client.capabilities);
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

async fn set_level(call: Call) -> Result<Reply, RpcError> {
    #[derive(Deserialize)]
    struct LevelAlone {
        level: LogLevel,
    }
    if call.server.shared.handler.describe().capabilities.logging.is_none() {
        return Err(RpcError::method_not_found(call.cx.method()));
    }
    let LevelAlone { level } = call.params()?;
    *call.conversation.log_level.lock().unwrap_or_else(PoisonError::into_inner) = level;
    call.server.shared.handler.set_log_level(level, &call.cx).await;
    Reply::json(&json!({}))
}

async fn discover(call: Call) -> Result<Reply, RpcError> {
    let description = call.server.shared.handler.describe_for(call.cx.capabilities());
    let mut meta = JsonObject::new();
    meta.insert(meta_key::SERVER_INFO.to_owned(), json!(description.info));
    Reply::json(&DiscoverResult {
        supported_versions: Revision::SERVED.iter().rev().map(ToString::to_string).collect(),
        capabilities: description.capabilities,
        instructions: description.instructions,
        meta,
    })
}

/// The notifications that a stateless client wants.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct NotificationFilter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    task_ids: Vec<String>,
}

/// Answers `subscriptions/listen`: the answer comes when the server stops, the notifications come
/// before it.
async fn listen(call: Call) -> Result<Reply, RpcError> {
    #[derive(Deserialize)]
    struct ListenParams {
        notifications: NotificationFilter,
    }
    let ListenParams { notifications: mut wanted } = call.params()?;
    let tasks = &call.server.shared.tasks;
    if !wanted.task_ids.is_empty() && !call.cx.capabilities().has_extension(TASKS_EXTENSION) {
        return Err(tasks::needs_tasks("notifications/tasks"));
    }
    wanted.task_ids.truncate(call.server.limits().max_tasks);
    wanted.task_ids.retain(|id| tasks.job(id, call.cx.principal().map(|it| &**it)).is_ok());
    // The server accepts only what its capabilities declare.
    let has = call.server.shared.handler.describe().capabilities;
    wanted.tools_list_changed &= has.tools.is_some_and(|tools| tools.list_changed);
    wanted.prompts_list_changed &= has.prompts.is_some_and(|prompts| prompts.list_changed);
    wanted.resources_list_changed &= has.resources.is_some_and(|resources| resources.list_changed);
    let subscriptions = call.subscriptions();
    // Resources without subscriptions are left out of the accepted ones.
    let mut agreed_uris = Vec::new();
    for uri in std::mem::take(&mut wanted.resource_subscriptions) {
        let subscribe = call.server.shared.handler.subscribe(&uri, &call.cx);
        if subscriptions.add(&uri, subscribe).await.is_ok() {
            agreed_uris.push(uri);
        }
    }
    wanted.resource_subscriptions = agreed_uris;
    let methods = [
        (wanted.tools_list_changed, "notifications/tools/list_changed"),
        (wanted.prompts_list_changed, "notifications/prompts/list_changed"),
        (wanted.resources_list_changed, "notifications/resources/list_changed"),
    ];
    let methods =
        methods.into_iter().filter_map(|(wanted, method)| wanted.then_some(method)).collect();
    let id = call.cx.id();
    let listener = call.server.notifier().listen(
        Filter::Listen { id: id.clone(), methods, subscriptions },
        call.cx.principal().cloned(),
    );

    let watch = tasks.watch(wanted.task_ids.iter().cloned());

    let mut agreed = JsonObject::new();
    agreed.insert("notifications".to_owned(), json!(wanted));
    let acknowledged =
        write_notification("notifications/subscriptions/acknowledged", Some(&tagged(id, agreed)));
    call.cx.send(Outgoing::notification(acknowledged)).await;
    loop {
        tokio::select! {
            message = listener.next() => call.cx.send(Outgoing::notification(message)).await,
            id = watch.next() => {
                if let Some(message) = task_methods::notification(tasks, &id, &call.cx) {
                    call.cx.send(Outgoing::notification(message)).await;
                }
            }
            () = call.server.shared.shutdown.cancelled() => break,
            () = call.conversation.ending.cancelled() => break,
        }
    }
    let end = json!({ "_meta": { meta_key::SUBSCRIPTION_ID: id } });
    to_raw_value(&end).map(Reply::raw).map_err(|error| RpcError::internal(error.to_string()))
}
