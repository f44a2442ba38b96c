//! How often the right tool is among the first five, over the tools and questions of `tests/set`.

use std::sync::Arc;

use marquetry_embed::builtin::StaticModel;
use marquetry_tool_search::{Argument, Embed, ToolIndex, ToolText};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Server {
    server: String,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

struct BuiltIn;

impl Embed for BuiltIn {
    fn embed(&self, text: &str) -> Vec<f32> {
        StaticModel::built_in().embed(text)
    }

    fn knows(&self, word: &str) -> bool {
        StaticModel::built_in().coverage(word) >= 1.0
    }
}

/// The tools of the set with their full names, `SERVER/TOOL`.
struct Set {
    names: Vec<String>,
    by_words: ToolIndex,
    with_vectors: ToolIndex,
}

impl Set {
    fn read() -> Self {
        let servers: Vec<Server> = serde_json::from_str(include_str!("set/tools.json")).unwrap();
        let all: Vec<(&Server, &Tool)> = servers
            .iter()
            .flat_map(|server| server.tools.iter().map(move |tool| (server, tool)))
            .collect();
        let arguments: Vec<Vec<Argument<'_>>> = all
            .iter()
            .map(|(_, tool)| {
                let arguments = tool.arguments.iter();
                arguments
                    .map(|(name, description)| Argument {
                        name,
                        description: description.as_str().unwrap_or_default(),
                    })
                    .collect()
            })
            .collect();
        let texts: Vec<ToolText<'_>> = all
            .iter()
            .zip(&arguments)
            .map(|((server, tool), arguments)| {
                ToolText::new(&tool.name)
                    .title(&tool.title)
                    .description(&tool.description)
                    .server(&server.server)
                    .arguments(arguments)
            })
            .collect();
        let names = all.iter().map(|(server, tool)| format!("{}/{}", server.server, tool.name));
        Self {
            names: names.collect(),
            by_words: ToolIndex::new(&texts),
            with_vectors: ToolIndex::with_embedding(&texts, Arc::new(BuiltIn)),
        }
    }

    /// Returns the share of the questions whose right tool is among the first five, and prints the
    /// others.
    fn recall(&self, index: &ToolIndex, title: &str, questions: &str) -> f64 {
        let mut found = 0;
        let mut asked = 0;
        let mut first = 0;
        for line in questions.lines() {
            let (question, right) = line.split_once('\t').expect("question, tab, tools");
            let right: Vec<&str> = right.split(", ").collect();
            assert!(right.iter().all(|tool| self.names.iter().any(|name| name == tool)), "{line}");
            let hits = index.search(question, 5);
            let names: Vec<&str> = hits.iter().map(|hit| self.names[hit.tool].as_str()).collect();
            asked += 1;
            first += usize::from(names.first().is_some_and(|name| right.contains(name)));
            if names.iter().any(|name| right.contains(name)) {
                found += 1;
            } else {
                println!("  {question}: {} not in {}", right.join(", "), names.join(", "));
            }
        }
        println!("{title}: {found} of {asked} in the first five, {first} first");
        f64::from(found) / f64::from(asked)
    }
}

#[test]
fn the_right_tool_is_among_the_first_five() {
    let set = Set::read();
    println!("{} tools", set.names.len());
    for (title, questions, least_by_words, least) in [
        ("questions", include_str!("set/questions.tsv"), 0.9, 0.95),
        ("siblings", include_str!("set/siblings.tsv"), 0.83, 0.83),
        ("held out", include_str!("set/held_out.tsv"), 0.86, 0.9),
    ] {
        let by_words = set.recall(&set.by_words, &format!("{title}, by words"), questions);
        let both = set.recall(&set.with_vectors, &format!("{title}, with vectors"), questions);
        assert!(by_words >= least_by_words, "{title}: {by_words}");
        assert!(both >= least, "{title}: {both}");
    }
}
