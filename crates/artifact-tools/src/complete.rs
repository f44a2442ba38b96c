//! Completes the names and versions in URIs of artifacts.

use marquetry_artifacts::{ArtifactName, Version, store::Page};
use marquetry_protocol::{
    RpcError,
    types::{CompleteParams, CompleteReference, CompleteResult, Completion},
};

use super::{ArtifactTools, ToolError};

/// Maximum values of a completion, by MCP.
const MAX_VALUES: usize = 100;
/// Artifacts and versions that one completion examines.
const MAX_EXAMINED: usize = 10_000;
const MAX_VERSIONS: u64 = 100;

impl ArtifactTools {
    /// Completes an argument of the URI template of artifacts: the name, or the version of a named
    /// artifact, the newest first. `None` if the reference is not that template.
    pub async fn complete(
        &self,
        params: &CompleteParams,
    ) -> Option<Result<CompleteResult, RpcError>> {
        let CompleteReference::Resource { uri } = &params.reference else { return None };
        if *uri != Self::template().uri_template {
            return None;
        }
        let typed = params.argument.value.as_str();
        let values = match params.argument.name.as_str() {
            "name" => self.names(typed).await,
            "version" => {
                let arguments = params.context.as_ref().map(|context| &context.arguments);
                let name = arguments.and_then(|arguments| arguments.get("name"));
                self.versions(name.map(String::as_str).unwrap_or_default(), typed).await
            }
            _ => Ok(Vec::new()),
        };
        Some(values.map(completion).map_err(|error| RpcError::internal(error.to_string())))
    }

    /// Returns names that begin with a text: one more than a completion may have, if there are as
    /// many.
    async fn names(&self, typed: &str) -> Result<Vec<String>, ToolError> {
        if typed.len() > ArtifactName::MAX_BYTES {
            return Ok(Vec::new());
        }
        // Lists are ordered by name. So the names begin after the text, or after the longest
        // beginning of it that can be a name.
        let beginnings = (1..=typed.len()).rev().filter_map(|end| typed.get(..end));
        let mut after = beginnings.map(ArtifactName::parse).find_map(Result::ok);
        let mut names = Vec::new();
        if let Some(name) = after.as_ref().filter(|name| name.as_str() == typed)
            && self.store.record(&self.scope, name, Version::Latest).await.is_ok()
        {
            names.push(typed.to_owned());
        }
        let mut examined = 0;
        while names.len() <= MAX_VALUES && examined < MAX_EXAMINED {
            let page = Page::new(after, MAX_VALUES + 1);
            let listing = self.store.list(&self.scope, &page).await?;
            examined += listing.records.len();
            let listed = listing.records.iter().map(|record| record.name.as_str());
            names.extend(listed.filter(|name| name.starts_with(typed)).map(str::to_owned));
            let last = listing.records.last().map_or("", |record| record.name.as_str());
            after = listing.next.filter(|_| last < typed || last.starts_with(typed));
            if after.is_none() {
                break;
            }
        }
        Ok(names)
    }

    async fn versions(&self, name: &str, typed: &str) -> Result<Vec<String>, ToolError> {
        let Ok(name) = ArtifactName::parse(name) else { return Ok(Vec::new()) };
        let Ok(newest) = self.store.record(&self.scope, &name, Version::Latest).await else {
            return Ok(Vec::new());
        };
        let oldest = newest.version.saturating_sub(MAX_VERSIONS);
        let mut versions = Vec::new();
        for version in (oldest..=newest.version).rev() {
            // Some may have been deleted.
            let is_stored = version == newest.version
                || self.store.record(&self.scope, &name, Version::Number(version)).await.is_ok();
            let version = version.to_string();
            if is_stored && version.starts_with(typed) {
                versions.push(version);
            }
        }
        Ok(versions)
    }
}

fn completion(mut values: Vec<String>) -> CompleteResult {
    let has_more = values.len() > MAX_VALUES;
    values.truncate(MAX_VALUES);
    let total = (!has_more).then_some(values.len() as u64);
    CompleteResult { completion: Completion { values, total, has_more: Some(has_more) } }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::SystemTime};

    use marquetry_artifacts::{ArtifactStore as _, MemoryLimits, MemoryStore, NewArtifact, Scope};
    use serde_json::{Value, json};

    use super::*;

    async fn completed(artifacts: &ArtifactTools, argument: Value, context: Value) -> Completion {
        let params = json!({
            "ref": {"type": "ref/resource", "uri": "artifact://{name}{?version}"},
            "argument": argument, "context": {"arguments": context},
        });
        let params = serde_json::from_value(params).unwrap();
        artifacts.complete(&params).await.unwrap().unwrap().completion
    }

    #[tokio::test]
    async fn names_and_versions_are_completed() {
        let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
        let names = (0..150).map(|n| format!("log_{n:03}")).chain(["a".into(), "a".into()]);
        for name in names {
            let name = ArtifactName::parse(&name).unwrap();
            let new = NewArtifact::new(name, "text/plain", SystemTime::UNIX_EPOCH, "x".into());
            store.put(&Scope::local(), new).await.unwrap();
        }
        let artifacts = ArtifactTools::new(store.clone());
        let found = completed(&artifacts, json!({"name": "name", "value": "a"}), json!({})).await;
        assert_eq!((found.values, found.total), (vec!["a".to_owned()], Some(1)));
        let found =
            completed(&artifacts, json!({"name": "name", "value": "log_"}), json!({})).await;
        assert_eq!((found.values.len(), found.has_more, found.total), (100, Some(true), None));
        let version = json!({"name": "version", "value": ""});
        let found = completed(&artifacts, version.clone(), json!({"name": "a"})).await;
        assert_eq!(found.values, ["1", "0"]);
        let found = completed(&artifacts, version, json!({"name": "b"})).await;
        assert_eq!(found.values, [""; 0]);
        // Other names before them, however many, do not hide them; `log_.` is no name.
        for number in 0..=MAX_EXAMINED {
            let name = ArtifactName::parse(&format!("log_{number}")).unwrap();
            let new = NewArtifact::new(name, "text/plain", SystemTime::UNIX_EPOCH, "x".into());
            store.put(&Scope::local(), new).await.unwrap();
        }
        for name in ["log_.txt", "zeta", "zeta_2"] {
            let name = ArtifactName::parse(name).unwrap();
            let new = NewArtifact::new(name, "text/plain", SystemTime::UNIX_EPOCH, "x".into());
            store.put(&Scope::local(), new).await.unwrap();
        }
        for (typed, want) in [("zeta", &["zeta", "zeta_2"][..]), ("log_.", &["log_.txt"])] {
            let argument = json!({"name": "name", "value": typed});
            assert_eq!(completed(&artifacts, argument, json!({})).await.values, want);
        }
        let other = json!({"ref": {"type": "ref/resource", "uri": "x://{name}"}, "argument": {"name": "name", "value": ""}});
        assert!(artifacts.complete(&serde_json::from_value(other).unwrap()).await.is_none());
    }
}
