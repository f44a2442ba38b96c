//! MIME types: parses them, maps file extensions, and detects types from bytes.

use marquetry_image_types::{USUAL_IMAGE_TYPES, examine};

pub(crate) const OCTET_STREAM: &str = "application/octet-stream";

/// Longest MIME type that is kept, with its parameters. RFC 6838 allows 127 characters on each side
/// of the slash.
const MAX_BYTES: usize = 255;

/// Returns `type/subtype` in lower case without parameters; none when the text is not a MIME type
/// (RFC 6838, section 4.2).
///
/// The crate `mediatype` is not used: it refuses `text/x-c++`, and here parameters only need to be
/// free of line breaks.
pub(crate) fn essence(mime_type: &str) -> Option<String> {
    let mime_type = mime_type.trim();
    if mime_type.len() > MAX_BYTES || mime_type.contains(char::is_control) {
        return None;
    }
    let (kind, subtype) = mime_type.split(';').next()?.trim_end().split_once('/')?;
    fn is_name(name: &str) -> bool {
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    }
    (is_name(kind) && is_name(subtype)).then(|| format!("{kind}/{subtype}").to_ascii_lowercase())
}

/// Returns the file extension of a MIME type with its dot.
pub(crate) fn extension(essence: &str) -> Option<&'static str> {
    let known = TABLE.iter().find(|(known, _)| *known == essence).map(|&(_, extension)| extension);
    known.or_else(|| {
        let long_tail = mime_guess::get_mime_extensions_str(essence)?;
        let safe = long_tail.iter().find(|extension| {
            (1..=16).contains(&extension.len())
                && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        safe.copied()
    })
}

/// Returns the MIME type of a file extension.
pub(crate) fn of_extension(extension: &str) -> Option<&'static str> {
    let extension = extension.to_ascii_lowercase();
    let known =
        TABLE.iter().find(|(_, known)| *known == extension).map(|&(mime_type, _)| mime_type);
    known.or_else(|| mime_guess::from_ext(&extension).first_raw())
}

/// Returns whether content of this MIME type is text. Case and parameters are ignored.
///
/// ```
/// use marquetry_artifacts::mime::is_text;
///
/// assert!(is_text("text/csv; charset=utf-8") && is_text("image/svg+xml"));
/// assert!(!is_text("image/png") && !is_text("application/octet-stream"));
/// ```
pub fn is_text(mime_type: &str) -> bool {
    let Some(essence) = essence(mime_type) else { return false };
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    let format = subtype.rsplit('+').next().unwrap_or(subtype);
    kind == "text" || TEXT_FORMATS.contains(&format.strip_prefix("x-").unwrap_or(format))
}

/// Formats of text whose types do not begin with `text/`: whole subtypes without `x-`, or suffixes.
const TEXT_FORMATS: [&str; 11] = [
    "json",
    "ndjson",
    "json-seq",
    "yaml",
    "xml",
    "csv",
    "javascript",
    "toml",
    "sql",
    "sh",
    "graphql",
];

/// Returns whether content of this MIME type is a workbook, whose sheets are tables.
///
/// ```
/// use marquetry_artifacts::mime::is_spreadsheet;
///
/// assert!(is_spreadsheet("application/vnd.oasis.opendocument.spreadsheet"));
/// assert!(!is_spreadsheet("text/csv"));
/// ```
pub fn is_spreadsheet(mime_type: &str) -> bool {
    essence(mime_type).is_some_and(|essence| {
        essence.starts_with("application/vnd.openxmlformats-officedocument.spreadsheetml.")
            || essence.starts_with("application/vnd.oasis.opendocument.spreadsheet")
            || essence.starts_with("application/vnd.ms-excel.sheet.macroenabled")
    })
}

/// Returns whether content of this MIME type is a document of which the text can be extracted:
/// PDF, or a format of an office program.
///
/// ```
/// use marquetry_artifacts::mime::is_document;
///
/// assert!(is_document("application/pdf") && !is_document("image/png"));
/// ```
pub fn is_document(mime_type: &str) -> bool {
    essence(mime_type).is_some_and(|essence| {
        essence == "application/pdf"
            || essence == "application/epub+zip"
            || essence == "application/rtf"
            || essence.starts_with("application/vnd.openxmlformats-officedocument.")
            || essence.starts_with("application/vnd.oasis.opendocument.")
    })
}

/// Detects the type of files with unmistakable first bytes.
pub(crate) fn sniff(bytes: &[u8]) -> Option<&'static str> {
    let kind = infer::get(bytes)?;
    // Detected text and generic containers are not certain enough to overrule the server.
    let certain = matches!(
        kind.matcher_type(),
        infer::MatcherType::Image
            | infer::MatcherType::Audio
            | infer::MatcherType::Video
            | infer::MatcherType::Font
    ) || kind.mime_type() == "application/pdf";
    certain.then(|| kind.mime_type())
}

/// Longest side of an image that models read, in pixels. Anthropic's API refuses longer ones, and a
/// small file that declares many pixels takes gigabytes of a client's memory.
pub(crate) const MAX_IMAGE_SIDE: u32 = 8_000;

/// Returns the true MIME type of an image that models read: PNG, JPEG, GIF or WebP, whole, and with
/// at most 8,000 pixels on each side. Clients and services fail on other images.
///
/// ```
/// use marquetry_artifacts::mime::readable_image;
///
/// let gif = b"GIF89a\x02\0\x01\0\0\0\0,\0\0\0\0\x02\0\x01\0\0\x02\x02D\x01\0;";
/// assert_eq!(readable_image(gif), Some("image/gif"));
/// assert_eq!(readable_image(b"<svg></svg>"), None);
/// ```
pub fn readable_image(bytes: &[u8]) -> Option<&'static str> {
    let image = examine(bytes).ok()?;
    (image.width.max(image.height) <= MAX_IMAGE_SIDE).then_some(image.mime_type)
}

/// Returns whether bytes may go to a client as an image of this type. A type that only some clients
/// show needs the first bytes of that type.
pub(crate) fn is_image_of(mime_type: &str, bytes: &[u8]) -> bool {
    if USUAL_IMAGE_TYPES.contains(&mime_type) {
        return readable_image(bytes) == Some(mime_type);
    }
    match mime_type {
        "image/svg+xml" => begins_like_svg(bytes),
        _ => {
            mime_type.starts_with("image/")
                && sniff(bytes).is_some_and(|sniffed| agree(mime_type, sniffed))
        }
    }
}

/// Returns whether the first element of a text is `svg`.
fn begins_like_svg(bytes: &[u8]) -> bool {
    /// Declarations and comments before the element are seldom longer.
    const BEGINNING: usize = 4096;
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(BEGINNING)]);
    let mut rest = beginning.trim_start_matches('\u{feff}').trim_start();
    loop {
        let end = match rest {
            comment if comment.starts_with("<!--") => "-->",
            declaration if declaration.starts_with("<?") || declaration.starts_with("<!") => ">",
            element => {
                let name = element.strip_prefix("<svg");
                return name.is_some_and(|rest| rest.starts_with([' ', '\t', '\n', '\r', '>']));
            }
        };
        let Some((_, after)) = rest.split_once(end) else { return false };
        rest = after.trim_start();
    }
}

/// Returns whether bytes are not of the declared type, which is one of the image types that models
/// read: PNG, JPEG, GIF, WebP. Other types are not checked.
pub(crate) fn contradicts(essence: &str, bytes: &[u8]) -> bool {
    let is_checked = matches!(family(essence), Some("png" | "jpeg"))
        || matches!(essence, "image/gif" | "image/webp");
    is_checked && !sniff(bytes).is_some_and(|sniffed| agree(essence, sniffed))
}

/// Detects the type of bytes that are not of their declared type, or have none.
pub(crate) fn detected(bytes: &[u8]) -> Option<&'static str> {
    match infer::get(bytes)?.mime_type() {
        "application/zip" => Some(office_type(bytes).unwrap_or("application/zip")),
        detected => Some(detected),
    }
}

/// Returns the type of an Office document by the names of the first members of its ZIP file, which
/// are in any order.
fn office_type(bytes: &[u8]) -> Option<&'static str> {
    const BEGINNING: usize = 64 * 1024;
    const HEADER: &[u8] = b"PK\x03\x04";
    /// Length of a header before the name of its member.
    const HEADER_BYTES: usize = 30;
    let beginning = &bytes[..bytes.len().min(BEGINNING)];
    let headers = beginning.windows(HEADER.len()).enumerate().filter(|(_, it)| *it == HEADER);
    let mut found = None;
    let mut has_content_types = false;
    for (at, _) in headers {
        let Some(name) = beginning.get(at + HEADER_BYTES..) else { break };
        has_content_types |= name.starts_with(b"[Content_Types].xml");
        for (folder, extension) in [(&b"word/"[..], "docx"), (b"xl/", "xlsx"), (b"ppt/", "pptx")] {
            if name.starts_with(folder) {
                found = found.or(of_extension(extension));
            }
        }
    }
    found.filter(|_| has_content_types)
}

/// Returns whether two MIME types name the same format, as far as first bytes can tell.
pub(crate) fn agree(declared: &str, sniffed: &str) -> bool {
    declared == sniffed || (family(declared) == family(sniffed) && family(declared).is_some())
}

/// Types that share their first bytes, or are two names of one type.
fn family(essence: &str) -> Option<&'static str> {
    Some(match essence {
        "image/jpeg" | "image/jpg" | "image/pjpeg" => "jpeg",
        "image/x-icon" | "image/vnd.microsoft.icon" => "icon",
        "image/bmp" | "image/x-bmp" | "image/x-ms-bmp" => "bmp",
        "image/png" | "image/x-png" | "image/apng" => "png",
        "image/heic"
        | "image/heif"
        | "image/avif"
        | "image/heic-sequence"
        | "image/heif-sequence" => "heif",
        // Raw camera files are TIFF.
        "image/tiff" | "image/x-canon-cr2" | "image/x-adobe-dng" | "image/x-nikon-nef"
        | "image/dng" => "tiff",
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        "audio/mpeg" | "audio/mp3" | "audio/x-mp3" | "audio/x-mpeg" | "audio/mpeg3" => "mp3",
        "audio/flac" | "audio/x-flac" => "flac",
        "audio/aac" | "audio/x-aac" | "audio/aacp" => "aac",
        "audio/aiff" | "audio/x-aiff" => "aiff",
        "audio/midi" | "audio/x-midi" | "audio/mid" => "midi",
        "audio/ogg" | "video/ogg" | "application/ogg" | "audio/opus" | "audio/vorbis"
        | "audio/x-ogg" => "ogg",
        "audio/mp4" | "audio/m4a" | "audio/x-m4a" | "video/mp4" | "video/x-m4v"
        | "video/quicktime" | "video/3gpp" => "mp4",
        "audio/webm" | "video/webm" | "video/x-matroska" | "audio/x-matroska" => "matroska",
        "video/x-msvideo" | "video/avi" | "video/msvideo" => "avi",
        _ => return None,
    })
}

/// Extensions without the dot. The preferred MIME type of an extension comes first.
const TABLE: &[(&str, &str)] = &[
    (OCTET_STREAM, "bin"),
    ("text/plain", "txt"),
    ("text/html", "html"),
    ("text/css", "css"),
    ("text/javascript", "js"),
    ("text/csv", "csv"),
    ("text/tab-separated-values", "tsv"),
    ("text/markdown", "md"),
    ("text/xml", "xml"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/x-yaml", "yaml"),
    ("text/yaml", "yaml"),
    ("text/x-yaml", "yaml"),
    ("text/x-typescript", "ts"),
    ("text/jsx", "jsx"),
    ("text/x-toml", "toml"),
    ("application/toml", "toml"),
    ("text/x-rust", "rs"),
    ("text/x-go", "go"),
    ("text/x-kotlin", "kt"),
    ("text/x-swift", "swift"),
    ("text/x-ruby", "rb"),
    ("text/x-php", "php"),
    ("text/x-c", "c"),
    ("text/x-c++", "cpp"),
    ("text/x-python", "py"),
    ("text/x-java-source", "java"),
    ("application/json", "json"),
    ("application/x-ndjson", "ndjson"),
    ("application/javascript", "js"),
    ("application/x-sh", "sh"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/gzip", "gz"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/jpg", "jpg"),
    ("image/gif", "gif"),
    ("image/bmp", "bmp"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tiff"),
    ("image/avif", "avif"),
    ("image/heic", "heic"),
    ("image/heif", "heif"),
    ("image/vnd.microsoft.icon", "ico"),
    ("image/x-icon", "ico"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/wave", "wav"),
    ("audio/vnd.wave", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/mp3", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "opus"),
    ("audio/flac", "flac"),
    ("audio/x-flac", "flac"),
    ("audio/aac", "aac"),
    ("audio/m4a", "m4a"),
    ("audio/x-m4a", "m4a"),
    ("audio/mp4", "m4a"),
    ("audio/webm", "weba"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("video/x-msvideo", "avi"),
    ("video/quicktime", "mov"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn essences() {
        for (text, want) in [
            ("image/PNG", Some("image/png")),
            (" text/plain; charset=utf-8 ", Some("text/plain")),
            ("image/svg+xml", Some("image/svg+xml")),
            ("", None),
            ("png", None),
            ("image/", None),
            ("../../x", None),
            ("a/b\r\nX: y", None),
        ] {
            assert_eq!(essence(text).as_deref(), want, "{text:?}");
        }
        assert_eq!(essence(&format!("a/{}", "b".repeat(300))), None);
    }

    #[test]
    fn extensions() {
        for (essence, want) in [
            ("image/jpeg", Some("jpg")),
            ("audio/mpeg", Some("mp3")),
            ("application/x-yaml", Some("yaml")),
            ("application/msword", Some("doc")),
            ("x/y", None),
        ] {
            assert_eq!(extension(essence), want, "{essence}");
        }
        assert_eq!(of_extension("MD"), Some("text/markdown"));
        assert_eq!(of_extension("doc"), Some("application/msword"));
        assert_eq!(of_extension("qqqq"), None);
    }

    #[test]
    fn every_extension_of_the_table_is_fit_for_a_name() {
        for (mime_type, extension) in TABLE {
            assert!(crate::name::extension(&format!("a.{extension}")).is_some(), "{mime_type}");
            assert_eq!(essence(mime_type).as_deref(), Some(*mime_type));
        }
    }

    #[test]
    fn bytes_speak_for_themselves_only_when_they_are_sure() {
        assert_eq!(sniff(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Some("image/png"));
        assert_eq!(sniff(b"%PDF-1.7"), Some("application/pdf"));
        assert_eq!(sniff(b"PK\x03\x04rest"), None);
        assert_eq!(sniff(b"<html>"), None);
        assert_eq!(sniff(b""), None);
        let wav = sniff(b"RIFF\x24\0\0\0WAVEfmt ").unwrap();
        assert!(agree("audio/wav", wav) && agree("audio/x-wav", wav) && !agree("audio/mpeg", wav));
        let mp3 = sniff(b"ID3\x04\0\0\0\0\0\0").unwrap();
        assert!(agree("audio/mp3", mp3));
    }
}
