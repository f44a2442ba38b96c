//! Charts: their titles, and the categories and values of each series (ECMA-376 part 1, 21.2, and
//! the charts of MS-ODRAWXML).

use std::collections::BTreeMap;

use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Source,
    gather::{TextElements, end_line, gather},
    package::attribute,
};

/// Returns the text of a chart: a line for each title and each series.
pub(super) fn text(
    format: &'static str,
    part: &str,
    xml: &[u8],
    source: &Source<'_>,
    before: usize,
) -> Result<String, ExtractError> {
    let mut chart = Chart::default();
    gather(format, part, xml, source, before, &mut chart)?;
    Ok(chart.text)
}

/// Collects the text of a chart.
#[derive(Default)]
struct Chart {
    text: String,
    /// The open series.
    series: Option<Series>,
    role: Role,
    /// Index of the open point, in its list.
    point: usize,
    in_text: bool,
    /// Bytes that the open series has collected.
    collected: usize,
}

/// The labels and values of a series, by their indices.
#[derive(Default)]
struct Series {
    name: String,
    categories: BTreeMap<usize, String>,
    values: BTreeMap<usize, String>,
}

/// What the open text is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Role {
    /// A title, a label, or the name of a series of the newer charts.
    #[default]
    Label,
    Name,
    Category,
    Value,
    /// Data that a reader does not see.
    Ignored,
}

impl TextElements for Chart {
    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "ser" => self.series = Some(Series::default()),
            // Labels of points have texts as well, after the name of the series.
            "tx" if self.series.as_ref().is_some_and(|series| series.name.is_empty()) => {
                self.role = Role::Name;
            }
            "cat" | "xVal" => self.role = Role::Category,
            "val" | "yVal" | "bubbleSize" => self.role = Role::Value,
            "numDim" => self.role = Role::Ignored,
            "pt" => {
                self.point = attribute(element, "idx")
                    .and_then(|index| index.parse().ok())
                    .unwrap_or_default();
                // The points of newer charts contain their text.
                self.in_text = self.series.is_none();
            }
            "t" | "v" => self.in_text = true,
            "br" => self.push(" "),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "v" | "pt" => {
                self.in_text = false;
                if self.role == Role::Label {
                    end_line(&mut self.text);
                }
            }
            "p" => end_line(&mut self.text),
            "tx" | "cat" | "xVal" | "val" | "yVal" | "bubbleSize" | "numDim" => {
                self.role = Role::Label;
            }
            "ser" => self.end_series(),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        let text = if text.trim().is_empty() { " " } else { text };
        match (&mut self.series, self.role) {
            (_, Role::Ignored) => {}
            (None, _) | (_, Role::Label) => {
                let is_at_start = self.text.is_empty() || self.text.ends_with(['\n', ' ']);
                if text != " " || !is_at_start {
                    self.text.push_str(text);
                }
            }
            (Some(series), role) => {
                series.push(role, self.point, text);
                self.collected += text.len();
            }
        }
    }

    fn is_in_text(&self) -> bool {
        self.in_text
    }

    fn len(&self) -> usize {
        self.text.len() + self.collected
    }
}

impl Series {
    fn push(&mut self, role: Role, point: usize, text: &str) {
        match role {
            Role::Name => self.name.push_str(text),
            Role::Category => {
                let category = self.categories.entry(point).or_default();
                // A category may have several levels, of which the innermost comes first.
                let separator = if category.is_empty() { "" } else { " " };
                category.insert_str(0, separator);
                category.insert_str(0, text);
            }
            Role::Value => self.values.entry(point).or_default().push_str(text),
            Role::Label | Role::Ignored => {}
        }
    }
}

impl Chart {
    /// Writes `name: category value; category value`.
    fn end_series(&mut self) {
        self.role = Role::Label;
        self.collected = 0;
        let Some(series) = self.series.take() else { return };
        end_line(&mut self.text);
        self.text.push_str(series.name.trim());
        let mut separator = if series.name.trim().is_empty() { "" } else { ": " };
        let mut points = series.categories;
        for (index, value) in series.values {
            let point = points.entry(index).or_default();
            if !point.is_empty() {
                point.push(' ');
            }
            point.push_str(&value);
        }
        for point in points.values() {
            self.text.push_str(separator);
            self.text.push_str(point.trim());
            separator = "; ";
        }
        end_line(&mut self.text);
    }
}
