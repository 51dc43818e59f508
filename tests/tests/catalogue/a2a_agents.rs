//! Misbehaving A2A agents of other programs: cards of other versions, streams that break, invalid
//! answers, silence, floods, echoed keys. Every call has a result, and no message is sent twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::a2a::{
    A2aClient, A2aClientBuilder, A2aError, A2aErrorCode, A2aMessage, A2aTaskState,
};
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::tool::{Effects, ToolPolicy};
use agentflow_testing::{ScriptedModel, Turn, within};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::raw_http::{Request, full, request};

/// The response of an agent.
enum Sent {
    /// A JSON-RPC result.
    Result(Value),
    /// A JSON-RPC error with this code.
    Error(i64),
    /// A complete stream of these items.
    Stream(Vec<Value>),
    /// A stream of these items that breaks off.
    Broken(Vec<Value>),
    /// Raw bytes.
    Bytes(String),
    /// A closed connection.
    Nothing,
    Silence,
}

/// A running agent: its address, and the methods that were called.
struct Agent {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Agent {
    fn client(&self) -> A2aClientBuilder {
        A2aClient::at("far", &self.url).request_timeout(Duration::from_secs(20))
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn card(url: &str, streaming: bool) -> Value {
    json!({
        "name": "Far", "description": "Is far away.", "version": "1",
        "supportedInterfaces": [{"url": format!("{url}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": streaming}, "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "Search", "description": "Searches far away.", "tags": ["far"]}],
    })
}

/// Starts an agent. `card` builds its card from its address, and `answer` responds to requests.
async fn with_card(
    card: impl Fn(&str) -> String + Send + Sync + 'static,
    answer: impl Fn(&Request) -> Sent + Send + Sync + 'static,
) -> Agent {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let agent = Agent { url: url.clone(), asked: Arc::clone(&asked) };
    let (card, answer) = (Arc::new(card), Arc::new(answer));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (card, answer, url, asked) =
                (card.clone(), answer.clone(), url.clone(), asked.clone());
            tokio::spawn(async move {
                while let Some(request) = request(&mut stream).await {
                    let bytes = match request.head.starts_with("GET /.well-known/agent-card.json ")
                    {
                        true => card(&url),
                        false => {
                            asked.lock().unwrap().push(request.method().to_owned());
                            match bytes(&request, answer(&request)) {
                                Some(bytes) => bytes,
                                None => std::future::pending().await,
                            }
                        }
                    };
                    if stream.write_all(bytes.as_bytes()).await.is_err()
                        || !bytes.contains("content-length")
                    {
                        return;
                    }
                }
            });
        }
    });
    agent
}

fn bytes(request: &Request, sent: Sent) -> Option<String> {
    let id = &request.message["id"];
    let events = |items: Vec<Value>| -> String {
        let event =
            |item| format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": item}));
        items.into_iter().map(event).collect()
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    Some(match sent {
        Sent::Result(result) => json_of(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Sent::Error(code) => json_of(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "because"}}),
        ),
        Sent::Stream(items) => format!("{head}connection: close\r\n\r\n{}", events(items)),
        Sent::Broken(items) => {
            format!("{head}transfer-encoding: chunked\r\n\r\nfffff\r\n{}", events(items))
        }
        Sent::Bytes(bytes) => bytes,
        Sent::Nothing => String::new(),
        Sent::Silence => return None,
    })
}

fn json_of(value: &Value) -> String {
    full("200 OK", "application/json", &value.to_string())
}

/// Starts an agent with a valid card.
async fn agent(
    streaming: bool,
    answer: impl Fn(&Request) -> Sent + Send + Sync + 'static,
) -> Agent {
    with_card(move |url| json_of(&card(url, streaming)), answer).await
}

fn task(state: &str) -> Value {
    json!({"id": "t", "contextId": "c", "status": {"state": format!("TASK_STATE_{state}")}})
}

fn done() -> Value {
    let mut task = task("COMPLETED");
    task["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "whole"}]}]);
    task
}

fn artifact(text: &str) -> Value {
    json!({"artifactUpdate": {
        "taskId": "t", "contextId": "c", "append": true, "artifact": {"artifactId": "a", "parts": [{"text": text}]},
    }})
}

fn hello() -> A2aMessage {
    A2aMessage::user_text("hello")
}

async fn call(client: &A2aClient) -> (ToolStatus, String) {
    let runtime = Runtime::builder().toolset(client.clone()).build();
    let call = ToolCall::new("c", "a2a.far", json!({"message": "hello"}).to_string());
    match runtime.invoke(&call, &[]).await {
        Ok(result) => (result.status, result.text().into_owned()),
        Err(error) => (ToolStatus::Error, error.to_string()),
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_resumed_and_the_message_is_sent_once() {
    let subscriptions = AtomicUsize::new(0);
    let far = agent(true, move |request| match request.method() {
        "SendStreamingMessage" => Sent::Broken(vec![json!({"task": task("WORKING")}), artifact("who")]),
        "SubscribeToTask" => match subscriptions.fetch_add(1, Ordering::SeqCst) {
            0 => Sent::Nothing,
            1 => Sent::Stream(vec![json!({"task": task("WORKING")})]),
            _ => {
                let completed = json!({"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
                Sent::Stream(vec![
                    json!({"task": task("WORKING")}),
                    artifact("wh"),
                    artifact("ole"),
                    json!({"statusUpdate": completed}),
                ])
            }
        },
        _ => Sent::Error(-32601),
    })
    .await;
    let answer = far.client().build().unwrap().ask(&hello()).await.unwrap();
    assert_eq!(answer.text(), "whole");
    let subscribe = "SubscribeToTask";
    assert_eq!(far.asked(), ["SendStreamingMessage", subscribe, subscribe, subscribe]);
}

/// LangGraph's server sends such frames although its card declares version 1.0.
#[tokio::test]
async fn frames_in_the_form_of_version_0_3_are_read() {
    let far = agent(true, |request| match request.method() {
        "SendStreamingMessage" => Sent::Stream(vec![
            json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}}),
            json!({
                "kind": "status-update", "taskId": "t", "contextId": "c", "final": false,
                "status": {"state": "working", "message": {
                    "kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "0 "}],
                }},
            }),
            json!({
                "kind": "artifact-update", "taskId": "t", "contextId": "c",
                "artifact": {"artifactId": "a", "parts": [
                    {"kind": "text", "text": "whole"},
                    {"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGk="}},
                ]},
            }),
            json!({"kind": "status-update", "taskId": "t", "final": true, "status": {"state": "completed"}}),
        ]),
        _ => Sent::Error(-32601),
    })
    .await;
    let answer = far.client().build().unwrap().ask(&hello()).await.unwrap();
    assert_eq!(answer.text(), "whole");
    let file = &answer.task().unwrap().artifacts[0].parts[1];
    assert_eq!(
        (file.filename.as_deref(), file.media_type.as_deref()),
        (Some("a.txt"), Some("text/plain"))
    );
    assert_eq!(far.asked(), ["SendStreamingMessage"]);
}

#[tokio::test]
async fn only_redirects_within_the_origin_are_followed_and_errors_name_others() {
    let moved = |to: &str| {
        Sent::Bytes(format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
        ))
    };
    let far = agent(true, move |request| match request.head.starts_with("POST /rpc/ ") {
        true => Sent::Stream(vec![json!({"task": done()})]),
        false => moved("/rpc/"),
    })
    .await;
    let client = far.client().bearer("key-1234").build().unwrap();
    assert_eq!(client.ask(&hello()).await.unwrap().text(), "whole");
    let elsewhere = agent(false, move |_| moved("http://127.0.0.1:1/rpc?k=key-1234")).await;
    let error = elsewhere
        .client()
        .bearer("key-1234")
        .build()
        .unwrap()
        .ask(&hello())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("it redirects to `http://127.0.0.1:1/rpc?k=") && !error.contains("key-1234"),
        "{error}"
    );
    let circle = agent(false, move |_| moved("/rpc")).await;
    assert!(circle.client().build().unwrap().ask(&hello()).await.is_err());
    assert_eq!(circle.asked().len(), 6);
}

#[tokio::test]
async fn streams_can_be_turned_off() {
    let far = agent(true, |_| Sent::Result(json!({"task": done()}))).await;
    assert_eq!(
        far.client().without_streams().build().unwrap().ask(&hello()).await.unwrap().text(),
        "whole"
    );
    assert_eq!(far.asked(), ["SendMessage"]);
}

#[tokio::test]
async fn a_card_without_a_description_and_a_version_is_read() {
    let agent = with_card(
        |url| {
            let mut card = card(url, false);
            let fields = card.as_object_mut().unwrap();
            fields.retain(|name, _| name != "description" && name != "version");
            full("200 OK", "application/json", &card.to_string())
        },
        |_| Sent::Result(json!({"task": done()})),
    )
    .await;
    assert_eq!(agent.client().build().unwrap().ask(&hello()).await.unwrap().text(), "whole");
}

#[tokio::test]
async fn a_task_that_ended_while_its_stream_was_broken_is_looked_at() {
    let far = agent(true, |request| match request.method() {
        "SendStreamingMessage" => Sent::Broken(vec![json!({"task": task("WORKING")})]),
        "SubscribeToTask" => Sent::Error(-32004),
        _ => Sent::Result(done()),
    })
    .await;
    assert_eq!(far.client().build().unwrap().ask(&hello()).await.unwrap().text(), "whole");
    assert_eq!(far.asked(), ["SendStreamingMessage", "SubscribeToTask", "GetTask"]);
}

#[tokio::test]
async fn a_stream_that_begins_with_a_change_ends_with_the_whole_task() {
    let far = agent(true, |request| match request.method() {
        "SendStreamingMessage" => {
            let completed = json!({"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
            Sent::Stream(vec![artifact("ole"), json!({"statusUpdate": completed})])
        }
        _ => Sent::Result(done()),
    })
    .await;
    assert_eq!(
        far.client().build().unwrap().ask(&hello().task("t")).await.unwrap().text(),
        "whole"
    );
    assert_eq!(far.asked(), ["SendStreamingMessage", "GetTask"]);
}

#[tokio::test]
async fn a_message_whose_task_is_not_known_is_sent_again_only_where_that_does_no_harm() {
    for (policy, times) in
        [(ToolPolicy::default(), 1), (ToolPolicy::default().effects(Effects::Read), 2)]
    {
        let far = agent(true, |_| Sent::Broken(Vec::new())).await;
        let (status, text) = call(&far.client().policy(policy).build().unwrap()).await;
        assert_eq!((status, far.asked().len()), (ToolStatus::Error, times), "{text}");
        assert!(text.contains("whether the message had its effect is unknown"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_brings_anything_new_is_given_up() {
    let far = agent(true, |request| match request.method() {
        "CancelTask" => Sent::Result(task("CANCELED")),
        _ => Sent::Stream(vec![json!({"task": task("WORKING")})]),
    })
    .await;
    let error = far.client().build().unwrap().ask(&hello()).await.unwrap_err();
    assert!(
        matches!(&error, A2aError::Lost { problem, .. } if problem.contains("resumed 5 times")),
        "{error}"
    );
    assert_eq!(far.asked().iter().filter(|method| *method == "SendStreamingMessage").count(), 1);
}

#[tokio::test]
async fn an_agent_without_streams_is_polled() {
    let looks = AtomicUsize::new(0);
    let far = agent(false, move |request| match request.method() {
        "SendMessage" => {
            assert_eq!(request.message["params"]["configuration"]["returnImmediately"], true);
            assert!(
                request.head.to_ascii_lowercase().contains("\r\na2a-version: 1.0\r\n"),
                "{}",
                request.head
            );
            Sent::Result(json!({"task": task("SUBMITTED")}))
        }
        _ => match looks.fetch_add(1, Ordering::SeqCst) {
            0 => Sent::Nothing,
            _ => Sent::Result(done()),
        },
    })
    .await;
    assert_eq!(far.client().build().unwrap().ask(&hello()).await.unwrap().text(), "whole");
    assert_eq!(far.asked(), ["SendMessage", "GetTask", "GetTask"]);
}

#[tokio::test]
async fn an_agent_calls_it_by_its_name_and_reads_its_answer() {
    let far = agent(false, |_| Sent::Result(json!({"task": done()}))).await;
    let model = ScriptedModel::new([
        Turn::call("a2a__far", json!({"message": "Search for X."})),
        Turn::text("It is the whole."),
    ])
    .capturing();
    let agent = agentflow::Agent::new(model.clone()).tools(far.client().build().unwrap());
    assert_eq!(agent.run("What is X?").await.unwrap().output(), "It is the whole.");
    let requests = model.requests();
    let tool =
        requests[0].tools.definitions().iter().find(|tool| &*tool.name == "a2a__far").unwrap();
    assert_eq!(
        &*tool.description,
        "Asks the agent Far: Is far away.\n- Search: Searches far away."
    );
    let answer = requests[1].messages.last().unwrap().results().next().unwrap().output.clone();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["output"], &answer["agent_id"]),
        (&"whole".into(), &"far".into()),
        "{answer}"
    );
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_cancels_its_task() {
    let (cancelled, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let far = agent(true, move |request| match request.method() {
        "CancelTask" => {
            cancelled.send(request.message["params"]["id"].clone()).unwrap();
            Sent::Result(task("CANCELED"))
        }
        "SendStreamingMessage" => Sent::Broken(vec![json!({"task": task("WORKING")})]),
        _ => Sent::Silence,
    })
    .await;
    let client = far
        .client()
        .policy(ToolPolicy::default().timeout(Duration::from_millis(700)))
        .build()
        .unwrap();
    let (status, text) = call(&client).await;
    assert_eq!(status, ToolStatus::Timeout, "{text}");
    assert_eq!(within("a message", seen.recv()).await, Some("t".into()));
}

#[tokio::test]
async fn a_card_that_cannot_be_used_says_why() {
    let with = |change: fn(&mut Value)| {
        move |url: &str| {
            let mut card = card(url, true);
            change(&mut card);
            json_of(&card)
        }
    };
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 9] = [
        (
            |card| *card = json!({"name": "Old", "url": "http://a", "protocolVersion": "0.3.0"}),
            "speaks A2A 0.3.0",
        ),
        (|card| card["supportedInterfaces"][0]["protocolVersion"] = "2.0".into(), "speaks A2A 2.0"),
        (
            |card| card["supportedInterfaces"][0]["protocolBinding"] = "GRPC".into(),
            "it offers `GRPC`",
        ),
        (|card| card["supportedInterfaces"] = json!([]), "it offers nothing"),
        (|card| card["supportedInterfaces"][0]["url"] = "/rpc".into(), "has no address"),
        (|card| card["supportedInterfaces"][0]["url"] = "file:///etc".into(), "not one of HTTP"),
        (
            |card| card["supportedInterfaces"][0]["url"] = "http://10.0.0.1/rpc".into(),
            "allow_origin(\"http://10.0.0.1\")",
        ),
        (|card| card["name"] = json!(7), "name: invalid type"),
        (
            |card| card["capabilities"]["extensions"] = json!([{"uri": "x:y", "required": true}]),
            "requires the extension `x:y`",
        ),
    ];
    for (change, says) in cases {
        let far = with_card(with(change), |_| Sent::Nothing).await;
        let error = far.client().build().unwrap().card().await.unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
        assert!(far.asked().is_empty());
    }
    let redirects = with_card(
        |_| {
            "HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n"
                .to_owned()
        },
        |_| Sent::Nothing,
    );
    let error = redirects.await.client().build().unwrap().card().await.unwrap_err().to_string();
    assert!(error.contains("it redirects to `http://10.0.0.1/`, which is not followed"), "{error}");
    let flood =
        with_card(|_| full("200 OK", "application/json", &"[".repeat(5000)), |_| Sent::Nothing)
            .await;
    let error =
        flood.client().max_message(4000).build().unwrap().card().await.unwrap_err().to_string();
    assert!(error.contains("more than 4000 bytes"), "{error}");
    let deep =
        with_card(|_| full("200 OK", "application/json", &"[".repeat(5000)), |_| Sent::Nothing)
            .await;
    let error = deep.client().build().unwrap().card().await.unwrap_err().to_string();
    assert!(error.contains("it is not JSON"), "{error}");
}

#[tokio::test]
async fn a_card_is_fetched_again_when_that_is_asked_for() {
    let fetches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&fetches);
    let count = move |url: &str| {
        counted.fetch_add(1, Ordering::SeqCst);
        json_of(&card(url, false))
    };
    let far = with_card(count, |_| Sent::Nothing).await;
    let client = far.client().build().unwrap();
    let (one, other) = tokio::join!(client.card(), client.card());
    assert_eq!(one.unwrap(), other.unwrap());
    assert_eq!(fetches.load(Ordering::SeqCst), 1);
    client.refresh();
    client.card().await.unwrap();
    assert_eq!(fetches.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_answer_in_no_form_is_an_error_within_limits() {
    let answer = |text: &str| {
        let bytes = full("200 OK", "application/json", text);
        move |_: &Request| Sent::Bytes(bytes.clone())
    };
    for (text, says) in [
        ("{}", "not one of JSON-RPC 2.0"),
        ("<html>", "not JSON"),
        (r#"{"jsonrpc": "2.0", "id": 99, "result": {}}"#, "the answer to another request"),
        (r#"{"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": ""}}}"#, "cannot be used"),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, "cannot be used"),
        (r#"{"jsonrpc": "2.0", "id": 1, "error": "no"}"#, "does not say why"),
    ] {
        let far = agent(false, answer(text)).await;
        let error = far.client().build().unwrap().ask(&hello()).await.unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let far = agent(false, answer(&format!("{{\"a\": \"{}\"}}", "x".repeat(9000)))).await;
    let error = far.client().max_message(2000).build().unwrap().ask(&hello()).await.unwrap_err();
    assert!(matches!(error, A2aError::Answer { .. }), "{error}");
    // A response that is not a stream, an item that is too large, and endless items.
    let far = agent(true, answer("{}")).await;
    let error = far.client().build().unwrap().ask(&hello()).await.unwrap_err().to_string();
    assert!(error.contains("not a stream of events"), "{error}");
    let large =
        || Sent::Stream(vec![json!({"task": task("WORKING")}), artifact(&"x".repeat(9000))]);
    let small = || {
        let pieces = (0..200).map(|_| artifact("piece"));
        Sent::Stream(std::iter::once(json!({"task": task("WORKING")})).chain(pieces).collect())
    };
    for sent in [large as fn() -> Sent, small] {
        let far = agent(true, move |request| match request.method() {
            "SendStreamingMessage" => sent(),
            _ => Sent::Result(task("CANCELED")),
        });
        let error = far
            .await
            .client()
            .max_message(4000)
            .build()
            .unwrap()
            .ask(&hello())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("more than 4000 bytes"), "{error}");
    }
}

#[tokio::test]
async fn errors_of_an_agent_have_their_codes_and_no_keys() {
    const KEY: &str = "sesame-street-1";
    let far = agent(false, |request| {
        assert!(request.head.contains(KEY));
        Sent::Bytes(json_of(&json!({
            "jsonrpc": "2.0", "id": request.message["id"],
            "error": {"code": -32005, "message": format!("no `{KEY}`"), "data": []},
        })))
    })
    .await;
    let error = far.client().bearer(KEY).build().unwrap().ask(&hello()).await.unwrap_err();
    assert_eq!(error.code(), Some(A2aErrorCode::ContentTypeNotSupported));
    assert!(!error.to_string().contains(KEY), "{error}");
    let far = agent(false, |_| Sent::Bytes(full("401 Unauthorized", "text/plain", ""))).await;
    let error = far.client().build().unwrap().ask(&hello()).await.unwrap_err().to_string();
    assert!(error.contains("give it one with `bearer`"), "{error}");
}

#[tokio::test]
async fn a_mute_agent_and_one_that_is_not_there_have_their_time() {
    let far = agent(false, |_| Sent::Silence).await;
    let client = far.client().request_timeout(Duration::from_millis(300)).build().unwrap();
    let error = client.ask(&hello()).await.unwrap_err();
    assert!(matches!(error, A2aError::Silent { request: "SendMessage", .. }), "{error}");
    let gone = A2aClient::at("far", "http://127.0.0.1:1").build().unwrap();
    let error = gone.card().await.unwrap_err();
    assert!(matches!(error, A2aError::Connect { .. }), "{error}");
    let (status, text) = call(&gone).await;
    assert_eq!((status, text.contains("cannot be reached")), (ToolStatus::Error, true), "{text}");
}

#[tokio::test]
async fn credentials_that_an_agent_asks_for_are_an_error_for_the_model() {
    let far = agent(false, |_| Sent::Result(json!({"task": task("AUTH_REQUIRED")}))).await;
    let (status, text) = call(&far.client().build().unwrap()).await;
    assert_eq!(
        (status, text.contains("asks for credentials")),
        (ToolStatus::Error, true),
        "{text}"
    );
    let answer = far.client().build().unwrap().ask(&hello()).await.unwrap();
    assert_eq!(answer.task().unwrap().status.state, A2aTaskState::AuthRequired);
}

#[test]
fn names_addresses_and_headers_are_checked_before_anything_is_sent() {
    for (client, says) in [
        (A2aClient::at("a b", "http://a"), "must be of letters"),
        (A2aClient::at("", "http://a"), "must be of letters"),
        (A2aClient::at("a", "ftp://a"), "`http://` or `https://`"),
        (A2aClient::at("a", "nowhere"), "not an address"),
        (A2aClient::at("a", "http://a").header("x\n", "y"), "name of a header"),
    ] {
        let error = client.build().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
