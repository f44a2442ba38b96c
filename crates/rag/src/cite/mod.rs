//! Citations: passages that answer a question, in blocks for a chat model.

mod block;
mod chat;
mod limits;
mod reference;
mod search;
mod visible_text;

use std::collections::BTreeSet;

use marquetry_context_blocks::Builder;
use marquetry_embed::EmbedError;
use marquetry_index::StoreError;
use marquetry_records::{Caller, Record, RecordError, Records};

pub use self::{
    block::{CitationBlock, Cited, CitedMessage, Offsets, Passage},
    limits::CitationLimits,
    reference::ReferenceProblem,
};
use self::{reference::Reference, search::Search, visible_text::VisibleText};
use crate::pipeline::{Pipeline, PipelineError};

/// Finds the passages of referenced documents that answer a question.
///
/// | reference | what is cited |
/// |---|---|
/// | tags | chunks with all of the tags, of documents and of chats |
/// | `olio.llm.chatRequest` | the newest messages of the chat |
/// | `olio.charPerson` | chunks of chats in which the character took part, and of the character itself |
/// | anything else | its chunks; its text if it has none; and the note `~/Notes/Summaries/NAME - Summary` |
///
/// Each reference gets a block, and all tags together get one. Only passages that the caller may
/// read now are cited, even if the index still has older permissions. No passage is cited twice,
/// and none that the messages already contain.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # use std::sync::Arc;
/// # use marquetry_rag::{EmbeddingModel, MemoryRecords, MemoryStore, Pipeline, Records, StaticModel};
/// # let pipeline = Pipeline::new(Arc::new(MemoryStore::new(EmbeddingModel::default())), Arc::new(StaticModel::built_in()))?;
/// # let records = Records::new(Arc::new(MemoryRecords::new()));
/// use marquetry_rag::{Caller, CitationResolver, CiteRequest, NewRecord};
///
/// let alice = Caller::new("default", "alice")?;
/// let new = NewRecord::new("data.note", "Bread").attribute("text", "Bread is flour and water.");
/// let note = records.create(&alice, new).await?;
///
/// let resolver = CitationResolver::new(records, pipeline);
/// let request = CiteRequest::new("What is bread?").about("chat-1").reference(note.uri().unwrap());
/// let citations = resolver.resolve(&alice, &request).await?;
/// assert_eq!(citations.blocks[0].passages()[0].content, "Bread is flour and water.");
/// assert!(citations.text().starts_with(r#"<mcp:context type="resource" uri="am7://default/vector/citations/chat-1" ephemeral="true" trust="untrusted">"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct CitationResolver {
    records: Records,
    pipeline: Pipeline,
    limits: CitationLimits,
}

/// A request for citations.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CiteRequest {
    /// The question. If it is blank, the first passages of each reference are cited.
    pub query: String,
    /// References: `am7://` URIs, URIs of documents of the store, or serialised references
    /// (`{"schema": "data.data", "objectId": "…"}`). References that name nothing are skipped and
    /// reported.
    pub references: Vec<String>,
    /// Messages that the model already sees. Passages in them are not cited again.
    pub messages: Vec<String>,
    /// The purpose of the citations, usually the id of a chat; the last part of the URIs of the
    /// blocks.
    pub about: String,
    /// Instruction for the model on how to use the passages. Each block repeats it.
    pub instruction: Option<String>,
    /// Whether the blocks are datamarked
    /// ([`Context::datamarked`](marquetry_context_blocks::Context::datamarked)).
    pub datamark: bool,
}

impl CiteRequest {
    /// Creates a request for a question, without references.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), about: "question".to_owned(), ..Self::default() }
    }

    /// Sets the purpose of the citations.
    #[must_use]
    pub fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// Adds a reference.
    #[must_use]
    pub fn reference(mut self, reference: impl Into<String>) -> Self {
        self.references.push(reference.into());
        self
    }

    /// Adds a message that the model already sees.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.messages.push(message.into());
        self
    }

    /// Turns datamarking on.
    #[must_use]
    pub fn datamarked(self) -> Self {
        Self { datamark: true, ..self }
    }
}

/// The citations for a request.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Citations {
    /// The blocks, in the order of the references.
    pub blocks: Vec<CitationBlock>,
    /// The references without passages, each (shortened if it is very long) with the reason.
    pub problems: Vec<(String, ReferenceProblem)>,
    /// Number of passages that were left out because of [`CitationLimits::max_passages`] or
    /// [`CitationLimits::max_bytes`].
    pub omitted: usize,
}

impl Citations {
    /// Returns the blocks as text, which belongs before a message; empty if there are no blocks.
    pub fn text(&self) -> String {
        let mut builder = Builder::new();
        self.blocks.iter().for_each(|block| block.write(&mut builder));
        builder.build()
    }

    /// Removes passages, the least relevant first, and then messages of chats, the oldest first,
    /// until [`Self::text`] has at most `max_bytes`. Counts them as [`Self::omitted`].
    pub fn fit(&mut self, max_bytes: usize) {
        let mut lengths: Vec<usize> =
            self.blocks.iter().map(CitationBlock::written_bytes).collect();
        while lengths.iter().sum::<usize>() > max_bytes {
            let Some(index) = block::least_relevant(&self.blocks) else { break };
            let block = &mut self.blocks[index];
            block.remove_least_relevant();
            self.omitted += 1;
            if block.is_empty() {
                self.blocks.remove(index);
                lengths.remove(index);
            } else {
                lengths[index] = block.written_bytes();
            }
        }
    }

    /// Returns the number of passages in all blocks.
    pub fn passages(&self) -> usize {
        self.blocks.iter().map(|block| block.passages().len()).sum()
    }
}

/// An error of a request for citations. An unusable reference is not an error: see
/// [`Citations::problems`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CiteError {
    /// The records cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The chunks cannot be searched.
    #[error(transparent)]
    Search(#[from] PipelineError),
}

impl From<StoreError> for CiteError {
    fn from(error: StoreError) -> Self {
        Self::Search(error.into())
    }
}

impl From<EmbedError> for CiteError {
    fn from(error: EmbedError) -> Self {
        Self::Search(error.into())
    }
}

/// The passages or chat for one reference, or for all tags, before the limits are applied.
struct Candidate {
    references: Vec<String>,
    kind: CandidateKind,
}

enum CandidateKind {
    Passages(Vec<Passage>),
    Chat(Box<Record>),
}

impl CandidateKind {
    fn has_no_passages(&self) -> bool {
        matches!(self, Self::Passages(passages) if passages.is_empty())
    }
}

impl CitationResolver {
    /// Creates a resolver for these records and their chunks.
    pub fn new(records: Records, pipeline: Pipeline) -> Self {
        Self { records, pipeline, limits: CitationLimits::default() }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: CitationLimits) -> Self {
        Self { limits, ..self }
    }

    /// Looks up the passages of the references that answer the question and that the caller may
    /// read.
    ///
    /// # Errors
    ///
    /// Returns an error if the records or the store of chunks fail, or the question cannot be
    /// embedded.
    pub async fn resolve(
        &self,
        caller: &Caller,
        request: &CiteRequest,
    ) -> Result<Citations, CiteError> {
        let Targets { tags, others, mut problems } =
            self.look_up_all(caller, &request.references).await?;
        if tags.is_empty() && others.is_empty() {
            return Ok(Citations { problems, ..Citations::default() });
        }
        let search = Search::begin(self, caller, &request.query).await?;
        let mut candidates = Vec::new();
        for (text, target) in others {
            let references = vec![target.uri()];
            let kind = self.candidate(caller, &search, target).await?;
            if kind.has_no_passages() {
                problems.push((shortened(text), ReferenceProblem::NoText));
            } else {
                candidates.push(Candidate { references, kind });
            }
        }
        if !tags.is_empty() {
            let tags: Vec<String> = tags.into_iter().collect();
            let passages = search.tags(&tags).await?;
            let kind = CandidateKind::Passages(passages);
            candidates.push(Candidate { references: tags, kind });
        }
        let (cited, omitted) = self.select(&request.messages, candidates);
        let uri = block_uri(caller, &request.about);
        let max_query_bytes = self.limits.max_query_bytes.min(MAX_SHOWN_QUERY_BYTES);
        let query = &request.query[..request.query.floor_char_boundary(max_query_bytes)];
        let blocks = cited
            .into_iter()
            .map(|(references, cited)| CitationBlock {
                uri: uri.clone(),
                references,
                query: query.to_owned(),
                instruction: request.instruction.clone(),
                cited,
                datamark: request.datamark,
            })
            .collect();
        Ok(Citations { blocks, problems, omitted })
    }

    /// Looks up the targets of references. Targets that several references name appear once.
    async fn look_up_all<'a>(
        &self,
        caller: &Caller,
        references: &'a [String],
    ) -> Result<Targets<'a>, CiteError> {
        let mut targets = Targets::default();
        let mut seen = BTreeSet::new();
        let max = self.limits.max_references;
        let (used, unused) = references.split_at(references.len().min(max));
        for text in used {
            match self.look_up(caller, text).await? {
                Ok(Target::Record(record)) if record.kind == TAG => {
                    targets.tags.extend(record.uri());
                }
                Ok(target) if seen.insert(target.uri()) => {
                    targets.others.push((text.as_str(), target));
                }
                Ok(_) => {}
                Err(problem) => targets.problems.push((shortened(text), problem)),
            }
        }
        for text in unused {
            targets.problems.push((shortened(text), ReferenceProblem::TooMany(max)));
        }
        Ok(targets)
    }

    /// Returns the passages or the chat that can be cited for a target.
    async fn candidate(
        &self,
        caller: &Caller,
        search: &Search<'_>,
        target: Target,
    ) -> Result<CandidateKind, CiteError> {
        let uri = target.uri();
        let passages = match target {
            Target::Record(record) if record.kind == CHAT => {
                return self.chat(caller, *record).await;
            }
            Target::Record(record) if record.kind == CHARACTER => {
                search.character(&uri, &record).await?
            }
            Target::Record(record) => search.general(&uri, &record).await?,
            Target::Document(_) => search.document(&uri).await?,
        };
        Ok(CandidateKind::Passages(passages))
    }

    /// Returns the document or record that a reference names, if the caller may read it.
    async fn look_up(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<Result<Target, ReferenceProblem>, CiteError> {
        let reference = match Reference::read(text, &caller.organization) {
            Ok(reference) => reference,
            Err(problem) => return Ok(Err(problem)),
        };
        Ok(match reference {
            Reference::Record(uri) => match self.record(caller, &uri).await? {
                Some(record) => Ok(Target::Record(Box::new(record))),
                None => Err(ReferenceProblem::NotFound),
            },
            Reference::Document(uri) => {
                let document = self.pipeline.store().document(&uri).await?;
                let readers = document.map(|document| document.readers).unwrap_or_default();
                let names = self.records.principals(caller).await?;
                if readers.iter().any(|reader| names.contains(reader)) {
                    Ok(Target::Document(uri))
                } else {
                    Err(ReferenceProblem::NotFound)
                }
            }
        })
    }

    /// Returns a record, if the caller may read it.
    async fn record(&self, caller: &Caller, uri: &str) -> Result<Option<Record>, CiteError> {
        match self.records.get(caller, uri).await {
            Ok(record) => Ok(Some(record)),
            // Documents of the store may have URIs that are not URIs of records.
            Err(
                RecordError::NotFound(_)
                | RecordError::Uri { .. }
                | RecordError::UnknownType { .. },
            ) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a chat with its messages, which a separate session may hold.
    async fn chat(&self, caller: &Caller, mut chat: Record) -> Result<CandidateKind, CiteError> {
        let session = chat.attributes.get("session").and_then(|session| session.as_str());
        if !chat.attributes.contains_key("messages")
            && let Some(session) = session.map(str::to_owned)
            && let Some(mut session) = self.record(caller, &session).await?
            && let Some(messages) = session.attributes.remove("messages")
        {
            chat.attributes.insert("messages".to_owned(), messages);
        }
        Ok(CandidateKind::Chat(Box::new(chat)))
    }

    /// Selects what is cited within the limits, and returns it with the number of omitted passages.
    ///
    /// Chats come first, because they have limits of their own. Then the references take turns,
    /// each with its best remaining passage, so that no reference takes all the room.
    fn select(
        &self,
        messages: &[String],
        candidates: Vec<Candidate>,
    ) -> (Vec<(Vec<String>, Cited)>, usize) {
        let mut visible = VisibleText::of_messages(messages, self.limits.max_known_bytes);
        let mut room = self.limits.max_bytes;
        let mut selected: Vec<(Vec<String>, Cited)> = Vec::new();
        let mut pending = Vec::new();
        for Candidate { references, kind } in candidates {
            let cited = match kind {
                CandidateKind::Chat(chat) => {
                    let (messages, omitted) = chat::newest(&chat, &self.limits, &mut visible, room);
                    room -= messages.iter().map(|message| message.content.len()).sum::<usize>();
                    Cited::Chat { name: chat.name, messages, omitted }
                }
                CandidateKind::Passages(passages) => {
                    pending.push((selected.len(), passages.into_iter()));
                    Cited::Passages(Vec::new())
                }
            };
            selected.push((references, cited));
        }
        let mut count = 0;
        let mut omitted = 0;
        // Each round takes one passage of each reference that has passages left.
        while !pending.is_empty() {
            pending.retain_mut(|(index, passages)| {
                let Some(passage) = passages.find(|passage| visible.is_new(passage)) else {
                    return false;
                };
                if count == self.limits.max_passages || passage.content.len() > room {
                    omitted += 1;
                } else if let Cited::Passages(cited) = &mut selected[*index].1 {
                    count += 1;
                    room -= passage.content.len();
                    cited.push(passage);
                }
                true
            });
        }
        selected.retain(|(_, cited)| match cited {
            Cited::Passages(passages) => !passages.is_empty(),
            Cited::Chat { messages, .. } => !messages.is_empty(),
        });
        (selected, omitted)
    }
}

/// Longest question in a block, in bytes. It is short because each block repeats the question,
/// which the message contains anyway.
const MAX_SHOWN_QUERY_BYTES: usize = 1_024;

const TAG: &str = "common.tag";
const CHAT: &str = "olio.llm.chatRequest";
const CHARACTER: &str = "olio.charPerson";

/// The targets of a request's references.
#[derive(Default)]
struct Targets<'a> {
    /// URIs of the tags, which are searched together.
    tags: BTreeSet<String>,
    /// The other targets, each with the reference that names it.
    others: Vec<(&'a str, Target)>,
    problems: Vec<(String, ReferenceProblem)>,
}

/// A document or record that the caller may read.
enum Target {
    Record(Box<Record>),
    /// A document of the store without a record, by its URI.
    Document(String),
}

impl Target {
    fn uri(&self) -> String {
        match self {
            Self::Record(record) => record.uri().unwrap_or_default(),
            Self::Document(uri) => uri.clone(),
        }
    }
}

/// Returns `am7://ORGANISATION/vector/citations/ABOUT`, the URI of the citations. No record has
/// such a URI.
fn block_uri(caller: &Caller, about: &str) -> String {
    // The caller's own URI has the organisation in the spelling of URIs.
    let organization = caller.user.split("/system.user/").next().unwrap_or("am7://default");
    let about: String = about
        .chars()
        .take(100)
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    format!("{organization}/vector/citations/{about}")
}

/// Returns a reference in a short form for reports.
fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(200)].to_owned()
}
