//! JUnit XML.

use std::fmt::Write as _;

use super::{Summary, escaped, problem, trials_in_words};
use crate::{Status, TestResult};

/// Returns results as JUnit XML: one suite, one test case for each result.
pub fn junit(results: &[TestResult]) -> String {
    let Summary { total, failed, errors, duration_ms, .. } = Summary::of(results);
    let counts = format!(
        "tests=\"{total}\" failures=\"{failed}\" errors=\"{errors}\" time=\"{}\"",
        seconds(duration_ms)
    );
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"marquetry\" {counts}>\n"
    );
    for result in results {
        let name = escaped(&result.test_case.name);
        let time = seconds(result.duration);
        // Writing to a String does not fail.
        _ = write!(
            xml,
            "    <testcase name=\"{name}\" classname=\"marquetry.judge\" time=\"{time}\" timestamp=\"{}\"",
            result.timestamp
        );
        let properties = trials_in_words(result).map(|trials| {
            let trials = escaped(&trials);
            format!(
                "\n      <properties><property name=\"trials\" value=\"{trials}\"/></properties>"
            )
        });
        let kind = match result.status {
            Status::Passed => {
                match properties {
                    Some(properties) => _ = writeln!(xml, ">{properties}\n    </testcase>"),
                    None => xml.push_str("/>\n"),
                }
                continue;
            }
            Status::Failed => "failure",
            Status::Error => "error",
        };
        let text = problem(result);
        let first = escaped(text.lines().next().unwrap_or_default());
        _ = writeln!(
            xml,
            ">{}\n      <{kind} message=\"{first}\">{}</{kind}>\n    </testcase>",
            properties.unwrap_or_default(),
            escaped(&text)
        );
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}
