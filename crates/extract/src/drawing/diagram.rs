//! SmartArt: the text of its points, each after the one above it (ECMA-376 part 1, 21.4).

use std::collections::{HashMap, HashSet};

use quick_xml::events::BytesStart;

use crate::{
    ExtractError, Source,
    gather::{TextElements, end_line, gather},
    package::attribute,
};

/// Returns the text of a diagram, with a line for each paragraph.
pub(super) fn text(
    format: &'static str,
    part: &str,
    xml: &[u8],
    source: &Source<'_>,
    before: usize,
) -> Result<String, ExtractError> {
    let mut model = DataModel::default();
    gather(format, part, xml, source, before, &mut model)?;
    Ok(model.in_order())
}

/// The points of a diagram, and which of them belong to which.
#[derive(Default)]
struct DataModel {
    points: Vec<Point>,
    /// The children of points by the ids of the points, each with its order.
    children: HashMap<String, Vec<(u64, String)>>,
    in_text: bool,
    length: usize,
}

struct Point {
    id: String,
    text: String,
}

impl TextElements for DataModel {
    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "pt" => self.points.push(Point {
                id: attribute(element, "modelId").unwrap_or_default(),
                text: String::new(),
            }),
            // Other types connect points with their presentation.
            "cxn" if attribute(element, "type").is_none_or(|kind| kind == "parOf") => {
                let ends = attribute(element, "srcId").zip(attribute(element, "destId"));
                let order = attribute(element, "srcOrd").and_then(|order| order.parse().ok());
                if let Some((parent, child)) = ends {
                    let children = self.children.entry(parent).or_default();
                    children.push((order.unwrap_or_default(), child));
                }
            }
            "t" => self.in_text = true,
            "br" => self.push(" "),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "p" => {
                if let Some(point) = self.points.last_mut() {
                    end_line(&mut point.text);
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        // White space between elements is not text.
        if let Some(point) = self.points.last_mut()
            && (!text.trim().is_empty() || !(point.text.is_empty() || point.text.ends_with('\n')))
        {
            point.text.push_str(text);
            self.length += text.len();
        }
    }

    fn is_in_text(&self) -> bool {
        // `pt` has two children named `t`: the body of the text, and its pieces.
        self.in_text
    }

    fn len(&self) -> usize {
        self.length
    }
}

impl DataModel {
    /// Returns the text with each point after its parent. Points without a parent come in the order
    /// of the file.
    fn in_order(mut self) -> String {
        for children in self.children.values_mut() {
            // Reversed, because the last element of a stack comes first.
            children.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
        }
        let index: HashMap<&str, usize> =
            self.points.iter().enumerate().map(|(at, point)| (point.id.as_str(), at)).collect();
        let is_child: HashSet<&str> =
            self.children.values().flatten().map(|(_, child)| child.as_str()).collect();
        let mut is_written = vec![false; self.points.len()];
        let mut text = String::new();
        let tops = self.points.iter().filter(|point| !is_child.contains(point.id.as_str()));
        // Points in a circle have no top.
        for top in tops.chain(&self.points) {
            let mut stack = vec![top.id.as_str()];
            while let Some(id) = stack.pop() {
                let Some(&at) = index.get(id) else { continue };
                if std::mem::replace(&mut is_written[at], true) {
                    continue;
                }
                text.push_str(&self.points[at].text);
                let children = self.children.get(id).into_iter().flatten();
                stack.extend(children.map(|(_, child)| child.as_str()));
            }
        }
        text
    }
}
