//! `delete_artifact`

use marquetry_artifacts::{Version, store::Versions};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ArtifactTools, ToolError, read::named};

pub(super) const DESCRIPTION: &str = "Deletes an artifact or one version of it.";

/// Arguments of `delete_artifact`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteArguments {
    /// Name or artifact:// URI.
    name: String,
    /// All by default.
    version: Option<u64>,
}

impl ArtifactTools {
    pub(super) async fn delete(&self, arguments: &DeleteArguments) -> Result<String, ToolError> {
        let (name, version) = named(&arguments.name, arguments.version)?;
        let which = match version {
            Version::Latest => Versions::All,
            Version::Number(number) => Versions::Number(number),
        };
        let deleted = self.store.delete(&self.scope, &name, which).await?;
        self.announce_change();
        Ok(match version {
            Version::Number(number) => format!("Deleted {name} version {number}."),
            Version::Latest if deleted == 1 => format!("Deleted {name}."),
            Version::Latest => format!("Deleted {name}: {deleted} versions."),
        })
    }
}
