//! The series of one metric.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::Format;

/// The value of all labels of series beyond the bound.
const OTHER: &str = "_other";

/// Stands between the values of labels in a key. No value has it.
const BETWEEN: char = '\0';

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric with all its series.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    help: &'static str,
    kind: Kind,
    labels: Vec<&'static str>,
    /// Upper bounds of the buckets of a histogram.
    buckets: &'static [f64],
    max_series: usize,
    /// By the values of the labels. Sorted, so that two answers can be compared.
    series: RwLock<BTreeMap<Box<str>, Arc<Series>>>,
}

/// One series.
pub(crate) struct Series {
    /// The bits of a float: the value of a counter or a gauge, the sum of a histogram.
    value: AtomicU64,
    /// Observations in each bucket, and above the last.
    buckets: Vec<AtomicU64>,
}

impl Family {
    pub(crate) fn new(
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: &[&'static str],
        buckets: &'static [f64],
        max_series: usize,
    ) -> Self {
        let labels = labels.to_vec();
        let family =
            Self { name, help, kind, labels, buckets, max_series, series: RwLock::default() };
        if family.labels.is_empty() {
            // A metric without labels has a value from the beginning.
            family.series(&[]);
        }
        family
    }

    /// Returns the series with these values of the labels.
    pub(crate) fn series(&self, values: &[&str]) -> Arc<Series> {
        let key = key(values);
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = series.get(&*key) {
            return found.clone();
        }
        drop(series);
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let key = if series.len() < self.max_series || series.contains_key(&*key) {
            key
        } else {
            self::key(&vec![OTHER; self.labels.len()])
        };
        series.entry(key.into()).or_insert_with(|| Arc::new(self.new_series())).clone()
    }

    fn new_series(&self) -> Series {
        let buckets = match self.kind {
            Kind::Histogram => self.buckets.len() + 1,
            _ => 0,
        };
        Series {
            value: AtomicU64::new(0),
            buckets: (0..buckets).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Replaces all series of a gauge.
    pub(crate) fn replace<'v>(&self, series: impl Iterator<Item = (Vec<&'v str>, f64)>) {
        let mut all = BTreeMap::new();
        for (values, value) in series.take(self.max_series) {
            let series = self.new_series();
            series.set(value);
            all.insert(key(&values).into(), Arc::new(series));
        }
        *self.series.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    pub(crate) fn observe(&self, values: &[&str], value: f64) {
        let series = self.series(values);
        let bucket = self.buckets.partition_point(|bound| *bound < value);
        series.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        series.add(value);
    }

    pub(crate) fn write(&self, format: Format, out: &mut String) {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if series.is_empty() {
            return;
        }
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // OpenMetrics names a counter without the ending of its samples.
        let family = match format {
            Format::OpenMetrics if self.kind == Kind::Counter => {
                self.name.strip_suffix("_total").unwrap_or(self.name)
            }
            _ => self.name,
        };
        out.push_str(&format!("# HELP {family} {}\n# TYPE {family} {kind}\n", self.help));
        if let Some(unit) = unit(family).filter(|_| format == Format::OpenMetrics) {
            out.push_str(&format!("# UNIT {family} {unit}\n"));
        }
        for (key, series) in &*series {
            let labels = self.labels_of(key);
            match self.kind {
                Kind::Counter | Kind::Gauge => {
                    let value = f64::from_bits(series.value.load(Ordering::Relaxed));
                    sample(out, self.name, "", &labels, &number(value, Format::Prometheus));
                }
                Kind::Histogram => self.write_histogram(series, &labels, format, out),
            }
        }
    }

    fn write_histogram(&self, series: &Series, labels: &str, format: Format, out: &mut String) {
        let mut count = 0;
        let bounds = self.buckets.iter().map(|bound| number(*bound, format));
        for (bound, bucket) in bounds.chain(["+Inf".to_owned()]).zip(&series.buckets) {
            count += bucket.load(Ordering::Relaxed);
            let comma = if labels.is_empty() { "" } else { "," };
            let labels = format!("{labels}{comma}le=\"{bound}\"");
            sample(out, self.name, "_bucket", &labels, &count.to_string());
        }
        let sum = f64::from_bits(series.value.load(Ordering::Relaxed));
        sample(out, self.name, "_sum", labels, &number(sum, Format::Prometheus));
        sample(out, self.name, "_count", labels, &count.to_string());
    }

    /// Returns the labels of a series as they are written, without braces.
    fn labels_of(&self, key: &str) -> String {
        let mut text = String::new();
        for (label, value) in self.labels.iter().zip(key.split(BETWEEN)) {
            let comma = if text.is_empty() { "" } else { "," };
            _ = write!(text, "{comma}{label}=\"");
            for char in value.chars() {
                match char {
                    '\\' => text.push_str("\\\\"),
                    '"' => text.push_str("\\\""),
                    '\n' => text.push_str("\\n"),
                    char => text.push(char),
                }
            }
            text.push('"');
        }
        text
    }
}

impl Series {
    pub(crate) fn add(&self, value: f64) {
        self.update(|sum| sum + value);
    }

    /// Sets a counter to the value of another count, which never decreases.
    pub(crate) fn raise_to(&self, value: f64) {
        self.update(|count| count.max(value));
    }

    fn update(&self, update: impl Fn(f64) -> f64) {
        _ = self.value.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
            Some(update(f64::from_bits(bits)).to_bits())
        });
    }

    pub(crate) fn set(&self, value: f64) {
        self.value.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// Returns the key of a series.
fn key(values: &[&str]) -> String {
    let mut key = String::with_capacity(values.iter().map(|value| value.len() + 1).sum());
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            key.push(BETWEEN);
        }
        if value.contains(BETWEEN) {
            key.push_str(&value.replace(BETWEEN, "\u{fffd}"));
        } else {
            key.push_str(value);
        }
    }
    key
}

fn unit(family: &str) -> Option<&str> {
    ["seconds", "bytes"]
        .into_iter()
        .find(|unit| family.strip_suffix(unit).is_some_and(|it| it.ends_with('_')))
}

fn number(value: f64, format: Format) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    // OpenMetrics wants bounds as floats ("1.0").
    match format {
        Format::OpenMetrics => format!("{value:?}"),
        Format::Prometheus => value.to_string(),
    }
}

fn sample(out: &mut String, name: &str, ending: &str, labels: &str, value: &str) {
    out.push_str(name);
    out.push_str(ending);
    if !labels.is_empty() {
        out.push('{');
        out.push_str(labels);
        out.push('}');
    }
    out.push(' ');
    out.push_str(value);
    out.push('\n');
}
