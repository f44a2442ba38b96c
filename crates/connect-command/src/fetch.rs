//! Reads a file or a URL of the registry.

use std::{fs, io::Read as _, time::Duration};

use marquetry_endpoint::http_client;
use reqwest::Url;

use crate::machine::ConnectCommandError;

/// The most bytes of a description of a server.
const MAX_BYTES: usize = 4 << 20;

/// Time for the whole request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the text of a file, or of a URL that begins with `http:` or `https:`.
pub(crate) fn read(source: &str) -> Result<String, ConnectCommandError> {
    let read = if source.starts_with("http://") || source.starts_with("https://") {
        read_url(source)
    } else {
        read_file(source)
    };
    read.map_err(|problem| ConnectCommandError::new(format!("--from-registry {source}: {problem}")))
}

fn read_file(path: &str) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let mut limited = file.take(MAX_BYTES as u64 + 1);
    limited.read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() > MAX_BYTES { Err(too_large()) } else { Ok(text) }
}

fn read_url(source: &str) -> Result<String, String> {
    let url = Url::parse(source).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = http_client(&url).map_err(|error| error.to_string())?;
        let request = client.get(url).timeout(TIMEOUT).header("accept", "application/json");
        let mut response = request.send().await.map_err(|error| error.without_url().to_string())?;
        if !response.status().is_success() {
            return Err(format!("the server answered {}", response.status()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| error.without_url().to_string())?
        {
            if bytes.len() + chunk.len() > MAX_BYTES {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| "the answer is not UTF-8".to_owned())
    })
}

fn too_large() -> String {
    format!("more than {} MiB", MAX_BYTES >> 20)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Answers one request with this text, and returns the URL.
    fn serve(answer: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/server.json", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            _ = stream.read(&mut request);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        url
    }

    #[test]
    fn a_url_is_read_and_its_failures_are_named() {
        let url = serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
        assert_eq!(read(&url).unwrap(), "{}");
        let url = serve("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let message = read(&url).unwrap_err().message;
        assert!(message.contains("the server answered 404"), "{message}");
        let url = serve("HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n\u{1}");
        assert_eq!(read(&url).unwrap(), "\u{1}");
    }

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.json");
        fs::write(&path, " ".repeat(MAX_BYTES + 1)).unwrap();
        let message = read(path.to_str().unwrap()).unwrap_err().message;
        assert!(message.ends_with("more than 4 MiB"), "{message}");
        assert!(read("/missing/server.json").is_err());
    }
}
