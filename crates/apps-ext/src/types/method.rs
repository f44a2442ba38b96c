//! The names of methods between View and host.

/// View to host, a request: the first message of a View.
pub const INITIALIZE: &str = "ui/initialize";
/// View to host, a notification: the View is ready for messages.
pub const INITIALIZED: &str = "ui/notifications/initialized";
/// View to host, a request: open a URL outside of the View.
pub const OPEN_LINK: &str = "ui/open-link";
/// View to host, a request: add a message of the user to the conversation.
pub const MESSAGE: &str = "ui/message";
/// View to host, a request: show the View in another display mode.
pub const REQUEST_DISPLAY_MODE: &str = "ui/request-display-mode";
/// View to host, a request: replace the View's context, which the model gets with the user's next
/// message.
pub const UPDATE_MODEL_CONTEXT: &str = "ui/update-model-context";
/// View to host, a request: save files (draft).
pub const DOWNLOAD_FILE: &str = "ui/download-file";
/// View to host, a notification: the size of the View's content, in CSS pixels.
pub const SIZE_CHANGED: &str = "ui/notifications/size-changed";
/// View to host, a notification: the View asks to be closed (draft).
pub const REQUEST_TEARDOWN: &str = "ui/notifications/request-teardown";
/// Host to View, a notification: the complete arguments of the call that the View shows.
pub const TOOL_INPUT: &str = "ui/notifications/tool-input";
/// Host to View, a notification: the arguments so far, while the model writes them.
pub const TOOL_INPUT_PARTIAL: &str = "ui/notifications/tool-input-partial";
/// Host to View, a notification: the result of the call.
pub const TOOL_RESULT: &str = "ui/notifications/tool-result";
/// Host to View, a notification: the call ended without a result.
pub const TOOL_CANCELLED: &str = "ui/notifications/tool-cancelled";
/// Host to View, a notification: the members of the host context that changed.
pub const HOST_CONTEXT_CHANGED: &str = "ui/notifications/host-context-changed";
/// Host to View, a request: the View is about to be removed.
pub const RESOURCE_TEARDOWN: &str = "ui/resource-teardown";
/// Sandbox proxy to host, a notification: the proxy is ready for the View's HTML.
pub const SANDBOX_PROXY_READY: &str = "ui/notifications/sandbox-proxy-ready";
/// Host to sandbox proxy, a notification: the View's HTML.
pub const SANDBOX_RESOURCE_READY: &str = "ui/notifications/sandbox-resource-ready";
/// The prefix of all messages between sandbox proxy and host. A proxy never passes them to or from
/// a View.
pub const SANDBOX_PREFIX: &str = "ui/notifications/sandbox-";

/// Both ways, a request: an answer proves that the other side is alive.
pub const PING: &str = "ping";
/// View to host: call a tool of the View's server. Host to View: call a tool of the View (draft).
pub const TOOLS_CALL: &str = "tools/call";
/// View to host: list the tools of the View's server. Host to View: list the tools of the View
/// (draft).
pub const TOOLS_LIST: &str = "tools/list";
/// View to host, a request: read a resource of the View's server.
pub const RESOURCES_READ: &str = "resources/read";
/// View to host, a request: list the resources of the View's server.
pub const RESOURCES_LIST: &str = "resources/list";
/// View to host, a request: list the resource templates of the View's server.
pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
/// View to host, a request: list the prompts of the View's server.
pub const PROMPTS_LIST: &str = "prompts/list";
/// View to host, a request: ask the host's model (draft).
pub const SAMPLING: &str = "sampling/createMessage";
/// View to host, a notification: a log message.
pub const LOG_MESSAGE: &str = "notifications/message";
/// Both ways, a notification: a request makes progress.
pub const PROGRESS: &str = "notifications/progress";
/// Both ways, a notification: the answer of a request is no longer wanted.
pub const CANCELLED: &str = "notifications/cancelled";
/// Both ways, a notification: the list of tools changed.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Host to View, a notification: the list of resources changed.
pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// Host to View, a notification: the list of prompts changed.
pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
