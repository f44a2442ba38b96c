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
    /// Stemmers by [`Language::index`], created on first use.
    stemmers: [Option<CachedStemmer>; Language::COUNT],
    /// Number of words in the caches of all stemmers.
    cached_words: usize,
}

struct CachedStemmer {
    /// [`None`] for a language without a stemmer: its words are their own terms.
    stemmer: Option<Stemmer>,
    /// Terms by words; stop words have an empty term.
    terms: HashMap<Box<str>, Box<str>>,
}

/// Maximum number of characters of a word. Longer runs of letters are rarely words; the rest of
/// them is ignored.
const MAX_WORD_CHARS: usize = 64;
/// Maximum number of words in the caches, which take about ten megabytes then.
const MAX_CACHED_WORDS: usize = 1 << 16;

/// Weights of words that describe a passage; words of the passage itself have the weight 1. With
/// these weights, questions find the right one of many similar manuals by its title, headings, file
/// and folder (`crates/rag/tests/manuals.rs`).
mod weight {
    pub(super) const TITLE: u32 = 3;
    pub(super) const HEADING: u32 = 3;
    pub(super) const NAME: u32 = 2;
    pub(super) const FOLDER: u32 = 2;
}

/// The terms of a chunk.
pub(crate) struct ChunkTerms {
    /// Each term once with its frequency, in ascending order.
    pub(crate) terms: Vec<(Term, u8)>,
    /// Number of terms of the chunk's own text, with repetitions.
    pub(crate) length: u32,
}

impl Default for Analyzer {
    fn default() -> Self {
        Self { stemmers: [const { None }; Language::COUNT], cached_words: 0 }
    }
}

impl Analyzer {
    /// Passes each term of a text to `emit`, in order.
    ///
    /// Words are runs of letters and digits, in lower case, without accents that do not distinguish
    /// words. Scripts that are written without spaces, or with particles at their words, are split
    /// into overlapping n-grams. Compound words are followed by their parts.
    pub(crate) fn analyze(
        &mut self,
        text: &str,
        language: Language,
        mut emit: impl FnMut(&str, Extent),
    ) {
        for_each_token(&plain(text), |token| match token {
            Token::Ngram(ngram) => emit(ngram, Extent::Whole),
            Token::Syllable(syllable) => emit(syllable, Extent::Part),
            Token::Identifier(identifier) => emit(identifier, Extent::Part),
            Token::Word(word) | Token::Compound(word) => {
                self.stem_word(word, language, &mut |term: &str| emit(term, Extent::Whole));
            }
            Token::Part(part) => {
                self.stem_word(part, language, &mut |term: &str| emit(term, Extent::Part));
            }
        });
    }

    /// Passes the term of a word to `emit`, by the stemmer of its script or of this language.
    fn stem_word(&mut self, word: &str, language: Language, emit: &mut impl FnMut(&str)) {
        match Stemming::of(word) {
            Stemming::ByLanguage => self.stem(word, language, emit),
            Stemming::ByScript(language) => self.stem(word, language, emit),
            Stemming::None => emit(word),
        }
    }

    /// Counts the terms of each chunk of a document. `intern` returns the number of a term.
    ///
    /// Words of the title, of the headings above a chunk, and of file name and folder count as if
    /// the chunk contained them several times. They do not add to the length of the chunk, because
    /// BM25 would then rank chunks of files with long paths lower.
    pub(crate) fn count_terms<E>(
        &mut self,
        document: &Document,
        chunks: &[NewChunk],
        mut intern: impl FnMut(&str) -> Result<Term, E>,
    ) -> Result<Vec<ChunkTerms>, E> {
        let context = document.context();
        let document_language = language_of(chunks);
        let mut counted_chunks = Vec::with_capacity(chunks.len());
        // The terms of title, file name and folders, by the language in which they are stemmed:
        // that of the chunk, since a document may have chunks in several languages.
        let mut context_terms: Vec<(Language, Vec<(Term, u32)>)> = Vec::new();
        for chunk in chunks {
            let language = Language::of_plain(&plain(&chunk.content))
                .or(document_language)
                .unwrap_or(Language::ENGLISH);
            if language != Language::ENGLISH {
                // Marks the document's language, which questions look up.
                intern(language.tag())?;
            }
            let mut terms = Vec::new();
            let length = self.add_terms(&chunk.content, language, 1, &mut intern, &mut terms)?;
            let known = context_terms.iter().position(|(of, _)| *of == language);
            let index = if let Some(index) = known {
                index
            } else {
                let mut terms = Vec::new();
                self.add_context_terms(&context, language, &mut intern, &mut terms)?;
                context_terms.push((language, terms));
                context_terms.len() - 1
            };
            terms.extend_from_slice(&context_terms[index].1);
            for heading in context.headings(chunk) {
                self.add_terms(heading, language, weight::HEADING, &mut intern, &mut terms)?;
            }
            counted_chunks.push(ChunkTerms { terms: summed(terms), length });
        }
        Ok(counted_chunks)
    }

    fn add_context_terms<E>(
        &mut self,
        context: &Context,
        language: Language,
        intern: &mut impl FnMut(&str) -> Result<Term, E>,
        terms: &mut Vec<(Term, u32)>,
    ) -> Result<(), E> {
        if let Some(title) = &context.title {
            self.add_terms(title, language, weight::TITLE, intern, terms)?;
        }
        if let Some(name) = &context.name {
            self.add_terms(&with_joined(name), language, weight::NAME, intern, terms)?;
        }
        for folder in &context.folders {
            self.add_terms(&with_joined(folder), language, weight::FOLDER, intern, terms)?;
        }
        Ok(())
    }

    /// Appends the terms of a text to `terms`, each with `weight`, and returns the length of the
    /// text: the number of its terms without those of parts of words. Texts with many compound
    /// words are not longer than others.
    fn add_terms<E>(
        &mut self,
        text: &str,
        language: Language,
        weight: u32,
        intern: &mut impl FnMut(&str) -> Result<Term, E>,
        terms: &mut Vec<(Term, u32)>,
    ) -> Result<u32, E> {
        let mut first_error = None;
        let mut length = 0_u32;
        self.analyze(text, language, |term, extent| match intern(term) {
            Ok(number) => {
                terms.push((number, weight));
                length = length.saturating_add(u32::from(extent == Extent::Whole));
            }
            // `analyze` cannot be stopped, so the error waits for its end.
            Err(error) => first_error = first_error.take().or(Some(error)),
        });
        first_error.map_or(Ok(length), Err)
    }

    /// Returns the words of a question, each once, at most `max`. A word has a term for each
    /// language of `languages`, because a question is too short to identify its language.
    ///
    /// Of a compound word, the parts are asked for. The whole is optional: it ranks passages first
    /// that write it in the same way, and no passage must.
    ///
    /// `languages` begins with English, and may leave out languages without documents in the store.
    /// This saves time without changing scores. The words and their counts depend only on the
    /// question, so documents that the searcher may not read do not influence them.
    pub(crate) fn question(
        &mut self,
        text: &str,
        max: usize,
        languages: &[Language],
    ) -> Vec<QuestionWord> {
        let mut words: Vec<QuestionWord> = Vec::new();
        let mut indexes: HashMap<String, usize> = HashMap::new();
        let text = plain(text);
        let question_language = Language::of_plain(&text).unwrap_or(Language::ENGLISH);
        for_each_token(&text, |token| {
            let Some(terms) = self.question_terms(token, question_language, languages) else {
                return;
            };
            let is_optional = match token {
                Token::Word(word) => Language::ENGLISH.is_stop_word(word),
                Token::Compound(_) | Token::Identifier(_) => true,
                Token::Part(_) | Token::Ngram(_) | Token::Syllable(_) => false,
            };
            if terms.is_empty() && !is_optional {
                return;
            }
            // The English stem, or the word itself if it has no English stem. No stem contains a
            // space.
            let key = match token {
                Token::Word(word) if is_optional => format!(" {word}"),
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

    /// Returns the terms that may stand for a token of a question, the English one first; [`None`]
    /// for a stop word of the question's language.
    fn question_terms(
        &mut self,
        token: Token<'_>,
        question_language: Language,
        languages: &[Language],
    ) -> Option<Vec<String>> {
        let word = match token {
            Token::Ngram(term) | Token::Identifier(term) => return Some(vec![term.to_owned()]),
            // Pairs say more. A question of one syllable is an n-gram of its own.
            Token::Syllable(_) => return None,
            Token::Word(word) | Token::Compound(word) | Token::Part(word) => word,
        };
        let mut terms: Vec<String> = Vec::new();
        match Stemming::of(word) {
            Stemming::None => terms.push(word.to_owned()),
            Stemming::ByScript(language) => {
                self.stem(word, language, &mut |term: &str| terms.push(term.to_owned()));
            }
            Stemming::ByLanguage if question_language.is_stop_word(word) => return None,
            Stemming::ByLanguage => {
                for &language in languages {
                    self.stem(word, language, &mut |term: &str| {
                        if !terms.iter().any(|known| known == term) {
                            terms.push(term.to_owned());
                        }
                    });
                }
            }
        }
        Some(terms)
    }

    /// Passes the term of a word to `emit`, unless it is a stop word.
    fn stem(&mut self, word: &str, language: Language, emit: &mut impl FnMut(&str)) {
        // Frequent words soon return to the cache, so dropping all words costs less than finding
        // the oldest.
        if self.cached_words >= MAX_CACHED_WORDS {
            self.stemmers = [const { None }; Language::COUNT];
            self.cached_words = 0;
        }
        let stemmer = self.stemmers[language.index()].get_or_insert_with(|| CachedStemmer {
            stemmer: language.algorithm().map(Stemmer::create),
            terms: HashMap::new(),
        });
        if let Some(term) = stemmer.terms.get(word) {
            if !term.is_empty() {
                emit(term);
            }
            return;
        }
        let stem = stemmer.stemmer.as_ref().map_or(Cow::Borrowed(word), |it| it.stem(word));
        let term = match stem {
            _ if language.is_stop_word(word) => Cow::Borrowed(""),
            // If a stemmer removes the whole word, the word itself is used.
            stem if stem.is_empty() => Cow::Owned(format!("{word}{}", language.tag())),
            stem if language.tag().is_empty() => stem,
            stem => Cow::Owned(format!("{stem}{}", language.tag())),
        };
        if !term.is_empty() {
            emit(&term);
        }
        stemmer.terms.insert(word.into(), term.into());
        self.cached_words += 1;
    }
}

/// Sorts terms and adds up the weights of each.
fn summed(mut terms: Vec<(Term, u32)>) -> Vec<(Term, u8)> {
    terms.sort_unstable();
    let sums = terms.chunk_by(|left, right| left.0 == right.0).map(|same| {
        let count: u32 = same.iter().map(|(_, count)| count).sum();
        (same[0].0, u8::try_from(count).unwrap_or(u8::MAX))
    });
    sums.collect()
}

/// Returns the language of the beginning of a document, if its words identify one.
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

/// How a word is stemmed.
enum Stemming {
    /// By the language of its text: Latin script, and numbers.
    ByLanguage,
    /// By the only stemmer for its script.
    ByScript(Language),
    /// Not at all: its script has no stemmer.
    None,
}

impl Stemming {
    /// Returns how a word is stemmed, which depends on the script of its first letter.
    fn of(word: &str) -> Self {
        let Some(first) = word.chars().find(|character| character.is_alphabetic()) else {
            return Self::ByLanguage;
        };
        match Language::of_script(first) {
            Some(language) => Self::ByScript(language),
            // The Latin blocks, the second of which Vietnamese needs.
            None if first < '\u{250}' || ('\u{1e00}'..='\u{1eff}').contains(&first) => {
                Self::ByLanguage
            }
            None => Self::None,
        }
    }
}

/// Returns a name, followed by its words without what separates them: `set-up.md` is also `setup`.
fn with_joined(name: &str) -> String {
    let mut all = name.to_owned();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.contains(|character: char| !character.is_alphanumeric()) {
        all.push(' ');
        all.extend(stem.chars().filter(|character| character.is_alphanumeric()));
    }
    all
}

/// Whether a term stands for a whole word of a text or for a part of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Part,
}

/// A token of a plain text.
#[derive(Clone, Copy)]
enum Token<'a> {
    /// A word in lower case.
    Word(&'a str),
    /// A word in lower case whose parts follow it: `getusername`.
    Compound(&'a str),
    /// A part of a compound in lower case: `user` of `getUserName`.
    Part(&'a str),
    /// Words that underscores join, in lower case: `user_name`. The words follow it.
    Identifier(&'a str),
    /// Consecutive characters of a script that is written without spaces, or with particles at its
    /// words.
    Ngram(&'a str),
    /// A Korean syllable of an n-gram before it.
    Syllable(&'a str),
}

/// Returns whether a character belongs to a word: letters, digits, and marks, which some scripts
/// write as vowels.
pub(super) fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() || is_combining_mark(character)
}

/// Passes the tokens of a plain text to `emit`, in order.
fn for_each_token(text: &str, mut emit: impl FnMut(Token<'_>)) {
    let mut buffer = String::new();
    for joined in text.split(|character: char| !is_part_of_word(character) && character != '_') {
        let joined = joined.trim_matches('_');
        if joined.contains('_') && joined.len() <= MAX_WORD_CHARS {
            emit(Token::Identifier(in_lower_case(joined, &mut buffer)));
        }
        for run in joined.split('_') {
            // Marks without a letter before them are not a word.
            let run = run.trim_start_matches(is_combining_mark);
            if run.is_ascii() {
                for_each_word(run, &mut buffer, &mut emit);
                continue;
            }
            for (part, size) in by_script(run) {
                match size {
                    Some(size) => for_each_ngram(part, size, &mut emit),
                    None => for_each_word(part, &mut buffer, &mut emit),
                }
            }
        }
    }
}

/// Splits a run where characters of n-grams begin and end. Returns each part with the size of its
/// n-grams, or [`None`] for a word.
pub(super) fn by_script(run: &str) -> impl Iterator<Item = (&str, Option<usize>)> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let size = ngram_size(rest.chars().next()?);
        let end = rest.find(|other| ngram_size(other) != size).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some((part, size))
    })
}

/// Passes a word, and its parts if it is a compound, to `emit`.
fn for_each_word(word: &str, buffer: &mut String, emit: &mut impl FnMut(Token<'_>)) {
    if word.is_empty() {
        return;
    }
    let parts = if may_have_parts(word) { parts(word) } else { Vec::new() };
    let whole = in_lower_case(word, buffer);
    if parts.is_empty() {
        return emit(Token::Word(whole));
    }
    emit(Token::Compound(whole));
    for part in parts {
        emit(Token::Part(in_lower_case(part, buffer)));
    }
}

/// Writes the beginning of a word in lower case.
fn in_lower_case<'a>(word: &str, buffer: &'a mut String) -> &'a str {
    buffer.clear();
    if word.is_ascii() {
        buffer.push_str(&word[..word.len().min(MAX_WORD_CHARS)]);
        buffer.make_ascii_lowercase();
    } else {
        buffer.extend(word.chars().take(MAX_WORD_CHARS).flat_map(char::to_lowercase));
        // A capital letter may become a letter with a combining mark in lower case: İ.
        buffer.retain(|character| !is_removable_mark(character));
    }
    buffer
}

/// Returns whether a word may have parts: a capital letter after its first one, or a digit. Most
/// words have neither, and are not looked at further.
fn may_have_parts(word: &str) -> bool {
    word.chars().skip(1).any(|character| character.is_uppercase() || character.is_numeric())
        || word.starts_with(char::is_numeric)
}

/// Returns the parts of a compound: `get`, `User` and `Name` of `getUserName`, `HTTP` and `Server`
/// of `HTTPServer`, `sha` and `256` of `sha256`. Single letters are left out. Returns nothing for
/// other words, and for long codes, whose parts have no meaning.
fn parts(word: &str) -> Vec<&str> {
    /// More parts than identifiers have, and fewer than checksums.
    const MAX_PARTS: usize = 8;
    if word.len() > 4 * MAX_WORD_CHARS {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let mut last = None;
    let mut characters = word.char_indices().filter(|(_, it)| !is_combining_mark(*it)).peekable();
    while let Some((at, character)) = characters.next() {
        let next_is_lower = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
        if last
            .is_some_and(|last| is_boundary(last, character, next_is_lower && !is_plural(word, at)))
        {
            parts.push(&word[start..at]);
            start = at;
        }
        last = Some(character);
    }
    parts.push(&word[start..]);
    if parts.len() < 2 || parts.len() > MAX_PARTS {
        return Vec::new();
    }
    parts.retain(|part| part.chars().nth(1).is_some() || part.starts_with(char::is_numeric));
    parts
}

/// Returns whether a word ends after this character with an `s` for its plural: `PDFs`.
fn is_plural(word: &str, at: usize) -> bool {
    word[at..].chars().skip(1).eq(['s'])
}

fn is_boundary(last: char, character: char, next_is_lower: bool) -> bool {
    (last.is_lowercase() && character.is_uppercase())
        || (last.is_uppercase() && character.is_uppercase() && next_is_lower)
        || (last.is_alphabetic() && character.is_numeric())
        || (last.is_numeric() && character.is_alphabetic())
}

/// Returns the number of characters of an n-gram, for scripts that are written without spaces, and
/// for Korean, which writes particles at the end of words; [`None`] for others. Chinese, Japanese
/// and Korean words have about two characters, South-East Asian words four or five.
pub(super) fn ngram_size(character: char) -> Option<usize> {
    match character {
        // Hiragana and Katakana, and Chinese characters.
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}' => Some(2),
        _ if is_hangul(character) => Some(2),
        // Thai and Lao, Burmese, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => Some(3),
        _ => None,
    }
}

/// Returns whether a character is a Korean syllable.
fn is_hangul(character: char) -> bool {
    ('\u{ac00}'..='\u{d7a3}').contains(&character)
}

/// Passes the overlapping n-grams of a run to `emit`; the whole run if it is shorter than one.
/// Korean has many words of one syllable, to which particles are joined: syllables are passed, too.
fn for_each_ngram(run: &str, size: usize, emit: &mut impl FnMut(Token<'_>)) {
    let bounds: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    if bounds.len() > 2 {
        for bound in bounds.windows(2).filter(|at| run[at[0]..].starts_with(is_hangul)) {
            emit(Token::Syllable(&run[bound[0]..bound[1]]));
        }
    }
    if bounds.len() <= size + 1 {
        return emit(Token::Ngram(run));
    }
    for bound in bounds.windows(size + 1) {
        emit(Token::Ngram(&run[bound[0]..bound[size]]));
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
        check("x=1; DROP INDEX a_b--", "x 1 drop index a_b b");
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
        Analyzer::default().analyze(text, language, |term, _| terms.push(term.to_owned()));
        terms
    }

    fn language(tag: &str) -> Language {
        Language::latin().find(|language| language.tag() == tag).unwrap()
    }

    #[test]
    fn marks_that_distinguish_words_are_kept() {
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
    fn scripts_without_spaces_are_searched_by_ngrams() {
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
    fn compound_words_are_found_by_their_parts() {
        check("getUserName", "getusernam get user name");
        check(
            "HTTPServer parseXMLDocument",
            "httpserver http server parsexmldocu pars xml document",
        );
        check("SHA256 x86_64 20th", "sha256 sha 256 x86_64 x86 86 64 20th 20 th");
        check("max_retry_count __init__ _", "max_retry_count max retri count init");
        check("PDFs and APIs", "pdfs api");
        check("Straße straßeName", "straße straßenam straße name");
        check("получитьИмя", "получитьим получ им");
        // Codes and checksums have no parts.
        check("3f9a8b7c6d", "3f9a8b7c6d");
        check("aGVsbG8gd29ybGQKIQ", "agvsbg8gd29ybgqkiq");
    }

    #[test]
    fn korean_is_searched_by_pairs_and_syllables() {
        check("계약서를", "계 약 서 를 계약 약서 서를");
        check("차", "차");
        check("API를", "api 를");
        let english = [Language::ENGLISH];
        check_question("계약서", &english, &[("계약", 1), ("약서", 1)]);
        check_question("차", &english, &[("차", 1)]);
        // Syllables in the form of single letters, as macOS writes them in names of files.
        assert_eq!(terms("\u{1112}\u{1161}\u{11ab}", Language::ENGLISH), ["한"]);
    }

    #[test]
    fn parts_of_words_do_not_make_a_text_longer() {
        assert_eq!(length("getUserName of user_name"), length("gettyname of user name"));
        assert_eq!(length("계약서를"), 3);
    }

    fn length(text: &str) -> u32 {
        let mut terms = Vec::new();
        let mut intern = |_: &str| Ok::<Term, ()>(0);
        let english = Language::ENGLISH;
        Analyzer::default().add_terms(text, english, 1, &mut intern, &mut terms).unwrap()
    }

    #[test]
    fn names_are_also_searched_without_separators() {
        for (name, want) in [
            ("setup.md", "setup.md"),
            ("set-up.md", "set-up.md setup"),
            ("SetupGuide_v2.md", "SetupGuide_v2.md SetupGuidev2"),
        ] {
            assert_eq!(with_joined(name), want);
        }
    }

    proptest! {
        #[test]
        fn any_text_has_terms_without_spaces(text: String) {
            Analyzer::default().analyze(&text, Language::ENGLISH, |term, _| {
                assert!(!term.is_empty() && !term.contains(char::is_whitespace));
            });
        }
    }
}
