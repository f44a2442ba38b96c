#![doc = include_str!("../README.md")]

mod api;
mod approvals;
mod backend;
mod calls;
mod events;
mod logins;
mod messages;
mod options;
mod page;
mod pipe;
mod query;
mod questions;
mod random;
mod record;
mod saved;
mod secrets;
mod tap;
mod traffic;
mod viewer;
mod views;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use axum::Router;
use marquetry_approvals::Approvals;

use self::{questions::OpenQuestions, views::Views};

pub use self::{
    backend::{Backend, ChangedLists, RestartError, ServerChange, ServerTools},
    calls::{Calls, NewCall, RunningCall},
    events::{Audience, Events},
    logins::Logins,
    messages::{Direction, Messages, NewMessage, Side},
    options::{Options, ViewOptions},
    page::Site,
    pipe::{LoggedReader, LoggedWriter},
    query::PageLimit,
    record::Outcome,
    secrets::secret_names,
    tap::{CALL_HEADER, CopiedBody, RecordSlot, Recorded},
    traffic::{CallOrigin, UpstreamMessage, UpstreamQuestion},
    viewer::Viewer,
    views::ModelInput,
};

/// The console: its record of calls, its events and its routes. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    inner: Arc<SharedConsole>,
}

struct SharedConsole {
    options: Options,
    events: Arc<Events>,
    calls: Calls,
    messages: Messages,
    questions: OpenQuestions,
    logins: Logins,
    views: Views,
    /// The origin of the sandbox of Views, which the page may show in frames.
    sandbox_origin: RwLock<Option<String>>,
    /// Questions before calls, which a person may answer here.
    approvals: OnceLock<Arc<Approvals>>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Console {
    /// Creates a console that has recorded nothing.
    ///
    /// # Panics
    /// The system gives no random numbers.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let events = Arc::new(Events::new(&options));
        let calls = Calls::new(&options, events.clone());
        let messages = Messages::new(&options, events.clone());
        let views = Views::new(options.views.clone(), messages.clone(), events.clone());
        let inner = SharedConsole {
            options,
            events,
            calls,
            messages,
            questions: OpenQuestions::default(),
            logins: Logins::default(),
            views,
            sandbox_origin: RwLock::default(),
            approvals: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the questions of upstreams that wait for an answer.
    pub(crate) fn questions(&self) -> &OpenQuestions {
        &self.inner.questions
    }

    /// Returns the record of calls.
    #[must_use]
    pub fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    /// Returns the stream of events.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.inner.events
    }

    /// Returns the log of messages.
    #[must_use]
    pub fn messages(&self) -> &Messages {
        &self.inner.messages
    }

    /// Returns the logins of the person who started the server.
    #[must_use]
    pub fn logins(&self) -> &Logins {
        &self.inner.logins
    }

    /// Lets the page show frames of `origin`, the sandbox of Views (`http://127.0.0.1:PORT`).
    /// Without it the page shows no frame.
    pub fn allow_frames_of(&self, origin: impl Into<String>) {
        let mut sandbox = self.inner.sandbox_origin.write().unwrap_or_else(PoisonError::into_inner);
        *sandbox = Some(origin.into());
    }

    /// Returns the page as the answer to a request of a browser. It has no data, and needs no
    /// token.
    pub fn page(&self, site: &Site<'_>) -> axum::response::Response {
        page::page(self, site)
    }

    /// Returns the routes that need no token: `/console/{file}`, the files that the page loads;
    /// `POST /api/console/session`, which exchanges a code of [`Logins::new_code`] for a token; and
    /// `/api/console/views/socket`, which a ticket opens.
    pub fn open_router(&self) -> Router {
        page::files_router().merge(api::open_router(self.clone()))
    }

    /// Returns the routes of the data, below `/api/console/`. Each request must have a [`Viewer`]
    /// in its extensions; without one it is answered with 403.
    pub fn api_router(&self, backend: Arc<dyn Backend>) -> Router {
        api::router(self.clone(), backend)
    }

    /// Protects further routes of the program in the same way as those of [`Console::api_router`]:
    /// they answer only this console's page and programs, need a [`Viewer`], and forbid caching.
    pub fn guarded(&self, routes: Router) -> Router {
        api::guarded(routes)
    }

    /// Returns the routes of the sandbox of Views, for a listener of their own: another port is
    /// another origin, so that a View cannot reach the page. They need no token, since the id of a
    /// View is a secret that is valid for one request.
    pub fn sandbox_router(&self) -> Router {
        views::sandbox_router(self.inner.views.clone())
    }

    /// Tells pages and Views that a list changed. A View is notified of tools if those of its own
    /// server changed, and of resources and prompts if those of any server changed.
    pub fn lists_changed(&self, backend: &dyn Backend, lists: ChangedLists) {
        self.inner.events.push(
            "catalog",
            || Audience::Everyone,
            || serde_json::json!({"changed": lists.name()}),
        );
        self.inner.views.lists_changed(backend, lists);
    }

    /// Tells the pages of a principal, and those of administrators, that lists which only the
    /// principal sees have changed; `None` means callers without a token.
    pub fn own_lists_changed(&self, owner: Option<String>, lists: ChangedLists) {
        self.inner.events.push(
            "catalog",
            || Audience::Owner(owner),
            || serde_json::json!({"changed": lists.name()}),
        );
    }

    /// Hides the values of members with these names in the log of messages, as
    /// [`NewCall::secret_names`] does in the record of one call.
    pub fn hide_members(&self, names: &[String]) {
        self.messages().hide(names);
    }

    /// Returns the contexts of Views, and the messages that the user has agreed to send, that go to
    /// the model with the next message of a principal; oldest first.
    #[must_use]
    pub fn model_input(&self, owner: Option<&str>) -> Vec<ModelInput> {
        self.inner.views.model_input(owner)
    }

    /// Records that a model has received the items of [`Console::model_input`] with these numbers.
    pub fn mark_delivered_to_model(&self, owner: Option<&str>, numbers: &[u64]) {
        self.inner.views.mark_delivered(owner, numbers);
    }

    /// Closes all Views and event streams, which would otherwise outlive the server.
    pub fn close(&self) {
        self.inner.events.close();
        self.inner.views.close();
    }

    pub(crate) fn views(&self) -> &Views {
        &self.inner.views
    }

    pub(crate) fn events_shared(&self) -> &Arc<Events> {
        &self.inner.events
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn sandbox_origin(&self) -> Option<String> {
        self.inner.sandbox_origin.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
