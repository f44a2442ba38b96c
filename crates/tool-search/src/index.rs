//! The index over the words and vectors of tools.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    synonyms::Synonyms,
    text::{Embed, ToolText, beginning},
    vectors::{Vector, Vectors},
    words::{StemCounts, Stems, for_each_word},
};

/// Largest number of tools.
const MAX_TOOLS: usize = 10_000;
/// Part of a name or title that counts, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Part of a description that counts, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 4_096;
/// Part of a description that counts as its beginning, in bytes, if it has no shorter sentence.
const MAX_SENTENCE_BYTES: usize = 300;
/// Arguments of a tool that count.
const MAX_ARGUMENTS: usize = 64;
/// Part of an argument's description that counts, in bytes.
const MAX_ARGUMENT_BYTES: usize = 512;
/// Words with vectors of their own.
const MAX_WORDS: usize = 4_096;
/// Part of a description that is embedded, in bytes. The mean of more words says less.
const EMBEDDED_BYTES: usize = 150;

/// A part of a tool's texts: its weight, and how much a longer text counts less.
struct Field {
    weight: f32,
    /// BM25's `b`, from 0 (length does not count) to 1.
    length: f32,
}

/// The fields, in the order of [`count`].
const FIELDS: [Field; 5] = [
    // Name.
    Field { weight: 3.0, length: 0.6 },
    // Title.
    Field { weight: 1.5, length: 0.3 },
    // The first sentence of the description.
    Field { weight: 2.0, length: 0.5 },
    // The rest of the description.
    Field { weight: 0.5, length: 0.7 },
    // Arguments.
    Field { weight: 0.6, length: 0.7 },
];

/// Weight of a word of the server's name, which all its tools share.
const SERVER_WEIGHT: f32 = 1.0;

/// An index over tools.
pub struct ToolIndex {
    pub(crate) stems: Stems,
    pub(crate) synonyms: &'static Synonyms,
    /// For each stem, the tools that have it, each with its weighted frequency.
    pub(crate) postings: HashMap<String, Vec<(u32, f32)>>,
    /// The stems of the names of servers.
    pub(crate) servers: Vec<Vec<String>>,
    /// The server of each tool, by its position in `servers`.
    pub(crate) server_of: Vec<usize>,
    pub(crate) vectors: Option<Vectors>,
}

impl ToolIndex {
    /// Builds an index by words alone.
    #[must_use]
    pub fn new(tools: &[ToolText<'_>]) -> Self {
        let tools = &tools[..tools.len().min(MAX_TOOLS)];
        let stems = Stems::default();
        let postings = postings(tools, &stems);
        let synonyms = Synonyms::built_in();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut servers = Vec::new();
        let mut server_of = Vec::with_capacity(tools.len());
        for tool in tools {
            let number = *numbers.entry(tool.server).or_insert_with(|| {
                servers.push(stems.all(beginning(tool.server, MAX_NAME_BYTES)));
                servers.len() - 1
            });
            server_of.push(number);
        }
        Self { stems, synonyms, postings, servers, server_of, vectors: None }
    }

    /// Builds an index by words and vectors. Computes a vector for each tool and each word, which
    /// takes time.
    #[must_use]
    pub fn with_embedding(tools: &[ToolText<'_>], model: Arc<dyn Embed>) -> Self {
        let mut index = Self::new(tools);
        let tools = &tools[..index.len()];
        let of_tools = tools.iter().map(|tool| Vector::of(&*model, &embedded_text(tool))).collect();
        let of_words = word_vectors(tools, &index.stems, &*model);
        index.vectors = Some(Vectors { model, of_tools, of_words });
        index
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.server_of.len()
    }

    /// Returns whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the weighted frequencies of the stems of all tools.
fn postings(tools: &[ToolText<'_>], stems: &Stems) -> HashMap<String, Vec<(u32, f32)>> {
    let counted: Vec<[StemCounts; FIELDS.len()]> =
        tools.iter().map(|tool| count(tool, stems)).collect();
    let mean_lengths = mean_lengths(&counted);
    let mut postings: HashMap<String, Vec<(u32, f32)>> = HashMap::new();
    for (number, (tool, fields)) in (0_u32..).zip(tools.iter().zip(counted)) {
        let mut weights: HashMap<String, f32> = HashMap::new();
        for (field, (counts, mean)) in FIELDS.iter().zip(fields.into_iter().zip(mean_lengths)) {
            let relative = counts.length as f32 / mean;
            let scale = field.weight / (1.0 - field.length + field.length * relative);
            for (stem, count) in counts.counts {
                *weights.entry(stem).or_default() += scale * count as f32;
            }
        }
        for stem in stems.all(beginning(tool.server, MAX_NAME_BYTES)) {
            *weights.entry(stem).or_default() += SERVER_WEIGHT;
        }
        for (stem, weight) in weights {
            postings.entry(stem).or_default().push((number, weight));
        }
    }
    postings
}

/// Counts the words of each field of a tool.
fn count(tool: &ToolText<'_>, stems: &Stems) -> [StemCounts; FIELDS.len()] {
    let mut fields: [StemCounts; FIELDS.len()] = Default::default();
    let description = beginning(tool.description, MAX_DESCRIPTION_BYTES);
    let (first, rest) = description.split_at(first_sentence(description));
    let [name, title, begin, more, arguments] = &mut fields;
    name.add(stems, beginning(tool.name, MAX_NAME_BYTES));
    title.add(stems, beginning(tool.title, MAX_NAME_BYTES));
    begin.add(stems, first);
    more.add(stems, rest);
    for argument in tool.arguments.iter().take(MAX_ARGUMENTS) {
        arguments.add(stems, beginning(argument.name, MAX_NAME_BYTES));
        arguments.add(stems, beginning(argument.description, MAX_ARGUMENT_BYTES));
    }
    fields
}

/// Returns the end of the first sentence or line of a description, which says what the tool does.
fn first_sentence(description: &str) -> usize {
    let start = description.len() - description.trim_start().len();
    let text = beginning(&description[start..], MAX_SENTENCE_BYTES);
    let end = [". ", "\n", "。"].iter().filter_map(|end| text.find(end)).min();
    start + end.unwrap_or(text.len())
}

fn mean_lengths(counted: &[[StemCounts; FIELDS.len()]]) -> [f32; FIELDS.len()] {
    let mut means = [0.0; FIELDS.len()];
    for (field, mean) in means.iter_mut().enumerate() {
        let sum: u32 = counted.iter().map(|fields| fields[field].length).sum();
        *mean = (sum as f32 / counted.len().max(1) as f32).max(1.0);
    }
    means
}

/// Returns the text of a tool that is embedded: the words of its name, and the beginning of its
/// description.
fn embedded_text(tool: &ToolText<'_>) -> String {
    let mut text = String::new();
    for name in [tool.server, tool.name] {
        for_each_word(beginning(name, MAX_NAME_BYTES), |word, parts| {
            let words = if parts.is_empty() { vec![word] } else { parts };
            for word in words {
                text.push_str(&word);
                text.push(' ');
            }
        });
    }
    text.push_str(beginning(tool.title, MAX_NAME_BYTES));
    text.push_str(". ");
    text.push_str(beginning(tool.description, EMBEDDED_BYTES));
    text
}

/// Returns the vectors of words of the tools, each with its stem. A stem has the vector of its
/// first word.
fn word_vectors(tools: &[ToolText<'_>], stems: &Stems, model: &dyn Embed) -> Vec<(String, Vector)> {
    let mut known: HashSet<String> = HashSet::new();
    let mut vectors = Vec::new();
    for tool in tools {
        let description = beginning(tool.description, MAX_DESCRIPTION_BYTES);
        for text in [beginning(tool.name, MAX_NAME_BYTES), description] {
            for_each_word(text, |word, parts| {
                for word in std::iter::once(word).chain(parts) {
                    let Some(stem) = stems.of(&word) else { continue };
                    let has_room = vectors.len() < MAX_WORDS;
                    if has_room && model.knows(&word) && known.insert(stem.clone()) {
                        vectors.push((stem, Vector::of(model, &word)));
                    }
                }
            });
        }
    }
    vectors
}
