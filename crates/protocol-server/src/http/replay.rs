//! Sent events of sessions, stored for clients whose connection broke (2025-11-25, "Resumability
//! and Redelivery").

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use crate::{
    event_id::EventId,
    limits::Limits,
    outgoing::{Kind, Outgoing},
};

/// The events of all sessions of an endpoint, with a common limit.
#[derive(Debug)]
pub(super) struct ReplayStore {
    replays: Mutex<Vec<Weak<Replay>>>,
    bytes: AtomicUsize,
    /// Number of bytes below which no attempt is made to free more, because the last attempt freed
    /// too little. Without it, each event would walk over all sessions for nothing.
    retry_above_bytes: AtomicUsize,
    max_bytes: usize,
    max_session_bytes: usize,
    /// Time for which a stream stays after its end: the connection may break while the answer is on
    /// its way. rmcp 3.9 resumes such a stream with status 200 and no event; the answer is lost.
    time: Duration,
}

/// The streams of one session with their stored events. At the limit of bytes, the oldest events
/// are dropped first. An ended stream is dropped after some time.
/// The streams are locked before the events of one of them.
#[derive(Debug)]
pub(super) struct Replay {
    streams: Mutex<Streams>,
    store: Arc<ReplayStore>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    logs: BTreeMap<u64, Arc<Log>>,
    /// Ended streams with the time of their end, the earliest first. A timer for each stream, and a
    /// walk over all of them, took three quarters of the CPU time of a small call.
    ended: VecDeque<(Instant, u64)>,
    bytes: usize,
}

/// The stored events of one stream.
#[derive(Debug)]
pub(super) struct Log {
    stream: u64,
    replay: Weak<Replay>,
    events: Mutex<Events>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Events {
    /// Number of the first stored event.
    first: u64,
    stored: VecDeque<Bytes>,
    ended: bool,
}

/// Approximate memory of a stream without its events. It is counted, so that very many short
/// streams are limited, too.
const STREAM_BYTES: usize = 256;

impl ReplayStore {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            replays: Mutex::default(),
            bytes: AtomicUsize::new(0),
            retry_above_bytes: AtomicUsize::new(0),
            max_bytes: limits.replay_total_bytes,
            max_session_bytes: limits.replay_bytes,
            time: limits.replay_time,
        })
    }

    /// Adds the storage of a new session.
    pub(super) fn add_session(self: &Arc<Self>) -> Arc<Replay> {
        let replay = Arc::new(Replay { streams: Mutex::default(), store: self.clone() });
        let mut replays = locked(&self.replays);
        // Entries of ended sessions are removed when the list is full, so that the cost for each
        // session is small.
        if replays.len() == replays.capacity() {
            replays.retain(|replay| replay.strong_count() > 0);
        }
        replays.push(Arc::downgrade(&replay));
        replay
    }

    /// Drops expired streams.
    pub(super) fn drop_expired(&self) {
        for replay in self.all() {
            replay.drop_expired();
        }
    }

    /// Frees an eighth of the limit, so that not every event walks over all sessions. Sessions drop
    /// ended streams, beginning with the session whose stream ended first. Then the largest
    /// sessions drop the oldest events of running streams. Each running stream keeps its newest
    /// event and its entry, so very many running streams may exceed the limit.
    fn make_room(&self) {
        let enough = self.max_bytes - self.max_bytes / 8;
        let all = self.all();
        let mut with_ended: Vec<(Instant, &Arc<Replay>)> = all
            .iter()
            .filter_map(|replay| Some((locked(&replay.streams).ended.front()?.0, replay)))
            .collect();
        with_ended.sort_by_key(|(oldest, _)| *oldest);
        for (_, replay) in with_ended {
            while self.bytes() > enough
                && replay.drop_first_ended(&mut locked(&replay.streams), None)
            {}
        }
        if self.bytes() > enough {
            let mut by_size: Vec<(usize, &Arc<Replay>)> =
                all.iter().map(|replay| (locked(&replay.streams).bytes, replay)).collect();
            by_size.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
            for (_, replay) in by_size {
                replay.trim(&mut locked(&replay.streams), |_| self.bytes() <= enough);
            }
        }
        let left = self.bytes();
        let next = if left <= enough { 0 } else { left.saturating_add(self.max_bytes / 8) };
        self.retry_above_bytes.store(next, Ordering::Relaxed);
    }

    /// Returns whether the limit is exceeded and something may be dropped.
    fn is_full(&self) -> bool {
        let bytes = self.bytes();
        bytes > self.max_bytes && bytes > self.retry_above_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn all(&self) -> Vec<Arc<Replay>> {
        locked(&self.replays).iter().filter_map(Weak::upgrade).collect()
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Replay {
    /// Creates the log of a new stream.
    pub(super) fn open(self: &Arc<Self>) -> Arc<Log> {
        let mut streams = locked(&self.streams);
        let stream = streams.next;
        streams.next += 1;
        let events = Events { first: 1, ..Events::default() };
        let log = Arc::new(Log {
            stream,
            replay: Arc::downgrade(self),
            events: Mutex::new(events),
            changed: Notify::new(),
        });
        streams.logs.insert(stream, log.clone());
        streams.bytes += STREAM_BYTES;
        self.store.add(STREAM_BYTES);
        log
    }

    /// Returns the events after `last` and those to come; [`None`] if the events after `last` were
    /// dropped.
    pub(super) fn resume(
        &self,
        last: EventId,
        max_queued: usize,
    ) -> Option<mpsc::Receiver<Outgoing>> {
        // Between two sweeps, a client must not resume a stream whose time is over.
        self.drop_expired();
        let log = locked(&self.streams).logs.get(&last.stream).cloned()?;
        let mut number = last.number.checked_add(1)?;
        {
            let events = locked(&log.events);
            let end = events.first + events.stored.len() as u64;
            if !(events.first..=end).contains(&number) {
                return None;
            }
        }
        let (sender, events) = mpsc::channel(max_queued);
        tokio::spawn(async move {
            loop {
                // Created before the look at the events, so that a change in between wakes it.
                let changed = log.changed.notified();
                let (event, ended) = log.event(&mut number);
                match event {
                    Some(bytes) => {
                        let event = Outgoing::event(bytes, EventId { stream: log.stream, number });
                        if sender.send(event).await.is_err() {
                            return;
                        }
                        number += 1;
                    }
                    None if ended => return,
                    None => tokio::select! {
                        () = changed => {}
                        () = sender.closed() => return,
                    },
                }
            }
        });
        Some(events)
    }

    /// Frees space: drops ended streams first, then the oldest events of running streams. The
    /// newest event of a running stream stays, even a long one: it may be an answer. The newest
    /// stream stays, too.
    fn make_room(&self, streams: &mut Streams) {
        let max = self.store.max_session_bytes;
        let newest = streams.next.checked_sub(1);
        while streams.bytes > max && self.drop_first_ended(streams, newest) {}
        if streams.bytes > max {
            self.trim(streams, |bytes| bytes <= max);
        }
    }

    /// Drops the oldest events of each stream except its newest, until the session has few enough
    /// bytes.
    fn trim(&self, streams: &mut Streams, is_enough: impl Fn(usize) -> bool) {
        let Streams { logs, bytes, .. } = streams;
        for log in logs.values() {
            let mut events = locked(&log.events);
            while !is_enough(*bytes) && events.stored.len() > 1 {
                let gone = events.stored.pop_front().map_or(0, |event| event.len());
                events.first += 1;
                *bytes -= gone;
                self.store.remove(gone);
            }
        }
    }

    /// Drops the stream that ended first, except `spare`. Returns false if there is none.
    fn drop_first_ended(&self, streams: &mut Streams, spare: Option<u64>) -> bool {
        let Some((_, stream)) = streams.ended.front().copied() else { return false };
        if spare == Some(stream) {
            return false;
        }
        streams.ended.pop_front();
        if let Some(log) = streams.logs.remove(&stream) {
            let bytes = STREAM_BYTES + locked(&log.events).bytes();
            streams.bytes -= bytes;
            self.store.remove(bytes);
        }
        true
    }

    fn drop_expired(&self) {
        let mut streams = locked(&self.streams);
        let Some(oldest) = Instant::now().checked_sub(self.store.time) else { return };
        while streams.ended.front().is_some_and(|(ended, _)| *ended <= oldest) {
            self.drop_first_ended(&mut streams, None);
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        let streams = self.streams.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.store.remove(streams.bytes);
    }
}

impl Log {
    /// Returns the id before the first event, with which a client that received no event resumes
    /// the stream.
    pub(super) fn opening(&self) -> EventId {
        EventId { stream: self.stream, number: 0 }
    }

    /// Stores an event and returns its id.
    pub(super) fn append(&self, bytes: &Bytes) -> EventId {
        // The events are unlocked before the streams are locked; `trim` locks both, streams first.
        let number = {
            let mut events = locked(&self.events);
            events.stored.push_back(bytes.clone());
            events.first + events.stored.len() as u64 - 1
        };
        if let Some(replay) = self.replay.upgrade() {
            let mut streams = locked(&replay.streams);
            // A stream that was dropped while it was running is not counted.
            if streams.logs.contains_key(&self.stream) {
                streams.bytes += bytes.len();
                replay.store.add(bytes.len());
            }
            if streams.bytes > replay.store.max_session_bytes {
                replay.make_room(&mut streams);
            }
            // Freeing space locks the streams of every session, of this one too.
            drop(streams);
            if replay.store.is_full() {
                replay.store.make_room();
            }
        }
        self.changed.notify_waiters();
        EventId { stream: self.stream, number }
    }

    /// Marks the end of the stream. Its events are stored for some time.
    pub(super) fn end(&self) {
        if std::mem::replace(&mut locked(&self.events).ended, true) {
            return;
        }
        self.changed.notify_waiters();
        if let Some(replay) = self.replay.upgrade() {
            locked(&replay.streams).ended.push_back((Instant::now(), self.stream));
            // Now something can be dropped.
            replay.store.retry_above_bytes.store(0, Ordering::Relaxed);
            replay.drop_expired();
        }
    }

    /// Continues a stream whose connection broke: stores the later messages, including the answer.
    /// With `until_answered`, the stream ends with the answer.
    pub(super) fn take_over(
        self: Arc<Self>,
        mut messages: mpsc::Receiver<Outgoing>,
        until_answered: bool,
    ) {
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                // The stream that this message would close is closed already.
                if !matches!(message.kind, Kind::Close(_)) {
                    self.append(&message.bytes);
                }
                if until_answered && matches!(message.kind, Kind::Answer(_)) {
                    break;
                }
            }
            self.end();
        });
    }

    /// Returns the event with a number, or the first stored one after it; and whether the stream
    /// has ended.
    fn event(&self, number: &mut u64) -> (Option<Bytes>, bool) {
        let events = locked(&self.events);
        // A slow reader has lost dropped events; the rest, in particular the answer, is still
        // stored.
        *number = (*number).max(events.first);
        let index = number.checked_sub(events.first).and_then(|index| usize::try_from(index).ok());
        (index.and_then(|index| events.stored.get(index).cloned()), events.ended)
    }
}

impl Events {
    fn bytes(&self) -> usize {
        self.stored.iter().map(Bytes::len).sum()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn resume_sends_stored_and_later_events() {
        let replay = session(1_000, Duration::from_mins(1));
        let log = replay.open();
        for text in ["a", "b", "c"] {
            log.append(&Bytes::from_static(text.as_bytes()));
        }
        let mut events = replay.resume(EventId::parse("0-1").unwrap(), 4).unwrap();
        log.append(&Bytes::from_static(b"d"));
        log.end();
        let mut seen = Vec::new();
        while let Some(event) = events.recv().await {
            seen.push((event.id.unwrap().to_string(), event.bytes));
        }
        let want = [("0-2", "b"), ("0-3", "c"), ("0-4", "d")];
        assert_eq!(
            seen,
            want.map(|(id, text)| (id.to_owned(), Bytes::from_static(text.as_bytes())))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_and_time_are_bounded() {
        let replay = session(STREAM_BYTES + 10, Duration::from_secs(20));
        let old = replay.open();
        for _ in 0..5 {
            old.append(&Bytes::from_static(b"12345"));
        }
        assert!(replay.resume(old.opening(), 4).is_none());
        assert!(replay.resume(EventId::parse("0-4").unwrap(), 4).is_some());
        old.end();
        let new = replay.open();
        new.append(&Bytes::from(vec![b'x'; 50]));
        // An answer stays, even a long one; older ended streams are dropped for it.
        assert!(replay.resume(new.opening(), 4).is_some());
        assert!(replay.resume(EventId::parse("0-4").unwrap(), 4).is_none());
        new.end();
        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(replay.resume(new.opening(), 4).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        replay.store.drop_expired();
        let streams = locked(&replay.streams);
        assert_eq!((streams.logs.len(), streams.ended.len(), streams.bytes), (0, 0, 0));
        assert_eq!(replay.store.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_share_the_total_limit() {
        let limits = Limits {
            replay_bytes: 1_000_000,
            replay_total_bytes: 4 * (STREAM_BYTES + 100),
            ..Limits::default()
        };
        let store = ReplayStore::new(&limits);
        let sessions: Vec<_> = (0..5).map(|_| store.add_session()).collect();
        let opened = sessions.iter().map(|session| {
            let log = session.open();
            log.append(&Bytes::from(vec![b'x'; 100]));
            log.end();
            session.resume(log.opening(), 1).is_some()
        });
        assert_eq!(opened.filter(|kept| *kept).count(), 5, "the newest is always there");
        let opening = EventId { stream: 0, number: 0 };
        let kept: Vec<bool> =
            sessions.iter().map(|session| session.resume(opening, 1).is_some()).collect();
        assert_eq!(kept, [false, false, true, true, true], "an eighth is freed, the oldest first");
        drop(sessions);
        // A resumed stream holds its log, not its session.
        assert_eq!(store.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn the_largest_session_makes_room_where_nothing_has_ended() {
        let limits =
            Limits { replay_bytes: 1_000_000, replay_total_bytes: 8_000, ..Limits::default() };
        let store = ReplayStore::new(&limits);
        let small = store.add_session();
        let quiet = small.open();
        let large = store.add_session();
        let talks = large.open();
        for _ in 0..5 {
            quiet.append(&Bytes::from_static(b"quiet"));
        }
        for _ in 0..1_000 {
            talks.append(&Bytes::from(vec![b'x'; 100]));
            assert!(store.bytes() <= 8_000, "{}", store.bytes());
        }
        assert!(small.resume(quiet.opening(), 1).is_some());
        assert!(large.resume(talks.opening(), 1).is_none());
        assert!(large.resume(EventId::parse("0-999").unwrap(), 1).is_some());
        // Only newest events are left: there is no new attempt each time.
        let logs: Vec<_> = (0..100).map(|_| small.open()).collect();
        let mut tries = 0;
        for log in &logs {
            let before = store.retry_above_bytes.load(Ordering::Relaxed);
            log.append(&Bytes::from_static(b"an answer"));
            tries += usize::from(store.retry_above_bytes.load(Ordering::Relaxed) != before);
        }
        assert!((1..5).contains(&tries), "{tries}");
        assert_eq!(locked(&small.streams).logs.len(), 101);
    }

    #[tokio::test]
    async fn a_slow_reader_gets_the_answer_though_it_has_missed_some() {
        let replay = session(STREAM_BYTES + 10, Duration::from_mins(1));
        let log = replay.open();
        let mut events = replay.resume(log.opening(), 1).unwrap();
        for text in ["11111", "22222", "33333", "44444", "55555"] {
            log.append(&Bytes::from_static(text.as_bytes()));
            tokio::task::yield_now().await;
        }
        log.end();
        let mut last = None;
        let all = async {
            while let Some(event) = events.recv().await {
                last = Some((event.id.unwrap().to_string(), event.bytes));
            }
        };
        tokio::time::timeout(Duration::from_secs(5), all).await.unwrap();
        assert_eq!(last, Some(("0-5".to_owned(), Bytes::from_static(b"55555"))));
    }

    fn session(max_session_bytes: usize, time: Duration) -> Arc<Replay> {
        ReplayStore::new(&Limits {
            replay_bytes: max_session_bytes,
            replay_time: time,
            ..Limits::default()
        })
        .add_session()
    }

    #[test]
    fn ids_that_are_not_ours_are_refused() {
        for text in ["", "-", "1", "1-", "-1", "a-b", "1-2-3", "99999999999999999999-1"] {
            assert!(EventId::parse(text).is_none(), "{text}");
        }
    }

    #[tokio::test]
    async fn ids_from_the_future_are_refused() {
        let replay = session(1_000, Duration::from_mins(1));
        replay.open().append(&Bytes::from_static(b"a"));
        for (id, known) in
            [("0-0", true), ("0-1", true), ("0-2", false), ("0-18446744073709551615", false)]
        {
            assert_eq!(replay.resume(EventId::parse(id).unwrap(), 4).is_some(), known, "{id}");
        }
    }
}
