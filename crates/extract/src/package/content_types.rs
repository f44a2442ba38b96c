//! The media types of the parts of a package (ECMA-376 part 2, 6.2.3).

use std::collections::HashMap;

use quick_xml::events::Event;

use super::{Package, attribute, each_event, normalized};
use crate::ExtractError;

/// The media types of parts, by their names and by the extensions of their names.
#[derive(Default)]
pub(crate) struct ContentTypes {
    by_name: HashMap<String, String>,
    by_extension: HashMap<String, String>,
    main: Option<String>,
}

impl ContentTypes {
    pub(crate) fn read(package: &mut Package<'_>) -> Result<Self, ExtractError> {
        const PART: &str = "[Content_Types].xml";
        let mut types = Self::default();
        let xml = package.optional(PART)?;
        each_event(package.format, PART, &xml, |event| {
            let (Event::Start(element) | Event::Empty(element)) = event else { return Ok(()) };
            let Some(media_type) = attribute(&element, "ContentType") else { return Ok(()) };
            if let Some(part) = attribute(&element, "PartName") {
                if types.main.is_none() && media_type.contains(".main+xml") {
                    types.main = Some(part.trim_start_matches('/').to_owned());
                }
                types.by_name.insert(normalized(&part), media_type);
            } else if let Some(extension) = attribute(&element, "Extension") {
                types.by_extension.insert(extension.to_lowercase(), media_type);
            }
            Ok(())
        })?;
        Ok(types)
    }

    /// Returns the media type of a part.
    pub(crate) fn of(&self, part: &str) -> Option<&str> {
        let name = normalized(part);
        let by_extension = name.rsplit_once('.').and_then(|(_, it)| self.by_extension.get(it));
        self.by_name.get(&name).or(by_extension).map(String::as_str)
    }

    /// Returns the name of the main part of a document.
    pub(super) fn into_main(self) -> Option<String> {
        self.main
    }
}
