#![doc = include_str!("../README.md")]

mod complete;
mod content;
mod delete;
mod document;
mod download;
mod find;
mod limits;
mod line_index;
mod list;
mod read;
mod resource;
pub mod view;

use std::{fmt, sync::Arc};

use marquetry_artifacts::{
    ArtifactStore, ArtifactUri, Record, Scope, StoreError, settings::ArtifactScope,
};
use marquetry_protocol::server::{Json, Principal, RequestContext, Toolbox};
use tokio::sync::Semaphore;

use self::{
    delete::DeleteArguments,
    find::{QueryArguments, SearchArguments},
    line_index::LineIndexes,
    list::ListArguments,
    read::ReadArguments,
};
pub use self::{download::Download, limits::ReadLimits, resource::WholeArtifact};

/// Name of the tool that lists artifacts.
pub const LIST: &str = "list_artifacts";
/// Name of the tool that reads an artifact or a part of it.
pub const READ: &str = "read_artifact";
/// Name of the tool that finds lines of an artifact.
pub const SEARCH: &str = "search_artifact";
/// Name of the tool that queries an artifact with jq or SQL.
pub const QUERY: &str = "query_artifact";
/// Name of the tool that deletes an artifact.
pub const DELETE: &str = "delete_artifact";

/// The callers whose list of artifacts has changed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ChangedFor<'a> {
    /// All callers, because they share their artifacts.
    Everyone,
    /// The callers of one principal; `None` means all callers without a token.
    Principal(Option<&'a Arc<Principal>>),
}

/// Maximum number of tokens of an answer, unless the call sets a limit of its own.
pub const DEFAULT_TOKENS: u64 = 2_000;

type OnChange = dyn Fn(ChangedFor<'_>) + Send + Sync;

/// The tools and resources over the artifacts of one caller: the caller `local`, until
/// [`ArtifactTools::for_request`] or [`ArtifactTools::for_principal`] names another.
#[derive(Clone)]
pub struct ArtifactTools {
    store: Arc<dyn ArtifactStore>,
    sharing: ArtifactScope,
    scope: Scope,
    principal: Option<Arc<Principal>>,
    limits: ReadLimits,
    on_change: Arc<OnChange>,
    /// Bounds the memory of whole reads and queries; a permit is one KiB.
    whole_reads: Arc<Semaphore>,
    /// Where the lines of texts begin that were read lately.
    line_indexes: Arc<LineIndexes>,
}

/// An error of an artifact tool, which the model reads.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error("{0} is not an artifact's name: {1}; {LIST} lists the names")]
    Name(String, String),
    #[error("{0} is not text; give start_byte and end_byte instead of lines")]
    NotText(String),
    #[error("{0}; call the tool that created it again")]
    Expired(StoreError),
    #[error(transparent)]
    Store(StoreError),
    #[error("{0}")]
    Arguments(String),
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Expired { .. } => Self::Expired(error),
            error => Self::Store(error),
        }
    }
}

impl fmt::Debug for ArtifactTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sharing, scope, limits, .. } = self;
        f.debug_struct("ArtifactTools")
            .field("sharing", sharing)
            .field("scope", scope)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

impl ArtifactTools {
    /// Creates the tools over a store, with one scope for each principal and the default limits.
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        let limits = ReadLimits::default();
        Self {
            store,
            sharing: ArtifactScope::Principal,
            scope: Scope::local(),
            principal: None,
            whole_reads: Arc::new(limits.whole_reads()),
            limits,
            line_indexes: Arc::default(),
            on_change: Arc::new(|_| {}),
        }
    }

    /// Sets which callers share artifacts.
    #[must_use]
    pub fn with_scope(self, sharing: ArtifactScope) -> Self {
        Self { sharing, ..self }
    }

    /// Sets how much a read returns, and how much memory whole reads use together.
    #[must_use]
    pub fn with_limits(self, limits: ReadLimits) -> Self {
        Self { whole_reads: Arc::new(limits.whole_reads()), limits, ..self }
    }

    /// Calls `on_change` when the list of a caller's artifacts has changed.
    #[must_use]
    pub fn on_change(self, on_change: impl Fn(ChangedFor<'_>) + Send + Sync + 'static) -> Self {
        Self { on_change: Arc::new(on_change), ..self }
    }

    /// Returns the scope of a caller's artifacts.
    pub fn scope_of(&self, cx: &RequestContext) -> Scope {
        scope(self.sharing, cx.principal().map(AsRef::as_ref), cx.session_id())
    }

    /// Returns the tools and resources over the artifacts of a request's caller.
    #[must_use]
    pub fn for_request(&self, cx: &RequestContext) -> Self {
        Self { scope: self.scope_of(cx), principal: cx.principal().cloned(), ..self.clone() }
    }

    /// Returns the tools and resources over the artifacts of a principal outside of a session;
    /// `None` is the caller without a token.
    #[must_use]
    pub fn for_principal(&self, principal: Option<&Arc<Principal>>) -> Self {
        let scope = scope(self.sharing, principal.map(AsRef::as_ref), None);
        Self { scope, principal: principal.cloned(), ..self.clone() }
    }

    /// Reports a changed list of artifacts for the callers that see it: those of the same
    /// principal, or all if artifacts are shared.
    pub fn announce_change(&self) {
        (self.on_change)(match self.sharing {
            ArtifactScope::Shared => ChangedFor::Everyone,
            _ => ChangedFor::Principal(self.principal.as_ref()),
        });
    }

    /// Adds the five tools to `toolbox`.
    pub fn add_to(&self, toolbox: Toolbox) -> Toolbox {
        let lister = self.clone();
        let reader = self.clone();
        let deleter = self.clone();
        let searcher = self.clone();
        let querier = self.clone();
        let read_description = format!(
            "Reads an artifact or a part of it: lines, a page, or bytes. An answer has at most {DEFAULT_TOKENS} tokens ({} bytes with max_bytes) and says how to go on. \
             Images of up to {} bytes come as images, other binary data as base64.",
            self.limits.max_bytes, self.limits.max_image_bytes,
        );
        toolbox
            .tool(LIST, list::DESCRIPTION, move |arguments: ListArguments, cx: RequestContext| {
                let lister = lister.for_request(&cx);
                async move { lister.list(&arguments).await.map(Json) }
            })
            .tool(READ, read_description, move |arguments: ReadArguments, cx: RequestContext| {
                let reader = reader.for_request(&cx);
                async move { reader.read(&arguments).await }
            })
            .tool(
                SEARCH,
                find::SEARCH_DESCRIPTION,
                move |arguments: SearchArguments, cx: RequestContext| {
                    let searcher = searcher.for_request(&cx);
                    async move { searcher.search(arguments).await }
                },
            )
            .tool(
                QUERY,
                find::QUERY_DESCRIPTION,
                move |arguments: QueryArguments, cx: RequestContext| {
                    let querier = querier.for_request(&cx);
                    async move { querier.query(arguments).await }
                },
            )
            .tool(
                DELETE,
                delete::DESCRIPTION,
                move |arguments: DeleteArguments, cx: RequestContext| {
                    let deleter = deleter.for_request(&cx);
                    async move { deleter.delete(&arguments).await }
                },
            )
    }
}

/// Returns the scope of a principal's artifacts in a session.
fn scope(sharing: ArtifactScope, principal: Option<&Principal>, session: Option<&str>) -> Scope {
    let local = Scope::local();
    if sharing == ArtifactScope::Shared {
        return local;
    }
    // The prefix keeps principals apart from `local`, which the caller without a token has.
    let user = principal.map_or_else(
        || local.user().to_owned(),
        |principal| hash_if_long(format!("principal {}", principal.id())),
    );
    let session = match session {
        Some(session) if sharing == ArtifactScope::Session => {
            hash_if_long(format!("session {session}"))
        }
        _ => local.session().to_owned(),
    };
    Scope::new(local.app(), user, session).expect("every part has 1 to 256 bytes")
}

/// Returns a name that fits into a part of a scope: a long name is replaced by its hash.
fn hash_if_long(name: String) -> String {
    if name.len() <= Scope::MAX_PART_BYTES {
        return name;
    }
    format!("hash {}", blake3::hash(name.as_bytes()).to_hex())
}

/// Returns the number of semaphore permits for `bytes`: one per KiB, rounded up.
fn permits_for(bytes: u64) -> u32 {
    // The maximum of Tokio's semaphore on 32-bit targets.
    const MAX_PERMITS: u32 = u32::MAX >> 3;
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(MAX_PERMITS).clamp(1, MAX_PERMITS)
}

fn uri_of(record: &Record) -> String {
    ArtifactUri { name: record.name.clone(), version: Some(record.version) }.to_string()
}

fn description(record: &Record) -> Option<String> {
    Some(record.metadata.description.clone()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_principal_has_a_scope_of_its_own() {
        let by_principal = scopes(ArtifactScope::Principal, None);
        assert_eq!(by_principal.len(), callers().len());
        assert_eq!(by_principal, scopes(ArtifactScope::Principal, Some("s")));
        assert_eq!(scopes(ArtifactScope::Shared, Some("s")), [Scope::local()].into());
        assert_eq!(by_principal, scopes(ArtifactScope::Session, None));
        let of_a = scopes(ArtifactScope::Session, Some("a"));
        assert_eq!(of_a.len(), callers().len());
        assert!(of_a.is_disjoint(&scopes(ArtifactScope::Session, Some("b"))));
        assert_eq!(scope(ArtifactScope::Principal, None, None), Scope::local());
    }

    fn scopes(sharing: ArtifactScope, session: Option<&str>) -> BTreeSet<Scope> {
        callers().iter().map(|caller| scope(sharing, caller.as_ref(), session)).collect()
    }

    /// The caller without a token, holders of static tokens, and users of issuers.
    fn callers() -> [Option<Principal>; 7] {
        [
            None,
            Some(Principal::new(None, "local")),
            Some(Principal::new(None, "principal - local")),
            Some(Principal::new(Some("https://a".to_owned()), "x")),
            Some(Principal::new(Some("https://b".to_owned()), "x")),
            Some(Principal::new(Some("https://a".to_owned()), "x".repeat(300))),
            Some(Principal::new(Some("https://a".to_owned()), "x".repeat(301))),
        ]
    }
}
