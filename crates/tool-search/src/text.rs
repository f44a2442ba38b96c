//! The texts of a tool, by which it is found.

/// The texts of a tool, by which it is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolText<'a> {
    /// Its name, without a prefix for the server.
    pub name: &'a str,
    /// Its title for people.
    pub title: &'a str,
    /// Its description.
    pub description: &'a str,
    /// The name of the server that has the tool, which counts a little.
    pub server: &'a str,
    /// Its arguments.
    pub arguments: &'a [Argument<'a>],
}

/// An argument of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Argument<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its description; may be empty.
    pub description: &'a str,
}

impl<'a> ToolText<'a> {
    /// Returns a tool with a name alone.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Sets the title.
    #[must_use]
    pub fn title(self, title: &'a str) -> Self {
        Self { title, ..self }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(self, description: &'a str) -> Self {
        Self { description, ..self }
    }

    /// Sets the name of the server that has the tool.
    #[must_use]
    pub fn server(self, server: &'a str) -> Self {
        Self { server, ..self }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn arguments(self, arguments: &'a [Argument<'a>]) -> Self {
        Self { arguments, ..self }
    }
}

/// A model of vectors: texts of similar meaning have vectors with a large cosine.
pub trait Embed: Send + Sync {
    /// Returns the vector of a text, of length 1, or of zeros if the model knows nothing of it.
    fn embed(&self, text: &str) -> Vec<f32>;

    /// Returns whether the model knows a word. The vector of another one says little, and is not
    /// used.
    fn knows(&self, word: &str) -> bool {
        _ = word;
        true
    }
}

/// Returns the beginning of a text that counts.
pub(crate) fn beginning(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}
