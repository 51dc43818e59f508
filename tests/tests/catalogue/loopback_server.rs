//! An HTTP server on loopback. A test writes its responses as bytes and reads the requests as
//! bytes.

use std::sync::{Arc, Mutex};

use agentflow::serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A loopback server that answers each connection with a function of its request. It records the
/// requests.
pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, kept) = (Arc::new(answer), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                tokio::spawn(async move {
                    let (mut stream, request) = read(stream).await;
                    kept.lock().unwrap().push(request.clone());
                    let _ = stream.write_all(&answer(&request)).await;
                });
            }
        });
        Self { port, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Reads a request: its head, and a body of the declared length.
pub(crate) async fn read<S: AsyncRead + Unpin>(mut stream: S) -> (S, String) {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ")?.parse().ok()
            });
            if body.len() >= length.unwrap_or(0) {
                return (stream, text);
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return (stream, text),
            Ok(count) => all.extend_from_slice(&buffer[..count]),
        }
    }
}

pub(crate) fn answered(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) fn json_of(body: &Value) -> Vec<u8> {
    answered("200 OK", "content-type: application/json; charset=utf-8\r\n", &body.to_string())
}

pub(crate) fn redirect(to: &str) -> Vec<u8> {
    answered("302 Found", &format!("location: {to}\r\n"), "")
}
