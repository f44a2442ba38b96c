//! Values that are read when the metrics are asked for.

/// The source of values that are read when the metrics are asked for.
pub trait GaugeSource: Send + Sync + 'static {
    /// Returns the upstreams. A disabled upstream is left out.
    fn upstreams(&self) -> Vec<UpstreamGauges>;

    /// Returns the number of definitions of upstreams that differ from their pins.
    fn pins_changed(&self) -> usize;

    /// Returns the number of requests in flight.
    fn in_flight(&self) -> usize;

    /// Returns the number of open sessions.
    fn sessions(&self) -> usize;
}

/// The values of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamGauges {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub is_up: bool,
    /// Its running instances.
    pub instances: usize,
    /// How often it was started again.
    pub restarts: u64,
}

impl UpstreamGauges {
    /// Creates the values of an upstream with one instance while it is up.
    #[must_use]
    pub fn new(name: &str, is_up: bool, restarts: u64) -> Self {
        Self { name: name.to_owned(), is_up, instances: usize::from(is_up), restarts }
    }
}
