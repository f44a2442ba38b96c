//! `marquetry reload`, and the servers that it reaches.

use std::path::PathBuf;

use marquetry_control::Hangups;

use super::{Failure, ReloadArgs, environment, print_message};
use crate::App;

/// Returns the folders in which servers of this user, and of the system, have their sockets. The
/// first one is that of a server that starts now.
fn folders() -> Vec<PathBuf> {
    let below = |name: &str, folder: &str| {
        let path = PathBuf::from(environment::variable(name)?);
        path.is_absolute().then(|| path.join(folder))
    };
    [
        // Set by systemd for a service with a `RuntimeDirectory`.
        below("RUNTIME_DIRECTORY", ""),
        below("XDG_RUNTIME_DIR", "marquetry"),
        below("XDG_STATE_HOME", "marquetry/run"),
        below("HOME", ".local/state/marquetry/run"),
        Some("/run/marquetry".into()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Asks running servers to read their configurations again, and prints the answer of each.
#[cfg(unix)]
pub(super) fn reload(arguments: &ReloadArgs) -> Result<(), Failure> {
    use std::{collections::BTreeMap, fmt::Write as _};

    let mut servers = BTreeMap::new();
    for folder in folders() {
        let found = marquetry_control::servers(&folder).unwrap_or_default();
        servers.extend(found.into_iter().map(|server| (server.pid, server)));
    }
    servers.retain(|pid, _| arguments.pid.is_none_or(|wanted| wanted == *pid));
    if servers.is_empty() {
        return Err(Failure::new(match arguments.pid {
            Some(pid) => format!("no server of this user with the process id {pid} is running"),
            None => "no server of this user is running".to_owned(),
        }));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::new)?.block_on(async {
        let mut failed = 0;
        for server in servers.values() {
            let pid = server.pid;
            let answer = marquetry_control::ask(server, "reload").await;
            let answer =
                answer.unwrap_or_else(|error| marquetry_control::Answer::failed(error.to_string()));
            failed += usize::from(!answer.is_done);
            let what = if answer.is_done { "" } else { "error: nothing has changed: " };
            let mut text = format!("{pid} ({}): {what}{}\n", answer.server, answer.message);
            for warning in answer.warnings {
                _ = writeln!(text, "{pid} warning: {warning}");
            }
            print_message(&text)?;
        }
        match failed {
            0 => Ok(()),
            // Each answer was printed.
            _ => Err(Failure { code: 1, message: String::new() }),
        }
    })
}

#[cfg(not(unix))]
pub(super) fn reload(_arguments: &ReloadArgs) -> Result<(), Failure> {
    Err(Failure::new("this platform has no sockets for it; change a file of the configuration"))
}

/// Answers `marquetry reload`, and reloads at SIGHUP, until the future is dropped.
#[cfg(unix)]
pub(super) async fn serve_reloads(app: App, description: String, mut hangups: Hangups) {
    let reloading = app.clone();
    let answers = async move {
        let Some(folder) = folders().into_iter().next() else { return };
        let server = match marquetry_control::Server::bind(&folder) {
            Ok(server) => server,
            Err(error) => {
                tracing::info!(%error, folder = %folder.display(), "`marquetry reload` does not reach this server; SIGHUP does");
                return;
            }
        };
        server
            .serve(move |command| {
                let app = reloading.clone();
                let description = description.clone();
                async move { answer(&app, &command).await.of_server(description) }
            })
            .await;
    };
    let signals = async {
        loop {
            hangups.next().await;
            // logrotate has moved the file.
            app.reopen_audit();
            tracing::info!("reading the configuration again after SIGHUP");
            // A failure is logged and shown by `/healthz`.
            _ = app.reload().await;
        }
    };
    tokio::join!(answers, signals);
}

#[cfg(unix)]
async fn answer(app: &App, command: &str) -> marquetry_control::Answer {
    use marquetry_control::Answer;

    if command != "reload" {
        return Answer::failed(format!("unknown command {command:?}; the server is older"));
    }
    match app.reload().await {
        Ok(reloaded) => Answer::done(reloaded.to_string()).with_warnings(reloaded.warnings),
        Err(problem) => Answer::failed(problem),
    }
}

#[cfg(not(unix))]
pub(super) async fn serve_reloads(_app: App, _description: String, _hangups: Hangups) {
    std::future::pending().await
}
