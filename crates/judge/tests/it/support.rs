//! Models, servers and cases of the tests.

use std::{collections::BTreeMap, sync::Arc};

use marquetry_judge::{
    FixedModels, MemoryStore, ModelSettings, ResultStore, Runner, ServerConfig, TestCase,
    TestResult,
};
use marquetry_llm::{ChatAnswer, ScriptedModel, ToolCall};
use serde_json::{Value, json};

use crate::notes::BEHAVIOUR;

/// The notes server as a program.
pub(crate) fn notes(behaviour: &str) -> ServerConfig {
    let program = std::env::current_exe().unwrap();
    // libtest writes to standard output before the test runs; `--quiet` and the pipe through `sed`
    // leave its lines out.
    let script = format!(
        "exec 3>&1; exec \"{}\" --exact notes::server --nocapture --quiet | sed -u -n '/^{{/p' >&3",
        program.display()
    );
    let ServerConfig::Stdio { command, args, cwd, .. } =
        ServerConfig::stdio("/bin/sh", ["-c", &script])
    else {
        unreachable!("it is a program")
    };
    let env = BTreeMap::from([(BEHAVIOUR.to_owned(), behaviour.to_owned())]);
    ServerConfig::Stdio { name: Some("notes".to_owned()), command, args, env, cwd }
}

/// A case with the notes server and a judge.
pub(crate) fn case(name: &str) -> TestCase {
    let mut case = TestCase::new(name, "Write the note a with the text hello, and read it.");
    case.server_configs = Some(vec![notes("usual")]);
    case.judge_config = Some(ModelSettings::new("openai", "judge"));
    case.agent_config = Some(ModelSettings::new("openai", "agent"));
    case.checklist = Some(vec!["The note was written.".to_owned()]);
    case
}

/// An answer that calls a tool.
pub(crate) fn call(name: &str, arguments: Value) -> ChatAnswer {
    ChatAnswer::calls([ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments }])
}

pub(crate) fn write() -> ChatAnswer {
    call("write_note", json!({"name": "a", "text": "hello"}))
}

pub(crate) fn read() -> ChatAnswer {
    call("read_note", json!({"name": "a"}))
}

pub(crate) fn text_answer(text: &str) -> ChatAnswer {
    ChatAnswer::text(text)
}

/// A vote on the only item.
pub(crate) fn vote(answer: &str) -> ChatAnswer {
    let item = json!({"id": "item1", "evidence": "The calls show it.", "answer": answer});
    text_answer(&json!({"items": [item], "reasoning": "It is so.", "suggestions": ""}).to_string())
}

pub(crate) fn votes(answer: &str) -> Vec<ChatAnswer> {
    vec![vote(answer); 3]
}

/// The answers of a model that does its work.
pub(crate) fn good_work() -> Vec<ChatAnswer> {
    vec![write(), read(), text_answer("The note says hello.")]
}

/// A runner with these answers.
pub(crate) fn runner(
    agent: impl IntoIterator<Item = ChatAnswer>,
    judge: impl IntoIterator<Item = ChatAnswer>,
) -> Runner {
    let models = FixedModels::new(ScriptedModel::new(agent), ScriptedModel::new(judge));
    with_path(Runner::new(models, Arc::new(MemoryStore::new())))
}

/// Lets servers find `sed`.
pub(crate) fn with_path(runner: Runner) -> Runner {
    runner.with_environment(std::env::vars())
}

/// Runs a case, and checks that its result is in the store and that nothing is left open.
pub(crate) async fn run(runner: &Runner, case: TestCase) -> TestResult {
    let result = runner.run(case).await;
    assert_eq!(runner.open_connections(), 0);
    assert_stored(&**runner.store(), &result).await;
    result
}

pub(crate) async fn assert_stored(store: &dyn ResultStore, result: &TestResult) {
    assert_eq!(store.result(&result.id).await.unwrap().as_ref(), Some(result));
}
