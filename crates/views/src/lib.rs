#![doc = include_str!("../README.md")]

use marquetry_apps_ext::server::{Apps, View};

/// A View for tools of Marquetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolView {
    /// Shows and edits a diagram: its text, link and, with a local engine, picture.
    Diagram,
    /// Searches passages and shows them in their sources.
    Search,
    /// Lists artifacts and shows what they hold.
    Artifacts,
}

/// The files of a View.
struct ViewParts {
    title: &'static str,
    markup: &'static str,
    style: &'static str,
    /// The modules, ordered so that each comes after those that it imports. The last one exports
    /// `start`.
    modules: &'static [&'static str],
}

/// The modules that every View contains: the protocol with the host, and the page.
const COMMON_MODULES: [&str; 2] =
    [include_str!("../files/view.js"), include_str!("../files/page.js")];
const COMMON_STYLE: &str = include_str!("../files/page.css");

impl ToolView {
    /// All Views.
    pub const ALL: [Self; 3] = [Self::Diagram, Self::Search, Self::Artifacts];

    /// Returns the URI of the View's resource.
    pub fn uri(self) -> &'static str {
        match self {
            Self::Diagram => "ui://marquetry/diagram.html",
            Self::Search => "ui://marquetry/search.html",
            Self::Artifacts => "ui://marquetry/artifacts.html",
        }
    }

    /// Returns the title of the View, for lists of resources.
    pub fn title(self) -> &'static str {
        self.parts().title
    }

    /// Returns what the View does, for lists of resources.
    pub fn description(self) -> &'static str {
        match self {
            Self::Diagram => "Shows and edits a PlantUML diagram: text, link and picture.",
            Self::Search => "Shows passages in their sources, and collects those to cite.",
            Self::Artifacts => {
                "Lists artifacts and shows them as tables, trees, text, pictures or sound."
            }
        }
    }

    /// Returns the tools whose results the View shows.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Diagram => &["encodePlantUML", "decodePlantUML"],
            Self::Search => &["am7_vector_search"],
            Self::Artifacts => &["list_artifacts", "read_artifact"],
        }
    }

    /// Returns the View as one HTML document that needs no other file.
    ///
    /// A page in a sandboxed frame without network can load nothing, so the modules of `files/`
    /// become one script.
    pub fn html(self) -> String {
        let parts = self.parts();
        let script: String = COMMON_MODULES
            .iter()
            .chain(parts.modules)
            .map(|module| without_imports_and_exports(module))
            .collect();
        let ViewParts { title, markup, style, .. } = parts;
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"version\" content=\"{version}\">\n<title>{title}</title>\n\
             <style>\n{COMMON_STYLE}\n{style}</style>\n</head>\n<body>\n{markup}\
             <script type=\"module\">\n{script}\nstart();\n</script>\n</body>\n</html>\n"
        )
    }

    fn parts(self) -> ViewParts {
        match self {
            Self::Diagram => ViewParts {
                title: "Diagram",
                markup: include_str!("../files/diagram.html"),
                style: include_str!("../files/diagram.css"),
                modules: &[
                    include_str!("../files/pan-zoom.js"),
                    include_str!("../files/diagram-source.js"),
                    include_str!("../files/diagram.js"),
                ],
            },
            Self::Search => ViewParts {
                title: "Sources",
                markup: include_str!("../files/search.html"),
                style: include_str!("../files/search.css"),
                modules: &[
                    include_str!("../files/passages.js"),
                    include_str!("../files/search.js"),
                ],
            },
            Self::Artifacts => ViewParts {
                title: "Artifacts",
                markup: include_str!("../files/artifacts.html"),
                style: include_str!("../files/artifacts.css"),
                modules: &[
                    include_str!("../files/csv.js"),
                    include_str!("../files/json.js"),
                    include_str!("../files/table.js"),
                    include_str!("../files/text-view.js"),
                    include_str!("../files/pan-zoom.js"),
                    include_str!("../files/artifact-reader.js"),
                    include_str!("../files/artifacts.js"),
                ],
            },
        }
    }
}

/// Adds the Views of those tools that a server has: each View to its resources, and its URI to its
/// tools.
pub fn add_to(apps: Apps, has_tool: impl Fn(&str) -> bool) -> Apps {
    ToolView::ALL.into_iter().fold(apps, |apps, view| {
        let mut tools = view.tools().iter().filter(|tool| has_tool(tool)).peekable();
        if tools.peek().is_none() {
            return apps;
        }
        let html = View::html(view.html()).title(view.title()).description(view.description());
        let apps = apps.view(view.uri(), html.prefers_border(true));
        tools.fold(apps, |apps, tool| apps.show(tool, view.uri()))
    })
}

/// Removes the imports of a module and the keyword `export`, so that modules can be joined into one
/// script.
///
/// This is sufficient because modules follow rules that the tests check: an import renames nothing,
/// and no two modules of a View declare the same name.
fn without_imports_and_exports(module: &str) -> String {
    let mut script = String::with_capacity(module.len());
    let mut is_import = false;
    for line in module.lines() {
        is_import |= line.starts_with("import ");
        if is_import {
            // The formatter splits a long list of names over lines; the last one ends with `;`.
            is_import = !line.ends_with(';');
        } else {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Maximum size of all Views together, about that of one picture.
    const MAX_BYTES: usize = 128 << 10;

    fn modules(view: ToolView) -> impl Iterator<Item = &'static str> {
        COMMON_MODULES.into_iter().chain(view.parts().modules.iter().copied())
    }

    #[test]
    fn a_view_is_one_html_document() {
        for view in ToolView::ALL {
            let html = view.html();
            assert!(html.starts_with("<!doctype html>\n<html lang=\"en\">"), "{view:?}");
            assert!(html.ends_with("</body>\n</html>\n"), "{view:?}");
            for (tag, times) in [("head", 1), ("body", 1), ("title", 1), ("style", 1), ("main", 1)]
            {
                let count = html.matches(&format!("</{tag}>")).count();
                assert_eq!(count, times, "{view:?} {tag}");
            }
            assert!(html.len() <= MAX_BYTES, "{view:?} has {} bytes", html.len());
        }
    }

    /// Elements are closed in the right order, and ids are unique.
    #[test]
    fn the_markup_is_well_formed() {
        const VOID: [&str; 3] = ["input", "img", "br"];
        for view in ToolView::ALL {
            let markup = view.parts().markup;
            let mut open = Vec::new();
            let mut ids = BTreeSet::new();
            for part in markup.split('<').skip(1) {
                let (tag, _) = part.split_once('>').expect("a tag ends");
                let name = tag.split([' ', '\n']).next().unwrap_or_default();
                if let Some(closed) = name.strip_prefix('/') {
                    assert_eq!(open.pop(), Some(closed), "{view:?} <{tag}>");
                } else if !VOID.contains(&name) {
                    open.push(name);
                }
                if let Some((_, id)) = tag.split_once(" id=\"") {
                    let (id, _) = id.split_once('"').unwrap();
                    assert!(ids.insert(id), "{view:?} has the id {id} twice");
                }
                let has_code = tag.split_whitespace().any(|part| {
                    part.starts_with("style=") || (part.starts_with("on") && part.contains('='))
                });
                assert!(!has_code, "{view:?} <{tag}>");
                // A sandbox without `allow-forms` submits no form.
                assert_ne!(name, "form", "{view:?}");
            }
            assert_eq!(open, Vec::<&str>::new(), "{view:?}");
            for label in markup.split(" for=\"").skip(1) {
                let (id, _) = label.split_once('"').unwrap();
                assert!(ids.contains(id), "{view:?} has no id {id}");
            }
        }
    }

    /// The ids that scripts look up are those of the markup.
    #[test]
    fn scripts_find_their_elements() {
        for view in ToolView::ALL {
            let markup = view.parts().markup;
            for module in modules(view) {
                for part in module.split("byId(\"").skip(1) {
                    let (id, _) = part.split_once('"').unwrap();
                    assert!(
                        markup.contains(&format!("id=\"{id}\"")),
                        "{view:?}: no element has the id {id}"
                    );
                }
            }
        }
    }

    #[test]
    fn scripts_and_styles_do_not_end_early() {
        for view in ToolView::ALL {
            for module in modules(view) {
                let lower = module.to_lowercase();
                for text in ["</script", "<script", "<!--", "-->"] {
                    assert!(!lower.contains(text), "{view:?} has {text}");
                }
            }
            for style in [COMMON_STYLE, view.parts().style] {
                assert!(!style.contains('<'), "{view:?}");
            }
        }
    }

    /// A View loads nothing, and turns no text into HTML or code.
    #[test]
    fn views_use_no_network_and_evaluate_no_text() {
        const REFUSED: [&str; 18] = [
            "http://",
            "https://",
            "src=\"",
            "href=\"",
            "@import",
            "url(",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket(",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setTimeout(\"",
            "localStorage",
            "createObjectURL",
        ];
        for view in ToolView::ALL {
            let html = view.html();
            for text in REFUSED {
                assert!(!html.contains(text), "{view:?} has {text}");
            }
        }
    }

    #[test]
    fn modules_become_one_script() {
        let module = "import { a } from \"./a.js\";\nimport {\n  c,\n} from \"./c.js\";\n\
                      export const b = a;\n  export\nb();\n";
        assert_eq!(without_imports_and_exports(module), "const b = a;\n  export\nb();\n");
        for view in ToolView::ALL {
            let mut names = BTreeSet::new();
            for module in modules(view) {
                for import in module.split("\nimport ").skip(1) {
                    let (names, _) = import.split_once(';').expect("an import ends");
                    assert!(!names.contains(" as "), "{view:?} renames: {names}");
                }
                for line in without_imports_and_exports(module).lines() {
                    let declared = ["const ", "let ", "class ", "function ", "async function "]
                        .iter()
                        .find_map(|keyword| line.strip_prefix(keyword));
                    let Some(declared) = declared else {
                        assert!(!line.starts_with("default ") && !line.starts_with('{'), "{line}");
                        continue;
                    };
                    let end = declared
                        .find(|character: char| !character.is_alphanumeric() && character != '_')
                        .unwrap_or(declared.len());
                    let name = &declared[..end];
                    assert!(names.insert(name.to_owned()), "{view:?} declares {name} twice");
                }
            }
            assert!(names.contains("start"), "{view:?}");
        }
    }

    #[test]
    fn uris_are_unique_and_documents_have_titles() {
        let uris: BTreeSet<_> = ToolView::ALL.iter().map(|view| view.uri()).collect();
        assert_eq!(uris.len(), ToolView::ALL.len());
        for view in ToolView::ALL {
            assert!(view.uri().starts_with("ui://marquetry/"));
            assert!(view.html().contains(&format!("<title>{}</title>", view.title())));
            assert!(!view.description().is_empty() && !view.tools().is_empty());
        }
    }
}
