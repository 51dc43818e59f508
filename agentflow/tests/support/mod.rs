//! An HTTP server on loopback with fully scripted answers: bytes, pauses, broken connections.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentflow_testing::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// An action of the server while it answers a request. Actions are executed in order.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Writes bytes as they are.
    Write(Vec<u8>),
    /// Writes bytes as one piece of a chunked body.
    Chunk(Vec<u8>),
    /// Ends a chunked body.
    End,
    /// Closes the connection.
    Close,
    /// Waits.
    Wait(Duration),
    /// Writes nothing more, and reports when the client has closed the connection.
    Stall,
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) at: Instant,
    /// Number of the connection, starting at 0.
    pub(crate) connection: usize,
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    received: Arc<Mutex<Vec<Received>>>,
    closed: mpsc::UnboundedReceiver<()>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers the n-th request with the n-th script, and further requests with status 410.
    pub(crate) async fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("bound"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let (closes, closed) = mpsc::unbounded_channel();
        let log = Arc::clone(&received);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 0.. {
                let Ok((socket, _)) = listener.accept().await else { return };
                let (log, scripts, closes) = (Arc::clone(&log), scripts.clone(), closes.clone());
                connections.spawn(serve(socket, connection, log, scripts, closes));
            }
        });
        Self { base_url, received, closed, task }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic").clone()
    }

    /// Waits until the client has closed a connection that [`Act::Stall`] watches.
    pub(crate) async fn closed(&mut self) {
        within("a message", self.closed.recv()).await.expect("the server runs");
    }
}

async fn serve(
    mut socket: TcpStream,
    connection: usize,
    log: Arc<Mutex<Vec<Received>>>,
    scripts: Vec<Vec<Act>>,
    closes: mpsc::UnboundedSender<()>,
) {
    socket.set_nodelay(true).expect("a socket");
    while let Some((head, body)) = read_request(&mut socket).await {
        let turn = {
            let mut log = log.lock().expect("no panic");
            log.push(Received { head, body, at: Instant::now(), connection });
            log.len() - 1
        };
        let gone = vec![Act::Write(response(
            410,
            "application/json",
            r#"{"error":{"message":"no more"}}"#,
        ))];
        for act in scripts.get(turn).unwrap_or(&gone) {
            let written = match act {
                Act::Write(bytes) => socket.write_all(bytes).await,
                Act::Chunk(bytes) => {
                    let piece =
                        [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
                    socket.write_all(&piece).await
                }
                Act::End => socket.write_all(b"0\r\n\r\n").await,
                Act::Close => return,
                Act::Wait(time) => {
                    tokio::time::sleep(*time).await;
                    Ok(())
                }
                Act::Stall => {
                    let mut rest = [0; 64];
                    while matches!(socket.read(&mut rest).await, Ok(read) if read > 0) {}
                    let _ = closes.send(());
                    return;
                }
            };
            if written.is_err() {
                return;
            }
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("a request head");
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse::<usize>()
                        .ok()
                })
                .unwrap_or(0);
            while bytes.len() < end + 4 + length {
                match socket.read(&mut piece).await {
                    Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
                    _ => return None,
                }
            }
            let body =
                String::from_utf8(bytes[end + 4..end + 4 + length].to_vec()).expect("a JSON body");
            return Some((head, body));
        }
        match socket.read(&mut piece).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
}

/// Returns a complete response with a content length.
pub(crate) fn response(status: u16, kind: &str, body: &str) -> Vec<u8> {
    response_with(status, kind, "", body)
}

/// Returns a complete response with additional header lines, each ended by `\r\n`.
pub(crate) fn response_with(status: u16, kind: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{headers}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Writes the head of a chunked response.
pub(crate) fn chunked(kind: &str) -> Act {
    Act::Write(
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nx-request-id: req_1\r\ntransfer-encoding: chunked\r\n\r\n")
            .into_bytes(),
    )
}

/// Writes one server-sent event as a piece of the body.
pub(crate) fn event(data: &str) -> Act {
    Act::Chunk(format!("data: {data}\n\n").into_bytes())
}
