//! Questions before calls: pages show them to the principal who calls, who may answer here.

use std::sync::Arc;

use marquetry_approvals::{
    AnswerRefused, ApprovalOutcome, Approvals, Decision, Question, SessionScope,
};
use serde_json::{Value, json};

use crate::{Audience, Console, Viewer};

impl Console {
    /// Shows the questions of this table to the principals whose calls they are about, and takes
    /// their answers. Only the first table is used.
    pub fn show_approvals(&self, approvals: Arc<Approvals>) {
        let events = self.events_shared().clone();
        let run = events.run().to_owned();
        if self.inner.approvals.set(approvals.clone()).is_err() {
            return;
        }
        approvals.on_event(move |event| {
            let is_open = event.outcome == ApprovalOutcome::Asked;
            let question = &event.question;
            events.push(
                "question",
                || Audience::OwnerAlone(question.call.owner.clone()),
                || shown(&run, question, is_open),
            );
        });
    }

    /// Returns the open questions about the viewer's own calls, oldest first, as events.
    pub(crate) fn approvals_of(&self, viewer: &Viewer) -> Vec<Value> {
        let Some(approvals) = self.inner.approvals.get() else { return Vec::new() };
        let open = approvals.open_questions().into_iter();
        let own = open.filter(|question| question.call.owner == viewer.owner);
        own.map(|question| shown(self.events().run(), &question, true)).collect()
    }

    /// Answers a question about a call of the viewer. Returns what was done, for people.
    ///
    /// # Errors
    /// Returns an error if no such question is open, or it was answered.
    pub(crate) fn answer_approval(
        &self,
        id: u64,
        viewer: &Viewer,
        decision: Decision,
    ) -> Result<String, AnswerRefused> {
        let approvals = self.inner.approvals.get().ok_or(AnswerRefused::NotFound)?;
        match approvals.answer(id, viewer.owner.as_deref(), decision) {
            // The call is allowed all the same.
            Err(AnswerRefused::NotStored(problem)) => {
                Ok(format!("The tool is allowed for this session only: {problem}."))
            }
            Err(refused) => Err(refused),
            Ok(()) => Ok(match decision {
                Decision::Once => "The call is allowed.",
                Decision::Session => "The tool is allowed for this session.",
                Decision::Always => "The tool is allowed from now on.",
                Decision::Declined => "The call is refused.",
            }
            .to_owned()),
        }
    }
}

/// Returns names and titles of the decisions about a call in a session, or without one.
fn choices(scope: SessionScope) -> Vec<[&'static str; 2]> {
    let decisions = Decision::ALLOWING.into_iter().chain([Decision::Declined]);
    decisions.map(|decision| [decision.name(), decision.title(scope)]).collect()
}

/// Returns a question as an event.
fn shown(run: &str, question: &Question, is_open: bool) -> Value {
    let Question { id, call, message, .. } = question;
    json!({
        "id": format!("{run}-a{id}"),
        "approval": id,
        "state": if is_open { "open" } else { "closed" },
        "method": "tools/call",
        "server": call.server,
        "call": null,
        "tool": call.tool,
        "message": if is_open { Some(message) } else { None },
        "choices": if is_open { Some(choices(call.scope)) } else { None },
    })
}

#[cfg(test)]
mod tests {
    use marquetry_approvals::CallToApprove;

    use super::*;
    use crate::Options;

    #[test]
    fn a_question_is_shown_to_its_principal_who_may_answer_once() {
        let console = Console::new(Options::default());
        let approvals = Arc::new(Approvals::default());
        console.show_approvals(approvals.clone());
        let call = CallToApprove::new("files", "delete", None);
        let id = approvals.ask_in_rounds(&call.of_principal(Some("anna".to_owned())), "?").unwrap();
        let anna = Viewer::of("anna", false);
        let shown = console.approvals_of(&anna);
        assert_eq!((&shown[0]["approval"], &shown[0]["message"]), (&json!(id), &json!("?")));
        assert_eq!(shown[0]["choices"][1], json!(["session", "Allow for this session"]));
        assert_eq!(
            choices(SessionScope::Caller)[1][1],
            "Allow until the server ends, for all clients of yours"
        );
        for other in [Viewer::of("bert", false), Viewer::of("root", true), Viewer::everything()] {
            assert!(console.approvals_of(&other).is_empty());
            let refused = console.answer_approval(id, &other, Decision::Once);
            assert_eq!(refused, Err(AnswerRefused::NotFound));
        }
        let said = console.answer_approval(id, &anna, Decision::Once).unwrap();
        assert_eq!(said, "The call is allowed.");
        let again = console.answer_approval(id, &anna, Decision::Declined);
        assert_eq!(again, Err(AnswerRefused::Answered));
        assert!(console.approvals_of(&anna).is_empty());
    }
}
