//! Full stops that end no sentence: of abbreviations, and of ordinal numbers and dates.

use std::{collections::HashMap, sync::LazyLock};

/// Decides whether a sentence goes on after a full stop, by the rules of a language.
#[derive(Clone, Copy)]
pub(super) struct FullStops {
    /// Language, as a tag of two letters. A text that is too short to tell may be in any language.
    language: Option<&'static str>,
}

/// The languages of each abbreviation, in lower case.
static ABBREVIATIONS: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let mut abbreviations: HashMap<_, Vec<_>> = HashMap::new();
    for line in include_str!("abbreviations.txt").lines().filter(|line| !line.starts_with('#')) {
        let Some((language, words)) = line.split_once(": ") else { continue };
        for word in words.split(' ') {
            abbreviations.entry(word).or_default().push(language);
        }
    }
    abbreviations
});

/// German words between which and a noun an ordinal number may be: "am 15. Mai", "der 2.
/// Weltkrieg". Other languages that write ordinal numbers with a full stop begin the next word with
/// a small letter, after which Unicode's rules end no sentence.
const BEFORE_ORDINALS: &str = "ab am beim bis das dem den der des die diesem diesen dieser ein eine einem einen einer \
    eines im ins ihr ihre ihrem ihren ihrer jede jedem jeden jeder jedes mein meine meinem meinen nach sein seine seinem \
    seinen seiner seit und unser unsere vom von vor zum zur";

/// German words before which a number is an ordinal.
const AFTER_ORDINALS: &str = "jänner januar februar feber märz april mai juni juli august september oktober november \
    dezember montag dienstag mittwoch donnerstag freitag samstag sonntag jahrhundert jahrhunderts jahrtausend jh jhd jhdt \
    weltkrieg weltkriegs auflage kapitel klasse stock quartal halbjahr lebensjahr jahrestag geburtstag bundesliga";

/// Titles, before which a sentence may begin: "Dr. Smith came."
const TITLES: [&str; 11] =
    ["dr", "mr", "mrs", "ms", "prof", "st", "capt", "gen", "rev", "sen", "gov"];

impl FullStops {
    /// Returns the rules for a text.
    pub(super) fn of(text: &str) -> Self {
        Self { language: marquetry_index::detect_language(text) }
    }

    /// Returns whether a sentence that ends in a full stop goes on with the text after it.
    pub(super) fn goes_on(self, text: &str, next: &str) -> bool {
        /// Longest word that is looked at, in bytes.
        const LONGEST: usize = 64;
        let Some(whole) = text.strip_suffix('.') else { return false };
        let before = &whole[whole.ceil_char_boundary(whole.len().saturating_sub(LONGEST))..];
        let word = last_word(before);
        // The word may begin before this part.
        if word.len() == before.len() && before.len() < whole.len() {
            return false;
        }
        let rest = before[..before.len() - word.len()].trim_end();
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            return !word.is_empty() && self.is_ordinal(word, last_word(rest), next);
        }
        is_initial(word, next)
            || self.is_abbreviation(word, rest.is_empty())
            || (is_single(word) && self.begins_with_abbreviation(next))
    }

    fn is_abbreviation(self, word: &str, is_alone: bool) -> bool {
        // `J.-C.`, `Dipl.-Ing.`, `n.Chr.`
        let last = word.rsplit(['.', '-', '\u{2010}']).next().unwrap_or(word);
        let lower = last.to_lowercase();
        let is_capital = last.starts_with(char::is_uppercase);
        if is_capital && last.len() == word.len() && TITLES.contains(&lower.as_str()) {
            return true;
        }
        // "No." on its own is an answer, not an abbreviation.
        !is_alone
            && (self.knows(&lower) || (last.len() < word.len() && self.knows(&word.to_lowercase())))
    }

    /// Returns whether a text begins with an abbreviation, as after the first word of "n. Chr."
    fn begins_with_abbreviation(self, text: &str) -> bool {
        let first = text.split_whitespace().next().unwrap_or(text);
        first.strip_suffix('.').is_some_and(|word| self.knows(&word.to_lowercase()))
    }

    fn knows(self, abbreviation: &str) -> bool {
        ABBREVIATIONS.get(abbreviation).is_some_and(|languages| {
            self.language.is_none_or(|language| languages.contains(&language))
        })
    }

    /// Returns whether a number with a full stop is an ordinal number or a part of a date.
    fn is_ordinal(self, number: &str, before: &str, next: &str) -> bool {
        /// Digits of days and of most other ordinal numbers; years have more.
        const MAX_DIGITS: usize = 2;
        // The number of a heading or of an item belongs to its text.
        if before.is_empty() {
            return true;
        }
        if number.len() > MAX_DIGITS {
            return false;
        }
        if next.starts_with(|first: char| first.is_ascii_digit()) {
            // "am 15. 5. 2019"; an English sentence may begin with a number.
            return self.language != Some("en");
        }
        let after = next.split(|at: char| !at.is_alphanumeric()).next().unwrap_or(next);
        match self.language {
            Some("de") => is_among(before, BEFORE_ORDINALS) || is_among(after, AFTER_ORDINALS),
            None => is_among(after, AFTER_ORDINALS),
            Some(_) => false,
        }
    }
}

fn is_single(part: &str) -> bool {
    part.chars().count() == 1
}

/// Returns whether a word is an initial, or of single letters with full stops: `J.`, `e.g.`, `z.
/// B.`
fn is_initial(word: &str, next: &str) -> bool {
    let last = word.rsplit(['-', '\u{2010}']).next().unwrap_or(word);
    if word.contains('.') && word.split('.').all(|part| is_single(part.trim_start_matches('-'))) {
        return true;
    }
    if !is_single(last) || !last.starts_with(char::is_alphabetic) {
        return false;
    }
    let mut following = next.chars();
    let first = following.next();
    last.starts_with(char::is_uppercase)
        // "p. 15"
        || first.is_some_and(|first| first.is_ascii_digit())
        // "z. B.", "т. е."
        || (first.is_some_and(char::is_alphabetic) && following.next() == Some('.'))
}

fn last_word(text: &str) -> &str {
    text.rsplit(|at: char| {
        at.is_whitespace() || matches!(at, '(' | '[' | '"' | '“' | '„' | '«' | '§')
    })
    .next()
    .unwrap_or(text)
}

fn is_among(word: &str, words: &str) -> bool {
    let lower = word.to_lowercase();
    words.split_ascii_whitespace().any(|known| known == lower)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{super::sentences::for_each_sentence, FullStops};

    #[test]
    fn german_dates_and_abbreviations_end_no_sentence() {
        check(&[
            "Der Vertrag beginnt am 15. Mai und endet am 3. Juni.",
            "Danach ist er nicht mehr gültig.",
        ]);
        check(&["Es gibt viele Sorten, z. B. Roggen und Weizen.", "Sie sind gut."]);
        check(&["Siehe Nr. 7 und Abs. 3 der Verordnung, bzw. der Anlage.", "Das ist nicht alles."]);
        check(&["Im 19. Jahrhundert war der 2. Stock nicht bewohnt.", "Er steht leer."]);
        check(&["Der Termin ist am 15. 5. 2019 um 9 Uhr.", "Er ist nicht öffentlich."]);
        check(&["Das war im Jahr 2019.", "Danach kam die Wende."]);
        check(&["Die Zahl der Kinder war 15.", "Das ist nicht viel."]);
        check(&["Um 50 n. Chr. Geburt war das nicht so.", "Die Stadt ist alt."]);
        check(&["Siehe Nr. 7.", "Danke."]);
        check(&["1. Mai"]);
    }

    #[test]
    fn abbreviations_of_many_languages_end_no_sentence() {
        check(&["La Sra. García vive en la av. Libertad y es la dueña.", "No se va."]);
        check(&["Il est né en 50 av. J.-C. dans la ville de Mme. Dupont.", "Il est mort."]);
        check(&["Il sig. Rossi e il dott. Bianchi sono nella città.", "Non è vero."]);
        check(&["O Sr. Silva e a Dra. Costa são do Porto.", "Ela não foi."]);
        check(&["De heer dhr. Jansen en mevr. De Vries zijn niet van hier.", "Dat is zo."]);
        check(&["Det är kl. 9 och jfr. Svensson är inte här, bl.a. Karl.", "Han är sen."]);
        check(&["Det er kl. 9 og hr. Hansen er ikke her, bl.a. Karl.", "Han er syg."]);
        check(&["Se on esim. Helsinki tai klo. 9 ja nro. 7 kun se on.", "Hän on oli."]);
        check(&["To jest np. Kraków, a prof. Nowak nie jest tam.", "To nie jest to."]);
        check(&["To je např. Praha a č. 7 je na ul. Dlouhá.", "Jak se to má."]);
        check(&["Bu bir örn. Ankara ve Doç. Yılmaz ile olan iş.", "Bu da ne."]);
        check(&["Ez az ún. Budapest és a Kft. Magyar nem az.", "Ez egy ház."]);
        check(&["Он жил на ул. Пушкина, т. е. в центре, и знал проф. Иванова.", "Это было давно."]);
        check(&["Ο κ. Παπαδόπουλος είναι στη σελ. 5 του βιβλίου.", "Δεν είναι εδώ."]);
    }

    #[test]
    fn words_that_are_abbreviations_elsewhere_end_sentences() {
        check(&["Dijo que no.", "La casa es de los padres y no se vende."]);
        check(&["Voici l'art.", "Il est dans la rue et les gens sont là."]);
        check(&["The number is 15.", "It is what they all have in common."]);
        check(&["No.", "The answer is not to be had from them."]);
    }

    #[track_caller]
    fn check(want: &[&str]) {
        let text = want.join(" ");
        let mut sentences = Vec::new();
        let done: Result<(), Infallible> =
            for_each_sentence(&text, 0..text.len(), true, FullStops::of(&text), |span| {
                sentences.push(&text[span]);
                Ok(())
            });
        let Ok(()) = done;
        assert_eq!(sentences, want);
    }
}
