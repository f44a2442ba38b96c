//! How a text is laid out.

/// Line ends and indentation of a text.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) newline: &'static str,
    pub(crate) unit: String,
}

impl Style {
    pub(crate) fn of(text: &str) -> Self {
        let first = text.find('\n').unwrap_or_default();
        let newline = if text[..first].ends_with('\r') { "\r\n" } else { "\n" };
        Self { newline, unit: "  ".to_owned() }
    }

    pub(crate) fn with_unit(self, unit: Option<&str>) -> Self {
        Self { unit: unit.map_or(self.unit, str::to_owned), ..self }
    }
}
