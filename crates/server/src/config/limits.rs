//! Every bound of the server in one place.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds on what clients, upstreams and tools may use. Over a limit there is an error that names it; everything else goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Size of one message from a client, in bytes.
    pub max_request_bytes: NonZeroUsize,
    /// Nesting of one message from a client, in arrays and objects.
    pub max_nesting: NonZeroUsize,
    /// Size of one message from an upstream, in bytes; a tool answer is one message, with its images in base64.
    pub max_upstream_message_bytes: NonZeroUsize,
    /// Size of a REST body, in bytes: a diagram of 50 KiB with every character escaped as `\uXXXX`, and its envelope.
    pub max_rest_body_bytes: NonZeroUsize,
    /// Tools taken from one upstream; further ones are left out with a warning.
    pub max_tools_per_upstream: NonZeroUsize,
    /// Prompts taken from one upstream.
    pub max_prompts_per_upstream: NonZeroUsize,
    /// Resources, and as many resource templates, taken from one upstream.
    pub max_resources_per_upstream: NonZeroUsize,
    /// Resource links of tool answers that are remembered, so that a read finds their upstream; the oldest is forgotten first.
    pub max_resource_routes: NonZeroUsize,
    /// Entries in one page of a list.
    pub list_page_size: NonZeroUsize,
    /// Instructions of all upstreams together that are passed on to clients, in bytes.
    pub max_instructions_bytes: usize,
    /// Text that `read_artifact` returns when a call names no limit, in bytes.
    pub read_artifact_default_bytes: NonZeroUsize,
    /// Most that one call of `read_artifact` may ask for, in bytes.
    pub read_artifact_max_bytes: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        let n = |n| NonZeroUsize::new(n).expect("every default is written as more than zero");
        Self {
            max_request_bytes: n(4 << 20),
            max_nesting: n(128),
            max_upstream_message_bytes: n(64 << 20),
            max_rest_body_bytes: n(6 * 51_200 + 4_096),
            max_tools_per_upstream: n(1_000),
            max_prompts_per_upstream: n(1_000),
            max_resources_per_upstream: n(10_000),
            max_resource_routes: n(10_000),
            list_page_size: n(500),
            max_instructions_bytes: 16_384,
            read_artifact_default_bytes: n(16_384),
            read_artifact_max_bytes: n(262_144),
        }
    }
}
