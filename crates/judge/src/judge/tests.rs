//! Tests of votes and verdicts with scripted models.

use std::sync::Mutex;

use async_trait::async_trait;
use marquetry_llm::{ChatAnswer, ScriptedModel};
use serde_json::{Value, json};

use super::*;

fn vote(answer: &str) -> ChatAnswer {
    let item = json!({"id": "item1", "evidence": format!("It is {answer}."), "answer": answer});
    ChatAnswer::text(json!({"items": [item], "reasoning": format!("so: {answer}")}).to_string())
}

async fn judge(answers: &str) -> (Result<Judgement, JudgeError>, Vec<Vote>) {
    let answers = answers.split_whitespace().map(|word| match word {
        "y" => vote("yes"),
        "n" => vote("no"),
        other => ChatAnswer::text(other),
    });
    let judge = Judge::new(Arc::new(ScriptedModel::new(answers)), JudgeOptions::default());
    let checklist = ["It is right.".to_owned()];
    let mut votes = Vec::new();
    let outcome = judge.judge(&input(&checklist), &mut votes).await;
    (outcome, votes)
}

fn input(checklist: &[String]) -> JudgeInput<'_> {
    JudgeInput { prompt: "p", expected_tools: None, tool_calls: &[], answer: "a", checklist }
}

#[tokio::test]
async fn a_split_vote_continues_until_it_is_decided() {
    for (answers, passed, confidence, votes) in [
        ("y y y", true, 1.0, 3),
        ("n n n", false, 1.0, 3),
        ("y n y y y y y", true, 6.0 / 7.0, 7),
        ("n y n n n n n", false, 6.0 / 7.0, 7),
        ("y n y n y n y n y n y", true, 6.0 / 11.0, 11),
    ] {
        let (judgement, cast) = judge(answers).await;
        let judgement = judgement.unwrap();
        assert_eq!((judgement.passed, cast.len()), (passed, votes), "{answers}");
        assert!((judgement.confidence - confidence).abs() < 1e-9, "{answers}: {judgement:?}");
        assert_eq!(judgement.items[0].yes + judgement.items[0].no, cast.len() as u32);
        assert_eq!(judgement.reasoning, if passed { "so: yes" } else { "so: no" });
        assert!(cast.iter().enumerate().all(|(index, vote)| vote.index as usize == index));
    }
}

#[tokio::test]
async fn an_answer_of_the_wrong_form_is_asked_for_again_and_then_an_error() {
    let (judgement, votes) = judge("y nonsense y y").await;
    assert!(judgement.unwrap().passed);
    assert_eq!(votes.len(), 3);
    let (judgement, votes) = judge("y nonsense y {} [] x").await;
    let error = judgement.unwrap_err().to_string();
    assert!(error.contains("gave no valid answer in 3 attempts"), "{error}");
    assert_eq!(votes.len(), 2, "valid votes are kept");
    let (judgement, _) = judge("y y").await;
    assert!(
        matches!(judgement, Err(JudgeError::Model(ChatError::ScriptEnded(2)))),
        "{judgement:?}"
    );
}

/// Answers yes to everything, and keeps the questions.
#[derive(Default)]
struct Curious(Mutex<Vec<Value>>);

#[async_trait]
impl ChatModel for Curious {
    fn name(&self) -> &'static str {
        "curious"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        let question: Value = serde_json::from_str(request.messages[1].text()).unwrap();
        let items: Vec<Value> = question["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| json!({"id": item["id"], "evidence": item["statement"], "answer": "yes"}))
            .collect();
        self.0.lock().unwrap().push(question);
        Ok(ChatAnswer::text(json!({"items": items, "reasoning": ""}).to_string()))
    }
}

#[tokio::test]
async fn each_vote_sees_another_order_and_answers_return_in_the_order_of_the_checklist() {
    let model = Arc::new(Curious::default());
    let judge = Judge::new(Arc::<Curious>::clone(&model), JudgeOptions::default());
    let checklist: Vec<String> = (0..8).map(|number| format!("statement {number}")).collect();
    let calls: Vec<_> =
        (0..8).map(|number| ToolCallRecord::of_text("s", "t", json!({"n": number}), "r")).collect();
    let mut votes = Vec::new();
    let input = JudgeInput { tool_calls: &calls, ..input(&checklist) };
    let judgement = judge.judge(&input, &mut votes).await.unwrap();
    for (item, statement) in judgement.items.iter().zip(&checklist) {
        assert_eq!((&item.item, &item.evidence), (statement, statement));
    }
    let questions = std::mem::take(&mut *model.0.lock().unwrap());
    for member in ["items", "evidence"] {
        assert!(questions[0][member] != questions[1][member], "{member}");
        assert!(questions[1][member] != questions[2][member], "{member}");
    }
    judge.judge(&input, &mut Vec::new()).await.unwrap();
    assert_eq!(*model.0.lock().unwrap(), questions, "the seed is the same");
    assert_eq!(votes[0].prompt_hash, votes[2].prompt_hash);
    assert_ne!(votes[0].prompt_hash, vote::hash(&checklist[1..]));
}

#[test]
fn shortened_texts_are_marked_and_short_texts_leave_room_for_long_ones() {
    let checklist = ["it worked".to_owned()];
    let mut calls: Vec<_> = (0..49)
        .map(|number| ToolCallRecord::of_text("s", "t", json!({"n": number}), "r"))
        .collect();
    calls.push(ToolCallRecord::of_text("s", "t", json!({}), &"x".repeat(60_000)));
    calls.push(ToolCallRecord::of_text("s", "t", json!({}), &"y".repeat(70_000)));
    // As long as a recorded result is at the default limits.
    let mut recorded = ToolCallRecord::of_text("s", "t", json!({}), &"z".repeat(65_536));
    recorded.response["_meta"] = json!({ToolCallRecord::CUT_FROM: 99});
    calls.push(recorded);
    let input = JudgeInput { tool_calls: &calls, ..input(&checklist) };
    let options = JudgeOptions::default();
    let ids = ["item1".to_owned()];
    let mut shuffle = Shuffle::new(1, 1);
    let question =
        vote::question(&input, &checklist, &ids, options.max_evidence_bytes, &mut shuffle);
    let question: Value = serde_json::from_str(&question).unwrap();
    let mut shortened: Vec<(&str, &Value)> = (question["evidence"].as_array().unwrap().iter())
        .filter_map(|item| Some((item["number"].as_str()?, item.get("shortened")?)))
        .collect();
    shortened.sort_unstable_by_key(|(number, _)| *number);
    assert_eq!(
        shortened,
        [
            ("51 of 52", &json!({"result": "from 70039 bytes"})),
            (
                "52 of 52",
                &json!({"result": "from 99 bytes; the agent saw no more than the beginning"})
            ),
        ]
    );
}

#[tokio::test]
async fn an_answer_that_is_withheld_is_no_vote_and_not_asked_for_again() {
    let withheld = ChatAnswer { finish: Finish::Filtered, ..ChatAnswer::text("") };
    let answers = [vote("yes"), withheld, vote("yes"), vote("yes"), vote("yes")];
    let judge = Judge::new(Arc::new(ScriptedModel::new(answers)), JudgeOptions::default());
    let mut votes = Vec::new();
    let outcome = judge.judge(&input(&["It is right.".to_owned()]), &mut votes).await;
    assert_eq!(outcome, Err(JudgeError::Filtered));
    assert_eq!(votes.len(), 2);
}

/// Answers yes once, and then never.
#[derive(Default)]
struct Silent(std::sync::atomic::AtomicBool);

#[async_trait]
impl ChatModel for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        if self.0.swap(true, std::sync::atomic::Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(vote("yes"))
    }
}

#[tokio::test(start_paused = true)]
async fn votes_before_the_end_of_the_time_are_kept() {
    let judge = Judge::new(Arc::new(Silent::default()), JudgeOptions::default());
    let mut votes = Vec::new();
    let checklist = ["It is right.".to_owned()];
    let input = input(&checklist);
    let judged = judge.judge(&input, &mut votes);
    assert!(tokio::time::timeout(std::time::Duration::from_secs(1), judged).await.is_err());
    assert_eq!(votes.len(), 1);
}

#[test]
fn a_question_is_bounded_however_many_calls_there_are() {
    let long = "x".repeat(20_000);
    let checklist = ["it worked".to_owned()];
    for count in [1_usize, 50, 5_000] {
        let calls: Vec<_> = (0..count)
            .map(|number| {
                ToolCallRecord::of_text("s", "t", json!({"n": number, "of": long}), &long)
            })
            .collect();
        let input = JudgeInput { tool_calls: &calls, ..input(&checklist) };
        let ids = ["item1".to_owned()];
        let mut shuffle = Shuffle::new(1, 1);
        let question = vote::question(&input, &checklist, &ids, 4096, &mut shuffle);
        assert!(question.len() < 600_000, "{count} calls: {} bytes", question.len());
        // The first and the last call are there, and what is left out is said.
        for number in [1, count] {
            assert!(question.contains(&format!("\"{number} of {count}\"")), "{count} calls");
        }
        assert_eq!(question.contains("are left out, since there are too many"), count == 5_000);
    }
}
