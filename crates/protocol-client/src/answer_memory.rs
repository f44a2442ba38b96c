//! The memory of an answer while it arrives.

use marquetry_protocol_callers::RequestMemory;
use marquetry_protocol_wire::RpcError;
use tokio::time::Instant;

/// Counts the memory of a call's answer while it arrives, for the caller of the call.
#[derive(Clone, Debug)]
pub struct AnswerMemory {
    /// The account of the call.
    pub account: RequestMemory,
    /// Time until which the call may wait for memory that other requests hold. While it waits, its
    /// answer is not read.
    pub until: Instant,
}

/// Counts the bytes of one answer that have arrived.
pub(super) struct AnswerCount<'a> {
    memory: Option<&'a AnswerMemory>,
    counted: usize,
}

impl<'a> AnswerCount<'a> {
    /// Bytes of each answer that are not counted: the number of requests limits them.
    const FREE: usize = 64 << 10;
    /// An answer is in memory several times: as it came, as a result, as artifacts, and as the
    /// answer for the agent.
    const COPIES: usize = 4;

    /// Counts nothing without `memory`.
    pub(super) fn new(memory: Option<&'a AnswerMemory>) -> Self {
        Self { memory, counted: Self::FREE }
    }

    /// Counts an answer of `length` bytes so far. What is counted doubles, so that a long answer
    /// rarely waits.
    ///
    /// # Errors
    /// Returns an error if no memory becomes free in time.
    pub(super) async fn count(&mut self, length: usize) -> Result<(), RpcError> {
        let Some(AnswerMemory { account, until }) = self.memory else { return Ok(()) };
        if length <= self.counted {
            return Ok(());
        }
        let more = (length - self.counted).max(self.counted);
        let wait = until.saturating_duration_since(Instant::now());
        let reserved = account.reserve(Self::COPIES * more, wait).await;
        reserved.map_err(|full| {
            RpcError::too_many_requests(format!(
                "there is no memory for the answer, which has {length} bytes or more: {full}; call again later"
            ))
        })?;
        self.counted += more;
        Ok(())
    }
}
