//! A WebSocket client for JSON messages.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, header};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

/// Time without a message after which no more messages are expected.
const QUIET_TIME: Duration = Duration::from_millis(50);

/// An open WebSocket.
pub(crate) struct JsonSocket(WebSocketStream<TcpStream>);

impl JsonSocket {
    /// Opens a WebSocket at `path`, and offers `subprotocols` in this order.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails or the server refuses it.
    pub(crate) async fn open(
        address: SocketAddr,
        path: &str,
        subprotocols: &[String],
    ) -> io::Result<Self> {
        let mut request =
            format!("ws://{address}{path}").into_client_request().map_err(io::Error::other)?;
        if !subprotocols.is_empty() {
            let value =
                HeaderValue::from_str(&subprotocols.join(", ")).map_err(io::Error::other)?;
            request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, value);
        }
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(request, stream).await.map_err(io::Error::other)?;
        Ok(Self(socket))
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is closed.
    pub(crate) async fn send(&mut self, message: &Value) -> io::Result<()> {
        self.0.send(Message::text(message.to_string())).await.map_err(io::Error::other)
    }

    /// Waits up to `max_wait` for `count` messages, then reads on until none arrives for
    /// [`QUIET_TIME`], so that unexpected messages are reported, too. Returns
    /// `{messages, closed}`.
    ///
    /// # Errors
    ///
    /// Returns an error if a message is not JSON, or if the connection breaks.
    pub(crate) async fn receive(&mut self, count: usize, max_wait: Duration) -> io::Result<Value> {
        let mut messages: Vec<Value> = Vec::new();
        let deadline = Instant::now() + max_wait;
        loop {
            let wait = if messages.len() < count {
                deadline.saturating_duration_since(Instant::now())
            } else {
                QUIET_TIME
            };
            match timeout(wait, self.0.next()).await {
                Err(_) => return Ok(json!({ "messages": messages, "closed": false })),
                Ok(None | Some(Ok(Message::Close(_)))) => {
                    return Ok(json!({ "messages": messages, "closed": true }));
                }
                Ok(Some(Ok(Message::Text(text)))) => {
                    messages.push(serde_json::from_str(&text).map_err(io::Error::other)?);
                }
                // tungstenite answers pings itself.
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(error))) => return Err(io::Error::other(error)),
            }
        }
    }
}
