//! Properties of every text and every input.

use marquetry_plantuml::{
    Code, DecodeError, DecodeOptions, EncodeOptions, Format, Server, Source, decode, encode,
};
use proptest::prelude::*;

const VERBATIM: EncodeOptions = EncodeOptions::new().with_verbatim(true);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn verbatim_comes_back(text in diagram()) {
        let code = encode_with(&text, VERBATIM);
        prop_assert_eq!(decode(code.as_str(), &DecodeOptions::default()), Ok(text));
    }

    #[test]
    fn a_dropped_wrapper_comes_back(body in diagram(), newline in "\n?") {
        // PlantUML takes a line end before `@enduml` as part of the wrapper.
        prop_assume!(!body.ends_with('\n') && !body.ends_with('\r'));
        let wrapped = format!("@startuml\n{body}\n@enduml");
        let code = encode_with(&(wrapped.clone() + &newline), EncodeOptions::default());
        prop_assert_eq!(&code, &encode_with(&body, VERBATIM));
        prop_assert_eq!(decode(code.as_str(), &DecodeOptions::default()), Ok(body));
        prop_assert_eq!(decode(code.as_str(), &restoring()), Ok(wrapped));
    }

    #[test]
    fn text_without_a_bare_wrapper_is_kept_whole(text in diagram(), name in "[ a-z]{1,8}") {
        for text in [text.clone(), format!("@startuml{name}\n{text}\n@enduml")] {
            prop_assert_eq!(encode_with(&text, EncodeOptions::default()), encode_with(&text, VERBATIM));
        }
    }

    #[test]
    fn codes_keep_their_form(text in diagram()) {
        for text in [text.clone(), format!("@startuml\n{text}\n@enduml")] {
            for options in [EncodeOptions::default(), VERBATIM] {
                let code = encode_with(&text, options);
                prop_assert_eq!(code.as_str().len() % 4, 0);
                prop_assert!(!code.as_str().starts_with('0'));
                prop_assert!(code.as_str().bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_'));
                prop_assert_eq!(encode_with(&text, options), code);
            }
        }
    }

    /// zlib stores short labels outside of ASCII, so that their codes would start with `0`.
    #[test]
    fn short_labels_come_back_without_a_leading_zero(label in "[\u{4e00}-\u{9fff}\u{1f300}-\u{1f6ff}Ѐ-ӿ]{1,40}") {
        let code = encode_with(&label, EncodeOptions::default());
        prop_assert!(!code.as_str().starts_with('0'));
        prop_assert_eq!(decode(code.as_str(), &DecodeOptions::default()), Ok(label));
    }

    #[test]
    fn padding_may_be_missing(text in diagram()) {
        let code = encode_with(&text, VERBATIM);
        let mut unpadded = code.as_str();
        for _ in 0..3 {
            unpadded = unpadded.strip_suffix('0').unwrap_or(unpadded);
        }
        prop_assert_eq!(decode(unpadded, &DecodeOptions::default()), Ok(text));
    }

    #[test]
    fn every_url_leads_back_to_its_text(text in diagram(), format in prop::sample::select(&Format::ALL[..])) {
        let url = Server::default().url(&encode_with(&text, VERBATIM), format);
        prop_assert_eq!(url.length(), url.as_str().chars().count());
        prop_assert_eq!(decode(url.as_str(), &DecodeOptions::default()), Ok(text));
    }

    #[test]
    fn hexadecimal_is_the_text_itself(text: String) {
        let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        prop_assume!(!digits.is_empty());
        prop_assert_eq!(decode(&format!("~h{digits}"), &DecodeOptions::default()), Ok(text));
    }

    #[test]
    fn decoding_never_panics_and_keeps_its_limit(input in any_input(), max_bytes in 0..300_usize) {
        if let Ok(text) = decode(&input, &DecodeOptions::new().with_max_bytes(max_bytes)) {
            prop_assert!(text.len() <= max_bytes);
        }
        let _ = decode(&input, &restoring().with_max_bytes(max_bytes));
    }

    /// A damaged code is text or an error, and an error about a character names that character.
    #[test]
    fn a_damaged_code_never_panics(text in diagram(), at: prop::sample::Index, with: char) {
        let mut code = encode_with(&text, VERBATIM).into_string();
        let index = at.index(code.len());
        code.replace_range(index..=index, with.encode_utf8(&mut [0; 4]));
        if let Err(DecodeError::InvalidCharacter { character, position }) = decode(&code, &DecodeOptions::default()) {
            prop_assert_eq!(code.chars().nth(position - 1), Some(character));
            prop_assert_eq!((character, position), (with, index + 1));
        }
    }

    #[test]
    fn a_server_is_refused_or_gives_sound_urls(base in prop_oneof![any::<String>(), "https?://[ -~]{0,20}"]) {
        let code = encode_with("A", VERBATIM);
        if let Ok(server) = Server::new(&base) {
            let url = server.url(&code, Format::Svg);
            prop_assert!(url.as_str().is_ascii());
            prop_assert_eq!(decode(url.as_str(), &DecodeOptions::default()), Ok("A".to_owned()));
        }
    }
}

/// Text that can be encoded: lines of diagrams, and any characters.
fn diagram() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        4 => "[A-Za-z]{1,9} (->|-->|<-|\\.\\.>) [A-Za-z]{1,9} : [a-z ]{0,20}",
        1 => "\\PC{0,40}",
        1 => Just("note over Bob".to_owned()),
    ];
    let lines = prop::collection::vec(line, 0..30).prop_map(|lines| lines.join("\n"));
    prop_oneof![lines, any::<String>()]
        .prop_filter("worth encoding, and with no wrapper in it", |text| {
            Source::new(text).is_ok() && !text.contains("@start") && !text.contains("@end")
        })
}

/// Strings of all kinds, some of which pass the first checks.
fn any_input() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "(~[01gh])?[0-9A-Za-z_-]{0,80}",
        "(https?://[a-z./]{0,20}/)?(%7E[01gh])?[!-~]{0,40}",
        // Streams of each format with a valid beginning.
        "(S|K|I|~1UDf|~g7ui8000000020|0|U)[0-9A-Za-z_-]{0,80}",
    ]
}

fn restoring() -> DecodeOptions {
    DecodeOptions::new().with_restored_wrapper(true)
}

fn encode_with(text: &str, options: EncodeOptions) -> Code {
    encode(Source::new(text).expect("the strategy gives text worth encoding"), &options)
}
