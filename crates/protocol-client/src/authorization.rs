//! Requests that are repeated after authorization.

use super::{
    authorizer::{Authorizer, Interaction},
    error::ClientError,
    options::ClientOptions,
};

/// Maximum number of authorizations for one request: a login, and a wider scope.
const MAX_AUTHORIZATIONS: usize = 2;

/// Gets the authorization that a refused request needs, if there is an authorizer. Then there is no
/// outcome yet, and the request must be repeated.
pub(super) async fn authorized<T>(
    outcome: Result<T, ClientError>,
    options: &ClientOptions,
    authorizations: &mut usize,
) -> Result<Option<T>, ClientError> {
    authorized_by(outcome, options.authorizer.as_deref(), authorizations).await
}

/// Sends a request as [`authorized`] does.
pub(super) async fn authorized_by<T>(
    outcome: Result<T, ClientError>,
    authorizer: Option<&dyn Authorizer>,
    authorizations: &mut usize,
) -> Result<Option<T>, ClientError> {
    match (outcome, authorizer) {
        (Err(ClientError::Unauthorized(refusal)), Some(authorizer))
            if *authorizations < MAX_AUTHORIZATIONS =>
        {
            *authorizations += 1;
            authorizer.authorize(&refusal, Interaction::Allowed).await?;
            Ok(None)
        }
        (outcome, _) => outcome.map(Some),
    }
}
