//! Alternative chunks: documents of other formats that a Word document contains (`w:altChunk`,
//! ECMA-376 part 1, 17.17.2). Report generators write their whole text as one.

use std::collections::HashMap;

use super::Docx;
use crate::{
    ExtractError, Extracted, Extractor, Problem, Source,
    html::Html,
    mail::Mail,
    package::{ContentTypes, Package, Relationships},
    rtf::Rtf,
    text::PlainText,
};

/// Deepest nesting of documents that is read.
const MAX_DEPTH: u8 = 3;

/// The chunks of a part, by the ids of their relationships.
pub(super) type Chunks = HashMap<String, Extracted>;

/// Reads the chunks of a part. A chunk that cannot be read is a problem.
pub(super) fn chunks(
    package: &mut Package<'_>,
    related: &Relationships,
    source: &Source<'_>,
    problems: &mut Vec<Problem>,
) -> Result<Chunks, ExtractError> {
    let mut chunks = Chunks::new();
    if related.of_kind("aFChunk").next().is_none() {
        return Ok(chunks);
    }
    let types = ContentTypes::read(package)?;
    let mut length = 0;
    for chunk in related.of_kind("aFChunk") {
        let part = &chunk.target;
        let bytes = package.optional(part)?;
        let limits = package.limits_left();
        let media_type = types.of(part).unwrap_or_default();
        let (media_type, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
        let within = Source {
            bytes: &bytes,
            media_type,
            charset: parameters.split_once("charset=").map(|(_, name)| name.trim_matches('"')),
            limits: &limits,
            stop: source.stop,
            depth: source.depth + 1,
        };
        match read(&within, part) {
            Ok(mut chunk_text) => {
                length += chunk_text.content.len();
                source.check(length)?;
                problems.append(&mut chunk_text.problems);
                chunks.insert(chunk.id.clone(), chunk_text);
            }
            Err(
                error
                @ (ExtractError::Limit { .. } | ExtractError::Time(_) | ExtractError::Stopped),
            ) => return Err(error),
            Err(error) => {
                problems.push(Problem::Other { reason: format!("{part} is left out: {error}") });
            }
        }
    }
    Ok(chunks)
}

/// Reads a chunk by its first bytes, else by its media type, else by its name.
fn read(source: &Source<'_>, part: &str) -> Result<Extracted, ExtractError> {
    if source.depth > MAX_DEPTH {
        let media_type = "document within a document".to_owned();
        return Err(ExtractError::Unsupported { media_type });
    }
    let media_type = source.media_type.trim().to_ascii_lowercase();
    let name = part.to_lowercase();
    let readers: [&dyn Extractor; 4] = [&Docx, &Rtf, &Mail, &Html];
    let recognized = readers.into_iter().find(|it| it.recognize(source.bytes).is_some());
    let by_type = readers.into_iter().find(|it| it.media_types().contains(&media_type.as_str()));
    let by_name = readers.into_iter().find(|reader| {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        reader.extensions().iter().any(|(known, _)| Some(*known) == extension)
    });
    recognized.or(by_type).or(by_name).unwrap_or(&PlainText).extract(source)
}
