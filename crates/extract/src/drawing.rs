//! Drawings in office documents: shapes, charts and SmartArt (DrawingML, ECMA-376 part 1, 20 and
//! 21).

mod chart;
mod diagram;
mod shapes;

use std::collections::HashMap;

use quick_xml::events::BytesStart;

pub(crate) use self::shapes::{Placeholders, Shapes};
use crate::{
    ExtractError, Source,
    package::{Package, Relationships, attribute},
};

/// The texts of the charts and diagrams to which a part refers, by the ids of the relationships.
pub(crate) type DrawnTexts = HashMap<String, String>;

/// Reads the charts and diagrams to which a part refers.
pub(crate) fn drawn_texts(
    format: &'static str,
    package: &mut Package<'_>,
    relationships: &Relationships,
    source: &Source<'_>,
) -> Result<DrawnTexts, ExtractError> {
    let mut texts = DrawnTexts::new();
    let mut length = 0;
    for relationship in relationships.iter() {
        let part = &relationship.target;
        let text = match relationship.kind.as_str() {
            "chart" | "chartEx" => {
                chart::text(format, part, &package.optional(part)?, source, length)?
            }
            "diagramData" => diagram::text(format, part, &package.optional(part)?, source, length)?,
            _ => continue,
        };
        length += text.len();
        texts.insert(relationship.id.clone(), text);
    }
    Ok(texts)
}

/// Returns the id of the relationship to the chart or diagram that an element shows.
pub(crate) fn drawn_id(element: &BytesStart<'_>) -> Option<String> {
    match element.local_name().as_ref() {
        "chart" => attribute(element, "id"),
        "relIds" => attribute(element, "dm"),
        _ => None,
    }
}

/// Returns the text that describes a picture or shape to readers who do not see it, from its
/// non-visual properties (`docPr`, `cNvPr`).
pub(crate) fn alternative_text(element: &BytesStart<'_>) -> Option<String> {
    let described = attribute(element, "descr").filter(|text| !text.trim().is_empty());
    let text = described.or_else(|| attribute(element, "title"))?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty() && !is_file_name(&text)).then_some(text)
}

/// Returns whether a description is the name of the picture's file, as python-pptx writes it.
fn is_file_name(text: &str) -> bool {
    const IMAGES: [&str; 10] =
        ["bmp", "emf", "gif", "jpeg", "jpg", "png", "svg", "tif", "tiff", "wmf"];
    let Some((_, extension)) = text.rsplit_once('.') else { return false };
    IMAGES.iter().any(|image| extension.eq_ignore_ascii_case(image))
}
