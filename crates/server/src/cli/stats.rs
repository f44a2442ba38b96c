//! `marquetry stats`

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;
use marquetry_printable::printable_line;
use marquetry_savings::{MAX_DAYS, SavingsRow};
use serde_json::json;

use super::{Failure, print, print_json, serve::on_runtime};
use marquetry_program_log as program_log;

#[derive(Args)]
pub(super) struct StatsArgs {
    /// File of settings in TOML. Defaults to the first of $MARQUETRY_CONFIG,
    /// ~/.config/marquetry/marquetry.toml, /etc/marquetry/marquetry.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The file of a server's figures; by default `artifacts.savings_database`.
    #[arg(long, value_name = "FILE")]
    savings_database: Option<PathBuf>,
    /// Days to show, with today.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DAYS)))]
    days: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn stats(arguments: &StatsArgs) -> Result<(), Failure> {
    let file = if let Some(file) = &arguments.savings_database {
        Some(file.clone())
    } else {
        let loaded = marquetry_config::load(arguments.config.as_deref())
            .map_err(|error| Failure { code: 2, message: error.to_string() })?;
        for warning in &loaded.warnings {
            program_log::warn(warning);
        }
        loaded.config.with_user_folders().artifacts.savings_database
    };
    let Some(file) = file else {
        return Err(Failure::new(
            "there is no file of savings: neither HOME nor artifacts.savings_database is set",
        ));
    };
    on_runtime(async {
        let rows = marquetry_savings::read(&file, arguments.days)
            .await
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?;
        if arguments.json {
            return print_json(&json!({"days": arguments.days, "savings": rows}));
        }
        print(&table(&rows, arguments.days))
    })
}

/// Returns the rows as a table with their sum.
fn table(rows: &[SavingsRow], days: u32) -> String {
    if rows.is_empty() {
        return format!("No answer was shortened in the last {days} days.\n");
    }
    let mut text =
        format!("{:<10}  {:>8}  {:>15}  {:>13}  {}\n", "day", "answers", "bytes", "tokens", "tool");
    for row in rows {
        let tool = printable_line(&row.tool);
        _ = writeln!(
            text,
            "{}  {:>8}  {:>15}  {:>13}  {tool}",
            row.day, row.answers, row.bytes, row.tokens
        );
    }
    let answers: u64 = rows.iter().map(|row| row.answers).sum();
    let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
    let tokens: u64 = rows.iter().map(|row| row.tokens).sum();
    _ = writeln!(
        text,
        "{:<10}  {answers:>8}  {bytes:>15}  {tokens:>13}  kept from the models",
        "all"
    );
    text.push_str("Tokens are estimated, from the first 16 KiB of an answer; binary data count as bytes alone.\n");
    text
}
