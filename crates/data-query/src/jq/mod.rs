//! Runs programs of jq over JSON, within limits.
//!
//! The engine, `jaq-core`, is lazy and has no limits of its own, and its recursion uses the stack.
//! So a program is rewritten before it runs (`rewrite.rs`): each definition begins with a native
//! filter, and each iteration and construction passes through one, which measures time, stack and
//! sizes (`meter.rs`).

mod meter;
mod natives;
mod rewrite;

use std::{sync::mpsc, thread, time::Duration};

use jaq_core::{
    Compiler, Ctx, Vars,
    compile::Undefined,
    load::{
        self, Arena, File, Loader,
        parse::{Def, Term},
    },
};
use jaq_json::Val;

use self::meter::{Meter, Metered, Run};
use crate::QueryLimits;

/// Longest program, in bytes.
const MAX_PROGRAM_BYTES: usize = 4_000;
/// Deepest nesting of a program and of its input. The parsers are recursive.
const MAX_PROGRAM_DEPTH: usize = 100;
const MAX_INPUT_DEPTH: usize = 1_000;
/// Stack of the thread of a program, of which the meter leaves a quarter for native filters.
const STACK_BYTES: usize = 64 << 20;
/// Name of the definition that is the program.
const MAIN: &str = "__main";
/// Time after its limit in which a program is expected to notice it.
const GRACE: Duration = Duration::from_secs(1);

/// The values that a program returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JqOutput {
    /// The values, a line each, as compact JSON.
    pub text: String,
    /// Number of values in `text`.
    pub values: usize,
    /// Whether further values, or the end of the last one, are left out.
    pub has_more: bool,
}

/// Why a program has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JqError {
    /// The program is not valid.
    #[error("the jq program is not valid: {0}")]
    Program(String),
    /// The input is not JSON, or is nested too deeply.
    #[error("the data is not JSON: {0}")]
    Input(String),
    /// The program failed.
    #[error("the jq program failed: {0}")]
    Failed(String),
    /// The program took too long.
    #[error("the jq program took longer than {} ms and was stopped", .0.as_millis())]
    Time(Duration),
}

/// Runs a jq program over a JSON text or over each value of NDJSON. Blocks for at most the time
/// limit and a second.
///
/// # Errors
///
/// Returns an error if the program or the data is not valid, or if the program fails or exceeds a
/// limit.
pub fn jq(json: &str, program: &str, limits: &QueryLimits) -> Result<JqOutput, JqError> {
    check_program(program)?;
    check_depth(json)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let json = json.to_owned();
    let program = program.to_owned();
    let owned_limits = limits.clone();
    thread::Builder::new()
        .name("jq".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // The caller may have given up.
            let _ = sender.send(run(&json, &program, &owned_limits));
        })
        .map_err(|error| JqError::Failed(format!("no thread for it: {error}")))?;
    match receiver.recv_timeout(limits.time + GRACE) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => Err(JqError::Time(limits.time)),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(JqError::Failed("it ended unexpectedly".to_owned()))
        }
    }
}

fn run(json: &str, program: &str, limits: &QueryLimits) -> Result<JqOutput, JqError> {
    // The program is a definition beside those of the standard library; the main module calls it.
    let main = Def { name: MAIN, args: Vec::new(), body: parsed(program)? };
    let library = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let defs = library.chain(natives::defs()).map(widened).chain([main]).map(rewrite::metered);
    let arena = Arena::default();
    let modules = Loader::new(defs)
        .load(&arena, File { code: MAIN, path: () })
        .map_err(|_| JqError::Program("it cannot be loaded".to_owned()))?;
    let filter = Compiler::default()
        .with_funs(natives::all())
        .compile(modules)
        .map_err(|errors| JqError::Program(undefined(errors)))?;

    let meter = Meter::new(limits, STACK_BYTES / 4 * 3);
    let mut output = JqOutput::default();
    for input in jaq_json::read::parse_many(json.as_bytes()) {
        let input = input.map_err(|error| JqError::Input(error.to_string()))?;
        let data = Run { lut: &filter.lut, meter: &meter };
        let cx = Ctx::<Metered>::new(data, Vars::new([]));
        for value in filter.id.run((cx, input)) {
            if meter.is_late() {
                return Err(JqError::Time(limits.time));
            }
            let value = value.map_err(|exception| match exception.get_err() {
                Ok(error) => JqError::Failed(short(&error.to_string())),
                Err(_) => JqError::Failed("it left a loop that it is not in".to_owned()),
            });
            let value = match value {
                Ok(value) => value,
                Err(_) if meter.is_late() => return Err(JqError::Time(limits.time)),
                Err(error) => return Err(error),
            };
            if !add(&mut output, &value, limits) {
                return Ok(output);
            }
        }
    }
    Ok(output)
}

/// Adds a value to the output, and returns whether there is room for more.
fn add(output: &mut JqOutput, value: &Val, limits: &QueryLimits) -> bool {
    if output.values == limits.max_rows {
        output.has_more = true;
        return false;
    }
    let line = format!("{value}\n");
    let room = limits.max_output_bytes.saturating_sub(output.text.len());
    if line.len() <= room {
        output.text.push_str(&line);
        output.values += 1;
        return true;
    }
    output.has_more = true;
    // The beginning of a single large value is better than nothing.
    if output.values == 0 {
        output.text.push_str(&line[..line.floor_char_boundary(room)]);
        output.values = 1;
    }
    false
}

fn check_program(program: &str) -> Result<(), JqError> {
    let problem = if program.trim().is_empty() {
        "it is empty".to_owned()
    } else if program.len() > MAX_PROGRAM_BYTES {
        format!("it has {} bytes, more than {MAX_PROGRAM_BYTES}", program.len())
    } else if depth(program, &['(', '[', '{'], &[')', ']', '}']) > MAX_PROGRAM_DEPTH {
        format!("it is nested deeper than {MAX_PROGRAM_DEPTH}")
    } else {
        return Ok(());
    };
    Err(JqError::Program(problem))
}

fn check_depth(json: &str) -> Result<(), JqError> {
    if depth(&without_strings(json), &['[', '{'], &[']', '}']) > MAX_INPUT_DEPTH {
        return Err(JqError::Input(format!("it is nested deeper than {MAX_INPUT_DEPTH}")));
    }
    Ok(())
}

/// Returns the brackets of a JSON text that do not stand in strings.
fn without_strings(json: &str) -> String {
    let mut brackets = String::new();
    let mut is_string = false;
    let mut characters = json.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_string = !is_string,
            '\\' if is_string => drop(characters.next()),
            '[' | ']' | '{' | '}' if !is_string => brackets.push(character),
            _ => {}
        }
    }
    brackets
}

/// Returns the deepest nesting of brackets.
fn depth(text: &str, open: &[char], close: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for character in text.chars() {
        if open.contains(&character) {
            depth += 1;
            deepest = deepest.max(depth);
        } else if close.contains(&character) {
            depth = depth.saturating_sub(1);
        }
    }
    deepest
}

/// Returns a definition of the library with the lifetime of a program.
fn widened<'p>(def: Def<&'static str>) -> Def<&'p str> {
    def
}

/// Parses a program; definitions of its own may stand before it, modules may not.
fn parsed(program: &str) -> Result<Term<&str>, JqError> {
    let arena = Arena::default();
    if let Err(errors) = Loader::new([]).load(&arena, File { code: program, path: () }) {
        return Err(JqError::Program(syntax(errors)));
    }
    load::parse(program, |parser| parser.term())
        .ok_or_else(|| JqError::Program("modules are not available".to_owned()))
}

fn syntax(errors: load::Errors<&str, ()>) -> String {
    let reasons = errors.into_iter().map(|(_, error)| match error {
        load::Error::Io(_) => "modules are not available".to_owned(),
        load::Error::Lex(errors) => {
            let wanted = errors
                .into_iter()
                .map(|(wanted, rest)| format!("expected {} at {}", wanted.as_str(), place(rest)));
            wanted.collect::<Vec<_>>().join("; ")
        }
        load::Error::Parse(errors) => {
            let wanted = errors
                .into_iter()
                .map(|(wanted, rest)| format!("expected {} at {}", wanted.as_str(), place(rest)));
            wanted.collect::<Vec<_>>().join("; ")
        }
    });
    reasons.collect::<Vec<_>>().join("; ")
}

/// Returns the place of a part of the program, as a quotation.
fn place(rest: &str) -> String {
    match rest.lines().next().unwrap_or_default() {
        "" => "the end".to_owned(),
        line => format!("'{}'", &line[..line.floor_char_boundary(40)]),
    }
}

fn undefined(errors: jaq_core::compile::Errors<&str, ()>) -> String {
    let all = errors.into_iter().flat_map(|(_, errors)| errors).map(|(name, kind)| match kind {
        Undefined::Filter(arity) => format!("unknown filter {name}/{arity}"),
        Undefined::Var => format!("unknown variable {name}"),
        Undefined::Label => format!("unknown label {name}"),
        _ => format!("unknown name {name}"),
    });
    all.collect::<Vec<_>>().join("; ")
}

/// Returns the beginning of a message, which may quote a large value.
fn short(message: &str) -> String {
    let end = message.floor_char_boundary(300);
    if end < message.len() { format!("{}…", &message[..end]) } else { message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = r#"{"users": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]}"#;

    fn limits() -> QueryLimits {
        QueryLimits { time: Duration::from_millis(250), ..QueryLimits::default() }
    }

    #[track_caller]
    fn check(json: &str, program: &str, want: &str) {
        assert_eq!(jq(json, program, &limits()).unwrap().text, want, "{program}");
    }

    #[test]
    fn programs_run() {
        check(USERS, ".users[] | select(.id == 2).name", "\"Bob\"\n");
        check(USERS, ".users | map({(.name): .id}) | add", "{\"Ann\":1,\"Bob\":2}\n");
        check(USERS, "[.users[].id] | add / length", "1.5\n");
        check(USERS, ".users |= map(.id *= 10) | .users[1].id", "20\n");
        check(USERS, "del(.users[0]) | [paths] | length", "4\n");
        check(USERS, "def f($n): if $n > 1 then $n * f($n - 1) else 1 end; f(5)", "120\n");
        check(
            USERS,
            ".users | to_entries | .[0].key, (.[1].value | keys)",
            "0\n[\"id\",\"name\"]\n",
        );
        check("[3, 1, 2]", "sort, (map(. * 2) | max), (.[1:] | length)", "[1,2,3]\n6\n2\n");
        check("[\"ab\", 3]", ".[0] * .[1], (.[0] | test(\"^A\"; \"i\"))", "\"ababab\"\ntrue\n");
        check("1\n2\n", ". + 1", "2\n3\n");
        let brackets = format!("[\"\\\"{}\"]", "[".repeat(2_000));
        check(&brackets, ".[0] | length", "2001\n");
        check("null", "[limit(3; repeat(1))], (try error(\"x\") catch .)", "[1,1,1]\n\"x\"\n");
        check("[[1,2],[3]]", "[.. | numbers], (reduce .[][] as $x (0; . + $x))", "[1,2,3]\n6\n");
        check(
            "{\"a\":{\"b\":1}}",
            "getpath([\"a\",\"b\"]), (.a.b |= . + 1), has(\"a\")",
            "1\n{\"a\":{\"b\":2}}\ntrue\n",
        );
    }

    #[test]
    fn programs_that_never_end_are_stopped() {
        for program in [
            "def f: f; f",
            "def f: 1 + f; f",
            "def f: f | f; f",
            "[repeat(1)]",
            "last(range(0; 1e18))",
            "[range(1e18)]",
            "reduce range(100) as $i (\"x\"; . + .)",
            "reduce range(100) as $i (\"x\"; . * 2)",
            "\"x\" * 1e12",
            ".x = \"x\" | .x *= 1e12",
            "reduce range(100) as $i ([1]; [.[], .[]])",
            "reduce range(100) as $i ([1]; [., .]) | tojson",
            "reduce range(100) as $i ({}; {a: ., b: .}) | [..] | length",
            "reduce range(100) as $i (null; {a: .} + {b: .}) | tojson",
            "reduce range(1000000) as $i (.; [.])",
            "reduce range(100) as $i (7; . * .)",
            "def f: try f catch f; f",
            "def f: (f // f); f",
            "[limit(1e9; repeat(0))] | length",
            "label $a | repeat(.)",
            "until(false; .)",
            "[recurse(. + 1)]",
            "null | .[1000000000] = 1",
            "first(repeat(empty))",
            "[[range(10)] | combinations(100000)]",
        ] {
            let before = std::time::Instant::now();
            let result = jq("{}", program, &limits());
            assert!(
                result.as_ref().is_err() || result.as_ref().unwrap().has_more,
                "{program}: {result:?}"
            );
            assert!(before.elapsed() < Duration::from_secs(4), "{program}: {:?}", before.elapsed());
        }
    }

    #[test]
    fn nothing_outside_is_reached() {
        for (program, want) in [
            ("env", "not available"),
            ("$ENV", "unknown variable $ENV"),
            ("halt", "not available"),
            ("input", "unknown filter input/0"),
            ("import \"a\" as a; .", "modules are not available"),
            ("include \"a\"; .", "modules are not available"),
        ] {
            let error = jq("{}", program, &limits()).unwrap_err().to_string();
            assert!(error.contains(want), "{program}: {error}");
        }
    }

    #[test]
    fn errors_say_why() {
        #[track_caller]
        fn check(json: &str, program: &str, want: &str) {
            let error = jq(json, program, &limits()).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        check("{}", ".a[", "expected");
        check("{}", " ", "it is empty");
        check("{}", "frobnicate(1)", "unknown filter frobnicate/1");
        check("{}", &"(".repeat(200), "nested deeper than 100");
        check("{}", &"[".repeat(5_000), "more than 4000");
        check(&"[".repeat(20_000), ".", "nested deeper than 1000");
        check("{oops", ".", "the data is not JSON");
        check("{\"a\": 1}", ".a.b", "cannot index");
    }

    #[test]
    fn output_is_bounded() {
        let few = QueryLimits { max_rows: 2, ..limits() };
        let output = jq("[1,2,3]", ".[]", &few).unwrap();
        assert_eq!((output.text.as_str(), output.values, output.has_more), ("1\n2\n", 2, true));
        let short = QueryLimits { max_output_bytes: 5, ..limits() };
        let output = jq("\"aäaaaaaaa\"", ".", &short).unwrap();
        assert_eq!((output.text.as_str(), output.has_more), ("\"aäa", true));
    }

    proptest::proptest! {
        #[test]
        fn any_program_ends(program in "[.a-c0-9|,()\\[\\]{}:;\"*+ -]{0,40}") {
            let _ = jq("[1,{\"a\":[2]}]", &program, &limits());
        }
    }
}
