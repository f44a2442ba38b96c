//! CPU time and memory of a process, from `/proc`.

use std::{fs, time::Duration};

use crate::Failed;

/// `CLK_TCK`, which is 100 on every architecture that Rust supports on Linux.
const TICK: Duration = Duration::from_millis(10);

/// The CPU time of all threads, in user and kernel mode.
pub(super) fn cpu_time(pid: u32) -> Result<Duration, Failed> {
    let stat = read(pid, "stat")?;
    parse_cpu_time(&stat).ok_or_else(|| Failed::new(format!("/proc/{pid}/stat is not understood")))
}

fn parse_cpu_time(stat: &str) -> Option<Duration> {
    // The name, in parentheses, may have spaces in it. `utime` and `stime` are the fields 14 and 15 of all.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}

/// The resident memory, in bytes.
pub(super) fn resident(pid: u32) -> Result<u64, Failed> {
    let status = read(pid, "status")?;
    parse_resident(&status)
        .ok_or_else(|| Failed::new(format!("/proc/{pid}/status is not understood")))
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
    fn proc_is_understood() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 12345 1 2";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_secs(3)));
        assert_eq!(parse_cpu_time("7 (a) S 1"), None);
        let status = "Name:\ta\nVmHWM:\t  900 kB\nVmRSS:\t  123 kB\nThreads:\t1\n";
        assert_eq!(parse_resident(status), Some(123 * 1_024));
        assert_eq!(parse_resident("Name:\ta\n"), None);
    }
}
