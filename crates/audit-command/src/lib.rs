#![doc = include_str!("../README.md")]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use marquetry_audit::{LineHash, Verified, VerifyError, verify, verify_log};
use marquetry_printable::printable_line;
use serde_json::json;

/// Arguments of `marquetry audit`.
#[derive(Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Check that no line of an audit log was changed, removed or inserted.
    ///
    /// Without FILE, the log of the configuration with its rotated files is checked. The log may be
    /// in use. Compressed files are not read.
    #[command(after_help = "\
Examples:
  marquetry audit verify
  marquetry audit verify /var/log/marquetry/audit.jsonl
  marquetry audit verify audit.jsonl.2 audit.jsonl.1
  marquetry audit verify --line 4711:9b74c9897bac770ffc029102a200c5de6b7b4b1b8c0c1f0e9f7c7d5c9d8e7f60")]
    Verify(VerifyArgs),
}

#[derive(Args)]
struct VerifyArgs {
    /// Files of one log, in any order. With one file, its rotated files are checked, too.
    files: Vec<PathBuf>,
    /// File of settings in TOML, which names the log.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also check that the log has this line. A number and hash that were printed by an earlier
    /// check show whether the end of the log was removed, or all of it was written anew.
    #[arg(long, value_name = "NUMBER:HASH", value_parser = known_line)]
    line: Option<KnownLine>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// A line that was noted earlier.
#[derive(Clone, Copy, Debug, PartialEq)]
struct KnownLine {
    seq: u64,
    hash: LineHash,
}

/// Why the command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditCommandError {
    /// The exit code.
    pub code: u8,
    /// The message, for people.
    pub message: String,
}

/// Runs the command. `configured` returns the log that a configuration names; its argument is the
/// configuration that the user named.
///
/// # Errors
///
/// Returns an error if the log is not whole, or cannot be read.
pub fn run(
    arguments: &AuditArgs,
    configured: impl FnOnce(Option<&Path>) -> Result<Option<PathBuf>, AuditCommandError>,
) -> Result<(), AuditCommandError> {
    let AuditCommand::Verify(arguments) = &arguments.command;
    let files = match &*arguments.files {
        [] => vec![configured(arguments.config.as_deref())?.ok_or_else(no_log)?],
        files => files.to_vec(),
    };
    let outcome = checked(&files, arguments.line);
    let report = match &outcome {
        Ok(whole) if arguments.json => json!({
            "whole": true,
            "files": whole.files,
            "first": whole.first_seq,
            "last": whole.last_seq,
            "hash": whole.last_hash.to_string(),
            "incompleteLines": whole.torn,
            "missingEvents": whole.missing_events,
        })
        .to_string(),
        Ok(whole) => summary(whole),
        Err(error) if arguments.json => {
            json!({"whole": false, "problem": error.to_string()}).to_string()
        }
        Err(error) => {
            return Err(AuditCommandError { code: 1, message: error.to_string() });
        }
    };
    // A closed pipe is not a failure.
    _ = writeln!(std::io::stdout(), "{report}");
    match outcome {
        Ok(_) => Ok(()),
        // The report has the message.
        Err(_) => Err(AuditCommandError { code: 1, message: String::new() }),
    }
}

fn checked(files: &[PathBuf], line: Option<KnownLine>) -> Result<Verified, VerifyError> {
    let whole = match files {
        [file] => verify_log(file)?,
        files => verify(files)?,
    };
    if let Some(KnownLine { seq, hash }) = line {
        whole.has_line(seq, hash)?;
    }
    Ok(whole)
}

/// Describes a whole log.
fn summary(whole: &Verified) -> String {
    let mut text = format!(
        "whole: lines {} to {} in {} file{}\nlast line: {}:{}",
        whole.first_seq,
        whole.last_seq,
        whole.files.len(),
        if whole.files.len() == 1 { "" } else { "s" },
        whole.last_seq,
        whole.last_hash,
    );
    if whole.first_seq > 1 {
        text.push_str("\nearlier lines were removed with old files");
    }
    if whole.torn > 0 {
        text.push_str(&format!("\nlines cut by a crash: {}", whole.torn));
    }
    if whole.torn_bytes > 0 {
        let bytes = whole.torn_bytes;
        text.push_str(&format!(
            "\nthe last line is incomplete ({bytes} bytes); the next start records it"
        ));
    }
    if whole.missing_events > 0 {
        text.push_str(&format!(
            "\nevents that the log counts as missing: {}",
            whole.missing_events
        ));
    }
    if let Some(compressed) = compressed_beside(whole.files.last().map(|path| &**path)) {
        let name = printable_line(&compressed.display().to_string());
        text.push_str(&format!("\nnot read, because it is compressed: {name}"));
    }
    text
}

/// Returns a compressed file of the same log.
fn compressed_beside(newest: Option<&Path>) -> Option<PathBuf> {
    let newest = newest?;
    let name = newest.file_name()?.to_str()?;
    let folder = newest.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| {
        let found = path.file_name().and_then(|found| found.to_str()).unwrap_or_default();
        found.starts_with(name)
            && [".gz", ".xz", ".zst", ".bz2"].iter().any(|it| found.ends_with(it))
    })
}

fn no_log() -> AuditCommandError {
    let message = "the configuration has no audit log: set audit.path, or name a file".to_owned();
    AuditCommandError { code: 2, message }
}

fn known_line(text: &str) -> Result<KnownLine, String> {
    let parsed = text.split_once(':').and_then(|(seq, hash)| {
        Some(KnownLine { seq: seq.parse().ok()?, hash: LineHash::from_hex(hash)? })
    });
    parsed.ok_or_else(|| "expected a number, a colon, and 64 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use marquetry_audit::{AuditLog, AuditOptions};

    use super::*;

    #[test]
    fn a_log_is_summarised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let log = AuditLog::open(&path, AuditOptions::default()).unwrap();
            log.write(&json!({"event": "x"})).await.unwrap();
            log.close().await;
        });
        std::fs::write(folder.path().join("a.jsonl.2.gz"), "").unwrap();
        let whole = checked(std::slice::from_ref(&path), None).unwrap();
        let text = summary(&whole);
        let last = format!("3:{}", whole.last_hash);
        assert!(text.starts_with(&format!("whole: lines 1 to 3 in 1 file\nlast line: {last}\n")));
        assert!(text.contains("not read, because it is compressed: "), "{text}");
        let line = known_line(&last).unwrap();
        assert!(checked(std::slice::from_ref(&path), Some(line)).is_ok());
        let other = KnownLine { seq: 2, ..line };
        assert!(checked(&[path], Some(other)).is_err());
        assert!(known_line("3").is_err() && known_line("x:1").is_err());
    }
}
