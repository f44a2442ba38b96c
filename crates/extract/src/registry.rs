//! Chooses the extractor of a document.

use std::{
    ops::{Range, RangeInclusive},
    sync::LazyLock,
};

use crate::{
    ExtractError, Extracted, Extractor, Hint, Problem, Source, Stop, csv, cut::cut_out, decode,
    encoded, html, json, mail, markdown, notebook, rtf, text, xml,
};

/// A list of extractors. The first one that supports a document reads it.
///
/// ```
/// use marquetry_extract::{Extracted, ExtractError, Extractor, Hint, Registry, Source};
///
/// struct Backwards;
///
/// impl Extractor for Backwards {
///     fn media_types(&self) -> &[&str] {
///         &["text/x-backwards"]
///     }
///     fn extensions(&self) -> &[(&str, &str)] {
///         &[("sdrawkcab", "text/x-backwards")]
///     }
///     fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
///         let text = String::from_utf8_lossy(source.bytes);
///         Ok(Extracted::new(text.chars().rev().collect()))
///     }
/// }
///
/// let mut registry = Registry::default();
/// registry.put_first(Backwards);
/// assert_eq!(registry.extract(b"olleH", &Hint::file("a.sdrawkcab"))?.content, "Hello");
/// # Ok::<(), ExtractError>(())
/// ```
pub struct Registry {
    extractors: Vec<Box<dyn Extractor>>,
}

impl Default for Registry {
    /// Returns a registry with all extractors of the enabled features.
    fn default() -> Self {
        let extractors: Vec<Box<dyn Extractor>> = vec![
            #[cfg(feature = "pdf")]
            Box::new(super::pdf::Pdf),
            #[cfg(feature = "docx")]
            Box::new(super::docx::Docx),
            #[cfg(feature = "docx")]
            Box::new(super::epub::Epub),
            #[cfg(feature = "docx")]
            Box::new(super::odt::Odt),
            #[cfg(feature = "docx")]
            Box::new(super::pptx::Pptx),
            Box::new(rtf::Rtf),
            #[cfg(feature = "spreadsheet")]
            Box::new(super::spreadsheet::Xlsx),
            #[cfg(feature = "spreadsheet")]
            Box::new(super::spreadsheet::Ods),
            Box::new(markdown::Markdown),
            Box::new(html::Html),
            Box::new(notebook::Notebook),
            Box::new(mail::Mail),
            Box::new(json::Json),
            Box::new(xml::Xml),
            Box::new(csv::Csv),
            Box::new(text::SourceCode),
            Box::new(text::PlainText),
        ];
        Self { extractors }
    }
}

impl Registry {
    pub(crate) fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<Registry> = LazyLock::new(Registry::default);
        &BUILT_IN
    }

    /// Adds an extractor that takes precedence over all others.
    pub fn put_first(&mut self, extractor: impl Extractor + 'static) {
        self.extractors.insert(0, Box::new(extractor));
    }

    /// Reads a document. The first bytes determine the extractor if they identify the format; else
    /// the media type, else the extension, else whether the document looks like text.
    ///
    /// # Errors
    ///
    /// Returns an error if the document has no text, is encrypted or damaged, or exceeds a limit of
    /// the hint.
    pub fn extract(&self, bytes: &[u8], hint: &Hint<'_>) -> Result<Extracted, ExtractError> {
        hint.limits.check_bytes(bytes.len() as u64)?;
        let declared = hint.media_type.map(str::to_ascii_lowercase).unwrap_or_default();
        let (essence, parameters) = declared.split_once(';').unwrap_or((&declared, ""));
        let (extractor, media_type) = self.pick(bytes, essence.trim(), hint.file_name)?;
        let stop = match hint.stop {
            Some(stop) => stop.and_within(hint.limits.max_time),
            None => Stop::within(hint.limits.max_time),
        };
        let source = Source {
            bytes,
            stop: &stop,
            depth: 0,
            media_type: &media_type,
            charset: charset(parameters),
            limits: &hint.limits,
        };
        let mut extracted = extractor.extract(&source)?;
        hint.limits.check_content(extracted.content.len())?;
        extracted.source_uri = hint.source_uri.map(str::to_owned);
        extracted.mime_type = media_type;
        #[cfg(any(feature = "docx", feature = "spreadsheet"))]
        if extracted.content.trim().is_empty() && super::package::has_pictures(bytes) {
            extracted.problems.push(Problem::Pictures { pages: Vec::new() });
        }
        finish(&mut extracted);
        Ok(extracted)
    }

    fn pick(
        &self,
        bytes: &[u8],
        declared: &str,
        file_name: Option<&str>,
    ) -> Result<(&dyn Extractor, String), ExtractError> {
        let certain = self.extractors.iter().find_map(|extractor| {
            Some((extractor.as_ref(), extractor.recognize(bytes)?.to_owned()))
        });
        if let Some(certain) = certain {
            return Ok(certain);
        }
        let says_something =
            !matches!(declared, "" | "application/octet-stream" | "binary/octet-stream");
        let by_type = says_something.then(|| self.by_media_type(declared)).flatten();
        // Many programs declare `text/plain` without checking; the file name is more reliable.
        let known = match by_type {
            Some(_) if declared == "text/plain" => {
                file_name.and_then(|name| self.by_extension(name)).or(by_type)
            }
            _ => by_type.or_else(|| self.by_extension(file_name?)),
        };
        // A damaged archive of a known format may look like any archive. Its reader says what is
        // wrong.
        let is_known_archive = bytes.starts_with(b"PK")
            && known.as_ref().is_some_and(|(extractor, _)| extractor.is_zip_archive());
        // Some formats are identified by two letters, which may also begin a text.
        if !is_known_archive
            && let Some(other) = infer::get(bytes).filter(is_binary)
            && decode::begins_binary(bytes)
        {
            return Err(ExtractError::Unsupported { media_type: other.mime_type().to_owned() });
        }
        if let Some((extractor, media_type)) = known {
            return Ok((extractor, media_type.to_owned()));
        }
        if says_something && !declared.starts_with("text/") {
            return Err(ExtractError::Unsupported { media_type: declared.to_owned() });
        }
        if decode::looks_binary(bytes) {
            return Err(ExtractError::Unsupported {
                media_type: "application/octet-stream".to_owned(),
            });
        }
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]).to_ascii_lowercase();
        let start = start.trim_start_matches('\u{FEFF}').trim_start();
        let looks = if start.starts_with("<!doctype html") || start.starts_with("<html") {
            "text/html"
        } else if start.starts_with("<?xml") {
            "application/xml"
        } else {
            "text/plain"
        };
        self.by_media_type(looks)
            .map(|(extractor, media_type)| (extractor, media_type.to_owned()))
            .ok_or_else(|| ExtractError::Unsupported { media_type: looks.to_owned() })
    }

    fn by_media_type<'a>(&self, media_type: &'a str) -> Option<(&dyn Extractor, &'a str)> {
        let extractor = self
            .with_media_type(|known| known == media_type)
            .or_else(|| self.with_media_type(|pattern| matches_star(pattern, media_type)))?;
        Some((extractor, media_type))
    }

    /// Returns the first extractor one of whose media types meets a condition.
    fn with_media_type(&self, condition: impl Fn(&str) -> bool) -> Option<&dyn Extractor> {
        let mut extractors = self.extractors.iter().map(AsRef::as_ref);
        extractors.find(|extractor| extractor.media_types().iter().any(|known| condition(known)))
    }

    fn by_extension(&self, file_name: &str) -> Option<(&dyn Extractor, &str)> {
        let (_, extension) = file_name.rsplit_once('.')?;
        let extension = extension.to_ascii_lowercase();
        self.extractors.iter().find_map(|extractor| {
            let known = extractor.extensions().iter().find(|(known, _)| *known == extension)?;
            Some((extractor.as_ref(), known.1))
        })
    }
}

/// Returns whether a pattern with `*` at its start or end matches a media type.
fn matches_star(pattern: &str, media_type: &str) -> bool {
    let ends = pattern.strip_prefix('*').is_some_and(|end| media_type.ends_with(end));
    ends || pattern.strip_suffix('*').is_some_and(|start| media_type.starts_with(start))
}

/// Returns the size of a document after unpacking, in bytes, as far as it is known without reading
/// it: an archive declares the sizes of its parts. The streams of a PDF declare none; few are
/// larger than eight times their compressed size, and the reader limits those.
pub fn unpacked_size(bytes: &[u8]) -> u64 {
    let length = bytes.len() as u64;
    #[cfg(any(feature = "docx", feature = "spreadsheet"))]
    if bytes.starts_with(b"PK") {
        let declared = crate::package::declared_size(bytes).unwrap_or(0);
        return length.saturating_add(declared.min(crate::Limits::default().max_unpacked_bytes));
    }
    if bytes.starts_with(b"%PDF") { length.saturating_mul(8) } else { length }
}

/// Applies the steps for all formats: removes NULs, which databases refuse, and invisible
/// characters and encoded data; counts the characters.
pub(crate) fn finish(extracted: &mut Extracted) {
    let nuls = extracted.content.bytes().filter(|byte| *byte == 0).count();
    if nuls > 0 {
        extracted.content = extracted.content.replace('\0', " ");
        extracted.problems.push(Problem::Nul { count: nuls });
    }
    encoded::cut(extracted);
    let invisible = invisible(&extracted.content);
    if !invisible.is_empty() {
        cut_out(extracted, &invisible);
        extracted.problems.push(Problem::Hidden { count: invisible.len() });
    }
    extracted.character_count = extracted.content.chars().count();
}

/// Returns runs of tag characters (U+E0000 to U+E007F). They spell ASCII that is not displayed.
/// Their only visible use is in the flags of some regions, after a black flag.
fn invisible(content: &str) -> Vec<Range<usize>> {
    const TAGS: RangeInclusive<char> = '\u{E0000}'..='\u{E007F}';
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut before = 0;
    while let Some(found) = content[before..].find(|character| TAGS.contains(&character)) {
        let start = before + found;
        let rest = &content[start..];
        let length = rest.find(|character| !TAGS.contains(&character)).unwrap_or(rest.len());
        before = start + length;
        // The tags of a flag are at most six letters and the end tag.
        let is_flag = content[..start].ends_with('\u{1F3F4}') && length <= 7 * 4;
        if !is_flag {
            runs.push(start..before);
        }
    }
    runs
}

/// Returns the encoding that the parameters of a media type declare.
fn charset(parameters: &str) -> Option<&str> {
    let mut parameters = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim() == "charset")?;
    Some(value.trim().trim_matches('"'))
}

/// Returns whether a format that was identified by its first bytes has no text.
fn is_binary(kind: &infer::Type) -> bool {
    use infer::MatcherType;
    matches!(
        kind.matcher_type(),
        MatcherType::App
            | MatcherType::Archive
            | MatcherType::Audio
            | MatcherType::Book
            | MatcherType::Doc
            | MatcherType::Font
            | MatcherType::Image
            | MatcherType::Video
    )
}
