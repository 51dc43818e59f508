//! Limits of an MCP server over HTTP for each caller and each address, and the check of the request's host.

use std::net::SocketAddr;
use std::time::Duration;

use agentflow::Caller;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::mcp_server::McpServer;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::served::Held;
use crate::served_over_http::{post, served};

/// Time limit for each wait.
const LIMIT: Duration = Duration::from_secs(30);

fn called(tool: &str) -> String {
    let arguments = if tool == "add" { json!({"a": 1, "b": 2}) } else { json!({}) };
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

#[tokio::test]
async fn a_caller_waits_for_its_own_calls_and_others_do_not() {
    let held = Held::new();
    let runtime = Runtime::builder().tools(held.tool()).build();
    let server = McpServer::from_runtime(&runtime).max_calls(8).max_waiting(4).authenticate(
        |request: RequestHead| async move {
            let who = request.header("x-who");
            who.map(Caller::new).ok_or_else(|| AuthRefusal::unauthenticated("who are you?"))
        },
    );
    let address = served(server).await;
    let calls: Vec<_> = (0..10)
        .map(|_| {
            tokio::spawn(async move { post(address, "x-who: ada\r\n", &called("hold")).await.1 })
        })
        .collect();
    // Two calls run, one waits, and the others are refused, although the server could run six more.
    let (mut refused, mut open) = (0, Vec::new());
    for _ in 0..2 {
        timeout(LIMIT, held.begun.notified()).await.unwrap();
    }
    for call in calls {
        open.push(call);
    }
    while refused < 7 {
        let (answer, _, others) =
            timeout(LIMIT, futures_util::future::select_all(open)).await.unwrap();
        let answer = answer.unwrap();
        assert!(
            answer.contains("-32000") && answer.contains("1 calls of this caller wait already"),
            "{answer}"
        );
        (refused, open) = (refused + 1, others);
    }
    let (status, sum) =
        timeout(LIMIT, post(address, "x-who: bob\r\n", &called("add"))).await.unwrap();
    assert!(status == 200 && sum.contains(r#"{"result":3}"#), "{sum}");
    let all = async {
        while !open.is_empty() {
            held.let_go.notify_one();
            let one =
                timeout(Duration::from_millis(20), futures_util::future::select_all(&mut open))
                    .await;
            let Ok((answer, at, _)) = one else { continue };
            assert!(answer.unwrap().contains("let go"));
            open.remove(at);
        }
    };
    timeout(LIMIT, all).await.unwrap();
}

/// Connects from another address of this machine.
#[cfg(target_os = "linux")]
async fn from(own: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{own}:0").parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Sends a request and returns the response until the connection ends.
#[cfg(target_os = "linux")]
async fn asked(mut stream: TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LIMIT / 6, stream.read_to_string(&mut answer))
        .await
        .expect("an answer in time")
        .unwrap();
    answer
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn half_sent_heads_of_one_address_leave_room_for_others() {
    let server = McpServer::from_runtime(&Runtime::builder().build()).max_connections(64);
    let server = server.authenticate(|request: RequestHead| async move {
        match request.header("x-who").is_some() {
            true => Ok(Caller::new("ada")),
            false => Err(AuthRefusal::unauthenticated("who are you?")),
        }
    });
    let address = served(server).await;
    let mut half = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may have closed the connection.
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: local").await;
        half.push(stream);
    }
    let body = called("add");
    let head = |who: &str, length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, \
             text/event-stream\r\n{who}content-length: {length}\r\n"
        )
    };
    let request = format!("{}connection: close\r\n\r\n{body}", head("x-who: ada\r\n", body.len()));
    let answer = asked(from("127.0.0.2", address).await, &request).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Refused connections that stay open do not use up the limit either.
    for _ in 0..64 {
        let mut stream = from("127.0.0.3", address).await;
        let _ = stream.write_all(format!("{}\r\n{body}", head("", body.len())).as_bytes()).await;
        half.push(stream);
    }
    let answer = asked(from("127.0.0.2", address).await, &request).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_request_names_one_host() {
    let address = served(McpServer::from_runtime(&Runtime::builder().build())).await;
    let body = called("add");
    for (target, hosts, expected) in [
        ("/mcp", "host: localhost\r\n", 200),
        ("/mcp", "host: [::1]:80\r\n", 200),
        ("http://localhost/mcp", "host: localhost\r\n", 200),
        ("/mcp", "host: [::1].example.org\r\n", 400),
        ("/mcp", "host: localhost\r\nhost: evil.example\r\n", 400),
        ("/mcp", "host: localhost\r\nhost: localhost\r\n", 400),
        ("http://evil.example/mcp", "host: localhost\r\n", 400),
        ("http://evil.example/mcp", "host: evil.example\r\n", 403),
    ] {
        let request = format!(
            "POST {target} HTTP/1.1\r\n{hosts}content-type: application/json\r\naccept: application/json, \
             text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{target} {hosts}: {answer}");
    }
}
