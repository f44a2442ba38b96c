//! Tests of open questions and remembered decisions.

use super::*;

fn call() -> CallToApprove {
    CallToApprove::new("files", "delete", None).of_session("1").because_of("ask.when = \"always\"")
}

/// Returns a table, and the events that it reports, as words.
fn observed(approvals: Approvals) -> (Approvals, Arc<Mutex<Vec<String>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    approvals.on_event(move |event| {
        let by = event.by.map_or("", Answerer::name);
        let line = format!("{} {by}", event.outcome.name());
        seen.lock().unwrap().push(line.trim_end().to_owned());
    });
    (approvals, events)
}

#[tokio::test]
async fn a_waiting_call_gets_the_answer_of_its_client() {
    let (approvals, events) = observed(Approvals::default());
    for decision in [Decision::Once, Decision::Declined] {
        let waiting = approvals.wait(&call(), "?").unwrap();
        assert_eq!(approvals.open_questions()[0].message, "?");
        assert_eq!(waiting.answered(decision), decision);
        assert!(approvals.open_questions().is_empty());
        assert_eq!(approvals.remembered(&call()), None);
    }
    assert_eq!(
        *events.lock().unwrap(),
        ["asked", "allowed_once client", "asked", "declined client"]
    );
}

#[tokio::test]
async fn the_first_answer_counts_and_the_second_is_told_so() {
    let (approvals, events) = observed(Approvals::default());
    let mut waiting = approvals.wait(&call(), "?").unwrap();
    let id = waiting.id;
    approvals.answer(id, None, Decision::Once).unwrap();
    assert_eq!(approvals.answer(id, None, Decision::Declined), Err(AnswerRefused::Answered));
    assert_eq!(waiting.answered_in_console().await, Decision::Once);
    assert_eq!(waiting.answered(Decision::Declined), Decision::Once);
    assert_eq!(approvals.answer(id, None, Decision::Once), Err(AnswerRefused::NotFound));
    assert_eq!(*events.lock().unwrap(), ["asked", "allowed_once console"]);
}

#[test]
fn another_principals_question_is_not_found() {
    let approvals = Approvals::default();
    let annas = call().of_principal(Some("- anna".to_owned()));
    let waiting = approvals.wait(&annas, "?").unwrap();
    for other in [None, Some("- bert")] {
        assert_eq!(
            approvals.answer(waiting.id, other, Decision::Once),
            Err(AnswerRefused::NotFound)
        );
    }
    approvals.answer(waiting.id, Some("- anna"), Decision::Once).unwrap();
}

#[test]
fn a_cancelled_call_withdraws_its_question() {
    let (approvals, events) = observed(Approvals::default());
    drop(approvals.wait(&call(), "?").unwrap());
    approvals.wait(&call(), "?").unwrap().timed_out();
    assert!(approvals.open_questions().is_empty());
    assert_eq!(*events.lock().unwrap(), ["asked", "withdrawn", "asked", "timed_out"]);
}

#[test]
fn a_call_in_rounds_takes_its_answer_once() {
    let (approvals, events) = observed(Approvals::default());
    let id = approvals.ask_in_rounds(&call(), "?").unwrap();
    let other = call().of_session("2");
    assert_eq!(approvals.resume(id, &other, Some(Decision::Once)), Resumed::Unknown);
    assert_eq!(approvals.resume(id, &call(), None), Resumed::Open);
    let allowed = Resumed::Decided(Decision::Once);
    assert_eq!(approvals.resume(id, &call(), Some(Decision::Once)), allowed);
    assert_eq!(approvals.resume(id, &call(), Some(Decision::Once)), Resumed::Unknown);
    assert_eq!(*events.lock().unwrap(), ["asked", "allowed_once client"]);
}

#[test]
fn an_answer_in_the_console_serves_a_call_in_rounds() {
    let approvals = Approvals::default();
    for (in_client, want) in [
        (None, Decision::Once),
        (Some(Decision::Session), Decision::Once),
        (Some(Decision::Declined), Decision::Declined),
    ] {
        let id = approvals.ask_in_rounds(&call(), "?").unwrap();
        approvals.answer(id, None, Decision::Once).unwrap();
        // Another call gets no part of it.
        assert_eq!(approvals.remembered(&call()), None);
        assert_eq!(approvals.resume(id, &call(), in_client), Resumed::Decided(want));
    }
}

#[test]
fn a_call_of_a_client_that_cannot_ask_is_allowed_in_the_console() {
    let approvals = Approvals::default();
    let id = approvals.ask_in_console(&call(), "?").unwrap().unwrap();
    assert_eq!(approvals.ask_in_console(&call(), "?"), Ok(None));
    assert_eq!(approvals.remembered(&call()), None);
    approvals.answer(id, None, Decision::Once).unwrap();
    let other = CallToApprove { arguments: [1; 32], ..call() };
    assert_eq!(approvals.remembered(&other), None);
    assert_eq!(approvals.remembered(&call()), Some(Decision::Once));
    assert_eq!(approvals.remembered(&call()), None, "once is once");

    let id = approvals.ask_in_console(&call(), "?").unwrap().unwrap();
    approvals.answer(id, None, Decision::Declined).unwrap();
    for _ in 0..2 {
        assert_eq!(approvals.remembered(&call()), Some(Decision::Declined));
    }
    approvals.expire(id);
    assert_eq!(approvals.remembered(&call()), None);
}

#[test]
fn a_decision_from_now_on_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.toml");
    let approvals = Approvals::default().with_file(DecisionFile::new(&path));
    assert_eq!(approvals.wait(&call(), "?").unwrap().answered(Decision::Always), Decision::Always);
    let later = Approvals::default().with_file(DecisionFile::new(&path));
    assert_eq!(later.remembered(&call().of_session("2")), Some(Decision::Always));
    let annas = call().of_principal(Some("- anna".to_owned()));
    assert_eq!(later.remembered(&annas), None);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), Approvals::entry_for(&call()));
}

#[test]
fn a_decision_that_cannot_be_stored_counts_for_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.toml");
    std::fs::write(&path, "[[allow]\n").unwrap();
    let approvals = Approvals::default().with_file(DecisionFile::new(&path));
    assert_eq!(approvals.remembered(&call()), None);
    let waiting = approvals.wait(&call(), "?").unwrap();
    let refused = approvals.answer(waiting.id, None, Decision::Always).unwrap_err().to_string();
    assert!(refused.contains("for this session only") && refused.contains("damaged"), "{refused}");
    drop(waiting);
    assert_eq!(approvals.remembered(&call()), Some(Decision::Session));
    assert_eq!(approvals.remembered(&call().of_session("2")), None);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "[[allow]\n");
}

#[test]
fn a_value_is_kept_until_the_question_ends() {
    let approvals = Approvals::default();
    let kept = Arc::new(());
    let id = approvals.ask_in_rounds(&call(), "?").unwrap();
    approvals.keep_until_end(id, Box::new(kept.clone()));
    assert_eq!(Arc::strong_count(&kept), 2);
    assert_ne!(approvals.resume(id, &call(), Some(Decision::Once)), Resumed::Open);
    assert_eq!(Arc::strong_count(&kept), 1);
    approvals.keep_until_end(id, Box::new(kept.clone()));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn open_questions_are_bounded() {
    let limits = ApprovalLimits { open: 3, open_per_principal: 2 };
    let approvals = Approvals::new(limits);
    let annas = call().of_principal(Some("- anna".to_owned()));
    let berts = call().of_principal(Some("- bert".to_owned()));
    let first = approvals.ask_in_rounds(&annas, "?").unwrap();
    approvals.ask_in_rounds(&annas, "?").unwrap();
    let error = approvals.ask_in_rounds(&annas, "?").unwrap_err().to_string();
    assert!(error.contains("max_parked_calls_per_caller"), "{error}");
    approvals.ask_in_rounds(&berts, "?").unwrap();
    let error = approvals.ask_in_rounds(&berts, "?").unwrap_err().to_string();
    assert!(error.contains("(limits.max_parked_calls)"), "{error}");
    approvals.expire(first);
    approvals.ask_in_rounds(&berts, "?").unwrap();
}

#[test]
fn an_event_names_the_call_without_its_arguments() {
    let (approvals, _) = observed(Approvals::default());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = lines.clone();
    approvals.on_event(move |event| seen.lock().unwrap().push(event.to_json()));
    let secret = serde_json::value::to_raw_value(&serde_json::json!({"pin": "1234"})).unwrap();
    let call = CallToApprove::new("bank", "pay", Some(&secret)).because_of("ask.when = \"always\"");
    drop(approvals.wait(&call, "pin: 1234").unwrap());
    let lines = lines.lock().unwrap();
    assert_eq!(lines[0]["outcome"], "asked");
    assert_eq!((&lines[0]["principal"], &lines[0]["upstream"]), (&"local".into(), &"bank".into()));
    assert!(!lines[0].to_string().contains("1234"), "{}", lines[0]);
}
