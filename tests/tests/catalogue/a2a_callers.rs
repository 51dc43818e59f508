//! Limits per caller of an A2A server: requests, streams and tasks. Each caller has separate
//! limits.

use agentflow::Caller;
use agentflow::a2a_server::A2aServer;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow_testing::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::a2a_requests::{GOOD, call, send};
use crate::a2a_served::{runtime, serve};

/// Asks its client, and so does not end.
#[workflow]
async fn caller_asks(text: String) -> Result<String> {
    let said: String = gate!("What of {text}?", text, answer = String).await?;
    Ok(said)
}

async fn served(set: impl FnOnce(A2aServer) -> A2aServer) -> (Runtime, String) {
    let runtime = runtime();
    let server = A2aServer::from_runtime(&runtime).workflows(["caller_asks"]).authenticate(
        |request: RequestHead| async move {
            request
                .header("x-who")
                .map(Caller::new)
                .ok_or_else(|| AuthRefusal::unauthenticated("who?"))
        },
    );
    let url = serve(set(server)).await;
    (runtime, url)
}

fn said(id: &str) -> Value {
    json!({"message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "rain"}]}})
}

fn of(who: &str) -> String {
    format!("{GOOD}x-who: {who}\r\n")
}

/// Opens a stream and waits for its first item, the task.
async fn streaming(url: &str, who: &str, task: &str) -> TcpStream {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let body = call("SubscribeToTask", json!({"id": task}));
    let head = format!(
        "POST / HTTP/1.0\r\nhost: localhost\r\n{}content-length: {}\r\n\r\n",
        of(who),
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut read = String::new();
    while !read.contains("data: ") {
        let mut piece = [0; 4096];
        let bytes = stream.read(&mut piece).await.unwrap();
        assert!(bytes > 0, "it ended: {read}");
        read.push_str(std::str::from_utf8(&piece[..bytes]).unwrap());
    }
    stream
}

async fn begun(url: &str, who: &str, id: &str) -> Value {
    send(url, "POST /", &of(who), &call("SendMessage", said(id))).await.json()
}

#[tokio::test]
async fn a_caller_has_so_many_streams_and_others_have_theirs() {
    let (_runtime, url) = served(|server| server.max_streams(4).max_streams_of_caller(2)).await;
    let [ada, bob] = [begun(&url, "ada", "m").await, begun(&url, "bob", "m").await].map(|task| {
        task["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned()
    });
    let (one, _two) = (streaming(&url, "ada", &ada).await, streaming(&url, "ada", &ada).await);
    for path in ["POST /".to_owned(), format!("GET /tasks/{ada}:subscribe")] {
        let body = if path == "POST /" {
            call("SubscribeToTask", json!({"id": ada}))
        } else {
            String::new()
        };
        let refused = send(&url, &path, &of("ada"), &body).await;
        assert_eq!(
            (refused.status, refused.body.contains("of this caller")),
            (429, true),
            "{}",
            refused.body
        );
    }
    let _others = (streaming(&url, "bob", &bob).await, streaming(&url, "bob", &bob).await);
    // A closed stream frees its slot as soon as the server notices.
    drop(one);
    let body = call("SubscribeToTask", json!({"id": ada}));
    let head = format!(
        "POST / HTTP/1.0\r\nhost: localhost\r\n{}content-length: {}\r\n\r\n",
        of("ada"),
        body.len()
    );
    loop {
        let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
        stream.write_all((head.clone() + &body).as_bytes()).await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        match &status[9..] {
            b"200" => break,
            other => assert_eq!(other, b"429"),
        }
    }
}

#[tokio::test]
async fn a_caller_has_so_many_requests_and_others_have_theirs() {
    let (_runtime, url) = served(|server| server.max_requests_of_caller(1)).await;
    // The body never arrives, so the request stays open until it is dropped.
    let mut open = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let head =
        format!("POST / HTTP/1.1\r\nhost: localhost\r\n{}content-length: 100\r\n\r\n", of("ada"));
    open.write_all(head.as_bytes()).await.unwrap();
    let get = call("GetTask", json!({"id": "none"}));
    // Retries until the server has noticed the open request.
    let refused = loop {
        let answered = send(&url, "POST /", &of("ada"), &get).await;
        if answered.status != 200 {
            break answered;
        }
    };
    assert_eq!(
        (refused.status, refused.body.contains("of this caller")),
        (429, true),
        "{}",
        refused.body
    );
    assert_eq!(send(&url, "POST /", &of("bob"), &get).await.status, 200);
    assert_eq!(send(&url, "GET /.well-known/agent-card.json", "", "").await.status, 200);
    drop(open);
    within("the request to be served", async {
        while send(&url, "POST /", &of("ada"), &get).await.status != 200 {}
    })
    .await;
}

#[tokio::test]
async fn a_caller_leaves_so_many_tasks_open_and_others_theirs() {
    let (runtime, url) = served(|server| server.max_open_tasks(2)).await;
    let one = begun(&url, "ada", "1").await["result"]["task"]["id"].as_str().unwrap().to_owned();
    begun(&url, "ada", "2").await;
    let refused = begun(&url, "ada", "3").await;
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    assert!(
        refused["error"]["message"].as_str().unwrap().starts_with("2 tasks of this caller"),
        "{refused}"
    );
    // Repeating a message does not start a new task, so it is answered.
    assert_eq!(begun(&url, "ada", "1").await["result"]["task"]["id"], one.as_str());
    assert!(begun(&url, "bob", "3").await["result"].is_object());
    let mut answer = said("4");
    answer["message"]["taskId"] = one.as_str().into();
    let ended = send(&url, "POST /", &of("ada"), &call("SendMessage", answer)).await.json();
    assert_eq!(ended["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{ended}");
    assert!(begun(&url, "ada", "3").await["result"].is_object());
    assert_eq!(
        runtime.runs().list(agentflow::store::RunFilter::unfinished()).await.unwrap().len(),
        3
    );
}

#[tokio::test]
async fn where_all_clients_are_one_caller_its_limit_does_not_count() {
    let server =
        A2aServer::from_runtime(&runtime()).workflows(["caller_asks"]).max_requests_of_caller(0);
    let url = serve(server).await;
    assert_eq!(
        send(&url, "POST /", GOOD, &call("GetTask", json!({"id": "none"}))).await.status,
        200
    );
}
