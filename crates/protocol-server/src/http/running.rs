//! Work on a request that outlives the wait of its connection.

use std::pin::Pin;

use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::sync::CancellationToken;

use crate::outgoing::Outgoing;

type Work = Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>;

/// Work on a request. If it is dropped before the answer, because the connection broke or the
/// answer becomes a stream, the work goes on in a task of its own.
pub(super) struct Running {
    work: Option<Work>,
    /// Receives the answer of work that goes on.
    pub(super) answers: mpsc::Sender<Outgoing>,
    /// Ends the work.
    closed: CancellationToken,
}

impl Running {
    pub(super) fn new(
        work: impl Future<Output = Option<Outgoing>> + Send + 'static,
        answers: mpsc::Sender<Outgoing>,
        closed: CancellationToken,
    ) -> Self {
        Self { work: Some(Box::pin(work)), answers, closed }
    }

    /// Waits for the answer. A cancelled request has none.
    pub(super) async fn answer(&mut self) -> Option<Outgoing> {
        let answer = self.work.as_mut()?.await;
        self.work = None;
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) else { return };
        let answers = self.answers.clone();
        runtime.spawn(self.closed.clone().run_until_cancelled_owned(async move {
            if let Some(answer) = work.await {
                _ = answers.send(answer).await;
            }
        }));
    }
}
