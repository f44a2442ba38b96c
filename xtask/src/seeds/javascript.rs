//! Ids in JavaScript: above a call of `test` or `it`.

use std::sync::LazyLock;

use regex::Regex;

use super::claim::{Claim, NOT_ABOVE_A_TEST, in_comments, is_comment};

/// The beginning of a test, up to its name: `test(`, `await t.test(`, `test.skip(`.
static TEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^\s*(?:await )?(?:\w+\.)?(?:test|it)(\.\w+)?\(\s*["'`](.*)$"#)
        .expect("a valid expression")
});

/// Options of a test that skip it always, or by an expression.
static SKIP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:skip|todo)\s*(?::|,|\})").expect("a valid expression"));

/// The value of `skip` of tests that are skipped if a program is not installed. With `CI=true` they
/// fail.
const MISSING: &str = "missing(";

/// Returns the ids of a file.
pub(super) fn claims(text: &str) -> Vec<Claim> {
    let lines: Vec<&str> = text.lines().collect();
    let is_skipped = ["describe.skip(", "suite.skip("].iter().any(|call| text.contains(call));
    let may_miss = text.contains(&format!("const skip = {MISSING}"));
    in_comments(text, |index| {
        let name = test_below(&lines[index..], may_miss)?;
        // A skipped group skips its tests, whose own text does not show it.
        if is_skipped { Err(format!("the test `{name}` may be skipped")) } else { Ok(name) }
    })
}

/// Returns the name of the test that begins with these lines, the first of which has an id.
fn test_below(lines: &[&str], may_miss: bool) -> Result<String, String> {
    if !is_comment(lines[0]) {
        return Err(NOT_ABOVE_A_TEST.to_owned());
    }
    let below = lines.iter().position(|line| !is_comment(line)).map_or(&[][..], |at| &lines[at..]);
    // A long call has its name in the second line.
    let call = match below {
        [first, second, ..] if first.trim_end().ends_with('(') => {
            format!("{}{}", first.trim_end(), second.trim_start())
        }
        [first, ..] => (*first).to_owned(),
        [] => return Err(NOT_ABOVE_A_TEST.to_owned()),
    };
    let Some(parts) = TEST.captures(&call) else { return Err(NOT_ABOVE_A_TEST.to_owned()) };
    let quote = call[..call.len() - parts[2].len()].chars().next_back().unwrap_or('"');
    let name = parts[2].split(quote).next().unwrap_or_default().to_owned();
    let options = call.rsplit(quote).next().unwrap_or_default();
    let is_skipped = match parts.get(1).map(|it| it.as_str()) {
        Some(".skip" | ".todo") => true,
        Some(_) => return Err(NOT_ABOVE_A_TEST.to_owned()),
        None => {
            let needs_program = may_miss && options.contains("{ skip }")
                || options.contains(&format!("skip: {MISSING}"));
            SKIP.is_match(options) && !needs_program
        }
    };
    if is_skipped { Err(format!("the test `{name}` is skipped")) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the test of the one id in a text, in which `@` stands for the word that begins an id.
    #[track_caller]
    fn check(text: &str, want: Result<&str, &str>) {
        let claims = claims(&text.replace('@', "seed:"));
        let [claim] = &*claims else { panic!("not one id: {claims:?}") };
        assert_eq!(claim.test.as_deref().map_err(String::as_str), want);
    }

    const NO_TEST: Result<&str, &str> = Err(NOT_ABOVE_A_TEST);

    #[test]
    fn tests_carry_ids() {
        check("// @ 003/A.js.a b\ntest(\"it's one\", () => {});", Ok("it's one"));
        check("  // @ 000/1\n  // More.\n  it('a', async (t) => {});", Ok("a"));
        check("// @ 000/1\nawait t.test(`a ${b}`, () => {});", Ok("a ${b}"));
        check("// @ 000/1\ntest(\n  \"a\",\n  () => {},\n);", Ok("a"));
        check("// @ 000/1\ntest(\"skip: no\", { timeout: 5 }, () => {});", Ok("skip: no"));
    }

    #[test]
    fn an_id_stands_directly_above() {
        check("// @ 000/1\n\ntest(\"a\", () => {});", NO_TEST);
        check("// @ 000/1\nconst a = test(\"a\", () => {});", NO_TEST);
        check("test(\"a\", () => {}); // @ 000/1\ntest(\"b\", () => {});", NO_TEST);
        check("/* @ 000/1 */", NO_TEST);
        check("// @ 000/1\ntest.before(\"a\", () => {});", NO_TEST);
        check("// @ 000/1", NO_TEST);
    }

    #[test]
    fn skipped_tests_carry_none() {
        let skipped = Err("the test `a` is skipped");
        check("// @ 000/1\ntest.skip(\"a\", () => {});", skipped);
        check("// @ 000/1\nit.todo(\"a\");", skipped);
        check("// @ 000/1\ntest(\"a\", { skip: true }, () => {});", skipped);
        check("// @ 000/1\ntest(\"a\", { skip }, () => {});", skipped);
        let text = "describe.skip(\"all\", () => {\n  // @ 000/1\n  it(\"a\", () => {});\n});";
        check(text, Err("the test `a` may be skipped"));
    }

    #[test]
    fn tests_that_need_a_program_carry_ids() {
        let text = "const skip = missing(A);\n// @ 000/1\ntest(\"a\", { skip }, () => {});";
        check(text, Ok("a"));
        check("// @ 000/1\ntest(\"a\", { skip: missing(A) }, () => {});", Ok("a"));
    }
}
