//! A folder and its index.

use std::{collections::BTreeMap, ffi::OsString, fs, path::PathBuf, sync::Arc};

use marquetry_rag::{
    Caller, ChunkStore, EmbeddingModel, FileOptions, Filter, Hit, IndexReport, Indexer,
    MemoryRecords, MemoryStore, Pipeline, Records, SearchRequest, StaticModel, file_record_uri,
    straighten_quotes,
};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) pipeline: Pipeline,
    pub(crate) records: Arc<Records>,
    pub(crate) me: Caller,
}

impl World {
    /// A folder with these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let store = Arc::new(MemoryStore::new(EmbeddingModel::default()));
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
            pipeline: Pipeline::new(store, Arc::new(StaticModel::built_in())).unwrap(),
            records: Arc::new(Records::new(Arc::new(MemoryRecords::default()))),
            me: Caller::new("default", "me").unwrap(),
        };
        for (name, text) in files {
            world.write(name, text);
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap();
        if name.is_empty() { path } else { path.join(name) }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn indexer(&self, options: FileOptions) -> Indexer {
        let records = Arc::clone(&self.records);
        let me = self.me.clone();
        Indexer::new(self.pipeline.clone(), records, me, options)
    }

    /// Indexes the whole folder.
    pub(crate) async fn index(&self, options: FileOptions) -> IndexReport {
        self.index_these(&[self.path("").into()], options).await
    }

    pub(crate) async fn index_these(
        &self,
        named: &[OsString],
        options: FileOptions,
    ) -> IndexReport {
        self.indexer(options).run(named, |_| ()).await.unwrap()
    }

    /// Returns the stored text of each file, by its path below the folder, and checks that its
    /// chunks are of that text.
    pub(crate) async fn kept(&self) -> BTreeMap<String, String> {
        let mut kept = BTreeMap::new();
        let store: &Arc<dyn ChunkStore> = self.pipeline.store();
        for document in store.documents(&Filter::default(), None, 1_000).await.unwrap() {
            let record = self.records.get(&self.me, &document.uri).await.unwrap();
            let content = self.records.content(&self.me, &document.uri).await.unwrap().unwrap();
            let text = String::from_utf8(content).unwrap();
            let chunks = store.chunks(&document.uri).await.unwrap();
            for (index, chunk) in (0..).zip(&chunks) {
                assert_eq!((chunk.index, chunk.count as usize), (index, chunks.len()));
                assert_eq!(chunk.content, straighten_quotes(&text[chunk.span.clone()]));
            }
            let path = record.attributes["path"].as_str().unwrap();
            let path = path.strip_prefix(self.path("").to_str().unwrap()).unwrap();
            kept.insert(path.trim_start_matches('/').to_owned(), text);
        }
        kept
    }

    /// The files that are kept.
    pub(crate) async fn names(&self) -> Vec<String> {
        self.kept().await.into_keys().collect()
    }

    pub(crate) async fn search(&self, question: &str) -> Vec<Hit> {
        self.pipeline.search(SearchRequest::new(question, None)).await.unwrap()
    }

    pub(crate) fn uri(&self, name: &str) -> String {
        file_record_uri(&self.me, self.path(name).as_os_str()).unwrap()
    }
}

/// Returns the failed and skipped files, with code and reason.
pub(crate) fn refused(report: &IndexReport) -> Vec<String> {
    let all = report.failures.iter().chain(&report.skips);
    let line = |refused: &marquetry_rag::Refused| {
        let name = refused.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name} {}: {}", refused.problem.code(), refused.problem)
    };
    let mut lines: Vec<String> = all.map(line).collect();
    lines.sort();
    lines
}
