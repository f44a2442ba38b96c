//! The section `[audit]`.

use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use marquetry_artifacts::glob::Glob;
use marquetry_audit::{AuditError, AuditLog, AuditOptions, OnError, OnFull};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Config, ConfigError};

/// How to go on when another process has the log open.
const IN_USE_ADVICE: &str = "; set another audit.path for this process, or use the running server by its URL: connect clients with `marquetry connect CLIENT --url URL`, and call tools with `marquetry call --url URL`";

/// The audit log: one line of JSON for each request of an agent, each refused token and each other
/// event that an administrator may be asked about. Each line has the hash of the line before;
/// `marquetry audit verify` checks them. An answer is sent when the kernel has its line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuditConfig {
    /// File of the log, of mode 0600; no link is followed. Without it, there is no audit log. Each
    /// running server needs a file of its own.
    #[schemars(example = &"/var/log/marquetry/audit.jsonl")]
    pub path: Option<PathBuf>,
    /// What is written of the arguments of a call: "none", "keys" (the names of the members), or
    /// "full" (everything but secrets, up to 16 KiB).
    pub arguments: AuditArguments,
    /// Members of arguments whose values are never written, by patterns for their names, beside
    /// those that are secrets by name or form.
    pub redact: Vec<Glob>,
    /// What happens when `max_queued` events wait for the disk: "wait" lets calls wait, "drop"
    /// drops the event. The log counts dropped events. With "drop" no call ever waits for the log.
    pub on_full: AuditOnFull,
    /// What happens when the log cannot be written: "go_on" answers requests, "refuse" refuses
    /// them. In both cases `/readyz` says so, and the log counts the missing events when it works
    /// again.
    pub on_error: AuditOnError,
    /// Waits until the disk has each line, not only the kernel. A power failure then loses no
    /// answered request, and a call takes as long as the disk.
    pub sync: bool,
    /// Size in bytes at which the file becomes `PATH.1`, and `PATH.1` becomes `PATH.2`. 0 leaves
    /// that to a program such as logrotate, which sends SIGHUP after it has renamed the file.
    pub max_file_bytes: u64,
    /// Number of files with the one that is written. The oldest is removed.
    pub max_files: NonZeroUsize,
    /// Number of events that wait for the disk.
    pub max_queued: NonZeroUsize,
}

/// What is written of the arguments of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditArguments {
    /// Nothing.
    None,
    /// The names of the members.
    #[default]
    Keys,
    /// Everything but secrets.
    Full,
}

/// What happens to an event when too many wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditOnFull {
    /// The call waits.
    #[default]
    Wait,
    /// The event is dropped and counted.
    Drop,
}

/// What happens to requests when the log cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditOnError {
    /// They are answered.
    #[default]
    GoOn,
    /// They are refused.
    Refuse,
}

impl Default for AuditConfig {
    fn default() -> Self {
        let options = AuditOptions::default();
        Self {
            path: None,
            arguments: AuditArguments::default(),
            redact: Vec::new(),
            on_full: AuditOnFull::default(),
            on_error: AuditOnError::default(),
            sync: options.sync,
            max_file_bytes: options.max_file_bytes.unwrap_or(0),
            max_files: NonZeroUsize::new(options.max_files).expect("it keeps files"),
            max_queued: NonZeroUsize::new(options.queue).expect("events can wait"),
        }
    }
}

impl AuditConfig {
    fn options(&self) -> AuditOptions {
        AuditOptions::default()
            .with_max_file_bytes(NonZeroU64::new(self.max_file_bytes).map(NonZeroU64::get))
            .with_max_files(self.max_files.get())
            .with_queue(self.max_queued.get())
            .with_sync(self.sync)
            .with_on_full(match self.on_full {
                AuditOnFull::Wait => OnFull::Wait,
                AuditOnFull::Drop => OnFull::Drop,
            })
            .with_on_error(match self.on_error {
                AuditOnError::GoOn => OnError::GoOn,
                AuditOnError::Refuse => OnError::Refuse,
            })
    }
}

impl Config {
    /// Opens the audit log, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be opened and written.
    pub fn open_audit_log(&self) -> Result<Option<AuditLog>, ConfigError> {
        let Some(path) = &self.audit.path else { return Ok(None) };
        let log = AuditLog::open(path, self.audit.options());
        log.map(Some).map_err(|error| {
            let advice = match &error {
                AuditError::InUse { .. } => IN_USE_ADVICE,
                _ => "",
            };
            self.fault("audit.path", format!("{error}{advice}"))
        })
    }

    /// Runs without the audit log if another process has it open, and returns a warning then. It is
    /// for commands that call no tool.
    pub fn leave_out_audit_log_in_use(&mut self) -> Option<String> {
        let path = self.audit.path.take_if(|path| AuditLog::is_in_use(path))?;
        Some(format!(
            "the audit log {} is in use by another process; this command calls no tool, and runs without it",
            path.display()
        ))
    }

    /// Returns the problem that opening the audit log would have. Changes nothing.
    pub(crate) fn audit_problem(&self) -> Option<String> {
        let path = self.audit.path.as_ref()?;
        AuditLog::check(path).err().map(|error| error.to_string())
    }
}
