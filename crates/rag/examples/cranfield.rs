//! Retrieval quality on a collection in BEIR's layout: by words, by the built-in model, and by both.
//!
//! `cargo run --release -p marquetry-rag --example cranfield -- FOLDER`, where the folder has `corpus.jsonl`,
//! `queries.jsonl` and `qrels.tsv`. Each document is one chunk. With the feature `postgres` and a further argument, a URL
//! `postgres://…`, it is the store in that database that is asked.

use std::{collections::HashMap, error::Error, fs, path::Path, time::Instant};

use marquetry_rag::{
    ChunkStore, Document, EmbeddingModel, Fusion, Matching, MemoryStore, NewChunk, SearchRequest,
    StaticModel,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

async fn store() -> Result<Box<dyn ChunkStore>, Box<dyn Error>> {
    let Some(url) = std::env::args().nth(2) else {
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
    let folder = std::env::args().nth(1).ok_or("the folder of the collection is missing")?;
    let read = |name: &str| -> Result<Vec<Entry>, Box<dyn Error>> {
        let text = fs::read_to_string(Path::new(&folder).join(name))?;
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    };
    let (corpus, queries) = (read("corpus.jsonl")?, read("queries.jsonl")?);
    let relevant = relevant(&fs::read_to_string(Path::new(&folder).join("qrels.tsv"))?)?;

    let model = StaticModel::built_in();
    let start = Instant::now();
    let store = store().await?;
    let documents = corpus.iter().map(|entry| {
        let text = format!("{} {}", entry.title, entry.text);
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
        let (mut ndcg, mut recall, mut count, mut spent) = (0.0, 0.0, 0.0, 0.0);
        for query in &queries {
            let Some(relevant) = relevant.get(&query.id) else { continue };
            let text = if words { query.text.clone() } else { String::new() };
            let start = Instant::now();
            let vector = vectors.then(|| model.embed(&query.text));
            let mut request = SearchRequest::new(text, vector);
            (request.limit, request.fusion, request.matching) = (100, fusion, matching);
            let hits = store.search(&request).await?;
            spent += start.elapsed().as_secs_f64();
            let found = hits.iter().map(|hit| relevant.get(&hit.chunk.document).copied());
            let found: Vec<f64> = found.map(Option::unwrap_or_default).collect();
            let mut ideal: Vec<f64> = relevant.values().copied().collect();
            ideal.sort_by(|left, right| right.total_cmp(left));
            ndcg += gain(&found) / gain(&ideal);
            recall +=
                found.iter().filter(|&&score| score > 0.0).count() as f64 / ideal.len() as f64;
            count += 1.0;
        }
        println!(
            "{name:32} {:7.3} {:10.3} {:11.2}",
            ndcg / count,
            recall / count,
            spent / count * 1e3
        );
    }
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
