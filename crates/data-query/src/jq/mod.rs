//! Runs programs of jq over JSON, within limits.
//!
//! The engine, `jaq-core`, is lazy and has no limits of its own, and its recursion uses the stack.
//! So a program is rewritten before it runs (`rewrite.rs`): each definition begins with a native
//! filter, and each iteration and construction passes through one, which measures time, stack and
//! sizes (`meter.rs`).

mod meter;
mod natives;
mod rewrite;

use std::{
    fmt::{self, Write as _},
    sync::mpsc,
    thread,
    time::Duration,
};

use jaq_core::{
    Compiler, Ctx, Vars,
    compile::Undefined,
    load::{
        self, Arena, File, Loader,
        parse::{Def, Term},
    },
};
use jaq_json::Val;

use self::meter::{MAX_NUMBER_BYTES, Meter, Metered, Run};
use crate::{
    MAX_PROBLEMS, QueryLimits,
    json::{JsonExtent, is_ndjson, without_mark},
    limits::Stopped,
};

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
    /// Lines of NDJSON that could not be read, a sentence each; the first five.
    pub problems: Vec<String>,
    /// Number of lines that could not be read.
    pub skipped: u64,
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
    /// The program was cancelled.
    #[error("the jq program was cancelled")]
    Cancelled,
    /// The process has grown by more than this number of bytes.
    #[error("{}", crate::limits::memory_message("jq program", *.0))]
    Memory(u64),
}

/// Runs a jq program over a JSON text or over each value of NDJSON. Blocks for at most the time
/// limit and a second. Lines of NDJSON that are not JSON are skipped and reported.
///
/// # Errors
///
/// Returns an error if the program or the data is not valid, or if the program fails or exceeds a
/// limit.
pub fn jq(json: &str, program: &str, limits: &QueryLimits) -> Result<JqOutput, JqError> {
    jq_holding(json, program, limits, ())
}

/// Runs a jq program as [`jq`] does, and drops `held` when the program no longer uses memory. That
/// may be after the function has returned, if the program misses its time limit.
///
/// # Errors
///
/// See [`jq`].
pub fn jq_holding(
    json: &str,
    program: &str,
    limits: &QueryLimits,
    held: impl Send + 'static,
) -> Result<JqOutput, JqError> {
    check_program(program)?;
    let json = without_mark(json);
    let is_ndjson = is_ndjson(json);
    if !is_ndjson {
        check_extent(json)?;
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let json = json.to_owned();
    let program = program.to_owned();
    let owned_limits = limits.clone();
    thread::Builder::new()
        .name("jq".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let result = run(&json, is_ndjson, &program, &owned_limits);
            drop((json, held));
            // The caller may have given up.
            let _ = sender.send(result);
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

fn run(
    json: &str,
    is_ndjson: bool,
    program: &str,
    limits: &QueryLimits,
) -> Result<JqOutput, JqError> {
    let meter = Meter::new(limits, STACK_BYTES / 4 * 3);
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

    let mut evaluation =
        Evaluation { filter: &filter, meter: &meter, limits, output: JqOutput::default() };
    if !is_ndjson {
        for input in jaq_json::read::parse_many(json.as_bytes()) {
            let input = input.map_err(|error| JqError::Input(error.to_string()))?;
            if !evaluation.run(input)? {
                break;
            }
        }
        return Ok(evaluation.output);
    }
    for (index, line) in json.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let input = check_extent(line).and_then(|()| {
            jaq_json::read::parse_single(line.as_bytes())
                .map_err(|error| JqError::Input(error.to_string()))
        });
        let is_open = match input {
            Ok(input) => evaluation.run(input)?,
            Err(problem) => {
                evaluation.skip(index + 1, &problem);
                evaluation.check()?;
                true
            }
        };
        if !is_open {
            break;
        }
    }
    Ok(evaluation.output)
}

/// A program that runs over one input after the other.
struct Evaluation<'p> {
    filter: &'p jaq_core::Filter<Metered>,
    meter: &'p Meter,
    limits: &'p QueryLimits,
    output: JqOutput,
}

impl Evaluation<'_> {
    /// Runs the program over an input, and returns whether there is room for more output.
    fn run(&mut self, input: Val) -> Result<bool, JqError> {
        let data = Run { lut: &self.filter.lut, meter: self.meter };
        let cx = Ctx::<Metered>::new(data, Vars::new([]));
        for value in self.filter.id.run((cx, input)) {
            self.check()?;
            let value = value.map_err(|exception| match exception.get_err() {
                Ok(error) => JqError::Failed(short(&error)),
                Err(_) => JqError::Failed("it left a loop that it is not in".to_owned()),
            })?;
            if !add(&mut self.output, &value, self.limits) {
                return Ok(false);
            }
        }
        self.check()?;
        Ok(true)
    }

    /// Returns an error if the program was stopped. Its own error says less then.
    fn check(&self) -> Result<(), JqError> {
        match self.meter.stopped() {
            None => Ok(()),
            Some(Stopped::Late) => Err(JqError::Time(self.limits.time)),
            Some(Stopped::Cancelled) => Err(JqError::Cancelled),
            Some(Stopped::Memory(bytes)) => Err(JqError::Memory(bytes)),
        }
    }

    fn skip(&mut self, line: usize, problem: &JqError) {
        self.output.skipped += 1;
        if self.output.problems.len() < MAX_PROBLEMS {
            let JqError::Input(reason) = problem else { return };
            self.output.problems.push(format!("line {line} is not JSON: {reason}"));
        }
    }
}

/// Adds a value to the output, and returns whether there is room for more.
fn add(output: &mut JqOutput, value: &Val, limits: &QueryLimits) -> bool {
    if output.values == limits.max_rows {
        output.has_more = true;
        return false;
    }
    let room = limits.max_output_bytes.saturating_sub(output.text.len());
    // The line break needs room, too.
    let (line, is_whole) = beginning(value, room);
    if is_whole && line.len() < room {
        output.text.push_str(&line);
        output.text.push('\n');
        output.values += 1;
        return true;
    }
    output.has_more = true;
    // The beginning of a single large value is better than nothing.
    if output.values == 0 {
        output.text.push_str(&line);
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

fn check_extent(json: &str) -> Result<(), JqError> {
    let JsonExtent { depth, number_bytes } = JsonExtent::of(json.as_bytes());
    let problem = if depth > MAX_INPUT_DEPTH {
        format!("it is nested deeper than {MAX_INPUT_DEPTH}")
    } else if number_bytes > MAX_NUMBER_BYTES {
        format!("it has a number of {number_bytes} characters, more than {MAX_NUMBER_BYTES}")
    } else {
        return Ok(());
    };
    Err(JqError::Input(problem))
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
fn short(message: &impl fmt::Display) -> String {
    let (mut text, is_whole) = beginning(message, 300);
    if !is_whole {
        text.push('…');
    }
    text
}

/// Returns the first bytes of what is displayed, and whether that is all. The rest is not made.
fn beginning(value: &impl fmt::Display, max_bytes: usize) -> (String, bool) {
    struct Beginning {
        text: String,
        max_bytes: usize,
    }

    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = self.max_bytes - self.text.len();
            self.text.push_str(&text[..text.floor_char_boundary(room)]);
            if text.len() > room { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut beginning = Beginning { text: String::new(), max_bytes };
    let is_whole = write!(beginning, "{value}").is_ok();
    (beginning.text, is_whole)
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
        check("\u{feff}[1]", ".[0]", "1\n");
        check("[1]\n", ".[0]", "1\n");
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
    fn native_filters_are_stopped_before_they_take_long() {
        for (program, want) in [
            (r#"("[" * 1000000 + "]" * 1000000) | fromjson"#, "nested too deeply"),
            (r#"("{\"a\":" * 1000000) | fromjson"#, "nested too deeply"),
            (r#"("9" * 20000000) | tonumber"#, "a number is too long"),
            (r#"("a" * 30000000) | explode"#, "a value is too large"),
            (r#"("a" * 30000000) / "a""#, "a value is too large"),
            (r#"("a" * 30000000) | split("")"#, "a value is too large"),
            (r#"{x: "aaa"} | .x *= 10000000 | .x /= "a""#, "a value is too large"),
            (
                r#"("a" * 30000000) as $a | ("a" * 10000000) as $b | $a | indices($b)"#,
                "compares too much",
            ),
            ("[range(30000)] | indices([range(3000)])", "compares too much"),
            (r#"now | strftime("%c" * 10000)"#, "more than 1,000 bytes"),
            (r#"("&" * 14000000) | @html"#, "a value is too large"),
        ] {
            let before = std::time::Instant::now();
            let long = QueryLimits { time: Duration::from_secs(20), ..limits() };
            let error = jq("{}", program, &long).unwrap_err().to_string();
            assert!(error.contains(want), "{program}: {error}");
            assert!(
                before.elapsed() < Duration::from_secs(15),
                "{program}: {:?}",
                before.elapsed()
            );
        }
        let random: String =
            (0..300_000_u64).map(|n| if n * n % 7919 % 2 == 0 { 'a' } else { 'b' }).collect();
        let slow = format!("\"{random}\"");
        let result = jq(&slow, r#"test("a[ab]{3000}b[ab]{3000}c")"#, &limits());
        assert_eq!(result, Err(JqError::Time(limits().time)));
    }

    /// A value may have the same large part many times, so it is larger than the memory if it is
    /// compared, sorted or written out.
    #[test]
    fn values_with_large_parts_are_counted_before_they_are_read() {
        let shared = "(\"x\" * 60000000) as $a | reduce range(1000) as $i ([]; . + [$a])";
        for program in [
            "tojson",
            "sort",
            "\"\\(.)\"",
            "group_by(.)",
            ". == [.[]]",
            "@text",
            "unique",
            "tobytes",
            "strftime(\"%Y\")",
        ] {
            let long = QueryLimits { time: Duration::from_secs(20), ..limits() };
            let error = jq("1", &format!("{shared} | {program}"), &long).unwrap_err().to_string();
            assert!(error.contains("a value is too large"), "{program}: {error}");
        }
        let long = QueryLimits { time: Duration::from_secs(10), ..limits() };
        let output = jq("1", shared, &long).unwrap();
        assert_eq!((output.text.len(), output.has_more), (long.max_output_bytes, true));
        let error = jq("1", &format!("{shared} | error"), &long).unwrap_err().to_string();
        assert!(error.starts_with("the jq program failed: [\"xxx") && error.len() < 400, "{error}");
    }

    #[test]
    fn a_program_that_holds_many_large_values_is_stopped() {
        let limits = QueryLimits {
            time: Duration::from_secs(20),
            max_memory_bytes: 200 << 20,
            ..QueryLimits::default()
        };
        for program in [
            "[limit(1000; repeat(\"a\" * 30000000))] | length",
            "reduce range(1000) as $i ([]; . + [\"a\" * 30000000]) | length",
            "def f: (\"a\" * 30000000) as $x | (f, $x); f",
        ] {
            let result = jq("1", program, &limits);
            if cfg!(target_os = "linux") {
                let is_stopped = matches!(&result, Err(JqError::Memory(bytes)) if *bytes == 200 << 20)
                    || result.as_ref().is_err_and(|error| error.to_string().contains("too large"));
                assert!(is_stopped, "{program}: {result:?}");
            }
        }
    }

    #[test]
    fn long_numbers_are_refused() {
        let number = "9".repeat(2_000_000);
        let error = jq(&format!("[{number}]"), ".", &limits()).unwrap_err().to_string();
        assert!(error.contains("a number of 2000000 characters, more than 10000"), "{error}");
        let output = jq(&format!("{{\"a\":1}}\n{{\"a\":{number}}}\n"), ".a", &limits()).unwrap();
        assert_eq!((output.text.as_str(), output.skipped), ("1\n", 1));
    }

    #[test]
    fn comparisons_splits_and_searches_work() {
        check(
            "[1,[2],{\"a\":3}]",
            "map(. == [2]), (.[1] < .[2]), (map(type) | join(\"-\"))",
            "[false,true,false]\ntrue\n\"number-array-object\"\n",
        );
        check(
            "\"a,b,ab\"",
            "split(\",\"), indices(\"b\"), . / \"b\"",
            "[\"a\",\"b\",\"ab\"]\n[2,5]\n[\"a,\",\",a\",\"\"]\n",
        );
        check("[1,2,1]", "indices(1), index(2), [indices(1, 2)]", "[0,2]\n1\n[[0,2],[1]]\n");
        check(
            "\"[1.5]\"",
            "fromjson, (\"12\" | tonumber), (\"ab\" | explode | implode)",
            "[1.5]\n12\n\"ab\"\n",
        );
        check(
            "0",
            "strftime(\"%Y\"), (\"x<y\" | @html, @base64)",
            "\"1970\"\n\"x&lt;y\"\n\"eDx5\"\n",
        );
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
    fn broken_lines_of_ndjson_are_named_and_the_others_work() {
        let deep = "[".repeat(20_000);
        let lines = format!("{{\"a\":1}}\n{{\"a\":\n\n{deep}\n{{\"a\":4}}\n");
        let output = jq(&lines, ".a", &limits()).unwrap();
        assert_eq!((output.text.as_str(), output.skipped), ("1\n4\n", 2));
        assert!(output.problems[0].starts_with("line 2 is not JSON"), "{:?}", output.problems);
        assert!(output.problems[1].starts_with("line 4 is not JSON"), "{:?}", output.problems);
        let many = "[1]\n".to_owned() + &"{\n".repeat(100);
        let output = jq(&many, ".", &limits()).unwrap();
        assert_eq!((output.problems.len(), output.skipped), (MAX_PROBLEMS, 100));
    }

    #[test]
    fn a_cancelled_program_ends() {
        let limits = QueryLimits { time: Duration::from_mins(1), ..QueryLimits::default() };
        let cancel = limits.cancel.clone();
        let running = thread::spawn(move || jq("{}", "last(range(0; 1e18))", &limits));
        thread::sleep(Duration::from_millis(50));
        cancel.cancel();
        assert_eq!(running.join().unwrap(), Err(JqError::Cancelled));
    }

    #[test]
    fn what_is_held_for_a_program_lives_as_long_as_it() {
        let held = std::sync::Arc::new(());
        let result = jq_holding("[1]", ".[0]", &limits(), held.clone());
        assert_eq!(result.unwrap().values, 1);
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
        assert!(jq_holding("[1]", ".[", &limits(), held.clone()).is_err());
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
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
