//! The modules of a crate, and the cycles between modules of the same parent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use super::paths::Names;
use crate::Failed;

/// Maximum length of a chain of re-exports.
const MAX_RE_EXPORTS: usize = 8;

/// All files of a crate, by their module.
pub(super) struct Modules {
    files: BTreeMap<Vec<String>, Names>,
    /// Every module that has a file or a folder.
    known: BTreeSet<Vec<String>>,
}

/// Modules that name each other, directly or through other ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    /// Their paths, such as `server::call`.
    pub(super) modules: Vec<String>,
    pub(super) edges: Vec<Edge>,
}

/// One module names another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    /// The module of the file, and the path in it.
    pub(super) witness: (String, String),
}

impl Cycle {
    /// Returns a line for each edge.
    pub(super) fn witnesses(&self) -> String {
        let lines = self.edges.iter().map(|Edge { from, to, witness: (file, path) }| {
            format!("  {from} -> {to}: {file} names crate::{path}")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Modules {
    /// Reads a folder with sources.
    pub(super) fn read(source: &Path) -> Result<Self, Failed> {
        let mut files = BTreeMap::new();
        for file in rust_files(source)? {
            let module = module_of(&file, source);
            let text = fs::read_to_string(&file)?;
            let names = Names::read(&text, &module)
                .map_err(|error| Failed::new(format!("{}: {error}", file.display())))?;
            // A crate may have both a library and a program.
            let known: &mut Names = files.entry(module).or_default();
            known.paths.extend(names.paths);
            known.imports.extend(names.imports);
            known.globs.extend(names.globs);
            known.items.extend(names.items);
            known.test_modules.extend(names.test_modules);
        }
        Ok(Self::new(files))
    }

    fn new(mut files: BTreeMap<Vec<String>, Names>) -> Self {
        let tests: Vec<Vec<String>> = files
            .iter()
            .flat_map(|(module, names)| {
                names.test_modules.iter().map(|name| module.iter().chain([name]).cloned().collect())
            })
            .collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let known = files
            .keys()
            .flat_map(|module| (1..=module.len()).map(|end| module[..end].to_vec()))
            .collect();
        Self { files, known }
    }

    /// Returns every cycle, those of outer modules first.
    pub(super) fn cycles(&self) -> Vec<Cycle> {
        let mut levels: BTreeMap<Vec<String>, BTreeMap<(String, String), Edge>> = BTreeMap::new();
        for (module, names) in &self.files {
            for path in &names.paths {
                if let Some((level, edge)) = self.edge(module, path) {
                    let key = (edge.from.clone(), edge.to.clone());
                    levels.entry(level).or_default().entry(key).or_insert(edge);
                }
            }
        }
        let mut cycles: Vec<(usize, Cycle)> = Vec::new();
        for (level, edges) in levels {
            cycles.extend(cycles_of(&edges).into_iter().map(|cycle| (level.len(), cycle)));
        }
        cycles.sort_by_key(|(depth, _)| *depth);
        cycles.into_iter().map(|(_, cycle)| cycle).collect()
    }

    /// Returns the edge that a path in a file makes: the common parent, and the two modules below
    /// it.
    fn edge(&self, file: &[String], path: &[String]) -> Option<(Vec<String>, Edge)> {
        let mut target = path.to_vec();
        for _ in 0..MAX_RE_EXPORTS {
            let common = file.iter().zip(&target).take_while(|(a, b)| a == b).count();
            // A module includes all modules below it.
            let from = file.get(..=common)?;
            let to = target.get(..=common)?;
            if self.known.contains(to) {
                let edge = Edge {
                    from: from.join("::"),
                    to: to.join("::"),
                    witness: (
                        if file.is_empty() { "crate".to_owned() } else { file.join("::") },
                        path.join("::"),
                    ),
                };
                return Some((file[..common].to_vec(), edge));
            }
            target = self.origin(&target[..common], &target[common..])?;
        }
        None
    }

    /// Returns the module that defines `rest` if `module` re-exports it; [`None`] if `module`
    /// defines it.
    fn origin(&self, module: &[String], rest: &[String]) -> Option<Vec<String>> {
        let names = self.files.get(module)?;
        let name = rest.first()?;
        if let Some(import) = names.imports.get(name) {
            let origin: Vec<String> = import.iter().chain(&rest[1..]).cloned().collect();
            return (origin != [module, rest].concat()).then_some(origin);
        }
        let glob = names.globs.iter().find(|glob| {
            let of_glob = self.files.get(*glob);
            of_glob.is_some_and(|it| it.items.contains(name) || it.imports.contains_key(name))
        })?;
        Some(glob.iter().chain(rest).cloned().collect())
    }
}

/// Returns the cycles among the modules of one parent: sets of modules that reach each other.
fn cycles_of(edges: &BTreeMap<(String, String), Edge>) -> Vec<Cycle> {
    let nodes: BTreeSet<&str> =
        edges.keys().flat_map(|(from, to)| [from.as_str(), to.as_str()]).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        nodes.iter().map(|&node| (node, reachable(node, edges))).collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut cycles = Vec::new();
    for &node in &nodes {
        if done.contains(node) || !reached[node].contains(node) {
            continue;
        }
        let together: BTreeSet<&str> =
            reached[node].iter().copied().filter(|other| reached[other].contains(node)).collect();
        done.extend(&together);
        cycles.push(Cycle {
            edges: edges
                .values()
                .filter(|edge| {
                    together.contains(edge.from.as_str()) && together.contains(edge.to.as_str())
                })
                .cloned()
                .collect(),
            modules: together.into_iter().map(str::to_owned).collect(),
        });
    }
    cycles
}

/// Returns the modules that `start` names, directly or through others.
fn reachable<'a>(start: &'a str, edges: &'a BTreeMap<(String, String), Edge>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for (from, to) in edges.keys() {
            if from == node && seen.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    seen
}

/// Returns the module of a file: `src/a/mod.rs` and `src/a.rs` are `a`.
fn module_of(file: &Path, source: &Path) -> Vec<String> {
    let relative = file.strip_prefix(source).unwrap_or(file).with_extension("");
    let mut module: Vec<String> =
        relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// Returns all Rust files below a folder, sorted.
pub(super) fn rust_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes an example crate and checks its cycles.
    #[track_caller]
    fn check(files: &[(&str, &str)], want: &[&[&str]]) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let cycles = Modules::read(folder.path()).unwrap().cycles();
        let modules: Vec<Vec<&str>> =
            cycles.iter().map(|cycle| cycle.modules.iter().map(String::as_str).collect()).collect();
        assert_eq!(modules, want);
    }

    #[test]
    fn a_cycle_is_found() {
        check(
            &[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "fn f() { super::a::g() }"),
            ],
            &[&["a", "b"]],
        );
        check(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "")], &[]);
    }

    #[test]
    fn a_cycle_through_a_third_is_found() {
        check(
            &[
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "use crate::c::C;"),
                ("c.rs", "use crate::a;"),
            ],
            &[&["a", "b", "c"]],
        );
    }

    #[test]
    fn folders_are_compared_where_they_part() {
        // Below `a` there is no cycle; `a` and `b` form one.
        check(
            &[
                ("a/mod.rs", "mod x; mod y;"),
                ("a/x.rs", "use super::y; use crate::b;"),
                ("a/y.rs", ""),
                ("b.rs", "use crate::a::y;"),
            ],
            &[&["a", "b"]],
        );
        check(
            &[("a/mod.rs", ""), ("a/x.rs", "use super::y::Y;"), ("a/y.rs", "use crate::a::x::X;")],
            &[&["a::x", "a::y"]],
        );
    }

    #[test]
    fn re_exports_are_followed_to_their_origin() {
        let root = ("lib.rs", "mod a; mod b; pub use self::a::A; pub use b::*;");
        check(
            &[root, ("a.rs", "use crate::B;"), ("b.rs", "pub struct B; fn f(_: crate::A) {}")],
            &[&["a", "b"]],
        );
        check(&[root, ("a.rs", ""), ("b.rs", "use crate::A;")], &[]);
    }

    #[test]
    fn parents_and_tests_make_no_cycle() {
        check(
            &[
                ("lib.rs", "mod a; use a::f; pub struct R;"),
                ("a.rs", "use super::R; use crate::R as S;"),
            ],
            &[],
        );
        check(
            &[("a.rs", "use crate::b;"), ("b.rs", "#[cfg(test)] mod tests { use crate::a; }")],
            &[],
        );
        check(
            &[
                ("a.rs", "use crate::b;"),
                ("b/mod.rs", "#[cfg(test)] mod tests;"),
                ("b/tests.rs", "use crate::a;"),
            ],
            &[],
        );
    }
}
