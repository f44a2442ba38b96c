//! Builds the URLs of diagrams.

use std::{fmt, str::FromStr};

use crate::encode::Code;

/// The address of a PlantUML server, with which its diagram URLs start.
///
/// ```
/// use marquetry_plantuml::{EncodeOptions, Format, Server, Source, encode};
///
/// let code = encode(Source::new("A --> B")?, &EncodeOptions::default());
/// let server = Server::new("http://127.0.0.1:8080/")?;
/// assert_eq!(server.url(&code, Format::Png).as_str(), "http://127.0.0.1:8080/png/SrJGrRLJS080");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server(String);

impl Server {
    /// The address of the public server: [`Server::default`].
    pub const PUBLIC: &str = "https://www.plantuml.com/plantuml";

    /// Checks the address of a server. Slashes at its end are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the address does not start with `http://` or `https://`, has no host, or
    /// contains a character that the path of a URL may not have. URLs are shown to people and put
    /// into pages, so scripts, queries and quotes are refused.
    pub fn new(base: &str) -> Result<Self, ServerError> {
        let scheme = ["https://", "http://"]
            .into_iter()
            .find(|scheme| {
                base.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            })
            .ok_or(ServerError::NotHttp)?;
        if let Some((index, character)) =
            base.chars().enumerate().find(|(_, character)| !may_stand_in_path(*character))
        {
            return Err(ServerError::InvalidCharacter { character, position: index + 1 });
        }
        if base.len() == scheme.len() || base[scheme.len()..].starts_with(['/', ':', '@']) {
            return Err(ServerError::NoHost);
        }
        Ok(Self(base.trim_end_matches('/').to_owned()))
    }

    /// Returns the address without a slash at its end.
    pub fn base(&self) -> &str {
        &self.0
    }

    /// Returns the URL of the diagram of `code` on this server.
    pub fn url(&self, code: &Code, format: Format) -> DiagramUrl {
        DiagramUrl([&self.0, "/", format.as_str(), "/", code.as_str()].concat())
    }
}

impl Default for Server {
    fn default() -> Self {
        Self(Self::PUBLIC.to_owned())
    }
}

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(base: &str) -> Result<Self, ServerError> {
        Self::new(base)
    }
}

/// Error of [`Server::new`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is not an `http:` or `https:` URL.
    #[error("server address does not start with http:// or https://")]
    NotHttp,
    /// The address has no host.
    #[error("server address has no host")]
    NoHost,
    /// A character is not allowed in an address, or must be escaped.
    #[error("character {position} of the server address, {character:?}, is not allowed there")]
    InvalidCharacter {
        /// The first such character.
        character: char,
        /// Position in characters, from 1.
        position: usize,
    },
}

/// The format of a rendered diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A vector image.
    #[default]
    Svg,
    /// A raster image.
    Png,
    /// ASCII art, for sequence diagrams and some others.
    Txt,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Svg, Self::Png, Self::Txt];

    /// Returns the name, which is also the segment of the format in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
            Self::Txt => "txt",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.as_str() == name);
        known.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// Error for an unknown name of a [`Format`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("format {name:?} is not one of svg, png, txt")]
pub struct UnknownFormat {
    /// The unknown name.
    pub name: String,
}

/// The URL of a diagram.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DiagramUrl(String);

impl DiagramUrl {
    /// The longest URL without a [warning](Self::warning). Servers accept 8,192 bytes for all
    /// headers of a request (Jetty's default), which includes cookies and headers of proxies.
    pub const WARN_LENGTH: usize = 4_000;

    /// Returns the URL, which is ASCII.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the URL as an owned string.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the number of characters.
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// Returns a warning for a URL longer than [`DiagramUrl::WARN_LENGTH`].
    pub fn warning(&self) -> Option<LongUrl> {
        (self.length() > Self::WARN_LENGTH).then(|| LongUrl { length: self.length() })
    }
}

impl AsRef<str> for DiagramUrl {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DiagramUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Warning about a URL that servers and proxies may refuse for its length. Its `Display` is a
/// sentence for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongUrl {
    /// Number of characters of the URL.
    pub length: usize,
}

impl fmt::Display for LongUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length } = self;
        write!(
            f,
            "url is {length} characters long, servers may refuse more than {}",
            DiagramUrl::WARN_LENGTH
        )
    }
}

/// Returns whether a path of RFC 3986 may contain the character, or an IPv6 host may. A query or a
/// fragment would absorb the code.
fn may_stand_in_path(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~%!$&'()*+,;=:@/[]".contains(character)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::{EncodeOptions, Source, encode};

    #[test]
    fn urls_name_server_and_format() {
        #[track_caller]
        fn check(base: &str, format: Format, want: &str) {
            let code = code("A --> B");
            assert_eq!(Server::new(base).unwrap().url(&code, format).as_str(), want);
        }
        check(Server::PUBLIC, Format::Svg, "https://www.plantuml.com/plantuml/svg/SrJGrRLJS080");
        check("http://[::1]:8080", Format::Png, "http://[::1]:8080/png/SrJGrRLJS080");
        check(
            "HTTPS://example.org/a%20b//",
            Format::Txt,
            "HTTPS://example.org/a%20b/txt/SrJGrRLJS080",
        );
        assert_eq!(Server::new(Server::PUBLIC), Ok(Server::default()));
    }

    #[test]
    fn a_long_url_warns() {
        assert_eq!(DiagramUrl("x".repeat(4_000)).warning(), None);
        let long = DiagramUrl("x".repeat(4_001));
        assert_eq!(long.warning(), Some(LongUrl { length: 4_001 }));

        // Pseudorandom text, which stays long when it is compressed.
        let numbers = std::iter::successors(Some(1_u32), |number| {
            Some(number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
        });
        let characters = numbers.map(|number| char::from(b' ' + (number >> 24) as u8 % 95));
        let noise: String = characters.take(5_000).collect();
        let url = Server::default().url(&code(&noise), Format::Svg);
        assert!(url.length() > 4_000);
        assert_eq!(url.warning().map(|warning| warning.length), Some(url.as_str().chars().count()));
        assert_snapshot!(LongUrl { length: 5_031 }, @"url is 5031 characters long, servers may refuse more than 4000");
    }

    #[test]
    fn formats_are_known_by_name() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_snapshot!("SVG".parse::<Format>().unwrap_err(), @r#"format "SVG" is not one of svg, png, txt"#);
    }

    #[test]
    fn errors_read_well() {
        assert_snapshot!(error(""), @"server address does not start with http:// or https://");
        assert_snapshot!(error("www.plantuml.com/plantuml"), @"server address does not start with http:// or https://");
        assert_snapshot!(error("javascript:alert(1)//https://"), @"server address does not start with http:// or https://");
        assert_snapshot!(error("https://"), @"server address has no host");
        assert_snapshot!(error("https:///plantuml"), @"server address has no host");
        assert_snapshot!(error("https://:80/plantuml"), @"server address has no host");
        assert_snapshot!(error("https://example.org/?code="), @"character 21 of the server address, '?', is not allowed there");
        assert_snapshot!(error("https://example.org/#"), @"character 21 of the server address, '#', is not allowed there");
        assert_snapshot!(error("https://example.org/\"onload"), @r#"character 21 of the server address, '"', is not allowed there"#);
        assert_snapshot!(error("https://exämple.org"), @"character 11 of the server address, 'ä', is not allowed there");
        assert_snapshot!(error("https://example.org\n"), @r"character 20 of the server address, '\n', is not allowed there");
    }

    #[track_caller]
    fn error(base: &str) -> ServerError {
        Server::new(base).unwrap_err()
    }

    fn code(text: &str) -> Code {
        encode(Source::new(text).unwrap(), &EncodeOptions::default())
    }
}
