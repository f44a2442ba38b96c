//! Checks of a case and of the settings of its models, before anything is started.

use crate::{
    ModelSettings, TestCase, TrialError,
    case::Price,
    check::{MAX_EXPECTED, has_checks},
    judge::MAX_VOTES,
};

/// Largest `maxResultBytes`. A server that sends an endless answer uses up to four times as much
/// memory.
const MAX_RESULT_BYTES: u64 = 16 << 20;

/// Most repetitions of a case.
const MAX_REPETITIONS: u32 = 100;

/// Checks a case.
///
/// # Errors
///
/// Returns an error that names the first member that is not valid.
pub(crate) fn check_case(case: &TestCase) -> Result<(), TrialError> {
    if case.name.trim().is_empty() {
        let problem = "is blank: give the case a name, under which its history is kept";
        return Err(TrialError::case("name", problem));
    }
    if case.prompt.trim().is_empty() {
        return Err(TrialError::case("prompt", "is blank: write the task for the model"));
    }
    let agent = case.agent().ok_or_else(no_model)?;
    if case.judge().is_none() && !has_checks(case) {
        let problem = "are absent, and no judge is configured, so nothing would be checked: add expectedTools, expect or judgeConfig (--judge PROVIDER/MODEL)";
        return Err(TrialError::case("expectedTools", problem));
    }
    if case.judge_config.is_none() && case.judged != Some(false) {
        // A case that needs a judge must not pass without one.
        for (member, is_given) in
            [("checklist", case.checklist.is_some()), ("judged", case.judged.is_some())]
        {
            if is_given {
                let problem = "needs a judge, and judgeConfig is absent: name the judge (--judge PROVIDER/MODEL), or set judged to false";
                return Err(TrialError::case(member, problem));
            }
        }
    }
    if case.expect.min_tool_accuracy.is_some() && case.expected_tools.is_none() {
        let problem = "has minToolAccuracy, which requires expectedTools: add them";
        return Err(TrialError::case("expect", problem));
    }
    if !(1..=MAX_REPETITIONS).contains(&case.repetitions) {
        let problem = format!("is {}: use 1 to {MAX_REPETITIONS}", case.repetitions);
        return Err(TrialError::case("repetitions", problem));
    }
    if case.limits.max_result_bytes > MAX_RESULT_BYTES {
        let given = case.limits.max_result_bytes;
        let problem = format!("has maxResultBytes {given}: use at most {MAX_RESULT_BYTES}");
        return Err(TrialError::case("limits", problem));
    }
    if !(case.required_pass_rate > 0.0 && case.required_pass_rate <= 1.0) {
        // With 0, the case could not fail.
        let problem = format!("is {}: use more than 0, and at most 1", case.required_pass_rate);
        return Err(TrialError::case("requiredPassRate", problem));
    }
    if let Some(accuracy) = case.expect.min_tool_accuracy
        && !(0.0..=1.0).contains(&accuracy)
    {
        let problem = format!("has minToolAccuracy {accuracy}: use 0 to 1");
        return Err(TrialError::case("expect", problem));
    }
    if case.expect.forbidden_tools.iter().any(|tool| tool.result.is_some()) {
        let problem = "has forbiddenTools with a result: a call is forbidden by its name, server and arguments";
        return Err(TrialError::case("expect", problem));
    }
    let expected = case.expected_tools.as_ref().map_or(0, Vec::len);
    if expected > MAX_EXPECTED {
        let problem = format!("has {expected} items, more than {MAX_EXPECTED}");
        return Err(TrialError::case("expectedTools", problem));
    }
    if let Some(checklist) = &case.checklist
        && (checklist.is_empty() || checklist.iter().any(|item| item.trim().is_empty()))
    {
        let problem = "is empty or has a blank item: remove it to use the usual items";
        return Err(TrialError::case("checklist", problem));
    }
    for (member, settings) in [(case.agent_member(), Some(agent)), ("judgeConfig", case.judge())] {
        let Some(settings) = settings else { continue };
        // Without a price, no cost is counted, and the limit would have no effect.
        if case.limits.max_cost_usd.is_some() && settings.price.is_none() {
            let problem = "has no price, so limits.maxCostUsd cannot be checked: give price, with zeros for a model that costs nothing, \
                           or remove the limit";
            return Err(TrialError::case(member, problem));
        }
        check_settings(member, settings)?;
    }
    Ok(())
}

/// Checks the settings of a model by themselves. `member` is the member that has them.
pub(crate) fn check_settings(
    member: &'static str,
    settings: &ModelSettings,
) -> Result<(), TrialError> {
    if !settings.temperature.is_none_or(|value| (0.0..=2.0).contains(&value)) {
        return Err(TrialError::case(member, "has a temperature that is not between 0 and 2"));
    }
    if settings.max_tokens == Some(0) {
        return Err(TrialError::case(member, "has maxTokens 0: use at least 1"));
    }
    if settings.model.trim().is_empty() {
        return Err(TrialError::case(member, "has no model: name it"));
    }
    if let Some(Price { input_per_million, output_per_million }) = settings.price {
        for price in [input_per_million, output_per_million] {
            if price < 0.0 {
                return Err(TrialError::case(member, "has a price below 0"));
            }
            // JSON has no such numbers, so settings with them could not be read back.
            if !price.is_finite() {
                return Err(TrialError::case(member, "has a price that is not finite"));
            }
        }
    }
    if let (Some(votes), Some(max_votes)) = (settings.votes, settings.max_votes)
        && votes > max_votes
    {
        let problem = format!("has votes {votes}, more than its maxVotes {max_votes}");
        return Err(TrialError::case(member, problem));
    }
    let votes = settings.votes.into_iter().chain(settings.max_votes);
    if votes.into_iter().any(|votes| !(1..=MAX_VOTES).contains(&votes)) {
        let problem = format!("has votes or maxVotes outside of 1 to {MAX_VOTES}");
        return Err(TrialError::case(member, problem));
    }
    Ok(())
}

/// Returns the error of a case without a model for its prompt.
pub(crate) fn no_model() -> TrialError {
    TrialError::case(
        "agentConfig",
        "is missing: name the provider and the model that works on the prompt, there or with --model PROVIDER/MODEL",
    )
}

/// Replaces numbers that JSON cannot represent, such as NaN, by defaults: a result with them could
/// not be read back. A case from JSON has none.
///
/// # Errors
///
/// Returns an error that names the first of these numbers.
pub(crate) fn replace_non_finite(case: &mut TestCase) -> Result<(), TrialError> {
    let mut numbers = NonFiniteNumbers::default();
    if let Some(cost) = &mut case.limits.max_cost_usd {
        numbers.replace("limits", "maxCostUsd", cost, 1.0);
    }
    numbers.replace("the case", "requiredPassRate", &mut case.required_pass_rate, 1.0);
    if let Some(accuracy) = &mut case.expect.min_tool_accuracy {
        numbers.replace("expect", "minToolAccuracy", accuracy, 1.0);
    }
    for (member, settings) in
        [("agentConfig", &mut case.agent_config), ("judgeConfig", &mut case.judge_config)]
    {
        let Some(settings) = settings else { continue };
        if let Some(temperature) = &mut settings.temperature {
            numbers.replace(member, "temperature", temperature, 0.0);
        }
        if let Some(Price { input_per_million, output_per_million }) = &mut settings.price {
            numbers.replace(member, "price.inputPerMillion", input_per_million, 0.0);
            numbers.replace(member, "price.outputPerMillion", output_per_million, 0.0);
        }
    }
    numbers.first.map_or(Ok(()), Err)
}

/// The numbers of a case that JSON cannot represent.
#[derive(Default)]
struct NonFiniteNumbers {
    first: Option<TrialError>,
}

impl NonFiniteNumbers {
    /// Replaces `value` by `default` if it is not finite.
    fn replace(&mut self, member: &'static str, name: &str, value: &mut f64, default: f64) {
        if !value.is_finite() {
            let problem = format!("has {name} {value}: use a finite number");
            self.first.get_or_insert(TrialError::case(member, problem));
            *value = default;
        }
    }
}
