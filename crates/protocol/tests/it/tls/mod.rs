//! Servers with certificates of an organisation's own authority (C12).

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use marquetry_protocol::{
    client::{Client, ClientOptions, HttpTarget, Network},
    server::{
        Server,
        http::{HttpEndpoint, HttpOptions},
    },
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::support::{Everything, TOOLS, soon};

#[tokio::test]
async fn a_server_is_reached_whose_authority_was_given_and_no_other() {
    let url = listening().await;
    let options = ClientOptions::default();
    let target = || HttpTarget { url: url.clone(), ..HttpTarget::default() };
    let refused = soon("a refusal", Client::http(target(), options.clone())).await;
    let refused = refused.err().expect("its authority is unknown").to_string();
    assert!(refused.contains("UnknownIssuer"), "{refused}");

    let other = include_str!("other-authority.pem");
    let network = Network::default().with_authorities(other).unwrap();
    let refused = Client::http(target(), ClientOptions { network, ..options.clone() });
    assert!(soon("a refusal", refused).await.is_err(), "another authority does not help");

    let network = Network::default().with_authorities(include_str!("authority.pem")).unwrap();
    let client = Client::http(target(), ClientOptions { network, ..options });
    let client = soon("a connection", client).await.unwrap();
    let tools = soon("the tools", client.list_tools()).await.unwrap();
    assert_eq!(tools.len(), TOOLS.len());
}

/// The URL of a server, whose certificate is of `authority.pem`.
async fn listening() -> String {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("server-key.pem")).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let (cancelled, _) = mpsc::unbounded_channel();
    let endpoint = HttpEndpoint::new(Server::new(Everything { cancelled }), HttpOptions::default());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let http = hyper::server::conn::http1::Builder::new();
                _ = http.serve_connection(TokioIo::new(stream), endpoint).await;
            });
        }
    });
    url
}
