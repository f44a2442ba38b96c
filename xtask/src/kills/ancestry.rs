//! The descendants of this process. It adopts orphans, so that it finds every one.

use std::{fs, io, time::Duration};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use tokio::time::{Instant, sleep};

/// Makes this process the parent of descendants that become orphans.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Returns all descendants of `process`.
pub(super) fn descendants(process: Pid) -> Vec<Pid> {
    let mut found = children(process);
    let mut at = 0;
    while let Some(&process) = found.get(at) {
        found.extend(children(process));
        at += 1;
    }
    found
}

pub(super) fn children(process: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for thread in threads {
        // The thread may have ended meanwhile.
        let Ok(list) = fs::read_to_string(thread.path().join("children")) else { continue };
        found.extend(list.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)));
    }
    found
}

/// Kills a process if it is a descendant of this one.
pub(super) fn kill(process: Pid) -> Result<(), String> {
    if !descendants(getpid()).contains(&process) {
        return Err(format!("process {process} is not a descendant of this trial"));
    }
    // It may exit at this very moment.
    _ = kill_process(process, Signal::KILL);
    Ok(())
}

/// Waits until this process has no descendant. Kills those that are left after the limit, and names
/// them in the error.
pub(super) async fn wait_for_descendants(limit: Duration) -> Result<(), String> {
    let end = Instant::now() + limit;
    loop {
        // The parent must wait for exited children, including adopted ones.
        for child in children(getpid()) {
            _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
        let left = descendants(getpid());
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            let lines: Vec<String> = left.iter().map(|&process| describe(process)).collect();
            for process in left {
                _ = kill(process);
            }
            return Err(format!(
                "processes remain after {} s:\n{}",
                limit.as_secs(),
                lines.join("\n")
            ));
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn describe(process: Pid) -> String {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut line = String::from_utf8_lossy(&line).replace(['\0', '\n'], " ");
    line.truncate(line.floor_char_boundary(200));
    format!("  {process}: {line}")
}
