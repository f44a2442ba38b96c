//! Failures of the client.

/// Why a call of [`TestClient`](super::TestClient) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The given URL is not that of a test server.
    #[error("Provided URL {0} is not a test server")]
    NotATestServer(String),
    /// No test server is on this machine.
    #[error(
        "No test server found on the ports {} of this machine. Start one:\n\n\
         Option 1: Dedicated test server\n  marquetry test-server  # Starts on :3002\n\n\
         Option 2: Main server with testing\n  ENABLE_TESTING=true marquetry serve  # Starts on :3001 with testing",
        .ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
    )]
    NoTestServer {
        /// The ports that were tried, in their order.
        ports: Vec<u16>,
    },
    /// A token was given, but no URL. The token is not sent to a server that a search finds: any
    /// program may listen on its ports.
    #[error(
        "A token is sent only to a server that is named: use TestClient::at, for example with \"http://127.0.0.1:3002\". \
         Without a URL, any program on this machine could get the token."
    )]
    TokenWithoutUrl,
    /// The connection failed.
    #[error("{url} cannot be reached: {problem}")]
    Unreachable {
        /// The server.
        url: String,
        /// What failed.
        problem: String,
    },
    /// The server refuses the request.
    #[error("Test execution failed: status {status}: {reason}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The server's reason.
        reason: String,
    },
    /// The answer is not what a test server sends.
    #[error("the answer of the test server is malformed: {0}")]
    Malformed(String),
    /// The answer ends too early. Results that were stored can be read later.
    #[error("the answer of the test server broke off; `results` returns the stored results")]
    CutStream,
    /// The answer is longer than the client reads.
    #[error("the answer of the test server is longer than {0} bytes")]
    TooLong(usize),
    /// The server stopped the batch.
    #[error("the batch failed: {0}")]
    Batch(String),
    /// The test cannot be written as JSON.
    #[error("the test cannot be written as JSON: {0}")]
    Case(serde_json::Error),
    /// The HTTP client could not be set up.
    #[error("{0}")]
    Client(String),
}
