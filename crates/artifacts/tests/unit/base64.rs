//! Tests of base64.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

#[test]
fn forms() {
    for (text, bytes, form) in [
        ("aGk/Pg==", "hi?>", Form::Strict),
        ("aGk/Pg", "hi?>", Form::Tolerant),
        ("aGk_Pg==", "hi?>", Form::Tolerant),
        ("aG k/\r\n\tPg==\n", "hi?>", Form::Tolerant),
        ("aGk/Pg===", "hi?>", Form::SurplusPadding),
        ("aGk/=", "hi?", Form::SurplusPadding),
        ("aGk/====", "hi?", Form::SurplusPadding),
        ("aGk==", "hi", Form::SurplusPadding),
        ("data:text/plain;base64,aGk/Pg==", "hi?>", Form::DataUri),
    ] {
        let decoded = decode(text, 100).unwrap();
        assert_eq!((decoded.bytes.as_slice(), decoded.form), (bytes.as_bytes(), form), "{text}");
    }
    assert_eq!(decode("data:;base64,aGk=", 9).unwrap().mime_type, None);
    assert_eq!(
        decode("data:image/png;base64,aGk=", 9).unwrap().mime_type.as_deref(),
        Some("image/png")
    );
}

#[test]
fn errors_read_well() {
    check("", expect!["data is empty"]);
    check(" \n ", expect!["data is empty"]);
    check("aGk!", expect!["data is not valid base64: byte 0x21 at offset 3 is out of place"]);
    check("YQ==YQ==", expect!["data is not valid base64: byte 0x3d at offset 2 is out of place"]);
    check("====", expect!["data is not valid base64: byte 0x3d at offset 0 is out of place"]);
    check("aGk/=====", expect!["data is not valid base64: byte 0x3d at offset 4 is out of place"]);
    check("a", expect!["data is not valid base64: 1 digits make no whole bytes"]);
    check(
        "YR==",
        expect![
            "data is not valid base64: the last digit, at offset 1, has bits that belong nowhere"
        ],
    );
    check("aGk\0", expect!["data is not valid base64: byte 0x00 at offset 3 is out of place"]);
    check("aéé", expect!["data is not valid base64: byte 0xa9 at offset 4 is out of place"]);
    check(
        "data:image/png,aGk=",
        expect![[r#"data begins with "data:" but is not a base64 data URI"#]],
    );
    check("data:", expect![[r#"data begins with "data:" but is not a base64 data URI"#]]);
    check(&"A".repeat(200), expect!["data decodes to 150 bytes, more than the limit of 100"]);
}

#[test]
fn the_limit_is_exact() {
    for length in 0..20_u64 {
        let text = general_purpose::STANDARD.encode(vec![7; length as usize + 1]);
        assert!(
            matches!(decode(&text, length), Err(DecodeError::TooLarge { bytes, .. }) if bytes == length + 1)
        );
        assert!(decode(&text, length + 1).is_ok());
    }
}

#[track_caller]
fn check(text: &str, want: Expect) {
    want.assert_eq(&decode(text, 100).unwrap_err().to_string());
}

proptest! {
    #[test]
    fn encoded_bytes_decode_to_themselves(bytes: Vec<u8>, spaces in "[ \n\r\t]{0,4}", at: prop::sample::Index) {
        prop_assume!(!bytes.is_empty());
        let text = general_purpose::STANDARD.encode(&bytes);
        let strict = decode(&text, u64::MAX).unwrap();
        prop_assert_eq!((&strict.bytes, strict.form), (&bytes, Form::Strict));

        let url_safe = general_purpose::URL_SAFE_NO_PAD.encode(&bytes);
        prop_assert_eq!(&decode(&url_safe, u64::MAX).unwrap().bytes, &bytes);
        let mut spaced = text.clone();
        spaced.insert_str(at.index(text.len() + 1), &spaces);
        prop_assert_eq!(&decode(&spaced, u64::MAX).unwrap().bytes, &bytes);
        prop_assert_eq!(&decode(&format!("data:a/b;base64,{text}"), u64::MAX).unwrap().bytes, &bytes);
    }

    #[test]
    fn tolerant_decoding_agrees_with_strict_decoding(text in "[A-Za-z0-9+/=]{1,12}") {
        if let Ok(bytes) = general_purpose::STANDARD.decode(&text) {
            prop_assert_eq!(decode(&text, 100).unwrap(), Decoded { bytes, form: Form::Strict, mime_type: None });
        }
    }

    #[test]
    fn no_character_is_dropped(text in "\\PC{1,40}") {
        if let Ok(decoded) = decode(&text, 100) && matches!(decoded.form, Form::Tolerant | Form::SurplusPadding) {
            let digits: String = text.chars().filter(|char| !char.is_ascii_whitespace() && *char != '=').collect();
            let again = general_purpose::STANDARD_NO_PAD.encode(&decoded.bytes);
            prop_assert_eq!(digits.replace('-', "+").replace('_', "/"), again);
        }
    }
}
