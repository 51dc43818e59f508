//! Sends plain HTTP requests to a test server on loopback. No TLS, no redirects, no retries.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// The response of a server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

impl Answer {
    /// Parses the body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }
}

/// Sends GET to `http://127.0.0.1:PORT/..`.
///
/// # Errors
/// When the connection fails or the response takes longer than a minute.
pub fn get(url: &str) -> io::Result<Answer> {
    request("GET", url, "")
}

/// Sends JSON by POST to `http://127.0.0.1:PORT/..`.
///
/// # Errors
/// When the connection fails or the response takes longer than a minute.
pub fn post(url: &str, body: &Value) -> io::Result<Answer> {
    request("POST", url, &body.to_string())
}

/// Uses HTTP/1.0, so that the response is not chunked and ends with the connection.
fn request(method: &str, url: &str, body: &str) -> io::Result<Answer> {
    let wrong =
        |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{what} from {url}"));
    let rest = url.strip_prefix("http://").ok_or_else(|| wrong("no http address"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(
        stream,
        "{method} /{path} HTTP/1.0\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| wrong("no HTTP answer"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer { status: status.ok_or_else(|| wrong("no status"))?, body: body.to_owned() })
}
