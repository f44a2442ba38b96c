//! Decides which diagrams the engine draws: none that could read files, addresses or the
//! environment.
//!
//! Only directives and functions that are known to be harmless are allowed, so that a new one of a
//! later PlantUML is refused until it has been reviewed.
//!
//! The rules see the text before PlantUML substitutes variables, definitions and functions, so a
//! diagram can hide from them what it reads: `"<i" + "mg:"` is one of endless ways. They are there
//! for the message, which names the line; the sandbox of the process (`sandbox.rs`) is what holds.

/// Why a diagram is not given to PlantUML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    /// A directive or function that could read files, addresses or the environment.
    #[error(
        "line {line}: {what} is refused here: a diagram must not read files, addresses or the environment"
    )]
    Reads {
        /// The line of the source, counted from 1.
        line: usize,
        /// The directive or function.
        what: String,
    },
    /// A diagram of a kind that is not drawn.
    #[error("line {line}: diagrams of the kind {kind} are not drawn here")]
    Kind {
        /// The line of the source, counted from 1.
        line: usize,
        /// The kind.
        kind: String,
    },
    /// More than one diagram, or text outside of the diagram.
    #[error("line {line}: expected one diagram, from one @start line to one @end line")]
    NotOne {
        /// The line of the source, counted from 1.
        line: usize,
    },
}

impl Forbidden {
    /// Returns the line of the source, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Reads { line, .. } | Self::Kind { line, .. } | Self::NotOne { line } => *line,
        }
    }
}

/// A diagram as the engine takes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Diagram {
    /// The diagram: a line that begins with `@start`, other lines, and a line that begins with
    /// `@end`.
    pub(super) text: String,
    /// The line of the source, counted from 1, that PlantUML counts as 0.
    pub(super) first_line: usize,
}

/// The kinds after `@start`.
const KINDS: [&str; 9] =
    ["uml", "mindmap", "wbs", "gantt", "salt", "json", "yaml", "ebnf", "regex"];

/// The directives after `!`. `!include` is allowed with a name of PlantUML's own library, `!theme`
/// with a name.
const DIRECTIVES: [&str; 31] = [
    "if",
    "ifdef",
    "ifndef",
    "elseif",
    "else",
    "endif",
    "while",
    "endwhile",
    "foreach",
    "endfor",
    "define",
    "definelong",
    "enddefinelong",
    "undef",
    "function",
    "endfunction",
    "procedure",
    "endprocedure",
    "unquoted",
    "final",
    "return",
    "local",
    "global",
    "log",
    "assert",
    "exit",
    "startsub",
    "endsub",
    "pragma",
    "include",
    "theme",
];

/// The allowed functions after `%`. Excluded are those that read (`%getenv`, `%load_json`,
/// `%file_exists`, `%dirpath`) and those that call a function by a computed name
/// (`%call_user_func`, `%invoke_procedure`).
const FUNCTIONS: [&str; 40] = [
    "chr",
    "ord",
    "darken",
    "lighten",
    "date",
    "dec2hex",
    "hex2dec",
    "false",
    "true",
    "not",
    "feature",
    "boolval",
    "function_exists",
    "variable_exists",
    "get_variable_value",
    "set_variable_value",
    "hsl_color",
    "intval",
    "is_dark",
    "is_light",
    "lower",
    "upper",
    "newline",
    "n",
    "breakline",
    "reverse_color",
    "reverse_hsluv_color",
    "size",
    "split",
    "splitstr",
    "string",
    "strlen",
    "strpos",
    "substr",
    "trim",
    "mod",
    "min",
    "max",
    "quote",
    "tab",
];

/// First lines that show the machine instead of a diagram.
const REPORTS: [&str; 18] = [
    "version",
    "about",
    "author",
    "authors",
    "testdot",
    "dumpstacktrace",
    "checkversion",
    "check version",
    "license",
    "licence",
    "path",
    "listfont",
    "listfonts",
    "font",
    "fonts",
    "stdlib",
    "dump",
    "environment",
];

/// Checks a diagram, and adds missing `@start…` and `@end…` lines.
pub(super) fn checked(source: &str) -> Result<Diagram, Forbidden> {
    // PlantUML ends a line at a carriage return, too.
    let source = source.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = source.lines().collect();
    let first = lines.iter().take_while(|line| line.trim().is_empty()).count();
    let blank_at_end = lines.iter().rev().take_while(|line| line.trim().is_empty()).count();
    let last = lines.len().saturating_sub(blank_at_end).max(first);
    let inner = match lines.get(first) {
        Some(line) if starts_with(line, "@start") => {
            let kind = line.trim_start()["@start".len()..].to_ascii_lowercase();
            let name: String = kind.chars().take_while(char::is_ascii_alphanumeric).collect();
            if !KINDS.contains(&name.as_str()) {
                return Err(Forbidden::Kind { line: first + 1, kind: name });
            }
            if last <= first + 1 || !starts_with(lines[last - 1], "@end") {
                return Err(Forbidden::NotOne { line: last });
            }
            // What stands behind the marks stays in the text.
            check_line(lines[first], first + 1)?;
            check_line(lines[last - 1], last)?;
            first + 1..last - 1
        }
        _ => first..last,
    };
    for (at, line) in lines[inner.clone()].iter().enumerate() {
        // PlantUML ignores a backslash before a keyword.
        let line = line.trim_start().trim_start_matches(['\\', '@']);
        let is_mark = starts_with(line, "start") || starts_with(line, "end");
        if is_mark && lines[inner.start + at].trim_start().starts_with(['@', '\\']) {
            return Err(Forbidden::NotOne { line: inner.start + at + 1 });
        }
    }
    let body = &lines[inner.clone()];
    check_body(body, inner.start + 1)?;
    let wrapped = inner.start > first;
    let head = if wrapped { lines[first].trim_start() } else { "@startuml" };
    let tail = if wrapped { "@end" } else { "@enduml" };
    let tail = match tail {
        "@end" => lines[last - 1].trim_start(),
        tail => tail,
    };
    let text = format!(
        "{head}\n{}{tail}\n",
        body.iter().map(|line| format!("{line}\n")).collect::<String>()
    );
    Ok(Diagram { text, first_line: inner.start })
}

/// Checks the lines of a diagram; the first is line `from` of the source.
fn check_body(lines: &[&str], from: usize) -> Result<(), Forbidden> {
    let contents = lines.iter().map(|line| line.trim()).find(|line| !line.is_empty());
    if let Some(line) = contents {
        let lower = line.to_ascii_lowercase();
        let at = lines.iter().position(|it| it.trim() == line).unwrap_or(0) + from;
        let is_help = lower.starts_with("help") || lower.starts_with("key");
        if REPORTS.contains(&lower.as_str()) || (is_help && !lower.contains(['-', '>', ':'])) {
            return Err(Forbidden::Kind { line: at, kind: lower });
        }
    }
    for (at, line) in lines.iter().enumerate() {
        check_line(line, from + at)?;
    }
    // A directive may be written over several lines, with comments in between. PlantUML joins lines
    // that end with a backslash, and leaves comments out.
    let joined = joined(lines);
    check_line(&joined, from)?;
    check_line(&without_comments(&joined), from)?;
    check_line(&without_comments(&lines.join("\n")), from)
}

fn joined(lines: &[&str]) -> String {
    let mut joined = String::new();
    for line in lines {
        if let Some(start) = line.trim_end().strip_suffix('\\') {
            joined.push_str(start.trim_start());
        } else {
            joined.push_str(line.trim_start());
            joined.push('\n');
        }
    }
    joined
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("/'") {
        kept.push_str(before);
        let Some((_, after)) = after.split_once("'/") else { return kept };
        rest = after;
    }
    kept + rest
}

fn starts_with(line: &str, word: &str) -> bool {
    line.trim_start().get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word))
}

/// Returns the ASCII word at the beginning of a text.
fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// Returns the text after a word and a space.
fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.strip_prefix(word).filter(|it| it.starts_with([' ', '\t']))
}

/// Checks every position at which a reading function or directive could begin; `text` may have
/// several lines.
fn check_line(text: &str, line: usize) -> Result<(), Forbidden> {
    for (at, _) in text.match_indices('!') {
        let after = text[at + 1..].trim_start_matches([' ', '\t', '\u{a0}']);
        let name = first_word(after).to_ascii_lowercase();
        let rest = after[name.len()..].trim_start_matches([' ', '\t', '\u{a0}']);
        let argument = rest.lines().next().unwrap_or_default().trim();
        let begins_line = text[..at].rsplit('\n').next().is_some_and(|it| it.trim().is_empty());
        if name.starts_with("include") || name.starts_with("import") {
            if name != "include" || !is_library(argument) {
                return reads(line, &format!("!{name}"));
            }
        } else if name == "theme" {
            if !argument.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
                return reads(line, "!theme with a place");
            }
        } else if begins_line && !name.is_empty() && !DIRECTIVES.contains(&name.as_str()) {
            // Older diagrams name variables without a dollar sign: `!name = value` is an
            // assignment.
            if !rest.starts_with(['=', '?']) {
                return reads(line, &format!("!{name}"));
            }
        }
    }
    for (at, _) in text.match_indices('%') {
        let name = first_word(&text[at + 1..]).to_ascii_lowercase();
        let is_call = text[at + 1 + name.len()..].starts_with('(');
        if !name.is_empty() && is_call && !FUNCTIONS.contains(&name.as_str()) {
            return reads(line, &format!("%{name}"));
        }
        let reading = ["getenv", "load_", "file_exists", "dirpath", "call_user", "invoke_"];
        if reading.iter().any(|it| name.starts_with(it)) {
            return reads(line, &format!("%{name}"));
        }
    }
    let lower = text.to_lowercase();
    if lower.contains("<img") {
        return reads(line, "<img>");
    }
    if let Some(what) = hidden_picture(&lower) {
        return reads(line, &what);
    }
    if lower.contains("\\includegraphics") {
        return reads(line, "\\includegraphics");
    }
    if lower.contains("{{") {
        // A diagram inside of a diagram, with directives of its own.
        return reads(line, "{{");
    }
    for text in lower.lines().map(str::trim_start) {
        if let Some(sprite) = after_word(text, "sprite")
            && !sprite.contains(['{', '['])
            && !sprite.contains("<svg")
        {
            return reads(line, "sprite from a file");
        }
        let is_dot = text.starts_with("digraph") || after_word(text, "strict").is_some();
        let is_graph = after_word(text, "graph").is_some_and(|it| it.contains('{'));
        if is_dot || is_graph {
            return Err(Forbidden::Kind { line, kind: "dot".to_owned() });
        }
        if text == "ditaa" || text.starts_with("ditaa(") || text.starts_with("jcckit") {
            return Err(Forbidden::Kind { line, kind: first_word(text) });
        }
    }
    Ok(())
}

fn reads(line: usize, what: &str) -> Result<(), Forbidden> {
    Err(Forbidden::Reads { line, what: what.to_owned() })
}

/// Finds the usual ways to put a picture behind a variable or a definition.
fn hidden_picture(lower: &str) -> Option<String> {
    for line in lower.lines().map(str::trim) {
        if line.starts_with('!') {
            let mut words = line.split(|c| !is_name_character(c));
            if let Some(word) = words.find(|word| matches!(*word, "img" | "sprite")) {
                return Some(format!("{word:?} in a definition"));
            }
            continue;
        }
        // A sprite is `<$name>`, with options after a comma or a brace. A tag that goes on
        // otherwise has a variable as its name.
        for (at, _) in line.match_indices("<$") {
            let after = line[at + 1..].trim_start_matches(is_name_character);
            let goes_on = after.starts_with([':', ' ', '\t', '=']) && after.contains('>');
            if goes_on {
                return Some("<$…:…>, a tag named by a variable,".to_owned());
            }
        }
    }
    // The macros of PlantUML's library take pictures as "img:…".
    let is_argument = lower.contains("\"img:") || lower.contains("'img:");
    is_argument.then(|| "\"img:…\"".to_owned())
}

fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns whether an argument of `!include` is a name of PlantUML's own library, such as
/// `<C4/C4_Container>`.
fn is_library(argument: &str) -> bool {
    let name = argument.strip_prefix('<').and_then(|it| it.strip_suffix('>'));
    name.is_some_and(|name| {
        name.split('/').all(|part| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn refused(source: &str) -> String {
        checked(source).expect_err(source).to_string()
    }

    #[test]
    fn diagrams_are_wrapped_once() {
        for (source, text, first_line) in [
            ("A -> B", "@startuml\nA -> B\n@enduml\n", 0),
            ("\n\nA -> B\n\n", "@startuml\nA -> B\n@enduml\n", 2),
            ("@startuml\nA -> B\n@enduml", "@startuml\nA -> B\n@enduml\n", 1),
            ("\n @startuml x\r\nA\r\n@enduml\n\n", "@startuml x\nA\n@enduml\n", 2),
            ("@startmindmap\n* a\n@endmindmap", "@startmindmap\n* a\n@endmindmap\n", 1),
            ("\u{feff}@startuml\n@enduml", "@startuml\n@enduml\n", 1),
        ] {
            let diagram = checked(source).unwrap();
            assert_eq!((diagram.text.as_str(), diagram.first_line), (text, first_line), "{source}");
        }
    }

    #[test]
    fn harmless_diagrams_pass() {
        for source in [
            "!theme plain\nA -> B : 100% sure! really",
            "!include <C4/C4_Container>\nPerson(a, \"b\")",
            "!define X y\n!$a = 1\n!if ($a == 1)\nA -> B : %upper(\"x\") %date()\n!endif",
            "!x = 2\nA -> B",
            "sprite $foo [16x16/16] {\nFF\n}\nA -> B : <$foo> <&heart>",
            "help -> me : key",
            "state graph\ngraph -> b",
            "A -> B : version",
            "class A {\n+ run()\n}\nA : 50 %",
            "!procedure $icon($sprite)\nA -> B : <$sprite> <$sprite{scale=2}> <$sprite,color=red>\n!endprocedure",
            "!$size = 3\n!if ($size <$max) && ($max > 1)\nA -> B : x\n!endif",
            "!define sprite_size 3\nA -> B : an img: of us",
        ] {
            assert!(checked(source).is_ok(), "{source}: {:?}", checked(source));
        }
    }

    #[test]
    fn diagrams_that_could_read_are_refused_with_the_line() {
        for (source, what, line) in [
            ("@startuml\r!include /etc/passwd\n@enduml", "!include", 2),
            ("@startuml !include /etc/passwd\n@enduml", "!include", 1),
            ("A\n!include /etc/passwd", "!include", 2),
            ("! include /etc/passwd", "!include", 1),
            ("!INCLUDE https://a.example/x", "!include", 1),
            ("!includeurl https://a.example/x", "!includeurl", 1),
            ("!includesub a.puml!B", "!includesub", 1),
            ("!include_many a.puml", "!include_many", 1),
            ("!include <../../etc/passwd>", "!include", 1),
            ("!include <a> /etc/passwd", "!include", 1),
            ("!import /a.jar", "!import", 1),
            ("!theme a from /etc", "!theme with a place", 1),
            ("!unknown x", "!unknown", 1),
            ("/' a '/ !include /etc/passwd", "!include", 1),
            ("!incl\\\nude /etc/passwd", "!incl", 1),
            ("A : x !incl\\\nude /etc/passwd", "!include", 1),
            ("!/' a '/include /etc/passwd", "!include", 1),
            ("!incl/' a\n'/ude /etc/passwd", "!incl", 1),
            ("A : x !incl/' a\n'/ude /etc/passwd", "!include", 1),
            ("A -> B : %getenv(\"HOME\")", "%getenv", 1),
            ("A -> B : %GetEnv (\"HOME\")", "%getenv", 1),
            ("A -> B : %call_user_func(\"%getenv\", \"HOME\")", "%call_user_func", 1),
            ("!$a = %load_json(\"/etc/passwd\")", "%load_json", 1),
            ("!$a = %unknown(1)", "%unknown", 1),
            ("A\nB -> C : <img:/etc/a.png>", "<img>", 2),
            ("note left : {{\nversion\n}}", "{{", 1),
            ("sprite $a /etc/a.png", "sprite from a file", 1),
            ("!$x = \"img\"\nA -> B : x", "\"img\" in a definition", 1),
            ("A\n!define X Img\nA -> B : <X:/a.png>", "\"img\" in a definition", 2),
            ("!define S sprite\nS $a /etc/a.png", "\"sprite\" in a definition", 1),
            ("A -> B : <$x:/etc/a.png>", "<$…:…>, a tag named by a variable,", 1),
            ("A -> B : <$x src=/etc/a.png>", "<$…:…>, a tag named by a variable,", 1),
            ("!include <C4/C4_Container>\nPerson(a, $sprite=\"img:/a.png\")", "\"img:…\"", 2),
            ("A -> B : <latex>\\includegraphics{/a.png}</latex>", "\\includegraphics", 1),
        ] {
            let error = refused(source);
            assert!(
                error.starts_with(&format!("line {line}: {what} is refused")),
                "{source}: {error}"
            );
        }
    }

    #[test]
    fn other_kinds_and_several_diagrams_are_refused() {
        for (source, error) in [
            ("@startdot\ndigraph a { }\n@enddot", "line 1: diagrams of the kind dot"),
            ("@startditaa\n@endditaa", "line 1: diagrams of the kind ditaa"),
            ("digraph a {\n b [image=\"/etc/a.png\"]\n}", "line 1: diagrams of the kind dot"),
            ("@startuml\nstrict digraph a {\n}\n@enduml", "line 2: diagrams of the kind dot"),
            ("version", "line 1: diagrams of the kind version"),
            ("\ntestdot\n", "line 2: diagrams of the kind testdot"),
            ("help", "line 1: diagrams of the kind help"),
            ("@startuml\nA\n@enduml\n@startuml\nB\n@enduml", "line 3: expected one diagram"),
            ("@startuml\nA", "line 2: expected one diagram"),
            ("@startuml", "line 1: expected one diagram"),
            ("A\n@enduml", "line 2: expected one diagram"),
            ("@startuml\n\\enduml\nA\n@enduml", "line 2: expected one diagram"),
        ] {
            let found = refused(source);
            assert!(found.starts_with(error), "{source}: {found}");
        }
    }

    proptest! {
        #[test]
        fn a_diagram_always_has_one_start_and_one_end(source in r"(@start|@end|uml|[ \n!%\\'/A{]|include|\r){0,30}") {
            if let Ok(diagram) = checked(&source) {
                let marks = diagram.text.lines().filter(|line| line.trim_start().starts_with('@')).count();
                prop_assert_eq!(marks, 2, "{}", diagram.text);
                prop_assert!(diagram.text.starts_with("@start") && diagram.text.contains("\n@end"));
                prop_assert!(!diagram.text.contains("!include"));
            }
        }
    }
}
