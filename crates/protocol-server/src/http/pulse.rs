//! Waits that almost always end early share one timer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// Beats while somebody waits.
///
/// A timer of its own for each request wakes the thread that waits for input and output, since it
/// ends before all other timers: two more system calls for each request.
#[derive(Clone)]
pub(super) struct Pulse {
    beats: Arc<Beats>,
    period: Duration,
}

#[derive(Default)]
struct Beats {
    beat: Notify,
    waiting: AtomicUsize,
    is_running: AtomicBool,
}

/// Beats without a wait until the timer stops.
const IDLE_BEATS: u32 = 4;

impl Pulse {
    pub(super) fn new(period: Duration) -> Self {
        Self { beats: Arc::default(), period }
    }

    /// Waits for `time`, or up to a period longer.
    pub(super) async fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        self.beats.waiting.fetch_add(1, SeqCst);
        let _waits = Waits(&self.beats);
        while Instant::now() < until {
            let beat = self.beats.beat.notified();
            if !self.beats.is_running.swap(true, SeqCst) {
                tokio::spawn(self.clone().run());
            }
            beat.await;
        }
    }

    async fn run(self) {
        loop {
            let mut idle = 0;
            while idle < IDLE_BEATS {
                tokio::time::sleep(self.period).await;
                self.beats.beat.notify_waiters();
                idle = if self.beats.waiting.load(SeqCst) == 0 { idle + 1 } else { 0 };
            }
            self.beats.is_running.store(false, SeqCst);
            // A wait that began before the line above has not started the timer.
            if self.beats.waiting.load(SeqCst) == 0 || self.beats.is_running.swap(true, SeqCst) {
                return;
            }
        }
    }
}

struct Waits<'a>(&'a Beats);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}
