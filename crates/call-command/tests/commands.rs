//! Calls of a server at the other end of a pipe: exit codes and messages.

use clap::Parser;
use marquetry_call_command::{CallArgs, CallCommandError, Session, ToolsArgs, call, tools};
use marquetry_protocol::{
    server::{RequestContext, Server, Toolbox, serve_pipe},
    types::{ElicitAction, ElicitParams},
};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(Parser)]
struct CallLine {
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Parser)]
struct ToolsLine {
    #[command(flatten)]
    tools: ToolsArgs,
}

fn toolbox() -> Toolbox {
    Toolbox::new("adder", "1.0.0")
        .tool("add", "Adds.", async |it: Numbers, _| (it.a + it.b).to_string())
        .tool("fail", "Fails.", async |_: Nothing, _| Err::<String, _>("no luck".to_owned()))
        .tool("sleep", "Sleeps.", async |_: Nothing, _| {
            tokio::time::sleep(std::time::Duration::from_mins(1)).await;
            String::new()
        })
        .tool("ask", "Asks.", async |_: Nothing, cx: RequestContext| {
            let answer =
                cx.elicit("sure", &ElicitParams::form("Sure?", json!({"type": "object"}))).await;
            match answer {
                Ok(answer) if answer.action == ElicitAction::Decline => Ok("declined".to_owned()),
                Ok(answer) => Err(format!("{answer:?}")),
                Err(error) => Err(error.to_string()),
            }
        })
}

async fn session(health: &Value) -> Session {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(theirs);
        serve_pipe(&Server::new(toolbox()), reader, writer, Default::default()).await
    });
    let mut session = Session::over_pipe(ours).await.unwrap();
    session.set_health(health);
    session
}

async fn called(words: &[&str], health: &Value) -> Result<(), CallCommandError> {
    let line = CallLine::parse_from(["call"].iter().chain(words));
    call(&line.call, &session(health).await).await
}

async fn check(words: &[&str], code: u8, message: &str) {
    let error = called(words, &Value::Null).await.unwrap_err();
    assert_eq!(error.code, code, "{words:?}: {error:?}");
    assert!(error.message.contains(message), "{words:?}: {error:?}");
}

#[tokio::test]
async fn calls_succeed_in_every_form_of_arguments() {
    for words in [
        &["add", "a=1", "b=2"][..],
        &["add", "a:=1", "b=2", "--json"],
        &["add", r#"{"a": 1, "b": 2}"#],
        &["add", "a=-1", "b=2", "--timeout", "5"],
        // Without a terminal, the question is declined.
        &["ask"],
    ] {
        called(words, &Value::Null).await.unwrap_or_else(|error| panic!("{words:?}: {error:?}"));
    }
}

#[tokio::test]
async fn failures_have_exit_codes() {
    check(&["fail"], 1, "").await;
    check(&["ad", "a=1"], 2, "unknown tool \"ad\"; did you mean \"add\"?").await;
    check(&["nothing-like-it"], 2, "`marquetry tools`").await;
    check(&["add", "a=x"], 2, "a: \"x\" is invalid; expected an integer").await;
    check(&["add", "c=1"], 2, "no argument \"c\"").await;
    check(&["sleep", "--timeout", "0.2"], 3, "no answer within 0.2 s (--timeout)").await;
    let down = json!({"upstreams": [{"name": "far", "state": "failed", "problem": "it is gone"}]});
    let error = called(&["far__away"], &down).await.unwrap_err();
    assert_eq!(error.code, 3);
    assert!(error.message.contains("server \"far\" is down: it is gone"), "{error:?}");
}

#[tokio::test]
async fn a_missing_tool_may_be_hidden_by_the_policy() {
    for (hidden, want) in [(0, None), (1, Some("hides 1 tool of")), (2, Some("hides 2 tools of"))] {
        let mut session = session(&Value::Null).await;
        session.set_hidden_tools(hidden);
        let line = ToolsLine::parse_from(["tools", "nothing"]);
        let missing = tools(&line.tools, &session).await.unwrap_err();
        let line = CallLine::parse_from(["call", "nothing-like-it"]);
        let unknown = call(&line.call, &session).await.unwrap_err();
        for error in [missing, unknown] {
            assert_eq!(error.code, 2);
            assert_eq!(error.message.contains("[policy] hides"), want.is_some(), "{error:?}");
            assert!(error.message.contains(want.unwrap_or_default()), "{error:?}");
        }
    }
}

#[tokio::test]
async fn tools_are_listed_and_filtered() {
    let ready = json!({"upstreams": [{"name": "a", "state": "ready"}]});
    let down = json!({"upstreams": [{"name": "a", "state": "backing_off", "problem": "gone"}]});
    for (words, health, want) in [
        (&["tools"][..], &ready, None),
        (&["tools", "ADD", "--json"], &ready, None),
        (&["tools", "nothing"], &ready, Some(2)),
        // The other tools can be used.
        (&["tools"], &down, None),
        (&["tools", "--server", "a"], &down, Some(3)),
    ] {
        let line = ToolsLine::parse_from(words);
        let outcome = tools(&line.tools, &session(health).await).await;
        assert_eq!(outcome.err().map(|error| error.code), want, "{words:?}");
    }
}

#[tokio::test]
async fn a_url_that_nobody_serves_is_unreachable() {
    let line = CallLine::parse_from(["call", "add", "--url", "http://127.0.0.1:9/mcp"]);
    let remote = line.call.remote();
    let error = Session::to_url(remote).await.err().unwrap();
    assert_eq!(error.code, 3, "{error:?}");
    let line = CallLine::parse_from(["call", "add", "--url", "http://h/", "--header", "x"]);
    let remote = line.call.remote();
    let error = Session::to_url(remote).await.err().unwrap();
    assert_eq!(error.code, 2, "{error:?}");
}
