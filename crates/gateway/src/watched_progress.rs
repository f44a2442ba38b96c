//! Progress of a call, which extends its time limit on the way to the agent.

use std::{convert::Infallible, sync::Arc};

use marquetry_protocol::client::{CallOptions, Progress};
use tokio::sync::{Notify, mpsc};

/// The progress of a call.
pub(super) struct WatchedProgress {
    /// Notified of each report.
    pub(super) progressed: Arc<Notify>,
    /// Where the reports come from and go to; [`None`] if the agent does not want them, since an
    /// upstream sends them only if it is asked.
    relay: Option<(mpsc::Receiver<Progress>, mpsc::Sender<Progress>)>,
}

impl WatchedProgress {
    /// Puts itself before the receiver of the progress.
    pub(super) fn of(options: &mut CallOptions) -> Self {
        const MAX_WAITING: usize = 64;
        let relay = options.progress.take().map(|agent| {
            let (sender, received) = mpsc::channel(MAX_WAITING);
            options.progress = Some(sender);
            (received, agent)
        });
        Self { progressed: Arc::default(), relay }
    }

    /// Forwards reports as long as it is polled.
    pub(super) async fn forward(&mut self) -> Infallible {
        if let Some((received, agent)) = &mut self.relay {
            while let Some(progress) = received.recv().await {
                self.progressed.notify_one();
                // An agent that does not read misses reports.
                _ = agent.try_send(progress);
            }
        }
        std::future::pending().await
    }

    /// Forwards the reports that came together with the answer.
    pub(super) fn forward_rest(&mut self) {
        let Some((received, agent)) = &mut self.relay else { return };
        while let Ok(progress) = received.try_recv() {
            _ = agent.try_send(progress);
        }
    }
}
