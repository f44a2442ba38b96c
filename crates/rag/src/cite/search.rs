//! Searches passages for one caller and one question.

use std::collections::BTreeMap;

use marquetry_context_blocks::Am7Uri;
use marquetry_index::{Document, Filter, Hit, SearchRequest};
use marquetry_records::{Caller, Record, RecordError};
use tokio::sync::Mutex;

use super::{CitationResolver, CiteError, Passage, block::Source};
use crate::record_document::is_current;

/// The question with its vector, which is computed once.
pub(super) struct EmbeddedQuestion {
    text: String,
    vector: Option<Vec<f32>>,
}

/// The searches for one caller and one question.
pub(super) struct Search<'a> {
    resolver: &'a CitationResolver,
    caller: &'a Caller,
    /// The question; `None` if it is blank.
    question: Option<EmbeddedQuestion>,
    /// The names by which documents list the caller among their readers.
    readers: Vec<String>,
    /// For each checked document, whether the caller may read it.
    readable: Mutex<BTreeMap<String, bool>>,
}

impl<'a> Search<'a> {
    pub(super) async fn begin(
        resolver: &'a CitationResolver,
        caller: &'a Caller,
        query: &str,
    ) -> Result<Self, CiteError> {
        let text = &query[..query.floor_char_boundary(resolver.limits.max_query_bytes)];
        let question = if text.trim().is_empty() {
            None
        } else {
            let text = text.to_owned();
            let vector = resolver.pipeline.embedder().embed_query(&text).await?;
            Some(EmbeddedQuestion { text, vector: Some(vector) })
        };
        let readers = resolver.records.principals(caller).await?.into_iter().collect();
        Ok(Self { resolver, caller, question, readers, readable: Mutex::default() })
    }

    /// Returns chunks with all of the tags, of documents and of chats.
    pub(super) async fn tags(&self, tags: &[String]) -> Result<Vec<Passage>, CiteError> {
        let mut filter = Filter::default();
        filter.tags = tags.to_vec();
        filter.vector_models =
            [Document::VECTOR_MODEL, Document::CHAT_HISTORY].map(str::to_owned).into();
        self.passages(filter).await
    }

    /// Returns chunks of chats in which a character took part, and of the character.
    pub(super) async fn character(
        &self,
        uri: &str,
        record: &Record,
    ) -> Result<Vec<Passage>, CiteError> {
        let mut passages = Vec::new();
        for role in ["systemCharacterUri", "userCharacterUri"] {
            let mut filter = Filter::default().metadata(role, uri);
            filter.vector_models = vec![Document::CHAT_HISTORY.to_owned()];
            passages.extend(self.passages(filter).await?);
        }
        passages.extend(self.record(uri, record).await?);
        Ok(self.best(passages))
    }

    /// Returns chunks of a record, and of the note with its summary.
    pub(super) async fn general(
        &self,
        uri: &str,
        record: &Record,
    ) -> Result<Vec<Passage>, CiteError> {
        let mut passages = Vec::new();
        for summary in self.summaries(record).await? {
            if let Some(uri) = summary.uri() {
                passages.extend(self.record(&uri, &summary).await?);
            }
        }
        // Passages of the document itself come first if both are equally relevant.
        let mut all = self.record(uri, record).await?;
        all.append(&mut passages);
        Ok(self.best(all))
    }

    /// Returns chunks of a document without a record.
    pub(super) async fn document(&self, uri: &str) -> Result<Vec<Passage>, CiteError> {
        self.passages(Filter::scope(uri)).await
    }

    /// Returns the notes `~/Notes/Summaries/NAME - Summary` of the caller and of the record's
    /// owner.
    async fn summaries(&self, record: &Record) -> Result<Vec<Record>, CiteError> {
        if record.name.is_empty() {
            return Ok(Vec::new());
        }
        let mut homes = vec!["~".to_owned()];
        if let Some(owner) = record.owner.as_ref().filter(|owner| **owner != self.caller.user)
            && let Ok(owner) = Am7Uri::parse(owner)
            && let Some(id) = owner.id()
        {
            homes.push(format!("~{id}"));
        }
        let name = format!("{} - Summary", record.name);
        let mut notes = Vec::new();
        for home in homes {
            let path = format!("{home}/Notes/Summaries");
            let found = match self.resolver.records.find(self.caller, &path, &name).await {
                Ok(found) => found,
                // No note can have this name.
                Err(RecordError::Invalid { .. } | RecordError::Limit { .. }) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            notes.extend(found.into_iter().filter(|note| note.kind == "data.note").take(1));
        }
        Ok(notes)
    }

    /// Returns the chunks of one record that the caller may read; if it has none, the beginning of
    /// its text.
    async fn record(&self, uri: &str, record: &Record) -> Result<Vec<Passage>, CiteError> {
        let passages = self.passages(Filter::scope(uri)).await?;
        if !passages.is_empty() {
            return Ok(passages);
        }
        let source = Source { kind: Some(record.kind.clone()), title: Some(record.name.clone()) };
        let max_bytes = self.resolver.limits.max_passage_bytes;
        Ok(record
            .text()
            .filter(|text| !text.trim().is_empty())
            .map(|text| Passage::of_text(uri.to_owned(), text, source, max_bytes))
            .into_iter()
            .collect())
    }

    /// Returns passages of documents that have the caller among their readers.
    async fn passages(&self, mut filter: Filter) -> Result<Vec<Passage>, CiteError> {
        filter.readers = Some(self.readers.clone());
        match &self.question {
            Some(question) => self.answers(question, filter).await,
            None => self.beginnings(filter).await,
        }
    }

    /// Returns the best passages for the question.
    async fn answers(
        &self,
        question: &EmbeddedQuestion,
        filter: Filter,
    ) -> Result<Vec<Passage>, CiteError> {
        let limits = &self.resolver.limits;
        let mut request = SearchRequest::new(question.text.clone(), question.vector.clone());
        request.filter = filter;
        request.limit = limits.max_passages_per_reference.min(SearchRequest::MAX_LIMIT);
        let hits: Vec<Hit> = self.resolver.pipeline.search(request).await?;
        let mut passages = Vec::new();
        for hit in hits {
            if self.may_read(&hit.chunk.document).await? {
                passages.push(Passage::of_hit(hit, limits.max_passage_bytes));
            }
        }
        Ok(passages)
    }

    /// Returns the first chunks of the documents, if there is no question.
    async fn beginnings(&self, filter: Filter) -> Result<Vec<Passage>, CiteError> {
        let limits = &self.resolver.limits;
        let store = self.resolver.pipeline.store();
        let max = limits.max_passages_per_reference;
        let mut passages = Vec::new();
        for document in store.documents(&filter, None, max).await? {
            if !self.may_read(&document.uri).await? {
                continue;
            }
            let left = max - passages.len();
            if left == 0 {
                break;
            }
            for chunk in store.first_chunks(&document.uri, left).await? {
                let source = Source { kind: document.kind.clone(), title: document.title.clone() };
                passages.push(Passage::of_chunk(chunk, source, limits.max_passage_bytes));
            }
        }
        Ok(passages)
    }

    /// Returns whether the caller can read the record of a document now, and the document is up to
    /// date: chunks may be older than the record's permissions and text. Without a record, the
    /// readers of the document decide; the search compared only their hashes, so the names are
    /// compared here.
    async fn may_read(&self, uri: &str) -> Result<bool, CiteError> {
        if let Some(known) = self.readable.lock().await.get(uri) {
            return Ok(*known);
        }
        let document = self.resolver.pipeline.store().document(uri).await?;
        let may = match document {
            Some(document) if !self.readers.iter().any(|name| document.readers.contains(name)) => {
                false
            }
            Some(document) if uri.starts_with("am7:") => {
                let record = self.resolver.record(self.caller, uri).await?;
                record.is_some_and(|record| is_current(&document, &record))
            }
            document => document.is_some(),
        };
        self.readable.lock().await.insert(uri.to_owned(), may);
        Ok(may)
    }

    /// Returns the best passages of several searches; without a question their order stays.
    fn best(&self, mut passages: Vec<Passage>) -> Vec<Passage> {
        // Texts without chunks were not searched. They come after passages that were found.
        passages.sort_by(|left, right| {
            right.score.unwrap_or_default().total_cmp(&left.score.unwrap_or_default())
        });
        passages.dedup_by(|left, right| {
            left.uri == right.uri && left.offsets == right.offsets && left.content == right.content
        });
        passages.truncate(self.resolver.limits.max_passages_per_reference);
        passages
    }
}
