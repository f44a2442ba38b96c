//! JUnit XML.
//!
//! It is written here: for the five elements that are needed, the crate `quick-junit` would add a
//! second, older version of an XML library of this workspace, and a library of dates.

use std::{fmt::Write as _, time::Duration};

use crate::{Status, Suite, Test, escape, seconds};

/// Returns suites as JUnit XML.
pub fn junit(suites: &[Suite]) -> String {
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n",
        attributes(suites)
    );
    for suite in suites {
        // Writing to a String does not fail.
        _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" {}>",
            escape(&suite.name),
            attributes(std::slice::from_ref(suite))
        );
        for test in &suite.tests {
            write_test(&mut xml, test);
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// Returns the counts and the time of suites.
fn attributes(suites: &[Suite]) -> String {
    let count = |status| suites.iter().map(|suite| suite.count(status)).sum::<usize>();
    let tests: usize = suites.iter().map(|suite| suite.tests.len()).sum();
    let panics: usize = suites.iter().map(|suite| suite.panics).sum();
    let elapsed: Duration = suites.iter().map(|suite| suite.elapsed).sum();
    format!(
        "tests=\"{tests}\" failures=\"{}\" skipped=\"{}\" errors=\"{}\" time=\"{}\"",
        count(Status::Failed),
        count(Status::Skipped),
        count(Status::Error) + panics,
        seconds(elapsed)
    )
}

fn write_test(xml: &mut String, test: &Test) {
    _ = write!(xml, "    <testcase name=\"{}\"", escape(&test.name));
    let optional =
        [("classname", &test.group), ("file", &test.file), ("timestamp", &test.timestamp)];
    for (attribute, value) in optional {
        if let Some(value) = value {
            _ = write!(xml, " {attribute}=\"{}\"", escape(value));
        }
    }
    _ = write!(xml, " time=\"{}\"", seconds(test.elapsed));
    let mut children = String::new();
    if let Some(trials) = &test.trials {
        let trials = escape(trials);
        _ = writeln!(
            children,
            "      <properties><property name=\"trials\" value=\"{trials}\"/></properties>"
        );
    }
    let summary = escape(test.summary());
    let reason = escape(test.reason.as_deref().unwrap_or_default());
    let outcome = match test.status {
        Status::Passed => None,
        Status::Skipped => Some(format!("<skipped message=\"{summary}\"/>")),
        Status::Failed => Some(format!("<failure message=\"{summary}\">{reason}</failure>")),
        Status::Error => Some(format!("<error message=\"{summary}\">{reason}</error>")),
    };
    if let Some(outcome) = outcome {
        _ = writeln!(children, "      {outcome}");
    }
    if children.is_empty() {
        xml.push_str("/>\n");
    } else {
        _ = write!(xml, ">\n{children}    </testcase>\n");
    }
}
