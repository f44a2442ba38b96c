//! Cutting texts: the tests of seed 003 under their ids, and properties of every text.

use std::{cell::Cell, num::NonZeroUsize, time::Duration};

use marquetry_rag::{
    Chunk, ChunkError, ChunkOptions, Hint, Stop, Strategy, chunk_extracted, chunk_extracted_until,
    count_words, extract, straighten_quotes,
};
use proptest::{
    prelude::{Just, ProptestConfig},
    prop_assert, prop_assert_eq, prop_oneof, proptest,
    strategy::Strategy as _,
};

fn cut(text: &str, strategy: Strategy, size: i64) -> Vec<Chunk> {
    let options = ChunkOptions::new(strategy, size).unwrap();
    marquetry_rag::chunk(text, &options, |_| unreachable!("there is no limit of tokens")).unwrap()
}

fn contents(text: &str, strategy: Strategy, size: i64) -> Vec<String> {
    cut(text, strategy, size).into_iter().map(|chunk| chunk.content).collect()
}

fn sentences(text: &str) -> Vec<String> {
    contents(text, Strategy::Sentence, 1)
}

/// seed: 003/VectorUtilChunkingTest.testChunkBySentenceSingleSentence
#[test]
fn a_sentence_is_a_chunk() {
    assert_eq!(sentences("This is a single sentence."), ["This is a single sentence."]);
}

/// seed: 003/VectorUtilChunkingTest.testChunkBySentenceGrouping
#[test]
fn sentences_are_grouped() {
    let text = "First sentence. Second sentence. Third sentence. Fourth sentence.";
    let expected = ["First sentence. Second sentence.", "Third sentence. Fourth sentence."];
    assert_eq!(contents(text, Strategy::Sentence, 2), expected);
}

/// seed: 003/VectorUtilChunkingTest.testChunkBySentenceUnevenGroups
#[test]
fn the_last_group_may_be_smaller() {
    assert_eq!(
        contents("One. Two. Three. Four. Five.", Strategy::Sentence, 2),
        ["One. Two.", "Three. Four.", "Five."]
    );
}

/// seed: 003/VectorUtilChunkingTest.testChunkBySentenceEmptyInput
/// seed: 003/VectorUtilChunkingTest.testChunkByWordEmptyInput
/// seed: 003/VectorUtilChunkingTest.testChunkByChapterEmptyInput
#[test]
fn blank_text_has_no_chunks() {
    for strategy in [Strategy::Sentence, Strategy::Word, Strategy::Chapter, Strategy::Unknown] {
        assert_eq!(cut("", strategy, 5), []);
        assert_eq!(cut(" \n\t ", strategy, 5), []);
    }
}

/// seed: 003/VectorUtilChunkingTest.testChunkBySentenceSmartQuoteNormalization
/// seed: 003/DocumentUtilExtractionTest.testSmartQuoteNormalization
#[test]
fn quotes_are_straightened() {
    let text = "\u{201C}This is quoted.\u{201D} Another sentence.";
    let chunks = cut(text, Strategy::Sentence, 1);
    assert_eq!(chunks[0].content, "\"This is quoted.\"");
    assert_eq!(
        &text[chunks[0].span.clone()],
        "\u{201C}This is quoted.\u{201D}",
        "the place is that in the text"
    );
    assert_eq!(
        straighten_quotes("\u{201C}Hello\u{201D} and \u{2018}World\u{2019}"),
        "\"Hello\" and 'World'"
    );
}

/// seed: 003/VectorUtilChunkingTest.testChunkBySentenceAbbreviations
#[test]
fn abbreviations_end_no_sentence() {
    let text = "Dr. Smith went to Washington. He met the president.";
    assert_eq!(sentences(text), ["Dr. Smith went to Washington.", "He met the president."]);
    assert_eq!(sentences("It was J. R. Tolkien, cf. Fig. 3 and Prof. Lee. No. Yes.").len(), 3);
    assert_eq!(sentences("See e.g. Miller. Version 2.0 is out.").len(), 2);
}

/// seed: 003/VectorUtilChunkingTest.testChunkBySentenceLargeParagraph
#[test]
fn a_hundred_sentences_are_ten_chunks() {
    let text: String = (0..100).map(|number| format!("Sentence number {number}. ")).collect();
    let chunks = cut(&text, Strategy::Sentence, 10);
    assert_eq!(chunks.len(), 10);
    assert!(
        chunks
            .iter()
            .enumerate()
            .all(|(place, chunk)| chunk.sentences == 10 && chunk.index == place)
    );
}

/// seed: 003/VectorUtilChunkingTest.testChunkByWordBasic
/// seed: 003/VectorUtilChunkingTest.testChunkByWordUnevenWords
/// seed: 003/VectorUtilChunkingTest.testChunkByWordSingleWord
#[test]
fn words_are_grouped() {
    assert_eq!(
        contents("one two three four five six", Strategy::Word, 3),
        ["one two three", "four five six"]
    );
    assert_eq!(contents("a b c d e f g", Strategy::Word, 3), ["a b c", "d e f", "g"]);
    assert_eq!(contents("hello", Strategy::Word, 10), ["hello"]);
}

/// seed: 003/VectorUtilChunkingTest.testChunkByWordPreservesSpacing
#[test]
fn words_have_single_spaces_between_them() {
    assert_eq!(contents("hello world foo bar", Strategy::Word, 2), ["hello world", "foo bar"]);
    let text = "hello  world\n\tfoo   bar";
    assert_eq!(contents(text, Strategy::Word, 2), ["hello world", "foo bar"]);
    assert_eq!(&text[cut(text, Strategy::Word, 2)[1].span.clone()], "foo   bar");
}

/// seed: 003/VectorUtilChunkingTest.testChunkByWordLargeDocument
#[test]
fn ten_thousand_words_are_twenty_chunks() {
    let text: String = (0..10_000).map(|number| format!("word{number} ")).collect();
    let chunks = cut(&text, Strategy::Word, 500);
    assert_eq!(chunks.len(), 20);
    assert!(chunks.iter().all(|chunk| chunk.words == 500));
}

/// seed: 003/VectorUtilChunkingTest.testChunkByChapterMetadataPreserved
#[test]
fn chapters_stand_beside_the_content_of_chunks() {
    let chunks = cut("Chapter 1 The Setup\nFirst sentence. Second sentence.", Strategy::Chapter, 5);
    assert_eq!(chunks[0].content, "Chapter 1 The Setup\nFirst sentence. Second sentence.");
    // The seed's chunks are JSON with the chapter inside; part 14 wants it beside the content.
    let json = serde_json::to_value(&chunks[0]).unwrap();
    assert_eq!(json["chapter"], serde_json::json!({"number": 1, "title": "The Setup"}));
}

/// seed: 003/VectorUtilChunkingTest.testChunkByChapterSingleChapter
#[test]
fn a_chunk_knows_its_chapter() {
    let chunks = cut(
        "Chapter 1 The Beginning\nSome content here. More content follows.",
        Strategy::Chapter,
        5,
    );
    let [chunk] = chunks.as_slice() else { panic!("{chunks:?}") };
    let chapter = chunk.chapter.as_ref().unwrap();
    assert_eq!((chapter.number, &*chapter.title), (1, "The Beginning"));
    assert!(
        chunk.content.starts_with("Chapter 1 The Beginning\nSome content"),
        "{}",
        chunk.content
    );
}

/// seed: 003/VectorUtilChunkingTest.testChunkByChapterMultipleChapters
#[test]
fn three_chapters_are_three_chunks() {
    let text = "Chapter 1 Introduction\nFirst chapter content.\n\n\
        Chapter 2 Background\nSecond chapter content.\n\n\
        Chapter 3 Conclusion\nThird chapter content.";
    let chunks = cut(text, Strategy::Chapter, 5);
    let told: Vec<_> = chunks
        .iter()
        .map(|chunk| (chunk.chapter.as_ref().map(|it| (it.number, &*it.title)), &*chunk.content))
        .collect();
    assert_eq!(
        told,
        [
            (Some((1, "Introduction")), "Chapter 1 Introduction\nFirst chapter content."),
            (Some((2, "Background")), "Chapter 2 Background\nSecond chapter content."),
            (Some((3, "Conclusion")), "Chapter 3 Conclusion\nThird chapter content."),
        ]
    );
}

#[test]
fn chunks_do_not_cross_chapters() {
    let text = "A preface.\n\nChapter 1 Introduction\nFirst chapter content.\n\nPART II: Background\n\
        Second chapter content.\n\n## Conclusion ##\nThird chapter content. Chapter 3 ends here.";
    let chunks = cut(text, Strategy::Chapter, 50);
    let titles: Vec<_> =
        chunks.iter().map(|chunk| chunk.chapter.as_ref().map(|chapter| &*chapter.title)).collect();
    assert_eq!(titles, [None, Some("Introduction"), Some("Background"), Some("Conclusion")]);
    assert!(chunks[3].content.ends_with("Chapter 3 ends here."));
}

/// seed: 003/VectorUtilChunkingTest.testChunkByChapterNoChapters
#[test]
fn a_text_without_chapters_is_cut_all_the_same() {
    let text = "This is plain text with no chapter markers at all.";
    let chunks = cut(text, Strategy::Chapter, 5);
    assert_eq!((chunks.len(), &*chunks[0].content, &chunks[0].chapter), (1, text, &None));
}

/// Seed 003, part 14: "UNKNOWN: Single chunk (no splitting)".
#[test]
fn an_unknown_type_of_text_is_one_chunk() {
    let text = "\n Chapter 1 One\nFirst. “Second.”\n\n\nChapter 2 Two\nThird.\n";
    let [chunk] = &*cut(text, Strategy::Unknown, 1) else { panic!("not one chunk") };
    assert_eq!(chunk.content, "Chapter 1 One\nFirst. \"Second.\"\n\n\nChapter 2 Two\nThird.");
    assert_eq!(&text[chunk.span.clone()], text.trim());
    assert_eq!((chunk.sentences, chunk.words, &chunk.chapter), (0, 9, &None));

    // Neither tokens nor headings cut it, in a document either.
    let mut options = ChunkOptions::new(Strategy::Unknown, 1).unwrap();
    options.max_tokens = NonZeroUsize::new(2);
    let html = "<h1>Bread</h1><p>Flour. Water.</p><h2>Wine</h2><p>Grapes.</p>";
    let extracted = extract(html.as_bytes(), &Hint::file("a.html")).unwrap();
    let chunks = chunk_extracted(&extracted, &options, count_words).unwrap();
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0].content, extracted.content.trim());
    let code = extract(b"fn a() {}\n\nfn b() {}\n", &Hint::file("a.rs")).unwrap();
    assert_eq!(chunk_extracted(&code, &options, count_words).unwrap().len(), 1);

    // A text that is longer than a chunk may be is refused, and not cut after all.
    options.max_bytes = NonZeroUsize::new(9).unwrap();
    let cut = |text: &str| marquetry_rag::chunk(text, &options, count_words);
    assert_eq!(cut(" 123456789 ").unwrap().len(), 1);
    let error = cut("12345 7890").unwrap_err();
    assert_eq!(error, ChunkError::TooLong { bytes: 10, max: 9 });
    assert_eq!("unknown".parse(), Ok(Strategy::Unknown));
}

#[test]
fn a_table_of_contents_has_no_chapters() {
    let text = "Chapter 1 One\nChapter 2 Two\nChapter 3 Three\n\nChapter 1 One\nText.\nChapter 2 Two\nText.";
    let titles: Vec<_> = cut(text, Strategy::Chapter, 5)
        .into_iter()
        .filter_map(|chunk| chunk.chapter)
        .map(|chapter| chapter.title)
        .collect();
    assert_eq!(titles, ["One", "Two"]);
    let code = "# Real\nText.\n```sh\n# a comment\n```\n";
    assert_eq!(cut(code, Strategy::Chapter, 50).len(), 1, "what is in a fence is no heading");
    assert_eq!(
        cut("Part 2 of the plan failed.\nAnd so on.", Strategy::Chapter, 5)[0].chapter,
        None
    );
}

/// The crate refuses such a size; the tool `am7_chunk_content` takes 1, under the ids of the seed
/// (`tests/scenarios/knowledge/chunk_size_*.yaml`).
#[test]
fn a_chunk_holds_something() {
    for size in [0, -1, i64::MIN] {
        assert_eq!(ChunkOptions::new(Strategy::Sentence, size), Err(ChunkError::Size(size)));
    }
    let mut options = ChunkOptions::new(Strategy::Sentence, 2).unwrap();
    options.overlap = 2;
    let cut = marquetry_rag::chunk("Some content here.", &options, count_words);
    assert_eq!(cut, Err(ChunkError::Overlap { overlap: 2, size: 2 }));
}

#[test]
fn repetition_by_overlap_is_bounded() {
    let text = "word ".repeat(100_000);
    let mut options = ChunkOptions::new(Strategy::Word, 10_000).unwrap();
    options.overlap = 9_999;
    options.max_bytes = NonZeroUsize::new(1 << 20).unwrap();
    // It would be 5 GB.
    let cut = marquetry_rag::chunk(&text, &options, count_words);
    assert_eq!(cut, Err(ChunkError::Repeats { overlap: 9_999 }));
    options.overlap = 8_000;
    let chunks = marquetry_rag::chunk(&text, &options, count_words).unwrap();
    assert_eq!((chunks.len(), chunks[1].words), (46, 10_000));
    // A small text may be repeated as often as it likes.
    let chunks = marquetry_rag::chunk(&text[..500], &options, count_words).unwrap();
    assert_eq!(chunks.len(), 1);
    let tiny = "a ".repeat(ChunkOptions::MAX_CHUNKS + 1);
    let one = ChunkOptions::new(Strategy::Word, 1).unwrap();
    let cut = marquetry_rag::chunk(&tiny, &one, count_words);
    assert_eq!(cut, Err(ChunkError::TooMany));
}

/// seed: 003/VectorUtilChunkingTest.testChunkSizeLargerThanContent
#[test]
fn a_short_text_is_one_chunk() {
    assert_eq!(contents("Short.", Strategy::Sentence, 1000), ["Short."]);
}

#[test]
fn a_wrapped_paragraph_is_not_cut_at_its_lines() {
    let text = "A paragraph that was wrapped by an editor at some\ncolumn goes on in the next line. Then it ends.\r\n\r\n\
        A new one begins without a full stop, and is rather long\n\n- an item\n- another item\n1. a third";
    insta::assert_json_snapshot!(sentences(text), @r#"
    [
      "A paragraph that was wrapped by an editor at some\ncolumn goes on in the next line.",
      "Then it ends.",
      "A new one begins without a full stop, and is rather long",
      "- an item",
      "- another item",
      "1. a third"
    ]
    "#);
}

#[test]
fn a_sentence_over_the_limit_is_cut_between_words_and_a_word_between_characters() {
    let mut options = ChunkOptions::new(Strategy::Sentence, 3).unwrap();
    options.max_tokens = NonZeroUsize::new(8);
    let chars = |text: &str| text.chars().count();
    let chunks = marquetry_rag::chunk("one two three. ééééééééééé. Fin.", &options, chars).unwrap();
    let contents: Vec<_> = chunks.iter().map(|chunk| &*chunk.content).collect();
    assert_eq!(contents, ["one two", "three.", "ééééé", "éééééé.", "Fin."]);
}

/// Cuts a text, and returns the number of bytes that were measured for it.
fn measured(text: &str, options: &ChunkOptions) -> (Vec<Chunk>, usize) {
    let bytes = Cell::new(0);
    let count = |text: &str| {
        bytes.set(bytes.get() + text.len());
        count_words(text)
    };
    let chunks = marquetry_rag::chunk(text, options, count).unwrap();
    (chunks, bytes.get())
}

#[test]
fn each_sentence_and_word_is_measured_a_few_times_however_many_fit() {
    let sentences = "Ab. ".repeat(2_000);
    let words = "word ".repeat(2_000);
    let long = "x".repeat(20_000);
    let initials = format!("A.{}", "中.".repeat(2_000));
    for text in [&sentences, &words, &long, &initials] {
        for strategy in [Strategy::Sentence, Strategy::Word, Strategy::Chapter] {
            for (size, overlap) in [(1, 0), (5, 2), (100_000, 0), (100_000, 99_999)] {
                for tokens in [1, 4, 512, 100_000] {
                    let mut options = ChunkOptions::new(strategy, size).unwrap();
                    (options.overlap, options.max_tokens) = (overlap, NonZeroUsize::new(tokens));
                    options.max_bytes = NonZeroUsize::new(1 << 10).unwrap();
                    let bytes = Cell::new(0);
                    let count = |text: &str| {
                        bytes.set(bytes.get() + text.len());
                        count_words(text)
                    };
                    // The repetition may exceed its limit; the measured text is bounded all the
                    // same.
                    let _ = marquetry_rag::chunk(text, &options, count);
                    let max = 4 * text.len() + 1024;
                    assert!(bytes.get() <= max, "{} of {}: {options:?}", bytes.get(), text.len());
                }
            }
        }
    }
}

#[test]
fn a_chunk_is_bounded_in_bytes_whatever_counts_as_a_token() {
    // No token at all for the built-in model, and one word.
    for text in ["x".repeat(1 << 20), "日本".repeat(1 << 18), "so long ".repeat(1 << 17)] {
        let chunks = cut(&text, Strategy::Sentence, 1_000_000);
        let max = ChunkOptions::default().max_bytes.get();
        assert!(chunks.iter().all(|chunk| chunk.content.len() <= max));
        let bytes: usize = chunks.iter().map(|chunk| chunk.span.len()).sum();
        assert!(bytes + chunks.len() >= text.trim().len(), "nothing is lost");
        assert!(chunks.len() < 4 * text.len() / max);
    }
}

#[test]
fn a_chain_of_initials_is_looked_at_once() {
    let text = format!("A.{}", "中.".repeat(100_000));
    assert!(!cut(&text, Strategy::Sentence, 1).is_empty());
}

#[test]
fn headings_before_much_white_space_cost_no_more_than_others() {
    let text = format!("{}{}", "# a\nx\n".repeat(5_000), " ".repeat(2 << 20));
    assert_eq!(cut(&text, Strategy::Chapter, 5).len(), 5_000);
}

#[test]
fn a_title_is_copied_to_its_chunks_up_to_a_length() {
    let html = format!("<h1>{}</h1>{}", "title ".repeat(100_000), "<p>One. Two.</p>".repeat(500));
    let extracted = extract(html.as_bytes(), &Hint::file("a.html")).unwrap();
    let one = ChunkOptions::new(Strategy::Sentence, 1).unwrap();
    let chunks = chunk_extracted(&extracted, &one, count_words).unwrap();
    assert!(chunks.len() >= 1_000);
    let titles = chunks.iter().map(|chunk| chunk.chapter.as_ref().unwrap().title.len());
    assert!(titles.max().unwrap() <= 512);
}

#[test]
fn cutting_ends_at_its_deadline_and_when_its_caller_goes() {
    let text = "One word. ".repeat(100_000);
    let extracted = extract(text.as_bytes(), &Hint::file("a.txt")).unwrap();
    let options = ChunkOptions::default();
    let cut = |stop: &Stop| chunk_extracted_until(&extracted, &options, stop, count_words);
    let soon = Duration::ZERO;
    assert_eq!(cut(&Stop::within(soon)), Err(ChunkError::Time(soon)));
    let stop = Stop::never();
    let counted = Cell::new(0);
    let mut some = ChunkOptions::default();
    some.max_tokens = NonZeroUsize::new(100);
    let gone = chunk_extracted_until(&extracted, &some, &stop, |text| {
        counted.set(counted.get() + text.len());
        // The caller goes away during the work.
        stop.now();
        1
    });
    assert_eq!(gone, Err(ChunkError::Stopped));
    assert!(counted.get() < text.len() / 4, "{counted:?}");
}

/// Cuts a program like a document, and returns the chunks.
fn cut_code(name: &str, text: &str) -> Vec<String> {
    let extracted = extract(text.as_bytes(), &Hint::file(name)).unwrap();
    let mut options = ChunkOptions::default();
    options.max_tokens = Some(ChunkOptions::USUAL_TOKENS);
    // About the number of tokens that models count in programs.
    let count = |text: &str| text.len().div_ceil(4);
    let chunks = chunk_extracted(&extracted, &options, count).unwrap();
    chunks.into_iter().map(|chunk| chunk.content).collect()
}

#[test]
fn a_passage_of_rust_holds_a_function() {
    let body: String = (0..14)
        .map(|it| {
            format!("    let value_{it} = read_next(input)? + {it};\n    check(value_{it});\n")
        })
        .collect();
    let text = format!(
        "//! Reading.\n\nuse std::io;\n\n/// Reads the head.\n#[must_use]\nfn head(input: &mut Input) -> Head {{\n{body}\n    Head {{}}\n}}\n\n\
         /// Reads the tail.\nfn tail(input: &mut Input) -> Tail {{\n{body}\
         \n    Tail {{}}\n}}\n\nstruct Head {{}}\n\nstruct Tail {{}}\n"
    );
    let chunks = cut_code("read.rs", &text);
    let head = chunks.iter().find(|chunk| chunk.contains("fn head")).unwrap();
    assert!(head.starts_with("/// Reads the head.\n#[must_use]\n"), "{head}");
    assert!(head.ends_with("    Head {}\n}"), "{head}");
    let tail = chunks.iter().find(|chunk| chunk.contains("fn tail")).unwrap();
    assert!(tail.starts_with("/// Reads the tail.") && tail.ends_with("    Tail {}\n}"), "{tail}");
    assert_eq!(chunks.len(), 4, "{chunks:#?}");
    assert_eq!(chunks[3], "struct Head {}\n\nstruct Tail {}");
}

fn method(name: &str) -> String {
    let lines: String = (0..9)
        .map(|it| format!("        row_{it} = self.table.select(column={it}, limit=100)\n"))
        .collect();
    format!(
        "    @cached\n    def {name}(self):\n        \"\"\"Says {name}.\"\"\"\n{lines}\n        if row_0:\n            return row_1\n\n        return row_2\n"
    )
}

#[test]
fn a_passage_of_python_holds_a_method_of_a_long_class() {
    let names = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];
    let class = names.map(method).join("\n");
    let text = format!(
        "import os\nimport sys\n\n\nclass Table:\n    \"\"\"A table.\"\"\"\n\n{class}\n\ndef main():\n    Table().first()\n"
    );
    let chunks = cut_code("table.py", &text);
    for name in names {
        let chunk = chunks.iter().find(|chunk| chunk.contains(&format!("def {name}("))).unwrap();
        assert!(chunk.trim_start().starts_with("@cached"), "{chunk}");
        assert!(chunk.ends_with("return row_2"), "{chunk}");
    }
    assert!(chunks.last().unwrap().starts_with("def main():"));
    assert!(chunks[0].starts_with("import os"));
}

#[test]
fn a_passage_of_javascript_holds_a_function_without_blank_lines_around() {
    let body: String = (0..20)
        .map(|it| format!("  items.push(await load('/api/{it}', {{ cache: true }}));\n"))
        .collect();
    let function =
        |name: &str| format!("export async function {name}(items) {{\n{body}  return items;\n}}\n");
    let text = format!("{}{}{}", function("one"), function("two"), function("three"));
    let chunks = cut_code("load.js", &text);
    assert_eq!(chunks.len(), 3, "{chunks:#?}");
    for (chunk, name) in chunks.iter().zip(["one", "two", "three"]) {
        assert_eq!(*chunk, function(name).trim());
    }
}

#[test]
fn source_code_of_any_shape_is_cut_in_time_that_grows_with_it() {
    let deep: String =
        (0..2_000).map(|depth| format!("{}if x {{\n\n", " ".repeat(depth % 400))).collect();
    let flat = "x = 1\n".repeat(50_000);
    let closed = "}\n\n".repeat(50_000);
    let one_line = "f();".repeat(50_000);
    for text in [deep, flat, closed, one_line] {
        let extracted = extract(text.as_bytes(), &Hint::file("a.js")).unwrap();
        let mut options = ChunkOptions::default();
        options.max_tokens = NonZeroUsize::new(512);
        let bytes = Cell::new(0);
        let count = |text: &str| {
            bytes.set(bytes.get() + text.len());
            text.len().div_ceil(4)
        };
        let chunks = chunk_extracted(&extracted, &options, count).unwrap();
        assert!(bytes.get() <= 8 * text.len(), "{} of {}", bytes.get(), text.len());
        let letters = |text: &str| text.chars().filter(|one| !one.is_whitespace()).count();
        let kept: usize = chunks.iter().map(|chunk| letters(&chunk.content)).sum();
        assert_eq!(kept, letters(&text));
    }
}

fn text() -> impl proptest::strategy::Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Zé]{1,9}",
        Just(". ".to_owned()),
        Just("\n".to_owned()),
        Just("\r\n\r\n".to_owned()),
        Just(" ".to_owned()),
        Just("Dr. ".to_owned()),
        Just("“x” ".to_owned()),
        Just("\nChapter 1 Title\n".to_owned()),
        Just("\n# Title\n".to_owned()),
        Just("日本語。".to_owned()),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_are_the_text(
        text in text(), strategy in 0..3_usize, size in 1..6_i64, overlap in 0..6_usize, limit in proptest::option::of(1..9_usize),
        max in 4..80_usize,
    ) {
        let strategy = [Strategy::Sentence, Strategy::Word, Strategy::Chapter][strategy];
        let mut options = ChunkOptions::new(strategy, size).unwrap();
        options.overlap = overlap.min(size as usize - 1);
        options.max_tokens = limit.and_then(NonZeroUsize::new);
        options.max_bytes = NonZeroUsize::new(max).unwrap();
        let (chunks, bytes) = measured(&text, &options);
        prop_assert!(bytes <= 4 * text.len(), "{} of {}", bytes, text.len());
        prop_assert!(chunks.iter().all(|chunk| chunk.span.len() <= max));
        let mut covered = vec![false; text.len()];
        let mut last = None;
        for (place, chunk) in chunks.iter().enumerate() {
            prop_assert_eq!(chunk.index, place);
            let part = &text[chunk.span.clone()];
            prop_assert_eq!(part.trim(), part);
            prop_assert!(!part.is_empty());
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&straighten_quotes(part)), words(&chunk.content));
            prop_assert_eq!(chunk.words, count_words(&chunk.content));
            prop_assert!(limit.is_none_or(|limit| chunk.words <= limit));
            // Each begins and ends after the one before it.
            prop_assert!(last.is_none_or(|(start, end)| start < chunk.span.start && end < chunk.span.end));
            last = Some((chunk.span.start, chunk.span.end));
            covered[chunk.span.clone()].fill(true);
            if options.overlap == 0 && place > 0 {
                prop_assert!(chunks[place - 1].span.end <= chunk.span.start);
            }
        }
        let is_lost = |(at, character): (usize, char)| !character.is_whitespace() && !covered[at];
        prop_assert!(!text.char_indices().any(is_lost));
    }

    #[test]
    fn any_text_is_cut(text: String, size in 1..9_i64) {
        for strategy in [Strategy::Sentence, Strategy::Word, Strategy::Chapter] {
            cut(&text, strategy, size);
        }
        let is_blank = text.trim().is_empty();
        prop_assert_eq!(cut(&text, Strategy::Unknown, size).len(), usize::from(!is_blank));
    }
}
