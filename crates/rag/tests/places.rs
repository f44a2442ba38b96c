//! Pages and headings reach the chunks.

use std::{fs, num::NonZeroUsize, path::Path};

use marquetry_rag::{
    Chunk, ChunkOptions, Extracted, Hint, Page, Strategy, chunk_extracted, count_words, extract,
};

fn file(name: &str, bytes: impl AsRef<[u8]>) -> Extracted {
    extract(bytes.as_ref(), &Hint::file(name)).unwrap()
}

fn cut(extracted: &Extracted, strategy: Strategy, size: i64) -> Vec<Chunk> {
    chunk_extracted(extracted, &ChunkOptions::new(strategy, size).unwrap(), count_words).unwrap()
}

fn chapter(chunk: &Chunk) -> Option<(usize, &str)> {
    chunk.chapter.as_ref().map(|chapter| (chapter.number, chapter.title.as_str()))
}

#[test]
fn chunks_know_their_page() {
    let text = file("a.txt", "One. Two.\n\u{C}Three. Four goes\n\u{C}on. Five.");
    let chunks = cut(&text, Strategy::Sentence, 1);
    let places: Vec<_> = chunks.iter().map(|chunk| (chunk.content.as_str(), chunk.page)).collect();
    assert_eq!(
        places,
        [
            ("One.", Some(1)),
            ("Two.", Some(1)),
            ("Three.", Some(2)),
            ("Four goes", Some(2)),
            ("on.", Some(3)),
            ("Five.", Some(3))
        ]
    );
    let chunks = cut(&file("a.txt", "One."), Strategy::Sentence, 1);
    assert_eq!(chunks[0].page, None);
}

/// A match is on the page of its words, and not on the page on which their chunk begins.
#[test]
fn chunks_know_where_pages_begin_in_them() {
    let text = file(
        "a.txt",
        "“One.” Two.\n\u{C}Three  “four”. Five goes\n\u{C}on. \u{C}\u{C}“Six.” Seven.",
    );
    for strategy in [Strategy::Sentence, Strategy::Word] {
        let chunks = cut(&text, strategy, 99);
        assert_eq!((chunks.len(), chunks[0].page), (1, Some(1)));
        let content = &chunks[0].content;
        let starts = &chunks[0].page_starts;
        let pages: Vec<_> = starts
            .iter()
            .map(|start| (start.page, content[start.offset..].split_whitespace().next().unwrap()))
            .collect();
        assert_eq!(pages, [(2, "Three"), (3, "on."), (5, "\"Six.\"")], "{strategy:?}");
    }
    let chunks = cut(&text, Strategy::Sentence, 1);
    assert!(chunks.iter().all(|chunk| chunk.page_starts.is_empty()), "{chunks:?}");
}

#[test]
fn chunks_know_their_chapter() {
    let page = file(
        "a.html",
        "Before.<h1>Chapter 3: Bread</h1><p>Flour. Water.</p><div># no heading</div><h2>Yeast</h2><p>Little.</p>",
    );
    let chunks = cut(&page, Strategy::Chapter, 9);
    let expected = [
        ("Before.", None),
        ("Chapter 3: Bread\n\nFlour. Water.\n\n# no heading", Some((1, "Bread"))),
        ("Yeast\n\nLittle.", Some((2, "Yeast"))),
    ];
    let found: Vec<_> =
        chunks.iter().map(|chunk| (chunk.content.as_str(), chapter(chunk))).collect();
    assert_eq!(found, expected);

    let chunks = cut(&page, Strategy::Sentence, 1);
    let found: Vec<_> =
        chunks.iter().map(|chunk| chapter(chunk).map(|(number, _)| number)).collect();
    assert_eq!(found, [None, Some(1), Some(1), Some(1), Some(1), Some(2), Some(2)]);
    let chunks = cut(&page, Strategy::Word, 3);
    assert_eq!(chapter(&chunks[0]), None);
    assert_eq!(chapter(chunks.last().unwrap()), Some((2, "Yeast")));
}

#[test]
fn chapters_are_looked_for_where_none_are_named() {
    let text = file("a.txt", "Chapter 1\n\nOne.\n\nChapter 2: Wine\n\nTwo.");
    let chunks = cut(&text, Strategy::Chapter, 9);
    assert_eq!(chapter(&chunks[1]), Some((2, "Wine")));
}

#[test]
fn rows_are_never_one_sentence() {
    let row = "a long name of more than forty characters, no doubt,7\n";
    let table = file("a.csv", format!("name,number\n{row}{row}"));
    assert_eq!(cut(&table, Strategy::Sentence, 1).len(), 2);
    // In plain text they would be.
    assert_eq!(cut(&file("a.txt", format!("{row}{row}")), Strategy::Sentence, 1).len(), 1);
}

#[test]
fn token_limits_hold() {
    let page = file("a.html", format!("<h1>A</h1><p>{}</p>", "word ".repeat(50)));
    let mut options = ChunkOptions::new(Strategy::Chapter, 9).unwrap();
    options.max_tokens = NonZeroUsize::new(7);
    let chunks = chunk_extracted(&page, &options, count_words).unwrap();
    assert!(chunks.len() >= 7 && chunks.iter().all(|chunk| chunk.words <= 7));
}

/// As of a PDF, whose second page is blank.
#[test]
fn a_sentence_is_on_the_page_where_it_begins() {
    let mut food = Extracted::new(
        "Bread is made of flour and of yeast (and of\nwater). It rises.\n\nWine is made of grapes."
            .to_owned(),
    );
    food.wrapped = true;
    food.pages = vec![Page::new(1, 0..61), Page::new(2, 63..63), Page::new(3, 63..86)];
    let places: Vec<_> = cut(&food, Strategy::Sentence, 1).iter().map(|chunk| chunk.page).collect();
    assert_eq!(places, [Some(1), Some(1), Some(3)]);
}

/// The inputs that fuzzing found for extraction: their text is always cut at valid positions.
#[test]
fn the_fuzzing_corpus_is_cut() {
    const NAMES: [&str; 8] =
        ["a.txt", "a.md", "a.html", "a.json", "a.xml", "a.csv", "a.rs", "a.rtf"];
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/extract");
    let mut documents = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let Some((choice, bytes)) = bytes.split_first() else { continue };
        let name = NAMES[usize::from(*choice) % NAMES.len()];
        let Ok(extracted) = extract(bytes, &Hint::file(name)) else { continue };
        documents += 1;
        for strategy in [Strategy::Sentence, Strategy::Word, Strategy::Chapter] {
            for chunk in cut(&extracted, strategy, 3) {
                assert!(extracted.content.get(chunk.span.clone()).is_some(), "{}", path.display());
                let begins_later = |page: &Page| page.span.start > chunk.span.start;
                assert_eq!(
                    chunk.page.is_none(),
                    extracted.pages.first().is_none_or(begins_later),
                    "{}",
                    path.display()
                );
            }
        }
    }
    assert!(documents > 0, "the corpus has no document");
}
