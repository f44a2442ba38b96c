//! Labelled binaries, and the type that an artifact of one gets.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use marquetry_artifacts::{
    ArtifactStore, Capturer, MemoryStore, Scope, Settings, ToolCall, Version, store::Page,
};
use serde_json::json;

/// Captures an embedded resource of no declared type, and returns the type of its artifact.
pub(crate) async fn detected(bytes: &[u8]) -> String {
    let answer = json!({"content": [{"type": "resource", "resource": {
        "uri": "a:/b", "mimeType": "application/octet-stream", "blob": STANDARD.encode(bytes),
    }}]});
    let store: Arc<dyn ArtifactStore> = Arc::new(MemoryStore::default());
    let scope = Scope::local();
    let raw = serde_json::value::to_raw_value(&answer).unwrap();
    let settings = Settings::default();
    Capturer::new(store.clone()).capture(ToolCall::new(&scope, "t"), &settings, raw).await;
    let records = store.list(&scope, &Page::new(None, 1)).await.unwrap().records;
    let Some(record) = records.first() else { return "nothing".to_owned() };
    let version = Version::Number(record.version);
    store.get(&scope, &record.name, version).await.unwrap().record.mime_type
}

fn base64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// Returns a ZIP file with stored members.
fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    for (name, content) in members {
        file.extend(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0");
        file.extend((content.len() as u32).to_le_bytes());
        file.extend((content.len() as u32).to_le_bytes());
        file.extend((name.len() as u16).to_le_bytes());
        file.extend(b"\0\0");
        file.extend(name.as_bytes());
        file.extend(*content);
    }
    file.extend(b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    file
}

fn tar() -> Vec<u8> {
    let mut file = vec![0; 1024];
    file[..5].copy_from_slice(b"a.txt");
    file[257..263].copy_from_slice(b"ustar\0");
    file
}

/// Returns labels, names and bytes.
#[rustfmt::skip]
pub(crate) fn corpus() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const UNKNOWN: &str = "application/octet-stream";
    let png = base64(PNG);
    let docx = zip(&[("[Content_Types].xml", b"<Types/>"), ("_rels/.rels", b""), ("word/document.xml", b"<w/>")]);
    let xlsx = zip(&[("[Content_Types].xml", b"<Types/>"), ("_rels/.rels", b""), ("xl/workbook.xml", b"<w/>")]);
    let pptx = zip(&[("[Content_Types].xml", b"<Types/>"), ("_rels/.rels", b""), ("ppt/presentation.xml", b"<w/>")]);
    let utf16: Vec<u8> = "one, two\nthree, four\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        ("image/png", "PNG", png.clone()),
        ("image/png", "PNG with a ZIP behind it", [&png[..], b"PK\x03\x04rest"].concat()),
        ("image/png", "PNG, cut", png[..40].to_vec()),
        ("image/jpeg", "JPEG of JFIF", b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec()),
        ("image/jpeg", "JPEG of Exif", b"\xff\xd8\xff\xe1\0\x10Exif\0\0MM\0*".to_vec()),
        ("image/gif", "GIF 87", b"GIF87a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;".to_vec()),
        ("image/gif", "GIF 89", b"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;".to_vec()),
        ("image/webp", "WebP", base64("UklGRh4AAABXRUJQVlA4TBEAAAAvAkAAAAdQjyLXo/+BiOh/AAA=")),
        ("image/bmp", "BMP", b"BM\x4e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x03\0\0\0\x02\0\0\0\x01\0\x18\0".to_vec()),
        ("image/tiff", "TIFF, little", b"II*\0\x08\0\0\0\x0a\0\0\x01\x04\0\x01\0\0\0\x03\0\0\0".to_vec()),
        ("image/tiff", "TIFF, big", b"MM\0*\0\0\0\x08\0\x0a\x01\0\0\x04\0\0\0\x01\0\0\0\x03".to_vec()),
        ("image/vnd.microsoft.icon", "ICO", b"\0\0\x01\0\x01\0\x10\x10\0\0\x01\0\x20\0\x68\x04\0\0\x16\0\0\0".to_vec()),
        ("image/avif", "AVIF", b"\0\0\0\x20ftypavif\0\0\0\0avifmif1miafMA1B\0\0\0\0".to_vec()),
        ("image/heif", "HEIC", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\0".to_vec()),
        ("image/heif", "HEIF", b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic\0\0\0\0".to_vec()),
        ("image/jxl", "JPEG XL", b"\0\0\0\x0cJXL \r\n\x87\n\0\0\0\x14ftypjxl ".to_vec()),
        ("image/jp2", "JPEG 2000", b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 ".to_vec()),
        ("image/vnd.adobe.photoshop", "Photoshop", b"8BPS\0\x01\0\0\0\0\0\0\0\x03\0\0\0\x01\0\0\0\x01\0\x08\0\x03".to_vec()),
        (UNKNOWN, "SVG", b"<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>".to_vec()),
        ("application/pdf", "PDF", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n".to_vec()),
        ("application/pdf", "PDF, cut", b"%PDF-1".to_vec()),
        ("application/zip", "ZIP", zip(&[("a.txt", b"hello")])),
        ("application/zip", "ZIP, empty", zip(&[])),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "DOCX", docx),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "XLSX", xlsx),
        ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "PPTX", pptx),
        ("application/vnd.oasis.opendocument.spreadsheet", "ODS", zip(&[("mimetype", b"application/vnd.oasis.opendocument.spreadsheet")])),
        ("application/vnd.oasis.opendocument.text", "ODT", zip(&[("mimetype", b"application/vnd.oasis.opendocument.text")])),
        ("application/epub+zip", "EPUB", zip(&[("mimetype", b"application/epub+zip")])),
        ("application/gzip", "gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\0".to_vec()),
        ("application/x-bzip2", "bzip2", b"BZh91AY&SY".to_vec()),
        ("application/x-xz", "xz", b"\xfd7zXZ\0\0\x04".to_vec()),
        ("application/zstd", "zstd", b"\x28\xb5\x2f\xfd\x04\0".to_vec()),
        ("application/x-7z-compressed", "7z", b"7z\xbc\xaf\x27\x1c\0\x04".to_vec()),
        ("application/vnd.rar", "RAR", b"Rar!\x1a\x07\x01\0".to_vec()),
        ("application/x-tar", "tar", tar()),
        ("audio/x-wav", "WAV", b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec()),
        ("audio/mpeg", "MP3 with tags", b"ID3\x04\0\0\0\0\0\0".to_vec()),
        ("audio/mpeg", "MP3", b"\xff\xfb\x90\x64\0\0\0\0".to_vec()),
        ("audio/ogg", "Ogg Vorbis", b"OggS\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\x1e\x01vorbis".to_vec()),
        ("audio/opus", "Ogg Opus", b"OggS\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\x13OpusHead\x01".to_vec()),
        ("audio/x-flac", "FLAC", b"fLaC\0\0\0\x22".to_vec()),
        ("audio/m4a", "M4A", b"\0\0\0\x18ftypM4A \0\0\0\0M4A mp42".to_vec()),
        ("audio/midi", "MIDI", b"MThd\0\0\0\x06\0\x01\0\x01".to_vec()),
        ("audio/aac", "AAC", b"\xff\xf1\x50\x80\0\x1f\xfc".to_vec()),
        ("video/mp4", "MP4", b"\0\0\0\x18ftypisom\0\0\x02\0isomiso2".to_vec()),
        ("video/webm", "WebM", [&b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81\x01\x42\xf2\x81\x04\x42\xf3\x81\x08\x42\x82\x84webm"[..], &[0; 300]].concat()),
        ("video/quicktime", "QuickTime", b"\0\0\0\x14ftypqt  \0\0\x02\0qt  ".to_vec()),
        ("video/x-msvideo", "AVI", b"RIFF\x24\0\0\0AVI LIST".to_vec()),
        ("application/wasm", "WebAssembly", b"\0asm\x01\0\0\0".to_vec()),
        ("application/x-executable", "ELF", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        ("application/vnd.microsoft.portable-executable", "EXE", b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0".to_vec()),
        ("application/x-mach-binary", "Mach-O", b"\xcf\xfa\xed\xfe\x07\0\0\x01\x03\0\0\0".to_vec()),
        ("application/font-sfnt", "TrueType", b"\0\x01\0\0\0\x0c\0\x80\0\x03\0\x40".to_vec()),
        ("application/font-sfnt", "OpenType", b"OTTO\0\x0c\0\x80\0\x03\0\x40".to_vec()),
        ("application/font-woff", "WOFF", b"wOFF\0\x01\0\0\0\0\0\x40".to_vec()),
        ("application/font-woff", "WOFF 2", b"wOF2\0\x01\0\0\0\0\0\x40".to_vec()),
        ("application/vnd.sqlite3", "SQLite", b"SQLite format 3\0\x10\0\x01\x01".to_vec()),
        ("application/rtf", "RTF", b"{\\rtf1\\ansi Hello}".to_vec()),
        ("application/msword", "old office file", [&b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"[..], &[0; 600]].concat()),
        (UNKNOWN, "zeros", vec![0; 64]),
        (UNKNOWN, "noise", (0..64_u8).map(|n| n.wrapping_mul(151) ^ 0x5a).collect()),
        (UNKNOWN, "text", b"hello, world\n".to_vec()),
        (UNKNOWN, "JSON", b"{\"a\": 1}".to_vec()),
        (UNKNOWN, "HTML", b"<!DOCTYPE html><html></html>".to_vec()),
        (UNKNOWN, "UTF-16 with a BOM", [&b"\xff\xfe"[..], &utf16].concat()),
        (UNKNOWN, "UTF-16 without a BOM", utf16),
        (UNKNOWN, "Latin-1", b"caf\xe9, na\xefve\n".to_vec()),
        (UNKNOWN, "one byte", vec![0xff]),
        (UNKNOWN, "first two bytes of a PNG", png[..2].to_vec()),
    ]
}
