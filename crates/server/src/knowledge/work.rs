//! Work that takes a processor for long: reading documents, cutting and embedding texts.

use std::{
    sync::{Arc, LazyLock},
    thread,
};

use tokio::sync::Semaphore;

use super::{ErrorCode, Failure};

/// How many do such work at a time. It bounds what the work itself takes, not what waits for it: whoever waits holds the
/// document already, at most `knowledge.max_content_bytes` for each request in flight.
struct Turns(Arc<Semaphore>);

/// Those of this process, for all callers together: some for each processor, since not all of the work computes.
static TURNS: LazyLock<Turns> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    Turns::new((2 * processors).max(4))
});

/// Does it where that holds nobody up. Whoever waits for a turn and goes away takes none; what has begun keeps its
/// turn to its end, whether anybody waits for it or not.
///
/// # Errors
///
/// The work's own, and [`ErrorCode::Internal`] if it panics.
pub(crate) async fn worked<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    TURNS.work(what, work).await
}

impl Turns {
    fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    async fn work<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let failed = || Failure::new(ErrorCode::Internal, format!("{what} failed"));
        let turn = self.0.clone().acquire_owned().await.map_err(|_| failed())?;
        let work = move || {
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| failed())?
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        time::Duration,
    };

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn so_many_work_at_a_time_even_if_nobody_waits_for_them() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let work = || {
            MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            NOW.fetch_sub(1, SeqCst);
            Ok(())
        };
        static TURNS: LazyLock<Turns> = LazyLock::new(|| Turns::new(2));
        for round in 0..8 {
            let one = tokio::spawn(TURNS.work("it", work));
            // Half of them are given up while they work or wait.
            if round % 2 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                one.abort();
            }
        }
        for _ in 0..4 {
            TURNS.work("it", work).await.unwrap();
        }
        // On a busy machine no two need ever overlap.
        assert!((1..=2).contains(&MOST.load(SeqCst)), "{MOST:?}");
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_and_gives_its_turn_back() {
        let turns = Turns::new(2);
        for _ in 0..4 {
            let failed = turns.work::<()>("reading", || panic!("on purpose")).await.unwrap_err();
            assert_eq!((failed.code, &*failed.message), (ErrorCode::Internal, "reading failed"));
        }
    }
}
