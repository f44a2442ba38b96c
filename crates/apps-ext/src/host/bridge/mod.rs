//! The state machine between a View and its host.

mod closing;
mod events;
mod receive;
mod requests;
mod sending;

use std::time::Duration;

use marquetry_protocol::types::{Implementation, Tool};
use marquetry_rate_limit::TokenBucket;

use super::{
    app_tools::AppToolList, call_delivery::CallDelivery, consent::Denials, context::ContextKeeper,
    effect::Effect, incoming::PendingRequests, limits::Limits, model_context::ModelContext,
    outgoing::Outgoing, sandbox::SandboxResource, size::SizeFollower,
};
use crate::types::{AppCapabilities, DisplayMode, HostCapabilities, HostContext};

/// The state machine between one View and its host: messages and events go in, messages and effects
/// come out.
///
/// It does no I/O and reads no clock. Each call takes the time since a starting point that the host
/// chooses once, and returns the effects that the host carries out, in order. A host calls
/// [`Bridge::handle`] with [`Event::Tick`](super::Event::Tick) when [`Bridge::deadline`] has
/// passed.
///
/// ```
/// use marquetry_apps_ext::host::{Bridge, BridgeOptions, Effect, Event};
/// use std::time::Duration;
///
/// let mut bridge = Bridge::new(BridgeOptions::default());
/// bridge.handle(Duration::ZERO, Event::Input(Default::default()));
/// let hello = r#"{"jsonrpc":"2.0","id":0,"method":"ui/initialize","params":{"appInfo":{"name":"v","version":"1"},
///     "appCapabilities":{},"protocolVersion":"2026-01-26"}}"#;
/// bridge.receive(Duration::ZERO, hello);
/// let ready = r#"{"jsonrpc":"2.0","method":"ui/notifications/initialized"}"#;
/// let effects = bridge.receive(Duration::ZERO, ready);
/// let sent = effects.iter().find_map(|it| if let Effect::Send(text) = it { Some(text) } else { None });
/// assert!(sent.unwrap().contains("ui/notifications/tool-input"));
/// ```
#[derive(Debug)]
pub struct Bridge {
    host_info: Implementation,
    capabilities: HostCapabilities,
    limits: Limits,
    phase: Phase,
    sandbox: Option<SandboxResource>,
    app: Option<App>,
    call: CallDelivery,
    context: ContextKeeper,
    size: SizeFollower,
    server_tools: Vec<Tool>,
    incoming: PendingRequests,
    outgoing: Outgoing,
    app_tools: AppToolList,
    model_context: Option<ModelContext>,
    rate: TokenBucket,
    refused: u32,
    denials: Denials,
    now: Duration,
    effects: Vec<Effect>,
}

/// A View, as it described itself in `ui/initialize`.
#[derive(Clone, Debug)]
struct App {
    info: Implementation,
    capabilities: AppCapabilities,
}

/// Options of a [`Bridge`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BridgeOptions {
    /// Name and version of the host.
    pub host_info: Implementation,
    /// The capabilities that the host offers to the View. A request that needs an absent capability
    /// is refused.
    pub capabilities: HostCapabilities,
    /// The initial host context.
    pub context: HostContext,
    /// All tools of the View's server, under their names on that server.
    pub server_tools: Vec<Tool>,
    /// The document for a sandbox proxy; `None` if the host loads the View's HTML in another way.
    pub sandbox: Option<SandboxResource>,
    /// Limits on what the View may use.
    pub limits: Limits,
}

/// A stage in the life of a View.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// The bridge waits for the sandbox proxy. Only with [`BridgeOptions::sandbox`].
    Created,
    /// The View is loading, or has loaded and not sent `ui/initialize` yet.
    Loading,
    /// `ui/initialize` was answered.
    Initializing,
    /// The View sent `ui/notifications/initialized`.
    Ready,
    /// `ui/resource-teardown` was sent.
    TearingDown,
    /// The View is removed.
    Closed,
}

impl Bridge {
    /// Creates a bridge to a View that is about to be loaded.
    #[must_use]
    pub fn new(options: BridgeOptions) -> Self {
        let BridgeOptions { host_info, capabilities, context, server_tools, sandbox, limits } =
            options;
        Self {
            host_info,
            capabilities,
            phase: if sandbox.is_some() { Phase::Created } else { Phase::Loading },
            sandbox,
            app: None,
            call: CallDelivery::default(),
            context: ContextKeeper::new(context),
            size: SizeFollower::default(),
            server_tools,
            incoming: PendingRequests::default(),
            outgoing: Outgoing::default(),
            app_tools: AppToolList::default(),
            model_context: None,
            rate: TokenBucket::new(limits.messages_per_second, limits.message_burst),
            limits,
            refused: 0,
            denials: Denials::default(),
            now: Duration::ZERO,
            effects: Vec::new(),
        }
    }

    /// Returns the present stage of the View's life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the name and version that the View sent in `ui/initialize`.
    #[must_use]
    pub fn app_info(&self) -> Option<&Implementation> {
        self.app.as_ref().map(|app| &app.info)
    }

    /// Returns the mode in which the View is shown.
    #[must_use]
    pub fn display_mode(&self) -> DisplayMode {
        self.context.mode()
    }

    /// Returns the modes that the user may choose: those that both the host and the View support.
    #[must_use]
    pub fn display_modes(&self) -> Vec<DisplayMode> {
        self.context.modes(&self.app_capabilities())
    }

    /// Returns the time at which [`Event::Tick`](super::Event::Tick) is due, if any.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let list = if self.phase == Phase::Ready { self.app_tools.deadline() } else { None };
        self.outgoing.deadline().into_iter().chain(list).min()
    }

    fn app_capabilities(&self) -> AppCapabilities {
        self.app.as_ref().map(|app| app.capabilities.clone()).unwrap_or_default()
    }

    /// Sets the time. An earlier time than the last one is ignored.
    fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }
}
