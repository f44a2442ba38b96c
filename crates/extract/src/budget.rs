//! Limits the bytes that all readers of this process unpack at the same time.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Limits, Stop, Stopped};

/// The budget of this process.
pub(crate) static UNPACKED: Budget = Budget::new();

/// Interval at which a waiting reader checks whether the caller disconnected.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The bytes that readers have reserved, and the readers that wait.
///
/// Readers are served in the order of their arrival, so that small documents do not starve a large
/// one. A reader reserves once, before it unpacks, and never waits while it holds a reservation, so
/// that readers cannot deadlock.
pub(crate) struct Budget {
    state: Mutex<Reservations>,
    changed: Condvar,
}

struct Reservations {
    reserved: u64,
    next_ticket: u64,
    waiting: VecDeque<u64>,
}

/// The right of a reader to unpack a number of bytes, until it is dropped.
pub(crate) struct Reservation {
    budget: &'static Budget,
    bytes: u64,
}

impl Budget {
    const fn new() -> Self {
        let state = Reservations { reserved: 0, next_ticket: 0, waiting: VecDeque::new() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until all reservations fit into [`Limits::max_unpacked_bytes_at_once`], or until there
    /// is no other reservation. The wait does not count for the time limit of the document.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller has gone.
    pub(crate) fn reserve(
        &'static self,
        bytes: u64,
        limits: &Limits,
        stop: &Stop,
    ) -> Result<Reservation, Stopped> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        loop {
            let fits = state.reserved == 0
                || state.reserved.saturating_add(bytes) <= limits.max_unpacked_bytes_at_once;
            if fits && state.waiting.front() == Some(&ticket) {
                state.waiting.pop_front();
                state.reserved += bytes;
                break;
            }
            if stop.is_now() {
                state.waiting.retain(|waiting| *waiting != ticket);
                self.changed.notify_all();
                return Err(Stopped::Now);
            }
            let began = Instant::now();
            let waited = self.changed.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            stop.exclude(began.elapsed());
        }
        // The next waiting reader may fit as well.
        self.changed.notify_all();
        Ok(Reservation { budget: self, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, Reservations> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.lock().reserved -= self.bytes;
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;

    fn limits() -> Limits {
        Limits { max_unpacked_bytes_at_once: 100, ..Limits::default() }
    }

    fn budget() -> &'static Budget {
        Box::leak(Box::new(Budget::new()))
    }

    /// Starts a thread that reserves bytes and then sends their number; returns once it waits.
    fn start_waiting(
        budget: &'static Budget,
        sender: &mpsc::Sender<u64>,
        bytes: u64,
    ) -> thread::JoinHandle<Reservation> {
        let sender = sender.clone();
        let before = budget.lock().waiting.len();
        let thread = thread::spawn(move || {
            let reservation = budget.reserve(bytes, &limits(), &Stop::never()).unwrap();
            sender.send(bytes).unwrap();
            reservation
        });
        while budget.lock().waiting.len() == before {
            thread::yield_now();
        }
        thread
    }

    #[test]
    fn readers_wait_in_their_order_until_their_bytes_are_free() {
        let budget = budget();
        let first = budget.reserve(60, &limits(), &Stop::never()).unwrap();
        let (sender, order) = mpsc::channel();
        // More bytes than the whole budget: this reader gets the budget alone. The small one would
        // fit at once.
        let large = start_waiting(budget, &sender, 1_000);
        let small = start_waiting(budget, &sender, 10);
        assert!(order.recv_timeout(Duration::from_millis(60)).is_err());
        drop(first);
        assert_eq!(order.recv(), Ok(1_000));
        assert!(order.recv_timeout(Duration::from_millis(60)).is_err());
        drop(large.join().unwrap());
        assert_eq!(order.recv(), Ok(10));
        drop(small.join().unwrap());
        assert_eq!(budget.lock().reserved, 0);
    }

    #[test]
    fn waiting_takes_no_time_of_the_document_and_ends_with_its_caller() {
        let budget = budget();
        let first = budget.reserve(100, &limits(), &Stop::never()).unwrap();
        let stop = Stop::within(Duration::from_millis(50));
        let waiting = {
            let stop = stop.clone();
            thread::spawn(move || budget.reserve(1, &limits(), &stop).map(drop))
        };
        thread::sleep(Duration::from_millis(150));
        assert!(!waiting.is_finished());
        drop(first);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        assert_eq!(stop.check(), Ok(()), "it waited for longer than its time");

        let _first = budget.reserve(100, &limits(), &Stop::never()).unwrap();
        let gone = Stop::never();
        gone.now();
        assert_eq!(budget.reserve(1, &limits(), &gone).map(drop), Err(Stopped::Now));
        assert!(budget.lock().waiting.is_empty());
    }
}
