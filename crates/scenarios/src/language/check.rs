//! Checks rules that the types cannot express: rules between several keys of one scenario.

use std::collections::BTreeSet;

use serde_yaml::Spanned;

use super::{
    Scenario,
    expect::{Artifact, Artifacts, Expect},
    given::{Answer, Item, Over, Tool},
    matcher::is_pointer,
    step::{Action, Step},
    vars,
};

/// Rules for scenarios beyond those of the language.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Requires each scenario to list the artifacts that exist at its end.
    pub artifacts_must_be_said: bool,
}

/// A broken rule. `line` is the line of the step, if the rule is about a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: Option<u64>,
    pub(crate) message: String,
}

/// Returns every broken rule.
pub(crate) fn check(scenario: &Scenario, file_stem: &str, rules: Rules) -> Vec<Problem> {
    let mut found = Checker::default();
    found.rule(scenario.id == file_stem, || {
        format!("the id `{}` differs from the file's name `{file_stem}`", scenario.id)
    });
    found.rule(!scenario.title.trim().is_empty(), || "the title is blank".into());
    let matrix = &scenario.matrix;
    found.rule(!matrix.is_empty(), || {
        "the matrix has no cell, so the scenario would never run".into()
    });
    found.rule(!scenario.steps.is_empty(), || "`steps` is empty".into());

    for (name, upstream) in &scenario.given.upstreams {
        for (tool, given) in &upstream.tools {
            found.tool(&format!("{name}.{tool}"), given, upstream.over);
        }
    }
    for (index, answer) in scenario.given.model.iter().flatten().enumerate() {
        let forms = [
            answer.says.is_some(),
            answer.status.is_some(),
            answer.garbage.is_some(),
            answer.silence,
        ];
        found.rule(forms.iter().filter(|form| **form).count() == 1, || {
            format!(
                "answer {} of the model is not exactly one of says, status, garbage and silence",
                index + 1
            )
        });
    }
    for fault in &scenario.given.store {
        found.rule(fault.fail.is_some() || fault.delay.is_some(), || {
            format!("a fault on {:?} neither fails nor delays", fault.call)
        });
    }

    // The revision of the case can be used from the first step on.
    let mut saved = BTreeSet::from(["revision"]);
    for step in &scenario.steps {
        found.line = Some(step.referenced.line());
        found.step(step, scenario, &mut saved);
    }
    found.line = None;
    if let Some(artifacts) = &scenario.expect.artifacts {
        found.artifacts(artifacts, &saved);
    }
    found.rule(scenario.expect.artifacts.is_some() || !rules.artifacts_must_be_said, || {
        "`expect` needs `artifacts`: those that exist at the end, or `none`".into()
    });
    for (name, expected) in &scenario.expect.upstreams {
        found.upstream_is_given(name, scenario);
        let mut names = Vec::new();
        expected.calls.names(&mut names);
        found.names(&names, &saved);
    }
    if let Some(requests) = &scenario.expect.model {
        found.rule(scenario.given.model.is_some(), || "`expect.model` needs `given.model`".into());
        let mut names = Vec::new();
        requests.names(&mut names);
        found.names(&names, &saved);
    }
    found.problems
}

#[derive(Default)]
struct Checker {
    line: Option<u64>,
    problems: Vec<Problem>,
}

impl Checker {
    fn rule(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(Problem { line: self.line, message: message() });
        }
    }

    fn tool(&mut self, name: &str, tool: &Tool, over: Over) {
        self.rule(tool.answer.is_some() == tool.answers.is_empty(), || {
            format!("{name} needs either `answer` or a list of `answers`")
        });
        for answer in tool.answers() {
            self.answer(name, answer, over);
        }
    }

    fn answer(&mut self, name: &str, Answer(parts): &Answer, over: Over) {
        let well_formed = parts.content.is_some()
            || parts.structured_content.is_some()
            || parts.is_error.is_some()
            || parts.meta.is_some();
        let forms = [
            well_formed,
            parts.raw.is_some(),
            parts.error.is_some(),
            parts.crash,
            parts.silence,
            parts.garbage.is_some(),
        ];
        self.rule(forms.iter().filter(|form| **form).count() == 1, || {
            format!("an answer of {name} needs one of a result, `raw`, `error`, `crash`, `silence` and `garbage`")
        });
        self.rule(over == Over::Stdio || !(parts.crash || parts.garbage.is_some()), || {
            format!("{name}: `crash` and `garbage` need an upstream over stdio")
        });
        for item in parts.content.iter().flatten() {
            self.item(name, item);
        }
        for question in &parts.asks {
            let forms = [question.elicit.is_some(), question.sample.is_some(), question.roots];
            self.rule(forms.iter().filter(|form| **form).count() == 1, || {
                format!("a question of {name} needs one of `elicit`, `sample` and `roots`")
            });
        }
    }

    fn item(&mut self, name: &str, item: &Item) {
        let forms = [
            item.text.is_some(),
            item.image.is_some(),
            item.audio.is_some(),
            item.resource.is_some(),
            item.item.is_some(),
        ];
        self.rule(forms.iter().filter(|form| **form).count() == 1, || {
            format!(
                "an item of {name} needs one of `text`, `image`, `audio`, `resource` and `item`"
            )
        });
        for media in [&item.image, &item.audio].into_iter().flatten() {
            self.rule(media.content.is_some() != media.verbatim.is_some(), || {
                format!("an item of {name} needs either `content` or `verbatim`")
            });
        }
    }

    fn step<'a>(
        &mut self,
        step: &'a Spanned<Step>,
        scenario: &Scenario,
        saved: &mut BTreeSet<&'a str>,
    ) {
        let step = &step.value;
        let Some(action) = step.action() else {
            return self.rule(false, || {
                "a step needs exactly one of `call`, `request`, `http`, `socket`, `upstream` and `wait_for`".into()
            });
        };
        let with = usize::from(step.with.is_some()) + usize::from(step.with_json.is_some());
        self.rule(with <= usize::from(step.call.is_some()), || {
            "only a `call` takes `with` or `with_json`, and only one of them".into()
        });
        self.rule(
            step.cancel_after.is_none() || (step.call.is_some() && step.expect.is_none()),
            || "`cancel_after` needs a `call` without `expect`".into(),
        );
        self.rule(step.eventually.is_none() || step.expect.is_some(), || {
            "`eventually` needs `expect`".into()
        });

        let mut names = Vec::new();
        match action {
            Action::Call { with, .. } => {
                if let Some(arguments) = with {
                    arguments.names(&mut names);
                }
            }
            Action::Request(request) => {
                if let Some(params) = &request.params {
                    params.names(&mut names);
                }
            }
            Action::Http(request) => {
                self.rule(request.path.starts_with('/'), || {
                    format!("the path `{}` does not start with `/`", request.path)
                });
                self.rule(
                    request.unread.is_none()
                        || (step.expect.is_none() && request.hang_up_after.is_none()),
                    || "an `unread` request takes no `expect`".into(),
                );
                self.rule(request.json.is_none() || request.body.is_none(), || {
                    "a request takes `json` or `body`, not both".into()
                });
                names.extend(vars::names(&request.path));
                names.extend(request.headers.values().flat_map(|value| vars::names(value)));
                if let Some(json) = &request.json {
                    json.names(&mut names);
                }
            }
            Action::Socket(exchange) => {
                self.rule(exchange.open.as_ref().is_none_or(|path| path.starts_with('/')), || {
                    "the path of a socket starts with `/`".into()
                });
                self.rule(exchange.open.is_some() || exchange.protocols.is_empty(), || {
                    "only a socket that is opened has `protocols`".into()
                });
                names.extend(exchange.open.iter().flat_map(|path| vars::names(path)));
                names.extend(exchange.protocols.iter().flat_map(|name| vars::names(name)));
                exchange.send.iter().for_each(|message| message.names(&mut names));
            }
            Action::Upstream(event) => {
                self.upstream_is_given(&event.name, scenario);
                self.rule(event.crash != event.tools.is_some(), || {
                    "an upstream event is either `crash: true` or new `tools`".into()
                });
                let over =
                    scenario.given.upstreams.get(&event.name).map_or(Over::Stdio, |it| it.over);
                self.rule(!event.crash || over == Over::Stdio, || {
                    format!("`crash` needs `{}` to be over stdio", event.name)
                });
                for (tool, given) in event.tools.iter().flatten() {
                    self.tool(&format!("{}.{tool}", event.name), given, over);
                }
            }
            Action::WaitFor(wait) => {
                if let Some(params) = &wait.params {
                    params.names(&mut names);
                }
            }
        }
        if let Some(expect) = &step.expect {
            self.expect(action, expect, &mut names, saved);
        }
        self.names(&names, saved);

        for (name, pointer) in &step.save {
            self.rule(vars::is_name(name), || format!("`{name}` is not a valid name for `save`"));
            self.rule(is_pointer(pointer), || {
                format!("`{pointer}` is not a JSON pointer such as `/content/0/text`")
            });
            saved.insert(name);
        }
    }

    fn expect<'a>(
        &mut self,
        action: Action<'_>,
        expect: &'a Expect,
        names: &mut Vec<&'a str>,
        saved: &BTreeSet<&str>,
    ) {
        let Expect {
            content,
            structured,
            is_error,
            capture,
            progress,
            result,
            error,
            status,
            headers,
            body,
            events,
            messages,
            closed,
            artifacts,
        } = expect;
        let of_call = content.is_some()
            || structured.is_some()
            || is_error.is_some()
            || capture.is_some()
            || progress.is_some();
        let of_http = status.is_some() || !headers.is_empty() || body.is_some() || events.is_some();
        let is_call = matches!(action, Action::Call { .. });
        let is_request = matches!(action, Action::Request(_));
        let is_http = matches!(action, Action::Http(_));
        let is_socket = matches!(action, Action::Socket(_));
        self.rule(is_socket || (messages.is_none() && closed.is_none()), || {
            "only a `socket` has `messages` and `closed`".into()
        });
        self.rule(is_call || !of_call, || {
            "only a `call` has `content`, `structured`, `is_error`, `capture` and `progress`".into()
        });
        self.rule(is_request || result.is_none(), || "only a `request` has a `result`".into());
        self.rule(is_call || is_request || error.is_none(), || {
            "only a `call` or `request` has an `error`".into()
        });
        self.rule(is_http || !of_http, || {
            "only an `http` request has `status`, `headers`, `body` and `events`".into()
        });
        self.rule(!is_http || status.is_some(), || {
            "`expect` of an `http` request needs `status`".into()
        });
        self.rule(!is_call || content.is_some() != error.is_some(), || {
            "`expect` of a `call` needs `content` or `error`".into()
        });
        self.rule(!is_request || result.is_some() != error.is_some(), || {
            "`expect` of a `request` needs `result` or `error`".into()
        });
        for matcher in
            [content, structured, capture, progress, result, error, body, events, messages]
                .into_iter()
                .flatten()
        {
            matcher.names(names);
        }
        for matcher in headers.values() {
            matcher.names(names);
        }
        self.rule(headers.keys().all(|name| !name.bytes().any(|b| b.is_ascii_uppercase())), || {
            "header names must be lower-case".into()
        });
        if let Some(artifacts) = artifacts {
            self.artifacts(artifacts, saved);
        }
    }

    fn artifacts(&mut self, Artifacts(artifacts): &Artifacts, saved: &BTreeSet<&str>) {
        for Artifact { name, content, json, sha256, metadata, mime_type, .. } in artifacts {
            let forms = [content.is_some(), json.is_some(), sha256.is_some()];
            self.rule(forms.into_iter().filter(|form| *form).count() == 1, || {
                format!(
                    "an artifact of type {mime_type} needs one of `content`, `json` and `sha256`"
                )
            });
            let mut names = Vec::new();
            for matcher in [Some(name), json.as_ref(), metadata.as_ref()].into_iter().flatten() {
                matcher.names(&mut names);
            }
            self.names(&names, saved);
        }
    }

    fn names(&mut self, names: &[&str], saved: &BTreeSet<&str>) {
        for name in names {
            self.rule(saved.contains(name), || format!("no earlier step saves `{name}`"));
        }
    }

    fn upstream_is_given(&mut self, name: &str, scenario: &Scenario) {
        self.rule(scenario.given.upstreams.contains_key(name), || format!("no upstream `{name}`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the messages about a scenario with these steps and end.
    fn problems(yaml: &str) -> Vec<String> {
        let scenario: Scenario = serde_yaml::from_str(yaml).unwrap();
        check(&scenario, "a", Rules::default())
            .into_iter()
            .map(|problem| match problem.line {
                Some(line) => format!("{line}: {}", problem.message),
                None => problem.message,
            })
            .collect()
    }

    #[track_caller]
    fn check_steps(steps: &str, want: &[&str]) {
        let yaml = format!(
            "id: a\ntitle: t\ngiven:\n  upstreams:\n    up: {{tools: {{t: {{answer: hi}}}}}}\n    \
             net: {{over: http, tools: {{t: {{answer: hi}}}}}}\nexpect: {{artifacts: none}}\nsteps:\n{steps}"
        );
        assert_eq!(problems(&yaml), want, "{yaml}");
    }

    #[test]
    fn a_good_scenario_has_no_problem() {
        check_steps(
            "- call: up__t\n  expect: {content: [{text: hi}]}\n  save: {x: /content/0/text}\n\
             - http: {method: GET, path: '/${x}'}\n  expect: {status: 200}\n\
             - upstream: {name: up, crash: true}\n\
             - wait_for: {notification: n}\n",
            &[],
        );
    }

    #[test]
    fn only_a_call_without_expectations_is_given_up() {
        let want = "9: `cancel_after` needs a `call` without `expect`";
        check_steps("- call: up__t\n  cancel_after: 1s\n", &[]);
        check_steps("- call: up__t\n  cancel_after: 1s\n  expect: {content: []}\n", &[want]);
        check_steps("- request: {method: a}\n  cancel_after: 1s\n", &[want]);
    }

    #[test]
    fn a_step_does_one_thing() {
        let want = "9: a step needs exactly one of `call`, `request`, `http`, `socket`, `upstream` and `wait_for`";
        check_steps("- title: nothing\n", &[want]);
        check_steps("- call: a\n  http: {method: GET, path: /}\n", &[want]);
    }

    #[test]
    fn expectations_fit_the_step() {
        check_steps(
            "- call: a\n  expect: {}\n",
            &["9: `expect` of a `call` needs `content` or `error`"],
        );
        check_steps(
            "- http: {method: GET, path: /}\n  expect: {status: 200, content: []}\n",
            &["9: only a `call` has `content`, `structured`, `is_error`, `capture` and `progress`"],
        );
        check_steps(
            "- http: {method: GET, path: /}\n  expect: {body: x}\n",
            &["9: `expect` of an `http` request needs `status`"],
        );
        check_steps(
            "- request: {method: ping}\n  expect: {artifacts: none}\n",
            &["9: `expect` of a `request` needs `result` or `error`"],
        );
    }

    #[test]
    fn captures_are_saved_before_they_are_used() {
        check_steps(
            "- call: a\n  with: {x: '${later}'}\n  save: {later: /content}\n",
            &["9: no earlier step saves `later`"],
        );
        check_steps(
            "- call: a\n  save: {'1x': content}\n",
            &[
                "9: `1x` is not a valid name for `save`",
                "9: `content` is not a JSON pointer such as `/content/0/text`",
            ],
        );
    }

    #[test]
    fn upstream_events_fit_the_upstream() {
        check_steps("- upstream: {name: nobody, crash: true}\n", &["9: no upstream `nobody`"]);
        check_steps(
            "- upstream: {name: up}\n",
            &["9: an upstream event is either `crash: true` or new `tools`"],
        );
        check_steps(
            "- upstream: {name: net, crash: true}\n",
            &["9: `crash` needs `net` to be over stdio"],
        );
    }

    #[test]
    fn given_answers_have_one_form() {
        let yaml = "id: b\ntitle: ' '\nmatrix: {stores: []}\ngiven:\n  upstreams:\n    up:\n      tools:\n        \
                    a: {answer: {crash: true, silence: true}}\n        b: {}\n        \
                    c: {answers: [{content: [{}]}]}\n        d: {answer: {content: [{image: {}}]}}\n  \
                    store: [{call: put}]\nsteps: []\n\
                    expect: {artifacts: [{name: x, mime_type: a/b}], upstreams: {y: {calls: []}}}\n";
        assert_eq!(
            problems(yaml),
            [
                "the id `b` differs from the file's name `a`",
                "the title is blank",
                "the matrix has no cell, so the scenario would never run",
                "`steps` is empty",
                "an answer of up.a needs one of a result, `raw`, `error`, `crash`, `silence` and `garbage`",
                "up.b needs either `answer` or a list of `answers`",
                "an item of up.c needs one of `text`, `image`, `audio`, `resource` and `item`",
                "an item of up.d needs either `content` or `verbatim`",
                "a fault on Put neither fails nor delays",
                "an artifact of type a/b needs one of `content`, `json` and `sha256`",
                "no upstream `y`",
            ]
        );
    }
}
