//! Minimal HTTP for misbehaving servers: requests are parsed, responses are raw bytes.

use agentflow::serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A request: its head, and its JSON message.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) message: Value,
    /// Raw body.
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn answer(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result})
    }
}

/// Reads the next request of a connection.
pub(crate) async fn request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await.ok()? {
            0 => return None,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let lower = head.to_ascii_lowercase();
    let length = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok())
        .unwrap_or(0);
    while bytes.len() < end + length {
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await.ok()? {
            0 => return None,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    let body = String::from_utf8_lossy(&bytes[end..end + length]).into_owned();
    let message = serde_json::from_str(&body).unwrap_or(Value::Null);
    Some(Request { head, message, body })
}

/// Formats a complete response.
pub(crate) fn full(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
}
