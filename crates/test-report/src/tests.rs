use proptest::prelude::*;

use super::*;

fn suite(name: &str, statuses: &[Status]) -> Suite {
    let mut suite = Suite::new(name);
    suite.elapsed = Duration::from_millis(1500);
    for (number, &status) in (1..).zip(statuses) {
        let mut test = Test::new(format!("t{number}"), status, Duration::from_millis(12));
        if status != Status::Passed {
            test.reason = Some("a < b & \"c\"\u{1b}\nsecond line".to_owned());
        }
        suite.tests.push(test);
    }
    suite
}

fn all() -> Suite {
    suite("all", &[Status::Passed, Status::Failed, Status::Error, Status::Skipped])
}

#[test]
fn junit_counts_and_escapes() {
    let mut grouped = all();
    grouped.tests[0].group = Some("group".to_owned());
    grouped.tests[0].file = Some("a.yaml".to_owned());
    grouped.tests[0].timestamp = Some("1970-01-01T00:00:00.000Z".to_owned());
    grouped.tests[0].trials = Some("2 of 3".to_owned());
    let counts = "tests=\"4\" failures=\"1\" skipped=\"1\" errors=\"1\" time=\"1.500\"";
    let want = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites {counts}>
  <testsuite name=\"all\" {counts}>
    <testcase name=\"t1\" classname=\"group\" file=\"a.yaml\" timestamp=\"1970-01-01T00:00:00.000Z\" time=\"0.012\">
      <properties><property name=\"trials\" value=\"2 of 3\"/></properties>
    </testcase>
    <testcase name=\"t2\" time=\"0.012\">
      <failure message=\"a &lt; b &amp; &quot;c&quot;\u{fffd}\">a &lt; b &amp; &quot;c&quot;\u{fffd}\nsecond line</failure>
    </testcase>
    <testcase name=\"t3\" time=\"0.012\">
      <error message=\"a &lt; b &amp; &quot;c&quot;\u{fffd}\">a &lt; b &amp; &quot;c&quot;\u{fffd}\nsecond line</error>
    </testcase>
    <testcase name=\"t4\" time=\"0.012\">
      <skipped message=\"a &lt; b &amp; &quot;c&quot;\u{fffd}\"/>
    </testcase>
  </testsuite>
</testsuites>
"
    );
    assert_eq!(junit(&[grouped]), want);
}

#[test]
fn tap_numbers_tests_through_all_suites() {
    let mut second = suite("second", &[Status::Passed, Status::Skipped, Status::Error]);
    second.tests[0].name = "a # \\ b\nc".to_owned();
    second.tests[0].group = Some("group".to_owned());
    second.panics = 2;
    let want = "TAP version 14
1..4
ok 1 - t1
ok 2 - group/a \\# \\\\ b c
ok 3 - t2 # SKIP a < b & \"c\"\u{fffd}
not ok 4 - t3
  ---
  status: error
  durationMs: 12
  message: \"a < b & \\\"c\\\"\\u001b\\nsecond line\"
  ...
Bail out! 2 panics
";
    assert_eq!(tap(&[suite("first", &[Status::Passed]), second]), want);
}

#[test]
fn the_page_has_each_suite_and_loads_nothing() {
    let mut first = all();
    first.tests[0].file = Some("<file>.yaml".to_owned());
    first.tests[0].about = "adds".to_owned();
    first.panics = 1;
    let page = html(&[first, suite("second", &[Status::Passed])]);
    for part in [
        "<h2>all</h2>\n<p>4 tests: <span class=\"passed\">1 passed</span>, <span class=\"failed\">1 failed</span>, \
         <span class=\"error\">1 could not be run or judged</span>, <span class=\"skipped\">1 skipped</span>, in 1500 ms</p>",
        "<p class=\"error\">1 panics</p>",
        "<details><summary><strong class=\"passed\">passed</strong> t1 (12 ms)</summary>\n<p>&lt;file&gt;.yaml: adds</p>",
        "<details open><summary><strong class=\"failed\">",
        "<details open><summary><strong class=\"error\">",
        "<details><summary><strong class=\"skipped\">",
        "<pre>a &lt; b &amp; &quot;c&quot;\u{fffd}\nsecond line</pre>",
        "<h2>second</h2>\n<p>1 tests: <span class=\"passed\">1 passed</span>, <span class=\"failed\">0 failed</span>, in",
    ] {
        assert!(page.contains(part), "{part:?} is not in:\n{page}");
    }
    for loads in ["src=", "href=", "<script", "url("] {
        assert!(!page.contains(loads), "{loads}");
    }
}

/// Returns what a parser of XML would read.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

proptest! {
    #[test]
    fn escaped_text_is_inert_and_complete(text in any::<String>()) {
        let escaped = escape(&text);
        prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
        let is_forbidden = |one: char| {
            one.is_control() && !matches!(one, '\t' | '\n') || matches!(one, '\u{fffe}' | '\u{ffff}')
        };
        let kept: String =
            text.chars().map(|one| if is_forbidden(one) { '\u{fffd}' } else { one }).collect();
        prop_assert_eq!(unescape(&escaped), kept);
    }

    #[test]
    fn a_name_stays_on_one_line_of_tap(name in any::<String>()) {
        let mut suite = suite("one", &[Status::Passed]);
        suite.tests[0].name = name;
        let tap = tap(&[suite]);
        prop_assert_eq!(tap.lines().count(), 3);
    }
}
