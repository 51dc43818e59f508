//! A client of an A2A server does not delay other clients with silent notification addresses, incomplete bodies or large lists.

use std::net::SocketAddr;
use std::time::Duration;

use agentflow::Caller;
use agentflow::a2a::{A2aClient, A2aMessage, A2aPart, A2aPushConfig, A2aTaskQuery};
use agentflow::a2a_server::A2aServer;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::tools::{AddressGuard, HttpRequest};
use axum::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::a2a_push::hook;
use crate::a2a_served::{runtime, serve};

/// Time limit for each wait.
const LIMIT: Duration = Duration::from_secs(30);

/// Repeats a word many times.
#[workflow]
async fn a2a_repeat(word: String, times: u32) -> Result<String> {
    let said = word.repeat(times as usize);
    Ok(said)
}

fn with_callers(server: A2aServer) -> A2aServer {
    server.authenticate(|request: RequestHead| async move {
        request.header("x-who").map(Caller::new).ok_or_else(|| AuthRefusal::unauthenticated("who?"))
    })
}

fn client(url: &str, who: &str) -> A2aClient {
    A2aClient::at("far", url).header("x-who", who).build().unwrap()
}

async fn asking(client: &A2aClient) -> String {
    client.ask(&A2aMessage::user_text("rain")).await.unwrap().task().unwrap().id.clone()
}

#[tokio::test]
async fn silent_addresses_of_one_caller_delay_no_other_caller() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute_url = format!("http://{}/", mute.local_addr().unwrap());
    let runtime = runtime();
    let here =
        HttpRequest::new().guard(AddressGuard::default().allow("127.0.0.1".parse().unwrap(), 32));
    let server = A2aServer::from_runtime(&runtime).workflows(["announce"]).clients_approve();
    let url =
        serve(with_callers(server.push_notifications(here.timeout(Duration::from_secs(3600)))))
            .await;
    let ada = client(&url, "ada");
    for _ in 0..4 {
        let task = asking(&ada).await;
        for number in 0..10 {
            let config = A2aPushConfig::new(&mute_url).id(format!("mute-{number}"));
            ada.create_push_config(&task, &config).await.unwrap();
        }
    }
    // All concurrent notifications of the caller wait for a connection that never responds.
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(timeout(LIMIT, mute.accept()).await.unwrap().unwrap());
    }
    let bob = client(&url, "bob");
    let task = asking(&bob).await;
    let (hook, mut received) = hook(StatusCode::OK).await;
    bob.create_push_config(&task, &A2aPushConfig::new(&hook).id("good")).await.unwrap();
    let (_, update) =
        timeout(LIMIT, received.recv()).await.expect("a notification in time").unwrap();
    assert_eq!(update.task_id(), Some(&*task));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn bodies_that_do_not_arrive_from_one_address_leave_room_for_others() {
    let server = A2aServer::from_runtime(&runtime())
        .workflows(["a2a_repeat"])
        .max_requests(40)
        .max_requests_of_caller(10);
    let router = server.router().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
                a2a-version: 1.0\r\n";
    let mut silent = Vec::new();
    let mut refused = 0;
    for number in 0..50 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head}content-length: 100\r\n\r\n").as_bytes()).await.unwrap();
        if number >= 40 {
            let mut answer = [0; 12];
            timeout(LIMIT, stream.read_exact(&mut answer))
                .await
                .expect("a refusal in time")
                .unwrap();
            assert_eq!(&answer, b"HTTP/1.1 429");
            refused += 1;
        }
        silent.push(stream);
    }
    assert_eq!(refused, 10);
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(address).await.unwrap();
    let part = json!({"data": {"word": "a", "times": 3}});
    let params = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}});
    let body =
        json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params}).to_string();
    other
        .write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    timeout(LIMIT, other.read_to_string(&mut answer)).await.expect("an answer in time").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("aaa"), "{answer}");
}

#[tokio::test]
async fn a_page_of_a_list_is_bounded_by_bytes() {
    let runtime = runtime();
    let url =
        serve(with_callers(A2aServer::from_runtime(&runtime).workflows(["a2a_repeat"]))).await;
    let ada = client(&url, "ada");
    for number in 0..6 {
        let word = A2aMessage::user([A2aPart::data(
            json!({"word": format!("{number:04}"), "times": 1 << 18}),
        )]);
        ada.ask(&word).await.unwrap();
    }
    let (mut seen, mut pages, mut token) = (0, 0, String::new());
    loop {
        let query = A2aTaskQuery::default().with_artifacts().page(&token);
        let page = ada.tasks(&query).await.unwrap();
        let bytes: usize =
            page.tasks.iter().map(|task| json!(task.artifacts).to_string().len()).sum();
        assert!(bytes < 6 << 20, "{bytes}");
        (seen, pages) = (seen + page.tasks.len(), pages + 1);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((seen, pages), (6, 2));
}
