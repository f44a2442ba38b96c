//! A connection in use.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use deadpool_postgres::{ClientWrapper, Object};
use tokio::{runtime::Handle, time::timeout};

use super::tls::Tls;

/// Time in which an abandoned statement may end by itself. Most need less, and cancelling one costs
/// a connection.
const GRACE: Duration = Duration::from_millis(50);
/// Number of attempts to cancel, and the time limit of each. After that, the server's timeouts
/// apply.
const CANCELS: usize = 5;
const CANCEL_TAKES: Duration = Duration::from_secs(2);

/// A connection in use, which goes back to the pool when it is idle.
///
/// Call [`Self::done`] once all answers are read. Dropping a lease before that may leave a
/// statement at work, since dropping a future tells the server nothing; a background task then
/// cancels the statement if it does not end at once. A cancellation may arrive late and hit another
/// statement, so that the connection is closed after it. Until then it counts as in use: there are
/// never more connections, nor more of these tasks, than `max_connections`.
pub struct Lease {
    /// `None` only while the lease is dropped.
    object: Option<Object>,
    tls: Tls,
    is_idle: bool,
}

impl Lease {
    pub(super) fn new(object: Object, tls: Tls) -> Self {
        Self { object: Some(object), tls, is_idle: false }
    }

    /// Gives the connection back: all statements were answered, or the last one ends a transaction.
    pub fn done(mut self) {
        self.is_idle = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(object) = self.object.take().filter(|_| !self.is_idle) else { return };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(settle(object, self.tls.clone()))),
            // No caller is left to wait for it.
            Err(_) => drop(Object::take(object)),
        }
    }
}

/// Waits until a connection is idle.
async fn settle(object: Object, tls: Tls) {
    {
        // Its answer comes after the answers to all earlier requests.
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
