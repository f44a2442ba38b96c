//! The settings of `[console]` as options of the console.

use std::time::Duration;

use marquetry_config::sections::ConsoleConfig;
use marquetry_console::Options;

/// Returns the limits for the console.
pub(crate) fn console_options(config: &ConsoleConfig) -> Options {
    let mut options = Options::default();
    options.max_calls = config.max_calls.get();
    options.max_calls_bytes = config.max_calls_bytes.get();
    options.max_messages = config.max_messages.get();
    options.max_messages_bytes = config.max_messages_bytes.get();
    options.max_events = config.max_events.get();
    options.max_streams = config.max_streams.get();
    options.scenarios_directory.clone_from(&config.scenarios_directory);
    let views = &mut options.views;
    views.max_views = config.max_views.get();
    views.max_html_bytes = config.max_view_bytes.get();
    views.idle = Duration::from_millis(config.view_idle_ms.get());
    views.limits.max_message_bytes = config.max_view_message_bytes.get();
    views.limits.messages_per_second = config.max_view_messages_per_second.get();
    views.limits.message_burst = config.max_view_messages_per_second.get().saturating_mul(2);
    views.limits.max_requests = config.max_view_requests.get();
    views.limits.max_denials = config.max_view_denials.get();
    views.limits.max_model_context_bytes = config.max_view_context_bytes.get();
    options
}
