//! Long work of the processor.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Work on fewer bytes is done at once.
const LONG: usize = 256 << 10;

/// Does `work` on some bytes without delaying other tasks: before long work, the runtime gives the
/// other tasks of this thread to another one, if it has several.
pub fn in_place<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || {
        let handle = Handle::try_current();
        handle.is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    if bytes >= LONG && has_threads() { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn a_runtime_with_one_thread_works_at_once() {
        assert_eq!(in_place(LONG, || 7), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_work_does_not_delay_other_tasks() {
        let started = Instant::now();
        let other = tokio::spawn(async move { started.elapsed() });
        let long = tokio::spawn(async {
            in_place(LONG, || std::thread::sleep(Duration::from_millis(300)));
        });
        long.await.unwrap();
        assert!(other.await.unwrap() < Duration::from_millis(200));
    }
}
