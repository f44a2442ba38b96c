//! The function of the fuzz target `query` in `fuzz/`. Compiled only for it and for the test that
//! replays its corpus.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use crate::{Pattern, QueryLimits, SearchRequest, Table, jq, search, sql};

/// A fuzz target: runs its input, and panics if a result breaks a limit.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("query", query)];

/// Runs a query, the first line of the input, over the others.
pub fn query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (query, data) = text.split_once('\n').unwrap_or((&text, ""));
    let limits = QueryLimits {
        time: Duration::from_millis(200),
        max_value_bytes: 1 << 20,
        max_output_bytes: 100,
        max_rows: 5,
        ..QueryLimits::default()
    };

    let started = Instant::now();
    let request = SearchRequest::new(Pattern::Regex(query.to_owned()));
    if let Ok(found) = search(data, &request, &limits) {
        assert!(found.shown <= found.total && found.total <= found.text_lines);
    }
    if let Ok(output) = jq(data, query, &limits) {
        assert!(output.text.len() <= 100 && output.values <= 5);
    }
    for table in [Table::from_csv(data, b','), Table::from_json(data)].into_iter().flatten() {
        if let Ok(output) = polled(sql(&[table], query, &limits)) {
            assert!(output.csv.len() <= 100 && output.rows <= 5);
        }
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{query}");
}

/// Polls a future that never waits for anything outside of it.
fn polled<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once made a target fail, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
