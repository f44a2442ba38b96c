//! Languages of texts: detection and stemming.
//!
//! A script other than Latin determines the stemmer. Languages in Latin script are detected by
//! their frequent short words; a text with too few of them counts as English.

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use snowball_stemmers_rs::Algorithm;

use super::plain::plain;

/// A language in Latin script whose words have a stemmer, or a script whose words share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Language(u8);

/// Properties of a [`Language`].
struct Properties {
    /// Suffix of each stem, so that stems of two languages are never confused. Empty for English
    /// and for scripts with one stemmer.
    tag: &'static str,
    /// The stemmer; `None` for languages without inflection.
    algorithm: Option<Algorithm>,
    /// Stop words; those in Latin script without accents. They identify a language in Latin script,
    /// and carry little meaning.
    frequent: &'static str,
}

/// English stop words.
const STOP_WORDS: &str = "a about all also an and any are as at be been between but by can could did do does for from had \
    has have how i if in into is it its may no not of on or other our s shall should so some such t than that the their \
    them then there these they this those to under was we were what when where which while who why will with would you";

/// The languages in Latin script, English first.
const LATIN: [Properties; 18] = [
    Properties { tag: "", algorithm: Some(Algorithm::English), frequent: STOP_WORDS },
    Properties {
        tag: "/de",
        algorithm: Some(Algorithm::German),
        frequent: "aber als am an auch auf aus bei bis das dass dem den der des die durch ein eine einem einen einer er es \
            fur hat haben ich im in ist kann man mehr mit nach nicht noch nur oder sein sich sie sind so uber um und von \
            vor war was welche welcher welches wenn werden wer wie wird wo wurde wurden zu zum zur",
    },
    Properties {
        tag: "/fr",
        algorithm: Some(Algorithm::French),
        frequent: "a au aux avec ce ces cette comme d dans de des du elle en est et etait ete il ils je l la le les leur \
            lui mais ne nous on ont ou par pas plus pour qu que quel quelle quels qui s sa se ses son sont sur un une vous",
    },
    Properties {
        tag: "/es",
        algorithm: Some(Algorithm::Spanish),
        frequent: "a al como con cual cuando cuanto cuantos de del desde donde e el en era es esta este fue fueron ha han \
            hasta la las le lo los mas muy no o para pero por que quien se ser si sin sobre son su sus tambien un \
            una y ya",
    },
    Properties {
        tag: "/it",
        algorithm: Some(Algorithm::Italian),
        frequent: "a ad al alla anche che chi come con cui da dal dalla dei del della delle dello di e ed era gli ha hanno \
            i il in la le lo ma nel nella non o per piu quale quali quando quanto se si sono su sul sulla un una uno",
    },
    Properties {
        tag: "/pt",
        algorithm: Some(Algorithm::Portuguese),
        frequent: "a ao aos as com como da das de do dos e ela ele em entre era essa esta foi ha isso ja mais mas na nao nas \
            no nos o os ou para pela pelo por qual quando que quem se sem ser seu sua sao tambem um uma",
    },
    Properties {
        tag: "/nl",
        algorithm: Some(Algorithm::Dutch),
        frequent: "aan al als bij dan dat de der deze die dit door een en er had heeft het hij hoe in is kan maar meer met \
            naar niet nog of om ook op over te tot uit van veel voor waar waren was wat welke werd worden wordt ze zich \
            zijn zou",
    },
    Properties {
        tag: "/ro",
        algorithm: Some(Algorithm::Romanian),
        frequent: "a acest aceasta al ale am au ca care cat ce cei cel cu cum cand dar de din dintre este fi fost in intre \
            la lui mai nu o pe pentru prin s sa sau se si sunt un unde unei unui",
    },
    Properties {
        tag: "/tr",
        algorithm: Some(Algorithm::Turkish),
        frequent: "ama ancak bir bu da daha de degil diye en gibi hangi hem her icin ile ise kac kadar kim ki mi ne neden \
            nasil nasıl nedir o olan olarak oldu oldugu sonra su tarafindan tarafından ve veya ya",
    },
    Properties {
        tag: "/sv",
        algorithm: Some(Algorithm::Swedish),
        frequent: "att av de den det dem en ett eller efter for fran han har hon hur i inte ja jag kan man med men mot nar \
            och om pa sa sig som till under upp ut var vad vid vilka vilken vilket ar",
    },
    Properties {
        tag: "/no",
        algorithm: Some(Algorithm::Norwegian),
        frequent: "alle at av ble blir da de den der det eller en er et etter for fra ha han har hun hva hvilke hvilken \
            hvor i ikke jeg kan man med men mot nar og om opp pa seg som til ut var ved vi være",
    },
    Properties {
        tag: "/da",
        algorithm: Some(Algorithm::Danish),
        frequent: "af at blev bliver da de den der det efter eller en er et for fra han har hun hvad hvilke hvilken hvor i \
            ikke jeg kan man med men mod nar nogle og om op pa sig som til ud var ved vi være",
    },
    Properties {
        tag: "/fi",
        algorithm: Some(Algorithm::Finnish),
        frequent: "ei eli etta han hanen ja jonka jos jotka joka kanssa koska kuin kun mika mitka mukaan mutta myos \
            ne niin nyt oli oliva olivat on ollut ovat se sen siita sita tai vain voi",
    },
    Properties {
        tag: "/hu",
        algorithm: Some(Algorithm::Hungarian),
        frequent: "a az azt csak de egy ehhez el es ez ezt ha hogy hogyan is kell ki lehet meg mely mert mi mint mit nem \
            olyan sem szerint vagy van volt voltak",
    },
    Properties {
        tag: "/pl",
        algorithm: Some(Algorithm::Polish),
        frequent: "ale bez byc był była co czy dla do gdzie i ich jak jaka jaki jakie jako jego jej jest juz kiedy \
            kto ktora ktore ktory ktora ktore ktory lub ma na nie o od oraz po przez przy sa sie tak to tym w we z za ze",
    },
    Properties {
        tag: "/cs",
        algorithm: Some(Algorithm::Czech),
        frequent: "a aby ale ani az bez byl byla byli bylo co do i jak jako je jeho jejich jen jsou k kde kdo kdy ktera ktere \
            ktery mezi na nebo o od po podle pri pro s se si tak to u v ve z za ze",
    },
    Properties {
        tag: "/id",
        algorithm: Some(Algorithm::Indonesian),
        frequent: "adalah akan apa atau bahwa dalam dan dapat dari dengan di ini itu juga karena ke lebih mana mereka oleh \
            pada sebagai secara telah tidak untuk yang",
    },
    Properties {
        tag: "/vi",
        algorithm: None,
        frequent: "anh bao bi boi ca cac cho co con cua cung da dang den deu duoc gi hay hoac khi khong la lai lam mot \
            nao nay neu ngay nguoi nhieu nhung nhu noi o ong qua ra rang rat sau se tai theo thi trong tren tu va van vao \
            ve viec voi vua",
    },
];

/// Scripts with one stemmer for all their languages.
const SCRIPTS: [Properties; 6] = [
    Properties {
        tag: "",
        algorithm: Some(Algorithm::Greek),
        frequent: "ο η το οι τα του της των τον την τους τις στο στη στην στον στους στις στα και να με \
            σε για από ως που πως ποιος ποια ποιο ποιοι ποιες ποιον τι πόσο πόσα πόσοι πόσες \
            πότε γιατί είναι ήταν έχει είχε θα δεν μια ένα ένας αυτό αυτή αυτός αλλά ή",
    },
    Properties {
        tag: "",
        algorithm: Some(Algorithm::Russian),
        frequent: "а бы был была были было быть в во где да для до его ее если же за и из или их к как \
            какая какие какое какой ко когда которая которые который кто ли на не но о об он она \
            они от по почему при с сколько со так то у что чем это эта этот",
    },
    Properties {
        tag: "",
        algorithm: Some(Algorithm::Arabic),
        frequent: "أن أو أي أين إلى إن التي الذي الذين بعد بين تلك ثم حتى ذلك على عن عند في قبل قد كان \
            كانت كل كم كيف لا لم لماذا ما ماذا متى مع من منذ هذا هذه هل هم هو هي و",
    },
    Properties {
        tag: "",
        algorithm: Some(Algorithm::Hindi),
        frequent: "और इस उस एक का कब कहाँ कि कितना कितनी कितने किया किस किसने की के कैसे को कौन क्या \
            क्यों गया जो तो था थी थे ने पर भी में यह या लिए वह से ही है हैं हो",
    },
    Properties { tag: "", algorithm: Some(Algorithm::Armenian), frequent: "" },
    Properties { tag: "", algorithm: Some(Algorithm::Tamil), frequent: "" },
];

/// Number of bytes from which the language of a text is detected.
const SAMPLE_BYTES: usize = 8 << 10;

/// The languages that have a word among their stop words, as one bit each.
static FREQUENT: LazyLock<HashMap<Cow<'static, str>, u32>> = LazyLock::new(|| {
    let mut frequent = HashMap::new();
    for (at, language) in LATIN.iter().chain(&SCRIPTS).enumerate() {
        for word in language.frequent.split_ascii_whitespace() {
            // Words of Latin script are listed as they are compared: a Turkish ı has no accent.
            let word = if at < LATIN.len() { Cow::Borrowed(word) } else { plain(word) };
            *frequent.entry(word).or_default() |= 1 << at;
        }
    }
    frequent
});

impl Language {
    pub(crate) const ENGLISH: Self = Self(0);
    /// Number of languages, including those identified by their script.
    pub(crate) const COUNT: usize = LATIN.len() + SCRIPTS.len();

    /// Returns the languages in Latin script, English first.
    pub(crate) fn latin() -> impl Iterator<Item = Self> {
        (0..LATIN.len() as u8).map(Self)
    }

    /// Returns the languages in which a question must be stemmed: English, and those of the store's
    /// documents. A store has documents in a language if it has the language's tag as a term.
    pub(crate) fn of_store<E>(
        mut has_term: impl FnMut(&str) -> Result<bool, E>,
    ) -> Result<Vec<Self>, E> {
        let mut languages = Vec::new();
        for language in Self::latin() {
            if language == Self::ENGLISH || has_term(language.tag())? {
                languages.push(language);
            }
        }
        Ok(languages)
    }

    /// Returns the language that stems words of the script of a character; None for Latin, and for
    /// scripts without a stemmer.
    pub(crate) fn of_script(character: char) -> Option<Self> {
        let script = match character {
            '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => 0,
            '\u{400}'..='\u{52f}' => 1,
            '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' | '\u{8a0}'..='\u{8ff}' => 2,
            '\u{900}'..='\u{97f}' => 3,
            '\u{530}'..='\u{58f}' => 4,
            '\u{b80}'..='\u{bff}' => 5,
            _ => return None,
        };
        Some(Self(LATIN.len() as u8 + script))
    }

    /// Detects the language of a text in Latin script by its stop words; None if they are
    /// ambiguous. The text is in lower case and without accents.
    pub(crate) fn of_plain(text: &str) -> Option<Self> {
        let text = &text[..text.floor_char_boundary(SAMPLE_BYTES)];
        let mut counts = [0_u32; LATIN.len()];
        let mut words = 0_u32;
        let mut lower = String::new();
        for word in text.split(|character: char| !character.is_alphanumeric()) {
            if word.is_empty() || !word.starts_with(|first: char| first < '\u{250}') {
                continue;
            }
            words += 1;
            // Stop words are shorter than this.
            if word.len() > 12 {
                continue;
            }
            lower.clear();
            lower.extend(word.chars().flat_map(char::to_lowercase));
            let mut languages = FREQUENT.get(lower.as_str()).copied().unwrap_or(0);
            while languages != 0 {
                counts[languages.trailing_zeros() as usize] += 1;
                languages &= languages - 1;
            }
        }
        let (best, &highest) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
        // Related languages share stop words: "den" and "det" are Swedish, Norwegian and Danish. A
        // tie identifies none of them.
        let is_alone = counts.iter().filter(|count| **count == highest).count() == 1;
        (highest >= 2 && highest * 20 >= words && is_alone).then_some(Self(best as u8))
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    fn properties(self) -> &'static Properties {
        let at = self.index();
        LATIN.get(at).unwrap_or_else(|| &SCRIPTS[at - LATIN.len()])
    }

    /// Returns the suffix of this language's stems.
    pub(crate) fn tag(self) -> &'static str {
        self.properties().tag
    }

    pub(crate) fn algorithm(self) -> Option<Algorithm> {
        self.properties().algorithm
    }

    /// Returns whether a word is a stop word. The word must be in lower case and without accents.
    pub(crate) fn is_stop_word(self, word: &str) -> bool {
        FREQUENT.get(word).is_some_and(|languages| languages & (1 << self.0) != 0)
    }
}

/// Returns the language of a text by its frequent words, or by its script, as a tag of two letters
/// (ISO 639-1). Cyrillic counts as Russian, Devanagari as Hindi. Returns [`None`] for a text that
/// is too short to tell, and for languages that a search does not stem.
///
/// ```
/// assert_eq!(marquetry_index::detect_language("Wie wird das Brot in der Mühle gebacken?"), Some("de"));
/// assert_eq!(marquetry_index::detect_language("Bread"), None);
/// ```
pub fn detect_language(text: &str) -> Option<&'static str> {
    const OF_SCRIPTS: [&str; SCRIPTS.len()] = ["el", "ru", "ar", "hi", "hy", "ta"];
    let text = &text[..text.floor_char_boundary(SAMPLE_BYTES)];
    let letter = text.chars().find(|character| character.is_alphabetic())?;
    if let Some(language) = Language::of_script(letter) {
        return Some(OF_SCRIPTS[language.index() - LATIN.len()]);
    }
    let language = Language::of_plain(&plain(text))?;
    Some(language.tag().strip_prefix('/').unwrap_or("en"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_words_tell_languages_apart() {
        check("How is the bread baked in the oven of the mill?", Some(""));
        check("Wie wird das Brot in der Muhle gebacken?", Some("/de"));
        check("¿Como se hace el pan que comen en el pueblo?", Some("/es"));
        check("Comment est-ce que le pain est fait dans les villages ?", Some("/fr"));
        check("Quem fez o pao que ele comeu com a sua familia?", Some("/pt"));
        check("Come si fa il pane che mangiano nella citta?", Some("/it"));
        check("Care este numele orasului in care a fost facuta painea si vinul?", Some("/ro"));
        check("Bu ekmek hangi un ile ve nasil yapilir, kim icin?", Some("/tr"));
        check("Bánh mì được làm như thế nào trong nhà máy?", Some("/vi"));
        check("Hoe wordt het brood van de molen gebakken?", Some("/nl"));
        check("Algorithms", None);
        check("", None);
    }

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let plain = crate::ranking::plain::plain(text);
        assert_eq!(Language::of_plain(&plain).map(Language::tag), want, "{text}");
    }
}
