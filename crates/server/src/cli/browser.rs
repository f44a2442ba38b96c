//! Opens a page in the user's browser.

use std::process::{Command, Stdio};

/// Opens `url` with the system's program for that. A failure is only a warning, because the link
/// was printed.
pub(super) fn open(url: &str) {
    let (program, arguments): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        ("xdg-open", &[])
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // The program ends by itself. A thread waits for it, so that no zombie process remains.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => tracing::warn!(
            "{program} failed to open the console: {error}; open the link above by hand"
        ),
    }
}
