//! The catalog: tools, prompts and resources of all upstreams, under the names that clients see.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use marquetry_approvals::ToolHints;
use marquetry_apps_ext::types::{ToolUi, UiUri, Visibility};
use marquetry_artifacts::{
    Settings,
    settings::Oversize,
    shorten::{is_shortenable, with_room_for_notice},
};
use marquetry_protocol::{
    server::HeaderArguments,
    types::{Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations},
};
use marquetry_tool_overrides::ToolOverride;
use serde_json::{Value, json};

use crate::{
    listing::Listing,
    names::NameError,
    overrides::{ShownTool, shown_tools},
    restriction::Restriction,
    template::UriPattern,
    tool_names::{ORIGINAL_NAME_KEY, RenamedTool, ToolNames},
    upstream::Upstream,
    uris::{is_reserved, uri_with_server},
    views::ViewRoutes,
};

/// Tools, prompts and resources of all upstreams, with routes from the exposed names to the
/// upstreams.
///
/// Upstreams have the order of the configuration. If two offer the same name, the first one keeps
/// it.
#[derive(Default)]
#[non_exhaustive]
pub struct Catalog {
    /// The tools of all upstreams.
    pub tools: Vec<Tool>,
    /// The prompts of all upstreams.
    pub prompts: Vec<Prompt>,
    /// The resources of all upstreams.
    pub resources: Vec<Resource>,
    /// The resource templates of all upstreams.
    pub templates: Vec<ResourceTemplate>,
    /// Entries that are not offered, each with the reason.
    pub refused: Vec<RefusedName>,
    /// Tools whose names were repaired.
    pub(crate) renamed: Vec<RenamedTool>,
    pub(super) tool_routes: HashMap<String, ToolRoute>,
    /// The exposed names of tools, by upstream and the name there.
    pub(super) exposed_tools: HashMap<Route, String>,
    /// The tools that Views call, by their names at the upstreams; none where several upstreams
    /// have the name.
    pub(super) view_tools: HashMap<String, Option<String>>,
    pub(super) views: ViewRoutes,
    pub(super) prompt_routes: HashMap<String, Route>,
    pub(super) resource_routes: HashMap<String, usize>,
    /// The resources whose URIs other upstreams have, too, by their URIs for clients.
    pub(super) renamed_resources: HashMap<String, Route>,
    pub(super) template_routes: HashMap<String, usize>,
    /// Sorted by the length of their literal text, longest first, so that "file:///{+path}" does
    /// not take the reads of "file:///home/{name}".
    pub(super) patterns: Vec<(UriPattern, usize)>,
    pub(super) with_resources: Vec<usize>,
    /// What restricts it to the view of a caller; nothing in the catalog of all.
    pub(super) restriction: Option<Arc<Restriction>>,
}

/// The upstream of an exposed name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The number of the upstream; see [`Gateway::upstream`](crate::Gateway::upstream).
    pub upstream: usize,
    /// The name at the upstream.
    pub name: String,
}

/// Route of a tool with its capture settings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolRoute {
    /// The upstream and the name there.
    pub to: Route,
    /// Capture settings of its answers. `None`: they are not captured.
    pub capture: Option<Settings>,
    /// Output schema that the structured content of captured answers still satisfies.
    pub output_schema: Option<Arc<Value>>,
    /// Arguments that stateless HTTP clients repeat in headers.
    pub headers: Option<Arc<HeaderArguments>>,
    /// Changes of the arguments of its calls.
    pub(crate) arguments: Option<Arc<ToolOverride>>,
    /// The View that shows its results, by the URI at the upstream, and who may call the tool.
    pub ui: ToolUi,
    /// What the upstream says that the tool may do.
    pub hints: ToolHints,
}

/// Something of an upstream that is not offered to clients, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RefusedName {
    /// The number of the upstream; see [`Gateway::upstream`](crate::Gateway::upstream).
    pub upstream: usize,
    /// "tool", "prompt", "resource" or "resource template".
    pub kind: &'static str,
    /// The upstream's name for it.
    pub name: String,
    /// Why the name is not offered.
    pub why: NameError,
}

impl Catalog {
    /// Puts the lists of all upstreams together. `reserved` are the names of our own tools; a View
    /// keeps the URI that it has in the catalog `before`.
    pub(crate) fn new(
        upstreams: &[impl AsRef<Upstream>],
        reserved: &[String],
        before: Option<&Self>,
    ) -> Self {
        let mut catalog = Self { views: view_routes(upstreams, before), ..Self::default() };
        for upstream in upstreams.iter().map(AsRef::as_ref) {
            let index = upstream.number();
            let settings = upstream.settings();
            let listing = upstream.listing();
            let has_views = views_of(upstream, &listing).next().is_some();
            let (allowed, refused) = shown_tools(&settings.options, &listing.tools);
            for (name, why) in refused {
                catalog.refuse(index, "tool", name, NameError::HiddenRequired(why));
            }
            let names =
                ToolNames::new(&settings.namer, allowed.iter().map(|it| it.tool.name.as_str()));
            for ShownTool { own_name, tool, arguments } in &allowed {
                let exposed = names.exposed(&tool.name, |name| {
                    if reserved.iter().any(|reserved| reserved == name) {
                        return Some("a tool of this server".to_owned());
                    }
                    let taken = catalog.tool_routes.get(name)?;
                    Some(owner_name(upstreams, taken.to.upstream, index))
                });
                match exposed {
                    Ok(exposed) => {
                        let capture = settings.options.capture.of(own_name).cloned();
                        let promise = Promise::of(tool, capture.as_ref());
                        let mut listed = exposed_tool(tool, &exposed, &promise);
                        let ui = tool_ui(tool);
                        catalog.link(index, &ui, &mut listed);
                        if !settings.namer.is_plain(&exposed, own_name) {
                            let is_chosen = tool.name != *own_name;
                            catalog.rename(index, &exposed, own_name, is_chosen, &mut listed);
                        }
                        catalog.tools.push(listed);
                        let to = Route { upstream: index, name: (*own_name).to_owned() };
                        if ui.visibility.app && has_views {
                            // A second upstream with the same name makes it ambiguous.
                            catalog
                                .view_tools
                                .entry((*own_name).to_owned())
                                .and_modify(|exposed| *exposed = None)
                                .or_insert_with(|| Some(exposed.clone()));
                        }
                        catalog.exposed_tools.insert(to.clone(), exposed.clone());
                        let output_schema = match promise {
                            Promise::Shortened(schema) => Some(Arc::new(schema)),
                            Promise::AsSent | Promise::Replaced => None,
                        };
                        let headers = header_arguments(tool, upstream);
                        let arguments = arguments.clone();
                        let hints = hints_of(tool.annotations.as_ref());
                        let route =
                            ToolRoute { to, capture, output_schema, headers, arguments, ui, hints };
                        catalog.tool_routes.insert(exposed, route);
                    }
                    Err(why) => catalog.refuse(index, "tool", own_name, why),
                }
            }
            for prompt in &listing.prompts {
                let exposed = settings.namer.prompt(&prompt.name).and_then(|name| {
                    let taken = catalog.prompt_routes.get(&name);
                    let owner = taken.map(|route| owner_name(upstreams, route.upstream, index));
                    free(name, owner)
                });
                match exposed {
                    Ok(exposed) => {
                        catalog.prompts.push(Prompt { name: exposed.clone(), ..prompt.clone() });
                        let route = Route { upstream: index, name: prompt.name.clone() };
                        catalog.prompt_routes.insert(exposed, route);
                    }
                    Err(why) => catalog.refuse(index, "prompt", &prompt.name, why),
                }
            }
            for resource in &listing.resources {
                if let Ok(uri) = UiUri::new(resource.uri.as_str()) {
                    if let Some(exposed) = catalog.views.exposed(index, &uri) {
                        let uri = exposed.as_str().to_owned();
                        catalog.resources.push(Resource { uri, ..resource.clone() });
                    } else {
                        let why = NameError::TooLong { chars: resource.uri.len() };
                        catalog.refuse(index, "resource", &resource.uri, why);
                    }
                    continue;
                }
                if is_reserved(&resource.uri) {
                    let why = NameError::ReservedScheme;
                    catalog.refuse(index, "resource", &resource.uri, why);
                    continue;
                }
                let is_of_another =
                    catalog.resource_routes.get(&resource.uri).is_some_and(|&it| it != index);
                let uri = if is_of_another {
                    uri_with_server(upstream.name(), &resource.uri)
                } else {
                    resource.uri.clone()
                };
                let taken = catalog.resource_routes.get(&uri);
                let owner = taken.map(|&upstream| owner_name(upstreams, upstream, index));
                match free(uri, owner) {
                    Ok(uri) => {
                        if is_of_another {
                            let route = Route { upstream: index, name: resource.uri.clone() };
                            catalog.renamed_resources.insert(uri.clone(), route);
                        }
                        catalog.resources.push(Resource { uri: uri.clone(), ..resource.clone() });
                        catalog.resource_routes.insert(uri, index);
                    }
                    Err(why) => catalog.refuse(index, "resource", &resource.uri, why),
                }
            }
            for template in &listing.templates {
                if is_reserved(&template.uri_template) {
                    let why = NameError::ReservedScheme;
                    catalog.refuse(index, "resource template", &template.uri_template, why);
                    continue;
                }
                // A later one may match URIs that the first does not: both are used, only one is
                // listed.
                let pattern = UriPattern::new(&template.uri_template);
                if pattern.has_scheme() {
                    catalog.patterns.push((pattern, index));
                }
                let taken = catalog.template_routes.get(&template.uri_template);
                let owner = taken.map(|&upstream| owner_name(upstreams, upstream, index));
                match free(template.uri_template.clone(), owner) {
                    Ok(uri) => {
                        catalog.templates.push(template.clone());
                        catalog.template_routes.insert(uri, index);
                    }
                    Err(why) => {
                        catalog.refuse(index, "resource template", &template.uri_template, why);
                    }
                }
            }
            if listing.has_resources {
                catalog.with_resources.push(index);
            }
        }
        // The sort is stable, so equal ones stay in the order of the configuration.
        catalog.patterns.sort_by_key(|(pattern, _)| Reverse(pattern.fixed_bytes()));
        catalog
    }

    fn refuse(&mut self, upstream: usize, kind: &'static str, name: &str, why: NameError) {
        let name = name[..name.floor_char_boundary(200)].to_owned();
        self.refused.push(RefusedName { upstream, kind, name, why });
    }

    /// Records that a tool has another name than at its upstream, for clients, and for the log
    /// unless a person has chosen the name.
    fn rename(
        &mut self,
        upstream: usize,
        exposed: &str,
        name: &str,
        is_chosen: bool,
        tool: &mut Tool,
    ) {
        let meta = tool.meta.get_or_insert_default();
        meta.insert(ORIGINAL_NAME_KEY.to_owned(), name.into());
        if is_chosen {
            return;
        }
        let renamed = RenamedTool { upstream, name: name.to_owned(), exposed: exposed.to_owned() };
        self.renamed.push(renamed);
    }

    /// Gives a tool the URI of its View that clients see. A link that leads nowhere is taken out.
    fn link(&self, upstream: usize, ui: &ToolUi, tool: &mut Tool) {
        let Some(uri) = &ui.resource else { return };
        let mut ui = ui.clone();
        ui.resource = self.views.exposed(upstream, uri).cloned();
        ui.write(tool);
    }

    /// Returns the upstream of a View, and the View's URI there.
    #[must_use]
    pub fn view(&self, exposed: &str) -> Option<Route> {
        let (upstream, uri) = self.views.owner(exposed)?;
        Some(Route { upstream, name: uri.as_str().to_owned() })
    }

    /// Returns the upstream of a View or resource that has another URI there.
    pub(crate) fn renamed_resource(&self, exposed: &str) -> Option<Route> {
        let view = self.view(exposed).filter(|view| view.name != exposed);
        view.or_else(|| self.renamed_resources.get(exposed).cloned())
    }

    /// Returns the exposed name of a tool of an upstream.
    #[must_use]
    pub fn exposed_tool(&self, at: &Route) -> Option<&str> {
        self.exposed_tools.get(at).map(String::as_str)
    }

    /// Returns the tool that a View calls by its name at the upstream; `None` if several upstreams
    /// have such a tool.
    ///
    /// A host behind this server does not know upstreams, so it passes on the call of a View with
    /// that name.
    pub(crate) fn tool_of_view(&self, name: &str) -> Option<&ToolRoute> {
        self.tool(self.view_tools.get(name)?.as_deref()?)
    }

    /// Returns the tool with this exposed name.
    #[must_use]
    pub fn tool(&self, exposed: &str) -> Option<&ToolRoute> {
        self.tool_routes.get(exposed)
    }

    /// Returns the names of all tools, as agents see them.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tool_routes.keys().map(|name| &**name)
    }

    /// Returns the route of a prompt.
    #[must_use]
    pub fn prompt(&self, exposed: &str) -> Option<&Route> {
        self.prompt_routes.get(exposed)
    }

    /// Returns the upstream that lists a resource.
    pub(crate) fn resource(&self, uri: &str) -> Option<usize> {
        self.resource_routes.get(uri).copied()
    }

    /// Returns the upstream that lists a template.
    pub(crate) fn template(&self, uri: &str) -> Option<usize> {
        self.template_routes.get(uri).copied()
    }

    /// Returns the upstream with a template that matches a URI; of several, the one with the
    /// longest literal text.
    pub(crate) fn template_owner(&self, uri: &str) -> Option<usize> {
        let fits = self
            .patterns
            .iter()
            .find(|(pattern, upstream)| pattern.matches(uri) && self.may_read(*upstream, uri));
        fits.map(|(_, upstream)| *upstream)
    }

    /// Returns whether an upstream lists a resource under its own URI, or has a View or a template
    /// with that URI.
    pub(crate) fn has_resource_at(&self, upstream: &Upstream, index: usize, uri: &str) -> bool {
        let listing = upstream.listing();
        let is_there = listing.resources.iter().any(|resource| resource.uri == uri)
            || views_of(upstream, &listing).any(|view| view.as_str() == uri)
            || self.patterns.iter().any(|(pattern, at)| *at == index && pattern.matches(uri));
        is_there && self.may_read(index, uri)
    }

    /// Returns the upstream with resources, if there is exactly one.
    pub(crate) fn only_with_resources(&self) -> Option<usize> {
        match self.with_resources[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns whether an upstream has resources.
    pub(crate) fn has_resources(&self, upstream: usize) -> bool {
        self.with_resources.contains(&upstream)
    }

    /// Returns the number of offered tools of an upstream.
    #[must_use]
    pub fn tools_of(&self, upstream: usize) -> usize {
        self.tool_routes.values().filter(|route| route.to.upstream == upstream).count()
    }
}

/// Returns the View and the visibility of a tool. A link that is not the URI of a View counts as
/// absent.
fn tool_ui(tool: &Tool) -> ToolUi {
    ToolUi::read(tool)
        .unwrap_or_else(|_| Some(ToolUi::default().with_visibility(Visibility::of(tool))))
        .unwrap_or_default()
}

/// Returns the Views of an upstream: those in its list, and those that its offered tools name,
/// because servers need not list them.
fn views_of<'a>(
    upstream: &Upstream,
    listing: &'a Listing,
) -> impl Iterator<Item = UiUri> + use<'a> {
    let settings = upstream.settings();
    let listed = listing.resources.iter().filter_map(|it| UiUri::new(it.uri.as_str()).ok());
    let tools = listing.tools.iter();
    let offered = tools.filter(move |tool| settings.options.filter.allows(&tool.name));
    listed.chain(offered.filter_map(|tool| tool_ui(tool).resource))
}

fn view_routes(upstreams: &[impl AsRef<Upstream>], before: Option<&Catalog>) -> ViewRoutes {
    let upstreams = upstreams.iter().map(AsRef::as_ref);
    let views = upstreams.flat_map(|upstream| {
        let index = upstream.number();
        let listing = upstream.listing();
        let views: Vec<UiUri> = views_of(upstream, &listing).collect();
        views.into_iter().map(move |uri| (index, upstream.name(), uri))
    });
    ViewRoutes::new(views, before.map(|before| &before.views))
}

/// Returns the arguments of a tool that headers repeat. A tool with an invalid mark has none: HTTP
/// clients do not show it, and other clients send no headers.
fn header_arguments(tool: &Tool, upstream: &Upstream) -> Option<Arc<HeaderArguments>> {
    HeaderArguments::of(&tool.input_schema)
        .inspect_err(|why| {
            tracing::debug!(upstream = upstream.name(), tool = tool.name, %why, "ignored invalid header arguments");
        })
        .ok()
        .flatten()
}

/// Names the upstream `owner` in a message about a name of the upstream `index`.
fn owner_name(upstreams: &[impl AsRef<Upstream>], owner: usize, index: usize) -> String {
    if owner == index {
        "an earlier entry of the same list".to_owned()
    } else {
        let owner = upstreams.iter().map(AsRef::as_ref).find(|it| it.number() == owner);
        format!("upstream '{}'", owner.map_or("", Upstream::name))
    }
}

/// Returns the name if it has no owner.
fn free(name: String, owner: Option<String>) -> Result<String, NameError> {
    match owner {
        Some(owner) => Err(NameError::Taken(owner)),
        None => Ok(name),
    }
}

/// Handling of structured content that does not fit, which decides what the exposed output schema
/// promises.
#[derive(Clone, Debug, PartialEq)]
enum Promise {
    /// Answers are not captured.
    AsSent,
    /// A shorter value that satisfies this schema: the tool's output schema with room for a notice.
    Shortened(Value),
    /// A reference to the artifact.
    Replaced,
}

impl Promise {
    fn of(tool: &Tool, capture: Option<&Settings>) -> Self {
        let Some(settings) = capture else { return Self::AsSent };
        tool.output_schema
            .as_ref()
            .filter(|schema| settings.oversize != Oversize::Withhold && is_shortenable(schema))
            .and_then(with_room_for_notice)
            .map_or(Self::Replaced, Self::Shortened)
    }
}

/// Returns the tool under its exposed name, with the output schema that all of its answers satisfy.
/// If a reference may replace structured content, it is relaxed.
fn exposed_tool(tool: &Tool, exposed: &str, promise: &Promise) -> Tool {
    let output_schema = match promise {
        Promise::AsSent => tool.output_schema.clone(),
        Promise::Shortened(schema) => Some(schema.clone()),
        Promise::Replaced => tool.output_schema.as_ref().and_then(relaxed),
    };
    Tool { name: exposed.to_owned(), output_schema, ..tool.clone() }
}

/// Returns the schema without its constraints: it still describes the members, and accepts every
/// object.
///
/// Returns `None` for schemas of other types, which 2026-07-28 allows, since the reference that may
/// replace the content is an object.
fn relaxed(schema: &Value) -> Option<Value> {
    const KEYWORDS: [&str; 7] =
        ["$schema", "type", "title", "description", "properties", "$defs", "definitions"];
    let schema =
        schema.as_object().filter(|schema| schema.get("type") == Some(&json!("object")))?;
    let kept = schema.iter().filter(|(key, _)| KEYWORDS.contains(&key.as_str()));
    Some(Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

fn hints_of(annotations: Option<&ToolAnnotations>) -> ToolHints {
    annotations.map_or_else(ToolHints::default, |it| ToolHints {
        read_only: it.read_only,
        destructive: it.destructive,
        open_world: it.open_world,
    })
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        listing::Listing,
        names::MAX_TOOL_CHARS,
        options::{GatewayOptions, ToolCapture, Transport, UpstreamOptions},
        tool_filter::ToolFilter,
    };

    /// Returns the catalog of upstreams with these lists.
    fn catalog(upstreams: Vec<(UpstreamOptions, Listing)>) -> Catalog {
        let upstreams: Vec<Upstream> = upstreams
            .into_iter()
            .enumerate()
            .map(|(number, (options, listing))| {
                let gateway = GatewayOptions::default();
                let upstream = Upstream::new(number, options, &gateway, &CancellationToken::new());
                upstream.set_listing(listing);
                upstream
            })
            .collect();
        Catalog::new(&upstreams, &["read_artifact".to_owned()], None)
    }

    fn upstream(name: &str) -> UpstreamOptions {
        let capture = ToolCapture::new(Some(Settings::default()));
        UpstreamOptions { capture, ..UpstreamOptions::new(name, Transport::stdio("x", [""; 0])) }
    }

    fn unprefixed(name: &str) -> UpstreamOptions {
        UpstreamOptions { prefix: Some(String::new()), ..upstream(name) }
    }

    fn tool(name: &str) -> Tool {
        Tool { name: name.into(), input_schema: json!({"type": "object"}), ..Tool::default() }
    }

    fn tools(names: &[&str]) -> Listing {
        Listing { tools: names.iter().map(|name| tool(name)).collect(), ..Listing::default() }
    }

    #[test]
    fn the_first_in_the_configuration_keeps_a_name() {
        let catalog = catalog(vec![
            (unprefixed("z"), tools(&["t", "read_artifact", "t"])),
            (unprefixed("a"), tools(&["t", "u"])),
        ]);
        let names: Vec<_> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["t", "u"]);
        assert_eq!(catalog.tool("t").unwrap().to.upstream, 0);
        let refused: Vec<_> = catalog
            .refused
            .iter()
            .map(|r| format!("{} {}: {}", r.upstream, r.name, r.why))
            .collect();
        assert_eq!(
            refused,
            [
                "0 read_artifact: name is already taken by a tool of this server",
                "0 t: name is already taken by an earlier entry of the same list",
                "1 t: name is already taken by upstream 'z'",
            ]
        );
        assert_eq!((catalog.tools_of(0), catalog.tools_of(1)), (1, 1));
    }

    #[test]
    fn names_that_clients_would_refuse_are_repaired() {
        let long = "n".repeat(MAX_TOOL_CHARS);
        let names = ["a/b", "ok", "c d", "c/d", "c_d", &long, "read/artifact", "a/b"];
        let catalog = catalog(vec![(unprefixed("a"), tools(&names))]);
        let offered: Vec<_> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(
            offered,
            [
                "a_b_3a8e75c1",
                "ok",
                "c_d_090ff156",
                "c_d_eb2b9899",
                "c_d",
                &long,
                "read_artifact_7075dc1c"
            ]
        );
        assert_eq!(catalog.tools[2].meta.as_ref().unwrap()[ORIGINAL_NAME_KEY], "c d");
        assert_eq!(catalog.tool(offered[2]).unwrap().to.name, "c d");
        assert_eq!(catalog.tools[4].meta, None);
        assert_eq!((catalog.renamed.len(), catalog.refused.len()), (4, 1));
    }

    #[test]
    fn tools_that_the_configuration_turns_off_are_not_offered() {
        let filter = ToolFilter {
            enabled: Some(vec!["r".to_owned(), "w".to_owned()]),
            disabled: vec!["w".to_owned()],
        };
        let options = UpstreamOptions { filter, ..upstream("a") };
        let catalog = catalog(vec![(options, tools(&["r", "w", "x"]))]);
        let names: Vec<_> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a__r"]);
        assert!(catalog.tool("a__w").is_none() && catalog.refused.is_empty());
    }

    #[test]
    fn overridden_tools_have_the_names_and_arguments_of_the_configuration() {
        let schema = json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]});
        let listing = Listing {
            tools: ["t", "u", "taken", "v"]
                .map(|name| Tool { input_schema: schema.clone(), ..tool(name) })
                .to_vec(),
            ..Listing::default()
        };
        fn named(name: &str) -> Arc<ToolOverride> {
            let mut changes = ToolOverride::default();
            changes.name = Some(name.to_owned());
            Arc::new(changes)
        }
        let mut fixed = ToolOverride::default();
        fixed.set.insert("a".to_owned(), json!(1));
        let mut hidden = ToolOverride::default();
        hidden.hide.push("a".to_owned());
        let overrides = [
            ("t", Arc::new(fixed)),
            ("u", named("renamed")),
            ("taken", named("renamed")),
            ("v", Arc::new(hidden)),
        ];
        let overrides = overrides.map(|(name, changes)| (name.to_owned(), changes)).into();
        let catalog = catalog(vec![(UpstreamOptions { overrides, ..upstream("a") }, listing)]);
        let names: Vec<_> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a__t", "a__renamed"]);
        let fixed = catalog.tool("a__t").unwrap();
        assert!(fixed.arguments.is_some());
        let shown = json!({"type": "object", "properties": {"b": {}}});
        assert_eq!(catalog.tools[0].input_schema, shown);
        assert_eq!(catalog.tool("a__renamed").unwrap().to.name, "u");
        assert_eq!(catalog.tools[1].meta.as_ref().unwrap()[ORIGINAL_NAME_KEY], "u");
        assert!(catalog.tool("a__renamed").unwrap().arguments.is_none());
        assert!(catalog.renamed.is_empty(), "the log need not say it");
        let at = Route { upstream: 0, name: "u".into() };
        assert_eq!(catalog.exposed_tool(&at), Some("a__renamed"));
        let refused: Vec<_> =
            catalog.refused.iter().map(|it| format!("{}: {}", it.name, it.why)).collect();
        assert_eq!(
            refused,
            [
                "v: argument \"a\" is hidden, and the tool requires it; give it a value in \"set\"",
                "taken: name is already taken by an earlier entry of the same list",
            ]
        );
    }

    #[test]
    fn output_schemas_are_relaxed_only_where_a_reference_may_take_the_place_of_an_answer() {
        let schema = json!({
            "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false, "$defs": {},
        });
        let fixed = json!({
            "type": "object", "properties": {"a": {"type": "string", "pattern": "^a*$"}}, "required": ["a"],
        });
        fn with_schema(name: &str, schema: &Value) -> Tool {
            Tool { output_schema: Some(schema.clone()), ..tool(name) }
        }
        let listing = Listing {
            tools: vec![
                with_schema("t", &schema),
                with_schema("fixed", &fixed),
                with_schema("raw", &fixed),
                with_schema("withheld", &schema),
            ],
            ..Listing::default()
        };
        let mut withheld = Settings::default();
        withheld.oversize = Oversize::Withhold;
        let capture = ToolCapture::new(Some(Settings::default()))
            .with_tool("raw", None)
            .with_tool("withheld", Some(withheld));
        let options = UpstreamOptions { capture, ..upstream("a") };
        let catalog = catalog(vec![(options, listing)]);
        let schemas: Vec<_> = catalog.tools.iter().map(|tool| tool.output_schema.clone()).collect();
        let relaxed =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "$defs": {}});
        let relaxed_fixed =
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^a*$"}}});
        // Its answers may have a notice.
        let opened = with_room_for_notice(&schema).unwrap();
        assert_ne!(opened, schema);
        let want = [opened.clone(), relaxed_fixed, fixed, relaxed];
        assert_eq!(schemas, want.map(Some));
        assert_eq!(catalog.tool("a__t").unwrap().output_schema.as_deref(), Some(&opened));
        for name in ["a__fixed", "a__raw", "a__withheld"] {
            assert_eq!(catalog.tool(name).unwrap().output_schema, None, "{name}");
        }
        assert!(catalog.tool("a__fixed").unwrap().capture.is_some());
        assert!(catalog.tool("a__raw").unwrap().capture.is_none());
    }

    #[test]
    fn output_schemas_that_a_reference_would_break_are_left_out() {
        for (schema, stays) in [
            (json!({"type": "object"}), true),
            (json!({"type": "array", "items": {}}), false),
            (json!({"type": ["object", "null"]}), false),
            (json!({"anyOf": [{"type": "string"}]}), false),
            (json!(true), false),
        ] {
            let tool = Tool { output_schema: Some(schema.clone()), ..tool("t") };
            let replaced = exposed_tool(&tool, "t", &Promise::Replaced);
            assert_eq!(replaced.output_schema.is_some(), stays, "{schema}");
            let as_sent = exposed_tool(&tool, "t", &Promise::AsSent);
            assert_eq!(as_sent.output_schema, tool.output_schema);
        }
    }

    #[test]
    fn resources_lead_to_their_upstream() {
        fn resource(uri: &str) -> Resource {
            Resource { uri: uri.into(), name: "r".into(), ..Resource::default() }
        }
        fn template(uri: &str) -> ResourceTemplate {
            ResourceTemplate {
                uri_template: uri.into(),
                name: "t".into(),
                ..ResourceTemplate::default()
            }
        }
        let a = Listing {
            resources: vec![resource("x:1"), resource("artifact://mine"), resource("AM7:a")],
            templates: vec![
                template("Artifact://{name}"),
                template("{+any}"),
                template("x:{+any}"),
            ],
            has_resources: true,
            ..Listing::default()
        };
        let b = Listing {
            resources: vec![resource("x:1"), resource("x:2")],
            templates: vec![template("y:{id}"), template("x:b/{id}")],
            has_resources: true,
            ..Listing::default()
        };
        let catalog = catalog(vec![(upstream("a"), a), (upstream("b"), b)]);
        assert_eq!(catalog.resource("x:1"), Some(0));
        assert_eq!(catalog.resource("x:2"), Some(1));
        assert_eq!(catalog.resource("b+x:1"), Some(1));
        assert_eq!(catalog.renamed_resource("b+x:1").unwrap().name, "x:1");
        assert_eq!(catalog.renamed_resource("x:1"), None);
        assert_eq!(catalog.resource("artifact://mine"), None);
        // The longer template wins, and one without a literal scheme matches nothing.
        assert_eq!(catalog.template_owner("x:a/1"), Some(0));
        assert_eq!(catalog.template_owner("x:b/1"), Some(1));
        assert_eq!(catalog.template("Artifact://{name}"), None);
        assert_eq!(catalog.template_owner("y:7"), Some(1));
        assert_eq!(catalog.template_owner("z:7"), None);
        assert_eq!(catalog.only_with_resources(), None, "two have resources");
        assert!(catalog.has_resources(0) && !catalog.has_resources(2));
        let refused: Vec<_> = catalog
            .refused
            .iter()
            .map(|it| format!("{} {}: {}", it.kind, it.name, it.why))
            .collect();
        assert_eq!(
            refused,
            [
                "resource artifact://mine: the URI schemes artifact: and am7: are reserved for resources of this server",
                "resource AM7:a: the URI schemes artifact: and am7: are reserved for resources of this server",
                "resource template Artifact://{name}: the URI schemes artifact: and am7: are reserved for resources of this server",
            ]
        );
    }

    #[test]
    fn arguments_that_headers_repeat_are_known() {
        fn marked(kind: &str) -> Value {
            json!({"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": "A"}}})
        }
        let listing = Listing {
            tools: [("t", marked("string")), ("wrong", marked("number"))]
                .map(|(name, input_schema)| Tool { input_schema, ..tool(name) })
                .to_vec(),
            ..Listing::default()
        };
        let catalog = catalog(vec![(upstream("a"), listing)]);
        assert!(catalog.tool("a__t").unwrap().headers.is_some());
        assert!(catalog.tool("a__wrong").unwrap().headers.is_none());
    }

    #[test]
    fn tools_lead_to_the_views_of_their_own_upstream() {
        fn with_meta(name: &str, meta: &Value) -> Tool {
            Tool { meta: meta.as_object().cloned(), ..tool(name) }
        }
        fn shown(name: &str, uri: &str) -> Tool {
            with_meta(name, &json!({"ui": {"resourceUri": uri}, "x": 1}))
        }
        fn for_views(name: &str) -> Tool {
            with_meta(name, &json!({"ui": {"visibility": ["app"]}}))
        }
        let page = Resource { uri: "ui://page".into(), name: "p".into(), ..Resource::default() };
        let a = Listing {
            tools: vec![shown("t", "ui://page"), for_views("poll")],
            resources: vec![page.clone()],
            ..Listing::default()
        };
        let b = Listing {
            tools: vec![shown("t", "ui://page"), shown("bad", "https://x"), for_views("only")],
            ..Listing::default()
        };
        let c = Listing { tools: vec![for_views("poll"), for_views("none")], ..Listing::default() };
        let catalog = catalog(vec![(upstream("a"), a), (upstream("b"), b), (upstream("c"), c)]);
        for (at, uri) in [(0, "ui://page"), (2, "ui://b/page")] {
            let meta = serde_json::to_value(&catalog.tools[at].meta).unwrap();
            assert_eq!(meta, json!({"ui": {"resourceUri": uri}, "ui/resourceUri": uri, "x": 1}));
        }
        assert_eq!(
            catalog.view("ui://b/page"),
            Some(Route { upstream: 1, name: "ui://page".into() })
        );
        assert_eq!(
            catalog.view("ui://page"),
            Some(Route { upstream: 0, name: "ui://page".into() })
        );
        assert_eq!(catalog.resources, [page]);
        let ui = &catalog.tool("b__t").unwrap().ui;
        assert_eq!(ui.resource.as_ref().unwrap().as_str(), "ui://page");
        assert_eq!(catalog.tool("b__bad").unwrap().ui, ToolUi::default());
        // An upstream without a View has no tools that Views call.
        let found = ["poll", "only", "none", "t"]
            .map(|name| catalog.tool_of_view(name).map(|route| route.to.upstream));
        assert_eq!(found, [Some(0), Some(1), None, None]);
        let at = Route { upstream: 1, name: "only".into() };
        assert_eq!(catalog.exposed_tool(&at), Some("b__only"));
    }
}
