//! Log lines about the connection to an upstream name the upstream.
#![cfg(unix)]

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use marquetry_gateway::{Gateway, GatewayOptions, Transport, UpstreamOptions};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the first line that contains this text.
    fn line(&self, text: &str) -> Option<String> {
        let bytes = self.0.lock().unwrap();
        let log = String::from_utf8_lossy(&bytes);
        log.lines().find(|line| line.contains(text)).map(str::to_owned)
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_invalid_line_is_logged_with_its_upstream() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());

    let noisy = Transport::stdio("sh", ["-c", "echo nonsense; exec sleep 5"]);
    let mut options = GatewayOptions::default().with_upstream(UpstreamOptions::new("noisy", noisy));
    options.stop_grace = Duration::from_millis(100);
    let gateway = Gateway::start(options, Arc::new(()));
    let line = tokio::time::timeout(Duration::from_secs(5), async {
        loop {
            match log.line("server sent a line that is no message") {
                Some(line) => return line,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    let line = line.await.expect("the line is logged");
    gateway.stop().await;
    assert!(line.contains(r#"connection{upstream="noisy"}"#), "{line}");
}
