//! A connection that somebody works with.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use deadpool_postgres::{ClientWrapper, Object};
use tokio::{runtime::Handle, time::timeout};

use super::tls::Tls;

/// How long what nobody waits for any more may take to end by itself: most statements take less, and to cancel one
/// costs a connection.
const GRACE: Duration = Duration::from_millis(50);
/// How often a statement is cancelled, and how long each time may take; then the server's own time-outs remain.
const CANCELS: usize = 5;
const CANCEL_TAKES: Duration = Duration::from_secs(2);

/// A connection that goes back to the others as soon as nothing is left to be done there.
///
/// Whoever drops it before [`Self::done`] leaves a statement at work, since dropping a future tells the server nothing.
/// That is cancelled, if it does not end at once. Nobody can tell when a cancellation arrives, and it then hits whatever
/// is at work, so that the connection serves nobody after that. It counts as in use for so long: there are never more
/// connections, nor more of these tasks, than there may be.
pub(crate) struct Lease {
    /// None only while it is dropped.
    object: Option<Object>,
    tls: Tls,
    is_idle: bool,
}

impl Lease {
    pub(super) fn new(object: Object, tls: Tls) -> Self {
        Self { object: Some(object), tls, is_idle: false }
    }

    /// All that was asked has been answered, or is the end of a transaction.
    pub(crate) fn done(mut self) {
        self.is_idle = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(object) = self.object.take().filter(|_| !self.is_idle) else { return };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(settle(object, self.tls.clone()))),
            // Nobody is left to wait for it.
            Err(_) => drop(Object::take(object)),
        }
    }
}

/// Waits until a connection is idle.
async fn settle(object: Object, tls: Tls) {
    {
        // It is answered after all that was asked before.
        let idle = object.batch_execute("");
        tokio::pin!(idle);
        if timeout(GRACE, &mut idle).await.is_err() {
            let token = object.cancel_token();
            for _ in 0..CANCELS {
                let cancel = async {
                    let _ = token.cancel_query(tls.clone()).await;
                    (&mut idle).await
                };
                if timeout(CANCEL_TAKES, cancel).await.is_ok() {
                    break;
                }
            }
        } else {
            return;
        }
    }
    drop(Object::take(object));
}

impl Deref for Lease {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.object.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        self.object.as_mut().expect("it is there until it is dropped")
    }
}
