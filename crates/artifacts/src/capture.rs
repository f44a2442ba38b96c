//! Captures the answers of tool calls: saves large and binary items, and builds an answer that
//! fits.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    audience::{Audience, ViewUse},
    item::{ArtifactMaker, Task},
    json::{self, Members},
    mime::is_text,
    notice::{self, Facts, notice},
    plan::{Call, Plan, PlannedStructured, Show, StructuredTask, WholeAnswer, plan, text_item},
    proposal::FindTools,
    redact,
    report::{
        ItemReport, KeptFromModel, MAX_LISTED_ITEMS, META_KEY, Outcome, Report, Save, SaveStatus,
        SavedArtifact, Status, StructuredReport, StructuredShown,
    },
    settings::{Oversize, Settings},
    shape::Shown,
    source::{Clock, Ids, RandomIds, SystemClock},
    store::{ArtifactStore, NewArtifact, Scope, Version},
};

/// Answers up to this many bytes are processed on the caller's thread, in some milliseconds if they
/// look like YAML; larger ones on the blocking pool.
const INLINE_BYTES: usize = 8 * 1024;
/// The audience of a call without one.
static ANY_AUDIENCE: Audience = Audience {
    profile: None,
    max_tokens: None,
    max_chars: None,
    replaces_text: false,
    shows_both: false,
    image_types: None,
    max_image_bytes: None,
    max_error_chars: None,
    max_answer_bytes: None,
};

/// Saves tool answers as artifacts and builds the answers that models see. Clones are cheap; one
/// capturer serves all calls.
///
/// See the [crate's documentation](crate) for an example.
#[derive(Clone)]
pub struct Capturer {
    store: Arc<dyn ArtifactStore>,
    ids: Arc<dyn Ids>,
    clock: Arc<dyn Clock>,
    list_tool: Arc<str>,
    read_tool: Arc<str>,
    search_tool: Arc<str>,
    query_tool: Arc<str>,
}

/// A tool call whose answer is captured.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// The scope of the artifacts.
    pub scope: &'a Scope,
    /// Name of the tool, with the server's name.
    pub tool: &'a str,
    /// Arguments of the call. Secrets are replaced before they are saved.
    pub arguments: Option<&'a RawValue>,
    /// Output schema of the tool, which shortened `structuredContent` still satisfies. Without one,
    /// a note replaces `structuredContent` that does not fit.
    pub output_schema: Option<&'a Value>,
    /// What the client shows its model.
    pub audience: Option<&'a Audience>,
    /// Whether a View gets the answer, too.
    pub view: ViewUse,
}

impl<'a> ToolCall<'a> {
    /// Creates a call of this tool. Its artifacts go to `scope`.
    #[must_use]
    pub fn new(scope: &'a Scope, tool: &'a str) -> Self {
        Self {
            scope,
            tool,
            arguments: None,
            output_schema: None,
            audience: None,
            view: ViewUse::default(),
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn with_arguments(self, arguments: Option<&'a RawValue>) -> Self {
        Self { arguments, ..self }
    }

    /// Sets the output schema.
    #[must_use]
    pub fn with_output_schema(self, output_schema: Option<&'a Value>) -> Self {
        Self { output_schema, ..self }
    }

    /// Sets what the client shows its model.
    #[must_use]
    pub fn with_audience(self, audience: Option<&'a Audience>) -> Self {
        Self { audience, ..self }
    }

    /// Sets whether a View gets the answer, too.
    #[must_use]
    pub fn with_view(self, view: ViewUse) -> Self {
        Self { view, ..self }
    }
}

/// A captured answer.
#[derive(Clone, Debug)]
pub enum Captured {
    /// The original answer, byte for byte, unless `redact_values` has replaced secrets in it.
    Unchanged(Box<RawValue>),
    /// A new answer.
    Changed {
        /// A `CallToolResult` with the report in its `_meta`, shortened to `report_max_bytes`.
        result: Box<RawValue>,
        /// The whole report.
        report: Box<Report>,
    },
}

impl Captured {
    /// Returns the answer for the client.
    pub fn into_result(self) -> Box<RawValue> {
        match self {
            Self::Unchanged(result) | Self::Changed { result, .. } => result,
        }
    }

    /// Returns the report, if the answer was changed.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Unchanged(_) => None,
            Self::Changed { report, .. } => Some(report),
        }
    }
}

impl Capturer {
    /// Creates a capturer with this store, random ids and the system clock. Its notices name the
    /// tools `list_artifacts`, `read_artifact`, `search_artifact` and `query_artifact`.
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        Self {
            store,
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
            list_tool: "list_artifacts".into(),
            read_tool: "read_artifact".into(),
            search_tool: "search_artifact".into(),
            query_tool: "query_artifact".into(),
        }
    }

    /// Sets the source of the random parts of names.
    #[must_use]
    pub fn ids(self, ids: Arc<dyn Ids>) -> Self {
        Self { ids, ..self }
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets the names of the tools that list and read artifacts. Notices do not mention an empty
    /// name.
    #[must_use]
    pub fn tools(self, list: &str, read: &str) -> Self {
        Self { list_tool: list.into(), read_tool: read.into(), ..self }
    }

    /// Sets the names of the tools that search and query artifacts. Notices do not mention an empty
    /// name.
    #[must_use]
    pub fn find_tools(self, search: &str, query: &str) -> Self {
        Self { search_tool: search.into(), query_tool: query.into(), ..self }
    }

    /// Captures one answer: the `result` of a `tools/call`.
    ///
    /// It never fails: the notice and the report name every failed save, and an answer that could
    /// not be saved is still shown up to the limit. Unfinished answers pass through unchanged.
    ///
    /// Needs a tokio runtime. Answers of more than 8 KiB are processed on its blocking pool. All
    /// artifacts of one answer are in memory at once: about twice the size of the answer at most.
    pub async fn capture(
        &self,
        call: ToolCall<'_>,
        settings: &Settings,
        answer: Box<RawValue>,
    ) -> Captured {
        let answer = Arc::new(redacted(settings, answer).await);
        let Some(plan) = self.plan(call, settings, &answer).await else {
            return Captured::Unchanged(
                Arc::try_unwrap(answer).unwrap_or_else(|shared| (*shared).clone()),
            );
        };
        let saved = self.save(call, settings, &answer, plan).await;
        let (result, report) = saved.finish(self, call, settings, &answer);
        Captured::Changed { result, report: Box::new(report) }
    }

    async fn plan(
        &self,
        call: ToolCall<'_>,
        settings: &Settings,
        answer: &Arc<Box<RawValue>>,
    ) -> Option<Plan> {
        let now = self.clock.now();
        let work = answer.get().len() + call.arguments.map_or(0, |arguments| arguments.get().len());
        if work <= INLINE_BYTES {
            let ToolCall { tool, arguments, output_schema, audience, .. } = call;
            let ids = &*self.ids;
            let audience = audience.unwrap_or(&ANY_AUDIENCE);
            let call = Call { tool, arguments, output_schema, settings, audience, ids, now };
            return plan(answer, &call);
        }
        let tool = call.tool.to_owned();
        let arguments = call.arguments.map(ToOwned::to_owned);
        let settings = settings.clone();
        let output_schema = call.output_schema.cloned();
        let audience = call.audience.cloned().unwrap_or_default();
        let ids = Arc::clone(&self.ids);
        let answer = Arc::clone(answer);
        blocking(move || {
            let arguments = arguments.as_deref();
            let output_schema = output_schema.as_ref();
            let tool = &*tool;
            let settings = &settings;
            let ids = &*ids;
            let audience = &audience;
            let call = Call { tool, arguments, output_schema, settings, audience, ids, now };
            plan(&answer, &call)
        })
        .await
    }

    /// Saves the items of the plan in order, then the whole answer if the plan says so.
    async fn save(
        &self,
        call: ToolCall<'_>,
        settings: &Settings,
        answer: &Arc<Box<RawValue>>,
        mut plan: Plan,
    ) -> ExecutedPlan {
        // A store with a limit may remove the first artifacts of an answer for its last ones, and
        // the notice must not name artifacts that are gone.
        let evicted = self.store.usage().evicted;
        let mut outcomes: Vec<SaveResult> = Vec::with_capacity(plan.items.len());
        for item in &mut plan.items {
            let task = std::mem::replace(&mut item.task, Task::Inline("".into()));
            outcomes.push(match task {
                Task::Same(index) => SaveResult::same_as(index, &outcomes[index]),
                task => self.save_one(call.scope, task).await,
            });
        }
        let mut bundle = None;
        if let Some(task) = plan.bundle.take() {
            let done = self.save_one(call.scope, task).await;
            for item in outcomes.iter_mut().filter(|done| done.is_bundled) {
                item.share(&done);
            }
            bundle = Some(done);
        }
        let mut structured = None;
        if let Some(planned) = &mut plan.structured {
            let task = std::mem::replace(&mut planned.task, StructuredTask::SameAs(0));
            structured = Some(match task {
                StructuredTask::Item(task) => self.save_one(call.scope, task).await,
                StructuredTask::SameAs(index) => {
                    let same = outcomes.get(index).and_then(|same| same.artifact.clone());
                    SaveResult {
                        artifact: same,
                        ..SaveResult::inlined(format!("same JSON as item {index}").into())
                    }
                }
            });
        }
        let mut saved =
            ExecutedPlan { plan, outcomes, bundle, structured, whole: None, whole_error: None };
        // Last, because `IfNothingElse` depends on the others.
        let is_whole_wanted = match saved.plan.whole_answer {
            WholeAnswer::Never => false,
            WholeAnswer::Also | WholeAnswer::Only => true,
            WholeAnswer::IfNothingElse => saved.count() == 0,
        };
        if is_whole_wanted {
            match self.save_whole(call, settings, answer).await {
                Ok(artifact) => saved.whole = Some(artifact),
                Err(error) => saved.whole_error = Some(error),
            }
        }
        // Reading each record again costs time, so only if anything was removed meanwhile, perhaps
        // by another call.
        if self.store.usage().evicted != evicted {
            self.find_evicted(call.scope, &mut saved).await;
        }
        saved
    }

    async fn is_stored(&self, scope: &Scope, artifact: &SavedArtifact) -> bool {
        // An error counts as gone, too: a notice that omits an artifact does less harm than one
        // that names an artifact that cannot be read.
        let version = Version::Number(artifact.version);
        self.store.record(scope, &artifact.name, version).await.is_ok()
    }

    /// Finds artifacts of this answer that the store has removed to make room for later ones.
    async fn find_evicted(&self, scope: &Scope, saved: &mut ExecutedPlan) {
        const REASON: &str = "the store had to make room for the rest of the answer";
        for done in saved.outcomes.iter_mut().chain(&mut saved.structured) {
            if let Some(artifact) = &done.artifact
                && !self.is_stored(scope, artifact).await
            {
                *done = SaveResult::failed(REASON.into());
            }
        }
        if let Some(done) = &mut saved.bundle
            && let Some(artifact) = &done.artifact
            && !self.is_stored(scope, artifact).await
        {
            *done = SaveResult::failed(REASON.into());
            for item in saved.outcomes.iter_mut().filter(|item| item.is_bundled) {
                item.share(done);
            }
        }
        if let Some(whole) = &saved.whole
            && !self.is_stored(scope, whole).await
        {
            saved.whole = None;
            saved.whole_error = Some(REASON.to_owned());
        }
    }

    async fn save_one(&self, scope: &Scope, task: Task) -> SaveResult {
        match task {
            Task::Save(artifact) => match self.put(scope, *artifact).await {
                Ok(artifact) => SaveResult {
                    outcome: Outcome::Saved,
                    reason: None,
                    artifact: Some(artifact),
                    ..SaveResult::inlined("".into())
                },
                Err(reason) => SaveResult::failed(reason.into()),
            },
            // The caller knows the other item.
            Task::Same(_) => SaveResult::inlined("".into()),
            Task::Bundle(reason) => SaveResult { is_bundled: true, ..SaveResult::inlined(reason) },
            Task::Inline(reason) => SaveResult::inlined(reason),
            Task::Skip(reason) => {
                SaveResult { outcome: Outcome::Skipped, ..SaveResult::inlined(reason) }
            }
            Task::Fail(reason) | Task::Undecodable(reason) => SaveResult::failed(reason),
            Task::BundleUndecodable(reason) => {
                SaveResult { is_bundled: true, ..SaveResult::failed(reason) }
            }
        }
    }

    async fn save_whole(
        &self,
        call: ToolCall<'_>,
        settings: &Settings,
        answer: &Arc<Box<RawValue>>,
    ) -> Result<SavedArtifact, String> {
        let tool = call.tool.to_owned();
        let settings = settings.clone();
        let arguments = call.arguments.map(ToOwned::to_owned);
        let ids = Arc::clone(&self.ids);
        let now = self.clock.now();
        let answer = Arc::clone(answer);
        let artifact = blocking(move || {
            let arguments =
                arguments.as_deref().map(|raw| redact::arguments(raw, &settings.redact_arguments));
            let maker =
                ArtifactMaker { tool: &tool, arguments, settings: &settings, ids: &*ids, now };
            maker.raw(Bytes::from_owner(AnswerBytes(answer)))
        })
        .await;
        self.put(call.scope, artifact?).await
    }

    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<SavedArtifact, String> {
        // Names of resources come from their URIs, so a repeated call has the same names.
        if artifact.metadata.resource.is_some()
            && let Ok(latest) = self.store.record(scope, &artifact.name, Version::Latest).await
            && latest.hash == artifact.hash()
            && latest.mime_type == artifact.mime_type
        {
            return Ok(latest.into());
        }
        let put = self.store.put(scope, artifact).await;
        put.map(SavedArtifact::from).map_err(|error| notice::plain(&error.to_string(), 300))
    }
}

/// Returns the answer without secrets, if the settings say so.
async fn redacted(settings: &Settings, answer: Box<RawValue>) -> Box<RawValue> {
    if !settings.redact_values {
        return answer;
    }
    if answer.get().len() <= INLINE_BYTES {
        return redact::answer(&answer).unwrap_or(answer);
    }
    blocking(move || redact::answer(&answer).unwrap_or(answer)).await
}

/// Runs long work on Tokio's blocking pool.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and the caller's task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The bytes of the answer, shared with the store instead of copied.
struct AnswerBytes(Arc<Box<RawValue>>);

impl AsRef<[u8]> for AnswerBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.get().as_bytes()
    }
}

/// Outcome of one item or of `structuredContent`.
struct SaveResult {
    outcome: Outcome,
    reason: Option<String>,
    artifact: Option<SavedArtifact>,
    /// Whether the item shares an artifact with other items.
    is_bundled: bool,
    /// URI of the shared artifact.
    shared_uri: Option<String>,
    /// Whether the artifact is that of an earlier item.
    is_repeated: bool,
}

impl SaveResult {
    fn inlined(reason: std::borrow::Cow<'static, str>) -> Self {
        Self {
            outcome: Outcome::Inlined,
            reason: Some(reason.into_owned()),
            artifact: None,
            is_bundled: false,
            shared_uri: None,
            is_repeated: false,
        }
    }

    /// Returns the outcome of an item with the same bytes as an earlier one.
    fn same_as(index: usize, first: &Self) -> Self {
        let reason = match &first.artifact {
            Some(_) => Some(format!("same bytes as item {index}")),
            None => first.reason.clone(),
        };
        let artifact = first.artifact.clone();
        let empty = Self::inlined("".into());
        Self { outcome: first.outcome, reason, artifact, is_repeated: true, ..empty }
    }

    fn failed(reason: std::borrow::Cow<'static, str>) -> Self {
        Self { outcome: Outcome::Failed, ..Self::inlined(reason) }
    }

    /// Copies the outcome of the shared artifact. An undecodable item stays failed, with its own
    /// reason.
    fn share(&mut self, bundle: &Self) {
        self.shared_uri = bundle.uri();
        if self.outcome == Outcome::Failed {
            return;
        }
        self.outcome = bundle.outcome;
        if bundle.artifact.is_none() {
            self.reason.clone_from(&bundle.reason);
        }
    }

    fn uri(&self) -> Option<String> {
        let own = self.artifact.as_ref().map(|artifact| artifact.uri.clone());
        own.or_else(|| self.shared_uri.clone())
    }

    fn is_unsaved(&self) -> bool {
        matches!(self.outcome, Outcome::Skipped | Outcome::Failed)
    }
}

/// An executed plan.
struct ExecutedPlan {
    plan: Plan,
    outcomes: Vec<SaveResult>,
    /// The artifact shared by several items.
    bundle: Option<SaveResult>,
    structured: Option<SaveResult>,
    whole: Option<SavedArtifact>,
    whole_error: Option<String>,
}

impl ExecutedPlan {
    /// Returns the outcomes of all saves.
    fn all(&self) -> impl Iterator<Item = &SaveResult> {
        self.outcomes.iter().chain(&self.structured)
    }

    /// Returns the saved artifacts, except the one of the whole answer.
    fn artifacts(&self) -> impl Iterator<Item = &SavedArtifact> {
        let own = self.outcomes.iter().chain(&self.bundle).chain(&self.structured);
        own.filter(|done| done.outcome == Outcome::Saved && !done.is_repeated)
            .filter_map(|done| done.artifact.as_ref())
    }

    fn count(&self) -> usize {
        self.artifacts().count()
    }

    fn finish(
        mut self,
        capturer: &Capturer,
        call: ToolCall<'_>,
        settings: &Settings,
        answer: &RawValue,
    ) -> (Box<RawValue>, Report) {
        if self.plan.whole_answer == WholeAnswer::Only {
            self.apply_whole_answer_to_items();
        }
        let is_as_sent = match call.view {
            ViewUse::NoView => false,
            ViewUse::NotShown => self.shows_every_item(),
            ViewUse::Shown => true,
        };
        if is_as_sent {
            self.plan.show_as_sent();
        }
        // Before the report, which has the size of what is shown. A failed save must not cost the
        // model the text (seed 000/3.2; SAM loses it).
        self.show_texts_without_artifacts(answer);
        let save = if settings.save { self.save_report() } else { Save::off() };
        let cut = self.plan.oversize.map(|_| settings.oversize);
        let status = match (save.status, cut) {
            (SaveStatus::Off, None) => Status::Processed,
            (SaveStatus::Off, Some(Oversize::Truncate)) => Status::ProcessedTruncated,
            (SaveStatus::Off, Some(Oversize::Withhold)) => Status::ProcessedWithheld,
            (SaveStatus::Error, None) => Status::ProcessedSaveFailed,
            (SaveStatus::Error, Some(Oversize::Truncate)) => Status::ProcessedTruncatedSaveFailed,
            (SaveStatus::Error, Some(Oversize::Withhold)) => Status::ProcessedWithheldSaveFailed,
            (_, None) => Status::ProcessedAndSaved,
            (_, Some(Oversize::Truncate)) => Status::ProcessedSavedAndTruncated,
            (_, Some(Oversize::Withhold)) => Status::ProcessedSavedAndWithheld,
        };
        let mut report = Report {
            status,
            size_bytes: self.plan.size,
            estimated_tokens: marquetry_tokens::estimate_by_pieces(answer.get()),
            kept_from_model: KeptFromModel::default(),
            message: String::new(),
            truncated: self.plan.oversize,
            left_out: self.plan.left_out.clone(),
            save,
            items: self.item_reports(),
            items_not_listed: self.outcomes.len().saturating_sub(MAX_LISTED_ITEMS)
                + self.plan.tail.as_ref().map_or(0, |tail| tail.count),
            structured: self.structured.as_ref().zip(self.plan.structured.as_ref()).map(
                |(done, planned)| StructuredReport {
                    outcome: done.outcome,
                    shown: planned.shown,
                    reason: done.reason.clone(),
                    artifact: done.uri(),
                },
            ),
            profile: call.audience.and_then(|audience| audience.profile.clone()),
        };
        let facts = Facts {
            tool: call.tool,
            limit: self.plan.limit,
            list_tool: &capturer.list_tool,
            read_tool: &capturer.read_tool,
            find_tools: FindTools { search: &capturer.search_tool, query: &capturer.query_tool },
            structured: self.plan.structured.as_ref().map(|planned| planned.shown),
            whole_structured: self.whole_structured(),
            is_whole: self.is_shown_whole(),
            is_lossy: !is_as_sent && self.is_lossy(),
        };
        report.message = notice::message(&report, &facts);
        if is_as_sent {
            let json = report.json_within(settings.report_max_bytes);
            return (with_report(answer, json), report);
        }
        let notice = notice(&report, &facts);
        let max_report = settings.report_max_bytes;
        let mut result = self.result(answer, &mut report, &notice, max_report);
        let max_bytes = call.audience.and_then(|audience| audience.max_answer_bytes);
        let excess = (result.get().len() as u64).saturating_sub(max_bytes.unwrap_or(u64::MAX));
        if excess > 0 && self.replace_images(excess) {
            result = self.result(answer, &mut report, &notice, max_report);
        }
        (result, report)
    }

    /// Builds the new answer: the upstream's members in their order, with changes. The report,
    /// which is a part of it, gets the size of the others.
    fn result(
        &self,
        answer: &RawValue,
        report: &mut Report,
        notice: &str,
        report_max_bytes: u64,
    ) -> Box<RawValue> {
        let mut members = self.members(answer, report, notice);
        report.kept_from_model = self.kept_from_model(answer, report.estimated_tokens, &members);
        let meta = self.meta_with(answer, report.json_within(report_max_bytes));
        members.push(("_meta", meta));
        object(&members)
    }

    /// Compares the answer with the members of the new one.
    fn kept_from_model(
        &self,
        answer: &RawValue,
        tokens: u64,
        members: &[(&str, String)],
    ) -> KeptFromModel {
        // The 4 are two quotes, a colon and a comma.
        let shown = members.iter().map(|(key, value)| (key.len() + value.len() + 4) as u64).sum();
        let binary = self.artifacts().filter(|artifact| !is_text(&artifact.mime_type));
        // Their length in base64, in which the upstream sent them.
        let media = binary.map(|artifact| artifact.size_bytes.div_ceil(3) * 4).sum();
        KeptFromModel::of(answer.get().len() as u64, tokens, shown, media)
    }

    /// Returns whether the new answer has every item as sent.
    fn shows_every_item(&self) -> bool {
        self.plan.oversize.is_none()
            && self.plan.malformed.is_none()
            && self
                .plan
                .items
                .iter()
                .all(|item| matches!(item.show, Show::AsSent(_) | Show::AsSentAndLink(_)))
    }

    /// Replaces the largest stored images by links until the answer is `excess` bytes shorter.
    /// Returns whether it has replaced any.
    fn replace_images(&mut self, excess: u64) -> bool {
        let items = self.plan.items.iter_mut().zip(&self.outcomes);
        let mut images: Vec<_> = items
            .filter(|(planned, done)| planned.kind == "image" && done.uri().is_some())
            .filter_map(|(planned, done)| {
                let bytes = match &planned.show {
                    Show::AsSent(span) | Show::AsSentAndLink(span) => span.len(),
                    Show::RewrittenAndLink(item) => item.len(),
                    _ => return None,
                };
                Some((bytes as u64, planned, done))
            })
            .collect();
        // The largest first, so that as many as possible stay.
        images.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let mut saved_bytes = 0;
        for (bytes, planned, done) in images {
            if saved_bytes >= excess {
                break;
            }
            saved_bytes += bytes;
            planned.show = match &done.artifact {
                Some(_) => Show::Link { otherwise: None },
                // The shared artifact has it.
                None => Show::Nothing,
            };
        }
        saved_bytes > 0
    }

    /// Gives each item the outcome of the whole answer, when intelligent processing is off.
    fn apply_whole_answer_to_items(&mut self) {
        let (outcome, error) = match &self.whole {
            Some(_) => (Outcome::Saved, None),
            None => (Outcome::Failed, self.whole_error.clone()),
        };
        for done in self.outcomes.iter_mut().chain(&mut self.structured) {
            let reason =
                error.clone().unwrap_or_else(|| "saved within the whole answer".to_owned());
            *done = SaveResult { outcome, ..SaveResult::inlined(reason.into()) };
        }
    }

    /// Shows texts whose artifact is missing up to the limit, instead of links.
    fn show_texts_without_artifacts(&mut self, answer: &RawValue) {
        let Plan { items, budget, oversize, .. } = &mut self.plan;
        for (planned, done) in items.iter_mut().zip(&self.outcomes) {
            let Show::LinkOrText(span) = &planned.show else { continue };
            if done.artifact.is_some() {
                planned.show = Show::Link { otherwise: None };
                continue;
            }
            let raw = serde_json::from_str::<&RawValue>(&answer.get()[span.clone()]).ok();
            let text = raw.and_then(json::string).map(|(text, _)| text).unwrap_or_default();
            planned.show = match budget.text(&text, 0) {
                Shown::Whole => Show::Rewritten(text_item(&text, None, None)),
                Shown::Parts(parts) => Show::Parts(text_item(&parts, None, None)),
                Shown::Nothing => Show::Nothing,
            };
        }
        if let Some(cut) = oversize {
            *cut = budget.truncated(cut.total_bytes);
        }
    }

    /// Returns the artifact with the whole structured content.
    fn whole_structured(&self) -> Option<&SavedArtifact> {
        self.structured.as_ref().and_then(|done| done.artifact.as_ref()).or(self.whole.as_ref())
    }

    fn save_report(&self) -> Save {
        let artifacts: Vec<_> = self.artifacts().cloned().collect();
        let unsaved = self.all().filter(|done| done.is_unsaved()).count();
        let first_error = self
            .all()
            .find(|done| done.is_unsaved())
            .and_then(|done| done.reason.clone())
            .or_else(|| self.plan.malformed.map(str::to_owned))
            .unwrap_or_else(|| "nothing in it makes an artifact".to_owned());
        let count = artifacts.len();
        let plural = if count == 1 { "" } else { "s" };
        let (status, message) = match (&self.whole, count) {
            (Some(_), _) if self.plan.whole_answer == WholeAnswer::Only => (
                SaveStatus::Success,
                "Intelligent processing is disabled; the whole answer is saved.".to_owned(),
            ),
            (None, 0) => {
                let error = self
                    .whole_error
                    .clone()
                    .filter(|_| self.plan.whole_answer == WholeAnswer::Only);
                let second = self
                    .whole_error
                    .as_ref()
                    .filter(|_| error.is_none())
                    .filter(|second| **second != first_error)
                    .map(|second| format!("; {second}"));
                (
                    SaveStatus::Error,
                    format!("{}{}.", error.unwrap_or(first_error), second.unwrap_or_default()),
                )
            }
            (Some(_), 0) => (
                SaveStatus::PartialSuccess,
                format!("Only the whole answer is saved: {first_error}."),
            ),
            (_, _) if unsaved > 0 => {
                let items = if unsaved == 1 {
                    "1 item is".to_owned()
                } else {
                    format!("{unsaved} items are")
                };
                (
                    SaveStatus::PartialSuccess,
                    format!("{count} artifact{plural} saved; {items} not: {first_error}."),
                )
            }
            (None, _) if self.plan.whole_answer == WholeAnswer::Also => {
                let error = self.whole_error.as_deref().unwrap_or_default();
                (
                    SaveStatus::PartialSuccess,
                    format!("{count} artifact{plural} saved; the whole answer is not: {error}."),
                )
            }
            (_, _) => (SaveStatus::Success, format!("{count} artifact{plural} saved.")),
        };
        Save {
            status,
            message,
            artifacts,
            artifacts_not_listed: 0,
            fallback_artifact: self.whole.clone(),
        }
    }

    fn item_reports(&self) -> Vec<ItemReport> {
        let items = self.plan.items.iter().zip(&self.outcomes).enumerate().take(MAX_LISTED_ITEMS);
        items
            .map(|(index, (planned, done))| ItemReport {
                index,
                kind: planned.kind.clone(),
                outcome: done.outcome,
                reason: done.reason.clone(),
                warnings: done
                    .artifact
                    .as_ref()
                    .map_or_else(Vec::new, |artifact| artifact.metadata.warnings.clone()),
                artifact: done.uri(),
            })
            .collect()
    }

    /// Returns whether the new answer has everything of the upstream's.
    fn is_shown_whole(&self) -> bool {
        let plan = &self.plan;
        let items = plan.items.iter().zip(&self.outcomes).all(|(planned, done)| {
            // An empty text has no place in the new answer, and nothing of it is lost.
            let is_empty = done.outcome == Outcome::Inlined && planned.kind == "text";
            planned.show.is_whole() || is_empty
        });
        let structured = plan.structured.as_ref();
        items
            && structured.is_none_or(|planned| planned.shown == StructuredShown::Whole)
            && plan.tail.as_ref().is_none_or(|tail| tail.shown.is_some())
            && plan.left_out.is_none()
            && (plan.malformed.is_none() || plan.oversize.is_none())
    }

    /// Returns whether a part of the answer is neither shown nor saved.
    fn is_lossy(&self) -> bool {
        if self.whole.is_some() {
            return false;
        }
        let items = self.plan.items.iter().zip(&self.outcomes).any(|(planned, done)| {
            let is_shown = planned.show.is_whole()
                || matches!(planned.show, Show::Link { otherwise: Some(_) });
            let is_empty = done.outcome == Outcome::Inlined && planned.kind == "text";
            !is_shown && !is_empty && done.outcome != Outcome::Saved && done.shared_uri.is_none()
        });
        let structured = self.plan.structured.as_ref().zip(self.structured.as_ref());
        let structured = structured.is_some_and(|(planned, done)| {
            planned.shown != StructuredShown::Whole && done.artifact.is_none()
        });
        let tail = self.plan.tail.as_ref().is_some_and(|tail| tail.shown.is_none())
            && self.bundle.as_ref().is_none_or(|done| done.artifact.is_none());
        let left_out = self.plan.left_out.is_some();
        items
            || tail
            || structured
            || left_out
            || (self.plan.malformed.is_some() && self.plan.oversize.is_some())
    }

    /// Builds the new answer without `_meta`: the upstream's members in their order, with changes.
    fn members<'a>(
        &'a self,
        answer: &RawValue,
        report: &Report,
        notice: &str,
    ) -> Vec<(&'a str, String)> {
        let mut members = Vec::new();
        for (key, span) in &self.plan.members {
            let value = &answer.get()[span.clone()];
            match key.as_str() {
                "content" => members.push(("content", self.content(answer, notice))),
                "structuredContent" => {
                    let shown = self.structured_content(value, report, notice);
                    members.extend(shown.map(|shown| ("structuredContent", shown)));
                }
                _ => members.push((key.as_str(), value.to_owned())),
            }
        }
        // MCP requires `content`, and it is where the notice goes.
        if !members.iter().any(|(key, _)| *key == "content") {
            members.insert(0, ("content", self.content(answer, notice)));
        }
        members
    }

    fn content(&self, answer: &RawValue, notice: &str) -> String {
        fn sent(answer: &RawValue, span: &Range<usize>) -> String {
            answer.get()[span.clone()].to_owned()
        }
        let mut items = Vec::new();
        items.extend(self.plan.fallback_item.clone());
        for (planned, done) in self.plan.items.iter().zip(&self.outcomes) {
            let link = done.artifact.as_ref().map(link_item);
            match &planned.show {
                Show::AsSent(span) => items.push(sent(answer, span)),
                Show::Rewritten(item) | Show::Parts(item) => items.push(item.clone()),
                Show::LinkOrText(_) => items.extend(link),
                Show::Link { otherwise } => {
                    items
                        .extend(link.or_else(|| otherwise.as_ref().map(|span| sent(answer, span))));
                }
                Show::AsSentAndLink(span) => {
                    items.push(sent(answer, span));
                    items.extend(link);
                }
                Show::RewrittenAndLink(item) => {
                    items.push(item.clone());
                    items.extend(link);
                }
                Show::Nothing => {}
            }
        }
        let tail = self.plan.tail.as_ref().and_then(|tail| tail.shown.as_ref());
        items.extend(tail.map(|span| sent(answer, span)));
        let notice = text_item(notice, None, None);
        if self.plan.oversize.is_some() {
            // Clients that cut an answer, too, keep its beginning.
            items.insert(0, notice);
        } else {
            items.push(notice);
        }
        format!("[{}]", items.join(","))
    }

    /// Builds `_meta`: the upstream's members and the report.
    fn meta_with(&self, answer: &RawValue, report: String) -> String {
        let kept = self.plan.meta.iter();
        let mut all: Vec<_> =
            kept.map(|(key, span)| (key.as_str(), answer.get()[span.clone()].to_owned())).collect();
        all.push((META_KEY, report));
        object(&all).get().to_owned()
    }

    /// Returns the structured content of the new answer; none if it is left out.
    fn structured_content(&self, value: &str, report: &Report, notice: &str) -> Option<String> {
        match &self.plan.structured {
            Some(planned) if planned.shown == StructuredShown::Dropped => return None,
            Some(planned) if planned.shown == StructuredShown::Replaced => {}
            Some(PlannedStructured { shortened: Some(shortened), .. }) => {
                return Some(shortened.with_notice(notice));
            }
            _ => return Some(value.to_owned()),
        }
        let artifact = self.whole_structured().map(|artifact| artifact.uri.clone());
        let note = serde_json::json!({
            "status": report.status,
            "size_bytes": value.len(),
            "artifacts": artifact.into_iter().collect::<Vec<_>>(),
        });
        Some(object(&[(META_KEY, note.to_string())]).get().to_owned())
    }
}

/// Returns an answer as sent, with a report in its `_meta`. An answer that is not an object has no
/// place for one.
fn with_report(answer: &RawValue, report: String) -> Box<RawValue> {
    let Some(members) = Members::read(answer) else { return answer.to_owned() };
    let meta = members.get("_meta").and_then(Members::read);
    let mut all: Vec<_> = members
        .iter()
        .filter(|(key, _)| *key != "_meta")
        .map(|(key, value)| (key, value.get().to_owned()))
        .collect();
    let mut new_meta: Vec<_> = meta
        .iter()
        .flat_map(Members::iter)
        // Only our own report may be under this key.
        .filter(|(key, _)| *key != META_KEY)
        .map(|(key, value)| (key, value.get().to_owned()))
        .collect();
    new_meta.push((META_KEY, report));
    all.push(("_meta", object(&new_meta).get().to_owned()));
    object(&all)
}

/// Writes a JSON object of values that are JSON already.
fn object(members: &[(&str, String)]) -> Box<RawValue> {
    let members = members.iter().map(|(key, value)| format!("{}:{value}", Value::from(*key)));
    let json = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    RawValue::from_string(json).expect("members are valid JSON")
}

/// Returns the link that replaces an item.
fn link_item(artifact: &SavedArtifact) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Link<'a> {
        r#type: &'static str,
        uri: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        mime_type: &'a str,
        size: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<&'a Value>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a Value>,
    }
    let SavedArtifact { name, uri, mime_type, size_bytes, metadata, .. } = artifact;
    let link = Link {
        r#type: "resource_link",
        uri,
        name: name.as_str(),
        description: &metadata.description,
        mime_type,
        size: *size_bytes,
        annotations: metadata.annotations.as_ref(),
        meta: metadata.meta.as_ref(),
    };
    serde_json::to_string(&link).expect("strings, numbers and JSON can be written as JSON")
}
