//! How fast a database of generated chunks is written, opened and searched.
//!
//! `cargo run --release -p marquetry-rag --features libsql,postgres --example search_speed -- index DATABASE CHUNKS`, and
//! then `… search DATABASE`: two processes, so that neither has the other's memory. DATABASE is a file, or a URL
//! `postgres://…` (whose server has its own processes, memory and size). Documents have ten chunks of 60 words, which
//! are drawn from 50,000 as they are in languages (the n-th as often as 1/n, without the first 50, which would be stop
//! words); questions have eight such words; vectors have 256 numbers at random.

use std::{
    error::Error,
    fs,
    time::{Duration, Instant},
};

use marquetry_rag::{ChunkStore, Document, EmbeddingModel, Filter, NewChunk, SearchRequest};

const CHUNKS_PER_DOCUMENT: usize = 10;
const WORDS_PER_CHUNK: usize = 60;
const VOCABULARY: f64 = 50_000.0;
const STOP_WORDS: f64 = 50.0;
const DIMENSION: usize = 256;
const QUERIES: usize = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["index", database, chunks] => index(database, chunks.parse()?).await,
        ["search", database] => search(database).await,
        _ => Err("index DATABASE CHUNKS, or search DATABASE".into()),
    }
}

fn model() -> EmbeddingModel {
    EmbeddingModel::new("generated", DIMENSION)
}

async fn open(database: &str) -> Result<Box<dyn ChunkStore>, Box<dyn Error>> {
    #[cfg(feature = "postgres")]
    if database.starts_with("postgres://") {
        return Ok(Box::new(marquetry_rag::PostgresStore::open(database, model()).await?));
    }
    #[cfg(feature = "libsql")]
    if !database.contains("://") {
        return Ok(Box::new(marquetry_rag::LibsqlStore::open(database, model()).await?));
    }
    Err(format!("this was built without a store for {database}").into())
}

async fn index(database: &str, chunks: usize) -> Result<(), Box<dyn Error>> {
    let store = open(database).await?;
    let mut random = Random(7);
    let (mut spent, mut document) = (Duration::ZERO, 0);
    while document * CHUNKS_PER_DOCUMENT < chunks {
        let batch: Vec<_> = (0..100)
            .map(|at| {
                let mut entry = Document::new(format!("file:///generated/{}", document + at));
                if (document + at) % 100 == 0 {
                    entry.tags.insert("hundredth".to_owned());
                }
                let chunk = |_| NewChunk::of_text(random.text(WORDS_PER_CHUNK), random.vector());
                (entry, (0..CHUNKS_PER_DOCUMENT).map(chunk).collect())
            })
            .collect();
        document += batch.len();
        let start = Instant::now();
        store.replace_all(batch).await?;
        spent += start.elapsed();
    }
    let count = store.count(&Filter::default()).await?;
    let size = fs::metadata(database).map_or_else(
        |_| String::new(),
        |file| format!("; {:.0} MiB", file.len() as f64 / f64::from(1 << 20)),
    );
    println!("{count} chunks written, {:.0} a second{size}", count as f64 / spent.as_secs_f64());
    Ok(())
}

async fn search(database: &str) -> Result<(), Box<dyn Error>> {
    let (before, cpu_before) = (resident()?, cpu()?);
    let start = Instant::now();
    let store = open(database).await?;
    let opened = start.elapsed().as_secs_f64() * 1e3;
    let memory = (resident()? - before) / 1_024.0;
    let spent = cpu()? - cpu_before;
    println!("opened in {opened:.0} ms ({spent:.0} ms of CPU), {memory:.0} MiB");

    let mut tagged = Filter::default();
    tagged.tags.push("hundredth".to_owned());
    for (name, words, vector, filter) in [
        ("hybrid", true, true, Filter::default()),
        ("hybrid, 1 % by a tag", true, true, tagged),
        ("vectors", false, true, Filter::default()),
        ("words", true, false, Filter::default()),
    ] {
        let mut random = Random(11);
        let (mut times, cpu_before) = (Vec::new(), cpu()?);
        // The first tenth warms up.
        for query in 0..QUERIES + QUERIES / 10 {
            let text = if words { random.text(8) } else { String::new() };
            let mut request = SearchRequest::new(text, vector.then(|| random.vector()));
            request.filter = filter.clone();
            let start = Instant::now();
            let hits = store.search(&request).await?;
            if query >= QUERIES / 10 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            assert!(!hits.is_empty());
        }
        times.sort_by(f64::total_cmp);
        let (p50, p99) = (times[QUERIES / 2], times[QUERIES * 99 / 100]);
        let spent = (cpu()? - cpu_before) / (QUERIES + QUERIES / 10) as f64;
        println!(
            "{name}: p50 {p50:.2} ms, p99 {p99:.2} ms, {spent:.2} ms of CPU, the fastest {:.2} ms",
            times[0]
        );
    }
    Ok(())
}

/// This process's memory, in KiB.
fn resident() -> Result<f64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// What this process has used of the processor, in milliseconds: the figure to compare where others are at work, too.
fn cpu() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let ticks: Result<Vec<f64>, _> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect();
    // A tick is 10 ms on every architecture that Rust runs on.
    Ok(ticks?.iter().sum::<f64>() * 10.0)
}

/// The same numbers in every run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn text(&mut self, words: usize) -> String {
        let word = |random: &mut Self| {
            let rank = (STOP_WORDS * (VOCABULARY / STOP_WORDS).powf(random.next())) as u32;
            // Letters, so that the word is one.
            format!("{rank:x}").bytes().map(|byte| char::from(b'g' + byte % 16)).collect::<String>()
        };
        (0..words).map(|_| word(self)).collect::<Vec<_>>().join(" ")
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| self.next() as f32 - 0.5).collect()
    }
}
