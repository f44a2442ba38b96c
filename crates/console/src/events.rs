//! The stream of events: numbered, bounded, and resumable after a lost connection.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    fmt::Write as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use serde::Serialize;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{Options, Viewer, random::run_name};

/// Events that happen within this time are sent together, so that a busy server does not wake the
/// page for each.
const BATCH_TIME: Duration = Duration::from_millis(100);
/// A comment is sent on a stream after this time without a byte, so that proxies keep it, and its
/// page notices a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The shortest time between two counts of calls on one stream. Counting reads the whole record of
/// calls.
const STATS_INTERVAL: Duration = Duration::from_secs(1);
/// Events of one batch; the rest follows at once.
const MAX_BATCH: usize = 500;
/// Time in which a page may reconnect and receive the events that it missed. Without a page for
/// longer, no events are created: most servers have no open page, and calls should not bear the
/// cost. A page that reconnects later gets an event that makes it reload all data.
const RECONNECT_TIME: Duration = Duration::from_mins(1);
/// Maximum size of all stored events together, in bytes of JSON. Events contain heads, never
/// bodies, so only long names can reach this limit.
const MAX_BYTES: usize = 8 << 20;

/// The viewers that receive an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Every viewer.
    Everyone,
    /// Administrators.
    Administrators,
    /// The principal whom the event concerns, and administrators.
    Owner(Option<String>),
    /// The principal whom the event concerns; without authentication, the viewers without one.
    OwnerAlone(Option<String>),
}

impl Audience {
    fn includes(&self, viewer: &Viewer) -> bool {
        match self {
            Self::Everyone => true,
            Self::Administrators => viewer.is_admin,
            Self::Owner(owner) => viewer.sees(owner.as_deref()),
            Self::OwnerAlone(owner) => viewer.owner == *owner,
        }
    }
}

/// The events of one run of the server.
pub struct Events {
    /// Distinguishes the event numbers of this run from those of other runs.
    run: String,
    log: Mutex<EventLog>,
    /// The number of the last event.
    last: watch::Sender<u64>,
    /// Whether the server is shutting down: all streams end first.
    is_closed: AtomicBool,
    /// Whether a page listens, or did so within [`RECONNECT_TIME`] before the last event.
    had_subscribers: AtomicBool,
    /// Whether events were skipped since the last stored one.
    has_skipped: AtomicBool,
    max_events: usize,
    max_streams: usize,
    streams: Arc<Mutex<OpenStreams>>,
}

/// The number of open streams of each principal.
type OpenStreams = BTreeMap<Option<String>, usize>;

#[derive(Default)]
struct EventLog {
    events: VecDeque<Event>,
    bytes: usize,
    /// The number of the last event.
    last: u64,
    /// Last call of [`Events::has_subscribers`] that found a page listening.
    last_subscribed: Option<Instant>,
}

struct Event {
    number: u64,
    audience: Audience,
    /// Whether a call began or ended, which changes the counts.
    is_call: bool,
    /// The event as the stream has it, without its number.
    frame: String,
}

/// A slot for one open stream; dropping it frees the slot.
pub(crate) struct StreamSlot {
    owner: Option<String>,
    streams: Arc<Mutex<OpenStreams>>,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = streams.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.owner);
            }
        }
    }
}

impl Events {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            run: run_name(),
            log: Mutex::default(),
            last: watch::Sender::new(0),
            is_closed: AtomicBool::new(false),
            had_subscribers: AtomicBool::new(false),
            has_skipped: AtomicBool::new(false),
            max_events: options.max_events,
            max_streams: options.max_streams,
            streams: Arc::default(),
        }
    }

    /// Returns the name of this run, the first part of the ids of events and calls.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Ends all streams, including those that are opened later.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.last.send_modify(|_| {});
    }

    /// Adds an event, unless no page would receive it; see [`Self::has_subscribers`]. `data`
    /// returns the fields that lists show, never whole answers. When there are too many events, the
    /// oldest are dropped.
    pub fn push<T: Serialize>(
        &self,
        name: &'static str,
        audience: impl FnOnce() -> Audience,
        data: impl FnOnce() -> T,
    ) {
        if !self.has_subscribers() {
            self.has_skipped.store(true, Ordering::Relaxed);
            return;
        }
        let Ok(data) = serde_json::to_string(&data()) else { return };
        let frame = format!("event: {name}\ndata: {data}\n\n");
        let audience = audience();
        let mut log = self.log();
        self.note_skipped(&mut log);
        log.last += 1;
        log.bytes += frame.len();
        let number = log.last;
        let is_call = matches!(name, "call.started" | "call.ended");
        log.events.push_back(Event { number, audience, is_call, frame });
        while log.events.len() > self.max_events || log.bytes > MAX_BYTES {
            let Some(oldest) = log.events.pop_front() else { break };
            log.bytes -= oldest.frame.len();
        }
        // Still under the lock, so that announced numbers ascend: if an older number came last, a
        // reader would wait although newer events exist.
        self.last.send_replace(number);
    }

    /// Returns whether a page listens, or did so within the last minute. Stores the time if one
    /// listens.
    #[must_use]
    pub fn has_subscribers(&self) -> bool {
        let listens = self.last.receiver_count() > 0;
        // Returns without a lock if possible, because every call of a tool gets here.
        if !listens && !self.had_subscribers.load(Ordering::Relaxed) {
            return false;
        }
        let mut log = self.log();
        let now = Instant::now();
        if listens {
            log.last_subscribed = Some(now);
        }
        let is_recent = log
            .last_subscribed
            .is_some_and(|last_subscribed| now.duration_since(last_subscribed) < RECONNECT_TIME);
        self.had_subscribers.store(is_recent, Ordering::Relaxed);
        is_recent
    }

    /// Leaves a gap in the numbers where events were skipped, so that a page that reconnects is
    /// told to reload all data.
    fn note_skipped(&self, log: &mut EventLog) {
        if self.has_skipped.swap(false, Ordering::Relaxed) {
            log.last += 1;
            log.events.clear();
            log.bytes = 0;
        }
    }

    /// Returns the number of streams that are open.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Returns the id of the last event, from which a page reads on.
    #[must_use]
    pub fn position(&self) -> String {
        let mut log = self.log();
        self.note_skipped(&mut log);
        self.id(log.last)
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    fn log(&self) -> MutexGuard<'_, EventLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot among the open streams; `None` if there are too many. One principal gets at
    /// most a quarter of the slots.
    pub(crate) fn acquire_slot(&self, viewer: &Viewer) -> Option<StreamSlot> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = streams.values().sum();
        let of_owner = streams.get(&viewer.owner).copied().unwrap_or_default();
        // Without authentication all viewers count as one, which may use every slot.
        let max_of_owner =
            if viewer.owner.is_some() { self.max_streams.div_ceil(4) } else { self.max_streams };
        if total >= self.max_streams || of_owner >= max_of_owner {
            return None;
        }
        streams.insert(viewer.owner.clone(), of_owner + 1);
        Some(StreamSlot { owner: viewer.owner.clone(), streams: self.streams.clone() })
    }

    /// Returns the number of the event after which a stream begins that resumes at `after`, and
    /// whether the page has missed events.
    fn resume_point(&self, after: Option<&str>) -> (u64, bool) {
        let mut log = self.log();
        self.note_skipped(&mut log);
        let Some(after) = after else { return (log.last, false) };
        let number = after
            .rsplit_once('-')
            .filter(|(run, _)| *run == self.run)
            .and_then(|(_, number)| number.parse::<u64>().ok());
        let oldest = log.events.front().map_or(log.last + 1, |event| event.number);
        match number {
            Some(number) if number <= log.last && number + 1 >= oldest => (number, false),
            _ => (log.last, true),
        }
    }

    /// Returns the events after `number` that the viewer may see.
    fn batch(&self, number: u64, viewer: &Viewer) -> Batch {
        let log = self.log();
        let oldest = log.events.front().map_or(log.last + 1, |event| event.number);
        if number + 1 < oldest {
            return Batch { text: self.reset(log.last), has_calls: true, last: log.last };
        }
        let skipped = usize::try_from(number + 1 - oldest).unwrap_or(usize::MAX);
        let mut batch = Batch { text: String::new(), has_calls: false, last: number };
        let mut count = 0;
        for event in log.events.iter().skip(skipped) {
            if count == MAX_BATCH {
                break;
            }
            batch.last = event.number;
            if event.audience.includes(viewer) {
                count += 1;
                batch.has_calls |= event.is_call;
                _ = write!(batch.text, "id: {}-{}\n{}", self.run, event.number, event.frame);
            }
        }
        batch
    }

    /// Returns the event that tells a page to reload all data.
    fn reset(&self, number: u64) -> String {
        format!("id: {}-{number}\nevent: reset\ndata: {{}}\n\n", self.run)
    }

    /// Returns the body of a stream that resumes after the event `after`, or begins now.
    pub(crate) fn stream(
        self: &Arc<Self>,
        viewer: Viewer,
        after: Option<&str>,
        slot: StreamSlot,
        stats: Box<dyn Fn(&Viewer) -> Value + Send>,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + use<> {
        let (number, is_reset) = self.resume_point(after);
        let first = if is_reset {
            self.reset(number)
        } else {
            format!("id: {}-{number}\nevent: hello\ndata: {{}}\n\n", self.run)
        };
        let changes = self.last.subscribe();
        let reader = Reader {
            events: self.clone(),
            viewer,
            number,
            changes,
            stats,
            stats_due: None,
            stats_sent: None,
            _slot: slot,
        };
        stream::unfold((Some(first), reader), async |(first, mut reader)| {
            let text = match first {
                Some(first) => first,
                None => reader.next().await?,
            };
            Some((Ok(Bytes::from(text)), (None, reader)))
        })
    }
}

/// Events that are sent together.
struct Batch {
    /// The events in the format of the stream.
    text: String,
    /// Whether a call of the viewer began or ended.
    has_calls: bool,
    /// The number of the last event, also if the viewer may not see it.
    last: u64,
}

/// The reader of one stream.
struct Reader {
    events: Arc<Events>,
    viewer: Viewer,
    /// The number of the last event that was read.
    number: u64,
    changes: watch::Receiver<u64>,
    /// Counts the viewer's calls.
    stats: Box<dyn Fn(&Viewer) -> Value + Send>,
    /// When the changed counts are sent to the page.
    stats_due: Option<Instant>,
    /// When counts were last sent to the page.
    stats_sent: Option<Instant>,
    _slot: StreamSlot,
}

impl Reader {
    /// Waits for the next text to send: events, counts, or a comment that keeps the connection
    /// alive. `None` when the server shuts down.
    async fn next(&mut self) -> Option<String> {
        // Fixed before the loop: events of other users wake this stream, but send nothing on it.
        let keep_alive_at = Instant::now() + KEEP_ALIVE;
        loop {
            let last = *self.changes.borrow_and_update();
            if self.events.is_closed.load(Ordering::Relaxed) {
                return None;
            }
            if last <= self.number {
                let wake = self.stats_due.map_or(keep_alive_at, |due| due.min(keep_alive_at));
                match timeout_at(wake, self.changes.changed()).await {
                    Ok(Ok(())) => tokio::time::sleep(BATCH_TIME).await,
                    Ok(Err(_)) => return None,
                    Err(_) => {}
                }
            }
            let Batch { mut text, last, has_calls } = self.events.batch(self.number, &self.viewer);
            self.number = last;
            if has_calls && self.stats_due.is_none() {
                let now = Instant::now();
                self.stats_due =
                    Some(self.stats_sent.map_or(now, |sent| now.max(sent + STATS_INTERVAL)));
            }
            if self.stats_due.is_some_and(|due| due <= Instant::now()) {
                self.stats_due = None;
                self.stats_sent = Some(Instant::now());
                // No id: a page that reconnects resumes after the last event that every viewer may
                // see.
                _ = write!(text, "event: stats\ndata: {}\n\n", (self.stats)(&self.viewer));
            }
            if text.is_empty() && keep_alive_at <= Instant::now() {
                text.push_str(":\n\n");
            }
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;
    use serde_json::json;

    fn events(max_events: usize) -> Arc<Events> {
        Arc::new(Events::new(&Options { max_events, ..Options::default() }))
    }

    async fn read(
        events: &Arc<Events>,
        viewer: Viewer,
        after: Option<&str>,
        chunks: usize,
    ) -> String {
        let slot = events.acquire_slot(&viewer).unwrap();
        let stream =
            events.stream(viewer, after, slot, Box::new(|viewer| json!({"of": viewer.owner})));
        let chunks: Vec<_> = stream.take(chunks).collect().await;
        chunks
            .into_iter()
            .map(|chunk| match chunk {
                Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_resumes_after_its_last_event() {
        let events = events(10);
        let _page = events.last.subscribe();
        for n in 1..=3 {
            events.push("x", || Audience::Everyone, || json!({"n": n}));
        }
        let after = format!("{}-1", events.run());
        let text = read(&events, Viewer::everything(), Some(&after), 2).await;
        assert!(text.contains("event: hello"), "{text}");
        assert!(!text.contains(r#"{"n":1}"#), "{text}");
        assert!(text.contains(r#"{"n":2}"#) && text.contains(r#"{"n":3}"#), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_of_another_run_or_too_far_behind_reloads_all_data() {
        let events = events(2);
        let _page = events.last.subscribe();
        for n in 1..=5 {
            events.push("x", || Audience::Everyone, || json!({"n": n}));
        }
        for after in [
            "other-3",
            "nonsense",
            "",
            &format!("{}-2", events.run()),
            &format!("{}-99", events.run()),
        ] {
            let text = read(&events, Viewer::everything(), Some(after), 1).await;
            assert!(text.contains("event: reset"), "{after}: {text}");
        }
        let after = format!("{}-3", events.run());
        let text = read(&events, Viewer::everything(), Some(&after), 2).await;
        assert!(!text.contains("reset") && text.contains(r#"{"n":4}"#), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn viewers_read_only_events_that_concern_them() {
        let events = events(10);
        let _page = events.last.subscribe();
        events.push("x", || Audience::Owner(Some("anna".into())), || "annas");
        events.push("x", || Audience::Owner(Some("bert".into())), || "berts");
        events.push("x", || Audience::Administrators, || "secret");
        events.push("x", || Audience::Everyone, || "all");
        let after = format!("{}-0", events.run());
        let anna = read(&events, Viewer::of("anna", false), Some(&after), 2).await;
        assert!(anna.contains("annas") && anna.contains("all"), "{anna}");
        assert!(!anna.contains("berts") && !anna.contains("secret"), "{anna}");
        let admin = read(&events, Viewer::of("root", true), Some(&after), 2).await;
        assert!(["annas", "berts", "secret", "all"].iter().all(|it| admin.contains(it)), "{admin}");
    }

    #[tokio::test(start_paused = true)]
    async fn counts_follow_calls_at_most_once_a_second() {
        let events = events(100);
        let anna = Viewer::of("anna", false);
        let slot = events.acquire_slot(&anna).unwrap();
        let stats = Box::new(|viewer: &Viewer| json!({"of": viewer.owner}));
        let mut stream = Box::pin(events.stream(anna, None, slot, stats));
        fn end_call(events: &Events, owner: &str) {
            events.push("call.ended", || Audience::Owner(Some(owner.into())), || "call");
        }
        async fn next(
            stream: &mut (impl Stream<Item = Result<Bytes, Infallible>> + Unpin),
        ) -> String {
            let Ok(bytes) = stream.next().await.expect("the stream has not ended");
            String::from_utf8(bytes.to_vec()).unwrap()
        }
        next(&mut stream).await;
        let begin = Instant::now();
        end_call(&events, "anna");
        let text = next(&mut stream).await;
        assert!(text.ends_with("event: stats\ndata: {\"of\":\"anna\"}\n\n"), "{text}");
        end_call(&events, "anna");
        let text = next(&mut stream).await;
        assert!(text.contains("call.ended") && !text.contains("stats"), "{text}");
        let text = next(&mut stream).await;
        assert!(text.starts_with("event: stats"), "{text}");
        assert!(begin.elapsed() >= STATS_INTERVAL && begin.elapsed() < 2 * STATS_INTERVAL);
        // Calls of others change nothing.
        end_call(&events, "bert");
        assert_eq!(next(&mut stream).await, ":\n\n");
    }

    /// A page that reconnects within [`RECONNECT_TIME`] has missed no event.
    #[tokio::test(start_paused = true)]
    async fn events_are_created_only_while_a_page_listens() {
        let events = events(10);
        fn push(events: &Events, text: &str) {
            events.push("x", || Audience::Everyone, || text);
        }
        events.push("x", || Audience::Everyone, || -> &str { unreachable!("no page listens") });
        let page = events.last.subscribe();
        push(&events, "seen");
        drop(page);
        let after = events.position();
        tokio::time::advance(RECONNECT_TIME / 2).await;
        push(&events, "while away");
        let text = read(&events, Viewer::everything(), Some(&after), 2).await;
        assert!(text.contains("while away") && !text.contains("reset"), "{text}");
        tokio::time::advance(RECONNECT_TIME).await;
        let after = events.position();
        push(&events, "much later");
        let text = read(&events, Viewer::everything(), Some(&after), 1).await;
        assert!(text.contains("reset") && !text.contains("much later"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn streams_end_before_the_server() {
        let events = events(10);
        let viewer = Viewer::everything();
        let slot = events.acquire_slot(&viewer).unwrap();
        let stream = events.stream(viewer.clone(), None, slot, Box::new(|_| json!({})));
        let mut waiting = Box::pin(stream);
        assert!(waiting.next().await.is_some());
        let (end, ()) = tokio::join!(waiting.next(), async { events.close() });
        assert!(end.is_none());
        let slot = events.acquire_slot(&viewer).unwrap();
        let stream = events.stream(viewer, None, slot, Box::new(|_| json!({})));
        assert_eq!(stream.count().await, 1);
    }

    #[test]
    fn streams_are_bounded_in_total_and_for_each_viewer() {
        let events = Events::new(&Options { max_streams: 8, ..Options::default() });
        let anna = Viewer::of("anna", true);
        let slots: Vec<_> = (0..2).map(|_| events.acquire_slot(&anna).unwrap()).collect();
        assert!(events.acquire_slot(&anna).is_none(), "a quarter of the slots");
        assert!(events.acquire_slot(&Viewer::of("bert", false)).is_some());
        drop(slots);
        assert!(events.acquire_slot(&anna).is_some());
        assert_eq!(events.watchers(), 0);
    }
}
