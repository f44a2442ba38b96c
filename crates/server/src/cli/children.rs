//! The end of all child processes at once, when there is no time to ask them.

/// Kills every child process and what it has started: each child leads a process group.
///
/// Who the children are is read from `/proc`. Where there is none, the end of the runtime kills the children, and what they started may stay.
#[cfg(target_os = "linux")]
pub(super) fn kill() {
    use rustix::process::{Pid, Signal, kill_process_group};
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for thread in threads {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?));
        for child in children {
            // That nobody is left is what we want.
            _ = kill_process_group(child, Signal::KILL);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill() {}
