//! Retrieval quality: NDCG@10 and Recall@100 of the built-in model on a collection in BEIR's layout.
//!
//! `cargo run --release -p marquetry-rag --example cranfield -- FOLDER`, where the folder has `corpus.jsonl`,
//! `queries.jsonl` and `qrels.tsv`.

use std::{collections::HashMap, error::Error, fs, path::Path, time::Instant};

use marquetry_rag::StaticModel;
use serde::Deserialize;

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("the folder of the collection is missing")?;
    let read = |name: &str| -> Result<Vec<Entry>, Box<dyn Error>> {
        let text = fs::read_to_string(Path::new(&folder).join(name))?;
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    };
    let (corpus, queries) = (read("corpus.jsonl")?, read("queries.jsonl")?);
    let mut relevant: HashMap<String, HashMap<String, f64>> = HashMap::new();
    for line in fs::read_to_string(Path::new(&folder).join("qrels.tsv"))?.lines().skip(1) {
        let mut fields = line.split('\t');
        if let (Some(query), Some(document), Some(score)) =
            (fields.next(), fields.next(), fields.next())
        {
            relevant
                .entry(query.to_owned())
                .or_default()
                .insert(document.to_owned(), score.parse()?);
        }
    }

    let model = StaticModel::built_in();
    let start = Instant::now();
    let vectors: Vec<_> = corpus
        .iter()
        .map(|entry| model.embed(&format!("{} {}", entry.title, entry.text)))
        .collect();
    let seconds = start.elapsed().as_secs_f64();
    println!("{} documents embedded, {:.0} a second", corpus.len(), corpus.len() as f64 / seconds);

    let (mut ndcg, mut recall, mut count) = (0.0, 0.0, 0.0);
    for query in &queries {
        let Some(relevant) = relevant.get(&query.id) else { continue };
        let vector = model.embed(&query.text);
        let score =
            |other: &[f32]| vector.iter().zip(other).map(|(left, right)| left * right).sum::<f32>();
        let mut ranked: Vec<_> = vectors.iter().map(|other| score(other)).zip(&corpus).collect();
        ranked.sort_by(|left, right| right.0.total_cmp(&left.0));
        let gain = |place: usize, score: f64| score / (place as f64 + 2.0).log2();
        let gains = ranked
            .iter()
            .map(|(_, entry)| relevant.get(&entry.id).copied().unwrap_or_default().max(0.0));
        let found: f64 =
            gains.clone().take(10).enumerate().map(|(place, score)| gain(place, score)).sum();
        let mut ideal: Vec<f64> = relevant.values().copied().filter(|&score| score > 0.0).collect();
        if ideal.is_empty() {
            continue;
        }
        ideal.sort_by(|left, right| right.total_cmp(left));
        ndcg += found
            / ideal
                .iter()
                .take(10)
                .enumerate()
                .map(|(place, &score)| gain(place, score))
                .sum::<f64>();
        recall += gains.take(100).filter(|&score| score > 0.0).count() as f64 / ideal.len() as f64;
        count += 1.0;
    }
    println!("NDCG@10 {:.3}, Recall@100 {:.3}, {count} queries", ndcg / count, recall / count);
    Ok(())
}
