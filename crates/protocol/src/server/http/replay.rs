//! What a session's streams have said, for clients whose connection broke (2025-11-25, "Resumability and Redelivery").

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use crate::server::outgoing::{Kind, Outgoing};

/// The streams of one session, with the events that may be asked for again. Bounded in bytes, the oldest go first, and
/// in time from the end of a stream on.
#[derive(Debug)]
pub(super) struct Replay {
    state: Mutex<Streams>,
    most_bytes: usize,
    time: Duration,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, Arc<Log>>,
    bytes: usize,
}

/// The events of one stream.
#[derive(Debug)]
pub(super) struct Log {
    stream: u64,
    replay: Weak<Replay>,
    state: Mutex<Events>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Events {
    /// The number of the first event that is still there.
    first: u64,
    kept: VecDeque<Bytes>,
    ended: bool,
}

/// The id of an event: its stream, and its number there. Number 0 is the stream's opening, before any event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct EventId {
    stream: u64,
    number: u64,
}

impl Replay {
    pub(super) fn new(most_bytes: usize, time: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), most_bytes, time })
    }

    /// A log for a new stream.
    pub(super) fn open(self: &Arc<Self>) -> Arc<Log> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = state.next;
        state.next += 1;
        let events = Events { first: 1, ..Events::default() };
        let log = Arc::new(Log {
            stream,
            replay: Arc::downgrade(self),
            state: Mutex::new(events),
            changed: Notify::new(),
        });
        state.open.insert(stream, log.clone());
        log
    }

    /// The events after `last`, those still to come included; none when they are no longer known.
    pub(super) fn resume(
        &self,
        last: EventId,
        most_queued: usize,
    ) -> Option<mpsc::Receiver<Outgoing>> {
        let log = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .open
            .get(&last.stream)
            .cloned()?;
        let mut number = last.number.checked_add(1)?;
        {
            let events = log.state.lock().unwrap_or_else(PoisonError::into_inner);
            let end = events.first + events.kept.len() as u64;
            if !(events.first..=end).contains(&number) {
                return None;
            }
        }
        let (sender, events) = mpsc::channel(most_queued);
        tokio::spawn(async move {
            loop {
                let changed = log.changed.notified();
                let (event, ended) = log.event(number);
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

    /// Makes room, from the oldest stream on. The newest event stays, however long it is: it may be an answer.
    fn make_room(&self, state: &mut Streams) {
        let Streams { open, bytes, .. } = state;
        for log in open.values() {
            let mut events = log.state.lock().unwrap_or_else(PoisonError::into_inner);
            while *bytes > self.most_bytes && events.kept.len() > 1 {
                *bytes -= events.kept.pop_front().map_or(0, |event| event.len());
                events.first += 1;
            }
        }
        let (mut bytes, most) = (state.bytes, self.most_bytes);
        let newest = state.open.keys().next_back().copied();
        state.open.retain(|stream, log| {
            if bytes <= most || newest == Some(*stream) {
                return true;
            }
            let events = log.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !events.ended {
                return true;
            }
            bytes -= events.kept.iter().map(Bytes::len).sum::<usize>();
            false
        });
        state.bytes = bytes;
    }

    fn forget(&self, stream: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = state.open.remove(&stream) {
            let events = log.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.bytes -= events.kept.iter().map(Bytes::len).sum::<usize>();
        }
    }
}

impl Log {
    /// The id of the stream's opening: a client that saw nothing else can come back with it.
    pub(super) fn opening(&self) -> EventId {
        EventId { stream: self.stream, number: 0 }
    }

    /// Keeps an event and gives it its id.
    pub(super) fn append(&self, bytes: &Bytes) -> EventId {
        let number = {
            let mut events = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            events.kept.push_back(bytes.clone());
            events.first + events.kept.len() as u64 - 1
        };
        if let Some(replay) = self.replay.upgrade() {
            let mut state = replay.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.bytes += bytes.len();
            if state.bytes > replay.most_bytes {
                replay.make_room(&mut state);
            }
        }
        self.changed.notify_waiters();
        EventId { stream: self.stream, number }
    }

    /// The stream has said all. It is kept for a while.
    pub(super) fn end(&self) {
        {
            let mut events = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::replace(&mut events.ended, true) {
                return;
            }
        }
        self.changed.notify_waiters();
        let (replay, stream) = (self.replay.clone(), self.stream);
        let Some(time) = replay.upgrade().map(|replay| replay.time) else { return };
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            if let Some(replay) = replay.upgrade() {
                replay.forget(stream);
            }
        });
    }

    /// Goes on where a connection broke: keeps what is still to come.
    pub(super) fn take_over(self: Arc<Self>, mut messages: mpsc::Receiver<Outgoing>) {
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                // The stream that this would close is closed.
                if !matches!(message.kind, Kind::Close(_)) {
                    self.append(&message.bytes);
                }
            }
            self.end();
        });
    }

    fn event(&self, number: u64) -> (Option<Bytes>, bool) {
        let events = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let index = number.checked_sub(events.first).and_then(|index| usize::try_from(index).ok());
        (index.and_then(|index| events.kept.get(index).cloned()), events.ended)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (stream, number) = text.split_once('-').ok_or(())?;
        Ok(Self { stream: stream.parse().map_err(drop)?, number: number.parse().map_err(drop)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn events_after_the_last_one_come_again_and_those_to_come_too() {
        let replay = Replay::new(1_000, Duration::from_secs(60));
        let log = replay.open();
        for text in ["a", "b", "c"] {
            log.append(&Bytes::from_static(text.as_bytes()));
        }
        let mut events = replay.resume("0-1".parse().unwrap(), 4).unwrap();
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

    #[tokio::test]
    async fn bytes_and_time_are_bounded() {
        let replay = Replay::new(10, Duration::from_millis(20));
        let old = replay.open();
        for _ in 0..5 {
            old.append(&Bytes::from_static(b"12345"));
        }
        assert!(replay.resume(old.opening(), 4).is_none());
        assert!(replay.resume("0-4".parse().unwrap(), 4).is_some());
        old.end();
        let new = replay.open();
        new.append(&Bytes::from(vec![b'x'; 50]));
        // An answer stays, however long; older streams that have ended make room for it.
        assert!(replay.resume(new.opening(), 4).is_some());
        assert!(replay.resume("0-4".parse().unwrap(), 4).is_none());
        new.end();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(replay.resume(new.opening(), 4).is_none());
        let state = replay.state.lock().unwrap();
        assert_eq!((state.open.len(), state.bytes), (0, 0));
    }

    #[test]
    fn ids_that_are_not_ours_are_refused() {
        for text in ["", "-", "1", "1-", "-1", "a-b", "1-2-3", "99999999999999999999-1"] {
            assert!(text.parse::<EventId>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn ids_from_the_future_are_refused() {
        let replay = Replay::new(1_000, Duration::from_secs(60));
        replay.open().append(&Bytes::from_static(b"a"));
        for (id, known) in
            [("0-0", true), ("0-1", true), ("0-2", false), ("0-18446744073709551615", false)]
        {
            assert_eq!(replay.resume(id.parse().unwrap(), 4).is_some(), known, "{id}");
        }
    }
}
