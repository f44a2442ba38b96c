//! Calls that continue as tasks.

use marquetry_protocol_wire::{RpcError, types::TASKS_EXTENSION};

use super::{
    context::RequestContext,
    reply::Reply,
    tasks::{TaskOptions, needs_tasks},
};

impl RequestContext {
    /// Runs `work` as a task if client and server both declare tasks: the call is answered at once,
    /// and the client polls the task. Otherwise the call waits for the work.
    ///
    /// The work has its own context. It can ask the client, report progress (with a message,
    /// [`Self::progress`] sets the task's status message), and is cancelled like that of a call,
    /// but it belongs to no request.
    ///
    /// A tool that always runs as a task does not need this: see
    /// [`Handler::task_options`](super::Handler::task_options).
    ///
    /// # Errors
    /// Returns an error if the task is [required](TaskOptions::required) and the client does not
    /// support tasks, if too many tasks are stored, or if work fails for which the call waits.
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
                let principal = self.principal().cloned();
                let job =
                    tasks.start(principal, self.caller(), options, |job| work(self.of_job(job)))?;
                Reply::task(&job.to_task())
            }
            Some(_) if options.required => Err(needs_tasks(self.method())),
            _ => work(self.clone()).await,
        }
    }

    /// Returns the id of the task to which this context belongs.
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        self.job().map(|job| &**job.id())
    }
}
