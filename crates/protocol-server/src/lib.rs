#![doc = include_str!("../README.md")]

mod ask;
mod batch;
mod call;
mod channel;
mod context;
mod conversation;
mod conversation_id;
mod direct;
#[cfg(feature = "http")]
mod event_id;
#[cfg(all(any(test, fuzzing), feature = "http"))]
#[doc(hidden)]
pub mod fuzz;
mod handler;
#[cfg(feature = "http")]
pub mod http;
mod in_flight;
mod limits;
mod listen;
mod method_table;
mod methods;
mod notifier;
mod observe;
mod outgoing;
mod peer;
mod pipe;
mod reply;
mod run_as_task;
#[cfg(feature = "typed")]
mod states;
mod subscriptions;
mod task_methods;
mod tasks;
#[cfg(feature = "typed")]
mod toolbox;

use std::sync::{Arc, OnceLock};

use marquetry_protocol_wire::{
    RpcError,
    types::{Implementation, TASKS_EXTENSION},
};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "stdio")]
pub use self::pipe::serve_stdio;
#[cfg(feature = "typed")]
pub use self::toolbox::{Json, ToolOutput, Toolbox};
use self::{ask::stateless::Sealer, limits::Shares, methods::Tables, tasks::Tasks};
#[doc(inline)]
pub use marquetry_protocol_callers::{Caller, Principal, RequestMemory, fair, in_place};
pub use marquetry_protocol_wire::page;
#[cfg(feature = "schema")]
pub use marquetry_protocol_wire::{SchemaError, ToolSchema};

#[cfg(feature = "http")]
pub use self::handler::ToolHeaders;
pub use self::{
    context::RequestContext,
    conversation_id::ConversationId,
    direct::{DirectCall, Watch},
    handler::{Handler, ServerDescription},
    limits::Limits,
    methods::MethodExists,
    notifier::{Announcer, ChangeListener, Notifier, Recipient},
    observe::{RequestObserver, RunningRequest},
    peer::Peer,
    pipe::{serve_pipe, serve_pipe_of},
    reply::Reply,
    tasks::TaskOptions,
};
#[cfg(feature = "http")]
pub use marquetry_protocol_wire::header_arguments::HeaderArguments;

/// An MCP server, cheap to clone: its handler, its limits and its notifier.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    handler: Arc<dyn Handler>,
    observer: Option<Arc<dyn RequestObserver>>,
    tables: Tables,
    limits: Limits,
    shares: Shares,
    notifier: Arc<Notifier>,
    sealer: Sealer,
    tasks: Arc<Tasks>,
    shutdown: CancellationToken,
    /// The server's name and version for stateless results; created with the first of them.
    server_info: OnceLock<Arc<str>>,
}

impl Server {
    /// Creates a server with the default [`Limits`].
    ///
    /// # Panics
    /// If the operating system returns no random numbers.
    #[must_use]
    pub fn new(handler: impl Handler) -> Self {
        Self::with_limits(handler, Limits::default())
    }

    /// Creates a server with these limits.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[must_use]
    pub fn with_limits(handler: impl Handler, limits: Limits) -> Self {
        Self::from_parts(Arc::new(handler), Tables::new(), limits)
    }

    /// Adds the method `name` of a protocol extension, for both eras. Declare the extension in
    /// [`ServerCapabilities::extensions`](marquetry_protocol_wire::types::ServerCapabilities::extensions).
    ///
    /// `answer` gets the parameters as the client wrote them. If clients may cache the result, use
    /// [`Reply::cached`].
    ///
    /// # Errors
    /// Returns an error if the protocol has a method with that name, or one was added before.
    pub fn with_method<F, Fut>(self, name: &'static str, answer: F) -> Result<Self, MethodExists>
    where
        F: Fn(Option<Box<RawValue>>, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
    {
        let tables = self.shared.tables.clone().with(name, answer)?;
        Ok(Self { shared: Arc::new(Shared { tables, ..(*self.shared).clone() }) })
    }

    /// Lets `observer` see each request and its answer.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self { shared: Arc::new(Shared { observer: Some(observer), ..(*self.shared).clone() }) }
    }

    /// Returns the numbers of requests in flight and of open HTTP sessions.
    #[must_use]
    pub fn in_use(&self) -> (usize, usize) {
        let shares = &self.shared.shares;
        #[cfg(feature = "http")]
        return (shares.calls.used(), shares.sessions.used());
        #[cfg(not(feature = "http"))]
        (shares.calls.used(), 0)
    }

    /// Seals `requestState` with `key` instead of a random key, so that another server with the
    /// same key can continue a request after a question.
    #[must_use]
    pub fn with_state_key(self, key: [u8; 32]) -> Self {
        let sealer = Sealer::new(key, self.shared.limits.request_state_time);
        Self { shared: Arc::new(Shared { sealer, ..(*self.shared).clone() }) }
    }

    fn from_parts(handler: Arc<dyn Handler>, tables: Tables, limits: Limits) -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the system gives random numbers");
        let described = handler.clone();
        let tasks = Tasks::new(
            &limits,
            Box::new(move || described.describe().capabilities.has_extension(TASKS_EXTENSION)),
        );
        Self {
            shared: Arc::new(Shared {
                tasks,
                handler,
                observer: None,
                tables,
                shares: Shares::new(&limits),
                notifier: Arc::new(Notifier::new(limits.max_queued_notifications)),
                sealer: Sealer::new(key, limits.request_state_time),
                limits,
                shutdown: CancellationToken::new(),
                server_info: OnceLock::new(),
            }),
        }
    }

    /// Returns name, version and title as JSON. The rest may be long; `server/discover` returns it.
    fn server_info(&self) -> Arc<str> {
        let info = self.shared.server_info.get_or_init(|| {
            let Implementation { name, version, title, .. } = self.shared.handler.describe().info;
            let info = Implementation { title, ..Implementation::new(name, version) };
            serde_json::to_string(&info).expect("strings serialise").into()
        });
        info.clone()
    }

    /// Returns the notifier of all clients.
    #[must_use]
    pub fn notifier(&self) -> &Notifier {
        &self.shared.notifier
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Ends every notification stream; requests in flight continue. The transports have their own
    /// tokens.
    pub fn close_streams(&self) {
        self.shared.shutdown.cancel();
    }
}
