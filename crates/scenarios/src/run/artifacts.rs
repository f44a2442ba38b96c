//! Lists and reads the artifacts as an agent does, and compares them with an expectation.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::agent::Agent;
use crate::language::{
    Artifact, Artifacts, Context, Matcher, Mismatch,
    compare::{sha256, show_bytes},
};

/// More artifacts than any scenario creates; the run fails if a server's list does not end.
const MAX: usize = 10_000;

/// A version of an artifact.
#[derive(Clone, Debug)]
pub(crate) struct FoundArtifact {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) mime_type: String,
    pub(crate) content: Vec<u8>,
    /// Size in the list, for the newest version.
    pub(crate) claimed_size: Option<u64>,
    /// Entry in the capture report.
    pub(crate) report: Option<Value>,
}

/// Entries of capture reports, by name and version of the artifact.
#[derive(Debug, Default)]
pub(crate) struct Reports(BTreeMap<(String, u64), Value>);

impl Reports {
    /// Stores the entries of a capture report.
    pub(crate) fn note(&mut self, capture: &Value) {
        let save = &capture["save"];
        let saved = save["artifacts"].as_array().into_iter().flatten();
        for artifact in saved.chain(save.get("fallback_artifact")) {
            if let (Some(name), Some(version)) =
                (artifact["name"].as_str(), artifact["version"].as_u64())
            {
                self.0.insert((name.to_owned(), version), artifact.clone());
            }
        }
    }
}

/// Returns every version of every artifact that the server lists as a resource.
pub(crate) async fn find(agent: &Agent, reports: &Reports) -> Result<Vec<FoundArtifact>, String> {
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = if cursor.is_null() { Value::Null } else { json!({ "cursor": cursor }) };
        let outcome = agent.request("resources/list", params).await?;
        let page = outcome.get("result").ok_or_else(|| format!("resources/list: {outcome}"))?;
        let resources =
            page["resources"].as_array().ok_or("the result of resources/list has no resources")?;
        for resource in resources {
            let uri = resource["uri"].as_str().unwrap_or_default();
            let Some((base, newest)) = uri.split_once("?version=") else {
                if uri.starts_with("artifact:") {
                    return Err(format!("{uri} has no version"));
                }
                continue;
            };
            let newest: u64 = newest.parse().map_err(|_| format!("{uri} has no version"))?;
            for version in 0..=newest {
                let uri = format!("{base}?version={version}");
                let name = resource["name"].as_str().unwrap_or_default().to_owned();
                let (mime_type, content) = read(agent, &uri).await?;
                let claimed_size = resource["size"].as_u64().filter(|_| version == newest);
                let report = reports.0.get(&(name.clone(), version)).cloned();
                found.push(FoundArtifact {
                    name,
                    version,
                    mime_type,
                    content,
                    claimed_size,
                    report,
                });
            }
        }
        if found.len() > MAX {
            return Err(format!("more than {MAX} artifacts are listed"));
        }
        match page.get("nextCursor") {
            Some(next) if *next != cursor => cursor = next.clone(),
            Some(next) => return Err(format!("resources/list gives the cursor {next} twice")),
            None => return Ok(found),
        }
    }
}

async fn read(agent: &Agent, uri: &str) -> Result<(String, Vec<u8>), String> {
    let outcome = agent.request("resources/read", json!({ "uri": uri })).await?;
    let contents = outcome["result"]["contents"]
        .as_array()
        .and_then(|contents| contents.first())
        .ok_or_else(|| format!("{uri} cannot be read: {outcome}"))?;
    let content = match (contents["text"].as_str(), contents["blob"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(blob)) => STANDARD.decode(blob).map_err(|error| format!("{uri}: {error}"))?,
        _ => return Err(format!("{uri} has neither text nor a blob: {contents}")),
    };
    Ok((contents["mimeType"].as_str().unwrap_or_default().to_owned(), content))
}

/// Returns every difference between the expected and the existing artifacts.
pub(crate) fn compare(
    context: Context<'_>,
    Artifacts(expected): &Artifacts,
    found: &[FoundArtifact],
) -> Vec<Mismatch> {
    let mut mismatches = Vec::new();
    let mut left: Vec<&FoundArtifact> = found.iter().collect();
    for want in expected {
        let position = left.iter().position(|found| {
            let name = Value::from(found.name.as_str());
            found.version == want.version && context.compare("", &want.name, Some(&name)).is_empty()
        });
        match position {
            Some(index) => mismatches.extend(compare_one(context, want, left.remove(index))),
            None => mismatches.push(Mismatch {
                at: "artifacts".into(),
                expected: format!("one named {}, version {}", want.name, want.version),
                actual: if left.is_empty() {
                    "(no further artifact)".into()
                } else {
                    left.iter().map(|found| summary(found)).collect::<Vec<_>>().join("\n")
                },
            }),
        }
    }
    mismatches.extend(left.into_iter().map(|extra| Mismatch {
        at: "artifacts".into(),
        expected: "(no further artifact)".into(),
        actual: format!("{}: {}", summary(extra), show_bytes(&extra.content)),
    }));
    mismatches
}

fn summary(found: &FoundArtifact) -> String {
    format!("{}, version {}, {}", found.name, found.version, found.mime_type)
}

fn compare_one(context: Context<'_>, want: &Artifact, found: &FoundArtifact) -> Vec<Mismatch> {
    let at = format!("artifacts/{}", found.name);
    let mut differences = Differences { at, found: Vec::new() };
    if found.mime_type != want.mime_type {
        differences.add("mime_type", want.mime_type.clone(), found.mime_type.clone());
    }
    let size = found.content.len() as u64;
    if found.claimed_size.is_some_and(|claimed| claimed != size) {
        differences.add(
            "size",
            format!("{size}, its content's"),
            format!("{:?}", found.claimed_size),
        );
    }
    if let Some(source) = &want.content {
        match source.bytes(context.folder) {
            Ok(bytes) if bytes == found.content => {}
            Ok(bytes) => {
                differences.add("content", show_bytes(&bytes), show_bytes(&found.content));
            }
            Err(error) => {
                differences.add("content", error.to_string(), show_bytes(&found.content));
            }
        }
    }
    if let Some(digest) = &want.sha256 {
        let actual = sha256(&found.content);
        if actual != *digest {
            differences.add("sha256", digest.clone(), actual);
        }
    }
    if let Some(matcher) = &want.json {
        match serde_json::from_slice::<Value>(&found.content) {
            Ok(value) => {
                differences.compare(context, "json", matcher, Some(&value));
            }
            Err(error) => {
                differences.add("json", format!("JSON ({error})"), show_bytes(&found.content));
            }
        }
    }
    if let Some(report) = &found.report {
        let members =
            [("mime_type", Value::from(found.mime_type.as_str())), ("size_bytes", size.into())];
        for (key, expected) in members {
            if report.get(key) != Some(&expected) {
                let reported = report.get(key).map_or("(nothing)".into(), Value::to_string);
                let what = format!("{key} in the capture report");
                differences.add(&what, expected.to_string(), reported);
            }
        }
    }
    if let Some(matcher) = &want.metadata {
        let metadata = found.report.as_ref().and_then(|report| report.get("metadata"));
        differences.compare(context, "metadata", matcher, metadata);
    }
    differences.found
}

/// The differences of one artifact.
struct Differences {
    /// The place of the artifact in the report.
    at: String,
    found: Vec<Mismatch>,
}

impl Differences {
    fn add(&mut self, what: &str, expected: String, actual: String) {
        self.found.push(Mismatch { at: format!("{}/{what}", self.at), expected, actual });
    }

    fn compare(
        &mut self,
        context: Context<'_>,
        what: &str,
        matcher: &Matcher,
        actual: Option<&Value>,
    ) {
        let at = format!("{}/{what}", self.at);
        self.found.extend(context.compare(&at, matcher, actual));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::language::vars::Vars;

    fn found() -> Vec<FoundArtifact> {
        let report = json!({
            "name": "a.json", "version": 0, "mime_type": "application/json", "size_bytes": 7,
            "metadata": {"detected_format": "json"},
        });
        vec![FoundArtifact {
            name: "a.json".into(),
            version: 0,
            mime_type: "application/json".into(),
            content: br#"{"a":1}"#.to_vec(),
            claimed_size: Some(7),
            report: Some(report),
        }]
    }

    fn differences(expected: &str, found: &[FoundArtifact]) -> Vec<String> {
        let expected: Artifacts = serde_yaml::from_str(expected).unwrap();
        let vars = Vars::default();
        let context = Context { vars: &vars, folder: Path::new(".") };
        compare(context, &expected, found)
            .into_iter()
            .map(|it| format!("{}: {} | {}", it.at, it.expected, it.actual))
            .collect()
    }

    const GOOD: &str = r#"[{name: a.json, mime_type: application/json, content: '{"a":1}', json: {a: 1},
        metadata: {detected_format: json}}]"#;

    #[test]
    fn expected_artifacts_match() {
        assert_eq!(differences(GOOD, &found()), [""; 0]);
        assert_eq!(differences("none", &[]), [""; 0]);
        assert_eq!(
            differences(&GOOD.replace("name: a.json", "name: {$regex: '^a'}"), &found()),
            [""; 0]
        );
    }

    #[test]
    fn a_missing_artifact_fails() {
        let want = "artifacts: one named \"a.json\", version 0 | (no further artifact)";
        assert_eq!(differences(GOOD, &[]), [want]);
    }

    #[test]
    fn an_extra_artifact_fails() {
        let want = "artifacts: (no further artifact) | a.json, version 0, application/json: \"{\\\"a\\\":1}\"";
        assert_eq!(differences("none", &found()), [want]);
        let twice = [found(), found()].concat();
        assert_eq!(differences(GOOD, &twice), [want]);
    }

    #[test]
    fn another_version_fails() {
        let mut found = found();
        found[0].version = 1;
        assert_eq!(differences(GOOD, &found).len(), 2);
    }

    #[test]
    fn a_wrong_mime_type_fails() {
        let mut found = found();
        found[0].mime_type = "text/plain".into();
        assert_eq!(
            differences(GOOD, &found),
            [
                "artifacts/a.json/mime_type: application/json | text/plain",
                "artifacts/a.json/mime_type in the capture report: \"text/plain\" | \"application/json\"",
            ]
        );
    }

    #[test]
    fn a_changed_byte_fails() {
        let mut found = found();
        found[0].content[5] = b'2';
        assert_eq!(
            differences(GOOD, &found),
            [
                "artifacts/a.json/content: \"{\\\"a\\\":1}\" | \"{\\\"a\\\":2}\"",
                "artifacts/a.json/json/a: 1 | 2",
            ]
        );
        let digest = sha256(br#"{"a":1}"#);
        let expected = format!("[{{name: a.json, mime_type: application/json, sha256: {digest}}}]");
        assert_eq!(differences(&expected, &found).len(), 1);
        found[0].content[5] = b'1';
        assert_eq!(differences(&expected, &found), [""; 0]);
    }

    #[test]
    fn a_wrong_size_fails() {
        let mut found = found();
        found[0].claimed_size = Some(8);
        assert_eq!(
            differences(GOOD, &found),
            ["artifacts/a.json/size: 7, its content's | Some(8)"]
        );
    }

    #[test]
    fn wrong_metadata_fails() {
        let expected = GOOD.replace("detected_format: json", "detected_format: yaml");
        assert_eq!(
            differences(&expected, &found()),
            ["artifacts/a.json/metadata/detected_format: \"yaml\" | \"json\"",]
        );
    }

    #[test]
    fn reports_are_kept_by_name_and_version() {
        let mut reports = Reports::default();
        reports.note(&json!({"save": {
            "artifacts": [{"name": "a", "version": 0}],
            "fallback_artifact": {"name": "b", "version": 2},
        }}));
        reports.note(&json!({"status": "processed"}));
        let keys: Vec<_> =
            reports.0.keys().map(|(name, version)| (name.as_str(), *version)).collect();
        assert_eq!(keys, [("a", 0), ("b", 2)]);
    }
}
