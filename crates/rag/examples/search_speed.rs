//! How fast a database of generated chunks is written, opened and searched; prints JSON for `cargo
//! xtask bench rag`.
//!
//! `cargo run --release -p marquetry-rag --features libsql,postgres --example search_speed -- index
//! DATABASE CHUNKS`, and then `… search DATABASE`: two processes, so that neither has the other's
//! memory. DATABASE is a file, or a URL `postgres://…` (whose server has its own processes, memory
//! and size). `… export FOLDER CHUNKS` writes the same chunks and questions for others. Documents
//! have ten chunks of 60 words, which are drawn from 50,000 as they are in languages (the n-th as
//! often as 1/n, without the first 50, which would be stop words); questions have eight such words;
//! vectors have 256 numbers at random.

use std::{
    error::Error,
    fs::{self, File},
    hint::black_box,
    io::{BufWriter, Write as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use marquetry_rag::{ChunkStore, Document, EmbeddingModel, Filter, NewChunk, SearchRequest};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const CHUNKS_PER_DOCUMENT: usize = 10;
const WORDS_PER_CHUNK: usize = 60;
const WORDS_PER_QUERY: usize = 8;
const VOCABULARY: f64 = 50_000.0;
const STOP_WORDS: f64 = 50.0;
const DIMENSION: usize = 256;
const QUERIES: usize = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["index", file, chunks] => index(file, chunks.parse()?).await,
        ["search", file] => search(file).await,
        ["export", folder, chunks] => export(Path::new(folder), chunks.parse()?),
        _ => Err("index DATABASE CHUNKS, search DATABASE, or export FOLDER CHUNKS".into()),
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

async fn index(file: &str, chunks: usize) -> Result<(), Box<dyn Error>> {
    let store = open(file).await?;
    let mut random = Random(7);
    let mut spent = Duration::ZERO;
    let mut cpu_spent = 0.0;
    let mut document = 0;
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
        let cpu_before = cpu();
        store.replace_all(batch).await?;
        spent += start.elapsed();
        cpu_spent += cpu() - cpu_before;
    }
    let count = store.count(&Filter::default()).await?;
    // Of a file; a server has its own.
    let bytes = fs::metadata(file).map(|file| file.len()).ok();
    let answer = json!({
        "chunks": count, "documents": document, "seconds": spent.as_secs_f64(), "cpu_seconds": cpu_spent / 1e3,
        "bytes": bytes, "resident_bytes": resident()?,
    });
    println!("{answer}");
    Ok(())
}

async fn search(file: &str) -> Result<(), Box<dyn Error>> {
    let before = resident()?;
    let cpu_before = cpu();
    let start = Instant::now();
    let store = open(file).await?;
    let opened = start.elapsed();
    let opened_cpu = cpu() - cpu_before;
    let rows = store.count(&Filter::default()).await? as usize;
    let mut random = Random(13);
    let request = SearchRequest::new(random.text(WORDS_PER_QUERY), Some(random.vector()));
    assert!(!store.search(&request).await?.is_empty());
    let ready = start.elapsed();
    let memory = resident()? - before;

    let mut tagged = Filter::default();
    tagged.tags.push("hundredth".to_owned());
    let mut searches = Vec::new();
    for (name, words, vector, filter) in [
        ("hybrid", true, true, Filter::default()),
        ("hybrid, 1 % by a tag", true, true, tagged),
        ("vectors", false, true, Filter::default()),
        ("words", true, false, Filter::default()),
    ] {
        let mut random = Random(11);
        let mut times = Vec::new();
        let mut cpu_before = 0.0;
        // The first tenth warms up.
        for query in 0..QUERIES + QUERIES / 10 {
            if query == QUERIES / 10 {
                cpu_before = cpu();
            }
            let text = if words { random.text(WORDS_PER_QUERY) } else { String::new() };
            let mut request = SearchRequest::new(text, vector.then(|| random.vector()));
            request.filter = filter.clone();
            let start = Instant::now();
            let hits = store.search(&request).await?;
            if query >= QUERIES / 10 {
                times.push(millis(start.elapsed()));
            }
            assert!(!hits.is_empty());
        }
        times.sort_by(f64::total_cmp);
        searches.push(json!({
            "name": name, "p50_ms": times[QUERIES / 2], "p99_ms": times[QUERIES * 99 / 100], "fastest_ms": times[0],
            "cpu_ms": (cpu() - cpu_before) / QUERIES as f64,
        }));
    }
    drop(store);
    let answer = json!({
        "chunks": rows, "open_ms": millis(opened), "open_cpu_ms": opened_cpu, "ready_ms": millis(ready),
        "memory_bytes": memory, "searches": searches, "floor_ms": floor(rows * DIMENSION),
    });
    println!("{answer}");
    Ok(())
}

/// Returns the time of one pass over this number of bytes on all processors: the lower bound for a
/// scan of all vectors.
fn floor(bytes: usize) -> f64 {
    let memory = vec![1_u64; bytes / 8];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let pass = || {
        let start = Instant::now();
        thread::scope(|scope| {
            for part in memory.chunks(memory.len().div_ceil(threads)) {
                scope.spawn(|| black_box(part.iter().fold(0, |all, &word| all | word)));
            }
        });
        millis(start.elapsed())
    };
    (0..15).map(|_| pass()).fold(f64::INFINITY, f64::min)
}

/// For other programs: `chunks.jsonl` and `queries.jsonl` with a `text` a line, and the vectors of
/// both as numbers of four bytes, one after another.
fn export(folder: &Path, chunks: usize) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    for (name, count, words, seed) in
        [("chunks", chunks, WORDS_PER_CHUNK, 7), ("queries", QUERIES, WORDS_PER_QUERY, 11)]
    {
        let mut random = Random(seed);
        let mut texts = BufWriter::new(File::create(folder.join(format!("{name}.jsonl")))?);
        let mut vectors = BufWriter::new(File::create(folder.join(format!("{name}.f32")))?);
        for number in 0..count {
            let text = random.text(words);
            writeln!(texts, "{}", json!({"id": number.to_string(), "text": text}))?;
            for value in random.vector() {
                vectors.write_all(&value.to_le_bytes())?;
            }
        }
        texts.flush()?;
        vectors.flush()?;
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// This process's memory, in bytes.
fn resident() -> Result<f64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1_024.0)
}

/// Returns the CPU time of this process in milliseconds, which is comparable even if other programs
/// are running.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
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
