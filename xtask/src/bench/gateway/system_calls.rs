//! The system calls of a gateway with one call at a time, counted by strace.

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use tempfile::NamedTempFile;

use super::{Row, load::Session, server::RunningServer};
use crate::Failed;

/// System calls for each call of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SystemCalls {
    pub(super) all: f64,
    pub(super) futex: f64,
    pub(super) epoll_wait: f64,
    pub(super) write: f64,
}

impl SystemCalls {
    /// Counts the system calls of calls whose answers have 16 bytes.
    pub(super) fn count(server: &RunningServer, session: &Session) -> Result<Self, Failed> {
        let output = NamedTempFile::new()?;
        let mut strace = Command::new("strace")
            .args(["-f", "-c", "-p", &server.pid().to_string(), "-o"])
            .arg(output.path())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failed::new(format!("strace (apt-get install strace): {error}")))?;
        // Attaching takes a moment, and a few calls before it do not change the ratio.
        thread::sleep(Duration::from_millis(500));
        let load = session.load(Row { bytes: 16, in_flight: 1 }, Duration::from_secs(2));
        _ = Command::new("kill").args(["-INT", &strace.id().to_string()]).status();
        strace.wait()?;
        let summary = std::fs::read_to_string(output.path())?;
        Self::parse(&summary, load?.requests)
            .ok_or_else(|| Failed::new(format!("strace printed no table: {summary}")))
    }

    /// Divides the counts of strace's table by the number of calls.
    fn parse(summary: &str, calls: u64) -> Option<Self> {
        let mut counted = Self::default();
        for line in summary.lines() {
            let mut fields = line.split_whitespace();
            let count: Option<u64> = fields.nth(3).and_then(|count| count.parse().ok());
            let (Some(count), Some(name)) = (count, fields.next_back()) else { continue };
            let each = count as f64 / calls.max(1) as f64;
            match name {
                "total" => counted.all = each,
                "futex" => counted.futex = each,
                "epoll_wait" | "epoll_pwait" => counted.epoll_wait += each,
                "write" | "writev" | "sendto" | "sendmsg" => counted.write += each,
                _ => {}
            }
        }
        (counted.all > 0.0).then_some(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_parsed() {
        let summary = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 40.00    0.000400           4       100           write
 20.00    0.000200           2       150        50 futex
 10.00    0.000100           1        50           writev
------ ----------- ----------- --------- --------- ----------------
100.00    0.000700           2       300        50 total
";
        let expected = SystemCalls { all: 6.0, futex: 3.0, epoll_wait: 0.0, write: 3.0 };
        assert_eq!(SystemCalls::parse(summary, 50), Some(expected));
        assert_eq!(SystemCalls::parse("", 50), None);
    }
}
