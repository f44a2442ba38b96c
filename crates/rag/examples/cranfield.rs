//! Retrieval quality on collections in BEIR's layout: by words, by the built-in model, and by both.
//!
//! `cargo run --release -p marquetry-rag --example cranfield -- FOLDER [FOLDER…] [NAME=FILE…]`,
//! where each folder has `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`. Each document is one
//! chunk; with `--passages` it is cut into passages of five sentences, and the best passage of each
//! document counts. `--brief` measures the defaults alone. A file has what another program has
//! found, as `rankings` by the ids of the questions; `… cranfield -- FOLDER --export OUT` writes
//! documents, questions and their vectors for it. With the feature `transformer` and `--model
//! FOLDER`, which may be said several times, the sentence transformer in that folder is measured as
//! well; `crates/rag/tests/embedding/install` gets one. With the feature `postgres` and a URL
//! `postgres://…` as a further argument, it is the store in that database that is asked, by words
//! and the built-in model.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    sync::Arc,
    time::Instant,
};

use marquetry_rag::{
    ChunkOptions, ChunkStore, Document, Embedder, EmbeddingModel, Fusion, Matching, MemoryStore,
    NewChunk, SearchRequest, StaticModel, chunk, count_words,
};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

impl Entry {
    fn whole(&self) -> String {
        format!("{} {}", self.title, self.text).trim_start().to_owned()
    }
}

/// The arguments after the folder.
#[derive(Default)]
struct Options {
    export: Option<String>,
    models: Vec<String>,
    database: Option<String>,
    others: Vec<String>,
    /// Further collections.
    folders: Vec<String>,
    passages: bool,
    brief: bool,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match &*argument {
                "--export" => options.export = Some(arguments.next().ok_or("--export OUT")?),
                "--model" => options.models.push(arguments.next().ok_or("--model FOLDER")?),
                "--passages" => options.passages = true,
                "--brief" => options.brief = true,
                url if url.starts_with("postgres://") => options.database = Some(argument),
                folder if Path::new(folder).is_dir() => options.folders.push(argument),
                _ => options.others.push(argument),
            }
        }
        Ok(options)
    }

    async fn store(&self) -> Result<Box<dyn ChunkStore>, Box<dyn Error>> {
        let Some(url) = &self.database else {
            return Ok(Box::new(MemoryStore::new(EmbeddingModel::default())));
        };
        #[cfg(feature = "postgres")]
        return Ok(Box::new(
            marquetry_rag::PostgresStore::open(url, EmbeddingModel::default()).await?,
        ));
        #[cfg(not(feature = "postgres"))]
        Err(format!("this was built without a store for {url}").into())
    }
}

#[cfg(feature = "transformer")]
async fn transformer(folder: &str) -> Result<Arc<dyn Embedder>, Box<dyn Error>> {
    let options = marquetry_rag::TransformerOptions::new(folder);
    Ok(Arc::new(marquetry_rag::Transformer::open(options).await?))
}

#[cfg(not(feature = "transformer"))]
async fn transformer(folder: &str) -> Result<Arc<dyn Embedder>, Box<dyn Error>> {
    Err(format!("this was built without the feature transformer, which {folder} needs").into())
}

/// A way to find something: by words, by a model, or by both.
struct System {
    name: &'static str,
    words: bool,
    vectors: bool,
    fusion: Option<Fusion>,
    matching: Matching,
    distinct: bool,
}

impl System {
    const WORDS: Self = Self {
        name: "words (BM25)",
        words: true,
        vectors: false,
        fusion: None,
        matching: Matching::Any,
        distinct: false,
    };

    fn by_model(name: &'static str) -> Self {
        Self { name, words: false, vectors: true, ..Self::WORDS }
    }

    fn by_both(name: &'static str, fusion: Option<Fusion>) -> Self {
        Self { name, vectors: true, fusion, ..Self::WORDS }
    }
}

/// Which documents answer a question, and how well.
type Relevant = HashMap<String, HashMap<String, f64>>;

/// A store that is filled with a model's vectors.
struct Filled {
    store: Box<dyn ChunkStore>,
    model: Arc<dyn Embedder>,
}

impl Filled {
    async fn new(
        store: Box<dyn ChunkStore>,
        model: Arc<dyn Embedder>,
        corpus: &[Entry],
        passages: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let start = Instant::now();
        let options = ChunkOptions::default();
        let mut documents = Vec::new();
        for entry in corpus {
            let text = entry.whole();
            let texts = if passages {
                chunk(&text, &options, count_words)?.into_iter().map(|it| it.content).collect()
            } else {
                vec![text]
            };
            let vectors = model.embed(&texts).await?;
            let chunks = texts.into_iter().zip(vectors);
            let chunks = chunks.map(|(text, vector)| NewChunk::of_text(text, vector)).collect();
            documents.push((Document::new(&*entry.id), chunks));
        }
        store.replace_all(documents).await?;
        let seconds = start.elapsed().as_secs_f64();
        let count = corpus.len();
        let identity = &model.model().identity;
        println!("{count} documents indexed by {identity}, {:.0} a second", count as f64 / seconds);
        Ok(Self { store, model })
    }

    /// Measures the retrieval quality and the time of one system.
    async fn measure(
        &self,
        system: &System,
        queries: &[Entry],
        relevant: &Relevant,
    ) -> Result<(), Box<dyn Error>> {
        let mut score = Score::default();
        let mut spent = 0.0;
        for query in queries {
            let Some(relevant) = relevant.get(&query.id) else { continue };
            let text = if system.words { query.text.clone() } else { String::new() };
            let start = Instant::now();
            let vector = if system.vectors {
                Some(self.model.embed_query(&query.text).await?)
            } else {
                None
            };
            let mut request = SearchRequest::new(text, vector);
            request.limit = 100;
            (request.fusion, request.matching) = (system.fusion, system.matching);
            request.distinct = system.distinct;
            let hits = self.store.search(&request).await?;
            spent += start.elapsed().as_secs_f64();
            let mut seen = HashSet::new();
            let documents = hits.iter().map(|hit| &*hit.chunk.document);
            score.add(relevant, documents.filter(|document| seen.insert(*document)));
        }
        score.print(system.name, spent * 1e3 / score.count);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("the folder of the collection is missing")?;
    let options = Options::read(arguments)?;
    if let Some(out) = &options.export {
        export(Path::new(out), "chunks", &read(&folder, "corpus.jsonl")?)?;
        return export(Path::new(out), "queries", &read(&folder, "queries.jsonl")?);
    }
    for folder in std::iter::once(&folder).chain(&options.folders) {
        if !options.folders.is_empty() {
            println!("{folder}:");
        }
        evaluate(folder, &options).await?;
    }
    Ok(())
}

fn read(folder: &str, name: &str) -> Result<Vec<Entry>, Box<dyn Error>> {
    let text = fs::read_to_string(Path::new(folder).join(name))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Measures each system on the collection in this folder.
async fn evaluate(folder: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let corpus = read(folder, "corpus.jsonl")?;
    let queries = read(folder, "queries.jsonl")?;
    let relevant = relevant(&fs::read_to_string(Path::new(folder).join("qrels.tsv"))?)?;

    let built_in: Arc<dyn Embedder> = Arc::new(StaticModel::built_in());
    let built_in = Filled::new(options.store().await?, built_in, &corpus, options.passages).await?;
    let mut transformers = Vec::new();
    for model in &options.models {
        let model = transformer(model).await?;
        let store = Box::new(MemoryStore::new(model.model().clone()));
        transformers.push(Filled::new(store, model, &corpus, options.passages).await?);
    }

    let hybrid = |k, semantic_weight| Some(Fusion { k, semantic_weight });
    println!("{:32} NDCG@10 Recall@100  MRR@10   hit@1  ms a query", "");
    for system in [
        System::WORDS,
        System::by_model("built-in model"),
        System::by_both("both, default", None),
        System { distinct: true, ..System::by_both("both, default, distinct", None) },
    ] {
        built_in.measure(&system, &queries, &relevant).await?;
    }
    if options.brief {
        return Ok(());
    }
    for system in [
        System::by_both("both, k 60, weight 1", Some(Fusion::PLAIN)),
        System::by_both("both, k 10, weight 1", hybrid(10.0, 1.0)),
        System::by_both("both, k 60, weight .5", hybrid(60.0, 0.5)),
        System::by_both("both, k 10, weight .7", hybrid(10.0, 0.7)),
        System {
            matching: Matching::All,
            ..System::by_both("both, k 60, weight 1, all words", Some(Fusion::PLAIN))
        },
    ] {
        built_in.measure(&system, &queries, &relevant).await?;
    }
    for transformer in &transformers {
        println!("{}:", transformer.model.model().identity);
        for system in [
            System::by_model("transformer"),
            System::by_both("both, default", None),
            System::by_both("both, k 60, weight 1", Some(Fusion::PLAIN)),
            System::by_both("both, k 60, weight 1.5", hybrid(60.0, 1.5)),
            System::by_both("both, k 60, weight 2", hybrid(60.0, 2.0)),
            System::by_both("both, k 10, weight 1", hybrid(10.0, 1.0)),
            System::by_both("both, k 10, weight 1.5", hybrid(10.0, 1.5)),
            System::by_both("both, k 10, weight .7", hybrid(10.0, 0.7)),
        ] {
            transformer.measure(&system, &queries, &relevant).await?;
        }
    }
    for other in &options.others {
        let (name, file) = other.split_once('=').ok_or("NAME=FILE")?;
        let found: Other = serde_json::from_str(&fs::read_to_string(file)?)?;
        let mut score = Score::default();
        for (query, relevant) in &relevant {
            score.add(relevant, found.rankings.get(query).into_iter().flatten().map(|id| &**id));
        }
        let time = found.searches.first().map_or(f64::NAN, |search| search.p50_ms);
        score.print(name, time);
    }
    Ok(())
}

/// The results of another program.
#[derive(Deserialize)]
struct Other {
    rankings: HashMap<String, Vec<String>>,
    searches: Vec<Search>,
}

#[derive(Deserialize)]
struct Search {
    p50_ms: f64,
}

/// Sums over questions.
#[derive(Default)]
struct Score {
    ndcg: f64,
    recall: f64,
    /// By the place of the first right document among ten.
    reciprocal_rank: f64,
    /// How often the first document is a right one.
    first: f64,
    count: f64,
}

impl Score {
    fn add<'a>(
        &mut self,
        relevant: &HashMap<String, f64>,
        documents: impl Iterator<Item = &'a str>,
    ) {
        let found: Vec<f64> = documents
            .take(100)
            .map(|document| relevant.get(document).copied().unwrap_or_default())
            .collect();
        let mut ideal: Vec<f64> = relevant.values().copied().collect();
        ideal.sort_by(|left, right| right.total_cmp(left));
        self.ndcg += gain(&found) / gain(&ideal);
        self.recall +=
            found.iter().filter(|&&score| score > 0.0).count() as f64 / ideal.len() as f64;
        let place = found.iter().take(10).position(|&score| score > 0.0);
        self.reciprocal_rank += place.map_or(0.0, |place| 1.0 / (place + 1) as f64);
        self.first += f64::from(u8::from(place == Some(0)));
        self.count += 1.0;
    }

    fn print(&self, name: &str, time: f64) {
        let Self { ndcg, recall, reciprocal_rank, first, count } = self;
        let [ndcg, recall, mrr, first] =
            [ndcg, recall, reciprocal_rank, first].map(|sum| sum / count);
        println!("{name:32} {ndcg:7.4} {recall:10.3} {mrr:7.4} {first:7.3} {time:11.2}");
    }
}

fn export(out: &Path, name: &str, entries: &[Entry]) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(out)?;
    let model = StaticModel::built_in();
    let mut texts = BufWriter::new(File::create(out.join(format!("{name}.jsonl")))?);
    let mut vectors = BufWriter::new(File::create(out.join(format!("{name}.f32")))?);
    for entry in entries {
        let text = entry.whole();
        for value in model.embed(&text) {
            vectors.write_all(&value.to_le_bytes())?;
        }
        writeln!(texts, "{}", json!({"id": entry.id, "text": text}))?;
    }
    texts.flush()?;
    vectors.flush()?;
    Ok(())
}

/// The discounted gain of the first ten.
fn gain(scores: &[f64]) -> f64 {
    (2_i32..).zip(scores).take(10).map(|(place, score)| score / f64::from(place).log2()).sum()
}

fn relevant(table: &str) -> Result<Relevant, Box<dyn Error>> {
    let mut relevant = Relevant::new();
    for line in table.lines().skip(1) {
        let mut fields = line.split('\t');
        let (Some(query), Some(document), Some(score)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let score: f64 = score.parse()?;
        if score > 0.0 {
            relevant.entry(query.to_owned()).or_default().insert(document.to_owned(), score);
        }
    }
    Ok(relevant)
}
