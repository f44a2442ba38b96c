//! Calls over standard input and output, made by this process.

use std::{
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{echo, measurement::Measurement, peer::Program};
use crate::{Failed, proc_stat};

/// A call, and the number of calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) revision: &'static str,
    pub(super) in_flight: usize,
    /// Length of the echoed text.
    pub(super) bytes: usize,
}

impl Row {
    pub(super) fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for bytes in echo::SIZES {
            for revision in [echo::SESSIONS, echo::STATELESS] {
                for in_flight in [1, 32] {
                    rows.push(Self { revision, in_flight, bytes });
                }
            }
        }
        rows
    }
}

/// Starts the program, checks an answer, and calls it for `time`.
pub(super) fn measure(program: &Program, row: Row, time: Duration) -> Result<Measurement, Failed> {
    let mut running = program.start_on_pipes()?;
    let (Some(mut input), Some(output)) = (running.child.stdin.take(), running.child.stdout.take())
    else {
        return Err(Failed::new("a child without pipes"));
    };
    let mut output = BufReader::with_capacity(256 << 10, output);
    let mut line = String::new();
    if row.revision == echo::SESSIONS {
        writeln!(input, "{}", echo::initialize())?;
        output.read_line(&mut line)?;
        writeln!(input, "{}", echo::initialized())?;
    }
    writeln!(input, "{}", echo::call(row.revision, row.bytes, &json!(7)))?;
    line.clear();
    output.read_line(&mut line)?;
    let answer: Value = serde_json::from_str(&line)
        .map_err(|error| Failed::new(format!("invalid answer {line}: {error}")))?;
    echo::check_answer(&answer, row.bytes)?;

    let (input, output, _) = calls(row, time / 5, input, output)?;
    let before = proc_stat::cpu_time(running.pid())?;
    let started = Instant::now();
    let (_input, _output, mut times) = calls(row, time, input, output)?;
    let time = started.elapsed();
    let cpu = proc_stat::cpu_time(running.pid())?.checked_sub(before).unwrap();
    times.sort_unstable();
    Ok(Measurement {
        requests: times.len() as u64,
        time,
        cpu,
        p50: percentile(&times, 50),
        p99: percentile(&times, 99),
        resident: proc_stat::resident(running.pid())?,
    })
}

/// Returns a percentile of sorted times.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    times.get(times.len() * percent / 100).copied().unwrap_or_default()
}

type Pipes = (ChildStdin, BufReader<ChildStdout>, Vec<Duration>);

/// Calls for `time`. Returns the pipes and the time of each call.
fn calls(
    row: Row,
    time: Duration,
    mut input: ChildStdin,
    mut output: BufReader<ChildStdout>,
) -> Result<Pipes, Failed> {
    let call = echo::call(row.revision, row.bytes, &json!("@ID@"));
    let Some((before, after)) = call.split_once("\"@ID@\"") else {
        return Err(Failed::new("the call has no id"));
    };
    let until = Instant::now() + time;
    let mut times = Vec::new();
    let mut answer = Vec::new();
    if row.in_flight == 1 {
        for id in 1_000.. {
            let sent = Instant::now();
            if sent >= until {
                break;
            }
            input.write_all(format!("{before}{id}{after}\n").as_bytes())?;
            read_answer(&mut output, &mut answer, row.bytes)?;
            times.push(sent.elapsed());
        }
        return Ok((input, output, times));
    }
    // The bound limits the writer. If answers come out of order, a call may get the time of its
    // neighbour.
    let (sender, sent) = mpsc::sync_channel::<Instant>(row.in_flight - 1);
    let input = thread::scope(|scope| {
        let writer = scope.spawn(move || -> Result<ChildStdin, Failed> {
            for id in 1_000.. {
                let now = Instant::now();
                if now >= until || sender.send(now).is_err() {
                    break;
                }
                input.write_all(format!("{before}{id}{after}\n").as_bytes())?;
            }
            Ok(input)
        });
        for sent in sent {
            read_answer(&mut output, &mut answer, row.bytes)?;
            times.push(sent.elapsed());
        }
        writer.join().map_err(|_| Failed::new("the writer panicked"))?
    })?;
    Ok((input, output, times))
}

/// Reads the next answer into `answer`, whose memory is used again. Its length shows whether it has
/// the echoed text: to parse it would cost the time that is measured.
fn read_answer(
    output: &mut BufReader<ChildStdout>,
    answer: &mut Vec<u8>,
    bytes: usize,
) -> Result<(), Failed> {
    answer.clear();
    output.read_until(b'\n', answer)?;
    if answer.len() < bytes {
        let text = String::from_utf8_lossy(answer);
        return Err(Failed::new(format!("the answer lacks the echoed text: {text}")));
    }
    Ok(())
}
