//! Checks settings of models.

use crate::{ModelSettings, TrialError, case::Price, judge::MAX_VOTES};

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
