//! `am7://` URIs: which object, medium or search something is about.

use std::{borrow::Cow, fmt, str::FromStr};

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

/// A URI of the form `am7://ORGANISATION/TYPE/ID`, `am7://ORGANISATION/media/TYPE/ID` or
/// `am7://ORGANISATION/vector/search?q=…`.
///
/// Parsing is strict: a URI becomes file names, queries and links, so that each segment is held to an allow-list after
/// percent-decoding. An organisation of several segments is allowed where the type has a dot in it.
///
/// ```
/// use marquetry_context_blocks::Am7Uri;
///
/// let uri = Am7Uri::parse("am7://default/olio.llm.chatConfig/abc-123")?;
/// assert_eq!((uri.organization(), uri.object_type(), uri.id()), ("default", Some("olio.llm.chatConfig"), Some("abc-123")));
///
/// let search = Am7Uri::builder().organization("default").vector_search().query_param("q", "hello world").build()?;
/// assert_eq!(search.to_string(), "am7://default/vector/search?q=hello+world");
/// assert!(Am7Uri::parse("am7://default/../../etc/passwd").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Am7Uri {
    /// Decoded, with a `/` between segments.
    organization: String,
    target: Target,
    /// As it was written, without the `?`.
    query: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Target {
    Object { kind: String, id: String },
    Media { kind: String, id: String },
    VectorSearch,
}

impl Am7Uri {
    /// The longest URI, in bytes.
    pub const MAX_BYTES: usize = 2048;
    const SCHEME: &str = "am7://";

    /// Reads a URI.
    ///
    /// # Errors
    ///
    /// Another scheme, a segment that is missing or holds what it must not, more than [`Self::MAX_BYTES`] as it is given
    /// or as it will be written.
    pub fn parse(text: &str) -> Result<Self, Am7UriError> {
        if text.len() > Self::MAX_BYTES {
            return Err(Am7UriError::TooLong(text.len()));
        }
        let rest = text.strip_prefix(Self::SCHEME).ok_or(Am7UriError::Scheme)?;
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        if let Some(query) = query {
            check_query(query)?;
        }
        let segments = path.split('/').map(segment).collect::<Result<Vec<_>, _>>()?;
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let (organization, target) = match segments.as_slice() {
            [organization @ .., "vector", "search"] if !organization.is_empty() => {
                (organization, Target::VectorSearch)
            }
            [organization @ .., "media", kind, id] if !organization.is_empty() => {
                (organization, Target::Media { kind: (*kind).to_owned(), id: (*id).to_owned() })
            }
            [organization @ .., kind, id] if !organization.is_empty() => {
                (organization, Target::Object { kind: (*kind).to_owned(), id: (*id).to_owned() })
            }
            _ => return Err(Am7UriError::Segments(segments.len())),
        };
        Self { organization: organization.join("/"), target, query: query.map(str::to_owned) }
            .checked()
    }

    /// Puts a URI together.
    pub fn builder() -> Am7UriBuilder {
        Am7UriBuilder::default()
    }

    /// The organisation; one of several segments has a `/` between them.
    pub fn organization(&self) -> &str {
        &self.organization
    }

    /// The type of the object or medium, for example `data.data`; a search has none.
    pub fn object_type(&self) -> Option<&str> {
        match &self.target {
            Target::Object { kind, .. } | Target::Media { kind, .. } => Some(kind),
            Target::VectorSearch => None,
        }
    }

    /// The id of the object or medium; a search has none.
    pub fn id(&self) -> Option<&str> {
        match &self.target {
            Target::Object { id, .. } | Target::Media { id, .. } => Some(id),
            Target::VectorSearch => None,
        }
    }

    /// Whether it names the bytes of an object rather than its record.
    pub fn is_media(&self) -> bool {
        matches!(self.target, Target::Media { .. })
    }

    /// Whether it is a search.
    pub fn is_vector_search(&self) -> bool {
        self.target == Target::VectorSearch
    }

    /// A query parameter as it was written: `hello+world`. Of several with the name, the first.
    pub fn raw_query_param(&self, name: &str) -> Option<&str> {
        self.query_pairs().find(|(found, _)| decode_query(found) == name).map(|(_, value)| value)
    }

    /// A query parameter decoded: `hello world`.
    pub fn query_param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.raw_query_param(name).map(decode_query)
    }

    fn query_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.query.as_deref().unwrap_or_default().split('&');
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    /// What holds of the parts together.
    fn checked(self) -> Result<Self, Am7UriError> {
        // Characters that were not percent-encoded will be when it is written, at three times the length.
        let written = self.to_string().len();
        if written > Self::MAX_BYTES {
            return Err(Am7UriError::TooLong(written));
        }
        let (Target::Object { kind, .. } | Target::Media { kind, .. }) = &self.target else {
            return Ok(self);
        };
        if self.organization.contains('/') && !kind.contains('.') {
            return Err(Am7UriError::Ambiguous(kind.clone()));
        }
        Ok(self)
    }
}

impl fmt::Display for Am7Uri {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Self::SCHEME.to_owned();
        for (place, segment) in self.organization.split('/').enumerate() {
            if place > 0 {
                text.push('/');
            }
            encode_segment(segment, &mut text);
        }
        let (between, kind, id) = match &self.target {
            Target::Object { kind, id } => ("/", kind.as_str(), id.as_str()),
            Target::Media { kind, id } => ("/media/", kind.as_str(), id.as_str()),
            Target::VectorSearch => ("/", "vector", "search"),
        };
        text.push_str(between);
        encode_segment(kind, &mut text);
        text.push('/');
        encode_segment(id, &mut text);
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(query);
        }
        out.write_str(&text)
    }
}

impl FromStr for Am7Uri {
    type Err = Am7UriError;

    fn from_str(text: &str) -> Result<Self, Am7UriError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Am7Uri {
    type Error = Am7UriError;

    fn try_from(text: String) -> Result<Self, Am7UriError> {
        Self::parse(&text)
    }
}

impl From<Am7Uri> for String {
    fn from(uri: Am7Uri) -> Self {
        uri.to_string()
    }
}

/// Why a text is no [`Am7Uri`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Am7UriError {
    /// It does not begin with `am7://`.
    #[error("the URI does not begin with am7://")]
    Scheme,
    /// It is longer than [`Am7Uri::MAX_BYTES`].
    #[error("the URI has {0} bytes, of at most {max}", max = Am7Uri::MAX_BYTES)]
    TooLong(usize),
    /// It has this many segments, which is neither of the forms.
    #[error("the URI has {0} segments; it needs an organisation, a type and an id")]
    Segments(usize),
    /// A segment is empty.
    #[error("a segment of the URI is empty; it needs an organisation, a type and an id")]
    EmptySegment,
    /// A segment, percent-decoded, is `.` or `..`.
    #[error("a segment of the URI is {0:?}, which leads elsewhere")]
    Traversal(String),
    /// A character, percent-decoded, that may not stand there.
    #[error("the URI holds {0:?}, which may not stand there")]
    Character(char),
    /// What is percent-encoded is no UTF-8.
    #[error("the URI is no UTF-8 where it is percent-encoded")]
    Encoding,
    /// The organisation has several segments, and the type no dot that would tell them apart.
    #[error(
        "the organisation has several segments, and the type {0:?} no dot that would tell where they end"
    )]
    Ambiguous(String),
    /// The builder was given no organisation.
    #[error("the URI has no organisation")]
    MissingOrganization,
    /// The builder was given no type.
    #[error("the URI has no type")]
    MissingType,
    /// The builder was given no id.
    #[error("the URI has no id")]
    MissingId,
}

/// Puts an [`Am7Uri`] together; see [`Am7Uri::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Am7UriBuilder {
    organization: Option<String>,
    kind: Option<String>,
    id: Option<String>,
    query: Option<String>,
    media: bool,
    search: bool,
}

impl Am7UriBuilder {
    /// The organisation; with a `/` between its segments if it has several.
    pub fn organization(self, organization: impl Into<String>) -> Self {
        Self { organization: Some(organization.into()), ..self }
    }

    /// The type of the object, for example `data.data`.
    pub fn object_type(self, kind: impl Into<String>) -> Self {
        Self { kind: Some(kind.into()), ..self }
    }

    /// The id of the object.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// The bytes of the object rather than its record.
    pub fn media(self) -> Self {
        Self { media: true, ..self }
    }

    /// A search; it has neither type nor id.
    pub fn vector_search(self) -> Self {
        Self { search: true, ..self }
    }

    /// Adds a query parameter; it is encoded here.
    pub fn query_param(mut self, name: &str, value: &str) -> Self {
        let query = self.query.get_or_insert_default();
        if !query.is_empty() {
            query.push('&');
        }
        encode_query(name, query);
        query.push('=');
        encode_query(value, query);
        self
    }

    /// The URI.
    ///
    /// # Errors
    ///
    /// A part that is missing, and whatever [`Am7Uri::parse`] refuses.
    pub fn build(self) -> Result<Am7Uri, Am7UriError> {
        let organization = self.organization.ok_or(Am7UriError::MissingOrganization)?;
        organization.split('/').try_for_each(check_segment)?;
        let target = if self.search {
            Target::VectorSearch
        } else {
            let kind = self.kind.ok_or(Am7UriError::MissingType)?;
            let id = self.id.ok_or(Am7UriError::MissingId)?;
            check_segment(&kind)?;
            check_segment(&id)?;
            if self.media { Target::Media { kind, id } } else { Target::Object { kind, id } }
        };
        let uri = Am7Uri { organization, target, query: self.query };
        // Only what reads back as itself is a URI: an organisation that ends in `media` does not.
        let text = uri.to_string();
        let read = Am7Uri::parse(&text)?;
        if read == uri { Ok(uri) } else { Err(Am7UriError::Ambiguous(text)) }
    }
}

/// A segment of a path, decoded.
fn segment(raw: &str) -> Result<Cow<'_, str>, Am7UriError> {
    if let Some(character) = raw.chars().find(|&character| character == ' ') {
        return Err(Am7UriError::Character(character));
    }
    let decoded = percent_decode_str(raw).decode_utf8().map_err(|_| Am7UriError::Encoding)?;
    check_segment(&decoded)?;
    Ok(decoded)
}

fn check_segment(decoded: &str) -> Result<(), Am7UriError> {
    match decoded {
        "" => return Err(Am7UriError::EmptySegment),
        "." | ".." => return Err(Am7UriError::Traversal(decoded.to_owned())),
        _ => {}
    }
    let is_allowed = |character: char| {
        character.is_alphanumeric()
            || matches!(character, '-' | '.' | '_' | '~' | '@' | ':' | '+' | '=' | ',' | ' ')
    };
    match decoded.chars().find(|&character| !is_allowed(character)) {
        Some(character) => Err(Am7UriError::Character(character)),
        None => Ok(()),
    }
}

fn check_query(query: &str) -> Result<(), Am7UriError> {
    let is_refused = |character: char| {
        character.is_control()
            || character.is_whitespace()
            || matches!(character, '"' | '\'' | '`' | ';' | '\\' | '<' | '>' | '#')
    };
    if let Some(character) = query.chars().find(|&character| is_refused(character)) {
        return Err(Am7UriError::Character(character));
    }
    let decoded = percent_decode_str(query).decode_utf8().map_err(|_| Am7UriError::Encoding)?;
    let is_refused =
        |character: char| character.is_control() && !matches!(character, '\t' | '\n' | '\r');
    match decoded.chars().find(|&character| is_refused(character)) {
        Some(character) => Err(Am7UriError::Character(character)),
        None => Ok(()),
    }
}

/// Writes a segment so that it can stand in a path.
pub(crate) fn encode_segment(segment: &str, out: &mut String) {
    encode(
        segment,
        |byte| matches!(byte, b'-' | b'.' | b'_' | b'~' | b'@' | b':' | b'+' | b'=' | b','),
        out,
    );
}

/// Writes a name or a value of a query, a space as `+`.
fn encode_query(text: &str, out: &mut String) {
    for (place, word) in text.split(' ').enumerate() {
        if place > 0 {
            out.push('+');
        }
        encode(word, |byte| matches!(byte, b'-' | b'.' | b'_' | b'~'), out);
    }
}

fn encode(text: &str, is_plain: impl Fn(u8) -> bool, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(percent_encoding::percent_encode_byte(byte));
        }
    }
}

fn decode_query(raw: &str) -> Cow<'_, str> {
    // The whole query was seen to be UTF-8; a part of it may still begin in the middle of a character.
    if raw.contains('+') {
        let spaced = raw.replace('+', " ");
        return Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(raw).decode_utf8_lossy()
}
