//! The context of chunks, which searches use besides their text: titles, headings, names of files
//! and folders.

use serde_json::Value;

use super::document::{Document, NewChunk};

/// The title, file name and folders of a document. Searches find its chunks by these, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    pub(crate) title: Option<String>,
    /// File name, unless it equals the title.
    pub(crate) name: Option<String>,
    /// Folders, the innermost last.
    pub(crate) folders: Vec<String>,
    /// Whether chunks are embedded with the context.
    is_embedded: bool,
}

/// Number of folders that count. Outer folders are the same for most documents.
const MAX_FOLDERS: usize = 4;
/// Longest title, name or heading, in bytes; of a longer one only the beginning counts.
const MAX_BYTES: usize = 256;
/// Number of headings above a chunk that count, starting with the innermost.
const MAX_HEADINGS: usize = 6;

impl Document {
    /// Returns the context of the chunks of this document.
    pub fn context(&self) -> Context {
        Context::new(self)
    }
}

impl Context {
    fn new(document: &Document) -> Self {
        let source = [metadata_text(document, "source"), Some(&*document.uri)]
            .into_iter()
            .flatten()
            .find(|uri| uri.starts_with("file:"));
        let path: Vec<String> = match (source, metadata_text(document, "group")) {
            (Some(source), _) => parts(source.trim_start_matches("file:")).map(decoded).collect(),
            // The name of a home says nothing about its documents. A record has no file name.
            (None, Some(group)) => parts(group)
                .filter(|part| !part.starts_with('~'))
                .map(str::to_owned)
                .chain([String::new()])
                .collect(),
            (None, None) => Vec::new(),
        };
        let (file, folders) = path.split_last().unzip();
        let folders = folders.unwrap_or_default();
        let title = document.title.as_deref().map(short).filter(|title| !title.is_empty());
        let name = document
            .name
            .as_ref()
            .or(file)
            .map(|name| short(name))
            .filter(|name| !name.is_empty() && Some(name) != title.as_ref());
        Self {
            name,
            title,
            folders: folders[folders.len().saturating_sub(MAX_FOLDERS)..]
                .iter()
                .map(|folder| short(folder))
                .collect(),
            is_embedded: document.vector_model != Document::CHAT_HISTORY,
        }
    }

    /// Returns the headings above a chunk that differ from the title, outermost first.
    pub(crate) fn headings<'a>(
        &'a self,
        chunk: &'a NewChunk,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let chapter = chunk.chapter.as_ref().filter(|_| chunk.headings.is_empty());
        chunk.headings[chunk.headings.len().saturating_sub(MAX_HEADINGS)..]
            .iter()
            .map(String::as_str)
            .chain(chapter.map(|chapter| &*chapter.title))
            .map(|heading| &heading[..heading.floor_char_boundary(MAX_BYTES)])
            .filter(|heading| Some(*heading) != self.title.as_deref())
    }

    /// Returns the text to embed for a chunk: the folder, the title (or the name without one), the
    /// headings above the chunk, and its text.
    pub fn embedded(&self, chunk: &NewChunk) -> String {
        let mut text = String::new();
        if self.is_embedded {
            let folder = self.folders.last().map(|folder| words_of_name(folder));
            let name = self.name.as_deref().map(words_of_name);
            let title = self.title.clone();
            let headings = self.headings(chunk).map(str::to_owned);
            for part in folder.into_iter().chain(name).chain(title).chain(headings) {
                // The chunk itself may begin with its heading.
                if !chunk.content.trim_start_matches(['#', ' ']).starts_with(&part) {
                    text.push_str(&part);
                    text.push('\n');
                }
            }
        }
        text.push_str(&chunk.content);
        text
    }
}

/// Returns the words of the name of a file or folder: `my-guide_v2.md` is `my guide v2`.
fn words_of_name(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem.replace(['_', '-', '.'], " ")
}

fn metadata_text<'a>(document: &'a Document, key: &str) -> Option<&'a str> {
    document.metadata.get(key).and_then(Value::as_str)
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_BYTES)].trim().to_owned()
}

/// Decodes the percent-encoding of a part of a URI.
fn decoded(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = part.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            plain.push(byte);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(title: Option<&str>, source: &str) -> Document {
        let mut document = Document::new("am7://default/data.data/1");
        document.title = title.map(str::to_owned);
        document.metadata.insert("source".to_owned(), source.into());
        document
    }

    #[test]
    fn a_file_has_a_name_and_folders() {
        let context = document(Some("Pumps"), "file:///a/b/c/d/my%20pumps/X-200.md").context();
        assert_eq!(context.title.as_deref(), Some("Pumps"));
        assert_eq!(context.name.as_deref(), Some("X-200.md"));
        assert_eq!(context.folders, ["b", "c", "d", "my pumps"]);
    }

    #[test]
    fn a_title_that_is_the_name_counts_once() {
        let context = document(Some("x.md"), "file:///x.md").context();
        assert_eq!((context.title.as_deref(), context.name), (Some("x.md"), None));
        assert_eq!(context.folders, [""; 0]);
    }

    #[test]
    fn a_record_lies_in_its_group() {
        let mut record = Document::new("am7://default/data.note/1");
        record.metadata.insert("group".to_owned(), "~alice/Notes/Baking".into());
        assert_eq!(record.context().folders, ["Notes", "Baking"]);
        assert_eq!(record.context().name, None);
    }

    #[test]
    fn other_uris_have_no_folders() {
        assert_eq!(Document::new("docs/a.md").context().folders, [""; 0]);
        assert_eq!(Document::new("file:///docs/%zz%/a%2").context().name.as_deref(), Some("a%2"));
    }

    #[test]
    fn the_embedded_text_names_folder_and_title() {
        let context = document(Some("Pumps"), "file:///manuals/X-200.md").context();
        let mut chunk = NewChunk::of_text("Close the valve.", Vec::new());
        chunk.headings = vec!["Pumps".to_owned(), "Start".to_owned()];
        assert_eq!(context.embedded(&chunk), "manuals\nX 200\nPumps\nStart\nClose the valve.");
        let mut chat = document(Some("Pumps"), "file:///manuals/X-200.md");
        chat.vector_model = Document::CHAT_HISTORY.to_owned();
        assert_eq!(chat.context().embedded(&chunk), "Close the valve.");
        assert_eq!(Document::new("a").context().embedded(&NewChunk::of_text("x", Vec::new())), "x");
    }
}
