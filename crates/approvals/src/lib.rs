#![doc = include_str!("../README.md")]

mod call;
mod decision;
mod event;
mod file;
mod open;
mod question;
mod rounds;
mod sessions;
mod when;

pub use crate::{
    call::CallToApprove,
    decision::{Decision, SessionScope},
    event::{Answerer, ApprovalEvent, ApprovalOutcome, Question},
    file::{DecisionFile, DecisionFileError},
    open::{AnswerRefused, ApprovalLimits, Approvals, Resumed, TooManyQuestions, WaitingQuestion},
    question::{CHOICE, QuestionText, choice_schema},
    when::{AskRules, AskWhen, ToolHints},
};
