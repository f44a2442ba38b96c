//! Causes of servers that are programs.

use std::path::Path;

use marquetry_gateway::{StartFailure, StartReport};
use marquetry_protocol::client::{ClientError, CloseReason, ProgramError};

use crate::{
    cause::{Cause, Finding},
    clues::{self, Program},
    general,
};

/// A program that has failed.
pub(crate) struct FailedProgram<'a> {
    pub(crate) program: Program<'a>,
    /// Its working directory.
    pub(crate) cwd: Option<&'a Path>,
    /// The last lines of its standard error.
    pub(crate) stderr: &'a [String],
    pub(crate) report: &'a StartReport,
}

/// Returns why a program is no running server.
pub(crate) fn finding(failed: &FailedProgram<'_>, failure: &StartFailure) -> Finding {
    match failure {
        StartFailure::Client(error) => match error {
            ClientError::Closed(reason) => ended(failed, reason),
            _ if let Some(error) = error.program() => not_found(&failed.program, error),
            ClientError::Io { .. } => cannot_start(&failed.program, &error.to_string()),
            error => general::finding(error),
        },
        StartFailure::NotReady(limit) => silent(failed, limit.as_secs_f64()),
        StartFailure::Lost(why) => {
            clues::find(failed.program, failed.stderr).unwrap_or_else(|| {
                Finding::new(
                    Cause::Lost,
                    format!("it ended soon after its start: {why}"),
                    "its standard error may say more",
                )
            })
        }
        _ => Finding::new(Cause::Crashed, "it is down", "its standard error may say more"),
    }
}

/// Returns the finding for a program that is not there, or cannot be executed.
fn not_found(program: &Program<'_>, error: &ProgramError) -> Finding {
    let command = program.command;
    match error {
        ProgramError::WorkingDirectory(path) => Finding::new(
            Cause::WorkingDirectory,
            format!("the working directory {} is not a directory", path.display()),
            "correct \"cwd\"",
        ),
        ProgramError::NotExecutable { .. } => not_executable(command),
        _ => missing_program(program),
    }
}

fn not_executable(command: &str) -> Finding {
    let problem = format!("{command:?} is not an executable file");
    if Path::new(command).is_dir() {
        let problem = format!("{command:?} is a folder");
        return Finding::new(Cause::NotExecutable, problem, "name the program in it");
    }
    let advice =
        script_advice(command).unwrap_or_else(|| format!("make it executable: chmod +x {command}"));
    Finding::new(Cause::NotExecutable, problem, advice)
}

/// Returns how a script is started by its interpreter, by the extension of its file.
fn script_advice(file: &str) -> Option<String> {
    let (command, args) = match Path::new(file).extension()?.to_str()? {
        "py" => ("python3", vec![file]),
        "js" | "mjs" | "cjs" => ("node", vec![file]),
        "ts" => ("npx", vec!["tsx", file]),
        "rb" => ("ruby", vec![file]),
        "jar" => ("java", vec!["-jar", file]),
        _ => return None,
    };
    Some(format!("set \"command\" to {command:?} and \"args\" to {args:?}"))
}

fn missing_program(program: &Program<'_>) -> Finding {
    let command = program.command;
    if command.starts_with("http://") || command.starts_with("https://") {
        return Finding::new(
            Cause::UrlAsCommand,
            "\"command\" is a URL",
            "give it as \"url\" instead of \"command\"",
        );
    }
    if is_windows_path(command) && !cfg!(windows) {
        return Finding::new(
            Cause::WindowsPath,
            format!("{command:?} is a path of Windows, and this system has none"),
            "write the path as this system has it, such as /usr/bin/node",
        );
    }
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    if !rest.is_empty() && (!first.contains('/') || Path::new(first).is_file()) {
        return Finding::new(
            Cause::CommandLine,
            format!("no program has the name {command:?}"),
            format!("set \"command\" to {first:?}, and put {rest:?} first in \"args\""),
        );
    }
    let is_path = command.contains(std::path::is_separator);
    let advice = if command.starts_with("~/") {
        "no shell expands ~ here: write ${userHome} instead".to_owned()
    } else if is_path {
        "correct the path in \"command\"".to_owned()
    } else {
        match install_hint(command) {
            Some(hint) => format!("{hint}, or write its full path in \"command\""),
            None => "install it, or write its full path in \"command\"".to_owned(),
        }
    };
    let place = if is_path { "does not exist" } else { "is not in PATH" };
    Finding::new(Cause::ProgramNotFound, format!("the program {command:?} {place}"), advice)
}

/// Returns how a program that many servers need is installed.
fn install_hint(command: &str) -> Option<&'static str> {
    Some(match command {
        "npx" | "node" | "npm" => "install Node.js",
        "uvx" | "uv" => "install uv (https://docs.astral.sh/uv)",
        "python" | "pip" => "install Python, whose program may be python3",
        "python3" | "pipx" => "install Python",
        "docker" => "install Docker",
        "bunx" | "bun" => "install Bun",
        "deno" => "install Deno",
        _ => return None,
    })
}

fn is_windows_path(command: &str) -> bool {
    let bytes = command.as_bytes();
    let has_drive = bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    let lower = command.to_ascii_lowercase();
    has_drive || command.contains('\\') || lower.ends_with(".exe") || lower.ends_with(".cmd")
}

fn cannot_start(program: &Program<'_>, problem: &str) -> Finding {
    let advice = script_advice(program.command).unwrap_or_else(|| {
        "a script needs a first line such as #!/bin/sh; a binary must be made for this processor"
            .to_owned()
    });
    Finding::new(Cause::NotExecutable, problem, advice)
}

/// Returns the finding for a program that has ended before it answered.
fn ended(failed: &FailedProgram<'_>, reason: &CloseReason) -> Finding {
    let program = failed.program;
    if let Some(path) = missing_script(failed) {
        return clues::missing_file(&path);
    }
    if let Some(found) = clues::find(program, failed.stderr) {
        return found;
    }
    if let Some(path) = missing_path(failed) {
        return clues::missing_file(&path);
    }
    if let Some(found) = http_server(failed) {
        return found;
    }
    let code = match reason {
        CloseReason::Exited { code, .. } => *code,
        _ => None,
    };
    let last = clues::main_line(failed.stderr);
    // The guard, or a shell, could not execute the program.
    if let (Some(126 | 127), Some(line)) = (code, last) {
        return cannot_start(&program, line.strip_prefix("error: ").unwrap_or(line));
    }
    if failed.report.stray_lines > 0 && last.is_none() {
        let line = failed.report.first_stray_line.as_deref().unwrap_or_default();
        return Finding::new(
            Cause::Crashed,
            format!("it ended at its start ({reason}), and printed {line:?}"),
            "run it in a terminal to see more",
        );
    }
    match (code, last) {
        (Some(0), last) => {
            let said = last.map(|line| format!("; it printed: {line}")).unwrap_or_default();
            Finding::new(
                Cause::ExitedAtOnce,
                format!("it ended at once without an error (exit status 0){said}"),
                "it may be no MCP server, or need an argument such as \"stdio\" or \"serve\" to be one",
            )
        }
        (_, Some(line)) => Finding::new(
            Cause::Crashed,
            format!("it failed at its start ({reason}): {line}"),
            "mend what the message says; the lines below are from its standard error",
        ),
        (_, None) => Finding::new(
            Cause::Crashed,
            format!("it failed at its start ({reason}), and wrote nothing to standard error"),
            "run it in a terminal to see more",
        ),
    }
}

/// Returns the finding for a program that has not answered in time.
fn silent(failed: &FailedProgram<'_>, seconds: f64) -> Finding {
    if let Some(found) = http_server(failed) {
        return found;
    }
    if let Some(line) = &failed.report.first_stray_line {
        return Finding::new(
            Cause::StrayOutput,
            format!(
                "it did not answer within {seconds} s, and printed lines to standard output that are no messages: {line:?}"
            ),
            "make it log to standard error, and speak MCP over standard input and output",
        );
    }
    if let Some(found) = clues::find(failed.program, failed.stderr) {
        return found;
    }
    let Program { command, args, .. } = failed.program;
    let file = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_installer = matches!(file, "npx" | "bunx" | "pnpm" | "uvx" | "uv" | "pipx" | "docker");
    if is_installer {
        let package = clues::first_operand(args).unwrap_or_default();
        return Finding::new(
            Cause::SlowStart,
            format!(
                "it did not answer within {seconds} s; {file} may still be downloading {package:?}"
            ),
            format!(
                "run it once in a terminal, so that the download is done, or raise start_timeout_ms: {command} …"
            ),
        );
    }
    let said = clues::main_line(failed.stderr);
    let said = said.map(|line| format!("; it last wrote: {line}")).unwrap_or_default();
    Finding::new(
        Cause::Silent,
        format!("it runs, and did not answer `initialize` within {seconds} s{said}"),
        "check that it speaks MCP over standard input and output, perhaps with an argument such as \"stdio\"; for a slow start raise start_timeout_ms",
    )
}

/// Returns the finding for a server that serves HTTP, as its output says.
fn http_server(failed: &FailedProgram<'_>) -> Option<Finding> {
    let lines = failed.stderr.iter().chain(&failed.report.first_stray_line);
    let line = lines.into_iter().find(|line| {
        let line = line.to_lowercase();
        let listens = ["listening", "running", "started", "serving", "available"];
        listens.iter().any(|word| line.contains(word))
            && (line.contains("http://") || line.contains("https://") || line.contains(" port "))
    })?;
    Some(Finding::new(
        Cause::HttpServer,
        format!("it serves HTTP instead of standard input and output: {}", line.trim()),
        "start it with its option for stdio, or run it yourself and give its \"url\" instead of \"command\"",
    ))
}

/// Returns an argument that names a script, if no such file exists.
fn missing_script(failed: &FailedProgram<'_>) -> Option<String> {
    const EXTENSIONS: [&str; 10] = ["py", "js", "mjs", "cjs", "ts", "rb", "jar", "sh", "php", "pl"];
    let Program { command, args, .. } = failed.program;
    // Options may name scripts of packages.
    let script = clues::first_operand(args)?;
    let extension = Path::new(script).extension()?.to_str()?;
    let is_script = EXTENSIONS.contains(&extension) && !is_installer_of_packages(command);
    (is_script && !exists(failed, script)).then(|| script.to_owned())
}

fn is_installer_of_packages(command: &str) -> bool {
    let file = command.rsplit(['/', '\\']).next().unwrap_or_default();
    matches!(file, "npx" | "bunx" | "uvx" | "pipx" | "docker")
}

/// Returns an argument that is an absolute path, or begins with `./`, if no such file exists.
fn missing_path(failed: &FailedProgram<'_>) -> Option<String> {
    let args = failed.program.args.iter();
    let paths = args.map(|arg| arg.split_once('=').map_or(&**arg, |(_, value)| value));
    let mut paths = paths.filter(|arg| arg.starts_with(['/', '.', '~']) && arg.contains('/'));
    paths.find(|path| !exists(failed, path)).map(str::to_owned)
}

fn exists(failed: &FailedProgram<'_>, path: &str) -> bool {
    let folder = failed.cwd.unwrap_or_else(|| "".as_ref());
    folder.join(path).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(command: &str) -> Finding {
        missing_program(&Program { server: "s", command, args: &[] })
    }

    #[test]
    fn scripts_are_started_by_their_interpreters() {
        let advice = script_advice("/srv/a b.ts").unwrap();
        assert_eq!(advice, "set \"command\" to \"npx\" and \"args\" to [\"tsx\", \"/srv/a b.ts\"]");
        assert_eq!(script_advice("/srv/server"), None);
    }

    #[test]
    fn commands_that_are_no_programs_are_told_apart() {
        for (command, cause, advice) in [
            ("https://h/mcp", Cause::UrlAsCommand, "\"url\""),
            ("C:\\Program Files\\nodejs\\node.exe", Cause::WindowsPath, "/usr/bin"),
            ("npx.cmd", Cause::WindowsPath, "/usr/bin"),
            ("npx -y x", Cause::CommandLine, "[\"-y\", \"x\"] first in \"args\""),
            ("/bin/sh -c x", Cause::CommandLine, "set \"command\" to \"/bin/sh\""),
            ("/no folder/x", Cause::ProgramNotFound, "correct the path"),
            ("~/x", Cause::ProgramNotFound, "${userHome}"),
            ("npx", Cause::ProgramNotFound, "install Node.js, or"),
            ("thing", Cause::ProgramNotFound, "install it, or"),
        ] {
            let found = missing(command);
            assert_eq!(found.cause, cause, "{command}");
            assert!(found.advice.contains(advice), "{command}: {found:?}");
        }
    }
}
