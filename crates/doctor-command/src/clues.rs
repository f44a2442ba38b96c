//! Finds the line on standard error that says why a program has failed.

use crate::cause::{Cause, Finding};

/// The program that has written the lines.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    /// Name of the server in the configuration.
    pub(crate) server: &'a str,
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
}

/// Finds one kind of sign.
type Rule = fn(Program<'_>, &[String]) -> Option<Finding>;

/// Returns the cause that the lines name. Causes with a sure sign come first: an error of a module
/// may contain the words of a fault of the network, and not the other way round.
pub(crate) fn find(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    const RULES: [Rule; 12] = [
        missing_script,
        python_module,
        npm_package,
        python_package,
        node_module,
        runtime_too_old,
        syntax_error,
        docker,
        missing_variable,
        port_in_use,
        network,
        other_causes,
    ];
    RULES.iter().find_map(|rule| rule(program, lines))
}

/// Returns the line that tells most about a failure: the error of a traceback, or else the last
/// line that is no frame of a stack.
pub(crate) fn main_line(lines: &[String]) -> Option<&str> {
    // Node.js prints the error before its stack, Python after it.
    telling_lines(lines).rfind(|line| is_error(line)).or_else(|| telling_lines(lines).next_back())
}

/// Returns the lines that are no frames of a stack.
fn telling_lines(lines: &[String]) -> impl DoubleEndedIterator<Item = &str> {
    lines.iter().map(|line| line.trim()).filter(|line| {
        !line.is_empty()
            && !line.starts_with("at ")
            && !line.starts_with("Node.js v")
            && !line.starts_with(['{', '}', '^', '~'])
            && !line.starts_with("npm notice")
    })
}

/// Returns whether a line begins with the name of an error, such as `ValueError:`.
fn is_error(line: &str) -> bool {
    let head = line.split([':', '(']).next().unwrap_or_default();
    let name = head.split_whitespace().last().unwrap_or_default();
    name.ends_with("Error") || name.ends_with("Exception") || line.starts_with("error:")
}

/// Returns the first line that contains one of the texts, whatever their case.
fn line_with<'a>(lines: &'a [String], texts: &[&str]) -> Option<&'a str> {
    let line = lines.iter().find(|line| {
        let line = line.to_lowercase();
        texts.iter().any(|text| line.contains(text))
    });
    line.map(|line| line.trim())
}

/// Returns the text between the first pair of quotes after `head`.
fn quoted_after<'a>(line: &'a str, head: &str) -> Option<&'a str> {
    let rest = line.split_once(head)?.1;
    let start = rest.find(['\'', '"', '`'])?;
    let quote = rest[start..].chars().next()?;
    let text = &rest[start + 1..];
    text.split_once(quote).map(|(text, _)| text)
}

fn missing_script(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    let path = lines.iter().find_map(|line| {
        quoted_after(line, "can't open file ")
            .or_else(|| quoted_after(line, "Cannot find module ").filter(|it| is_path(it)))
            .or_else(|| quoted_after(line, "Module not found ").filter(|it| is_path(it)))
    })?;
    // A module that a script of the server imports by its path is not an argument.
    let is_argument = program.args.iter().any(|arg| path.ends_with(arg.trim_start_matches("./")));
    is_argument.then(|| missing_file(path))
}

fn is_path(text: &str) -> bool {
    text.starts_with(['/', '.', '~']) || text.contains('\\') || text.starts_with("file:")
}

/// Returns the finding for an argument that names no file.
pub(crate) fn missing_file(path: &str) -> Finding {
    let problem = format!("{path:?} does not exist, and an argument names it");
    let advice = if path.starts_with("~/") {
        "no shell expands ~ here: write ${userHome} instead"
    } else {
        "correct the path in \"args\"; an absolute path works from every folder"
    };
    Finding::new(Cause::MissingFile, problem, advice)
}

fn python_module(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    const HEAD: &str = "No module named ";
    let line = lines.iter().find(|line| line.contains(HEAD))?;
    let name = quoted_after(line, HEAD)
        .or_else(|| line.split_once(HEAD)?.1.split_whitespace().next())
        .unwrap_or_default();
    let package = name.split('.').next().unwrap_or_default();
    let command = program.command;
    let python = if is_program(command, "python") { command } else { "python" };
    Some(Finding::new(
        Cause::PythonModule,
        format!("the Python module {name:?} is not installed for {command:?}"),
        format!(
            "install it with `{python} -m pip install {package}`, or name the Python of the environment that has it in \"command\""
        ),
    ))
}

/// Returns whether a command is this program, with or without a version: `python`, `python3.12`.
fn is_program(command: &str, name: &str) -> bool {
    let file = command.rsplit(['/', '\\']).next().unwrap_or_default();
    file.strip_prefix(name).is_some_and(|rest| {
        rest.trim_end_matches(".exe").chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}

/// Returns the first argument that is no option: the package that `npx` or `uvx` runs.
pub(crate) fn first_operand(args: &[String]) -> Option<&str> {
    args.iter().map(String::as_str).find(|arg| !arg.starts_with('-'))
}

fn npm_package(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    if lines.iter().filter(|line| line.contains("npm ")).any(|line| {
        line.contains("E404") || line.contains(" 404 ") || line.contains("is not in this registry")
    }) {
        let named = lines.iter().find_map(|line| {
            let name = quoted_after(line, "404 ").filter(|name| !name.contains(' '))?;
            Some(name.strip_suffix("@*").unwrap_or(name))
        });
        let name = named.or_else(|| first_operand(program.args)).unwrap_or("its package");
        return Some(Finding::new(
            Cause::NpmPackage,
            format!("the registry of npm has no package {name:?}"),
            "correct the name of the package in \"args\"; for a private package, set the registry or log in to it (`npm login`)",
        ));
    }
    lines.iter().any(|line| line.contains("could not determine executable to run")).then(|| {
        let name = first_operand(program.args).unwrap_or("the package");
        Finding::new(
            Cause::NpmPackage,
            format!("the package {name:?} has no program to run"),
            "take the package of the MCP server, or name its program: npx -p PACKAGE PROGRAM",
        )
    })
}

fn python_package(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    let line = line_with(
        lines,
        &["was not found in the package registry", "no matching distribution found for"],
    )?;
    let before = line.split(" was not found in the package registry").next().unwrap_or_default();
    let name = match line.split_once("distribution found for ") {
        Some((_, name)) => name.split_whitespace().next(),
        None => before.split_whitespace().next_back(),
    };
    let name = name.or_else(|| first_operand(program.args)).unwrap_or("its package");
    Some(Finding::new(
        Cause::PythonPackage,
        format!("the index of Python packages has no package {name:?}"),
        "correct the name of the package in \"args\"",
    ))
}

fn node_module(_: Program<'_>, lines: &[String]) -> Option<Finding> {
    let name = lines.iter().find_map(|line| {
        quoted_after(line, "Cannot find package ")
            .or_else(|| quoted_after(line, "Cannot find module "))
    })?;
    Some(Finding::new(
        Cause::NodeModule,
        format!("the Node.js module {name:?} is not installed for the server"),
        "run `npm install` (and its build, if it has one) in the folder of the server",
    ))
}

fn runtime_too_old(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    const SIGNS: [&str; 12] = [
        "ebadengine",
        "unsupported engine",
        "err_unknown_builtin_module",
        "err_require_esm",
        "fetch is not defined",
        "does not provide an export named",
        "requires node",
        "requires python",
        "requires-python",
        "requires a different python",
        "unsupported node",
        "please upgrade node",
    ];
    let line = line_with(lines, &SIGNS)?;
    let runtime = runtime(program, lines);
    Some(Finding::new(
        Cause::RuntimeTooOld,
        format!("{runtime} is too old for the server: {line}"),
        format!(
            "install a newer version, or name its full path in \"command\" instead of {:?}",
            program.command
        ),
    ))
}

/// Describes the runtime of a program, with the version that its error names.
fn runtime(program: Program<'_>, lines: &[String]) -> String {
    let version = lines.iter().find(|line| line.trim_start().starts_with("Node.js v"));
    match version {
        Some(version) => version.trim().to_owned(),
        None => format!("the runtime of {:?}", program.command),
    }
}

fn syntax_error(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    let line = lines.iter().map(|line| line.trim()).find(|line| {
        ["SyntaxError", "IndentationError", "TabError"].iter().any(|name| line.starts_with(name))
    })?;
    let runtime = runtime(program, lines);
    Some(Finding::new(
        Cause::SyntaxError,
        format!("a source file of the server cannot be parsed: {line}"),
        format!(
            "{runtime} may be too old for it: compare with the version that the server asks for; otherwise the file is broken"
        ),
    ))
}

fn docker(_: Program<'_>, lines: &[String]) -> Option<Finding> {
    if let Some(line) = line_with(lines, &["cannot connect to the docker daemon"]) {
        return Some(Finding::new(Cause::Docker, line, "start Docker"));
    }
    let line = line_with(lines, &["pull access denied", "manifest unknown"])?;
    let advice = "correct the name of the image in \"args\", or log in with `docker login`";
    Some(Finding::new(Cause::Docker, line, advice))
}

fn missing_variable(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    const SIGNS: [&str; 11] = [
        "required",
        "missing",
        "not set",
        "must be set",
        "must set",
        "please set",
        "not found",
        "not provided",
        "not defined",
        "undefined",
        "keyerror",
    ];
    let (name, line) = lines.iter().find_map(|line| {
        let lower = line.to_lowercase();
        if !SIGNS.iter().any(|sign| lower.contains(sign)) {
            return None;
        }
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = words.into_iter().find(|word| is_variable(word))?;
        Some((name, line.trim()))
    })?;
    let server = program.server;
    Some(Finding::new(
        Cause::MissingVariable,
        format!("the server needs the environment variable {name}: {line}"),
        format!("set it in \"env\" of the server {server:?}"),
    ))
}

/// Returns whether a word is the name of a variable: capital letters with `_`, and no code of an
/// error such as `ERR_MODULE_NOT_FOUND`.
fn is_variable(word: &str) -> bool {
    let is_capital = word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_code = word.starts_with("ERR_") || word.starts_with("E_") || word.ends_with("_ERROR");
    is_capital
        && !is_code
        && word.len() >= 5
        && word.trim_matches('_').contains('_')
        && word.starts_with(|c: char| c.is_ascii_uppercase())
}

fn port_in_use(_: Program<'_>, lines: &[String]) -> Option<Finding> {
    let line = line_with(lines, &["eaddrinuse", "address already in use"])?;
    Some(Finding::new(
        Cause::PortInUse,
        format!("the server listens on a port that is in use: {line}"),
        "if it is running already, give its \"url\" instead of \"command\"; otherwise start it with stdio as its transport",
    ))
}

fn network(_: Program<'_>, lines: &[String]) -> Option<Finding> {
    const SIGNS: [&str; 14] = [
        "enotfound",
        "eai_again",
        "econnrefused",
        "econnreset",
        "etimedout",
        "enetunreach",
        "getaddrinfo",
        "fetch failed",
        "network is unreachable",
        "name or service not known",
        "temporary failure in name resolution",
        "dns error",
        "error sending request",
        "failed to establish a new connection",
    ];
    let line = line_with(lines, &SIGNS)?;
    Some(Finding::new(
        Cause::Network,
        format!("it cannot reach a host: {line}"),
        "check the network and the address; behind a proxy, set HTTPS_PROXY in \"env\" of the server",
    ))
}

fn other_causes(program: Program<'_>, lines: &[String]) -> Option<Finding> {
    if let Some(line) = line_with(lines, &["eacces", "permission denied", "permissionerror"]) {
        let problem = format!("the operating system refuses access: {line}");
        let advice = "change the rights of the file, or choose one that this user may use";
        return Some(Finding::new(Cause::PermissionDenied, problem, advice));
    }
    if let Some(line) = lines.iter().find(|line| {
        let line = line.trim_end();
        line.starts_with("sh: ")
            && (line.ends_with(": not found") || line.ends_with("command not found"))
    }) {
        let problem = format!("a program that it runs does not exist: {}", line.trim());
        let advice = "install that program, or correct \"args\"";
        return Some(Finding::new(Cause::ProgramNotFound, problem, advice));
    }
    const USAGE: [&str; 8] = [
        "usage:",
        "unrecognized argument",
        "unknown option",
        "unexpected argument",
        "the following arguments are required",
        "required arguments were not provided",
        "unknown argument",
        "missing required argument",
    ];
    let line = line_with(lines, &USAGE)?;
    let problem = format!("the server refuses its arguments: {line}");
    let advice = format!("correct \"args\"; `{} --help` may list them", program.command);
    Some(Finding::new(Cause::Arguments, problem, advice))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(command: &str, args: &[&str], stderr: &str) -> Option<Finding> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let lines: Vec<String> = stderr.lines().map(str::to_owned).collect();
        find(Program { server: "s", command, args: &args }, &lines)
    }

    #[track_caller]
    fn check(command: &str, args: &[&str], stderr: &str, cause: Cause, problem: &str) {
        let found = found(command, args, stderr).unwrap();
        assert_eq!(found.cause, cause, "{found:?}");
        assert!(found.problem.contains(problem), "{found:?}");
    }

    #[test]
    fn modules_of_python_are_no_fault_of_the_network() {
        let text = "Traceback (most recent call last):\n  File \"s.py\", line 1\nModuleNotFoundError: No module named 'mcp.server'";
        check("python3", &["s.py"], text, Cause::PythonModule, "\"mcp.server\"");
        let advice = found("python3", &["s.py"], text).unwrap().advice;
        assert!(advice.contains("`python3 -m pip install mcp`"), "{advice}");
        let text = "/usr/bin/python3: No module named weather_enotfound";
        check("python3", &["-m", "x"], text, Cause::PythonModule, "\"weather_enotfound\"");
    }

    #[test]
    fn packages_that_do_not_exist_are_named() {
        let text = "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/no-such-mcp - Not found\n\
                    npm error 404\nnpm error 404  'no-such-mcp@*' is not in this registry.";
        check("npx", &["-y", "no-such-mcp"], text, Cause::NpmPackage, "\"no-such-mcp\"");
        let text = "npm ERR! code E404";
        check("npx", &["-y", "@a/b"], text, Cause::NpmPackage, "\"@a/b\"");
        let text = "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because mcp-nothing was not found in the package registry and you require it";
        check("uvx", &["mcp-nothing"], text, Cause::PythonPackage, "\"mcp-nothing\"");
    }

    #[test]
    fn node_is_understood() {
        let text = "node:internal/modules/cjs/loader:1143\n  throw err;\n  ^\n\nError: Cannot find module '/srv/gone.js'\n    at x (y:1:1)\n\nNode.js v20.1.0";
        check("node", &["gone.js"], text, Cause::MissingFile, "/srv/gone.js");
        check("node", &["other.js"], text, Cause::NodeModule, "/srv/gone.js");
        let text =
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/a.js";
        check("node", &["a.js"], text, Cause::NodeModule, "\"zod\"");
        let text = "/srv/a.js:1\na ??= 1;\n  ^^^\n\nSyntaxError: Unexpected token '??='\n\nNode.js v12.0.0";
        check("node", &["a.js"], text, Cause::SyntaxError, "'??='");
        assert!(found("node", &["a.js"], text).unwrap().advice.contains("Node.js v12.0.0"));
        let text = "npm warn EBADENGINE Unsupported engine { required: { node: '>=22' } }";
        check("npx", &["x"], text, Cause::RuntimeTooOld, ">=22");
    }

    #[test]
    fn other_causes_are_found() {
        for (text, cause) in [
            ("Error: GITHUB_TOKEN is required", Cause::MissingVariable),
            ("KeyError: 'API_KEY'", Cause::MissingVariable),
            ("please set the variable SLACK_BOT_TOKEN", Cause::MissingVariable),
            ("Error: listen EADDRINUSE: address already in use :::3000", Cause::PortInUse),
            ("getaddrinfo ENOTFOUND registry.npmjs.org", Cause::Network),
            ("PermissionError: [Errno 13] Permission denied: '/root/x'", Cause::PermissionDenied),
            ("sh: 1: mcp-thing: not found", Cause::ProgramNotFound),
            ("Usage: server [OPTIONS] PATH", Cause::Arguments),
            ("Cannot connect to the Docker daemon at unix:///x", Cause::Docker),
            ("python3: can't open file '/srv/a.py': [Errno 2] No such file", Cause::MissingFile),
        ] {
            check("python3", &["a.py"], text, cause, "");
        }
        for text in ["", "boom", "error ERR_SOME_CODE not found", "listening on 3000"] {
            assert_eq!(found("x", &[], text), None, "{text}");
        }
    }

    #[test]
    fn the_main_line_is_the_error() {
        for (text, want) in [
            ("Traceback:\n  File x\nValueError: bad\n", Some("ValueError: bad")),
            (
                "a\nTypeError: b is null\n    at c (d:1)\n\nNode.js v20",
                Some("TypeError: b is null"),
            ),
            ("one\ntwo\n", Some("two")),
            ("", None),
        ] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(main_line(&lines), want);
        }
    }

    proptest! {
        #[test]
        fn any_output_is_read(lines in prop::collection::vec(".{0,80}|No module named .*|.*404 '.*registry", 0..8)) {
            let args = vec!["é".to_owned()];
            _ = find(Program { server: "s", command: "é", args: &args }, &lines);
            _ = main_line(&lines);
        }
    }
}
