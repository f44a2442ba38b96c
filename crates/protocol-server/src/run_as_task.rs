//! Calls that go on as tasks.

use marquetry_protocol_wire::{RpcError, types::TASKS_EXTENSION};

use super::{
    context::RequestContext,
    reply::Reply,
    tasks::{TaskOptions, needs_tasks},
};

impl RequestContext {
    /// Goes on with `work` as a task, where client and server both declare tasks; the call is then answered at once,
    /// and the client asks what became of it. Elsewhere the call waits for the work, as any other.
    ///
    /// The work's own context asks the client, tells it how far it is (with a message, [`Self::progress`] says it in
    /// the task's status) and is cancelled like that of a call, but belongs to no request.
    ///
    /// A tool that always runs as a task needs this not: see [`Handler::task_options`](super::Handler::task_options).
    ///
    /// # Errors
    /// When the task is [required](TaskOptions::required) and the client does not know tasks; when too many are kept;
    /// where the call waits, what the work gives.
    pub async fn run_as_task<F, Fut>(
        &self,
        options: TaskOptions,
        work: F,
    ) -> Result<Reply, RpcError>
    where
        F: FnOnce(Self) -> Fut + Send,
        Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
    {
        let known = self.capabilities().has_extension(TASKS_EXTENSION);
        match self.tasks().filter(|tasks| tasks.declared()) {
            Some(tasks) if known => {
                let work = |job| work(self.of_job(job));
                let (principal, caller) = (self.principal().cloned(), self.caller());
                Reply::task(&tasks.start(principal, caller, options, work)?.shown())
            }
            Some(_) if options.required => Err(needs_tasks(self.method())),
            _ => work(self.clone()).await,
        }
    }

    /// The id of the task that this is the context of.
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        self.job().map(|job| &**job.id())
    }
}
