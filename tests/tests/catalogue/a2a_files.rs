//! Data that an A2A server shows in addition to the state of a task: its messages, files that were
//! received and saved, and the card for authenticated clients.

use std::sync::{Arc, Mutex};

use agentflow::Caller;
use agentflow::a2a::{
    A2aClient, A2aContent, A2aErrorCode, A2aMessage, A2aPart, A2aRole, A2aTaskQuery,
};
use agentflow::a2a_server::A2aServer;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::message::Part;
use agentflow::middleware::{AgentStep, Flow, Middleware};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, from_value, json};
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn};

use crate::a2a_requests::{GOOD, call, send};
use crate::a2a_served::{runtime, serve};

fn client(url: &str) -> A2aClient {
    A2aClient::at("far", url).build().unwrap()
}

fn part(json: Value) -> A2aPart {
    from_value(json).unwrap()
}

/// Draws a dot and says so.
#[workflow]
async fn draw(cx: &Context, text: String) -> Result<String> {
    let said = drawn(cx, text).await?;
    Ok(said)
}

async fn drawn(cx: &Context, text: String) -> Result<String> {
    cx.save_artifact("dot.png", [0_u8, 1, 255], "image/png").await?;
    cx.save_artifact("notes.md", text.clone(), "text/markdown").await?;
    cx.save_artifact("large.bin", vec![7_u8; 5000], "application/octet-stream").await?;
    cx.save_artifact("private.txt", "not for clients", "text/plain").await?;
    Ok(text)
}

/// Says a text many times.
#[workflow]
async fn many(text: String) -> Result<String> {
    let said = repeated(text).await?;
    Ok(said)
}

async fn repeated(text: String) -> Result<String> {
    Ok(text.repeat(6 << 20))
}

#[tokio::test]
async fn a_page_with_results_ends_where_they_are_large() {
    let url = serve(A2aServer::from_runtime(&runtime()).workflows(["many"])).await;
    let client = A2aClient::at("far", url).max_message(64 << 20).build().unwrap();
    let mut ids = Vec::new();
    for n in 0..5 {
        let sent = client.ask(&A2aMessage::user_text("x").id(format!("m-{n}"))).await.unwrap();
        ids.push(sent.task().unwrap().id.clone());
    }
    let (mut seen, mut sizes, mut query) =
        (Vec::new(), Vec::new(), A2aTaskQuery::default().with_artifacts());
    loop {
        let page = client.tasks(&query).await.unwrap();
        assert_eq!(page.total_size, 5);
        sizes.push(page.tasks.len());
        assert!(
            page.tasks
                .iter()
                .all(|task| task.artifacts[0].parts[0].as_text().unwrap().len() == 6 << 20)
        );
        seen.extend(page.tasks.into_iter().map(|task| task.id));
        if page.next_page_token.is_empty() {
            break;
        }
        query = query.page(page.next_page_token);
    }
    // A page has about 4 MiB of results, and at least one task.
    assert_eq!(sizes, [1; 5]);
    ids.sort();
    seen.sort();
    assert_eq!(seen, ids);
    // Without results they fit on one page.
    assert_eq!(client.tasks(&A2aTaskQuery::default()).await.unwrap().tasks.len(), 5);
}

/// Middleware that adds a text to the input of an agent.
struct Adds;

#[agentflow::async_trait]
impl Middleware for Adds {
    fn name(&self) -> &str {
        "adds"
    }

    async fn before_agent(&self, step: &mut AgentStep) -> Result<Flow<Message>> {
        step.conversation.push(Message::user("The house's own notes."));
        Ok(Flow::Continue)
    }
}

#[tokio::test]
async fn what_middleware_adds_is_not_among_the_messages_of_a_task() {
    let seen: Arc<Mutex<usize>> = Arc::default();
    let counts = Arc::clone(&seen);
    let model = ScriptedModel::from_fn(move |request| {
        *counts.lock().unwrap() =
            request.messages.messages().iter().filter(|of| of.text().contains("notes")).count();
        Turn::text("Hello.")
    });
    let agent = Agent::new(model).name("host").with(Adds);
    let runtime = Runtime::builder().store(MemoryStore::new()).agent(&agent).build();
    let client = client(&serve(A2aServer::from_runtime(&runtime).agents(["host"])).await);
    let asked = client.ask(&A2aMessage::user_text("I am Ada.")).await.unwrap();
    let history = client.task_with_history(&asked.task().unwrap().id, 10).await.unwrap().history;
    let said: Vec<String> = history.iter().map(A2aMessage::text).collect();
    assert_eq!((said, *seen.lock().unwrap()), (vec!["I am Ada.".to_owned()], 1));
}

#[tokio::test]
async fn a_task_has_its_messages_where_its_client_asks_for_them() {
    let runtime = runtime();
    let client = client(
        &serve(A2aServer::from_runtime(&runtime).workflows(["announce"]).clients_approve()).await,
    );
    let asked = client.ask(&A2aMessage::user_text("rain").id("m-1")).await.unwrap();
    let id = asked.task().unwrap().id.clone();
    client
        .ask(&A2aMessage::user([A2aPart::data(json!({"decision": "granted"}))]).task(&id))
        .await
        .unwrap();
    assert!(client.task(&id).await.unwrap().history.is_empty());
    assert!(client.task_with_history(&id, 0).await.unwrap().history.is_empty());
    let history = client.task_with_history(&id, 10).await.unwrap().history;
    let said: Vec<(A2aRole, String)> =
        history.iter().map(|message| (message.role, message.text())).collect();
    let expected =
        [(A2aRole::User, "rain"), (A2aRole::Agent, "announce rain?"), (A2aRole::User, "")];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_owned())), "{history:?}");
    assert_eq!(
        (history[0].message_id.as_str(), history[0].task_id.as_deref()),
        ("m-1", Some(&*id))
    );
    assert!(
        matches!(&history[2].parts[0].content, A2aContent::Data(data) if data["decision"] == "granted")
    );
    let newest = client.task_with_history(&id, 1).await.unwrap().history;
    assert_eq!(newest, history[2..]);
    let listed = client.tasks(&A2aTaskQuery::default().history(2)).await.unwrap();
    assert_eq!(listed.tasks[0].history, history[1..]);
}

#[tokio::test]
async fn what_the_host_is_asked_is_not_among_the_messages_of_a_client() {
    let runtime = runtime();
    let client = client(&serve(A2aServer::from_runtime(&runtime).workflows(["announce"])).await);
    let begun = client.send(&A2aMessage::user_text("rain")).await.unwrap();
    let id = begun.task().unwrap().id.clone();
    let run = runtime.run(&agentflow::RunId::new(&*id)).attach().await.unwrap();
    let question = run.asked().await.unwrap().unwrap();
    run.approve(&question.path, Approval::granted(), "ada").await.unwrap();
    run.result().await.unwrap();
    let history = client.task_with_history(&id, 10).await.unwrap().history;
    assert_eq!(history.iter().map(A2aMessage::text).collect::<Vec<_>>(), ["rain"]);
}

#[tokio::test]
async fn files_that_a_run_saved_are_results_where_the_host_names_them() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let server = A2aServer::from_runtime(&runtime).workflows(["draw"]);
    let plain =
        client(&serve(server.clone()).await).ask(&A2aMessage::user_text("a dot")).await.unwrap();
    assert_eq!(plain.task().unwrap().artifacts.len(), 1);
    assert!(
        !server
            .card("http://a.example", None)
            .await
            .unwrap()
            .default_output_modes
            .contains(&"application/octet-stream".to_owned())
    );

    let server = server.output_files(["*.png", "notes.md", "large.bin"]).max_file(4000);
    assert!(
        server
            .card("http://a.example", None)
            .await
            .unwrap()
            .default_output_modes
            .contains(&"application/octet-stream".to_owned())
    );
    let client = client(&serve(server).await);
    let answer = client.ask(&A2aMessage::user_text("a dot")).await.unwrap();
    let task = client.task(&answer.task().unwrap().id).await.unwrap();
    let ids: Vec<&str> =
        task.artifacts.iter().map(|artifact| artifact.artifact_id.as_str()).collect();
    assert_eq!(ids, ["output", "file/dot.png", "file/notes.md"]);
    let dot = &task.artifacts[1].parts[0];
    assert_eq!(
        (&dot.content, dot.media_type.as_deref(), dot.filename.as_deref()),
        (&A2aContent::Raw(vec![0, 1, 255]), Some("image/png"), Some("dot.png"))
    );
    assert_eq!(task.artifacts[2].parts[0].as_text(), Some("a dot"));
    assert_eq!(task.metadata.as_ref().unwrap()["omittedFiles"], json!(["large.bin"]));
    // A stream contains the same artifacts.
    let streamed: Vec<&str> =
        answer.task().unwrap().artifacts.iter().map(|of| of.artifact_id.as_str()).collect();
    assert_eq!(streamed, ids);
}

#[tokio::test]
async fn files_of_a_message_reach_the_model_where_the_host_says_which() {
    let seen = |request: &agentflow::model::ModelRequest| {
        let message = request.messages.last().unwrap();
        let media = message.parts().iter().find_map(|part| match part {
            Part::Media(media) => {
                Some(format!("{} {:?} {}", media.mime_type, media.name, media.url))
            }
            _ => None,
        });
        format!("{} | {}", message.text(), media.unwrap_or_default())
    };
    let agent = || {
        Agent::new(ScriptedModel::from_fn(move |request| Turn::text(seen(request)))).name("viewer")
    };
    let runtime = Runtime::builder().store(MemoryStore::new()).agent(&agent()).build();
    let server = A2aServer::from_runtime(&runtime)
        .agents(["viewer"])
        .input_files(["image/*", "application/pdf"]);
    let card = server.card("http://a.example", None).await.unwrap();
    assert_eq!(
        card.skills[0].input_modes,
        ["text/plain", "application/json", "image/*", "application/pdf"]
    );
    let url = serve(server).await;
    let far = client(&url);
    let png = part(json!({"raw": "AAH/", "mediaType": "Image/PNG", "filename": "dot.png"}));
    let answer = far.ask(&A2aMessage::user([A2aPart::text("Look:"), png.clone()])).await.unwrap();
    assert_eq!(answer.text(), "Look: | image/png Some(\"dot.png\") data:image/png;base64,AAH/");
    let history = far.task_with_history(&answer.task().unwrap().id, 5).await.unwrap().history;
    assert_eq!(history[0].parts[1].content, png.content);
    // The server does not fetch links.
    let link = part(
        json!({"url": "https://files.example/a.pdf", "mediaType": "application/pdf", "filename": "a.pdf"}),
    );
    let answer = far.ask(&A2aMessage::user([A2aPart::text("Read"), link])).await.unwrap();
    assert_eq!(answer.text(), "Read\na.pdf, application/pdf: https://files.example/a.pdf | ");

    let sent = |part: Value| {
        call(
            "SendMessage",
            json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}}),
        )
    };
    for (part, code) in [
        (json!({"raw": "AAH/", "mediaType": "audio/wav"}), -32005),
        (json!({"raw": "AAH/"}), -32005),
        (json!({"raw": "AAH/", "mediaType": "image/"}), -32005),
        (json!({"raw": "AAH/", "mediaType": "image/png,x"}), -32005),
        (json!({"url": "https://f.example/a.wav", "mediaType": "audio/wav"}), -32005),
        (json!({"url": "file:///etc/passwd", "mediaType": "image/png"}), -32602),
        (json!({"url": "https://f.example/a b", "mediaType": "image/png"}), -32602),
    ] {
        let answer = send(&url, "POST /", GOOD, &sent(part.clone())).await.json();
        assert_eq!(answer["error"]["code"], code, "{part}: {answer}");
    }
    let runtime = Runtime::builder().store(MemoryStore::new()).agent(&agent()).build();
    let refused = client(&serve(A2aServer::from_runtime(&runtime).agents(["viewer"])).await);
    let refused = refused.ask(&A2aMessage::user([png])).await.unwrap_err();
    assert_eq!(refused.code(), Some(A2aErrorCode::ContentTypeNotSupported), "{refused}");
}

#[tokio::test]
async fn a_client_that_is_known_sees_more_skills() {
    let runtime = runtime();
    let server =
        A2aServer::from_runtime(&runtime).workflows(["announce", "double"]).extended(["double"]);
    assert!(server.check().await.unwrap_err().to_string().contains("`authenticate`"));
    let server = server.authenticate(|request: RequestHead| async move {
        match request.header("x-who") {
            Some(who) => Ok(Caller::new(who)),
            None => Err(AuthRefusal::unauthenticated("who are you?")),
        }
    });
    let problem = server.clone().extended(["halve"]).check().await.unwrap_err();
    assert!(problem.to_string().contains("`halve`"), "{problem}");
    let url = serve(server).await;
    let ada = A2aClient::at("far", &url).header("x-who", "ada").build().unwrap();
    let skills = |card: &agentflow::a2a::A2aCard| {
        card.skills.iter().map(|skill| skill.id.clone()).collect::<Vec<_>>()
    };
    let card = ada.card().await.unwrap();
    assert_eq!(
        (skills(&card), card.capabilities.extended_agent_card),
        (vec!["announce".to_owned()], true)
    );
    assert_eq!(skills(&ada.extended_card().await.unwrap()), ["announce", "double"]);
    let over_http =
        send(&url, "GET /extendedAgentCard", &format!("{GOOD}x-who: ada\r\n"), "").await.json();
    assert_eq!(over_http["skills"].as_array().unwrap().len(), 2, "{over_http}");
    assert_eq!(send(&url, "GET /extendedAgentCard", GOOD, "").await.status, 401);
    // An unauthenticated client does not learn that the skill exists.
    let place = "GET /a2a/double/.well-known/agent-card.json";
    assert_eq!(send(&url, place, "", "").await.status, 404);
    assert_eq!(send(&url, place, "x-who: ada\r\n", "").await.status, 200);
    assert_eq!(send(&url, "POST /a2a/double", GOOD, "{}").await.status, 404);
    let mut named = A2aMessage::user([A2aPart::data(json!({"n": 5}))]);
    named.metadata = json!({"skill": "double"}).as_object().cloned();
    assert_eq!(
        ada.ask(&named).await.unwrap().task().unwrap().artifacts[0].parts[0].content,
        A2aContent::Data(json!(10))
    );
}
