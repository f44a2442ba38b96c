//! Retrieval quality on a collection in BEIR's layout: by words, by the built-in model, and by both.
//!
//! `cargo run --release -p marquetry-rag --example cranfield -- FOLDER [NAME=FILE…]`, where the folder has `corpus.jsonl`,
//! `queries.jsonl` and `qrels.tsv`. Each document is one chunk. A file has what another program has found, as `rankings`
//! by the ids of the questions; `… cranfield -- FOLDER --export OUT` writes documents, questions and their vectors for it.
//! With the feature `postgres` and a URL `postgres://…` as a further argument, it is the store in that database that is asked.

use std::{
    collections::HashMap,
    error::Error,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    time::Instant,
};

use marquetry_rag::{
    ChunkStore, Document, EmbeddingModel, Fusion, Matching, MemoryStore, NewChunk, SearchRequest,
    StaticModel,
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

async fn store() -> Result<Box<dyn ChunkStore>, Box<dyn Error>> {
    let url = std::env::args().skip(2).find(|argument| argument.starts_with("postgres://"));
    let Some(url) = url else {
        return Ok(Box::new(MemoryStore::new(EmbeddingModel::default())));
    };
    #[cfg(feature = "postgres")]
    return Ok(Box::new(
        marquetry_rag::PostgresStore::open(&url, EmbeddingModel::default()).await?,
    ));
    #[cfg(not(feature = "postgres"))]
    Err(format!("this was built without a store for {url}").into())
}

/// Which documents answer a question, and how well.
type Relevant = HashMap<String, HashMap<String, f64>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("the folder of the collection is missing")?;
    let others: Vec<_> = arguments.collect();
    let read = |name: &str| -> Result<Vec<Entry>, Box<dyn Error>> {
        let text = fs::read_to_string(Path::new(&folder).join(name))?;
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    };
    let (corpus, queries) = (read("corpus.jsonl")?, read("queries.jsonl")?);
    if let [flag, out] = &others[..]
        && flag == "--export"
    {
        export(Path::new(out), "chunks", &corpus)?;
        return export(Path::new(out), "queries", &queries);
    }
    let relevant = relevant(&fs::read_to_string(Path::new(&folder).join("qrels.tsv"))?)?;

    let model = StaticModel::built_in();
    let start = Instant::now();
    let store = store().await?;
    let documents = corpus.iter().map(|entry| {
        let text = entry.whole();
        let vector = model.embed(&text);
        (Document::new(&*entry.id), vec![NewChunk::of_text(text, vector)])
    });
    store.replace_all(documents.collect()).await?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} documents indexed, {:.0} a second", corpus.len(), corpus.len() as f64 / seconds);

    type Legs = (bool, bool, Option<Fusion>, Matching);
    let hybrid = |k, semantic_weight| Some(Fusion { k, semantic_weight });
    let systems: [(&str, Legs); 8] = [
        ("words (BM25)", (true, false, None, Matching::Any)),
        ("built-in model", (false, true, None, Matching::Any)),
        ("both, default", (true, true, None, Matching::Any)),
        ("both, k 60, weight 1", (true, true, Some(Fusion::PLAIN), Matching::Any)),
        ("both, k 10, weight 1", (true, true, hybrid(10.0, 1.0), Matching::Any)),
        ("both, k 60, weight .5", (true, true, hybrid(60.0, 0.5), Matching::Any)),
        ("both, k 10, weight .7", (true, true, hybrid(10.0, 0.7), Matching::Any)),
        ("both, k 60, weight 1, all words", (true, true, Some(Fusion::PLAIN), Matching::All)),
    ];
    println!("{:32} NDCG@10 Recall@100  ms a query", "");
    for (name, (words, vectors, fusion, matching)) in systems {
        let (mut score, mut spent) = (Score::default(), 0.0);
        for query in &queries {
            let Some(relevant) = relevant.get(&query.id) else { continue };
            let text = if words { query.text.clone() } else { String::new() };
            let start = Instant::now();
            let vector = vectors.then(|| model.embed(&query.text));
            let mut request = SearchRequest::new(text, vector);
            (request.limit, request.fusion, request.matching) = (100, fusion, matching);
            let hits = store.search(&request).await?;
            spent += start.elapsed().as_secs_f64();
            score.add(relevant, hits.iter().map(|hit| &*hit.chunk.document));
        }
        score.print(name, spent * 1e3 / score.count);
    }
    for other in others.iter().filter(|other| !other.starts_with("postgres://")) {
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

/// What another program has found.
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
        self.count += 1.0;
    }

    fn print(&self, name: &str, time: f64) {
        let Self { ndcg, recall, count } = self;
        println!("{name:32} {:7.3} {:10.3} {time:11.2}", ndcg / count, recall / count);
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
