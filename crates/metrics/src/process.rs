//! Metrics of the process, under the names that all programs use.

use std::fs;

use crate::{Counter, Gauge, Registry};

/// Ticks of a second in `/proc`. It is 100 on every Linux (USER_HZ).
const TICKS: f64 = 100.0;

/// Adds the metrics of this process to a registry. Returns a function that reads them; call it
/// before the metrics are written. Elsewhere than on Linux there are none.
pub fn process_metrics(registry: &Registry) -> impl Fn() + Send + Sync + 'static {
    let cpu = registry.counter(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
        [],
    );
    let resident =
        registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", []);
    let virtual_memory =
        registry.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", []);
    let threads = registry.gauge("process_threads", "Number of threads.", []);
    let open = registry.gauge("process_open_fds", "Number of open file descriptors.", []);
    let most = registry.gauge("process_max_fds", "Maximum number of open file descriptors.", []);
    let start = registry.gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        [],
    );
    move || {
        read_stat(&cpu, &start);
        read_status(&resident, &virtual_memory, &threads);
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            open.set([], entries.count() as f64);
        }
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        if let Some(soft) = files.and_then(|it| it.split_whitespace().next()?.parse().ok()) {
            most.set([], soft);
        }
    }
}

fn read_stat(cpu: &Counter<0>, start: &Gauge<0>) {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return };
    // The name of the program, which may hold blanks, stands in parentheses before the rest.
    let Some((_, rest)) = stat.rsplit_once(')') else { return };
    let numbers: Vec<f64> =
        rest.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
    cpu.raise_to([], (field(&numbers, 14) + field(&numbers, 15)) / TICKS);
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime ")?.parse::<f64>().ok());
    if let Some(boot) = boot {
        start.set([], boot + field(&numbers, 22) / TICKS);
    }
}

/// Returns a field by its number in proc(5). The first of `numbers` is field 3.
fn field(numbers: &[f64], number: usize) -> f64 {
    numbers.get(number - 3).copied().unwrap_or(0.0)
}

fn read_status(resident: &Gauge<0>, virtual_memory: &Gauge<0>, threads: &Gauge<0>) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, gauge, unit) in [
        ("VmRSS:", resident, 1_024.0),
        ("VmSize:", virtual_memory, 1_024.0),
        ("Threads:", threads, 1.0),
    ] {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        if let Some(value) = line.and_then(|it| it.split_whitespace().next()?.parse::<f64>().ok()) {
            gauge.set([], value * unit);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn a_process_has_memory_threads_and_files() {
        let registry = Registry::new();
        process_metrics(&registry)();
        let text = registry.write(Format::Prometheus);
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
            line.unwrap().rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_threads") >= 1.0 && value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") > value("process_open_fds"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - value("process_start_time_seconds");
        assert!((-2.0..3_600.0).contains(&age), "{age}");
    }
}
