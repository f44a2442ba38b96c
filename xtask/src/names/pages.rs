//! The names in the pages of one crate.

use std::{fs, path::Path};

use super::html::{attributes, decoded, elements, text};
use crate::Failed;

/// Kinds of items that have their own page, by rustdoc's file names.
const KINDS: [&str; 14] = [
    "attr",
    "constant",
    "derive",
    "enum",
    "fn",
    "foreigntype",
    "keyword",
    "macro",
    "primitive",
    "static",
    "struct",
    "trait",
    "traitalias",
    "type",
];

/// Kinds of ids on an item's page, and their names here. Unions would have pages, too, but the workspace has
/// none.
const MEMBERS: [(&str, &str); 6] = [
    ("associatedconstant.", "const"),
    ("associatedtype.", "associated type"),
    ("method.", "method"),
    ("structfield.", "field"),
    ("tymethod.", "required method"),
    ("variant.", "variant"),
];

/// Returns the public names of a crate, sorted. `folder` is the one of its documentation.
///
/// Starts at the page of the root module, and reads only pages that it links to: rustdoc leaves pages of removed
/// items in its folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, Failed> {
    let mut names = Vec::new();
    module(folder, "", &mut names)?;
    if names.is_empty() {
        return Err(Failed::new(format!("{} names no public item", folder.display())));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn read(path: &Path) -> Result<String, Failed> {
    fs::read_to_string(path).map_err(|error| Failed::new(format!("{}: {error}", path.display())))
}

/// Adds the names in a module and in those below it. `prefix` is its path, ending with `::`.
fn module(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), Failed> {
    for entry in entries(&read(&folder.join("index.html"))?) {
        match entry {
            Entry::Use(path) => names.push(format!("use {prefix}{path}")),
            Entry::Module(name) => {
                names.push(format!("mod {prefix}{name}"));
                module(&folder.join(&name), &format!("{prefix}{name}::"), names)?;
            }
            Entry::Item { kind, name } => {
                let page = read(&folder.join(format!("{kind}.{name}.html")))?;
                let path = format!("{prefix}{name}");
                members(&page, &path, names);
                names.push(format!("{kind} {path}"));
            }
        }
    }
    Ok(())
}

/// An entry of a module's page.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Use(String),
    Module(String),
    Item { kind: String, name: String },
}

fn entries(page: &str) -> Vec<Entry> {
    // The text before the first table may contain anything.
    let tables = page.split("<dl class=\"item-table").skip(1);
    let tables = tables.filter_map(|rest| rest.split("</dl>").next());
    tables.flat_map(|table| elements(table, "dt")).filter_map(entry).collect()
}

fn entry(term: &str) -> Option<Entry> {
    if term.starts_with("<code>") {
        let text = text(term.split("</code>").next()?);
        // `pub use a::b::C as D;` is listed under `D`.
        let path = text.trim().strip_prefix("pub use ")?.trim_end_matches(';').to_owned();
        return Some(Entry::Use(match path.rsplit_once(" as ") {
            Some((from, name)) => format!("{name} = {from}"),
            None => match path.rsplit_once("::") {
                Some((from, "*")) => format!("* = {from}"),
                Some((_, name)) => format!("{name} = {path}"),
                None => path,
            },
        }));
    }
    let link = attributes(term, "href").first().copied()?;
    if let Some(name) = link.strip_suffix("/index.html") {
        return Some(Entry::Module(name.to_owned()));
    }
    let (kind, name) = link.strip_suffix(".html")?.split_once('.')?;
    KINDS.contains(&kind).then(|| Entry::Item { kind: kind.to_owned(), name: name.to_owned() })
}

/// Adds the members of an item, and the traits that it implements.
fn members(page: &str, path: &str, names: &mut Vec<String>) {
    let page = page.split("id=\"main-content\"").nth(1).unwrap_or(page);
    // After these ids come blanket implementations, and the types that implement a trait.
    let own =
        before(page, &["synthetic-implementations", "blanket-implementations", "implementors"]);
    let (own, traits) = own.split_once("id=\"trait-implementations\"").unwrap_or((own, ""));
    // Methods of the type that this one dereferences to.
    let own = own.split("id=\"deref-methods-").next().unwrap_or_default();
    for id in attributes(own, "id") {
        for (prefix, kind) in MEMBERS {
            if let Some(name) = id.strip_prefix(prefix) {
                // `variant.A.field.b`
                names.push(format!("{kind} {path}::{}", name.replace(".field.", "::")));
            }
        }
    }
    for id in attributes(traits, "id") {
        let Some(implementation) = id.strip_prefix("impl-") else { continue };
        let implementation = decoded(implementation);
        // A marker of the compiler for a derived `PartialEq`.
        if !implementation.starts_with("StructuralPartialEq-") {
            let (name, of) = implementation.rsplit_once("-for-").unwrap_or((&implementation, path));
            let is_plain = path.rsplit("::").next() == Some(of);
            let of = if is_plain { String::new() } else { format!(" for {of}") };
            names.push(format!("impl {path}: {name}{of}"));
        }
    }
}

/// Returns the part of the page before the first of these ids.
fn before<'a>(page: &'a str, ids: &[&str]) -> &'a str {
    let starts = ids.iter().filter_map(|id| page.find(&format!("id=\"{id}\"")));
    page.get(..starts.min().unwrap_or(page.len())).unwrap_or(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = r#"<section id="main-content"><p><a href="struct.NotListed.html">x</a></p>
<h2 id="reexports">Re-exports</h2><dl class="item-table reexports"><dt id="reexport.C"><code>pub use crate::b::<a class="struct" href="b/struct.C.html">C</a>;</code></dt><dt><code>pub use serde_json as json;</code></dt></dl>
<h2 id="modules">Modules</h2><dl class="item-table"><dt><a class="mod" href="b/index.html" title="mod a::b">b</a></dt><dd>text</dd></dl>
<h2>Functions</h2><dl class="item-table"><dt><a class="fn" href="fn.long_name.html" title="fn a::long_name">long_<wbr>name</a></dt></dl>"#;

    const B: &str = r#"<dl class="item-table"><dt><a class="struct" href="struct.C.html">C</a></dt><dt><a class="enum" href="enum.E.html">E</a></dt></dl>"#;

    const C: &str = r#"<a id="structfield.menu"></a><section id="main-content"><span id="structfield.one"></span>
<section id="impl-C"><section id="method.new"></section></section>
<h2 id="deref-methods-str"></h2><section id="method.as_str"></section>
<h2 id="trait-implementations"></h2><section id="impl-Clone-for-C"><section id="method.clone"></section></section><section id="impl-From%3CD%3E-for-C"></section><section id="impl-StructuralPartialEq-for-C"></section><section id="impl-PartialEq%3CC%3E-for-str"></section>
<h2 id="synthetic-implementations"></h2><section id="impl-Send-for-C"></section>"#;

    const E: &str = r#"<section id="main-content"><section id="variant.V"></section><span id="variant.V.field.f"></span>"#;

    #[test]
    fn names_of_all_kinds_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("b")).unwrap();
        for (file, page) in [
            ("index.html", ROOT),
            ("b/index.html", B),
            ("b/struct.C.html", C),
            ("b/enum.E.html", E),
            ("fn.long_name.html", "<section id=\"main-content\">"),
            // A page of a removed item.
            ("struct.Removed.html", C),
        ] {
            fs::write(root.join(file), page).unwrap();
        }
        let want = [
            "enum b::E",
            "field b::C::one",
            "fn long_name",
            "impl b::C: Clone",
            "impl b::C: From<D>",
            "impl b::C: PartialEq<C> for str",
            "method b::C::new",
            "mod b",
            "struct b::C",
            "use C = crate::b::C",
            "use json = serde_json",
            "variant b::E::V",
            "variant b::E::V::f",
        ];
        assert_eq!(names(root).unwrap(), want);
    }

    #[test]
    fn a_folder_without_names_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(names(folder.path()).is_err());
        fs::write(folder.path().join("index.html"), "").unwrap();
        assert!(names(folder.path()).is_err());
    }
}
