//! A handwritten client of an MCP server with an HTTP session: requests are bytes, and streams are
//! read line by line.

use std::net::SocketAddr;

use agentflow::serde_json::{self, Value, json};
use agentflow_testing::within;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A response: its head, and the messages of its stream.
pub(crate) struct Response {
    pub(crate) head: String,
    stream: BufReader<TcpStream>,
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("{}", self.head))
    }

    fn header(&self, name: &str) -> Option<String> {
        let line = self
            .head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}: ")))?;
        Some(line[name.len() + 2..].trim().to_owned())
    }

    /// Returns the next message of the stream, or `None` when it has ended.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if within("a line of the server", self.stream.read_line(&mut line)).await.ok()? == 0 {
                return None;
            }
            if let Some(message) =
                line.strip_prefix("data: ").or_else(|| line.starts_with('{').then_some(&line))
            {
                return Some(serde_json::from_str(message.trim()).unwrap());
            }
        }
    }

    pub(crate) async fn next(&mut self) -> Value {
        self.message().await.unwrap_or_else(|| panic!("no message: {}", self.head))
    }

    /// Reads the rest of the stream.
    pub(crate) async fn rest(mut self) -> String {
        let mut rest = String::new();
        let _ = within("the end of the response", self.stream.read_to_string(&mut rest)).await;
        rest
    }
}

/// Sends a request with these headers, and reads the head of its response.
pub(crate) async fn send(address: SocketAddr, method: &str, headers: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut stream, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n")
        && within("a response", stream.read_line(&mut head)).await.unwrap() > 0
    {}
    Response { head, stream }
}

/// Builds the request that starts a session.
pub(crate) fn initialize(capabilities: &Value) -> String {
    let client = json!({"name": "by hand", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

/// A client with a session.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) session: String,
    headers: String,
}

impl Client {
    /// Sends `initialize` and returns the result, with a client if the server opened a session.
    pub(crate) async fn begin(
        address: SocketAddr,
        headers: &str,
        capabilities: &Value,
    ) -> (Value, Option<Self>) {
        let mut begun = send(address, "POST", headers, &initialize(capabilities)).await;
        assert_eq!(begun.status(), 200, "{}", begun.head);
        let session = begun.header("mcp-session-id");
        let answer = begun.next().await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        let Some(session) = session else { return (answer, None) };
        let headers =
            format!("{headers}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
        let client = Self { address, session, headers };
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        (answer, Some(client))
    }

    /// Starts a session whose client supports elicitation.
    pub(crate) async fn asked(address: SocketAddr, headers: &str) -> Self {
        Self::begin(address, headers, &json!({"elicitation": {}})).await.1.expect("a session")
    }

    pub(crate) async fn send(&self, method: &str, body: &str) -> Response {
        send(self.address, method, &self.headers, body).await
    }

    /// Sends a message that has no response.
    pub(crate) async fn say(&self, message: &Value) {
        let response = self.send("POST", &message.to_string()).await;
        assert_eq!(response.status(), 202, "{}", response.head);
    }

    pub(crate) async fn request(&self, id: u64, method: &str, params: Value) -> Response {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send("POST", &request.to_string()).await
    }

    pub(crate) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Response {
        self.request(id, "tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Answers a question of the server.
    pub(crate) async fn answer(&self, question: &Value, content: Value) {
        let result = json!({"action": "accept", "content": content});
        self.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    }
}
