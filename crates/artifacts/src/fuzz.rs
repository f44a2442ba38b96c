//! The functions of the fuzz targets in `fuzz/`. Compiled only for them and for the test that
//! replays their corpora.

use marquetry_text_format::{TextFormat, csv_delimiter, detect};
use serde_json::value::RawValue;

use crate::{base64, metadata::outline, mime, settings::Settings};

/// A fuzz target: panics if its input is treated wrongly.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("detect", text), ("media", media)];

/// Detects the format of a text, and summarises it.
pub fn text(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let found = detect(text);
    assert!((1..=100).contains(&found.confidence));
    assert_eq!(found.delimiter.is_some(), found.format == TextFormat::Csv);
    if let Some(delimiter) = found.delimiter {
        assert_eq!(delimiter, csv_delimiter(text));
    }
    let json = text.strip_prefix('\u{feff}').unwrap_or(text);
    if found.format == TextFormat::Json && found.confidence == 100 {
        assert!(serde_json::from_str::<&RawValue>(json).is_ok());
    }
    let summary = outline(text, found, "a/b", &Settings::default()).summary;
    if let Some(rows) = summary.and_then(|summary| summary.rows) {
        assert!(rows <= text.lines().count() as u64);
    }
}

/// Decodes base64, and examines the bytes as an image.
pub fn media(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(decoded) = base64::decode(text, 1 << 20)
    {
        assert!(decoded.bytes.len() <= text.len());
    }
    mime::detected(data);
    if let Some(mime_type) = mime::readable_image(data) {
        assert!(mime::is_image_of(mime_type, data));
        assert!(!mime::contradicts(mime_type, data));
    }
    for mime_type in ["image/svg+xml", "image/avif", "image/png", "text/html"] {
        mime::is_image_of(mime_type, data);
    }
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
