//! What a caller sees: the catalog, restricted to what the policy allows.
//!
//! A restricted catalog is a catalog, so whatever a caller asks for finds only what it may see.
//! Names and URIs that no list has, such as those that match a template, are decided when they are
//! used ([`Catalog::may_read`]). Without a policy a view is the catalog itself.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use marquetry_approvals::ToolHints;
use marquetry_apps_ext::types::UiUri;
use marquetry_policy::{Caller, Decision, Grants, Inventory, Item, ItemKind, OWN_UPSTREAM, Policy};
use marquetry_protocol::{
    RpcError,
    server::{Peer, Principal, Recipient, RequestContext},
    types::{CompleteParams, CompleteReference, CompleteResult},
};
use marquetry_request_notes::{Refusal, note};

use super::{
    Catalog, Gateway, List, Listing, Route, Upstream, UpstreamState,
    restriction::{Restriction, item},
};

/// Maximum number of views in the cache.
const MAX_VIEWS: usize = 256;
/// Maximum number of entries of all views in the cache. One view may have more.
const MAX_ENTRIES: usize = 50_000;

/// The policy, and the views of callers.
pub(super) struct Views {
    policy: RwLock<Arc<Policy>>,
    cached: Mutex<CachedViews>,
    /// The catalogs whose lists were announced last, by [`List`]; `None` after a change of the
    /// policy.
    announced: Mutex<[Option<Arc<Catalog>>; 3]>,
}

/// The views of one policy and one catalog.
#[derive(Default)]
struct CachedViews {
    policy: Arc<Policy>,
    catalog: Arc<Catalog>,
    views: HashMap<Grants, Arc<Catalog>>,
    entries: usize,
}

impl Views {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy: RwLock::new(Arc::new(policy)),
            cached: Mutex::default(),
            announced: Mutex::new([const { None }; 3]),
        }
    }

    /// Returns the policy, if it restricts callers in this profile.
    fn restricting(&self, profile: Option<&str>) -> Option<Arc<Policy>> {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        (!policy.is_open_in(profile)).then(|| policy.clone())
    }
}

impl CachedViews {
    /// Returns the view of these grants, if it was made of this policy and this catalog.
    fn get(
        &mut self,
        policy: &Arc<Policy>,
        catalog: &Arc<Catalog>,
        grants: &Grants,
    ) -> Option<Arc<Catalog>> {
        if !Arc::ptr_eq(&self.policy, policy) || !Arc::ptr_eq(&self.catalog, catalog) {
            *self = Self { policy: policy.clone(), catalog: catalog.clone(), ..Self::default() };
        }
        self.views.get(grants).cloned()
    }

    fn insert(&mut self, grants: Grants, view: Arc<Catalog>) {
        let entries = view.entries();
        if self.views.len() >= MAX_VIEWS || self.entries + entries > MAX_ENTRIES {
            self.views.clear();
            self.entries = 0;
        }
        self.entries += entries;
        self.views.insert(grants, view);
    }
}

impl Gateway {
    /// Returns what the sender of a request may see: the catalog, unless there is a policy.
    #[must_use]
    pub fn view(&self, cx: &RequestContext) -> Arc<Catalog> {
        self.view_of(cx.principal().map(|principal| &**principal), cx.profile())
    }

    /// Returns what a sender may see.
    #[must_use]
    pub fn view_of_peer(&self, sender: &Peer) -> Arc<Catalog> {
        self.view_of(sender.principal().map(|principal| &**principal), sender.profile())
    }

    /// Returns what a principal may see in a profile.
    #[must_use]
    pub fn view_of(&self, principal: Option<&Principal>, profile: Option<&str>) -> Arc<Catalog> {
        let catalog = self.catalog();
        let Some(policy) = self.views.restricting(profile) else { return catalog };
        let grants = policy.grants(&caller(principal, profile));
        let mut cached = self.views.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = cached.get(&policy, &catalog, &grants) {
            return view;
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let restriction = Restriction { policy, grants: grants.clone(), names };
        let view = Arc::new(catalog.restricted(restriction));
        cached.insert(grants, view.clone());
        view
    }

    /// Returns the number of tools that the policy hides from a principal.
    #[must_use]
    pub fn hidden_tools(&self, principal: Option<&Principal>) -> usize {
        let view = self.view_of(principal, None);
        self.catalog().tool_routes.len().saturating_sub(view.tool_routes.len())
    }

    /// Replaces the policy. Running sessions have it from their next request on.
    pub fn set_policy(&self, policy: Policy) {
        {
            let mut current = self.views.policy.write().unwrap_or_else(PoisonError::into_inner);
            if **current == policy {
                return;
            }
            *current = Arc::new(policy);
        }
        if self.is_settled() {
            self.log_unmatched_rules();
        }
        *self.views.announced.lock().unwrap_or_else(PoisonError::into_inner) = [const { None }; 3];
        self.changes.tools_changed();
        self.changes.prompts_changed();
        self.changes.resources_changed();
    }

    /// Logs the patterns of the policy that match none of the tools and prompts that upstreams have
    /// now.
    pub(super) fn log_unmatched_rules(&self) {
        let policy = self.views.policy.read().unwrap_or_else(PoisonError::into_inner).clone();
        let upstreams = self.upstreams();
        let names = upstreams.iter().map(|upstream| upstream.name());
        let known = Inventory::of_upstreams(names);
        let known = upstreams
            .iter()
            .filter(|upstream| matches!(upstream.state(), UpstreamState::Ready(_)))
            .fold(known, |known, upstream| {
                let listing = upstream.listing();
                let tools = listing.tools.iter().map(|tool| tool.name.as_str());
                let prompts = listing.prompts.iter().map(|prompt| prompt.name.as_str());
                known.with_items(upstream.name(), ItemKind::Tool, tools).with_items(
                    upstream.name(),
                    ItemKind::Prompt,
                    prompts,
                )
            });
        for warning in policy.unmatched_items(&known) {
            tracing::warn!("{warning}");
        }
    }

    /// Returns whether there are rules or profiles.
    pub(super) fn has_policy(&self) -> bool {
        !self.views.policy.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns whether there is a profile with this name.
    #[must_use]
    pub fn has_profile(&self, name: &str) -> bool {
        self.views.policy.read().unwrap_or_else(PoisonError::into_inner).has_profile(name)
    }

    /// Returns the names of the profiles.
    #[must_use]
    pub fn profile_names(&self) -> Vec<String> {
        let policy = self.views.policy.read().unwrap_or_else(PoisonError::into_inner);
        policy.profiles().map(str::to_owned).collect()
    }

    /// Returns who sees the changes of a list since the last call for this list.
    #[must_use]
    pub fn list_change(&self, list: List) -> ListChange<'_> {
        let after = self.catalog();
        let mut announced = self.views.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let before = announced[list as usize].replace(after.clone());
        ListChange { gateway: self, list, before, after, decided: RefCell::default() }
    }

    /// Returns what a client that listens for announcements may see.
    #[must_use]
    pub fn view_of_recipient(&self, recipient: &Recipient) -> Arc<Catalog> {
        self.view_of(recipient.principal.as_deref(), recipient.profile.as_deref())
    }

    /// Returns whether a client may hear that a resource has changed to which it subscribed.
    #[must_use]
    pub fn may_hear_of(&self, uri: &str, recipient: &Recipient) -> bool {
        let Some(at) = self.subscriptions.route_of(uri) else { return true };
        let view = self.view_of_recipient(recipient);
        view.may_read(at.upstream, &at.name)
    }

    /// Checks that the sender of a request may use a tool of this server itself.
    ///
    /// # Errors
    /// Returns the error for an unknown tool, or one that names the scopes that are needed.
    pub fn check_own_tool(&self, name: &str, cx: &RequestContext) -> Result<(), RpcError> {
        let view = self.view(cx);
        let may_use = view.may_use_own(ItemKind::Tool, name, cx)?;
        if may_use { Ok(()) } else { Err(self.unknown_tool(name, &view).into()) }
    }

    /// Checks that the sender of a request may use a resource of this server itself.
    ///
    /// # Errors
    /// Returns the error for an unknown resource, or one that names the scopes that are needed.
    pub fn check_own_resource(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        let may_use = self.view(cx).may_use_own(ItemKind::Resource, uri, cx)?;
        if may_use { Ok(()) } else { Err(RpcError::resource_not_found(uri)) }
    }

    /// Checks that the sender of a request may use a method that does the same as a tool of this
    /// server itself.
    ///
    /// # Errors
    /// Returns the error for an unknown method, or one that names the scopes that are needed.
    pub fn check_own_method(&self, tool: &str, cx: &RequestContext) -> Result<(), RpcError> {
        let may_use = self.view(cx).may_use_own(ItemKind::Tool, tool, cx)?;
        if may_use { Ok(()) } else { Err(RpcError::method_not_found(cx.method())) }
    }

    /// Notes that the sender of a request may not see a tool, if there is one with this name.
    pub(super) fn note_denied_tool(&self, exposed: &str, cx: &RequestContext) {
        let view = self.view(cx);
        if let Some(route) = self.catalog().tool(exposed) {
            view.note_denied(ItemKind::Tool, &route.to);
        }
    }

    /// Notes that the sender of a request may not see a prompt, if there is one with this name.
    pub(super) fn note_denied_prompt(&self, exposed: &str, cx: &RequestContext) {
        let view = self.view(cx);
        if let Some(route) = self.catalog().prompt(exposed) {
            view.note_denied(ItemKind::Prompt, route);
        }
    }

    /// Notes that the sender of a request may not see a resource, if an upstream may have it.
    pub(super) fn note_denied_resource(&self, exposed: &str, cx: &RequestContext) {
        let view = self.view(cx);
        let all = self.catalog();
        let owner = all.renamed_resource(exposed).or_else(|| {
            let owner = all.resource(exposed).or_else(|| all.template(exposed));
            let upstream = owner.or_else(|| all.template_owner(exposed))?;
            Some(Route { upstream, name: exposed.to_owned() })
        });
        if let Some(owner) = owner {
            view.note_denied(ItemKind::Resource, &owner);
        }
    }
}

/// The change of a list, and who sees it.
pub struct ListChange<'a> {
    gateway: &'a Gateway,
    list: List,
    /// `None`: everybody may see another list than before.
    before: Option<Arc<Catalog>>,
    after: Arc<Catalog>,
    decided: RefCell<HashMap<Grants, bool>>,
}

impl ListChange<'_> {
    /// Returns whether a client sees another list than before.
    #[must_use]
    pub fn reaches(&self, recipient: &Recipient) -> bool {
        let principal = recipient.principal.as_deref();
        let profile = recipient.profile.as_deref();
        let Some(before) = &self.before else { return true };
        let Some(policy) = self.gateway.views.restricting(profile) else { return true };
        let grants = policy.grants(&caller(principal, profile));
        *self.decided.borrow_mut().entry(grants.clone()).or_insert_with(|| {
            let names = &self.gateway.names;
            let names = names.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let restriction = Restriction { policy, grants, names };
            if before.is_same(&self.after, self.list) {
                // The change is one of this server's own list.
                return restriction.policy.shows_upstream(&restriction.grants, OWN_UPSTREAM);
            }
            before.differs(&self.after, self.list, &restriction)
        })
    }
}

impl Catalog {
    /// Returns the catalog that a caller sees.
    fn restricted(&self, restriction: Restriction) -> Self {
        let sees = &restriction;
        let tool_routes: HashMap<_, _> = self
            .tool_routes
            .iter()
            .filter(|(_, route)| sees.lists(ItemKind::Tool, route.to.upstream, &route.to.name))
            .map(|(name, route)| (name.clone(), route.clone()))
            .collect();
        let prompt_routes: HashMap<_, _> = self
            .prompt_routes
            .iter()
            .filter(|(_, route)| sees.lists(ItemKind::Prompt, route.upstream, &route.name))
            .map(|(name, route)| (name.clone(), route.clone()))
            .collect();
        // A View belongs to its tools: who may use a tool may see its View.
        let linked: HashSet<(usize, &UiUri)> = tool_routes
            .values()
            .filter_map(|route| Some((route.to.upstream, route.ui.resource.as_ref()?)))
            .collect();
        let views = self.views.filtered(|upstream, uri| {
            let decision = sees.decide(&Item::resource(sees.name(upstream), uri.as_str()));
            match decision {
                Decision::Denied { .. } => false,
                decision => decision.is_listed() || linked.contains(&(upstream, uri)),
            }
        });
        let resource_routes: HashMap<_, _> = self
            .resource_routes
            .iter()
            .filter(|(exposed, upstream)| {
                let renamed = self.renamed_resources.get(*exposed);
                let uri = renamed.map_or(exposed.as_str(), |route| &route.name);
                sees.lists(ItemKind::Resource, **upstream, uri)
            })
            .map(|(uri, upstream)| (uri.clone(), *upstream))
            .collect();
        let template_routes: HashMap<_, _> = self
            .template_routes
            .iter()
            .filter(|(uri, upstream)| sees.lists(ItemKind::Resource, **upstream, uri))
            .map(|(uri, upstream)| (uri.clone(), *upstream))
            .collect();
        Self {
            tools: kept(&self.tools, |tool| tool_routes.contains_key(&tool.name)),
            prompts: kept(&self.prompts, |prompt| prompt_routes.contains_key(&prompt.name)),
            resources: kept(&self.resources, |resource| {
                resource_routes.contains_key(&resource.uri) || views.owner(&resource.uri).is_some()
            }),
            templates: kept(&self.templates, |it| template_routes.contains_key(&it.uri_template)),
            refused: Vec::new(),
            renamed: Vec::new(),
            exposed_tools: self
                .exposed_tools
                .iter()
                .filter(|(_, exposed)| tool_routes.contains_key(*exposed))
                .map(|(route, exposed)| (route.clone(), exposed.clone()))
                .collect(),
            view_tools: self
                .view_tools
                .iter()
                .filter(|(_, exposed)| {
                    exposed.as_ref().is_some_and(|it| tool_routes.contains_key(it))
                })
                .map(|(name, exposed)| (name.clone(), exposed.clone()))
                .collect(),
            renamed_resources: self
                .renamed_resources
                .iter()
                .filter(|(exposed, _)| resource_routes.contains_key(*exposed))
                .map(|(exposed, route)| (exposed.clone(), route.clone()))
                .collect(),
            patterns: kept(&self.patterns, |(_, upstream)| sees.shows_upstream(*upstream)),
            with_resources: kept(&self.with_resources, |it| sees.shows_upstream(*it)),
            tool_routes,
            views,
            prompt_routes,
            resource_routes,
            template_routes,
            restriction: Some(Arc::new(restriction)),
        }
    }

    /// Returns the number of listed entries.
    fn entries(&self) -> usize {
        self.tools.len() + self.prompts.len() + self.resources.len() + self.templates.len()
    }

    /// Returns whether a list is the same in another catalog.
    fn is_same(&self, other: &Self, list: List) -> bool {
        match list {
            List::Tools => self.tools == other.tools,
            List::Prompts => self.prompts == other.prompts,
            List::Resources => {
                self.resources == other.resources && self.templates == other.templates
            }
        }
    }

    /// Returns whether a list differs in another catalog for the caller of a restriction.
    fn differs(&self, other: &Self, list: List, sees: &Restriction) -> bool {
        match list {
            List::Tools => !self
                .tools
                .iter()
                .filter(|tool| self.lists_tool(&tool.name, sees))
                .eq(other.tools.iter().filter(|tool| other.lists_tool(&tool.name, sees))),
            List::Prompts => !self
                .prompts
                .iter()
                .filter(|prompt| self.lists_prompt(&prompt.name, sees))
                .eq(other.prompts.iter().filter(|it| other.lists_prompt(&it.name, sees))),
            List::Resources => {
                !self
                    .resources
                    .iter()
                    .filter(|resource| self.lists_resource(&resource.uri, sees))
                    .eq(other.resources.iter().filter(|it| other.lists_resource(&it.uri, sees)))
                    || !self
                        .templates
                        .iter()
                        .filter(|it| self.lists_template(&it.uri_template, sees))
                        .eq(other
                            .templates
                            .iter()
                            .filter(|it| other.lists_template(&it.uri_template, sees)))
            }
        }
    }

    fn lists_tool(&self, exposed: &str, sees: &Restriction) -> bool {
        let route = self.tool_routes.get(exposed);
        route.is_some_and(|it| sees.lists(ItemKind::Tool, it.to.upstream, &it.to.name))
    }

    fn lists_prompt(&self, exposed: &str, sees: &Restriction) -> bool {
        let route = self.prompt_routes.get(exposed);
        route.is_some_and(|route| sees.lists(ItemKind::Prompt, route.upstream, &route.name))
    }

    fn lists_resource(&self, exposed: &str, sees: &Restriction) -> bool {
        if let Some(route) = self.renamed_resource(exposed) {
            return sees.lists(ItemKind::Resource, route.upstream, &route.name);
        }
        let upstream = self.resource(exposed).or_else(|| Some(self.view(exposed)?.upstream));
        upstream.is_some_and(|upstream| sees.lists(ItemKind::Resource, upstream, exposed))
    }

    fn lists_template(&self, uri: &str, sees: &Restriction) -> bool {
        let upstream = self.template_routes.get(uri);
        upstream.is_some_and(|upstream| sees.lists(ItemKind::Resource, *upstream, uri))
    }

    /// Returns what decides about an item in this view.
    fn decide(&self, item: &Item<'_>) -> Decision {
        self.restriction.as_ref().map_or(Decision::Unrestricted, |it| it.decide(item))
    }

    /// Returns whether the caller may see that an upstream exists.
    #[must_use]
    pub fn shows_upstream(&self, upstream: usize) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.shows_upstream(upstream))
    }

    /// Returns whether the caller may see a tool, prompt or resource of this server itself.
    #[must_use]
    pub fn lists_own(&self, kind: ItemKind, name: &str) -> bool {
        self.restriction.is_none() || self.decide(&item(kind, OWN_UPSTREAM, name)).is_listed()
    }

    /// Returns whether the caller may use a tool, prompt or resource of this server itself with its
    /// scopes.
    #[must_use]
    pub fn allows_own(&self, kind: ItemKind, name: &str) -> bool {
        self.restriction.is_none() || self.decide(&item(kind, OWN_UPSTREAM, name)).is_allowed()
    }

    /// Returns whether the caller may see anything of this server itself.
    #[must_use]
    pub fn shows_own(&self) -> bool {
        let restriction = self.restriction.as_ref();
        restriction.is_none_or(|it| it.policy.shows_upstream(&it.grants, OWN_UPSTREAM))
    }

    /// Returns whether the caller may use a tool, prompt or resource of this server itself. If it
    /// may not, notes that for the audit log.
    ///
    /// # Errors
    /// Returns an error if it needs further scopes.
    pub fn may_use_own(
        &self,
        kind: ItemKind,
        name: &str,
        cx: &RequestContext,
    ) -> Result<bool, RpcError> {
        if self.restriction.is_none() {
            return Ok(true);
        }
        let item = item(kind, OWN_UPSTREAM, name);
        self.note_denied_item(&item);
        self.check_item(&item, cx)?;
        Ok(self.decide(&item).is_allowed())
    }

    /// Returns whether the caller may read a URI of an upstream, whether or not it is listed.
    pub(crate) fn may_read(&self, upstream: usize, uri: &str) -> bool {
        let Some(restriction) = &self.restriction else { return true };
        restriction.lists(ItemKind::Resource, upstream, uri)
            || UiUri::new(uri).is_ok_and(|uri| self.views.exposed(upstream, &uri).is_some())
    }

    /// Returns whether the caller may see a tool or prompt by its name at an upstream, whether or
    /// not it is listed.
    pub(crate) fn may_see(&self, kind: ItemKind, upstream: usize, name: &str) -> bool {
        self.restriction.as_ref().is_none_or(|it| it.lists(kind, upstream, name))
    }

    /// Returns the rule that demands a question to a person before the caller uses a tool.
    pub(crate) fn question_before(&self, to: &Route, hints: &ToolHints) -> Option<String> {
        let restriction = self.restriction.as_ref()?;
        let tool = Item::tool(restriction.name(to.upstream), &to.name);
        restriction.policy.question_before(&restriction.grants, &tool, hints)
    }

    /// Returns an error if the caller needs further scopes to use an item that it sees.
    pub(crate) fn check_scopes(
        &self,
        kind: ItemKind,
        to: &Route,
        cx: &RequestContext,
    ) -> Result<(), RpcError> {
        let Some(restriction) = &self.restriction else { return Ok(()) };
        self.check_item(&item(kind, restriction.name(to.upstream), &to.name), cx)
    }

    /// Returns an error if the caller needs further scopes to use an item that it sees.
    fn check_item(&self, item: &Item<'_>, cx: &RequestContext) -> Result<(), RpcError> {
        let decision = self.decide(item);
        let Decision::StepUp { scopes, .. } = &decision else { return Ok(()) };
        note(|notes| {
            notes.refusal = Some(Refusal::StepUp);
            notes.rule = Some(decision.rule());
        });
        Err(cx.require_scopes(scopes.iter().cloned()))
    }

    /// Notes that the caller may not see an item.
    fn note_denied(&self, kind: ItemKind, to: &Route) {
        if let Some(restriction) = &self.restriction {
            self.note_denied_item(&item(kind, restriction.name(to.upstream), &to.name));
        }
    }

    /// Notes for the audit log that the caller may not see an item.
    fn note_denied_item(&self, item: &Item<'_>) {
        let decision = self.decide(item);
        if !decision.is_listed() {
            note(|notes| {
                notes.refusal = Some(Refusal::Denied);
                notes.rule = Some(decision.rule());
            });
        }
    }

    /// Returns the lists of an upstream that the caller may see.
    #[must_use]
    pub fn listing_of(&self, upstream: &Upstream) -> Arc<Listing> {
        let listing = upstream.listing();
        let Some(sees) = &self.restriction else { return listing };
        let number = upstream.number();
        Arc::new(Listing {
            tools: kept(&listing.tools, |tool| sees.lists(ItemKind::Tool, number, &tool.name)),
            prompts: kept(&listing.prompts, |prompt| {
                sees.lists(ItemKind::Prompt, number, &prompt.name)
            }),
            resources: kept(&listing.resources, |it| self.may_read(number, &it.uri)),
            templates: kept(&listing.templates, |it| {
                sees.lists(ItemKind::Resource, number, &it.uri_template)
            }),
            ..Listing::clone(&listing)
        })
    }

    /// Returns a completion of a template without the values that lead to resources that the caller
    /// may not see.
    pub(crate) fn without_denied_values(
        &self,
        upstream: usize,
        params: &CompleteParams,
        mut result: CompleteResult,
    ) -> CompleteResult {
        let CompleteReference::Resource { uri } = &params.reference else { return result };
        if self.restriction.is_none() {
            return result;
        }
        let context = params.context.iter().flat_map(|context| &context.arguments);
        let template =
            context.fold(uri.clone(), |uri, (name, value)| with_variable(&uri, name, value));
        let values = result.completion.values.len();
        result.completion.values.retain(|value| {
            self.may_read(upstream, &with_variable(&template, &params.argument.name, value))
        });
        if result.completion.values.len() < values {
            // The number of all values would tell how many are left out.
            result.completion.total = None;
        }
        result
    }
}

/// Returns a template with the value of a variable.
fn with_variable(template: &str, name: &str, value: &str) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((text, (expression, after))) =
        rest.split_once('{').and_then(|(text, from)| Some((text, from.split_once('}')?)))
    {
        filled.push_str(text);
        let variable = expression.trim_start_matches(['+', '#', '/', '?', '&', ';', '.']);
        if variable.trim_end_matches('*') == name {
            if let Some(separator @ ('/' | '.' | '#')) = expression.chars().next() {
                filled.push(separator);
            }
            filled.push_str(value);
        } else {
            filled.push_str(&format!("{{{expression}}}"));
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// Returns the entries for which `is_kept` returns true.
fn kept<T: Clone>(entries: &[T], is_kept: impl Fn(&T) -> bool) -> Vec<T> {
    entries.iter().filter(|entry| is_kept(entry)).cloned().collect()
}

/// Returns a principal in a profile as rules know it.
fn caller(principal: Option<&Principal>, profile: Option<&str>) -> Caller {
    let caller = match principal {
        None => Caller::new(Caller::LOCAL),
        Some(principal) => {
            let name = match &principal.issuer {
                Some(issuer) => format!("{issuer} {}", principal.subject),
                None => principal.subject.clone(),
            };
            Caller::new(name)
                .with_scopes(principal.scopes.iter().cloned())
                .with_groups(principal.groups.iter().cloned())
        }
    };
    match profile {
        Some(profile) => caller.in_profile(profile),
        None => caller,
    }
}

#[cfg(test)]
mod tests {
    use marquetry_policy::{Access, Patterns, Rule};
    use marquetry_protocol::types::{Completion, Prompt, Resource, ResourceTemplate, Tool};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{GatewayOptions, Transport, UpstreamOptions};

    fn upstream(number: usize, name: &str, listing: Listing) -> Upstream {
        let options = UpstreamOptions::new(name, Transport::stdio("x", [""; 0]));
        let stop = CancellationToken::new();
        let upstream = Upstream::new(number, options, &GatewayOptions::default(), &stop);
        upstream.set_listing(listing);
        upstream
    }

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), input_schema: json!({"type": "object"}), ..Tool::default() }
    }

    fn shown_in(name: &str, view: &str) -> Tool {
        let meta = json!({"ui": {"resourceUri": view}});
        Tool { meta: meta.as_object().cloned(), ..tool(name) }
    }

    fn listing(tools: Vec<Tool>, resources: &[&str]) -> Listing {
        let resources = resources.iter().map(|uri| Resource {
            uri: (*uri).to_owned(),
            name: (*uri).to_owned(),
            ..Resource::default()
        });
        let template = ResourceTemplate {
            uri_template: "a://x/{+path}".to_owned(),
            name: "t".to_owned(),
            ..ResourceTemplate::default()
        };
        Listing {
            tools,
            prompts: vec![Prompt { name: "p".to_owned(), ..Prompt::default() }],
            resources: resources.collect(),
            templates: vec![template],
            has_resources: true,
            ..Listing::default()
        }
    }

    fn catalog() -> Catalog {
        let first = listing(
            vec![shown_in("show", "ui://shown"), shown_in("push", "ui://hidden"), tool("get")],
            &["a://x/1", "a://x/secret/1", "ui://shown", "ui://hidden"],
        );
        let second = listing(vec![tool("get")], &["a://x/1"]);
        let upstreams = [upstream(0, "one", first), upstream(1, "two", second)];
        Catalog::new(&upstreams, &[], None)
    }

    fn names(patterns: &[&str]) -> Access {
        Access::new().allow(Patterns::names(patterns.iter().copied()).unwrap())
    }

    fn uris(allow: &[&str], deny: &[&str]) -> Access {
        let access = Access::new().allow(Patterns::uris(allow.iter().copied()).unwrap());
        access.deny(Patterns::uris(deny.iter().copied()).unwrap())
    }

    fn restriction(rule: Rule) -> Restriction {
        let policy = Arc::new(Policy::new([rule]));
        let grants = policy.grants(&Caller::new("a"));
        Restriction { policy, grants, names: vec!["one".to_owned(), "two".to_owned()] }
    }

    fn of_one() -> Rule {
        Rule::new()
            .upstreams(Patterns::names(["one"]).unwrap())
            .tools(names(&["show", "get"]))
            .resources(uris(&["a://x/**"], &["a://x/secret/**"]))
    }

    #[test]
    fn a_view_has_what_is_allowed_and_nothing_else() {
        let all = catalog();
        let view = all.restricted(restriction(of_one()));
        let tools: Vec<&str> = view.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(tools, ["one__show", "one__get"]);
        assert!(view.prompts.is_empty());
        let resources: Vec<&str> = view.resources.iter().map(|it| it.uri.as_str()).collect();
        assert_eq!(resources, ["a://x/1", "ui://shown"], "the View of a tool belongs to it");
        assert!(view.tool("one__push").is_none() && all.tool("one__push").is_some());
        assert!(view.view("ui://hidden").is_none());
        assert_eq!(view.template_owner("a://x/2"), Some(0));
        assert_eq!(view.template_owner("a://x/secret/2"), None);
        assert_eq!(view.template_owner("a://x/y/../secret/2"), None);
        assert!(view.may_read(0, "ui://shown") && !view.may_read(1, "a://x/1"));
        assert!(view.shows_upstream(0) && !view.shows_upstream(1) && !view.shows_own());
        assert_eq!(view.only_with_resources(), Some(0), "the other one is not there");
        let of_two = upstream(1, "two", listing(vec![tool("get")], &["a://x/1"]));
        assert!(view.listing_of(&of_two).resources.is_empty());
    }

    #[test]
    fn values_that_lead_to_denied_resources_are_left_out() {
        let view = catalog().restricted(restriction(of_one()));
        let params = json!({
            "ref": {"type": "ref/resource", "uri": "a://x/{+path}"},
            "argument": {"name": "path", "value": ""},
        });
        let params: CompleteParams = serde_json::from_value(params).unwrap();
        let values = ["1", "secret/1", "y/../secret/1"].map(str::to_owned).to_vec();
        let completion = Completion { values, total: Some(3), ..Completion::default() };
        let shown = view.without_denied_values(0, &params, CompleteResult { completion });
        assert_eq!((shown.completion.values, shown.completion.total), (vec!["1".to_owned()], None));
        for (template, want) in [
            ("a://{x}/{y}", "a://1/{y}"),
            ("a://b{/x*}", "a://b/1"),
            ("a://{y}", "a://{y}"),
            ("a://{x", "a://{x"),
        ] {
            assert_eq!(with_variable(template, "x", "1"), want);
        }
    }

    #[test]
    fn a_change_that_a_caller_does_not_see_is_none() {
        let before = catalog();
        let changed = |tools: Vec<Tool>| {
            let upstreams = [
                upstream(0, "one", listing(tools, &["a://x/1", "a://x/secret/1"])),
                upstream(1, "two", listing(vec![tool("other")], &[])),
            ];
            Catalog::new(&upstreams, &[], None)
        };
        let show = || shown_in("show", "ui://shown");
        let hidden = changed(vec![show(), shown_in("new", "ui://hidden"), tool("get")]);
        let sees = restriction(of_one());
        assert!(!before.differs(&hidden, List::Tools, &sees));
        assert!(!before.differs(&hidden, List::Resources, &sees));
        assert!(!before.differs(&hidden, List::Prompts, &sees));
        assert!(before.differs(&changed(vec![show()]), List::Tools, &sees));
    }

    #[test]
    fn the_cache_of_views_is_bounded() {
        let mut cached = CachedViews::default();
        let policy = Arc::new(Policy::new((0..9).map(|number| {
            Rule::new().principals(Patterns::names([format!("*{number}*")]).unwrap())
        })));
        let catalog = Arc::new(Catalog::default());
        for caller in 0..600 {
            let grants = policy.grants(&Caller::new(format!("{caller:b}{caller}")));
            assert!(cached.views.len() <= MAX_VIEWS);
            if cached.get(&policy, &catalog, &grants).is_none() {
                cached.insert(grants, catalog.clone());
            }
        }
        let other = Arc::new(Policy::default());
        assert!(cached.get(&other, &catalog, &other.grants(&Caller::new("a"))).is_none());
        assert!(cached.views.is_empty(), "views of another policy are forgotten");
    }
}
