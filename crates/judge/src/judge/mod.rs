//! The judge: a model that answers a checklist with yes and no, each with evidence, in several
//! votes.
//!
//! The verdict is derived from the votes, never asked for. Every vote sees items and evidence in
//! another order. A judge that cannot be called, or that answers anything else than the checklist,
//! is a [`JudgeError`]: no verdict.

mod vote;

use std::{sync::Arc, time::Instant};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use marquetry_llm::{ChatError, ChatModel, ChatRequest, Finish, Format, Message};

pub(crate) use self::vote::Shuffle;
pub use self::vote::{MAX_ANSWER_BYTES, ParsedVote, VoteError, parse_vote};
pub use crate::result::{ItemAnswer, Vote};
use crate::{
    ExpectedTool, ModelSettings, ToolCallRecord,
    budget::{Budget, LimitReached, usage_of},
    case::Price,
    models::{advice, ask},
    result::{ItemVerdict, TokenUsage},
    stats::saturated,
    time::millis,
};

/// The items of a case that names none.
pub const DEFAULT_CHECKLIST: [&str; 4] = [
    "The agent called every tool that the task requires.",
    "The arguments of every tool call are what the task asks for.",
    "No tool call failed without the agent noticing it, and no tool call does something that the task does not ask for.",
    "The agent's final answer agrees with the results of its tool calls and answers the task.",
];

/// Number of retries of a vote whose answer does not have the required form.
const FORM_RETRIES: usize = 2;

/// Maximum number of votes.
pub const MAX_VOTES: u32 = 11;

/// The evidence that is judged.
#[derive(Clone, Copy, Debug)]
pub struct JudgeInput<'a> {
    /// The task.
    pub prompt: &'a str,
    /// The calls that the author of the case expects.
    pub expected_tools: Option<&'a [ExpectedTool]>,
    /// The calls.
    pub tool_calls: &'a [ToolCallRecord],
    /// The agent's final answer.
    pub answer: &'a str,
    /// The statements to answer; empty for [`DEFAULT_CHECKLIST`].
    pub checklist: &'a [String],
}

/// Options of a judge's votes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JudgeOptions {
    /// Number of votes; 3 by default.
    pub votes: u32,
    /// Maximum number of votes after a split; 11 by default.
    pub max_votes: u32,
    /// Seed of the order of items and evidence; 0 by default.
    pub seed: u64,
    /// Sampling temperature; the provider's default if absent.
    pub temperature: Option<f64>,
    /// Longest answer, in tokens; 2048 by default.
    pub max_tokens: u32,
    /// Longest text of one result or answer that the judge sees, in bytes; 65,536 by default, as
    /// much as the model that works sees of a result. The rest is cut off, and the judge is told
    /// so. All evidence of a trial has 256 KiB.
    pub max_evidence_bytes: usize,
    /// Whether the model is asked for a stream; false by default.
    pub stream: bool,
    /// Price of the model.
    pub price: Option<Price>,
}

impl Default for JudgeOptions {
    fn default() -> Self {
        Self {
            votes: 3,
            max_votes: MAX_VOTES,
            seed: 0,
            temperature: None,
            max_tokens: 2048,
            max_evidence_bytes: 65_536,
            stream: false,
            price: None,
        }
    }
}

impl JudgeOptions {
    /// Returns the options of a case's judge.
    pub fn of(settings: &ModelSettings) -> Self {
        let votes = settings.votes.unwrap_or(3).clamp(1, MAX_VOTES);
        Self {
            votes,
            max_votes: settings.max_votes.unwrap_or(MAX_VOTES).clamp(votes, MAX_VOTES),
            seed: settings.seed.unwrap_or(0),
            temperature: settings.temperature,
            max_tokens: settings.max_tokens.unwrap_or(2048),
            stream: settings.stream == Some(true),
            price: settings.price,
            ..Self::default()
        }
    }
}

/// The verdict that follows from the votes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judgement {
    /// Whether more votes passed than failed.
    pub passed: bool,
    /// The share of votes with this verdict.
    pub confidence: f64,
    /// The summary of a vote with this verdict.
    pub reasoning: String,
    /// Suggestions of a vote with this verdict.
    pub suggestions: Option<String>,
    /// The votes by item.
    pub items: Vec<ItemVerdict>,
}

/// Why a judge gave no verdict.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// The call of the model failed.
    #[error("failed to call the judge's model: {0}{advice}", advice = advice(.0, "judgeConfig"))]
    Model(ChatError),
    /// The answer does not have the required form, after several attempts.
    #[error(
        "the judge {model} gave no valid answer in {attempts} attempts: {problem}; use a model that follows a JSON schema, \
         or raise judgeConfig.maxTokens"
    )]
    Answer {
        /// The model.
        model: String,
        /// Number of attempts.
        attempts: usize,
        /// What is wrong with the last answer.
        problem: VoteError,
    },
    /// The provider withheld the answer.
    #[error(
        "the provider of the judge's model withheld an answer (content filter): use another model in judgeConfig, or change the prompt"
    )]
    Filtered,
    /// A limit of the trial was reached.
    #[error("{0}")]
    Limit(LimitReached),
}

/// A model that judges.
///
/// ```
/// use marquetry_judge::judge::{Judge, JudgeInput, JudgeOptions};
/// use marquetry_llm::{ChatAnswer, ScriptedModel};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let vote = r#"{"items": [{"id": "item1", "evidence": "It says 4.", "answer": "yes"}], "reasoning": "Right."}"#;
/// let model = ScriptedModel::new([ChatAnswer::text(vote), ChatAnswer::text(vote), ChatAnswer::text(vote)]);
/// let judge = Judge::new(std::sync::Arc::new(model), JudgeOptions::default());
/// let checklist = ["The answer is 4.".to_owned()];
/// let input = JudgeInput {
///     prompt: "Two and two?", expected_tools: None, tool_calls: &[], answer: "4", checklist: &checklist,
/// };
/// let mut votes = Vec::new();
/// let judgement = judge.judge(&input, &mut votes).await?;
/// assert!(judgement.passed && judgement.confidence == 1.0 && votes.len() == 3);
/// # Ok::<(), marquetry_judge::judge::JudgeError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Judge {
    model: Arc<dyn ChatModel>,
    options: JudgeOptions,
}

impl Judge {
    /// Returns a judge.
    pub fn new(model: Arc<dyn ChatModel>, options: JudgeOptions) -> Self {
        Self { model, options }
    }

    /// Collects votes until there is a verdict, and adds them to `votes`, including those before an
    /// error.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no verdict; see [`JudgeError`].
    pub async fn judge(
        &self,
        input: &JudgeInput<'_>,
        votes: &mut Vec<Vote>,
    ) -> Result<Judgement, JudgeError> {
        self.judge_within(input, votes, None, &|_| {}).await
    }

    pub(crate) async fn judge_within(
        &self,
        input: &JudgeInput<'_>,
        votes: &mut Vec<Vote>,
        budget: Option<&Budget>,
        on_vote: &(dyn Fn(&Vote) + Sync),
    ) -> Result<Judgement, JudgeError> {
        let own: Vec<String>;
        let checklist = match input.checklist {
            [] => {
                own = DEFAULT_CHECKLIST.map(str::to_owned).to_vec();
                &own[..]
            }
            given => given,
        };
        let first = self.options.votes.max(1);
        let max_votes = self.options.max_votes.clamp(first, MAX_VOTES.max(first));
        let mut asked: FuturesUnordered<_> =
            (0..first).map(|index| self.vote(input, checklist, index, budget)).collect();
        let mut failure = None;
        // Each vote is kept as it comes: the end of the time drops this function.
        while let Some(outcome) = asked.next().await {
            match outcome {
                Ok(vote) => {
                    on_vote(&vote);
                    let index = votes.partition_point(|other| other.index < vote.index);
                    votes.insert(index, vote);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        drop(asked);
        if let Some(error) = failure {
            return Err(error);
        }
        loop {
            let (yes, no) = count(votes);
            let left = max_votes - (yes + no).min(max_votes);
            // Voting stops if the votes are unanimous, or if the remaining votes cannot change the
            // majority.
            if yes == 0 || no == 0 || left == 0 || yes.abs_diff(no) > left {
                return Ok(judgement(votes, checklist));
            }
            let vote = self.vote(input, checklist, yes + no, budget).await?;
            on_vote(&vote);
            votes.push(vote);
        }
    }

    async fn vote(
        &self,
        input: &JudgeInput<'_>,
        checklist: &[String],
        index: u32,
        budget: Option<&Budget>,
    ) -> Result<Vote, JudgeError> {
        let started = Instant::now();
        let mut shuffle = Shuffle::new(self.options.seed, u64::from(index));
        let ids: Vec<String> =
            (1..=checklist.len()).map(|number| format!("item{number}")).collect();
        let mut request = ChatRequest::new([
            Message::system(vote::INSTRUCTIONS),
            Message::user(vote::question(
                input,
                checklist,
                &ids,
                self.options.max_evidence_bytes,
                &mut shuffle,
            )),
        ]);
        request.format = Format::Schema { name: "votes".to_owned(), schema: vote::schema(&ids) };
        request.temperature = self.options.temperature;
        request.max_tokens = Some(self.options.max_tokens);
        request.seed = Some(shuffle.next());
        let mut usage = TokenUsage::default();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let answer = ask(&*self.model, &request, self.options.stream)
                .await
                .map_err(JudgeError::Model)?;
            let spent = usage_of(&request, &answer, self.options.price.as_ref());
            usage.add(&spent);
            if let Some(budget) = budget {
                budget.spend(&spent).map_err(JudgeError::Limit)?;
            }
            let parsed = match answer.finish {
                // The same question would be withheld again.
                Finish::Filtered => return Err(JudgeError::Filtered),
                Finish::Length => Err(VoteError::Cut),
                _ => parse_vote(&answer.text, &ids),
            };
            let problem = match parsed {
                Ok(ParsedVote { answers, reasoning, suggestions }) => {
                    let answers: Vec<_> = answers
                        .into_iter()
                        .zip(checklist)
                        .map(|((yes, evidence), item)| ItemAnswer {
                            item: item.clone(),
                            evidence,
                            yes,
                        })
                        .collect();
                    let model = if answer.model.is_empty() {
                        self.model.name().to_owned()
                    } else {
                        answer.model
                    };
                    return Ok(Vote {
                        index,
                        passed: answers.iter().all(|answer| answer.yes),
                        answers,
                        reasoning,
                        suggestions,
                        model,
                        prompt_hash: vote::hash(checklist),
                        usage,
                        duration_ms: millis(started.elapsed()),
                    });
                }
                Err(problem) => problem,
            };
            if attempts > FORM_RETRIES {
                let model = self.model.name().to_owned();
                return Err(JudgeError::Answer { model, attempts, problem });
            }
            request.messages.truncate(2);
            request.messages.push(answer.to_message());
            request.messages.push(Message::user(format!(
                "That answer has not the required form: {problem}. Answer again, with the JSON object only."
            )));
        }
    }
}

/// Returns the numbers of votes that passed and failed.
fn count(votes: &[Vote]) -> (u32, u32) {
    let yes = votes.iter().filter(|vote| vote.passed).count();
    (saturated(yes), saturated(votes.len() - yes))
}

fn judgement(votes: &[Vote], checklist: &[String]) -> Judgement {
    let (yes, no) = count(votes);
    // A tie is not a majority.
    let passed = yes > no;
    let agreeing = if passed { yes } else { no };
    let speaker = votes.iter().find(|vote| vote.passed == passed);
    let items = checklist.iter().enumerate().map(|(index, item)| {
        let answers: Vec<&ItemAnswer> =
            votes.iter().filter_map(|vote| vote.answers.get(index)).collect();
        let yes = answers.iter().filter(|answer| answer.yes).count();
        let no = answers.len() - yes;
        let evidence = answers.iter().find(|answer| answer.yes == (yes > no));
        ItemVerdict {
            item: item.clone(),
            yes: saturated(yes),
            no: saturated(no),
            evidence: evidence.map_or_else(String::new, |answer| answer.evidence.clone()),
        }
    });
    Judgement {
        passed,
        confidence: f64::from(agreeing) / f64::from((yes + no).max(1)),
        reasoning: speaker.map_or_else(String::new, |vote| vote.reasoning.clone()),
        suggestions: speaker.and_then(|vote| vote.suggestions.clone()),
        items: items.collect(),
    }
}

#[cfg(test)]
mod tests;
