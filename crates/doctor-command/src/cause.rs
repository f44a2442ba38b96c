//! Causes of problems, each with a name for programs.

use serde::Serialize;

/// The cause of a problem of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The entry of the server in the configuration cannot be used.
    Configuration,
    /// The program does not exist.
    ProgramNotFound,
    /// The file of the program may not be executed, or is a folder.
    NotExecutable,
    /// `command` is a whole command line.
    CommandLine,
    /// `command` is a URL.
    UrlAsCommand,
    /// `command` is a path of Windows, on another system.
    WindowsPath,
    /// The working directory does not exist.
    WorkingDirectory,
    /// A file or folder that an argument names does not exist.
    MissingFile,
    /// The package does not exist in the registry of npm, or has no program.
    NpmPackage,
    /// The package does not exist in the index of Python packages.
    PythonPackage,
    /// A module is not installed for this Python.
    PythonModule,
    /// A module is not installed for this Node.js.
    NodeModule,
    /// The runtime, such as Node.js, is too old for the server.
    RuntimeTooOld,
    /// A source file cannot be parsed: it is broken, or the runtime is too old.
    SyntaxError,
    /// The server needs an environment variable.
    MissingVariable,
    /// The server, or its installer, cannot reach a host.
    Network,
    /// The operating system refuses access to a file.
    PermissionDenied,
    /// The port that the server listens on is in use.
    PortInUse,
    /// The server refuses its arguments.
    Arguments,
    /// Docker is not running, or does not have the image.
    Docker,
    /// The server failed at its start.
    Crashed,
    /// The server ended at once, without an error.
    ExitedAtOnce,
    /// The server was started as a program, and speaks HTTP.
    HttpServer,
    /// The server prints lines to its standard output that are no messages.
    StrayOutput,
    /// The server does not answer.
    Silent,
    /// The server starts slowly.
    SlowStart,
    /// The server speaks no revision that this client speaks.
    UnsupportedRevision,
    /// The server answered its first request with an error.
    Refused,
    /// An answer of the server violates the protocol.
    InvalidAnswer,
    /// The server was ready, and its connection was lost.
    Lost,
    /// The server wants a token, and has got none.
    LoginNeeded,
    /// The server refuses the token that it has got.
    TokenRefused,
    /// The server refuses the request, whoever sends it.
    Forbidden,
    /// No endpoint of MCP is at this path.
    WrongPath,
    /// No program listens on the port.
    ConnectionRefused,
    /// The host has no address.
    UnknownHost,
    /// The certificate of the server is not trusted.
    Certificate,
    /// One side speaks TLS, and the other does not.
    Tls,
    /// The host cannot be reached.
    Unreachable,
    /// The URL leads to a web page.
    WebPage,
    /// The URL redirects elsewhere.
    Redirect,
    /// The server failed with a status of HTTP.
    HttpStatus,
    /// A list of the server could not be fetched, or may lack items.
    List,
    /// Tools have names that clients refuse.
    ToolNames,
    /// Tools have schemas that clients refuse.
    ToolSchemas,
    /// Several tools have the same name.
    DuplicateTools,
    /// The server has more tools than some clients take.
    ManyTools,
    /// The server offers neither tools nor prompts nor resources.
    Empty,
}

/// A problem of a server, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The cause, for programs.
    pub cause: Cause,
    /// The problem, for people.
    pub problem: String,
    /// The advice: what to do about it.
    pub advice: String,
}

impl Finding {
    pub(crate) fn new(cause: Cause, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { cause, problem: problem.into(), advice: advice.into() }
    }
}
