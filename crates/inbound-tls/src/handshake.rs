//! TLS as the handshake of connections that `marquetry-protocol` serves.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use marquetry_protocol::server::http::{ClientSocket, Handshake, Secured};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use crate::Tls;

/// The protocol name of HTTP/2 in TLS (RFC 9113, section 3.2).
const HTTP2: &[u8] = b"h2";

/// A [`Tls`] for `marquetry_protocol::server::http::serve(…).secured_by(…)`.
#[derive(Clone, Debug)]
pub struct TlsHandshake(pub Arc<Tls>);

impl Handshake for TlsHandshake {
    fn open(
        &self,
        socket: TcpStream,
    ) -> Pin<Box<dyn Future<Output = io::Result<Secured>> + Send + '_>> {
        Box::pin(async move {
            let stream = self.0.accept(socket).await?;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
            Ok(Secured { stream: Box::new(TlsSocket(stream)), is_http2 })
        })
    }
}

struct TlsSocket(TlsStream<TcpStream>);

impl ClientSocket for TlsSocket {
    fn tcp(&self) -> &TcpStream {
        self.0.get_ref().0
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
