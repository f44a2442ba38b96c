//! The child processes of a process, and the end of all of ours at once, when there is no time to ask them.
//!
//! Who they are is read from `/proc`. Where there is none, the end of the runtime kills the children, and what they started may stay.

#[cfg(target_os = "linux")]
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

/// The children of a process, as far as it can be seen.
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

/// Kills every child process and what it has started: each child leads a process group, and those of its descendants that have left it are
/// found by their ancestry.
#[cfg(target_os = "linux")]
pub(super) fn kill() {
    let children = of(getpid());
    let mut descendants = children.clone();
    let mut at = 0;
    while let Some(&process) = descendants.get(at) {
        descendants.extend(of(process));
        at += 1;
    }
    // That nobody is left is what we want.
    for child in children {
        _ = kill_process_group(child, Signal::KILL);
    }
    for process in descendants {
        _ = kill_process(process, Signal::KILL);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill() {}
