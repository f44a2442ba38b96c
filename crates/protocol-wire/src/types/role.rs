//! Roles in a conversation.

use serde::{Deserialize, Serialize};

/// The author of a message, or the audience of an annotated item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}
