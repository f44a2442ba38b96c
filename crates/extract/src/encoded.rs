//! Data in a text that is encoded for transport (base64): images in Markdown, certificates,
//! attachments. It has no words, and would fill hundreds of passages.

use std::ops::Range;

use marquetry_text_format::encoded_passages;

use crate::{Extracted, Problem, cut::cut_out};

/// Removes encoded data, which becomes a problem.
pub(crate) fn cut(extracted: &mut Extracted) {
    let passages = encoded_passages(&extracted.content);
    if passages.is_empty() {
        return;
    }
    let bytes: usize = passages.iter().map(Range::len).sum();
    cut_out(extracted, &passages);
    let reason =
        format!("{} passages of data in base64 are left out, {bytes} characters", passages.len());
    extracted.problems.push(Problem::NotText { reason });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters that look like encoded data.
    fn data(length: usize) -> String {
        let mut random = 1_u64;
        let letters = (0..length).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let digit = (random >> 40) as u8 % 64;
            match digit {
                0..26 => char::from(b'A' + digit),
                26..52 => char::from(b'a' + digit - 26),
                52..62 => char::from(b'0' + digit - 52),
                62 => '+',
                _ => '/',
            }
        });
        letters.collect()
    }

    fn lines(length: usize, separator: &str) -> String {
        let data = data(length);
        let lines: Vec<&str> =
            data.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        lines.join(separator)
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut extracted = Extracted::new(text.to_owned());
        cut(&mut extracted);
        assert_eq!(extracted.content, expected);
        assert_eq!(extracted.problems.is_empty(), text == expected);
    }

    #[test]
    fn encoded_data_is_removed() {
        let long = data(300);
        check(
            &format!("a ![x](data:image/png;base64,{long}==) b"),
            "a ![x](data:image/png;base64,) b",
        );
        check(&format!("url(data:a/b;base64,{}) b", "A".repeat(80)), "url(data:a/b;base64,) b");
        check(&format!("key: {long}\nend"), "key: \nend");
        for separator in ["\n", "\r\n", " ", "\n ", "\n> "] {
            let block = lines(1_000, separator);
            check(
                &format!("-----BEGIN X-----\n{block}=\n-----END X-----"),
                "-----BEGIN X-----\n\n-----END X-----",
            );
            check(&format!("a\n{block}\nWords go on."), "a\n\nWords go on.");
        }
    }

    #[test]
    fn words_are_not_encoded_data() {
        for text in [
            "0123456789abcdef".repeat(100),
            "ACGT".repeat(1_000),
            format!("{}\n", "ACGT".repeat(15)).repeat(50),
            "src/components/deep/path".repeat(40),
            "averylongwordwithoutspaces".repeat(20),
            "snake_case_and_CamelCase_name".repeat(3),
            data(200),
            lines(180, "\n"),
            "Words of usual length, again and again. ".repeat(50),
        ] {
            check(&text, &text);
        }
    }
}
