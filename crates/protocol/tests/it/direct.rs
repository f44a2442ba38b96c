//! Requests that do not use a transport of the protocol have the same limits as others (C3, C4).

use std::{fmt::Debug, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError, error_code,
    server::{Handler, Limits, Peer, Principal, RequestContext, Server, ServerDescription},
};

/// Everything can be subscribed to.
struct Subject;

#[async_trait]
impl Handler for Subject {
    fn describe(&self) -> ServerDescription {
        ServerDescription::default()
    }

    async fn subscribe(&self, _: &str, _: &RequestContext) -> Result<(), RpcError> {
        Ok(())
    }
}

fn server() -> Server {
    let limits = Limits {
        max_in_flight_per_caller: 2,
        max_send_bytes_per_caller: 100_000,
        max_sessions_per_caller: 1,
        queue_time: Duration::from_millis(20),
        ..Limits::default()
    };
    Server::with_limits(Subject, limits)
}

fn peer(name: &str) -> Peer {
    Peer::new(Some(Arc::new(Principal::new(None, name))), None)
}

fn assert_refused<T: Debug>(outcome: Result<T, RpcError>, setting: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.code, error_code::TOO_MANY_REQUESTS, "{error:?}");
    assert!(error.message.contains(setting), "{error:?}");
}

#[tokio::test]
async fn an_answer_counts_until_it_has_left() {
    let server = server();
    let call = async |name: &str| server.direct_call(peer(name)).await;
    let answer = vec![b'x'; 60_000];
    let mut unread = call("alice").await.unwrap().answer(answer.clone()).await.unwrap();
    // A slice keeps all the bytes of the answer in memory.
    unread = unread.slice(59_999..);
    let second = call("alice").await.unwrap();
    assert_refused(call("alice").await, "max_in_flight_per_caller");
    assert_refused(second.answer(answer.clone()).await, "max_send_bytes_per_caller");
    call("bob").await.unwrap().answer(answer.clone()).await.unwrap();
    drop(unread);
    let both = [call("alice").await.unwrap(), call("alice").await.unwrap()];
    for call in both {
        assert_eq!(call.answer(answer.clone()).await.unwrap(), answer);
    }
}

#[tokio::test]
async fn a_caller_without_a_token_is_bounded_by_its_address() {
    let server = server();
    let call = async |address: [u8; 4]| {
        server.direct_call(Peer::new(None, Some(IpAddr::from(address)))).await
    };
    let far = [192, 0, 2, 1];
    let _held = [call(far).await.unwrap(), call(far).await.unwrap()];
    assert_refused(call(far).await, "max_in_flight_per_caller");
    call([192, 0, 2, 2]).await.unwrap();
    // Callers on this machine act for one user.
    let here = [127, 0, 0, 1];
    let _held = [call(here).await.unwrap(), call(here).await.unwrap(), call(here).await.unwrap()];
}

#[tokio::test]
async fn a_watch_takes_a_place_among_the_clients_that_listen() {
    let server = server();
    let watch = async |name: &str| server.watch(peer(name), "test://one").await;
    let first = watch("alice").await.unwrap();
    assert_refused(watch("alice").await, "max_sessions_per_caller");
    watch("bob").await.unwrap();
    drop(first);
    watch("alice").await.unwrap();
}
