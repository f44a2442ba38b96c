//! Finds the child processes of this process and kills them.
//!
//! They are read from `/proc`. On systems without it, the end of the runtime kills the children,
//! and their descendants may survive.

#[cfg(target_os = "linux")]
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

/// Returns the children of a process that `/proc` shows.
#[cfg(target_os = "linux")]
pub(super) fn of(process: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let lists =
        threads.into_iter().flatten().flatten().map(|thread| {
            std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
        });
    lists
        .flat_map(|list| {
            let ids = list.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?));
            ids.collect::<Vec<_>>()
        })
        .collect()
}

/// Kills all child processes and their descendants. Each child leads a process group; descendants
/// that have left it are found by their parents.
#[cfg(target_os = "linux")]
pub(super) fn kill() {
    let children = of(getpid());
    let mut descendants = children.clone();
    let mut at = 0;
    while let Some(&process) = descendants.get(at) {
        descendants.extend(of(process));
        at += 1;
    }
    // Errors mean that the process has ended already.
    for child in children {
        _ = kill_process_group(child, Signal::KILL);
    }
    for process in descendants {
        _ = kill_process(process, Signal::KILL);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill() {}
