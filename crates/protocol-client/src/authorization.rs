//! Requests that are sent again once they are authorized.

use super::{
    authorizer::{Authorizer, Interaction},
    error::ClientError,
    options::ClientOptions,
};

/// How often one request may be authorized: a login, and a wider one.
const MOST_AUTHORIZATIONS: usize = 2;

/// Gets what a refused request needs, where somebody can. Then there is no outcome yet, and the request is to be sent
/// again.
pub(super) async fn authorized<T>(
    outcome: Result<T, ClientError>,
    options: &ClientOptions,
    authorizations: &mut usize,
) -> Result<Option<T>, ClientError> {
    authorized_by(outcome, options.authorizer.as_deref(), authorizations).await
}

/// As [`authorized`].
pub(super) async fn authorized_by<T>(
    outcome: Result<T, ClientError>,
    authorizer: Option<&dyn Authorizer>,
    authorizations: &mut usize,
) -> Result<Option<T>, ClientError> {
    match (outcome, authorizer) {
        (Err(ClientError::Unauthorized(refusal)), Some(authorizer))
            if *authorizations < MOST_AUTHORIZATIONS =>
        {
            *authorizations += 1;
            authorizer.authorize(&refusal, Interaction::Allowed).await?;
            Ok(None)
        }
        (outcome, _) => outcome.map(Some),
    }
}
