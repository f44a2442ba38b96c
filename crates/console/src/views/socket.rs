//! The WebSocket between a page and a View.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use http::StatusCode;
use marquetry_apps_ext::host::Event;
use tokio::{
    sync::mpsc,
    time::{sleep_until, timeout},
};

use super::{
    Views,
    session::{PageMessage, Session},
};

/// The subprotocol of the socket. The page names it together with the ticket, so that the ticket is
/// in no URL and in no log of a proxy.
const PROTOCOL: &str = "marquetry-view";
/// A page that does not take a frame within this time is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// `GET /api/console/views/socket`: the socket of a View. Its ticket takes the place of a token,
/// which browsers do not send with a WebSocket.
pub(crate) fn socket_router(views: Views) -> Router {
    Router::new().route("/api/console/views/socket", get(open_socket)).with_state(views)
}

async fn open_socket(State(views): State<Views>, upgrade: WebSocketUpgrade) -> Response {
    let mut protocols = upgrade.requested_protocols().filter_map(|name| name.to_str().ok());
    let Some((session, host_events)) = protocols.find_map(|ticket| views.redeem(ticket)) else {
        let why = "the ticket of this View is wrong, too old or used; open the View again\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    };
    drop(protocols);
    let max = views.max_socket_bytes();
    let failed = (views.clone(), session.id().to_owned());
    upgrade
        .protocols([PROTOCOL])
        .max_message_size(max)
        .max_frame_size(max)
        .on_failed_upgrade(move |_| failed.0.remove(&failed.1))
        .on_upgrade(async move |socket| {
            let reason = run(&session, &views, socket, host_events).await;
            tracing::debug!(tool = session.tool(), ?reason, "the socket of a View ended");
            // The page is gone, and the View with it.
            session.handle(Event::Gone);
            views.remove(session.id());
        })
}

/// Why a socket ended.
#[derive(Debug)]
enum Ended {
    /// The View was closed.
    Closed,
    /// The server closes its Views.
    ByServer,
    /// The token of the page has expired.
    ByToken,
    /// The page closed the socket, or its connection broke.
    ByPage,
    /// The page answered no ping, or did not take a frame in time.
    Silent,
    /// The page sent something that is not what a page of this console sends.
    Unreadable,
}

/// Forwards messages between the page and the bridge until one of them ends. There is no queue:
/// while a frame waits to be sent to the page, no frame of the page is read.
async fn run(
    session: &Arc<Session>,
    views: &Views,
    mut socket: WebSocket,
    mut host_events: mpsc::Receiver<Event>,
) -> Ended {
    let idle = views.options().idle;
    let mut heard = Instant::now();
    let mut next_ping = heard + idle / 3;
    let mut closed = pin!(session.until_closed());
    let mut expired = pin!(session.viewer().until_expired());
    loop {
        let deadline = session.deadline();
        let wake = deadline.map_or(next_ping, |deadline| deadline.min(next_ping));
        let frames = tokio::select! {
            received = socket.recv() => {
                heard = Instant::now();
                match received {
                    Some(Ok(Message::Text(text))) => match serde_json::from_str::<PageMessage>(&text) {
                        Ok(message) => session.take(message),
                        Err(error) => {
                            tracing::debug!(%error, "unreadable frame on the socket of a View");
                            close(&mut socket, close_code::INVALID, "unreadable frame").await;
                            return Ended::Unreadable;
                        }
                    },
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Binary(_))) => {
                        close(&mut socket, close_code::UNSUPPORTED, "frames are text").await;
                        return Ended::Unreadable;
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ended::ByPage,
                }
            }
            Some(event) = host_events.recv() => session.handle(event),
            () = &mut closed => {
                close(&mut socket, close_code::AWAY, "the server closes its Views").await;
                return Ended::ByServer;
            }
            () = &mut expired => {
                let why = "your token has expired; log in again, and open the View again";
                close(&mut socket, close_code::POLICY, why).await;
                return Ended::ByToken;
            }
            () = sleep_until(wake.into()) => {
                let now = Instant::now();
                if now.saturating_duration_since(heard) >= idle {
                    return Ended::Silent;
                }
                if now >= next_ping {
                    next_ping = now + idle / 3;
                    if !send(&mut socket, Message::Ping(Default::default())).await {
                        return Ended::Silent;
                    }
                }
                session.handle(Event::Tick)
            }
        };
        for frame in frames {
            if !send(&mut socket, Message::text(frame)).await {
                return Ended::Silent;
            }
        }
        if session.is_closed() {
            close(&mut socket, close_code::NORMAL, "the View was closed").await;
            return Ended::Closed;
        }
    }
}

/// Returns whether the page took the message.
async fn send(socket: &mut WebSocket, message: Message) -> bool {
    matches!(timeout(SEND_TIMEOUT, socket.send(message)).await, Ok(Ok(())))
}

async fn close(socket: &mut WebSocket, code: u16, reason: &'static str) {
    send(socket, Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
