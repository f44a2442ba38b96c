//! The paths in a file: `crate::…`, `super::…` and `self::…`, in code and in `use` declarations.
//!
//! Code that is compiled only for tests or fuzzing does not count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The paths and items of a file.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Paths from the crate's root, such as `["server", "call", "Call"]`.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// Names that the file's module re-exports or imports, each with the path from the crate's
    /// root.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// Modules whose items are all imported.
    pub(super) globs: BTreeSet<Vec<String>>,
    /// Items that the file's module defines.
    pub(super) items: BTreeSet<String>,
    /// Modules in their own files that are compiled only for tests.
    pub(super) test_modules: BTreeSet<String>,
}

const ITEMS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

impl Names {
    /// Reads a file of the module `module`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not Rust.
    pub(super) fn read(text: &str, module: &[String]) -> Result<Self, String> {
        let tokens: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
        let mut names = Self::default();
        names.walk(tokens, module, module.len());
        Ok(names)
    }

    /// `depth` is the depth of the file's own module; deeper declarations are in inline modules.
    fn walk(&mut self, tokens: TokenStream, module: &[String], depth: usize) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        let mut only_in_tests = false;
        let mut follows_colons = false;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    // `#![…]`, in which no bracket follows `#`, applies to the item around it and
                    // is ignored.
                    if let Some(attribute) = group(tokens.get(at + 1), Delimiter::Bracket) {
                        only_in_tests |= is_test_attribute(attribute);
                        at += 1;
                    }
                }
                TokenTree::Ident(_) if only_in_tests => {
                    let end = end_of_item(&tokens, at);
                    self.test_modules.extend(module_in_a_file(&tokens[at..end]));
                    only_in_tests = false;
                    at = end;
                    continue;
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    match word.as_str() {
                        "mod" => {
                            if let (Some(name), Some(body)) = (
                                ident(&tokens[at + 1..]),
                                group(tokens.get(at + 2), Delimiter::Brace),
                            ) {
                                let inner: Vec<_> = module.iter().cloned().chain([name]).collect();
                                self.walk(body.stream(), &inner, depth);
                                at += 3;
                                continue;
                            }
                        }
                        "use" => {
                            let end = end_of_item(&tokens, at);
                            let is_own = module.len() == depth;
                            self.read_use(&tokens[at + 1..end], module, is_own);
                            at = end;
                            continue;
                        }
                        "crate" | "super" | "self" if !follows_colons => {
                            let (path, length) = path(&tokens[at..], module);
                            // `self.field` and `crate` in `pub(crate)` are not paths.
                            if length > 1 {
                                self.paths.extend(path);
                                at += length;
                                continue;
                            }
                        }
                        keyword if ITEMS.contains(&keyword) && module.len() == depth => {
                            self.items.extend(ident(&tokens[at + 1..]));
                        }
                        _ => {}
                    }
                }
                TokenTree::Group(inner) => {
                    only_in_tests = false;
                    self.walk_code(inner.stream(), module);
                }
                _ => {}
            }
            follows_colons = at > 0 && is_punct(&tokens[at], ':') && is_punct(&tokens[at - 1], ':');
            at += 1;
        }
    }

    /// Reads the content of brackets, such as a body or the arguments of a macro. Other modules
    /// cannot name its items.
    fn walk_code(&mut self, tokens: TokenStream, module: &[String]) {
        let mut inner = Self::default();
        inner.walk(tokens, module, usize::MAX);
        self.paths.append(&mut inner.paths);
    }

    /// Reads a `use` declaration, from the token after `use`.
    fn read_use(&mut self, tokens: &[TokenTree], module: &[String], is_own: bool) {
        let mut leaves = Vec::new();
        use_tree(tokens, &mut Vec::new(), &mut leaves);
        for (mut path, name) in leaves {
            let Some(start) = start(&path, module) else {
                // The path is in another crate or in a child module; the tokens do not show which.
                // It is recorded as a child's, since only these matter for re-exports.
                if is_own && path.first().is_some_and(|it| !it.is_empty()) {
                    let below: Vec<_> = module.iter().cloned().chain(path).collect();
                    self.import(below, name);
                }
                continue;
            };
            path.drain(..start.1);
            let absolute: Vec<String> = start.0.into_iter().chain(path).collect();
            self.paths.insert(absolute.clone());
            if is_own {
                self.import(absolute, name);
            }
        }
    }

    fn import(&mut self, path: Vec<String>, name: String) {
        if name == "*" {
            self.globs.insert(path);
        } else {
            self.imports.insert(name, path);
        }
    }
}

/// Adds the paths of a `use` tree with their local names; a glob has the name `*`.
fn use_tree(
    tokens: &[TokenTree],
    prefix: &mut Vec<String>,
    leaves: &mut Vec<(Vec<String>, String)>,
) {
    let before = prefix.len();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(word) if *word == "as" => {
                let name = ident(&tokens[at + 1..]).unwrap_or_default();
                leaves.push((prefix.clone(), name));
                prefix.truncate(before);
                return;
            }
            TokenTree::Ident(word) => {
                let word = word.to_string();
                // `a::{self}` is `a`.
                if word != "self" || prefix.is_empty() {
                    prefix.push(word);
                }
            }
            TokenTree::Group(list) => {
                let list: Vec<TokenTree> = list.stream().into_iter().collect();
                for tree in split_at_commas(&list) {
                    use_tree(tree, prefix, leaves);
                }
                prefix.truncate(before);
                return;
            }
            TokenTree::Punct(star) if star.as_char() == '*' => {
                leaves.push((prefix.clone(), "*".to_owned()));
                prefix.truncate(before);
                return;
            }
            _ => {}
        }
        at += 1;
    }
    if let Some(name) = prefix.last().cloned() {
        leaves.push((prefix.clone(), name));
    }
    prefix.truncate(before);
}

/// Returns the path at the start of `tokens`, written from the crate's root, and its number of
/// tokens. The path is [`None`] if it leads above the root.
fn path(tokens: &[TokenTree], module: &[String]) -> (Option<Vec<String>>, usize) {
    let mut words = Vec::new();
    let mut length = 0;
    while let Some(word) = ident(&tokens[length..]) {
        words.push(word);
        length += 1;
        let [first, second, rest @ ..] = &tokens[length..] else { break };
        if !(is_punct(first, ':') && is_punct(second, ':') && ident(rest).is_some()) {
            break;
        }
        length += 2;
    }
    let Some((base, skip)) = start(&words, module) else { return (None, length) };
    words.drain(..skip);
    (Some(base.into_iter().chain(words).collect()), length)
}

/// Returns the module that the first words (`crate`, `super` or `self`) name, and the number of
/// these words; [`None`] for other paths, and for paths above the root.
fn start(words: &[String], module: &[String]) -> Option<(Vec<String>, usize)> {
    match words.first()?.as_str() {
        "crate" => Some((Vec::new(), 1)),
        "self" => {
            let supers = words[1..].iter().take_while(|word| *word == "super").count();
            Some((module.get(..module.len().checked_sub(supers)?)?.to_vec(), 1 + supers))
        }
        "super" => {
            let supers = words.iter().take_while(|word| *word == "super").count();
            Some((module.get(..module.len().checked_sub(supers)?)?.to_vec(), supers))
        }
        _ => None,
    }
}

fn ident(tokens: &[TokenTree]) -> Option<String> {
    match tokens.first()? {
        TokenTree::Ident(word) => Some(word.to_string().trim_start_matches("r#").to_owned()),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// Returns the parts of a list in brackets; its last comma ends no part.
fn split_at_commas(list: &[TokenTree]) -> impl Iterator<Item = &[TokenTree]> {
    list.split(|token| is_punct(token, ',')).filter(|part| !part.is_empty())
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token? {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// Returns the index after the item that begins at `at`: after its semicolon or its body.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let is_use = ident(&tokens[at..]).is_some_and(|it| it == "use");
    let words = tokens[at..].iter().take(4).filter_map(|token| ident(std::slice::from_ref(token)));
    let is_item = words.into_iter().any(|word| {
        ITEMS.contains(&word.as_str())
            || matches!(word.as_str(), "use" | "mod" | "impl" | "macro_rules")
    });
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => return index + 1,
            // A field, a variant or an arm that is compiled only for tests.
            TokenTree::Punct(punct) if punct.as_char() == ',' && !is_item => return index + 1,
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace && !is_use => {
                return index + 1;
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the name in `mod name;`, with any visibility.
fn module_in_a_file(item: &[TokenTree]) -> Option<String> {
    let at =
        item.iter().position(|token| matches!(token, TokenTree::Ident(word) if *word == "mod"))?;
    let ends = matches!(item.get(at + 2), Some(TokenTree::Punct(punct)) if punct.as_char() == ';');
    ends.then(|| ident(&item[at + 1..])).flatten()
}

/// Returns whether an attribute restricts the next item to tests (or fuzzing): `cfg(test)`, `test`,
/// `cfg(any(test, fuzzing))`.
fn is_test_attribute(attribute: &Group) -> bool {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match (ident(&tokens).as_deref(), group(tokens.get(1), Delimiter::Parenthesis)) {
        (Some("cfg"), Some(condition)) => !may_hold(condition.stream()),
        (Some("test"), None) => tokens.len() == 1,
        _ => false,
    }
}

/// Returns whether a `cfg` condition can be true in a build that is neither for tests nor for
/// fuzzing.
fn may_hold(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    let list: Vec<TokenTree> = group(tokens.get(1), Delimiter::Parenthesis)
        .map(|list| list.stream().into_iter().collect())
        .unwrap_or_default();
    let mut parts =
        split_at_commas(&list).map(|part| part.iter().cloned().collect::<TokenStream>());
    match ident(&tokens).as_deref() {
        Some("test" | "fuzzing") => false,
        Some("all") => parts.all(may_hold),
        Some("any") => parts.any(may_hold),
        // Any other condition, such as a feature or `not(…)`, is assumed to be possible.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let module = ["a".to_owned(), "b".to_owned()];
        let names = Names::read(text, &module).unwrap();
        let paths: Vec<String> = names.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, want, "{text}");
    }

    #[test]
    fn paths_begin_at_the_root() {
        check("use crate::x::{self, Y, z::*};", &["x", "x::Y", "x::z"]);
        check("use super::{x::Y as Z, super::w};", &["a::x::Y", "w"]);
        check("use super::super::w;", &["w"]);
        check(
            "fn f() { super::x::g(); self::y::h(|it: &crate::Z| it.super_()) }",
            &["Z", "a::b::y::h", "a::x::g"],
        );
        check("fn f(self: Box<Self>) { self.g(); println!(\"{}\", crate::x::N) }", &["x::N"]);
        check("pub(crate) struct A; pub(super) fn f() -> super::T { todo() }", &["a::T"]);
        check("// crate::x::Y\n/// [`crate::x::Y`]\nconst T: &str = \"crate::x\";", &[]);
    }

    #[test]
    fn inline_modules_shift_super() {
        check("mod c { use super::x; use super::super::y; }", &["a::b::x", "a::y"]);
    }

    #[test]
    fn code_for_tests_does_not_count() {
        check("#[cfg(test)] mod tests { use crate::x; } use crate::y;", &["y"]);
        check("#[cfg(test)] use crate::x::{A, B}; fn f() {}", &[]);
        check(
            "#[cfg(test)] fn f<A, B>(_: A) { crate::x::g() } fn g() { crate::y::g() }",
            &["y::g"],
        );
        check("struct S { #[cfg(test)] a: crate::x::A, b: crate::y::B }", &["y::B"]);
        check("#[test] fn f() { crate::x::g() } fn g() { crate::y::g() }", &["y::g"]);
        check("#[cfg(any(test, fuzzing))] pub(crate) mod fuzz { use crate::x; }", &[]);
        check("#[cfg(any(test, feature = \"c\"))] mod c { use crate::x; }", &["x"]);
        check("#[cfg(not(test))] fn f() { crate::x::g() }", &["x::g"]);
        let names = Names::read("#[cfg(test)] pub(crate) mod tests; mod c;", &[]).unwrap();
        assert_eq!(names.test_modules, BTreeSet::from(["tests".to_owned()]));
    }

    #[test]
    fn re_exports_and_items_are_recorded() {
        let names = Names::read(
            "mod c; pub use self::c::X; pub use d::Y as Z; pub use e::*; pub struct W;",
            &["a".to_owned()],
        )
        .unwrap();
        assert_eq!(names.imports["X"].join("::"), "a::c::X");
        assert_eq!(names.imports["Z"].join("::"), "a::d::Y");
        assert_eq!(names.globs, BTreeSet::from([["a", "e"].map(str::to_owned).to_vec()]));
        assert!(names.items.contains("W"));
    }
}
