//! Searches: passages that a caller may read.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use futures_util::{StreamExt as _, TryStreamExt as _};
use marquetry_context_blocks::Am7Uri;
use marquetry_rag::{ChunkId, Document, Hit, RecordError, RecordFilter, SearchRequest};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access::Access,
    failure::{ErrorCode, Failure},
    kinds::CHUNK,
    knowledge::Knowledge,
};

/// A search for passages.
#[derive(Clone, Debug, Default)]
pub struct PassageQuery {
    /// A question, or a few words.
    pub text: String,
    /// The URI of a record: only its passages are searched.
    pub scope: Option<String>,
    /// Types of records. Empty: all types.
    pub types: Vec<String>,
    /// Kinds of documents, such as `common.vectorModelStore`. Empty: all kinds.
    pub vector_models: Vec<String>,
    /// URIs or names of tags. A record must have all of them.
    pub tags: Vec<String>,
    /// Maximum passages; by default [`Self::LIMIT`], at most [`Self::MAX_LIMIT`].
    pub limit: Option<usize>,
    /// Minimum relevance, from 0 to 1.
    pub threshold: Option<f64>,
    /// Whether only the best passage of each record is returned.
    pub distinct: bool,
}

impl PassageQuery {
    /// Number of passages by default; seed 003, part 5.
    pub const LIMIT: usize = 10;
    /// Maximum passages of one search.
    pub const MAX_LIMIT: usize = 100;
}

/// A passage that was found. Best first, by both words and meaning.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Passage {
    /// URI of the passage.
    pub uri: String,
    /// Text of the passage.
    pub text: String,
    /// Score and source.
    #[serde(flatten)]
    pub details: PassageDetails,
}

/// The score of a passage, and its source.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassageDetails {
    /// Above 0, higher is better. Comparable only within one search; relevance is comparable
    /// between searches.
    pub score: f64,
    /// Relevance of the passage by itself, from 0 to 1.
    pub relevance: f64,
    /// Rank by meaning, from 1; absent if it is not among the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semantic_rank: Option<u32>,
    /// Rank by words, from 1; absent if it is not among the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyword_rank: Option<u32>,
    /// Index in its source, from 0.
    pub chunk: u32,
    /// Number of passages of its source.
    pub chunk_count: u32,
    /// URI of its source; cite this.
    pub source_uri: String,
    /// Type of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// Title of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_title: Option<String>,
    /// File of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_file: Option<String>,
    /// Page of the matching words, from 1; if none match, on which it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// Number of its chapter, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chapter: Option<usize>,
    /// Title of its chapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chapter_title: Option<String>,
    /// Start in the text of its source, in bytes.
    pub start: usize,
    /// End in the text of its source, in bytes.
    pub end: usize,
}

/// A passage of a document, with the text that is stored now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredPassage {
    /// URI of the document.
    pub uri: String,
    /// The text.
    pub content: String,
}

/// The position of a passage in the text of its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassagePosition {
    /// URI of the document.
    pub(crate) document: String,
    /// Bytes of the text.
    pub(crate) span: Range<usize>,
}

impl Access {
    /// Finds passages that the caller may read.
    ///
    /// Passages of records that are gone or have another text by now are never returned; the search
    /// removes or renews them.
    ///
    /// # Errors
    ///
    /// Returns an error if the query is not valid, or if the database or the embedding model fails.
    pub async fn search(&self, query: &PassageQuery) -> Result<Vec<Passage>, Failure> {
        let Some(request) = self.request(query).await? else { return Ok(Vec::new()) };
        let hits = self.hits(&request).await?;
        let mut files = BTreeMap::new();
        for hit in &hits {
            let uri = &hit.chunk.document;
            if !files.contains_key(uri) {
                let document = self.knowledge.pipeline.store().document(uri).await?;
                let file =
                    document.and_then(|it| Some(it.metadata.get("source")?.as_str()?.into()));
                files.insert(uri.clone(), file);
            }
        }
        let passages = hits.into_iter().map(|hit| {
            let file = files.get(&hit.chunk.document).cloned().flatten();
            self.passage(hit, file)
        });
        Ok(passages.collect())
    }

    /// Searches as [`Self::search`] does, with a request of the crate `marquetry-rag`. Its filter
    /// must have the caller's principals as readers.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or the embedding model fails.
    pub async fn hits(&self, request: &SearchRequest) -> Result<Vec<Hit>, Failure> {
        let readers = request.filter.readers.iter().flatten().cloned().collect();
        let mut hits = Vec::new();
        for _ in 0..2 {
            let found = self.knowledge.pipeline.search(request.clone()).await?;
            let count = found.len();
            hits = self.true_ones(found, &readers).await?;
            if hits.len() == count {
                break;
            }
        }
        Ok(hits)
    }

    async fn request(&self, query: &PassageQuery) -> Result<Option<SearchRequest>, Failure> {
        let Self { knowledge, caller, .. } = self;
        if query.text.trim().is_empty() {
            return Err(Failure::invalid("query is required and cannot be empty"));
        }
        let mut request = SearchRequest::new(&query.text, None);
        if let Some(scope) = &query.scope {
            request.filter.scope = Some(self.scope(scope).await?);
        }
        for tag in &query.tags {
            match knowledge.records.tag(caller, tag).await {
                Ok(tag) => request.filter.tags.extend(tag.uri()),
                // No record has an unknown tag.
                Err(RecordError::UnknownTag(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        request.filter.types.clone_from(&query.types);
        request.filter.vector_models.clone_from(&query.vector_models);
        let readers = knowledge.records.principals(caller).await?;
        request.filter.readers = Some(readers.into_iter().collect());
        request.limit = query.limit.unwrap_or(PassageQuery::LIMIT).min(PassageQuery::MAX_LIMIT);
        request.threshold = query.threshold.unwrap_or(0.0);
        request.distinct = query.distinct;
        Ok(Some(request))
    }

    /// Returns the document for the scope of a query, of a record that the caller may read.
    async fn scope(&self, uri: &str) -> Result<String, Failure> {
        let record = self.knowledge.records.get(&self.caller, uri).await?;
        Ok(record.uri().unwrap_or_default())
    }

    /// Returns the hits whose records exist, are readable and still have the text. Updates the
    /// index for the others.
    async fn true_ones(
        &self,
        mut hits: Vec<Hit>,
        readers: &BTreeSet<String>,
    ) -> Result<Vec<Hit>, Failure> {
        /// Hits that are checked at the same time; each reads from the database.
        const AT_ONCE: usize = 4;
        let uris: BTreeMap<String, bool> =
            hits.iter().map(|hit| (hit.chunk.document.clone(), hit.object_id.is_some())).collect();
        let checks = uris.into_iter().map(|(uri, is_record)| async move {
            let is_true = if is_record {
                self.is_true(&uri).await?
            } else {
                self.names_one(&uri, readers).await?
            };
            Ok::<_, Failure>(is_true.then_some(uri))
        });
        let checks = futures_util::stream::iter(checks).buffer_unordered(AT_ONCE);
        let true_ones: BTreeSet<Option<String>> = checks.try_collect().await?;
        hits.retain(|hit| true_ones.contains(&Some(hit.chunk.document.clone())));
        Ok(hits)
    }

    /// Returns whether the caller may see the passages of a document now.
    pub(crate) async fn may_see(&self, document: &Document) -> Result<bool, Failure> {
        if document.object_id.is_some() {
            self.is_true(&document.uri).await
        } else {
            let principals = self.knowledge.records.principals(&self.caller).await?;
            Ok(!document.readers.is_disjoint(&principals))
        }
    }

    /// Returns whether one of these readers may read a document without a record. The search
    /// compared only hashes of readers.
    async fn names_one(&self, uri: &str, readers: &BTreeSet<String>) -> Result<bool, Failure> {
        let document = self.knowledge.pipeline.store().document(uri).await?;
        Ok(document.is_some_and(|it| !it.readers.is_disjoint(readers)))
    }

    /// Returns whether the document of a record has the record's text, and the caller may read it.
    async fn is_true(&self, uri: &str) -> Result<bool, Failure> {
        let Self { knowledge, caller, .. } = self;
        let Some(record) = knowledge.records.store().get(uri).await? else {
            if !knowledge.is_read_only {
                left_out(uri, knowledge.remove_from_index(uri).await);
            }
            return Ok(false);
        };
        if !knowledge.records.may_read(caller, &record).await? {
            return Ok(false);
        }
        let document = knowledge.document_of(&record).await?;
        let Some(document) = document else { return Ok(false) };
        if Knowledge::is_stale(&document, &record) {
            tracing::debug!(uri, "rebuilding the passages of a record");
            if !knowledge.is_read_only {
                left_out(uri, knowledge.renew(&record).await);
            }
            return Ok(false);
        }
        Ok(true)
    }

    fn passage(&self, hit: Hit, source_file: Option<String>) -> Passage {
        let mut chunk = hit.chunk;
        let uri = self.knowledge.chunk_uri(chunk.id);
        // A document that was indexed before passages had a limit.
        let max = self.knowledge.job.max_passage_bytes().get();
        if chunk.content.len() > max {
            let bytes = chunk.content.len();
            chunk.content.truncate(chunk.content.floor_char_boundary(max));
            chunk
                .content
                .push_str(&format!("… (cut; resources/read of {uri} gives all {bytes} bytes)"));
        }
        Passage {
            uri,
            text: chunk.content,
            details: PassageDetails {
                score: hit.score,
                relevance: hit.relevance,
                semantic_rank: hit.semantic_rank,
                keyword_rank: hit.keyword_rank,
                chunk: chunk.index,
                chunk_count: chunk.count,
                source_uri: chunk.document,
                source_type: hit.kind,
                source_title: hit.title,
                source_file,
                page: hit.page,
                chapter: chunk.chapter.as_ref().map(|chapter| chapter.number),
                chapter_title: chunk.chapter.map(|chapter| chapter.title),
                start: chunk.span.start,
                end: chunk.span.end,
            },
        }
    }

    /// Returns where a passage is, by its URI, if the caller may read its document; `None` if the
    /// URI names no passage.
    pub(crate) async fn passage_position(
        &self,
        uri: &str,
    ) -> Result<Option<PassagePosition>, Failure> {
        let Ok(parsed) = Am7Uri::parse(uri) else { return Ok(None) };
        if parsed.object_type() != Some(CHUNK) || parsed.is_media() {
            return Ok(None);
        }
        let missing = || Failure::new(ErrorCode::NotFound, format!("no passage {uri}"));
        let id: ChunkId = parsed.id().unwrap_or_default().parse().map_err(|_| missing())?;
        let found = self.knowledge.pipeline.store().chunk(id).await?;
        let (document, chunk) = found.ok_or_else(missing)?;
        if !self.may_see(&document).await? {
            return Err(missing());
        }
        Ok(Some(PassagePosition { document: chunk.document, span: chunk.span }))
    }

    /// Returns a passage of a document by its index, if the caller may read the document now.
    ///
    /// # Errors
    ///
    /// Returns an error if the document or the passage does not exist, or if the caller may not
    /// read the document.
    pub async fn cited_passage(&self, uri: &str, chunk: u32) -> Result<StoredPassage, Failure> {
        let store = self.knowledge.pipeline.store();
        let document = store.document(uri).await?.ok_or_else(|| no_passage(uri, chunk))?;
        if !self.may_see(&document).await? {
            return Err(no_passage(uri, chunk));
        }
        let chunks = store.chunks(uri).await?;
        let found = chunks
            .into_iter()
            .find(|stored| stored.index == chunk)
            .ok_or_else(|| no_passage(uri, chunk))?;
        Ok(StoredPassage { uri: found.document, content: found.content })
    }

    /// Returns the number of chunks of a record.
    pub(crate) async fn chunk_count(&self, uri: &str) -> Result<u64, Failure> {
        let filter = marquetry_rag::Filter::scope(uri);
        Ok(self.knowledge.pipeline.store().count(&filter).await?)
    }

    /// Returns a filter for all records of the organisation.
    pub(crate) fn filter(&self) -> RecordFilter {
        RecordFilter::new(&self.knowledge.organization)
    }
}

fn no_passage(uri: &str, chunk: u32) -> Failure {
    let uri = &uri[..uri.floor_char_boundary(200)];
    let message = format!("passage {chunk} of {uri} does not exist, or you may not read it");
    Failure::new(ErrorCode::NotFound, message)
}

/// Logs a document that cannot be updated: one document must not make the whole search fail.
fn left_out<T>(uri: &str, done: Result<T, Failure>) {
    if let Err(failure) = done {
        tracing::warn!(uri, %failure, "failed to update the passages of a record; searches leave it out");
    }
}

impl Knowledge {
    /// Returns the URI of a passage.
    pub(crate) fn chunk_uri(&self, id: ChunkId) -> String {
        let builder = Am7Uri::builder().organization(&self.organization).object_type(CHUNK);
        builder.id(id.to_string()).build().map(|uri| uri.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use marquetry_rag::{
        ChunkOptions, EmbedError, Embedder, EmbeddingModel, NewRecord, Pipeline, RecordPatch,
        StaticModel,
    };

    use super::*;
    use crate::{
        config::KnowledgeConfig, failure::ErrorCode, options::KnowledgeOptions, text::text_of,
        vectorize::Chunking, work::Job,
    };

    /// The built-in model, which fails for texts that contain "poison".
    struct Picky(&'static StaticModel);

    const POISON: &str = "poison";

    #[async_trait::async_trait]
    impl Embedder for Picky {
        fn model(&self) -> &EmbeddingModel {
            Embedder::model(&self.0)
        }

        async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
            let mut vectors = Embedder::embed(&self.0, texts).await?;
            vectors.truncate(texts.iter().take_while(|text| !text.contains(POISON)).count());
            Ok(vectors)
        }

        fn count_tokens(&self, text: &str) -> usize {
            Embedder::count_tokens(&self.0, text)
        }
    }

    /// A model that never returns.
    struct Slow(&'static StaticModel);

    #[async_trait::async_trait]
    impl Embedder for Slow {
        fn model(&self) -> &EmbeddingModel {
            Embedder::model(&self.0)
        }

        async fn embed(&self, _texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
            std::future::pending().await
        }

        fn count_tokens(&self, text: &str) -> usize {
            Embedder::count_tokens(&self.0, text)
        }
    }

    async fn access() -> Access {
        let mut knowledge = Knowledge::in_memory(&KnowledgeOptions::in_memory()).unwrap();
        let store = knowledge.pipeline.store().clone();
        let embedder = Arc::new(Picky(StaticModel::built_in()));
        knowledge.pipeline = Pipeline::new(store, embedder).unwrap();
        let caller = knowledge.local().await.unwrap();
        Access::new(knowledge, caller)
    }

    impl Access {
        async fn note(&self, text: &str) -> String {
            let new = NewRecord::new("data.note", "note").attribute("text", text);
            let record = self.knowledge.records.create(&self.caller, new).await.unwrap();
            let extracted =
                text_of(&Job::new(&Default::default(), "local"), &record, None).await.unwrap();
            self.knowledge.vectorize(&record, extracted, Default::default()).await.unwrap();
            record.uri().unwrap()
        }

        async fn found(&self, text: &str) -> Vec<String> {
            let query = PassageQuery { text: text.to_owned(), ..PassageQuery::default() };
            let passages = self.search(&query).await.unwrap();
            passages.into_iter().map(|passage| passage.text).collect()
        }
    }

    #[tokio::test]
    async fn a_process_that_died_after_a_record_changed_leaves_no_old_passage() {
        let access = access().await;
        let uri = access.note("The mill grinds wheat.").await;
        assert_eq!(access.found("wheat").await, ["The mill grinds wheat."]);
        // As if the process had died at this point.
        let patch = RecordPatch::new().attribute("text", "The mill grinds rye.");
        access.knowledge.records.update(&access.caller, &uri, patch).await.unwrap();
        assert_eq!(access.found("wheat").await, ["The mill grinds rye."]);
        assert_eq!(access.found("rye").await, ["The mill grinds rye."]);
    }

    #[tokio::test]
    async fn a_process_that_died_after_a_record_was_removed_leaves_no_passage() {
        let access = access().await;
        let uri = access.note("The mill grinds wheat.").await;
        access.note("The bakery opens at six.").await;
        access.knowledge.records.delete(&access.caller, &uri, None).await.unwrap();
        assert_eq!(access.found("mill").await, ["The bakery opens at six."]);
        assert_eq!(access.chunk_count(&uri).await.unwrap(), 0, "nothing is left of it");
    }

    #[tokio::test]
    async fn a_change_of_labels_does_not_make_old_passages_pass_for_new() {
        let access = access().await;
        let uri = access.note("The mill grinds wheat.").await;
        // As if a process had died after this call.
        let patch = RecordPatch::new().attribute("text", "The mill grinds rye.");
        access.knowledge.records.update(&access.caller, &uri, patch).await.unwrap();
        access.update(&uri, RecordPatch::new().name("mill")).await.unwrap();
        assert_eq!(access.found("wheat").await, ["The mill grinds rye."]);
    }

    #[tokio::test]
    async fn a_document_that_cannot_be_rebuilt_is_left_out_of_searches() {
        let alice = access().await;
        alice.note("The bakery opens at six.").await;
        let knowledge = alice.knowledge.clone();
        let caller = knowledge.user("eve", "eve", &BTreeSet::new()).await.unwrap();
        let eve = Access::new(knowledge, caller);
        let mut new = NewRecord::new("data.data", "mill");
        new = new.content("text/plain", "The mill grinds wheat.");
        new.readers.insert(alice.caller.user.clone());
        let record = eve.create(new).await.unwrap();
        let uri = record.uri().unwrap();
        let content = eve.knowledge.records.content(&eve.caller, &uri).await.unwrap();
        let extracted =
            text_of(&Job::new(&Default::default(), "local"), &record, content).await.unwrap();
        eve.knowledge.vectorize(&record, extracted, Default::default()).await.unwrap();
        assert_eq!(alice.found("wheat").await.len(), 2);
        let mut patch = RecordPatch::new();
        Access::with_text(&mut patch, &record, format!("The mill grinds {POISON}."));
        eve.change(&uri, patch).await.unwrap();
        let record = eve.knowledge.records.get(&eve.caller, &uri).await.unwrap();
        eve.knowledge.renew(&record).await.unwrap_err();
        assert_eq!(alice.found("wheat").await, ["The bakery opens at six."]);
    }

    #[tokio::test]
    async fn text_that_cannot_be_cut_as_before_is_cut_by_default() {
        let access = access().await;
        let new = NewRecord::new("data.note", "note").attribute("text", "The mill grinds wheat.");
        let record = access.create(new).await.unwrap();
        let extracted =
            text_of(&Job::new(&Default::default(), "local"), &record, None).await.unwrap();
        let chunking = Chunking { size: Some(100), overlap: Some(99), ..Default::default() };
        let options = chunking.options(ChunkOptions::default().max_bytes).unwrap();
        access.knowledge.vectorize(&record, extracted, options).await.unwrap();
        let uri = record.uri().unwrap();
        let long: String = (0..2_000).map(|it| format!("Mill {it} grinds rye. ")).collect();
        let patch = RecordPatch::new().attribute("text", long);
        access.change(&uri, patch).await.unwrap();
        assert_eq!(access.found("rye").await.len(), PassageQuery::LIMIT);
        assert_eq!(access.chunk_count(&uri).await.unwrap(), 400);
    }

    #[tokio::test]
    async fn rebuilt_passages_are_within_the_limits() {
        let mut access = access().await;
        // Cut without a limit of tokens.
        let uri = access.note("The mill grinds wheat.").await;
        let sentence = "mill ".repeat(2_000);
        let patch = RecordPatch::new().attribute("text", sentence.clone());
        access.update(&uri, patch).await.unwrap();
        let by_tokens = access.chunk_count(&uri).await.unwrap();
        assert!(by_tokens >= 4, "{by_tokens}");
        let config = KnowledgeConfig {
            max_passage_bytes: 200.try_into().unwrap(),
            ..KnowledgeConfig::default()
        };
        access.knowledge.job = Job::new(&config, "local");
        let patch = RecordPatch::new().attribute("text", sentence + "wheat");
        access.update(&uri, patch).await.unwrap();
        let by_bytes = access.chunk_count(&uri).await.unwrap();
        assert!(by_bytes >= 50, "{by_bytes}");
    }

    #[tokio::test]
    async fn a_new_title_is_embedded_within_the_time_for_embedding() {
        let mut access = access().await;
        let uri = access.note("The mill grinds wheat.").await;
        let config =
            KnowledgeConfig { max_embed_ms: 1.try_into().unwrap(), ..KnowledgeConfig::default() };
        access.knowledge.job = Job::new(&config, "local");
        access.knowledge.pipeline = {
            let store = access.knowledge.pipeline.store().clone();
            Pipeline::new(store, Arc::new(Slow(StaticModel::built_in()))).unwrap()
        };
        let failed = access.update(&uri, RecordPatch::new().name("mill")).await.unwrap_err();
        assert_eq!(failed.code, ErrorCode::LimitExceeded, "{failed}");
        assert!(failed.message.contains("knowledge.max_embed_ms (1)"), "{failed}");
    }

    #[tokio::test]
    async fn unchanged_text_keeps_the_hash_of_its_file() {
        let access = access().await;
        let uri = access.note("The mill grinds wheat.").await;
        let store = access.knowledge.pipeline.store().clone();
        let mut document = store.document(&uri).await.unwrap().unwrap();
        document.content_hash = Some("of a file".to_owned());
        document.title = Some("Mills".to_owned());
        store.replace(document, store.embedded(&uri).await.unwrap()).await.unwrap();
        // As `index` does before it stores the chunks.
        let patch = RecordPatch::new().attribute("text", "The mill grinds wheat.");
        access.change(&uri, patch).await.unwrap();
        assert_eq!(access.found("wheat").await, ["The mill grinds wheat."]);
        let document = store.document(&uri).await.unwrap().unwrap();
        assert_eq!(document.content_hash.as_deref(), Some("of a file"));
        assert_eq!(document.title.as_deref(), Some("Mills"));
        let patch = RecordPatch::new().attribute("text", "The mill grinds rye.");
        access.change(&uri, patch).await.unwrap();
        assert_eq!(access.found("rye").await, ["The mill grinds rye."]);
        assert_eq!(store.document(&uri).await.unwrap().unwrap().content_hash, None);
    }

    #[tokio::test]
    async fn callers_without_access_do_not_trigger_a_rebuild() {
        let access = access().await;
        let uri = access.note("The mill grinds wheat.").await;
        let patch = RecordPatch::new().attribute("text", "The mill grinds rye.");
        let record = access.change(&uri, patch).await.unwrap();
        let knowledge = access.knowledge.clone();
        let document = knowledge.document_of(&record).await.unwrap().unwrap();
        let caller = knowledge.user("eve", "eve", &BTreeSet::new()).await.unwrap();
        let eve = Access::new(knowledge.clone(), caller);
        assert!(!eve.may_see(&document).await.unwrap());
        let document = knowledge.document_of(&record).await.unwrap().unwrap();
        assert!(Knowledge::is_stale(&document, &record));
    }

    #[tokio::test]
    async fn changed_labels_keep_the_passages() {
        let access = access().await;
        let uri = access.note("The mill grinds wheat.").await;
        let record = access.update(&uri, RecordPatch::new().name("mill")).await.unwrap();
        let document = access.knowledge.document_of(&record).await.unwrap().unwrap();
        assert_eq!(document.title.as_deref(), Some("mill"));
        assert!(!Knowledge::is_stale(&document, &record));
        assert_eq!(access.found("wheat").await, ["The mill grinds wheat."]);
    }
}
