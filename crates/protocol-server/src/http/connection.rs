//! The open connections, and which of them is closed to make room for another.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Caller,
    fair::{FairBounds, FairLimiter, Full, Slot},
};

/// The open connections. A new connection gets in as long as another one is silent: clients that
/// connect and send nothing must not keep others out.
pub(super) struct Connections {
    slots: FairLimiter,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    started: Instant,
}

/// A connection to a client.
#[derive(Debug)]
pub(super) struct Connection {
    number: u64,
    address: SocketAddr,
    caller: Caller,
    slot: Mutex<Option<Slot>>,
    started: Instant,
    /// Number of requests whose body has arrived and whose answer has not been sent. At zero the
    /// connection is silent. It may be negative for a moment: an answer may be sent before its
    /// request's body is dropped.
    busy: AtomicIsize,
    /// Time since which it is silent, in milliseconds after `started`.
    silent_since: AtomicU64,
    /// Woken when the connection becomes silent.
    waits_for_silence: AtomicWaker,
    /// Whether the body of a request was not read to its end.
    body_open: AtomicBool,
    /// Bytes of answers that the transport has taken; for HTTP/2.
    sent: AtomicU64,
    /// Number of answers that wait for the client; for HTTP/2.
    backlogged: AtomicUsize,
    /// Cancelled to close the connection at once.
    pub(super) kill: CancellationToken,
    /// Cancelled when the client has shut down its writing side, or has gone; both look the same.
    pub(super) half_closed: CancellationToken,
    /// Cancelled when a shutdown no longer waits for calls.
    pub(super) cut: CancellationToken,
}

/// The connection of a request; [`serve`](super::serve) adds it to the request's extensions.
#[derive(Clone, Debug)]
pub struct ConnectionInfo(pub(super) Arc<Connection>);

impl ConnectionInfo {
    /// Returns the client's address, or the address of a proxy in front of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Completes when the client has shut down its writing side, or has gone: both look the same. A
    /// client that only shuts down its writing side still wants its answer.
    pub fn half_closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.half_closed.clone().cancelled_owned()
    }
}

impl Connections {
    pub(super) fn new(max: usize, max_per_address: usize) -> Self {
        let bounds = FairBounds {
            what: "connections are open",
            total_setting: "max_connections",
            per_caller_setting: "max_connections_per_address",
            total: max,
            per_caller: max_per_address,
            queued: 0,
            wait: Duration::ZERO,
        };
        Self {
            slots: FairLimiter::new(bounds),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            started: Instant::now(),
        }
    }

    /// Admits a connection. At a limit, a silent connection is closed: of those of the same address
    /// if that has too many, otherwise of the address with the most silent ones; in each case the
    /// one silent for the longest.
    ///
    /// # Errors
    /// Returns an error if no silent connection can make room.
    pub(super) fn admit(
        &self,
        address: SocketAddr,
        cut: &CancellationToken,
    ) -> Result<Arc<Connection>, Full> {
        let caller = Caller::address(address.ip());
        let mut open = self.open();
        let slot = loop {
            match self.slots.try_enter(&caller, 1) {
                Ok(slot) => break slot,
                Err(full) => {
                    let same_address = matches!(full, Full::Caller { .. });
                    let victim = victim(&open, same_address.then_some(&caller)).ok_or(full)?;
                    if let Some(victim) = open.remove(&victim) {
                        victim.close();
                    }
                }
            }
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            number,
            address,
            caller,
            slot: Mutex::new(Some(slot)),
            started: self.started,
            busy: AtomicIsize::new(0),
            silent_since: AtomicU64::new(millis(self.started.elapsed())),
            waits_for_silence: AtomicWaker::new(),
            body_open: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            backlogged: AtomicUsize::new(0),
            kill: CancellationToken::new(),
            half_closed: CancellationToken::new(),
            cut: cut.clone(),
        });
        open.insert(number, connection.clone());
        Ok(connection)
    }

    /// Removes a connection that has ended.
    pub(super) fn leave(&self, connection: &Connection) {
        self.open().remove(&connection.number);
        connection.close();
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the connection of `of` that was silent for the longest, otherwise of the address with
/// the most silent ones; of several such addresses, the one silent for the longest.
fn victim(open: &HashMap<u64, Arc<Connection>>, of: Option<&Caller>) -> Option<u64> {
    let silent: Vec<_> = open.values().filter(|connection| connection.is_silent()).collect();
    let caller = if let Some(caller) = of {
        caller
    } else {
        let mut counts = HashMap::<&Caller, (usize, Reverse<u64>)>::new();
        for connection in &silent {
            let since = Reverse(connection.silent_since.load(Ordering::Relaxed));
            let (count, longest) = counts.entry(&connection.caller).or_insert((0, since));
            *count += 1;
            *longest = since.max(*longest);
        }
        counts.into_iter().max_by_key(|(_, count)| *count)?.0
    };
    let own = silent.iter().filter(|connection| connection.caller == *caller);
    let longest = own.min_by_key(|it| (it.silent_since.load(Ordering::Relaxed), it.number))?;
    Some(longest.number)
}

impl Connection {
    /// Marks the start of a request; its answer is pending as long as the guard exists.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy { connection: self.clone() }
    }

    fn become_silent(&self) {
        self.silent_since.store(millis(self.started.elapsed()), Ordering::Relaxed);
        self.busy.fetch_sub(1, Ordering::AcqRel);
        self.waits_for_silence.wake();
    }

    /// Marks the wait for a request's body: meanwhile the connection counts as silent.
    pub(super) fn waits_for_body(self: &Arc<Self>) -> BodyWait {
        self.become_silent();
        BodyWait { connection: self.clone() }
    }

    /// Completes when the connection is silent.
    pub(super) fn poll_silent(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waits_for_silence.register(cx.waker());
        if self.is_silent() { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.busy.load(Ordering::Acquire) <= 0
    }

    /// Returns how long it has been silent.
    pub(super) fn silence(&self) -> Option<Duration> {
        let since = Duration::from_millis(self.silent_since.load(Ordering::Relaxed));
        self.is_silent().then(|| self.started.elapsed().saturating_sub(since))
    }

    pub(super) fn body_is_open(&self) -> bool {
        self.body_open.load(Ordering::Relaxed)
    }

    pub(super) fn set_body_open(&self, open: bool) {
        self.body_open.store(open, Ordering::Relaxed);
    }

    /// Marks data that waits for the client, as long as the guard exists.
    pub(super) fn backlog(self: &Arc<Self>) -> Backlog {
        self.backlogged.fetch_add(1, Ordering::Relaxed);
        Backlog { connection: self.clone() }
    }

    pub(super) fn is_backlogged(&self) -> bool {
        self.backlogged.load(Ordering::Relaxed) > 0
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Closes the connection, whose slot is free at once.
    fn close(&self) {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.kill.cancel();
    }
}

/// See [`Connection::begin`].
pub(super) struct Busy {
    connection: Arc<Connection>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.connection.become_silent();
    }
}

/// See [`Connection::waits_for_body`].
pub(super) struct BodyWait {
    connection: Arc<Connection>,
}

impl Drop for BodyWait {
    fn drop(&mut self) {
        self.connection.busy.fetch_add(1, Ordering::Relaxed);
    }
}

/// See [`Connection::backlog`].
pub(super) struct Backlog {
    connection: Arc<Connection>,
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.connection.backlogged.fetch_sub(1, Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_silent_connection_of_the_address_with_the_most_makes_room() {
        let connections = Connections::new(4, 3);
        let one = admit(&connections, "192.0.2.1").unwrap();
        let busy = admit(&connections, "192.0.2.2").unwrap();
        let _request = busy.begin();
        tokio::time::advance(Duration::from_secs(1)).await;
        let silent =
            [admit(&connections, "192.0.2.2").unwrap(), admit(&connections, "192.0.2.2").unwrap()];
        let new = admit(&connections, "192.0.2.3").unwrap();
        assert_eq!([killed(&one), killed(&busy)], [false, false]);
        assert_eq!(silent.each_ref().map(killed), [true, false]);
        // All addresses have equally many now: the connection silent for the longest is closed.
        let third = admit(&connections, "192.0.2.2").unwrap();
        assert_eq!([killed(&one), killed(&silent[1]), killed(&new)], [true, false, false]);
        // One address has too many: one of its own connections is closed.
        let fourth = admit(&connections, "192.0.2.2").unwrap();
        assert_eq!([killed(&silent[1]), killed(&third), killed(&new)], [true, false, false]);
        let requests = [third.begin(), fourth.begin(), new.begin()];
        assert!(admit(&connections, "192.0.2.9").is_err(), "no connection is silent");
        drop(requests);
    }

    fn killed(connection: &Arc<Connection>) -> bool {
        connection.kill.is_cancelled()
    }

    fn admit(connections: &Connections, address: &str) -> Result<Arc<Connection>, Full> {
        let address = SocketAddr::new(address.parse().unwrap(), 1);
        connections.admit(address, &CancellationToken::new())
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_silence() {
        let connections = Connections::new(1, 1);
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let connection = connections.admit(address, &CancellationToken::new()).unwrap();
        let request = connection.begin();
        assert!(!connection.is_silent());
        let wait = connection.waits_for_body();
        assert!(connection.is_silent());
        drop(wait);
        assert!(!connection.is_silent());
        drop(request);
        assert!(connection.is_silent());
        connections.leave(&connection);
        assert_eq!(connections.slots.used(), 0);
    }
}
