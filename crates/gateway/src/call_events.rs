//! Forwards progress and log messages of an upstream during a call to the agent.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use marquetry_protocol::{
    client::{Progress, ServerNotification},
    server::RequestContext,
    types::LogLevel,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::observer::{CallObserver, Observed};

/// Progress and log messages of one call. Those that its agent does not read in time are dropped.
pub(super) struct CallEvents {
    /// The upstream's name, for the agent.
    upstream: String,
    progress: mpsc::Receiver<Progress>,
    log: mpsc::Receiver<ServerNotification>,
    observer: Option<CallObserver>,
    /// Time of the last progress that the observer received.
    observed: Option<Instant>,
    /// Keeps the channels open. Otherwise the end of the call closes them, which schedules the
    /// call's task once more and wakes a second thread for it.
    _sender: CallEventSender,
}

/// Takes the events of a call.
#[derive(Clone)]
pub(super) struct CallEventSender {
    pub(super) progress: mpsc::Sender<Progress>,
    pub(super) log: mpsc::Sender<ServerNotification>,
}

impl CallEvents {
    pub(super) fn new(upstream: &str, observer: Option<CallObserver>) -> (CallEventSender, Self) {
        const MAX_WAITING: usize = 64;
        let (progress, progress_out) = mpsc::channel(MAX_WAITING);
        let (log, log_out) = mpsc::channel(MAX_WAITING);
        let upstream = upstream.to_owned();
        let sender = CallEventSender { progress, log };
        let events = Self {
            upstream,
            progress: progress_out,
            log: log_out,
            observer,
            observed: None,
            _sender: sender.clone(),
        };
        (sender, events)
    }

    /// Reports progress to the observer, at most 20 times a second.
    fn observe(&mut self, progress: &Progress) {
        const INTERVAL: Duration = Duration::from_millis(50);
        let Some(observer) = &self.observer else { return };
        if self.observed.is_none_or(|observed| observed.elapsed() >= INTERVAL) {
            self.observed = Some(Instant::now());
            observer.observe(&Observed::Progress(progress));
        }
    }

    /// Waits for some work, and forwards events meanwhile, as fast as the agent reads them.
    pub(super) async fn forward_while<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
        cx: &RequestContext,
    ) -> T {
        /// Maximum delay of the answer by earlier events.
        const LATE: Duration = Duration::from_secs(1);
        let outcome = {
            let forwarding = async {
                loop {
                    tokio::select! {
                        Some(progress) = self.progress.recv() => {
                            self.observe(&progress);
                            forward_progress(cx, &progress).await;
                        }
                        Some(logged) = self.log.recv() => log(cx, &self.upstream, &logged).await,
                    }
                }
            };
            tokio::select! {
                biased;
                // At the same time as the work: an agent that does not read progress must not stop
                // the call's clock.
                never = forwarding => never,
                outcome = &mut work => outcome,
            }
        };
        let rest = async {
            while let Some(progress) = waiting(&mut self.progress) {
                self.observe(&progress);
                forward_progress(cx, &progress).await;
            }
            while let Some(logged) = waiting(&mut self.log) {
                log(cx, &self.upstream, &logged).await;
            }
        };
        _ = tokio::time::timeout(LATE, rest).await;
        outcome
    }
}

/// Takes an event that waits. Unlike `try_recv`, it also removes the call's task from an empty
/// channel, so that the end of the channel does not schedule the task again.
fn waiting<T>(events: &mut mpsc::Receiver<T>) -> Option<T> {
    match events.poll_recv(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    }
}

async fn forward_progress(cx: &RequestContext, progress: &Progress) {
    cx.progress(progress.progress, progress.total, progress.message.as_deref()).await;
}

/// Forwards a log message if the agent wants its level. The logger's name begins with the
/// upstream's name.
async fn log(cx: &RequestContext, upstream: &str, logged: &ServerNotification) {
    #[derive(Deserialize)]
    struct LogParams<'a> {
        level: LogLevel,
        logger: Option<String>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let Some(params) = &logged.params else { return };
    let Ok(LogParams { level, logger, data }) = serde_json::from_str(params.get()) else {
        tracing::debug!(upstream, "ignored an invalid log message");
        return;
    };
    let logger = match logger {
        Some(logger) => format!("{upstream}/{logger}"),
        None => upstream.to_owned(),
    };
    cx.log(level, Some(&logger), &data).await;
}
