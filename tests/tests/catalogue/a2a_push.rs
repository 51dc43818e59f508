//! Push notifications of an A2A server: configurations in both bindings, notification content,
//! refused addresses, giving up, storage and removal.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use agentflow::Caller;
use agentflow::RunId;
use agentflow::a2a::{A2aClient, A2aErrorCode, A2aMessage, A2aPushConfig, A2aTaskState, A2aUpdate};
use agentflow::a2a_server::A2aServer;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::prelude::*;
use agentflow::runtime::Purge;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunFilter};
use agentflow::tools::{AddressGuard, HttpRequest};
use agentflow_testing::within;
use axum::http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

use crate::a2a_requests::{GOOD, call, send};
use crate::a2a_served::{runtime, serve};

/// A notification: its headers and its content.
type Received = (HeaderMap, A2aUpdate);

/// Starts an endpoint that answers each notification with this status and collects them.
pub(crate) async fn hook(status: StatusCode) -> (String, mpsc::UnboundedReceiver<Received>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let entry = axum::routing::post(move |headers: HeaderMap, body: String| async move {
        sender.send((headers, serde_json::from_str(&body).unwrap())).unwrap();
        (status, [("location", "http://127.0.0.1:9/elsewhere")])
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(
        async move { axum::serve(listener, axum::Router::new().route("/hook", entry)).await },
    );
    (url, receiver)
}

/// Allows requests to this machine.
fn here() -> HttpRequest {
    HttpRequest::new().guard(AddressGuard::default().allow(IpAddr::V4(Ipv4Addr::LOCALHOST), 32))
}

fn server(runtime: &Runtime) -> A2aServer {
    A2aServer::from_runtime(runtime).workflows(["announce"]).clients_approve()
}

fn client(url: &str) -> A2aClient {
    A2aClient::at("far", url).build().unwrap()
}

/// Starts a task that asks a question. Returns its id.
async fn asking(client: &A2aClient) -> String {
    let asked = client.ask(&A2aMessage::user_text("rain")).await.unwrap();
    asked.task().unwrap().id.clone()
}

fn state(update: &A2aUpdate) -> Option<A2aTaskState> {
    match update {
        A2aUpdate::Task(task) => Some(task.status.state),
        A2aUpdate::Status(update) => Some(update.status.state),
        _ => None,
    }
}

/// Waits until no notification is pending.
async fn all_done(runtime: &Runtime) {
    within("all notifications to be sent", async {
        while !runtime.persistent_state().user("\u{1}a2a.push:agentflow").await.unwrap().is_empty()
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_address_is_sent_each_state_with_the_token_until_the_end() {
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(here())).await;
    let client = client(&url);
    assert!(client.card().await.unwrap().capabilities.push_notifications);
    let id = asking(&client).await;
    let (hook, mut received) = hook(StatusCode::OK).await;
    let config = A2aPushConfig::new(&hook)
        .id("c-1")
        .token("s3cret-token")
        .authentication("Bearer", "s3cret-key");
    let created = client.create_push_config(&id, &config).await.unwrap();
    assert_eq!(
        (created.id.as_deref(), created.task_id.as_deref(), created.token),
        (Some("c-1"), Some(&*id), None)
    );

    let (headers, first) = within("a message", received.recv()).await.unwrap();
    assert_eq!(state(&first), Some(A2aTaskState::InputRequired), "{first:?}");
    assert_eq!(
        (first.task_id(), &headers["x-a2a-notification-token"]),
        (Some(&*id), &"s3cret-token".parse().unwrap())
    );
    assert_eq!(
        (&headers["authorization"], &headers["a2a-version"]),
        (&"Bearer s3cret-key".parse().unwrap(), &"1.0".parse().unwrap())
    );
    client.ask(&A2aMessage::user_text("granted").task(&id)).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let (_, update) = within("a message", received.recv()).await.unwrap();
        let is_last = update.is_last();
        seen.push(update);
        if is_last {
            break;
        }
    }
    assert_eq!(seen.last().and_then(state), Some(A2aTaskState::Completed), "{seen:?}");
    assert!(
        seen.iter().any(
            |update| matches!(update, A2aUpdate::Artifact(of) if of.artifact.text() == "rain")
        ),
        "{seen:?}"
    );
    all_done(&runtime).await;

    // Secrets are kept only in the store and are deleted with the run.
    let run = RunId::new(&*id);
    let journal = serde_json::to_string(&runtime.run(&run).journal().await.unwrap()).unwrap();
    assert!(!journal.contains("s3cret") && !format!("{config:?}").contains("s3cret"), "{journal}");
    let notes = format!("\u{1}run:{id}");
    assert_eq!(runtime.persistent_state().user(&notes).await.unwrap().len(), 1);
    runtime.run(&run).delete().await.unwrap();
    assert!(runtime.persistent_state().user(&notes).await.unwrap().is_empty());
}

#[tokio::test]
async fn configurations_are_created_shown_listed_and_deleted_in_both_bindings() {
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(here())).await;
    let client = client(&url);
    let id = asking(&client).await;
    let (hook, _received) = hook(StatusCode::OK).await;
    let place = format!("/tasks/{id}/pushNotificationConfigs");
    let body =
        json!({"url": hook, "token": "t", "authentication": {"scheme": "Bearer", "credentials": "k"}}).to_string();
    for end in ["", "/"] {
        let created = send(&url, &format!("POST {place}{end}"), GOOD, &body).await;
        let shown =
            json!({"id": id, "taskId": id, "url": hook, "authentication": {"scheme": "Bearer"}});
        assert_eq!((created.status, created.json()), (200, shown.clone()), "{}", created.body);
        assert_eq!(send(&url, &format!("GET {place}/{id}{end}"), GOOD, "").await.json(), shown);
        assert_eq!(
            send(&url, &format!("GET {place}{end}"), GOOD, "").await.json(),
            json!({"configs": [shown]})
        );
    }
    client.create_push_config(&id, &A2aPushConfig::new(&hook).id("z")).await.unwrap();
    let first = send(&url, &format!("GET {place}?pageSize=1"), GOOD, "").await.json();
    assert_eq!(
        (first["configs"].as_array().unwrap().len(), &first["nextPageToken"]),
        (1, &json!(id)),
        "{first}"
    );
    let second = client.push_configs(&id, first["nextPageToken"].as_str()).await.unwrap();
    assert_eq!((second.configs[0].id.as_deref(), &*second.next_page_token), (Some("z"), ""));
    for _ in 0..2 {
        client.delete_push_config(&id, "z").await.unwrap();
    }
    assert_eq!(
        client.push_config(&id, "z").await.unwrap_err().code(),
        Some(A2aErrorCode::TaskNotFound)
    );
    let deleted = send(&url, &format!("DELETE {place}/{id}"), GOOD, "").await;
    assert_eq!((deleted.status, deleted.json()), (200, json!({})), "{}", deleted.body);
    assert!(client.push_configs(&id, None).await.unwrap().configs.is_empty());
    assert_eq!(send(&url, &format!("PUT {place}"), GOOD, &body).await.status, 405);
    assert_eq!(send(&url, &format!("POST {place}/{id}"), GOOD, &body).await.status, 405);
    assert_eq!(
        send(&url, &format!("POST {place}"), "a2a-version: 1.0\r\n", &body).await.status,
        415
    );
    let other = json!({"url": hook, "taskId": "other"}).to_string();
    let other = send(&url, &format!("POST {place}"), GOOD, &other).await.json();
    assert_eq!(other["error"]["details"][0]["reason"], "INVALID_PARAMS", "{other}");
}

#[tokio::test]
async fn a_configuration_may_come_with_its_message_and_is_checked_before_it_begins_anything() {
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(here())).await;
    let (hook, mut received) = hook(StatusCode::OK).await;
    let sent = |hook: &str| {
        let message = json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "rain"}]});
        let configuration =
            json!({"returnImmediately": true, "taskPushNotificationConfig": {"url": hook}});
        call("SendMessage", json!({"message": message, "configuration": configuration}))
    };
    let refused = send(&url, "POST /", GOOD, &sent("http://169.254.169.254/latest")).await.json();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(runtime.runs().list(RunFilter::new()).await.unwrap().is_empty());
    let begun = send(&url, "POST /", GOOD, &sent(&hook)).await.json();
    let id = begun["result"]["task"]["id"].as_str().unwrap().to_owned();
    assert_eq!(within("a message", received.recv()).await.unwrap().1.task_id(), Some(&*id));
    // Repeating the message returns the same task with the same configuration.
    send(&url, "POST /", GOOD, &sent(&hook)).await;
    assert_eq!(client(&url).push_configs(&id, None).await.unwrap().configs.len(), 1);
}

#[tokio::test]
async fn malformed_configurations_and_addresses_within_are_refused() {
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(HttpRequest::new())).await;
    let client = client(&url);
    let id = asking(&client).await;
    let create = |change: Value| {
        let mut params = json!({"taskId": id, "url": "https://client.example/hook"});
        params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        call("CreateTaskPushNotificationConfig", params)
    };
    let mut table: Vec<(String, i64)> = [
        "",
        "hook",
        "ftp://client.example/",
        "file:///etc/passwd",
        "https://ada:secret@client.example/",
        "http://127.0.0.1/",
        "http://localhost.:80@127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:7f00:1::]/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://0/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://127.1/",
    ]
    .map(|url| (create(json!({"url": url})), -32602))
    .into();
    table.extend([
        (create(json!({"url": 3})), -32602),
        (create(json!({"url": null})), -32602),
        (create(json!({"url": format!("https://client.example/{}", "x".repeat(9000))})), -32602),
        // A token must not be sent in plain text.
        (create(json!({"url": "http://client.example/", "token": "t"})), -32602),
        (create(json!({"token": "a\r\nb: c"})), -32602),
        (create(json!({"token": "x".repeat(5000)})), -32602),
        (create(json!({"token": 3})), -32602),
        (create(json!({"authentication": {"scheme": "Bea rer", "credentials": "k"}})), -32602),
        (create(json!({"authentication": {"scheme": "", "credentials": "k"}})), -32602),
        (create(json!({"authentication": {"credentials": "k"}})), -32602),
        (create(json!({"authentication": "Bearer k"})), -32602),
        (create(json!({"id": "x".repeat(300)})), -32602),
        (create(json!({"tenant": "acme"})), -32602),
        (create(json!({"taskId": ""})), -32602),
        (create(json!({"taskId": 4})), -32602),
        (create(json!({"taskId": "other"})), -32001),
        (call("CreateTaskPushNotificationConfig", json!([])), -32602),
        (call("GetTaskPushNotificationConfig", json!({"taskId": id})), -32602),
        (call("GetTaskPushNotificationConfig", json!({"taskId": id, "id": ""})), -32602),
        (call("GetTaskPushNotificationConfig", json!({"taskId": id, "id": "x"})), -32001),
        (call("GetTaskPushNotificationConfig", json!({"taskId": "other", "id": "x"})), -32001),
        (call("DeleteTaskPushNotificationConfig", json!({"taskId": "other", "id": "x"})), -32001),
        (call("DeleteTaskPushNotificationConfig", json!({"id": "x"})), -32602),
        (call("ListTaskPushNotificationConfigs", json!({"taskId": "other"})), -32001),
        (call("ListTaskPushNotificationConfigs", json!({"taskId": id, "pageSize": 0})), -32602),
        (call("ListTaskPushNotificationConfigs", json!({})), -32602),
    ]);
    for (body, code) in table {
        let answer = send(&url, "POST /", GOOD, &body).await.json();
        assert_eq!(answer["error"]["code"], code, "{body}: {answer}");
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    assert!(client.push_configs(&id, None).await.unwrap().configs.is_empty());
}

#[tokio::test]
async fn a_thousand_configurations_end_at_their_limit() {
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(here())).await;
    let client = client(&url);
    let id = asking(&client).await;
    let (hook, _received) = hook(StatusCode::OK).await;
    let mut refused = 0;
    for n in 0..1000 {
        match client
            .create_push_config(&id, &A2aPushConfig::new(&hook).id(format!("c-{n:04}")))
            .await
        {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code(), Some(A2aErrorCode::InvalidParams), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!((refused, client.push_configs(&id, None).await.unwrap().configs.len()), (990, 10));
}

#[tokio::test]
async fn a_configuration_of_another_caller_is_not_found() {
    let runtime = runtime();
    let server = server(&runtime).push_notifications(here()).authenticate(
        |request: RequestHead| async move {
            request
                .header("x-who")
                .map(Caller::new)
                .ok_or_else(|| AuthRefusal::unauthenticated("who?"))
        },
    );
    let url = serve(server).await;
    let [ada, bob] =
        ["ada", "bob"].map(|who| A2aClient::at("far", &url).header("x-who", who).build().unwrap());
    let id = asking(&ada).await;
    let (hook, _received) = hook(StatusCode::OK).await;
    ada.create_push_config(&id, &A2aPushConfig::new(&hook).id("c")).await.unwrap();
    let not_found = Some(A2aErrorCode::TaskNotFound);
    assert_eq!(bob.push_config(&id, "c").await.unwrap_err().code(), not_found);
    assert_eq!(bob.push_configs(&id, None).await.unwrap_err().code(), not_found);
    assert_eq!(bob.delete_push_config(&id, "c").await.unwrap_err().code(), not_found);
    assert_eq!(
        bob.create_push_config(&id, &A2aPushConfig::new(&hook)).await.unwrap_err().code(),
        not_found
    );
    assert_eq!(ada.push_configs(&id, None).await.unwrap().configs.len(), 1);
}

#[tokio::test]
async fn a_name_that_comes_to_mean_this_machine_is_not_connected_to() {
    let (hook, mut received) = hook(StatusCode::OK).await;
    let port = hook.split(':').next_back().unwrap().to_owned();
    let (asked, mut names) = mpsc::unbounded_channel();
    let request = HttpRequest::new().resolver(move |host| {
        asked.send(host).unwrap();
        async {
            Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34)), IpAddr::V4(Ipv4Addr::LOCALHOST)])
        }
    });
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(request)).await;
    let client = client(&url);
    let id = asking(&client).await;
    client
        .create_push_config(&id, &A2aPushConfig::new(format!("http://rebinds.example:{port}")))
        .await
        .unwrap();
    for _ in 0..2 {
        assert_eq!(within("a message", names.recv()).await.unwrap(), "rebinds.example");
    }
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_each_notification() {
    let (hook, mut received) = hook(StatusCode::OK).await;
    let port = hook.split(':').next_back().unwrap().to_owned();
    let (asked, mut names) = mpsc::unbounded_channel();
    let request = here().resolver(move |host| {
        asked.send(host).unwrap();
        async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) }
    });
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(request)).await;
    let client = client(&url);
    let id = asking(&client).await;
    // The system resolver does not know the name, so delivery proves that the checked address was
    // used.
    client
        .create_push_config(&id, &A2aPushConfig::new(format!("http://hook.invalid:{port}")))
        .await
        .unwrap();
    assert_eq!(
        state(&within("a message", received.recv()).await.unwrap().1),
        Some(A2aTaskState::InputRequired)
    );
    client.cancel(&id).await.unwrap();
    all_done(&runtime).await;
    let mut sent = 1;
    while let Ok((headers, _)) = received.try_recv() {
        assert_eq!(headers["host"].to_str().unwrap().split(':').next(), Some("hook.invalid"));
        sent += 1;
    }
    let mut looked_up = Vec::new();
    while let Ok(name) = names.try_recv() {
        looked_up.push(name);
    }
    assert_eq!(looked_up, vec!["hook.invalid"; sent]);
}

#[tokio::test]
async fn what_is_kept_beside_a_run_is_removed_with_it() {
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(here())).await;
    let client = client(&url);
    let (hook, _received) = hook(StatusCode::OK).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        let asked = client.ask(&A2aMessage::user_text("rain").id(format!("m-{n}"))).await.unwrap();
        let id = asked.task().unwrap().id.clone();
        client
            .create_push_config(&id, &A2aPushConfig::new(&hook).token(format!("key-{n}")))
            .await
            .unwrap();
        client.cancel(&id).await.unwrap();
        ids.push(RunId::new(id));
    }
    all_done(&runtime).await;
    let kept = async |id: &RunId| {
        runtime.persistent_state().user(&format!("\u{1}run:{id}")).await.unwrap().len()
    };
    for id in &ids {
        assert!(kept(id).await > 0);
    }
    runtime.run(&ids[0]).delete().await.unwrap();
    assert_eq!((kept(&ids[0]).await, kept(&ids[1]).await > 0), (0, true));
    let purged = runtime.runs().purge(&Purge::older_than(Duration::ZERO)).await.unwrap();
    assert_eq!(purged.len(), 2);
    for id in &ids {
        assert_eq!(kept(id).await, 0);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_what_is_refused_for_good_is_given_up() {
    for status in [StatusCode::TEMPORARY_REDIRECT, StatusCode::GONE] {
        let runtime = runtime();
        let url = serve(server(&runtime).push_notifications(here())).await;
        let client = client(&url);
        let id = asking(&client).await;
        let (hook, mut received) = hook(status).await;
        client.create_push_config(&id, &A2aPushConfig::new(&hook)).await.unwrap();
        within("a message", received.recv()).await.unwrap();
        client.cancel(&id).await.unwrap();
        all_done(&runtime).await;
        let rest: Vec<_> = std::iter::from_fn(|| received.try_recv().ok()).collect();
        assert_eq!(rest.len(), 1, "each is sent once: {rest:?}");
        assert_eq!(state(&rest[0].1), Some(A2aTaskState::Canceled));
    }
}

#[tokio::test]
async fn an_address_that_never_answers_keeps_neither_the_run_nor_another_address_waiting() {
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute_url = format!("http://{}/", mute.local_addr().unwrap());
    let runtime = runtime();
    let url =
        serve(server(&runtime).push_notifications(here().timeout(Duration::from_secs(3600)))).await;
    let client = client(&url);
    let id = asking(&client).await;
    client.create_push_config(&id, &A2aPushConfig::new(&mute_url).id("mute")).await.unwrap();
    // The connection is open, but the endpoint never answers.
    let _held = mute.accept().await.unwrap();
    let (hook, mut received) = hook(StatusCode::OK).await;
    client.create_push_config(&id, &A2aPushConfig::new(&hook).id("good")).await.unwrap();
    let answer = client.ask(&A2aMessage::user_text("granted").task(&id)).await.unwrap();
    assert_eq!(answer.text(), "rain");
    loop {
        if within("a message", received.recv()).await.unwrap().1.is_last() {
            break;
        }
    }
}

#[tokio::test]
async fn an_ended_task_is_notified_of_once_and_an_earlier_process_leaves_nothing_behind() {
    let runtime = runtime();
    let store_only = A2aServer::from_runtime(&runtime).workflows(["announce"]).clients_approve();
    let url = serve(store_only.clone().push_notifications(here())).await;
    let first = client(&url);
    let id = asking(&first).await;
    first.cancel(&id).await.unwrap();
    let (hook, mut received) = hook(StatusCode::OK).await;
    first.create_push_config(&id, &A2aPushConfig::new(&hook)).await.unwrap();
    assert_eq!(
        state(&within("a message", received.recv()).await.unwrap().1),
        Some(A2aTaskState::Canceled)
    );
    all_done(&runtime).await;
    // A second server over the store has nothing left to send.
    let second = client(&serve(store_only.push_notifications(here())).await);
    assert_eq!(second.push_configs(&id, None).await.unwrap().configs.len(), 1);
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn two_servers_of_one_store_notify_at_least_once_and_not_endlessly() {
    let runtime = runtime();
    let url = serve(server(&runtime).push_notifications(here())).await;
    let client = client(&url);
    let id = asking(&client).await;
    let (hook, mut received) = hook(StatusCode::OK).await;
    client.create_push_config(&id, &A2aPushConfig::new(&hook)).await.unwrap();
    within("a message", received.recv()).await.unwrap();
    let _other = serve(server(&runtime).push_notifications(here())).await;
    // Both servers follow the task.
    within("a message", received.recv()).await.unwrap();
    client.ask(&A2aMessage::user_text("granted").task(&id)).await.unwrap();
    all_done(&runtime).await;
    let ends = std::iter::from_fn(|| received.try_recv().ok())
        .filter(|(_, update)| update.is_last())
        .count();
    assert!((1..=2).contains(&ends), "{ends}");
}

#[tokio::test]
async fn a_store_without_state_cannot_keep_configurations() {
    /// A store that stores runs and no other data.
    #[derive(Debug)]
    struct RunsAlone(MemoryStore);

    impl agentflow::store::StoreLayer for RunsAlone {
        fn inner(&self) -> &dyn agentflow::store::Store {
            &self.0
        }

        fn state(&self) -> Option<&dyn agentflow::store::StateStore> {
            None
        }
    }

    let runtime = Runtime::builder().store(RunsAlone(MemoryStore::new())).build();
    let error = server(&runtime).push_notifications(here()).check().await.unwrap_err();
    assert!(error.to_string().contains("`push_notifications`"), "{error}");
}
