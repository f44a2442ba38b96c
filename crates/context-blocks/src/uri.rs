//! Parses and builds `am7://` URIs of objects, media and searches.

use std::{borrow::Cow, fmt, str::FromStr};

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

/// A URI of the form `am7://ORGANISATION/TYPE/ID`, `am7://ORGANISATION/media/TYPE/ID` or
/// `am7://ORGANISATION/vector/search?q=…`.
///
/// Parsing is strict, since URIs become file names, queries and links: each segment may contain
/// only an allow-list of characters after percent-decoding. An organisation may have several
/// segments if the type has a dot in it.
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
    /// Decoded; segments are separated by `/`.
    organization: String,
    target: Target,
    /// Still encoded, without the `?`.
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

    /// Parses a URI.
    ///
    /// # Errors
    ///
    /// Returns an error if the scheme is another one, a segment is missing or contains a refused
    /// character, or the URI is longer than [`Self::MAX_BYTES`] as it is given or as it is written.
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

    /// Starts a URI.
    pub fn builder() -> Am7UriBuilder {
        Am7UriBuilder::default()
    }

    /// Returns the organisation. Several segments are separated by `/`.
    pub fn organization(&self) -> &str {
        &self.organization
    }

    /// Returns the type of the object or media, for example `data.data`; a search has none.
    pub fn object_type(&self) -> Option<&str> {
        match &self.target {
            Target::Object { kind, .. } | Target::Media { kind, .. } => Some(kind),
            Target::VectorSearch => None,
        }
    }

    /// Returns the id of the object or media; a search has none.
    pub fn id(&self) -> Option<&str> {
        match &self.target {
            Target::Object { id, .. } | Target::Media { id, .. } => Some(id),
            Target::VectorSearch => None,
        }
    }

    /// Returns whether the URI names the bytes of an object instead of its record.
    pub fn is_media(&self) -> bool {
        matches!(self.target, Target::Media { .. })
    }

    /// Returns whether the URI is a search.
    pub fn is_vector_search(&self) -> bool {
        self.target == Target::VectorSearch
    }

    /// Returns a query parameter as it was written: `hello+world`. If the name occurs several
    /// times, returns the first one.
    pub fn raw_query_param(&self, name: &str) -> Option<&str> {
        self.query_pairs().find(|(found, _)| decode_query(found) == name).map(|(_, value)| value)
    }

    /// Returns a query parameter decoded: `hello world`.
    pub fn query_param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.raw_query_param(name).map(decode_query)
    }

    /// Returns the names and values of all query parameters, decoded, in their order.
    pub fn query_params(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.query_pairs().map(|(name, value)| (decode_query(name), decode_query(value)))
    }

    fn query_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs =
            self.query.as_deref().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    /// Checks the rules that concern several parts.
    fn checked(self) -> Result<Self, Am7UriError> {
        // Writing percent-encodes some characters, at three times their length.
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
        for (index, segment) in self.organization.split('/').enumerate() {
            if index > 0 {
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

/// Error of parsing or building an [`Am7Uri`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Am7UriError {
    /// The text does not begin with `am7://`.
    #[error("the URI does not begin with am7://")]
    Scheme,
    /// The URI is longer than [`Am7Uri::MAX_BYTES`].
    #[error("the URI has {0} bytes, more than {max}", max = Am7Uri::MAX_BYTES)]
    TooLong(usize),
    /// The URI has this many segments, too few for every form.
    #[error("the URI has {0} segments; it needs an organisation, a type and an id")]
    Segments(usize),
    /// A segment is empty.
    #[error("a segment of the URI is empty; it needs an organisation, a type and an id")]
    EmptySegment,
    /// A percent-decoded segment is `.` or `..`.
    #[error("a segment of the URI is {0:?}; `.` and `..` are not allowed")]
    Traversal(String),
    /// The percent-decoded URI contains a character that is not allowed there.
    #[error("the URI contains {0:?}, which is not allowed there")]
    Character(char),
    /// The percent-decoded bytes are not UTF-8.
    #[error("the percent-encoded bytes of the URI are not UTF-8")]
    Encoding,
    /// The organisation has several segments, but the type has no dot, so that the end of the
    /// organisation is unclear.
    #[error(
        "the organisation has several segments, but {0:?} has no dot that marks it as the type"
    )]
    Ambiguous(String),
    /// The builder has no organisation.
    #[error("the URI has no organisation")]
    MissingOrganization,
    /// The builder has no type.
    #[error("the URI has no type")]
    MissingType,
    /// The builder has no id.
    #[error("the URI has no id")]
    MissingId,
}

/// Builder of an [`Am7Uri`]; see [`Am7Uri::builder`].
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
    /// Sets the organisation. Separate several segments by `/`.
    pub fn organization(self, organization: impl Into<String>) -> Self {
        Self { organization: Some(organization.into()), ..self }
    }

    /// Sets the type of the object, for example `data.data`.
    pub fn object_type(self, kind: impl Into<String>) -> Self {
        Self { kind: Some(kind.into()), ..self }
    }

    /// Sets the id of the object.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Names the bytes of the object instead of its record.
    pub fn media(self) -> Self {
        Self { media: true, ..self }
    }

    /// Names a search, which has neither type nor id.
    pub fn vector_search(self) -> Self {
        Self { search: true, ..self }
    }

    /// Adds a query parameter and encodes it.
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

    /// Returns the URI.
    ///
    /// # Errors
    ///
    /// Returns an error if a part is missing, or [`Am7Uri::parse`] refuses the result.
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
        // A URI must parse as itself. An organisation that ends in `media` does not.
        let text = uri.to_string();
        let read = Am7Uri::parse(&text)?;
        if read == uri { Ok(uri) } else { Err(Am7UriError::Ambiguous(text)) }
    }
}

/// Decodes a segment of a path.
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
    let refused = decoded.chars().find(|&character| {
        !character.is_alphanumeric()
            && !matches!(character, '-' | '.' | '_' | '~' | '@' | ':' | '+' | '=' | ',' | ' ')
    });
    match refused {
        Some(character) => Err(Am7UriError::Character(character)),
        None => Ok(()),
    }
}

fn check_query(query: &str) -> Result<(), Am7UriError> {
    let refused = query.chars().find(|&character| {
        character.is_control()
            || character.is_whitespace()
            || matches!(character, '"' | '\'' | '`' | ';' | '\\' | '<' | '>' | '#')
    });
    if let Some(character) = refused {
        return Err(Am7UriError::Character(character));
    }
    let decoded = percent_decode_str(query).decode_utf8().map_err(|_| Am7UriError::Encoding)?;
    let control = decoded
        .chars()
        .find(|&character| character.is_control() && !matches!(character, '\t' | '\n' | '\r'));
    match control {
        Some(character) => Err(Am7UriError::Character(character)),
        None => Ok(()),
    }
}

/// Writes a segment of a path with percent-encoding.
pub(crate) fn encode_segment(segment: &str, out: &mut String) {
    encode(
        segment,
        |byte| matches!(byte, b'-' | b'.' | b'_' | b'~' | b'@' | b':' | b'+' | b'=' | b','),
        out,
    );
}

/// Writes a name or a value of a query with percent-encoding, and a space as `+`.
fn encode_query(text: &str, out: &mut String) {
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
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
    // The whole query is UTF-8, but a part may begin in the middle of a character.
    if raw.contains('+') {
        let spaced = raw.replace('+', " ");
        return Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(raw).decode_utf8_lossy()
}
