//! CPU time and memory of a process, from `/proc`.

use std::{fs, time::Duration};

use crate::Failed;

/// `CLK_TCK`, which is 100 on every architecture that Rust supports on Linux.
const TICK: Duration = Duration::from_millis(10);

/// Returns the CPU time of all threads, in user and kernel mode.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration, Failed> {
    let stat = read(pid, "stat")?;
    parse_cpu_times(&stat, 2)
        .ok_or_else(|| Failed::new(format!("/proc/{pid}/stat has an unknown format")))
}

/// Returns the same with the CPU time of child processes that the process has waited for.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_time_with_children(pid: u32) -> Option<Duration> {
    parse_cpu_times(&read(pid, "stat").ok()?, 4)
}

/// Adds up the first `count` of `utime`, `stime`, `cutime` and `cstime`.
fn parse_cpu_times(stat: &str, count: usize) -> Option<Duration> {
    // The name, in parentheses, may have spaces in it. `utime` is field 14 of all.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let ticks = (0..count).map(|_| fields.next()?.parse::<u32>().ok());
    Some(TICK * ticks.sum::<Option<u32>>()?)
}

/// Returns the resident memory in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64, Failed> {
    let status = read(pid, "status")?;
    parse_resident(&status)
        .ok_or_else(|| Failed::new(format!("/proc/{pid}/status has an unknown format")))
}

fn parse_resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}

fn read(pid: u32, file: &str) -> Result<String, Failed> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).map_err(|error| Failed::new(format!("{path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_parsed() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 400 100 20 0 3 0 12345 1 2";
        assert_eq!(parse_cpu_times(stat, 2), Some(Duration::from_secs(3)));
        assert_eq!(parse_cpu_times(stat, 4), Some(Duration::from_secs(8)));
        assert_eq!(parse_cpu_times("7 (a) S 1", 2), None);
        let status = "Name:\ta\nVmHWM:\t  900 kB\nVmRSS:\t  123 kB\nThreads:\t1\n";
        assert_eq!(parse_resident(status), Some(123 * 1_024));
        assert_eq!(parse_resident("Name:\ta\n"), None);
    }
}
