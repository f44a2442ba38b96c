//! Converts texts to terms, the stems of their words.

use std::{borrow::Cow, collections::HashMap};

use snowball_stemmers_rs::Stemmer;
use unicode_normalization::char::is_combining_mark;

use super::{
    language::Language,
    plain::{is_removable_mark, plain},
    terms::{QuestionWord, Term},
};
use crate::types::{Context, Document, NewChunk};

/// Converts words to terms, with a cache.
pub(crate) struct Analyzer {
    /// Stemmers by the numbers of languages, created on first use.
    stems: [Option<Stems>; Language::COUNT],
    /// Number of words in all caches.
    remembered: usize,
}

struct Stems {
    stemmer: Option<Stemmer>,
    /// Terms by words; stop words have an empty term.
    terms: HashMap<Box<str>, Box<str>>,
}

/// Longest word in characters; of longer ones only the beginning counts. Most of those are not
/// words.
const MAX_WORD_CHARS: usize = 64;
/// Maximum number of words in the caches, which takes about ten megabytes.
const MAX_STEMS: usize = 1 << 16;

/// Weights of the words of fields. A word of the passage has the weight 1. With these, questions
/// find the right one of many similar manuals by its title, headings, file and folder
/// (`crates/rag/tests/manuals.rs`).
mod weight {
    pub(super) const TITLE: u32 = 3;
    pub(super) const HEADING: u32 = 3;
    pub(super) const NAME: u32 = 2;
    pub(super) const FOLDER: u32 = 2;
}

/// The terms of a chunk with their frequencies, each once and in order, and the length of its text.
pub(crate) type CountedTerms = (Vec<(Term, u8)>, u32);

impl Default for Analyzer {
    fn default() -> Self {
        Self { stems: [const { None }; Language::COUNT], remembered: 0 }
    }
}

impl Analyzer {
    /// Passes each term of a text to `see`, in order.
    ///
    /// Words are runs of letters and digits, in lower case, without accents that do not distinguish
    /// words. Scripts that are written without spaces are split into overlapping groups of
    /// characters.
    pub(crate) fn analyze(&mut self, text: &str, language: Language, mut see: impl FnMut(&str)) {
        pieces(&plain(text), |piece| match piece {
            Piece::Group(group) => see(group),
            Piece::Word(word) => {
                let language = script_of(word).unwrap_or(Some(language));
                self.term(word, language, &mut see);
            }
        });
    }

    /// Returns the terms of the chunks of a document. Words of the title, of the headings above a
    /// chunk, and of file name and folder count as if the chunk contained them several times. The
    /// length of a chunk is that of its text: BM25 would otherwise rank chunks below long paths
    /// lower.
    pub(crate) fn rows<E>(
        &mut self,
        document: &Document,
        chunks: &[NewChunk],
        mut number: impl FnMut(&str) -> Result<Term, E>,
    ) -> Result<Vec<CountedTerms>, E> {
        let context = document.context();
        let document_language = language_of(chunks);
        let mut rows = Vec::with_capacity(chunks.len());
        // Document fields as terms, by language, for chunks in another language than most of the
        // document.
        let mut shared: Vec<(Language, Vec<(Term, u32)>)> = Vec::new();
        for chunk in chunks {
            let language = Language::of_plain(&plain(&chunk.content))
                .or(document_language)
                .unwrap_or(Language::ENGLISH);
            if language != Language::ENGLISH {
                // Marks the document's language, which questions look up.
                number(language.tag())?;
            }
            let mut terms = Vec::new();
            self.add(&chunk.content, language, 1, &mut number, &mut terms)?;
            let length = u32::try_from(terms.len()).unwrap_or(u32::MAX);
            let index = if let Some(index) = shared.iter().position(|(of, _)| *of == language) {
                index
            } else {
                let mut terms = Vec::new();
                self.add_context(&context, language, &mut number, &mut terms)?;
                shared.push((language, terms));
                shared.len() - 1
            };
            terms.extend_from_slice(&shared[index].1);
            for heading in context.headings(chunk) {
                self.add(heading, language, weight::HEADING, &mut number, &mut terms)?;
            }
            terms.sort_unstable();
            let counted = terms.chunk_by(|left, right| left.0 == right.0).map(|same| {
                let count: u32 = same.iter().map(|(_, count)| count).sum();
                (same[0].0, u8::try_from(count).unwrap_or(u8::MAX))
            });
            rows.push((counted.collect(), length));
        }
        Ok(rows)
    }

    fn add_context<E>(
        &mut self,
        context: &Context,
        language: Language,
        number: &mut impl FnMut(&str) -> Result<Term, E>,
        terms: &mut Vec<(Term, u32)>,
    ) -> Result<(), E> {
        if let Some(title) = &context.title {
            self.add(title, language, weight::TITLE, number, terms)?;
        }
        if let Some(name) = &context.name {
            self.add(&with_parts(name), language, weight::NAME, number, terms)?;
        }
        for folder in &context.folders {
            self.add(&with_parts(folder), language, weight::FOLDER, number, terms)?;
        }
        Ok(())
    }

    fn add<E>(
        &mut self,
        text: &str,
        language: Language,
        count: u32,
        number: &mut impl FnMut(&str) -> Result<Term, E>,
        terms: &mut Vec<(Term, u32)>,
    ) -> Result<(), E> {
        let mut failed = None;
        self.analyze(text, language, |term| match number(term) {
            Ok(number) => terms.push((number, count)),
            Err(error) => failed = failed.take().or(Some(error)),
        });
        failed.map_or(Ok(()), Err)
    }

    /// Returns the words of a question, each once, up to a maximum. A word has a term for each
    /// language of `languages` in which it may be meant, since a question is too short to tell.
    ///
    /// `languages` begins with English, and may leave out languages without documents in the store.
    /// This saves time without changing scores: the words and their counts depend only on the
    /// question, so the languages of documents that the searcher may not read have no influence.
    pub(crate) fn question(
        &mut self,
        text: &str,
        max: usize,
        languages: &[Language],
    ) -> Vec<QuestionWord> {
        let mut words: Vec<QuestionWord> = Vec::new();
        let mut indexes: HashMap<String, usize> = HashMap::new();
        let text = plain(text);
        let said_in = Language::of_plain(&text).unwrap_or(Language::ENGLISH);
        pieces(&text, |piece| {
            let Some(terms) = self.question_terms(piece, said_in, languages) else { return };
            let is_optional =
                matches!(piece, Piece::Word(word) if Language::ENGLISH.is_stop_word(word));
            if terms.is_empty() && !is_optional {
                return;
            }
            // The English stem, or the word itself if it has no English stem. No stem contains a
            // space.
            let key = match piece {
                Piece::Word(word) if is_optional => format!(" {word}"),
                _ => terms[0].clone(),
            };
            match indexes.get(&key) {
                Some(&index) => {
                    let known = &mut words[index];
                    known.count += 1;
                    for term in terms {
                        if !known.terms.contains(&term) {
                            known.terms.push(term);
                        }
                    }
                }
                None if words.len() < max => {
                    indexes.insert(key, words.len());
                    words.push(QuestionWord { terms, count: 1, is_optional });
                }
                None => {}
            }
        });
        words
    }

    /// Returns the terms that may stand for a part of a question, the English one first; None for a
    /// stop word of the question's language.
    fn question_terms(
        &mut self,
        piece: Piece<'_>,
        said_in: Language,
        languages: &[Language],
    ) -> Option<Vec<String>> {
        let word = match piece {
            Piece::Group(group) => return Some(vec![group.to_owned()]),
            Piece::Word(word) => word,
        };
        let mut terms: Vec<String> = Vec::new();
        match script_of(word) {
            Some(language) => {
                self.term(word, language, &mut |term: &str| terms.push(term.to_owned()));
            }
            None if said_in.is_stop_word(word) => return None,
            None => {
                for &language in languages {
                    self.term(word, Some(language), &mut |term: &str| {
                        if !terms.iter().any(|known| known == term) {
                            terms.push(term.to_owned());
                        }
                    });
                }
            }
        }
        Some(terms)
    }

    /// Passes the term of a word to `see`, unless it is a stop word.
    fn term(&mut self, word: &str, language: Option<Language>, see: &mut impl FnMut(&str)) {
        let Some(language) = language else { return see(word) };
        // Frequent words come back at once, so dropping all words costs less than finding old ones.
        if self.remembered >= MAX_STEMS {
            self.stems = [const { None }; Language::COUNT];
            self.remembered = 0;
        }
        let stems = self.stems[language.index()].get_or_insert_with(|| Stems {
            stemmer: language.algorithm().map(Stemmer::create),
            terms: HashMap::new(),
        });
        if let Some(term) = stems.terms.get(word) {
            if !term.is_empty() {
                see(term);
            }
            return;
        }
        let stem = stems.stemmer.as_ref().map_or(Cow::Borrowed(word), |it| it.stem(word));
        let term = match stem {
            _ if language.is_stop_word(word) => Cow::Borrowed(""),
            // If a stemmer removes the whole word, the word itself is used.
            stem if stem.is_empty() => Cow::Owned(format!("{word}{}", language.tag())),
            stem if language.tag().is_empty() => stem,
            stem => Cow::Owned(format!("{stem}{}", language.tag())),
        };
        if !term.is_empty() {
            see(&term);
        }
        stems.terms.insert(word.into(), term.into());
        self.remembered += 1;
    }
}

/// Returns the language of most of a document, if its words identify one.
fn language_of(chunks: &[NewChunk]) -> Option<Language> {
    /// Number of bytes after which more text would not change the result.
    const ENOUGH: usize = 4 << 10;
    let mut sample = String::new();
    for chunk in chunks {
        let content = &chunk.content;
        sample.push_str(&content[..content.floor_char_boundary(ENOUGH - sample.len())]);
        sample.push('\n');
        if sample.len() >= ENOUGH {
            break;
        }
    }
    Language::of_plain(&plain(&sample))
}

/// Returns the language by which all words of the script of the first letter are stemmed, if that
/// script has one stemmer or none; None for Latin.
fn script_of(word: &str) -> Option<Option<Language>> {
    let first = word.chars().find(|character| character.is_alphabetic())?;
    match Language::of_script(first) {
        Some(language) => Some(Some(language)),
        None if first < '\u{250}' || ('\u{1e00}'..='\u{1eff}').contains(&first) => None,
        None => Some(None),
    }
}

/// Returns a name, followed by its words, separated and joined: `SetupGuide_v2.md` is also `Setup
/// Guide v 2 md` and `SetupGuidev2`.
fn with_parts(name: &str) -> String {
    let mut parts = String::new();
    let mut has_more = false;
    let mut last = ' ';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let next_is_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        let begins = (last.is_lowercase() && character.is_uppercase())
            || (last.is_uppercase() && character.is_uppercase() && next_is_lower)
            || (last.is_alphabetic() && character.is_numeric())
            || (last.is_numeric() && character.is_alphabetic());
        if begins {
            parts.push(' ');
            has_more = true;
        }
        parts.push(character);
        last = character;
    }
    let mut all = name.to_owned();
    if has_more {
        all.push(' ');
        all += &parts;
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.contains(|character: char| !character.is_alphanumeric()) {
        all.push(' ');
        all.extend(stem.chars().filter(|character| character.is_alphanumeric()));
    }
    all
}

/// A part of a plain text.
#[derive(Clone, Copy)]
enum Piece<'a> {
    /// A word in lower case.
    Word(&'a str),
    /// Neighbouring characters of a script that is written without spaces.
    Group(&'a str),
}

/// Returns whether a character belongs to a word: letters, digits, and marks, which some scripts
/// write as vowels.
pub(super) fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() || is_combining_mark(character)
}

/// Passes the parts of a plain text to `see`, in order.
fn pieces(text: &str, mut see: impl FnMut(Piece<'_>)) {
    let mut word = String::new();
    for run in text.split(|character: char| !is_part_of_word(character)) {
        // Marks without a letter before them are not a word.
        let run = run.trim_start_matches(is_combining_mark);
        if run.is_ascii() {
            if !run.is_empty() {
                word.clear();
                word.push_str(&run[..run.len().min(MAX_WORD_CHARS)]);
                word.make_ascii_lowercase();
                see(Piece::Word(&word));
            }
            continue;
        }
        let mut rest = run;
        while let Some(first) = rest.chars().next() {
            let group = group_size(first);
            let end = rest.find(|other| group_size(other) != group).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            rest = after;
            if let Some(size) = group {
                groups(part, size, &mut see);
            } else {
                word.clear();
                word.extend(part.chars().take(MAX_WORD_CHARS).flat_map(char::to_lowercase));
                // A capital letter may become a letter with a combining mark in lower case: İ.
                word.retain(|character| !is_removable_mark(character));
                see(Piece::Word(&word));
            }
        }
    }
}

/// Returns the number of characters in a group, for scripts that are written without spaces;
/// [`None`] for others. Chinese and Japanese words have about two characters, South-East Asian
/// words four or five.
pub(super) fn group_size(character: char) -> Option<usize> {
    match character {
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}' => Some(2),
        // Thai and Lao, Burmese, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => Some(3),
        _ => None,
    }
}

fn groups(run: &str, size: usize, see: &mut impl FnMut(Piece<'_>)) {
    let bounds: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    if bounds.len() <= size + 1 {
        return see(Piece::Group(run));
    }
    for bound in bounds.windows(size + 1) {
        see(Piece::Group(&run[bound[0]..bound[size]]));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_become_terms() {
        check("The cats' running, and O'Brien ran!", "cat run o brien ran");
        check("Café NAÏVE Ｆｕｌｌ", "cafe naiv full");
        check("x=1; DROP INDEX a_b--", "x 1 drop index b");
        check("東京都 is 京", "東京 京都 京");
        check("第3章と", "第 3 章と");
        check("to be or not to be", "");
        check(&"a".repeat(100), &"a".repeat(64));
        check("", "");
        check("\u{94d} \u{301}", "");
    }

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(terms(text, Language::ENGLISH).join(" "), want);
    }

    fn terms(text: &str, language: Language) -> Vec<String> {
        let mut terms = Vec::new();
        Analyzer::default().analyze(text, language, |term| terms.push(term.to_owned()));
        terms
    }

    fn language(tag: &str) -> Language {
        Language::latin().find(|language| language.tag() == tag).unwrap()
    }

    #[test]
    fn marks_stay_where_they_make_another_word() {
        for words in [
            ["दिन", "दान", "दीन"],
            ["パン", "ハン", "バン"],
            ["ไม่", "ไหม", "ใหม่"],
            ["কাল", "কিল", "কুল"],
        ] {
            let terms = words.map(|word| terms(word, Language::ENGLISH));
            for (index, one) in terms.iter().enumerate() {
                assert!(
                    !one.is_empty() && !terms[index + 1..].contains(one),
                    "{words:?} {terms:?}"
                );
            }
        }
        for (left, right) in [
            ("crème", "creme"),
            ("Ελλάδα", "ελλαδα"),
            ("ёлка", "елка"),
            ("كِتَابٌ", "كتاب"),
            ("שָׁלוֹם", "שלום"),
            ("ﾊﾟﾝ", "パン"),
            ("क्\u{200d}ष", "क्ष"),
        ] {
            assert_eq!(terms(left, Language::ENGLISH), terms(right, Language::ENGLISH), "{left}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_searched_by_groups() {
        check("ภาษาไทย", "ภาษ าษา ษาไ าไท ไทย");
        check("ไป", "ไป");
        check("ພາສາ", "ພາສ າສາ");
        check("ភាសា", "ភាស ាសា");
    }

    #[test]
    fn words_are_stemmed_by_their_language() {
        let spanish = language("/es");
        assert_eq!(terms("los algoritmos", spanish), terms("algoritmo", spanish));
        assert_ne!(terms("algoritmos", spanish), terms("algoritmos", Language::ENGLISH));
        check("ποταμοί", &terms("ποταμός", Language::ENGLISH).join(" "));
        check("книги", &terms("книгами", Language::ENGLISH).join(" "));
    }

    #[test]
    fn questions_have_terms_in_all_languages_of_the_store() {
        let english = [Language::ENGLISH];
        let both = [Language::ENGLISH, language("/es")];
        check_question("algoritmos", &english, &[("algoritmo", 1)]);
        check_question("algoritmos", &both, &[("algoritmo algoritm/es", 1)]);
        check_question("the mill, the Mills and a dam", &english, &[("mill", 2), ("dam", 1)]);
        let words = Analyzer::default().question("a b b c d e f g h i j k l", 9, &english);
        assert_eq!(words.len(), 9);
    }

    #[track_caller]
    fn check_question(text: &str, languages: &[Language], want: &[(&str, u32)]) {
        let words = Analyzer::default().question(text, 9, languages);
        let words: Vec<_> = words.iter().map(|word| (word.terms.join(" "), word.count)).collect();
        assert!(words.iter().map(|(terms, count)| (&**terms, *count)).eq(want.iter().copied()));
    }

    #[test]
    fn names_are_words() {
        for (name, want) in [
            ("setup.md", "setup.md"),
            ("set-up.md", "set-up.md setup"),
            ("SetupGuide_v2.md", "SetupGuide_v2.md Setup Guide_v 2.md SetupGuidev2"),
            ("HTTPServer", "HTTPServer HTTP Server"),
        ] {
            assert_eq!(with_parts(name), want);
        }
    }

    proptest! {
        #[test]
        fn any_text_has_terms_without_spaces(text: String) {
            Analyzer::default().analyze(&text, Language::ENGLISH, |term| {
                assert!(!term.is_empty() && !term.contains(char::is_whitespace));
            });
        }
    }
}
