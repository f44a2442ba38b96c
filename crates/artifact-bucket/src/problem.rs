//! Errors of a bucket in plain words.

use marquetry_artifacts::StoreError;
use object_store::Error;

/// A request of the store, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Read,
    Write,
    List,
    Delete,
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// Returns the error of a failed request. Callers may be users of other machines: the details, such
/// as keys and the answer, are only in the log.
pub(crate) fn problem(action: Action, error: &Error) -> StoreError {
    let details = error.to_string();
    let message = describe(action, error, &details);
    // The rest of an answer may repeat headers of the request, such as a session token.
    let details = first_line(&details);
    tracing::debug!(message, details, "a request to the artifact bucket failed");
    StoreError::Backend(message)
}

fn describe(action: Action, error: &Error, details: &str) -> String {
    let metadata_servers = ["169.254.169.254", "metadata.google.internal", "169.254.170.2"];
    if metadata_servers.iter().any(|host| details.contains(host)) {
        return "no credentials for the artifact bucket: set the variables of its service, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run on a machine with a role".to_owned();
    }
    // Codes of S3, of Google, which answers in XML with the same ones, and of Azure.
    let known = [
        ("NoSuchBucket", "the artifact bucket does not exist"),
        ("ContainerNotFound", "the artifact bucket does not exist"),
        (
            "InvalidAccessKeyId",
            "the server of the artifact bucket does not know the access key; check AWS_ACCESS_KEY_ID",
        ),
        (
            "SignatureDoesNotMatch",
            "the secret key for the artifact bucket is wrong; check AWS_SECRET_ACCESS_KEY",
        ),
        ("AuthenticationFailed", "the credentials for the artifact bucket are wrong"),
        ("ExpiredToken", "the session token for the artifact bucket has expired"),
        ("InvalidToken", "the session token for the artifact bucket is wrong"),
        (
            "RequestTimeTooSkewed",
            "the clock of this machine differs too much from that of the artifact bucket's server",
        ),
        ("AuthorizationHeaderMalformed", WRONG_REGION),
        ("PermanentRedirect", WRONG_REGION),
        ("IllegalLocationConstraintException", WRONG_REGION),
        ("incorrectly configured region", WRONG_REGION),
        ("status code: 301", WRONG_REGION),
        ("status code: 307", WRONG_REGION),
    ];
    if let Some((_, words)) = known.iter().find(|(code, _)| details.contains(code)) {
        return (*words).to_owned();
    }
    let verb = action.verb();
    match error {
        Error::PermissionDenied { .. } => {
            format!("the credentials have no right to {verb} objects of the artifact bucket")
        }
        Error::Unauthenticated { .. } => {
            "the server of the artifact bucket does not accept the credentials".to_owned()
        }
        Error::NotImplemented { .. } => format!(
            "the server of the artifact bucket does not support a request that is needed to {verb}"
        ),
        _ if details.contains("HTTP error") => format!(
            "the server of the artifact bucket cannot be reached: {}",
            first_line(details.rsplit("HTTP error: ").next().unwrap_or_default())
        ),
        _ => match status(details) {
            Some(status @ ("429" | "500" | "502" | "503" | "504")) => format!(
                "the server of the artifact bucket is overloaded or out of order (status {status}); try again"
            ),
            Some(status) => format!("the artifact bucket refused to {verb} (status {status})"),
            None => format!(
                "the artifact bucket failed to {verb}; the log has details at the level debug"
            ),
        },
    }
}

const WRONG_REGION: &str =
    "the artifact bucket is in another region; set artifacts.bucket_region or AWS_REGION";

/// Returns the status in a message of `object_store`.
fn status(details: &str) -> Option<&str> {
    details.split_once("status code: ")?.1.get(..3)
}

/// Returns the first line, of limited length.
pub(crate) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
