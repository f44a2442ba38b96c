//! The metrics of a program.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Format,
    family::{Family, Kind},
};

/// Series of a metric, unless another number is set.
const MAX_SERIES: usize = 2_000;

/// The metrics of a program. Cheap to clone; all clones are one registry.
#[derive(Clone)]
pub struct Registry {
    families: Arc<Mutex<Vec<Arc<Family>>>>,
    max_series: usize,
}

/// A count that only grows, for each combination of `N` labels.
#[derive(Clone)]
pub struct Counter<const N: usize>(Arc<Family>);

/// A value that rises and falls, for each combination of `N` labels.
#[derive(Clone)]
pub struct Gauge<const N: usize>(Arc<Family>);

/// A distribution of values, for each combination of `N` labels.
#[derive(Clone)]
pub struct Histogram<const N: usize>(Arc<Family>);

impl Default for Registry {
    fn default() -> Self {
        Self { families: Arc::default(), max_series: MAX_SERIES }
    }
}

impl Registry {
    /// Creates a registry without metrics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of series of each metric that is added from now on.
    #[must_use]
    pub fn with_max_series(self, max_series: usize) -> Self {
        Self { max_series, ..self }
    }

    /// Adds a counter.
    ///
    /// # Panics
    ///
    /// If the name does not end in `_total`, or the registry has it already.
    pub fn counter<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Counter<N> {
        assert!(name.ends_with("_total"), "the name of the counter {name} must end in _total");
        Counter(self.add(name, help, Kind::Counter, &labels, &[]))
    }

    /// Adds a gauge.
    ///
    /// # Panics
    ///
    /// If the registry has the name already.
    pub fn gauge<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Gauge<N> {
        Gauge(self.add(name, help, Kind::Gauge, &labels, &[]))
    }

    /// Adds a histogram. `buckets` are the upper bounds, in rising order.
    ///
    /// # Panics
    ///
    /// If the registry has the name already, or the bounds do not rise.
    pub fn histogram<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        buckets: &'static [f64],
        labels: [&'static str; N],
    ) -> Histogram<N> {
        assert!(buckets.is_sorted_by(|a, b| a < b), "the buckets of {name} must rise");
        Histogram(self.add(name, help, Kind::Histogram, &labels, buckets))
    }

    fn add(
        &self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: &[&'static str],
        buckets: &'static [f64],
    ) -> Arc<Family> {
        let family = Arc::new(Family::new(name, help, kind, labels, buckets, self.max_series));
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(families.iter().all(|it| it.name != name), "there are two metrics {name}");
        families.push(family.clone());
        family
    }

    /// Returns the names of all metrics.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        families.iter().map(|family| family.name).collect()
    }

    /// Writes all metrics.
    #[must_use]
    pub fn write(&self, format: Format) -> String {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        for family in families {
            family.write(format, &mut text);
        }
        if format == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

impl<const N: usize> Counter<N> {
    /// Adds to a series.
    pub fn add(&self, labels: [&str; N], count: u64) {
        self.0.series(&labels).add(count as f64);
    }

    /// Raises a series to a count that is kept elsewhere. A smaller count changes nothing.
    pub fn raise_to(&self, labels: [&str; N], count: f64) {
        self.0.series(&labels).raise_to(count);
    }
}

impl<const N: usize> Gauge<N> {
    /// Sets a series.
    pub fn set(&self, labels: [&str; N], value: f64) {
        self.0.series(&labels).set(value);
    }

    /// Replaces all series, so that those of things that no longer exist end.
    pub fn replace<'v>(&self, series: impl IntoIterator<Item = ([&'v str; N], f64)>) {
        self.0.replace(series.into_iter().map(|(labels, value)| (labels.to_vec(), value)));
    }
}

impl<const N: usize> Histogram<N> {
    /// Adds an observation to a series.
    pub fn observe(&self, labels: [&str; N], value: f64) {
        self.0.observe(&labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        let registry = Registry::new().with_max_series(3);
        let calls = registry.counter("calls_total", "Calls.", ["tool", "outcome"]);
        for tool in ["b", "a", "a", "evil\"\\\n\0", "c", "d"] {
            calls.add([tool, "ok"], 1);
        }
        registry.counter("empty_total", "Nothing.", ["x"]);
        registry.gauge("level_bytes", "A level.", []).set([], 1.5);
        let times = registry.histogram("time_seconds", "Times.", &[0.5, 1.0], ["kind"]);
        for time in [0.5, 0.75, 2.0] {
            times.observe(["x"], time);
        }
        registry
    }

    #[test]
    fn the_format_of_prometheus() {
        let want = r#"# HELP calls_total Calls.
# TYPE calls_total counter
calls_total{tool="_other",outcome="_other"} 2
calls_total{tool="a",outcome="ok"} 2
calls_total{tool="b",outcome="ok"} 1
calls_total{tool="evil\"\\\n�",outcome="ok"} 1
# HELP level_bytes A level.
# TYPE level_bytes gauge
level_bytes 1.5
# HELP time_seconds Times.
# TYPE time_seconds histogram
time_seconds_bucket{kind="x",le="0.5"} 1
time_seconds_bucket{kind="x",le="1"} 2
time_seconds_bucket{kind="x",le="+Inf"} 3
time_seconds_sum{kind="x"} 3.25
time_seconds_count{kind="x"} 3
"#;
        assert_eq!(registry().write(Format::Prometheus), want);
    }

    #[test]
    fn the_format_of_openmetrics() {
        let text = registry().write(Format::OpenMetrics);
        for part in [
            "# TYPE calls counter\ncalls_total{tool=\"_other\"",
            "# TYPE level_bytes gauge\n# UNIT level_bytes bytes\nlevel_bytes 1.5\n",
            "# UNIT time_seconds seconds\n",
            "time_seconds_bucket{kind=\"x\",le=\"1.0\"} 2\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n") && !text.contains("empty"));
    }

    #[test]
    fn series_of_things_that_are_gone_end() {
        let registry = Registry::new();
        let up = registry.gauge("up", "Up.", ["name"]);
        up.replace([(["a"], 1.0), (["b"], 0.0)]);
        up.replace([(["b"], 1.0)]);
        let text = registry.write(Format::Prometheus);
        assert!(text.ends_with("# TYPE up gauge\nup{name=\"b\"} 1\n"), "{text}");
    }

    #[test]
    fn a_counter_never_falls() {
        let registry = Registry::new();
        let counter = registry.counter("c_total", "C.", []);
        counter.raise_to([], 5.0);
        counter.raise_to([], 3.0);
        assert!(registry.write(Format::Prometheus).ends_with("c_total 5\n"));
    }
}
