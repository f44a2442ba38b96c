//! Routes requests of clients to upstreams, and answers back.

use std::{
    pin::pin,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::join_all};
use marquetry_apps_ext::types::{ToolUi, is_ui_enabled};
use marquetry_artifacts::Settings;
use marquetry_in_flight::{Owner, Target};
use marquetry_nearest::nearest;
use marquetry_policy::ItemKind;
use marquetry_protocol::{
    Era, Feature, RpcError,
    client::{Client, ClientError},
    error_code,
    server::{HeaderArguments, Peer, Reply, RequestContext, fair::Full},
    types::{
        CallToolParams, CompleteParams, CompleteReference, CompleteResult, GetPromptParams,
        JsonObject, ReadResourceParams,
    },
};
use marquetry_request_notes::{CallFailureKind, UpstreamCall};
use marquetry_trace_context::TraceContext;
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tracing::Instrument as _;

use super::{
    Catalog, Gateway, List, Route, ToolRoute, Upstream, UpstreamState,
    bridge::{Carried, Outgoing},
    call_error::{
        CallFailure, FORBIDDEN, Unreachable, error_for_agent, is_fault_of_upstream, is_page,
        shortened_error, unauthorized,
    },
    limited::Limited,
    observer::{CallObserver, Observed},
    routes,
    trace::with_traceparent,
    upstream_set::InUse,
    uris::is_reserved,
    url_elicitation::Visits,
};

/// Prefix of the message for an unknown tool.
pub const UNKNOWN_TOOL: &str = "unknown tool";

/// Answer of an upstream to a tool call.
pub struct ToolAnswer {
    /// The result as the upstream wrote it, without members that are `null` where MCP does not
    /// allow that.
    pub result: Box<RawValue>,
    /// Capture settings. `None`: the result is not captured.
    pub capture: Option<Settings>,
    /// Output schema that the captured structured content must satisfy.
    pub output_schema: Option<Arc<Value>>,
    /// The View of the tool, and who may call it.
    pub ui: ToolUi,
    /// The upstream speaks a stateless revision, so the result has the members that such a revision
    /// requires.
    pub is_stateless: bool,
}

impl Gateway {
    /// Calls a tool of an upstream.
    ///
    /// # Errors
    ///
    /// Returns an error if the upstream cannot be reached, does not answer in time, or refuses.
    pub async fn call_tool(
        &self,
        mut params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<ToolAnswer, CallFailure> {
        let mut catalog = self.view(cx);
        if self.listed_tool(&catalog, &params.name).is_none() {
            self.wait_without_slot(cx, self.tool_owners_started(&params.name, &catalog)).await?;
            catalog = self.view(cx);
        }
        let has_views = self.options.assumes_views || is_ui_enabled(cx.capabilities());
        // A tool for Views alone is not listed for a client without Views, which cannot call it.
        let route = if has_views {
            catalog.tool(&params.name).or_else(|| catalog.tool_of_view(&params.name))
        } else {
            catalog.tool(&params.name).filter(|route| route.ui.visibility.model)
        };
        let Some(route) = route else {
            self.note_denied_tool(&params.name, cx);
            return Err(self.unknown_tool(&params.name, &catalog));
        };
        let index = route.to.upstream;
        catalog.check_scopes(ItemKind::Tool, &route.to, cx)?;
        params.name.clone_from(&route.to.name);
        params.meta = params.meta.map(passed_on).filter(|meta| !meta.is_empty());
        // A person is asked about the arguments of the caller, without those that a setting adds.
        let asked = route.arguments.is_some().then(|| params.clone());
        let shown = self.change_arguments(route, &mut params)?;
        let Some(in_use) = self.enter(index) else {
            return Err(self.unknown_tool(&params.name, &catalog));
        };
        in_use.admit_call().map_err(CallFailure::Limited)?;
        let span = tracing::info_span!("call", upstream = in_use.name(), tool = route.to.name);
        let target = Target::new("tools/call", Some(&params.name));
        async {
            let asked = asked.as_ref().unwrap_or(&params);
            self.approved(&catalog, in_use.name(), route, asked, cx).await?;
            let (client, result) = self.request(&in_use, target, &params, shown, cx).await?;
            let (result, links) = routes::with_links(result).await;
            // Links of an upstream without resources would only attract reads of other upstreams'
            // resources.
            if !links.is_empty() && catalog.has_resources(index) {
                let owner = Owner::of(cx);
                let mut known = self.links.lock().unwrap_or_else(PoisonError::into_inner);
                for uri in &links {
                    known.remember(&owner, uri, index);
                }
            }
            let is_stateless = is_stateless(&client);
            let capture = route.capture.clone();
            let output_schema = route.output_schema.clone();
            let ui = route.ui.clone();
            Ok(ToolAnswer { result, capture, output_schema, ui, is_stateless })
        }
        .instrument(span)
        .await
    }

    /// Reads a resource of the upstream that lists it, linked to it, or is likely to have it.
    ///
    /// # Errors
    ///
    /// Returns an error if the upstream cannot be reached, does not answer in time, or refuses.
    pub async fn read_resource(
        &self,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        self.wait_for_resource(&params.uri, cx).await?;
        let catalog = self.view(cx);
        let Some(index) = self.owner_of_resource(&params.uri, cx) else {
            self.note_denied_resource(&params.uri, cx);
            return Err(RpcError::resource_not_found(&params.uri));
        };
        if let Some(renamed) = catalog.renamed_resource(&params.uri) {
            catalog.check_scopes(ItemKind::Resource, &renamed, cx)?;
            return self.read_renamed(renamed, params, cx).await;
        }
        let to = Route { upstream: index, name: params.uri.clone() };
        catalog.check_scopes(ItemKind::Resource, &to, cx)?;
        self.read_at(index, params, cx).await
    }

    /// Reads a resource of one upstream.
    pub(super) async fn read_at(
        &self,
        index: usize,
        mut params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        params.meta = params.meta.map(passed_on).filter(|meta| !meta.is_empty());
        let reply = self.forward(index, Target::new("resources/read", None), &params, cx).await;
        // A shared cache must not serve it to callers without a token, even if the upstream allows
        // that.
        let reply =
            reply.map(|reply| if cx.principal().is_some() { reply.private() } else { reply });
        reply.map_err(|mut error| {
            // Stateless servers answer -32602 where older revisions have a separate code; the
            // protocol server converts it for the client's revision.
            if error.code == error_code::INVALID_PARAMS && names_uri(&error) {
                error.code = error_code::RESOURCE_NOT_FOUND;
            }
            error
        })
    }

    /// Gets a prompt of an upstream.
    ///
    /// # Errors
    ///
    /// Returns an error if the upstream cannot be reached, does not answer in time, or refuses.
    pub async fn get_prompt(
        &self,
        mut params: GetPromptParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if self.view(cx).prompt(&params.name).is_none() {
            self.started(List::Prompts, cx).await?;
        }
        let catalog = self.view(cx);
        let Some(route) = catalog.prompt(&params.name) else {
            self.note_denied_prompt(&params.name, cx);
            let name = &params.name[..params.name.floor_char_boundary(200)];
            return Err(self
                .held_prompt(name, &catalog)
                .unwrap_or_else(|| RpcError::invalid_params(format!("unknown prompt '{name}'"))));
        };
        catalog.check_scopes(ItemKind::Prompt, route, cx)?;
        params.name.clone_from(&route.name);
        params.meta = params.meta.map(passed_on).filter(|meta| !meta.is_empty());
        self.forward(route.upstream, Target::new("prompts/get", Some(&params.name)), &params, cx)
            .await
    }

    /// Returns suggestions for an argument of a prompt or a resource template. An upstream without
    /// completions has none.
    ///
    /// # Errors
    ///
    /// Returns an error if the upstream cannot be reached, does not answer in time, or refuses.
    pub async fn complete(
        &self,
        mut params: CompleteParams,
        cx: &RequestContext,
    ) -> Result<CompleteResult, RpcError> {
        let known = self.view(cx);
        match &params.reference {
            CompleteReference::Prompt { name } if known.prompt(name).is_none() => {
                self.started(List::Prompts, cx).await?;
            }
            CompleteReference::Resource { uri }
                if known.template(uri).or_else(|| known.resource(uri)).is_none() =>
            {
                self.started(List::Resources, cx).await?;
            }
            _ => {}
        }
        let catalog = self.view(cx);
        let index = match &mut params.reference {
            CompleteReference::Prompt { name } => {
                let Some(route) = catalog.prompt(name) else {
                    self.note_denied_prompt(name, cx);
                    let name = &name[..name.floor_char_boundary(200)];
                    return Err(RpcError::invalid_params(format!("unknown prompt '{name}'")));
                };
                catalog.check_scopes(ItemKind::Prompt, route, cx)?;
                name.clone_from(&route.name);
                route.upstream
            }
            CompleteReference::Resource { uri } => {
                let owner = catalog.template(uri).or_else(|| catalog.resource(uri));
                let Some(index) = owner else {
                    self.note_denied_resource(uri, cx);
                    let uri = &uri[..uri.floor_char_boundary(200)];
                    return Err(RpcError::invalid_params(format!("unknown template '{uri}'")));
                };
                let to = Route { upstream: index, name: uri.clone() };
                catalog.check_scopes(ItemKind::Resource, &to, cx)?;
                index
            }
        };
        let upstream = self.enter(index).ok_or_else(removed)?;
        if let UpstreamState::Ready(client) = upstream.state()
            && client.server().revision.has(Feature::CompletionsCapability)
            && client.server().capabilities.completions.is_none()
        {
            return Ok(CompleteResult::default());
        }
        const METHOD: &str = "completion/complete";
        let span = tracing::info_span!("request", upstream = upstream.name(), method = METHOD);
        let (_, result) = self
            .request(&upstream, Target::new(METHOD, None), &params, None, cx)
            .instrument(span)
            .await?;
        let result = serde_json::from_str(result.get()).map_err(|error| {
            RpcError::internal(format!(
                "upstream '{}' returned an invalid completion: {error}",
                upstream.name()
            ))
        })?;
        Ok(catalog.without_denied_values(index, &params, result))
    }

    /// Waits for the upstreams that may have a tool and are still starting, however long this
    /// server has been running: the caller knows the name, so it expects the tool.
    async fn tool_owners_started(&self, name: &str, view: &Catalog) {
        // The upstream whose last run had the tool may have another one now.
        let cached_at = view.tool(name).map(|route| route.to.upstream);
        let upstreams = self.upstreams();
        let shown = upstreams.iter().filter(|upstream| view.shows_upstream(upstream.number()));
        let owners = shown.filter(|upstream| {
            if let Some(cached_at) = cached_at {
                return upstream.number() == cached_at;
            }
            let namer = &upstream.settings().namer;
            namer.owns(name) || namer.head_chars() == 0
        });
        let starts = owners.map(|upstream| {
            tokio::time::timeout(upstream.start_timeout(), upstream.settled(List::Tools))
        });
        join_all(starts).await;
    }

    /// Returns a tool that an upstream has listed since the start of this server; `None` if it is
    /// only known from the upstream's last run.
    fn listed_tool<'a>(&self, catalog: &'a Catalog, name: &str) -> Option<&'a ToolRoute> {
        let route = catalog.tool(name)?;
        let upstream = self.upstream(route.to.upstream)?;
        (!upstream.shows_cached_tools()).then_some(route)
    }

    /// Returns the arguments of a tool that headers repeat; `None` before its upstream has listed
    /// it, and if the sender may not see it.
    #[must_use]
    pub fn header_arguments(&self, tool: &str, sender: &Peer) -> Option<Arc<HeaderArguments>> {
        self.listed_tool(&self.view_of_peer(sender), tool)?.headers.clone()
    }

    /// Waits for upstreams that are still starting, if no upstream lists the resource.
    pub(super) async fn wait_for_resource(
        &self,
        uri: &str,
        cx: &RequestContext,
    ) -> Result<(), RpcError> {
        if !is_reserved(uri) && !self.lists_resource(uri, cx) {
            self.started(List::Resources, cx).await?;
        }
        Ok(())
    }

    fn lists_resource(&self, uri: &str, cx: &RequestContext) -> bool {
        let catalog = self.view(cx);
        catalog.resource(uri).is_some() || catalog.view(uri).is_some()
    }

    /// Waits until the upstream of a tool is known, for a request without a slot among those in
    /// flight.
    ///
    /// # Errors
    /// Returns an error if too many requests wait.
    pub async fn tool_known(&self, name: &str, sender: &Peer) -> Result<(), Full> {
        let view = self.view_of_peer(sender);
        if self.listed_tool(&view, name).is_some() {
            return Ok(());
        }
        let mut started = pin!(self.tool_owners_started(name, &view));
        if started.as_mut().now_or_never().is_none() {
            let _slot = self.waiting.try_enter(sender.caller(), 1)?;
            started.await;
        }
        Ok(())
    }

    /// Returns the upstream of a resource: the upstream that lists it, whose template matches it,
    /// that gave this agent a link to it, or that is the only one with resources. Lists and
    /// templates come before links, so that a link cannot attract reads of another upstream's
    /// resources. Callers with a token have no part in the last rule: otherwise each could read
    /// what an upstream linked to another one.
    pub(super) fn owner_of_resource(&self, uri: &str, cx: &RequestContext) -> Option<usize> {
        if is_reserved(uri) {
            return None;
        }
        let catalog = self.view(cx);
        catalog
            .view(uri)
            .map(|view| view.upstream)
            .or_else(|| catalog.resource(uri))
            .or_else(|| catalog.template_owner(uri))
            .or_else(|| {
                let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
                let linked = links.get(&Owner::of(cx), uri);
                linked.filter(|&upstream| catalog.may_read(upstream, uri))
            })
            .or_else(|| {
                let only = catalog.only_with_resources().filter(|_| cx.principal().is_none());
                only.filter(|&upstream| catalog.may_read(upstream, uri))
            })
    }

    async fn forward(
        &self,
        index: usize,
        target: Target,
        params: &impl Serialize,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let upstream = self.enter(index).ok_or_else(removed)?;
        let span =
            tracing::info_span!("request", upstream = upstream.name(), method = target.method);
        let (client, result) =
            self.request(&upstream, target, params, None, cx).instrument(span).await?;
        let reply =
            if is_stateless(&client) { Reply::complete(result) } else { Reply::raw(result) };
        // An instance calls public what is the same for its own callers.
        Ok(if upstream.instances.is_some() { reply.private() } else { reply })
    }

    /// Returns the client of an upstream. If the upstream was ready and its connection was lost,
    /// waits for the next start: nothing of the request was sent yet.
    pub(super) async fn ready_client(
        &self,
        upstream: &Upstream,
        cx: &RequestContext,
    ) -> Result<Client, CallFailure> {
        self.wait_without_slot(cx, upstream.returned()).await?;
        match upstream.state() {
            UpstreamState::Ready(client) => Ok(client),
            state => Err(CallFailure::Unreachable(Unreachable::of(upstream, &state))),
        }
    }

    /// Changes the arguments of a call as its override says. Returns the parameters that people
    /// may see, if they are others.
    ///
    /// # Errors
    /// Returns an error if the caller sent a hidden argument.
    fn change_arguments(
        &self,
        route: &ToolRoute,
        params: &mut CallToolParams,
    ) -> Result<Option<Box<RawValue>>, CallFailure> {
        let Some(changes) = &route.arguments else { return Ok(None) };
        let sent = params.arguments.take();
        let mut shown = None;
        if self.options.observer.is_some() && !changes.set.is_empty() {
            let arguments = changes.shown_arguments(sent.clone()).unwrap_or_default();
            shown = to_raw_value(&CallToolParams { arguments, ..params.clone() }).ok();
        }
        params.arguments =
            changes.arguments(sent).map_err(|error| CallFailure::Refused(error.to_string()))?;
        Ok(shown)
    }

    /// Sends a request, forwards progress and questions, and waits for the answer. Dropping the
    /// future cancels the request at the upstream. Observers see the parameters `shown` instead, if
    /// there are such.
    async fn request(
        &self,
        upstream: &InUse,
        target: Target,
        params: &impl Serialize,
        shown: Option<Box<RawValue>>,
        cx: &RequestContext,
    ) -> Result<(Client, Box<RawValue>), CallFailure> {
        let call = UpstreamCall::begin(upstream.name(), target.method, target.name.clone());
        let outcome = self.send_request(upstream, target, params, shown, call.span(), cx).await;
        call.end(outcome.as_ref().err().map(|failure| match failure {
            CallFailure::Rpc(error) => CallFailureKind::Rpc(error.code),
            CallFailure::Limited(_) => CallFailureKind::Rpc(error_code::TOO_MANY_REQUESTS),
            CallFailure::Refused(_) => CallFailureKind::Rpc(error_code::INVALID_PARAMS),
            // Calls that are not allowed do not come here.
            CallFailure::Unreachable(_) | CallFailure::NotAllowed(_) => {
                CallFailureKind::Unreachable
            }
        }));
        outcome
    }

    async fn send_request(
        &self,
        upstream: &InUse,
        target: Target,
        params: &impl Serialize,
        shown: Option<Box<RawValue>>,
        span: Option<TraceContext>,
        cx: &RequestContext,
    ) -> Result<(Client, Box<RawValue>), CallFailure> {
        let instance = self.enter_instance(upstream, cx)?;
        let upstream = instance.as_ref().unwrap_or(upstream);
        let client = self.ready_client(upstream, cx).await?;
        let params = to_raw_value(params)
            .and_then(|params| match span {
                Some(span) => with_traceparent(&params, span),
                None => Ok(params),
            })
            .map_err(|error| RpcError::internal(error.to_string()))?;
        let carried: Option<Carried> = cx.carried()?;
        // The call that waited for this request has a slot already.
        let slot = if let Some(Carried::Waiting(_)) = carried {
            None
        } else {
            let slot = upstream.slots.enter(cx.caller(), 1).await.map_err(|full| {
                CallFailure::Limited(Limited {
                    upstream: Some(upstream.name().to_owned()),
                    what: full.to_string(),
                    retry_after: Duration::from_secs(1),
                })
            })?;
            Some(Arc::new(slot))
        };
        let started = Instant::now();
        self.level_for(upstream, &client, cx).await;
        let observer = CallObserver::of(self.options.observer.as_ref(), upstream.name(), cx);
        if let Some(observer) = &observer {
            let params = shown.as_ref().unwrap_or(&params);
            observer.observe(&Observed::Request { method: target.method, params });
        }
        // MCP has `input_required` only for these methods.
        let can_ask_for_visits = cx.revision().era() == Era::Stateless
            && matches!(target.method, "tools/call" | "prompts/get" | "resources/read");
        let request = Outgoing { target, params };
        let (round, outcome) = match carried {
            Some(Carried::Visiting { round, pages }) => {
                let visits = Visits { round, pages };
                (round, self.exchange_after(visits, upstream, &client, request, slot, cx).await)
            }
            _ => (0, self.exchange(upstream, &client, request, slot, cx).await),
        };
        let outcome = match outcome {
            Err(ClientError::Rpc(error)) if can_ask_for_visits && is_page(&error) => {
                self.ask_for_visits(upstream, error, round, cx).await
            }
            outcome => outcome,
        }
        .map_err(shortened_error);
        if let Some(observer) = &observer {
            match &outcome {
                Ok(result) => observer.observe(&Observed::Result { result }),
                Err(error) => observer.observe(&Observed::Failed { message: &error.to_string() }),
            }
        }
        let ms = started.elapsed().as_millis() as u64;
        match outcome {
            Ok(result) => {
                upstream.answered();
                tracing::debug!(ms, bytes = result.get().len(), "answered");
                Ok((client, result))
            }
            Err(ClientError::Rpc(error)) => {
                upstream.answered();
                tracing::debug!(ms, code = error.code, "refused by the upstream");
                self.pages.required(upstream.source(), &error, cx.announcer());
                let era = cx.revision().era();
                Err(CallFailure::Rpc(error_for_agent(upstream, error, era)))
            }
            Err(ClientError::Unauthorized(refusal)) => {
                tracing::warn!(ms, %refusal, "not authorized");
                upstream.distrust(format!("refuses this server: {refusal}"));
                let why = format!("refuses this server: {refusal}");
                let challenges = refusal.challenges.iter().map(ToString::to_string).collect();
                Err(CallFailure::Rpc(unauthorized(upstream, &why, refusal.status, challenges)))
            }
            // A 403 without a challenge may concern this call alone: the upstream is there, and
            // answers others.
            Err(error @ ClientError::Http { status: FORBIDDEN, .. }) => {
                upstream.answered();
                tracing::warn!(ms, %error, "not authorized");
                let why = format!("refuses this call: {error}");
                Err(CallFailure::Rpc(unauthorized(upstream, &why, FORBIDDEN, Vec::new())))
            }
            Err(error) => {
                tracing::warn!(ms, %error, "no answer");
                // Before the caller is answered, so that health does not contradict the answer.
                if is_fault_of_upstream(&error)
                    && matches!(upstream.state(), UpstreamState::Ready(_))
                {
                    upstream.distrust(format!("the last call got no answer: {error}"));
                }
                let state = match &error {
                    ClientError::Closed(_) => upstream.state_after_loss().await,
                    _ => upstream.state(),
                };
                Err(CallFailure::Unreachable(Unreachable::during_call(upstream, &state, &error)))
            }
        }
    }

    /// Returns the upstream that an unknown name most likely belongs to, by its prefix. Prefixes
    /// may nest: an upstream that is ready and does not offer the name is less likely, and a longer
    /// prefix is more likely.
    fn owner(&self, name: &str, view: &Catalog) -> Option<Arc<Upstream>> {
        let upstreams = self.upstreams();
        let shown = upstreams.iter().filter(|upstream| view.shows_upstream(upstream.number()));
        let fitting = shown.filter(|upstream| upstream.settings().namer.owns(name));
        let likeliest = fitting.max_by_key(|upstream| {
            let is_ready = matches!(upstream.state(), UpstreamState::Ready(_));
            (!is_ready, upstream.settings().namer.head_chars())
        });
        likeliest.cloned()
    }

    /// Returns the error for an unknown tool. If its prefix belongs to an upstream that is down,
    /// the error says so.
    pub(super) fn unknown_tool(&self, name: &str, view: &Catalog) -> CallFailure {
        if let Some(upstream) = self.owner(name, view)
            && let state = upstream.state()
            && !matches!(state, UpstreamState::Ready(_))
        {
            return CallFailure::Unreachable(Unreachable::of(&upstream, &state));
        }
        let name = &name[..name.floor_char_boundary(200)];
        if let Some(held) = self.held_tool(name, view) {
            return held;
        }
        let mut message = format!("{UNKNOWN_TOOL} '{name}'");
        // A tool that is for Views alone is unknown to other callers under its own name.
        if let Some(meant) = nearest_tool(name, view).filter(|meant| *meant != name) {
            message += &format!("; did you mean '{meant}'?");
        }
        CallFailure::Rpc(RpcError::invalid_params(message))
    }
}

/// Returns the name of the tool that a caller most likely means by an unknown name.
fn nearest_tool<'a>(name: &str, view: &'a Catalog) -> Option<&'a str> {
    /// Maximum number of names that are compared: each takes up to 10 µs.
    const MAX_COMPARED: usize = 1_000;
    let names: Vec<_> =
        view.tools.iter().take(MAX_COMPARED).map(|tool| tool.name.as_str()).collect();
    nearest(name, &names)
}

/// Returns the error for a request to an upstream that was removed while the request was read.
fn removed() -> RpcError {
    RpcError::invalid_params("its server was removed from the configuration")
}

pub(super) fn is_stateless(client: &Client) -> bool {
    client.server().revision.era() == Era::Stateless
}

/// Returns the part of a request's `_meta` that concerns the tool; the rest concerns the connection
/// to this server.
fn passed_on(mut meta: JsonObject) -> JsonObject {
    meta.retain(|key, _| key != "progressToken" && !key.starts_with("io.modelcontextprotocol/"));
    meta
}

/// Returns whether the data of an error has a URI, as for a resource that does not exist.
fn names_uri(error: &RpcError) -> bool {
    #[derive(Deserialize)]
    struct Data {
        uri: Option<String>,
    }
    let data = error.data.as_ref().and_then(|data| serde_json::from_str::<Data>(data.get()).ok());
    data.is_some_and(|data| data.uri.is_some())
}
