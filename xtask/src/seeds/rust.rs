//! Ids in Rust: above a function with `#[test]`, or above a check of a conformance suite.

use std::sync::LazyLock;

use regex::Regex;

use super::claim::{Claim, NOT_ABOVE_A_TEST, in_comments, is_comment};

/// The attribute of a test: `#[test]`, `#[tokio::test]`, with arguments or without.
static TEST: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"#\[(?:\w+::)*test[\](]").expect("a valid expression"));

/// The name of a function.
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*(?:pub(?:\([a-z]+\))? )?(?:async )?fn (\w+)").expect("a valid expression")
});

/// Returns the ids of a file. With `is_suite`, checks that the suite calls count as tests.
pub(super) fn claims(text: &str, is_suite: bool) -> Vec<Claim> {
    let lines: Vec<&str> = text.lines().collect();
    let suite = if is_suite { body_of_check(&lines) } else { String::new() };
    in_comments(text, |index| test_below(&lines[index..], &suite))
}

/// Returns the name of the test that begins with these lines, the first of which has an id.
fn test_below(lines: &[&str], suite: &str) -> Result<String, String> {
    if !is_comment(lines[0]) {
        return Err(NOT_ABOVE_A_TEST.to_owned());
    }
    let mut attributes = String::new();
    for line in lines.iter().skip_while(|line| is_comment(line)) {
        if let Some(name) = FUNCTION.captures(line).map(|it| it[1].to_owned()) {
            let is_check = suite.contains(&format!(" {name}("));
            return if attributes.contains("ignore") {
                Err(format!("the test `{name}` is ignored"))
            } else if TEST.is_match(&attributes) || is_check {
                Ok(name)
            } else {
                Err(format!("the function `{name}` is not a test"))
            };
        }
        // An attribute may have several lines; everything else ends the search.
        let is_attribute = line.trim_start().starts_with("#[");
        let is_inside = attributes.matches('[').count() > attributes.matches(']').count();
        if !is_attribute && !is_inside && !is_comment(line) {
            return Err(NOT_ABOVE_A_TEST.to_owned());
        }
        attributes.push_str(line);
    }
    Err(NOT_ABOVE_A_TEST.to_owned())
}

/// Returns the body of the function `check` of a conformance suite.
fn body_of_check(lines: &[&str]) -> String {
    lines
        .iter()
        .skip_while(|line| !line.starts_with("pub async fn check"))
        .take_while(|line| **line != "}")
        .filter(|line| !is_comment(line))
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the test of the one id in a text, in which `@` stands for the word that begins an id.
    #[track_caller]
    fn check(text: &str, want: Result<&str, &str>) {
        let claims = claims(&text.replace('@', "seed:"), false);
        let [claim] = &*claims else { panic!("not one id: {claims:?}") };
        assert_eq!(claim.test.as_deref().map_err(String::as_str), want);
    }

    const NO_TEST: Result<&str, &str> = Err(NOT_ABOVE_A_TEST);

    #[test]
    fn tests_carry_ids() {
        check("/// @ 000/1\n#[test]\nfn a() {}", Ok("a"));
        check(
            "    /// @ 000/1\n    /// More.\n    #[cfg(unix)]\n    #[test]\n    fn a() {}",
            Ok("a"),
        );
        check("// @ 000/1\n#[tokio::test]\nasync fn a() {}", Ok("a"));
        let text =
            "/// @ 000/1\n#[tokio::test(\n    flavor = \"multi_thread\",\n)]\nasync fn a() {}";
        check(text, Ok("a"));
        check("/// @ 000/1\n#[test]\n#[should_panic]\npub(crate) fn a() {}", Ok("a"));
    }

    #[test]
    fn functions_without_the_attribute_carry_none() {
        check("/// @ 000/1\nfn a() {}", Err("the function `a` is not a test"));
        let text = "/// @ 000/1\n#[expect(dead_code)]\nfn latest() {}";
        check(text, Err("the function `latest` is not a test"));
        check("/// @ 000/1\nstruct A;\n#[test]\nfn a() {}", NO_TEST);
    }

    #[test]
    fn an_id_stands_directly_above() {
        check("/// @ 000/1\n\n#[test]\nfn a() {}", NO_TEST);
        check("//! @ 000/1\n\nuse a;\n", NO_TEST);
        check("#[test]\nfn a() {\n    // @ 000/1\n    b();\n}\n#[test]\nfn c() {}", NO_TEST);
        check("use a; // @ 000/1\n#[test]\nfn a() {}", NO_TEST);
        check("/* @ 000/1 */\n#[test]\nfn a() {}", NO_TEST);
        check("/// @ 000/1", NO_TEST);
    }

    #[test]
    fn ignored_tests_carry_none() {
        check("/// @ 000/1\n#[test]\n#[ignore]\nfn a() {}", Err("the test `a` is ignored"));
        let text = "/// @ 000/1\n#[ignore = \"slow\"]\n#[test]\nfn a() {}";
        check(text, Err("the test `a` is ignored"));
        let text = "/// @ 000/1\n#[test]\n#[cfg_attr(windows, ignore)]\nfn a() {}";
        check(text, Err("the test `a` is ignored"));
    }

    #[test]
    fn citations_of_a_seed_are_no_claims() {
        assert_eq!(claims("/// Waits (seed 000/1).\nfn a() {}\n", false), []);
    }
}
