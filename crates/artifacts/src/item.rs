//! Classifies the items of an answer, and makes their artifacts.

use std::{borrow::Cow, time::SystemTime};

use bytes::Bytes;
use marquetry_image_types::{ImageError, USUAL_IMAGE_TYPES, examine};
use marquetry_text_format::{Detected, SAMPLE_BYTES, TextFormat, csv_delimiter, detect, shortened};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    base64::{self, Form},
    json::{self, Members},
    metadata::{
        ContentType, MAX_PARSED_BYTES, Metadata, Outline, ResourceMetadata, outline, small,
    },
    mime,
    name::{self, ArtifactName},
    settings::{ResourceLinks, Settings},
    source::Ids,
    store::NewArtifact,
};

/// An item, parsed only as deep as its classification needs.
pub(crate) struct Item<'a> {
    pub(crate) raw: &'a RawValue,
    pub(crate) kind: Kind<'a>,
    members: Option<Members<'a>>,
}

pub(crate) enum Kind<'a> {
    Text(Option<&'a RawValue>),
    Image,
    Audio,
    /// An embedded resource, with its text or its bytes.
    Resource {
        is_text: bool,
    },
    Link,
    /// An unknown type, perhaps of a later revision.
    Unknown,
    /// An item that is not an object or has no type.
    Malformed(&'static str),
}

impl<'a> Item<'a> {
    pub(crate) fn read(raw: &'a RawValue) -> Self {
        let Some(members) = Members::read(raw) else {
            return Self { raw, kind: Kind::Malformed("item is not an object"), members: None };
        };
        let kind = match members.string("type").as_deref() {
            None => Kind::Malformed("item has no type"),
            Some("text") => Kind::Text(members.get("text")),
            Some("image") => Kind::Image,
            Some("audio") => Kind::Audio,
            Some("resource") => {
                let resource = members.get("resource").and_then(Members::read);
                let is_text = resource.is_some_and(|resource| {
                    !has_text(&resource, "blob") && has_text(&resource, "text")
                });
                Kind::Resource { is_text }
            }
            Some("resource_link") => Kind::Link,
            Some(_) => Kind::Unknown,
        };
        Self { raw, kind, members: Some(members) }
    }

    /// Returns the type as sent, shortened, for reports.
    pub(crate) fn type_name(&self) -> String {
        let name = self.member("type").and_then(json::string);
        name.map(|(name, _)| shortened(&name, 64)).unwrap_or_default()
    }

    pub(crate) fn annotations(&self) -> Option<&'a RawValue> {
        self.member("annotations").filter(|raw| json::is_object(raw))
    }

    pub(crate) fn meta(&self) -> Option<&'a RawValue> {
        self.member("_meta").filter(|raw| json::is_object(raw))
    }

    /// Returns the text of a text item or an embedded resource, and whether it is as sent.
    pub(crate) fn text(&self) -> Option<(Cow<'a, str>, bool)> {
        match self.kind {
            Kind::Text(text) => text.and_then(json::string),
            Kind::Resource { is_text: true } => self.resource_text().map(|text| (text, true)),
            _ => None,
        }
    }

    /// Returns the text of an embedded resource.
    pub(crate) fn resource_text(&self) -> Option<Cow<'a, str>> {
        self.raw_resource_text().and_then(json::string).map(|(text, _)| text)
    }

    /// Returns the text of an embedded resource, as JSON.
    pub(crate) fn raw_resource_text(&self) -> Option<&'a RawValue> {
        self.member("resource").and_then(Members::read)?.get("text")
    }

    /// Rewrites the image with its decoded bytes and its true type.
    pub(crate) fn rewritten_image(&self, mime_type: &str, content: &[u8]) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Image<'a> {
            r#type: &'static str,
            data: String,
            mime_type: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            annotations: Option<&'a RawValue>,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<&'a RawValue>,
        }
        let image = Image {
            r#type: "image",
            data: base64::encode(content),
            mime_type,
            annotations: self.annotations(),
            meta: self.meta(),
        };
        serde_json::to_string(&image).expect("strings and JSON can be written as JSON")
    }

    /// Returns the declared type of an image.
    pub(crate) fn declared_type(&self) -> Option<Cow<'_, str>> {
        self.string("mimeType")
    }

    /// Decodes an image that has no artifact of its own; none if models do not read it.
    pub(crate) fn readable_image(&self) -> Option<ReadableImage> {
        let decoded = base64::decode(&self.string("data")?, self.raw.get().len() as u64).ok()?;
        let mime_type = mime::readable_image(&decoded.bytes)?;
        let is_as_sent = decoded.form == Form::Strict
            && self.declared_type().is_some_and(|declared| declared == mime_type);
        Some(ReadableImage { content: decoded.bytes, mime_type, is_as_sent })
    }

    fn member(&self, name: &str) -> Option<&'a RawValue> {
        self.members.as_ref().and_then(|members| members.present(name))
    }

    fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.members.as_ref().and_then(|members| members.string(name))
    }
}

/// A decoded image that models read.
pub(crate) struct ReadableImage {
    pub(crate) content: Vec<u8>,
    pub(crate) mime_type: &'static str,
    /// Whether it is sent in standard base64 and with its true type.
    pub(crate) is_as_sent: bool,
}

fn has_text(members: &Members<'_>, name: &str) -> bool {
    members.get(name).is_some_and(|raw| raw.get().starts_with('"') && raw.get() != "\"\"")
}

/// Decision about an item.
#[derive(Debug)]
pub(crate) enum Task {
    Save(Box<NewArtifact>),
    /// The item at this position has the same bytes.
    Same(usize),
    /// Saved with others in one artifact, for this reason.
    Bundle(Cow<'static, str>),
    Inline(Cow<'static, str>),
    Skip(Cow<'static, str>),
    /// The item is not saved, for example because it exceeds a limit.
    Fail(Cow<'static, str>),
    /// The item is not saved, because it cannot be decoded. Its JSON is shown instead, as far as it
    /// fits.
    Undecodable(Cow<'static, str>),
    /// The item cannot be decoded, and its JSON does not fit into the answer. The JSON is saved in
    /// one artifact with others.
    BundleUndecodable(Cow<'static, str>),
}

/// Makes the artifacts of one answer.
pub(crate) struct ArtifactMaker<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<Value>,
    pub(crate) settings: &'a Settings,
    pub(crate) ids: &'a dyn Ids,
    pub(crate) now: SystemTime,
}

impl ArtifactMaker<'_> {
    /// Decides about the item at this position.
    pub(crate) fn task(&self, index: usize, item: &Item<'_>) -> Task {
        let made = match &item.kind {
            Kind::Text(Some(text)) => self.text(index, item, text),
            Kind::Text(None) => Err(Task::Undecodable("item has no text".into())),
            Kind::Image => self.media(index, item, ContentType::Image),
            Kind::Audio => self.media(index, item, ContentType::Audio),
            Kind::Resource { .. } => self.resource(index, item),
            Kind::Link => self.link(index, item),
            Kind::Unknown => Err(Task::Skip("content type is not known".into())),
            Kind::Malformed(reason) => Err(Task::Undecodable((*reason).into())),
        };
        match made {
            Ok(artifact) => Task::Save(Box::new(artifact)),
            Err(task) => task,
        }
    }

    fn text(&self, index: usize, item: &Item<'_>, raw: &RawValue) -> Result<NewArtifact, Task> {
        let (text, is_exact) =
            json::string(raw).ok_or_else(|| Task::Undecodable("text is not a string".into()))?;
        if text.is_empty() {
            return Err(Task::Inline("text is empty".into()));
        }
        self.check_size("text", text.len() as u64)?;
        let (text, mut detected) = self.detect(text);
        let mut kind = TextKind::of(detected, self.settings);
        let mut outline = outline(&text, detected, kind.mime_type, self.settings);
        // The beginning of a long text is JSON, but the whole is not.
        let is_broken = outline.schema.as_ref().is_some_and(|schema| !schema.inferred);
        if is_broken
            && detected.format == TextFormat::Json
            && detected.confidence < 100
            && text.len() <= MAX_PARSED_BYTES
        {
            detected = Detected::PLAIN;
            kind = TextKind::of(detected, self.settings);
            outline = Outline::default();
        }
        let mut metadata = self.metadata(item, index, ContentType::Text);
        if detected.format != TextFormat::Plain {
            metadata.detection_confidence = Some(detected.confidence);
        }
        metadata.format_parse_success =
            Some(outline.schema.as_ref().is_none_or(|schema| schema.inferred));
        metadata.detected_format = Some(detected.format);
        metadata.parsed_data_summary = outline.summary;
        metadata.schema = outline.schema;
        if !is_exact {
            metadata
                .warnings
                .push("text held half surrogate pairs, which became U+FFFD".to_owned());
        }
        let name =
            ArtifactName::of_item(self.tool, kind.prefix, index, self.ids.next(), kind.extension);
        Ok(self.artifact(name, kind.mime_type, metadata, text.into_owned().into_bytes()))
    }

    /// Detects the format of a text. The text changes only when the settings allow unescaping CSV.
    fn detect<'t>(&self, text: Cow<'t, str>) -> (Cow<'t, str>, Detected) {
        if !self.settings.mcp_intelligent_processing.enable_text_format_detection {
            return (text, Detected::PLAIN);
        }
        let detected = detect(&text);
        if self.settings.unescape_csv_newlines
            && detected.format == TextFormat::Plain
            && text.contains("\\n")
            && !text.contains('\n')
        {
            let unescaped = text.replace("\\n", "\n");
            let again = detect(&unescaped);
            if again.format == TextFormat::Csv {
                return (Cow::Owned(unescaped), again);
            }
        }
        (text, detected)
    }

    fn media(&self, index: usize, item: &Item<'_>, kind: ContentType) -> Result<NewArtifact, Task> {
        let (prefix, default, what) = match kind {
            ContentType::Audio => ("audio", "audio/wav", "audio"),
            _ => ("image", "image/png", "image"),
        };
        let Some(data) = item.member("data") else {
            return Err(Task::Undecodable(format!("{what} has no data").into()));
        };
        let Some((data, _)) = json::string(data) else {
            return Err(Task::Undecodable("data is not a string".into()));
        };
        let decoded = self.decode(&data)?;
        let mut metadata = self.metadata(item, index, kind);
        warn_of_form(decoded.form, &mut metadata);
        let declared = item.string("mimeType").or(decoded.mime_type.map(Cow::Owned));
        let (mime_type, extension) =
            judge(declared.as_deref(), default, &decoded.bytes, &mut metadata);
        // A resource is often declared so, but an image item seldom.
        if declared.as_deref().and_then(mime::essence).is_some_and(|it| it == mime::OCTET_STREAM)
            && mime_type != mime::OCTET_STREAM
        {
            let warning =
                format!("declared as {}, but the bytes are {mime_type}", mime::OCTET_STREAM);
            metadata.warnings.push(warning);
        }
        let size = Some(decoded.bytes.len() as u64);
        match kind {
            ContentType::Audio => metadata.audio_size_bytes = size,
            _ => metadata.image_size_bytes = size,
        }
        let name = ArtifactName::of_item(self.tool, prefix, index, self.ids.next(), &extension);
        Ok(self.artifact(name, &mime_type, metadata, decoded.bytes))
    }

    fn resource(&self, index: usize, item: &Item<'_>) -> Result<NewArtifact, Task> {
        let Some(resource) = item.member("resource").and_then(Members::read) else {
            return Err(Task::Undecodable("item has no resource".into()));
        };
        let uri = resource.string("uri").unwrap_or_default();
        let declared = resource.string("mimeType");
        let mut metadata = self.metadata(item, index, ContentType::Resource);
        if metadata.meta.is_none() {
            metadata.meta = small(resource.present("_meta"));
        }
        if has_text(&resource, "blob") {
            return self.blob(index, &uri, declared.as_deref(), &resource, metadata);
        }
        if !has_text(&resource, "text") {
            return self.placeholder(index, &uri, declared.as_deref(), metadata);
        }
        let text = resource.string("text").unwrap_or_default();
        self.check_size("text", text.len() as u64)?;
        let guess = name::file_name_of(&uri)
            .and_then(|name| name::extension(&name).and_then(mime::of_extension));
        let default = guess.filter(|guess| mime::is_text(guess)).unwrap_or("text/plain");
        let (mime_type, extension) = judge(declared.as_deref(), default, b"", &mut metadata);
        let essence = mime::essence(&mime_type).unwrap_or_default();
        if let Some(format) = format_of(&essence) {
            let delimiter =
                if essence == "text/tab-separated-values" { b'\t' } else { csv_delimiter(&text) };
            let detected = Detected::new(format, 100).with_delimiter(delimiter);
            let outline = outline(&text, detected, &mime_type, self.settings);
            metadata.parsed_data_summary = outline.summary;
            metadata.schema = outline.schema;
        }
        metadata.resource = Some(ResourceMetadata {
            resource_uri: shortened(&uri, MAX_URI_BYTES),
            has_text_content: true,
            is_text_based: true,
            ..ResourceMetadata::default()
        });
        let name = self.resource_name(index, &uri, &extension);
        Ok(self.artifact(name, &mime_type, metadata, text.into_owned().into_bytes()))
    }

    fn blob(
        &self,
        index: usize,
        uri: &str,
        declared: Option<&str>,
        resource: &Members<'_>,
        mut metadata: Metadata,
    ) -> Result<NewArtifact, Task> {
        let blob = resource.string("blob").unwrap_or_default();
        let decoded = self.decode(&blob)?;
        warn_of_form(decoded.form, &mut metadata);
        let guess = name::file_name_of(uri)
            .and_then(|name| name::extension(&name).and_then(mime::of_extension));
        let default = guess.unwrap_or(mime::OCTET_STREAM);
        let declared = declared.or(decoded.mime_type.as_deref());
        let (mime_type, extension) = judge(declared, default, &decoded.bytes, &mut metadata);
        if mime::is_text(&mime_type) && !is_utf8(&decoded.bytes) {
            metadata
                .warnings
                .push("the text is not UTF-8; it can only be read as bytes".to_owned());
        }
        metadata.resource = Some(ResourceMetadata {
            resource_uri: shortened(uri, MAX_URI_BYTES),
            has_text_content: has_text(resource, "text"),
            has_blob_content: true,
            decoded_from_base64: true,
            original_size_bytes: Some(blob.len() as u64),
            decoded_size_bytes: Some(decoded.bytes.len() as u64),
            ..ResourceMetadata::default()
        });
        let name = self.resource_name(index, uri, &extension);
        Ok(self.artifact(name, &mime_type, metadata, decoded.bytes))
    }

    fn link(&self, index: usize, item: &Item<'_>) -> Result<NewArtifact, Task> {
        match self.settings.resource_links {
            ResourceLinks::Keep => Err(Task::Inline("link is kept as sent".into())),
            ResourceLinks::Placeholder => {
                let uri = item.string("uri").unwrap_or_default();
                let declared = item.string("mimeType");
                let metadata = self.metadata(item, index, ContentType::ResourceLink);
                self.placeholder(index, &uri, declared.as_deref(), metadata)
            }
        }
    }

    /// Makes the artifact of a resource without content, which names the URI (seed 000/2.4.1).
    fn placeholder(
        &self,
        index: usize,
        uri: &str,
        declared: Option<&str>,
        mut metadata: Metadata,
    ) -> Result<NewArtifact, Task> {
        if uri.is_empty() {
            return Err(Task::Undecodable("resource has no text, no blob and no uri".into()));
        }
        let content = format!("Resource reference: {uri}");
        self.check_size("uri", content.len() as u64)?;
        metadata.original_mime_type = declared.map(|declared| shortened(declared, 256));
        metadata.description.push_str(": only its URI, without content");
        metadata.resource = Some(ResourceMetadata {
            resource_uri: shortened(uri, MAX_URI_BYTES),
            is_text_based: declared.is_some_and(mime::is_text),
            is_placeholder: true,
            ..ResourceMetadata::default()
        });
        let name = self.resource_name(index, uri, ".txt");
        Ok(self.artifact(name, "text/plain", metadata, content.into_bytes()))
    }

    /// Makes the artifact of `structuredContent` as sent.
    pub(crate) fn structured(&self, raw: &RawValue) -> Task {
        // Null is a value since revision 2026-07-28, and means none for some servers. Neither needs
        // a file.
        if raw.get() == "null" {
            return Task::Inline("null is kept as sent".into());
        }
        if let Err(task) = self.check_size("structured content", raw.get().len() as u64) {
            return task;
        }
        let mut metadata = self.metadata_of(ContentType::StructuredContent);
        if raw.get().starts_with(['{', '[']) {
            let detected = Detected::new(TextFormat::Json, 100);
            let outline = outline(raw.get(), detected, "application/json", self.settings);
            metadata.parsed_data_summary = outline.summary;
            metadata.schema = outline.schema;
        }
        let name = ArtifactName::of_answer(self.tool, "structured", self.ids.next(), ".json");
        Task::Save(Box::new(self.artifact(
            name,
            "application/json",
            metadata,
            raw.get().as_bytes().to_vec(),
        )))
    }

    /// Makes the artifact of the whole answer as sent.
    pub(crate) fn raw(&self, answer: Bytes) -> Result<NewArtifact, Cow<'static, str>> {
        let limit = self.settings.mcp_intelligent_processing.max_single_item_bytes();
        if answer.len() as u64 > limit {
            return Err(format!(
                "the whole answer is {} bytes, more than the limit of {limit}",
                answer.len()
            )
            .into());
        }
        let mut metadata = self.metadata_of(ContentType::Raw);
        metadata.processing_type = Some("raw_fallback".to_owned());
        let name = ArtifactName::of_answer(self.tool, "raw", self.ids.next(), ".json");
        let mut artifact = NewArtifact::new(name, "application/json", self.now, answer);
        artifact.metadata = metadata;
        Ok(artifact)
    }

    /// Makes the artifact of several items: a JSON array of them as sent.
    pub(crate) fn bundle(&self, items: String) -> Task {
        if let Err(task) = self.check_size("the rest of the items", items.len() as u64) {
            return task;
        }
        let metadata = self.metadata_of(ContentType::Items);
        let name = ArtifactName::of_answer(self.tool, "items", self.ids.next(), ".json");
        Task::Save(Box::new(self.artifact(name, "application/json", metadata, items.into_bytes())))
    }

    fn artifact(
        &self,
        name: ArtifactName,
        mime_type: &str,
        metadata: Metadata,
        content: Vec<u8>,
    ) -> NewArtifact {
        // A store counts the bytes, not the spare capacity of their buffer.
        let content = Bytes::from(content.into_boxed_slice());
        let mut artifact = NewArtifact::new(name, mime_type, self.now, content);
        artifact.metadata = metadata;
        artifact
    }

    fn metadata(&self, item: &Item<'_>, index: usize, kind: ContentType) -> Metadata {
        Metadata {
            content_index: Some(index),
            annotations: small(item.annotations()),
            meta: small(item.meta()),
            ..self.metadata_of(kind)
        }
    }

    fn metadata_of(&self, kind: ContentType) -> Metadata {
        let what = match kind {
            ContentType::Text => "Text content",
            ContentType::Image => "Image content",
            ContentType::Audio => "Audio content",
            ContentType::Resource => "Resource content",
            ContentType::ResourceLink => "Resource link",
            ContentType::StructuredContent => "Structured content",
            ContentType::Items => "Further items",
            ContentType::Raw => "Whole answer",
        };
        Metadata {
            description: format!("{what} from MCP tool {}", shortened(self.tool, 200)),
            source_tool_name: Some(shortened(self.tool, 200)),
            source_tool_args: self.arguments.clone(),
            content_type: Some(kind),
            ..Metadata::default()
        }
    }

    fn decode(&self, text: &str) -> Result<base64::Decoded, Task> {
        let limit = self.settings.mcp_intelligent_processing.max_single_item_bytes();
        base64::decode(text, limit).map_err(|error| match error {
            base64::DecodeError::Empty => Task::Skip(error.to_string().into()),
            base64::DecodeError::TooLarge { .. } => Task::Fail(error.to_string().into()),
            base64::DecodeError::Invalid(_) | base64::DecodeError::DataUri => {
                Task::Undecodable(error.to_string().into())
            }
        })
    }

    fn check_size(&self, what: &str, bytes: u64) -> Result<(), Task> {
        let limit = self.settings.mcp_intelligent_processing.max_single_item_bytes();
        if bytes > limit {
            return Err(Task::Fail(
                format!("{what} is {bytes} bytes, more than the limit of {limit}").into(),
            ));
        }
        Ok(())
    }

    fn resource_name(&self, index: usize, uri: &str, extension: &str) -> ArtifactName {
        let file_name = match name::file_name_of(uri) {
            Some(name) if name::extension(&name).is_some() => name,
            Some(name) => format!("{name}{extension}"),
            None => format!("{:08x}{extension}", self.ids.next()),
        };
        ArtifactName::of_resource(self.tool, index, &file_name)
    }
}

/// Longest URI that metadata has whole, in bytes.
const MAX_URI_BYTES: usize = 2048;

struct TextKind {
    mime_type: &'static str,
    prefix: &'static str,
    extension: &'static str,
}

impl TextKind {
    fn of(detected: Detected, settings: &Settings) -> Self {
        let (mime_type, prefix, extension) = match detected.format {
            TextFormat::Json => ("application/json", "json", ".json"),
            TextFormat::Ndjson => ("application/x-ndjson", "ndjson", ".ndjson"),
            TextFormat::Csv if detected.delimiter == Some(b'\t') => {
                ("text/tab-separated-values", "tsv", ".tsv")
            }
            TextFormat::Csv => ("text/csv", "csv", ".csv"),
            TextFormat::Yaml => (settings.yaml_mime_type.as_str(), "yaml", ".yaml"),
            TextFormat::Markdown => ("text/markdown", "markdown", ".md"),
            _ => ("text/plain", "text", ".txt"),
        };
        Self { mime_type, prefix, extension }
    }
}

/// Returns the format of a declared MIME type, if it has a schema.
fn format_of(essence: &str) -> Option<TextFormat> {
    Some(match essence {
        "application/json" => TextFormat::Json,
        "application/x-ndjson" => TextFormat::Ndjson,
        "text/csv" | "application/csv" | "text/tab-separated-values" => TextFormat::Csv,
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => TextFormat::Yaml,
        _ => return None,
    })
}

/// Returns MIME type and extension of some bytes: the declared ones, unless the bytes prove another
/// type.
fn judge(
    declared: Option<&str>,
    default: &str,
    bytes: &[u8],
    metadata: &mut Metadata,
) -> (String, String) {
    metadata.original_mime_type = declared.map(|declared| shortened(declared, 256));
    let sniffed = mime::sniff(bytes);
    metadata.sniffed_mime = sniffed.map(str::to_owned);
    let essence = declared.and_then(mime::essence);
    if let (Some(declared), None) = (declared, &essence) {
        metadata
            .warnings
            .push(format!("declared MIME type {:?} is invalid", shortened(declared, 64)));
    }
    let (mime_type, essence) = match (declared, essence, sniffed) {
        (Some(_), Some(essence), Some(sniffed)) if !mime::agree(&essence, sniffed) => {
            if essence != mime::OCTET_STREAM {
                metadata
                    .warnings
                    .push(format!("declared as {essence}, but the bytes are {sniffed}"));
            }
            (sniffed.to_owned(), sniffed.to_owned())
        }
        (Some(declared), Some(essence), _) => (declared.trim().to_owned(), essence),
        (_, _, Some(sniffed)) => (sniffed.to_owned(), sniffed.to_owned()),
        _ => (default.to_owned(), default.to_owned()),
    };
    let (mime_type, essence) = if !bytes.is_empty() && mime::contradicts(&essence, bytes) {
        let detected = mime::detected(bytes);
        let are = detected.unwrap_or("of an unknown type");
        let what = declared
            .map_or("the item is an image".to_owned(), |_| format!("declared as {essence}"));
        metadata.warnings.push(format!("{what}, but the bytes are {are}"));
        // The declaration stays if nothing better is known (seed 000/2.2.2).
        detected.map_or((mime_type, essence), |detected| (detected.to_owned(), detected.to_owned()))
    } else {
        judge_image(mime_type, essence, bytes, metadata)
    };
    let (mime_type, essence) = match mime::detected(bytes) {
        // Nothing is declared that the bytes could contradict. A text that begins like HTML may be
        // anything.
        Some(detected) if essence == mime::OCTET_STREAM && !mime::is_text(detected) => {
            (detected.to_owned(), detected.to_owned())
        }
        _ => (mime_type, essence),
    };
    let extension = mime::extension(&essence).unwrap_or("bin");
    (mime_type, format!(".{extension}"))
}

/// Gives an image its true type, in the one form that all services of models know, and warns of an
/// image that they refuse.
fn judge_image(
    mime_type: String,
    essence: String,
    bytes: &[u8],
    metadata: &mut Metadata,
) -> (String, String) {
    match examine(bytes) {
        Ok(image) => {
            let side = image.width.max(image.height);
            if side > mime::MAX_IMAGE_SIDE {
                metadata.warnings.push(format!(
                    "the image has {} x {} pixels, more than {} on a side; it is not shown",
                    image.width,
                    image.height,
                    mime::MAX_IMAGE_SIDE
                ));
            }
            if mime_type != image.mime_type {
                metadata.warnings.push(format!(
                    "declared as {}, which is {}",
                    shortened(&mime_type, 64),
                    image.mime_type
                ));
            }
            (image.mime_type.to_owned(), image.mime_type.to_owned())
        }
        Err(error) => {
            let is_another_type = error == ImageError::Unknown
                && (bytes.is_empty() || !USUAL_IMAGE_TYPES.contains(&&*essence));
            if !is_another_type {
                metadata.warnings.push(format!("{error}; it is not shown as an image"));
            }
            (mime_type, essence)
        }
    }
}

/// Returns whether bytes are UTF-8, as far as their beginning shows. UTF-16 of ASCII is valid UTF-8
/// in which every second character is NUL.
fn is_utf8(bytes: &[u8]) -> bool {
    let beginning = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let is_valid = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        // The beginning may end in a character.
        Err(error) => error.error_len().is_none() && beginning.len() < bytes.len(),
    };
    let nul_bytes = beginning.split(|byte| *byte == 0).count() - 1;
    is_valid && nul_bytes * 3 <= beginning.len()
}

fn warn_of_form(form: Form, metadata: &mut Metadata) {
    match form {
        Form::Strict => {}
        Form::Tolerant => metadata.warnings.push("base64 was not in the standard form".to_owned()),
        Form::SurplusPadding => {
            metadata.warnings.push("base64 had more padding than its length needs".to_owned());
        }
        Form::DataUri => metadata.warnings.push("base64 stood behind a data: prefix".to_owned()),
    }
}
