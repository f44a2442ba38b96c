//! Native filters of a metered program: those of the libraries that reach nothing outside, and the
//! meter's own.

use jaq_core::{
    Cv, Error, Exn, Native, ValXs,
    box_iter::box_once,
    load::{self, parse::Def},
    native::{Fun, bome, run, v},
};
use jaq_json::Val;

use super::meter::{Meter, Metered};
use crate::matcher::{LineMatcher, MatchError, MatcherOptions, WORD_BOUNDARY};

// No program can name these.
/// Counts a step.
pub(super) const STEP: &str = "!step";
/// Counts a step that made a value.
pub(super) const VALUE: &str = "!value";
/// Counts a step that made a value of others.
pub(super) const WHOLE: &str = "!whole";
/// Multiplies, unless the product of a text and a number would be too large.
pub(super) const MUL: &str = "!mul";
/// Divides, unless the parts of a text would be too many.
pub(super) const DIV: &str = "!div";
/// Counts a text that is about to be read as JSON.
pub(super) const READABLE: &str = "!readable";
/// Counts the characters of a text that a filter is about to read one by one.
pub(super) const CHARACTERS: &str = "!characters";
/// Counts the comparisons of `indices`, which is about to search for its argument.
pub(super) const INDICES: &str = "!indices";
/// Counts the length of a format of dates.
pub(super) const FORMAT: &str = "!format";
/// Tests a text by a regular expression with flags.
const TEST: &str = "!test";

/// Filters that read the environment or the time zone, write to standard error, end the process, or
/// cannot be metered, each with the number of its arguments. The definitions of the library name
/// them, so they exist and fail.
const NOT_AVAILABLE: [(&str, usize); 9] = [
    ("halt", 1),
    ("env", 0),
    ("strflocaltime", 1),
    ("localtime", 0),
    ("debug_empty", 0),
    ("stderr_empty", 0),
    ("matches", 2),
    ("split_matches", 2),
    ("split_", 2),
];

/// Memory of a part of a text that is split: a value, and its place in the text.
const PART_BYTES: usize = 64;
/// Longest format of dates, in bytes.
const MAX_FORMAT_BYTES: usize = 1_000;

/// Makes a native filter that returns its input once the meter has counted it. It can stand in
/// paths and updates, as the identity can.
macro_rules! measured {
    ($count:expr) => {
        Native::<Metered>::new(|cv| match $count(cv.0.data().meter, &cv.1) {
            Ok(()) => box_once(Ok(cv.1)),
            Err(reason) => failed(reason),
        })
        .with_paths(|cv| match $count(cv.0.data().meter, &cv.1.0) {
            Ok(()) => box_once(Ok(cv.1)),
            Err(reason) => box_once(Err(Exn::from(Error::str(reason)))),
        })
        .with_update(|cv, update| match $count(cv.0.data().meter, &cv.1) {
            Ok(()) => update(cv.1),
            Err(reason) => failed(reason),
        })
    };
}

/// Returns definitions that replace those of the libraries.
pub(super) fn defs() -> impl Iterator<Item = Def<&'static str>> {
    let test = |args, flags| Def {
        name: "test",
        args,
        body: load::parse::Term::Call(TEST, vec![load::parse::Term::Call("re", Vec::new()), flags]),
    };
    let flags = load::parse::Term::Call("flags", Vec::new());
    let no_flags = load::parse::Term::Str(None, Vec::new());
    [test(vec!["re", "flags"], flags), test(vec!["re"], no_flags)].into_iter()
}

/// Returns all native filters.
pub(super) fn all() -> impl Iterator<Item = Fun<Metered>> {
    let library = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let library = library.filter(|(name, ..)| NOT_AVAILABLE.iter().all(|(other, _)| other != name));
    let missing = NOT_AVAILABLE.map(|(name, arguments)| {
        run((name, v(arguments), |_| failed("the program uses a filter that is not available")))
    });
    library.chain(missing).chain(own())
}

fn own() -> [Fun<Metered>; 10] {
    [
        (STEP, v(0), measured!(|meter: &Meter, _: &Val| meter.step())),
        (VALUE, v(0), measured!(Meter::value)),
        (WHOLE, v(0), measured!(Meter::whole_value)),
        (READABLE, v(0), measured!(Meter::readable)),
        (CHARACTERS, v(0), measured!(Meter::characters)),
        run((MUL, v(2), |cv| multiply(cv))),
        run((DIV, v(2), |cv| divide(cv))),
        run((INDICES, v(1), |cv| count_comparisons(cv))),
        run((FORMAT, v(1), |cv| check_format(cv))),
        run((TEST, v(2), |cv| test(cv))),
    ]
}

fn failed<'a>(reason: &str) -> ValXs<'a, Val> {
    box_once(Err(Exn::from(Error::str(reason))))
}

fn multiply(mut cv: Cv<'_, Metered>) -> ValXs<'_, Val> {
    let right = cv.0.pop_var();
    let left = cv.0.pop_var();
    let bytes = match (&left, &right) {
        (Val::TStr(text) | Val::BStr(text), Val::Num(times))
        | (Val::Num(times), Val::TStr(text) | Val::BStr(text)) => {
            // A negative or fractional number makes no longer text than its size says.
            text.len().saturating_mul(times.to_string().parse::<f64>().unwrap_or(f64::MAX) as usize)
        }
        _ => 0,
    };
    match cv.0.data().meter.bytes(bytes) {
        Ok(()) => bome(left * right),
        Err(reason) => failed(reason),
    }
}

fn divide(mut cv: Cv<'_, Metered>) -> ValXs<'_, Val> {
    let right = cv.0.pop_var();
    let left = cv.0.pop_var();
    if let (Val::TStr(text) | Val::BStr(text), Val::TStr(separator) | Val::BStr(separator)) =
        (&left, &right)
    {
        // There are no more parts than this. By an empty separator, the parts are characters.
        let parts = match separator.first() {
            None => text.len(),
            Some(first) => text.split(|byte| byte == first).count(),
        };
        if let Err(reason) = cv.0.data().meter.bytes(parts.saturating_mul(PART_BYTES)) {
            return failed(reason);
        }
    }
    bome(left / right)
}

fn count_comparisons(mut cv: Cv<'_, Metered>) -> ValXs<'_, Val> {
    let wanted = cv.0.pop_var();
    match cv.0.data().meter.comparisons(&cv.1, &wanted) {
        Ok(()) => box_once(Ok(cv.1)),
        Err(reason) => failed(reason),
    }
}

fn check_format(mut cv: Cv<'_, Metered>) -> ValXs<'_, Val> {
    match cv.0.pop_var() {
        Val::TStr(format) | Val::BStr(format) if format.len() > MAX_FORMAT_BYTES => {
            failed("the format of a date has more than 1,000 bytes")
        }
        _ => box_once(Ok(cv.1)),
    }
}

fn test(mut cv: Cv<'_, Metered>) -> ValXs<'_, Val> {
    let flags = cv.0.pop_var();
    let pattern = cv.0.pop_var();
    let (Val::TStr(text), Val::TStr(pattern), Val::TStr(flags)) = (&cv.1, &pattern, &flags) else {
        return failed("test needs texts: the input, the regular expression and the flags");
    };
    let options = MatcherOptions {
        case_insensitive: flags.contains(&b'i'),
        ignore_whitespace: flags.contains(&b'x'),
        dot_matches_new_line: flags.contains(&b's'),
    };
    let matcher = match LineMatcher::new(&String::from_utf8_lossy(pattern), options) {
        Ok(matcher) => matcher,
        Err(error) => {
            return box_once(Err(Exn::from(Error::str(format_args!(
                "the regular expression of test is not valid: {error}"
            )))));
        }
    };
    let text = String::from_utf8_lossy(text);
    match matcher.find(&text, &mut || cv.0.data().meter.look()) {
        Ok(found) => bome(Ok(Val::Bool(found.is_some()))),
        Err(MatchError::Stopped(reason)) => failed(reason),
        Err(MatchError::WordBoundary) => failed(WORD_BOUNDARY),
    }
}
