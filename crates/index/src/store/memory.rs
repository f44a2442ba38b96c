//! A store in memory. Its content is lost when it is dropped.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use async_trait::async_trait;

use super::{ChunkStore, blocking};
use crate::{
    EmbeddingModel,
    ranking::{Analyzer, Entry, Found, Index, Language, Packed, Query, Row, Term, Word},
    types::{
        ChunkId, Document, Filter, Hit, Kind, NewChunk, SearchRequest, StoreError, StoredChunk,
        check_documents, check_request, label, labels,
    },
};

/// A store in memory. Its content is lost when it is dropped.
pub struct MemoryStore {
    model: EmbeddingModel,
    shared: Arc<Shared>,
}

struct Shared {
    analyzer: Mutex<Analyzer>,
    /// The number of each term. Numbers are never removed.
    terms: RwLock<HashMap<Box<str>, Term>>,
    state: RwLock<State>,
}

struct State {
    index: Index,
    /// The documents, by URI.
    documents: BTreeMap<String, StoredDocument>,
    /// The number of each present or former document.
    numbers: HashMap<String, u32>,
    /// The document of each number.
    uris: Vec<String>,
}

struct StoredDocument {
    document: Document,
    chunks: Vec<StoredChunk>,
}

impl MemoryStore {
    /// Returns an empty store for vectors of a model.
    pub fn new(model: EmbeddingModel) -> Self {
        let state = State {
            index: Index::new(model.dimension),
            documents: BTreeMap::new(),
            numbers: HashMap::new(),
            uris: Vec::new(),
        };
        let shared = Shared {
            analyzer: Mutex::default(),
            terms: RwLock::default(),
            state: RwLock::new(state),
        };
        Self { model, shared: Arc::new(shared) }
    }
}

#[async_trait]
impl ChunkStore for MemoryStore {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn replace_all(
        &self,
        documents: Vec<(Document, Vec<NewChunk>)>,
    ) -> Result<u64, StoreError> {
        check_documents(&self.model, &documents)?;
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let documents: Vec<_> = documents
                .into_iter()
                .map(|(document, chunks)| {
                    let rows = shared.rows(&document, &chunks);
                    (document, chunks, rows)
                })
                .collect();
            let mut state = shared.write();
            Ok(documents
                .into_iter()
                .map(|(document, chunks, rows)| state.put(document, chunks, &rows))
                .sum())
        })
        .await
    }

    async fn delete(&self, filter: &Filter) -> Result<u64, StoreError> {
        let mut state = self.shared.write();
        let gone = state.index.select(filter.scope_label(), filter.compile());
        let gone: Vec<u32> = gone.map(|(entry, _)| entry.number).collect();
        let mut chunks = 0;
        for number in gone {
            chunks += state.index.remove(number) as u64;
            let uri = state.uris[number as usize].clone();
            state.documents.remove(&uri);
        }
        Ok(chunks)
    }

    async fn document(&self, uri: &str) -> Result<Option<Document>, StoreError> {
        Ok(self.shared.read().documents.get(uri).map(|kept| kept.document.clone()))
    }

    async fn documents(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.shared.read();
        let documents = state.documents.range::<str, _>((from, Bound::Unbounded));
        let documents = documents.map(|(_, kept)| &kept.document);
        Ok(documents.filter(|document| filter.matches(document)).take(limit).cloned().collect())
    }

    async fn first_chunks(&self, uri: &str, limit: usize) -> Result<Vec<StoredChunk>, StoreError> {
        let state = self.shared.read();
        let chunks = state.documents.get(uri).map_or(&[][..], |kept| &kept.chunks);
        Ok(chunks[..limit.min(chunks.len())].to_vec())
    }

    async fn embedded(&self, uri: &str) -> Result<Vec<NewChunk>, StoreError> {
        let state = self.shared.read();
        let Some(kept) = state.documents.get(uri) else { return Ok(Vec::new()) };
        let vectors = state.index.vectors(state.numbers[uri]);
        let chunks = kept.chunks.iter().cloned().zip(vectors);
        Ok(chunks.map(|(chunk, vector)| NewChunk::again(chunk, vector)).collect())
    }

    async fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError> {
        let state = self.shared.read();
        let kept = state.uris.get(id.document as usize).and_then(|uri| state.documents.get(uri));
        let chunk = |kept: &StoredDocument| kept.chunks.get(id.index as usize).cloned();
        Ok(kept.and_then(|kept| Some((kept.document.clone(), chunk(kept)?))))
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let state = self.shared.read();
        let counts = state.index.select(filter.scope_label(), filter.compile());
        Ok(counts.map(|(_, rows)| u64::from(rows)).sum())
    }

    async fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, StoreError> {
        check_request(request, &self.model)?;
        let (shared, request) = (Arc::clone(&self.shared), request.clone());
        let model = self.model.clone();
        blocking(move || {
            let words = {
                let numbers = shared.terms.read().unwrap_or_else(PoisonError::into_inner);
                let number = |term: &str| Ok::<_, Infallible>(numbers.get(term).copied());
                let has = |term: &str| Ok::<_, Infallible>(numbers.contains_key(term));
                let Ok(languages) = Language::of_store(has);
                let most = SearchRequest::MAX_TERMS;
                let asked = Analyzer::default().question(&request.text, most, &languages);
                let Ok(words) = Word::all(&asked, number);
                words
            };
            let state = shared.read();
            let found = state.index.search(&Query::new(&request, &words, &model));
            let hit = |found: Found| {
                let kept = &state.documents[&state.uris[found.document as usize]];
                let chunk = kept.chunks[found.index as usize].clone();
                found.into_hit(&request, &kept.document, chunk)
            };
            Ok(found.into_iter().map(hit).collect())
        })
        .await
    }
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows(&self, document: &Document, chunks: &[NewChunk]) -> Vec<Row> {
        let number = |term: &str| {
            let known =
                self.terms.read().unwrap_or_else(PoisonError::into_inner).get(term).copied();
            Ok::<_, Infallible>(known.unwrap_or_else(|| {
                let mut terms = self.terms.write().unwrap_or_else(PoisonError::into_inner);
                let next = terms.len() as Term;
                *terms.entry(term.into()).or_insert(next)
            }))
        };
        let mut analyzer = self.analyzer.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(counted) = analyzer.rows(document, chunks, number);
        let rows = chunks.iter().zip(counted);
        rows.map(|(chunk, (terms, length))| Row {
            vector: Packed::new(&chunk.vector),
            terms,
            length,
        })
        .collect()
    }
}

impl State {
    /// Replaces a document, and returns the number of its chunks.
    fn put(&mut self, document: Document, chunks: Vec<NewChunk>, rows: &[Row]) -> u64 {
        let next = self.uris.len() as u32;
        let number = *self.numbers.entry(document.uri.clone()).or_insert_with(|| {
            self.uris.push(document.uri.clone());
            next
        });
        let uri = label(Kind::Uri, &[&document.uri]);
        let entry = Entry { number, uri, labels: labels(&document) };
        let mut adding = self.index.add(entry);
        for row in rows {
            adding.row(row.as_ref());
        }
        let count = chunks.len() as u32;
        let chunks = (0..count).zip(chunks).map(|(index, chunk)| {
            let NewChunk { content, span, page, page_starts, chapter, headings, .. } = chunk;
            let id = ChunkId { document: number, index };
            let document = document.uri.clone();
            StoredChunk {
                id,
                document,
                content,
                span,
                page,
                page_starts,
                chapter,
                headings,
                index,
                count,
            }
        });
        let chunks = chunks.collect();
        self.documents.insert(document.uri.clone(), StoredDocument { document, chunks });
        u64::from(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_conforms() {
        for dimension in [64, 384] {
            conformance::check(async || MemoryStore::new(EmbeddingModel::new("test", dimension)))
                .await;
        }
    }
}
