//! The HTTP client of the collector.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::Client;
use tokio::runtime::Handle;

/// Time for an export, which holds up only the exports behind it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read; it has the number of refused spans.
const MAX_ANSWER: usize = 64 << 10;

/// Sends batches from the thread of the exporter on the runtime of the server, so that one client
/// with one set of certificates is enough.
#[derive(Debug)]
pub(crate) struct CollectorClient {
    pub(crate) client: Client,
    pub(crate) runtime: Handle,
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // The thread of the exporter has no timers.
        let sending = async { tokio::time::timeout(TIMEOUT, send(client, request)).await };
        self.runtime.spawn(sending).await??
    }
}

async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let mut answer = client.execute(request.try_into()?).await?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err("the collector's answer is too long".into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Response::builder().status(status).body(body.into())?)
}
