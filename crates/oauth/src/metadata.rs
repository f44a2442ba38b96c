//! The metadata of a protected resource.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// Protected resource metadata (RFC 9728, section 2), as far as MCP uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The resource's identifier: the URL of the MCP server.
    pub resource: String,
    /// The issuers whose tokens it accepts.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "lenient::texts_or_none"
    )]
    pub authorization_servers: Vec<String>,
    /// The scopes that a client may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::texts")]
    pub scopes_supported: Option<Vec<String>>,
    /// Ways in which clients may send a token. MCP allows only the header.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "lenient::texts_or_none"
    )]
    pub bearer_methods_supported: Vec<String>,
    /// Display name of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::text")]
    pub resource_name: Option<String>,
    /// The algorithms that it accepts for proofs of possession (RFC 9449).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient::texts")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Whether it accepts only tokens with a proof of possession.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "lenient::flag"
    )]
    pub dpop_bound_access_tokens_required: bool,
}

impl ResourceMetadata {
    /// Returns the metadata of the resource at `resource`, whose tokens come from
    /// `authorization_servers`.
    #[must_use]
    pub fn new(
        resource: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            resource: resource.into(),
            authorization_servers: authorization_servers.into_iter().map(Into::into).collect(),
            bearer_methods_supported: vec!["header".to_owned()],
            ..Self::default()
        }
    }
}
