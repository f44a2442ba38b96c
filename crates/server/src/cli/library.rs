//! `marquetry index`, `search` and `records`

use std::pin::pin;

use marquetry_knowledge::KnowledgeOptions;
use marquetry_library_command::{self as command, DatabaseArgs, LibraryCommandError};
use tokio_util::sync::CancellationToken;

use super::{
    Failure,
    serve::{EndSignal, EndSignals, on_runtime},
};
use marquetry_program_log as program_log;

pub(super) fn index(arguments: &command::IndexArgs) -> Result<(), Failure> {
    on_runtime(async {
        let stop = CancellationToken::new();
        let mut signals = EndSignals::new()?;
        let mut work = pin!(command::index(arguments, &settings, &stop));
        let signal = tokio::select! {
            done = &mut work => return Ok(done?),
            signal = signals.next() => signal,
        };
        stop.cancel();
        tokio::select! {
            done = work => done?,
            second = signals.next() => {
                return Err(second.failure("stopped at once by a second signal"));
            }
        }
        if arguments.watches() {
            // Watching normally ends with a signal.
            return match signal {
                EndSignal::Interrupt => Err(signal.failure("")),
                EndSignal::Terminate => Ok(()),
            };
        }
        let name = signal.name();
        Err(signal.failure(format!(
            "stopped by {name}; finished files stay indexed; run the command again to continue"
        )))
    })
}

pub(super) fn search(arguments: &command::SearchArgs) -> Result<(), Failure> {
    on_runtime(async { Ok(command::search(arguments, &settings).await?) })
}

pub(super) fn records(arguments: &command::RecordsArgs) -> Result<(), Failure> {
    on_runtime(async { Ok(command::records(arguments, &settings).await?) })
}

/// Reads the settings of a command.
fn settings(arguments: &DatabaseArgs) -> Result<KnowledgeOptions, LibraryCommandError> {
    let loaded = marquetry_config::load(arguments.config());
    let marquetry_config::Loaded { mut config, warnings, .. } =
        loaded.map_err(|error| LibraryCommandError { code: 2, message: error.to_string() })?;
    for warning in &warnings {
        program_log::warn(warning);
    }
    if let Some(database) = arguments.database() {
        config.knowledge.database = Some(database.to_owned());
    }
    Ok(config.with_user_folders().knowledge_options())
}
