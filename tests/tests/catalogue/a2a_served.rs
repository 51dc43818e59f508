//! A runtime served over A2A and used by our own client: tasks, contexts, questions, callers,
//! lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use agentflow::Caller;
use agentflow::a2a::{
    A2aClient, A2aContent, A2aErrorCode, A2aMessage, A2aPart, A2aTaskQuery, A2aTaskState, A2aUpdate,
};
use agentflow::a2a_server::{A2aServer, A2aServerError};
use agentflow::document::Document;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, RunFilter};
use agentflow::time::{Clock, Timestamp};
use agentflow_testing::{ScriptedModel, Turn, within};
use futures_util::StreamExt;

/// Asks before it says it.
#[workflow]
async fn announce(text: String) -> Result<String> {
    let approval = gate!("announce {text}?", text).await?;
    Ok(if approval.is_granted() { text } else { "nothing".to_owned() })
}

pub(crate) fn runtime() -> Runtime {
    Runtime::builder().store(MemoryStore::new()).build()
}

/// Serves on a free port and returns the address.
pub(crate) async fn serve(server: A2aServer) -> String {
    let router = server.router().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn client(url: &str) -> A2aClient {
    A2aClient::at("far", url).build().unwrap()
}

fn as_ada(url: &str, who: &str) -> A2aClient {
    A2aClient::at("far", url).header("x-who", who).build().unwrap()
}

#[tokio::test]
async fn a_workflow_is_a_skill_and_its_run_is_the_task() {
    let runtime = runtime();
    let url = serve(A2aServer::from_runtime(&runtime).workflows(["double", "announce"])).await;
    let card = client(&url).card().await.unwrap();
    let skills: Vec<&str> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!((skills, card.capabilities.streaming), (vec!["announce", "double"], true));

    let double = client(&format!("{url}/a2a/double"));
    assert_eq!(double.card().await.unwrap().description, "Doubles a number.");
    let message = A2aMessage::user([A2aPart::data(json!({"n": 4}))]);
    let answer = double.ask(&message).await.unwrap();
    let task = answer.task().unwrap();
    assert_eq!(task.status.state, A2aTaskState::Completed);
    assert_eq!(task.artifacts[0].parts[0].content, A2aContent::Data(json!(8)));
    assert_eq!(&double.task(&task.id).await.unwrap(), task);
    let record = runtime.run(&agentflow::RunId::new(task.id.as_str())).record().await.unwrap();
    assert_eq!((&*record.name, record.caller.as_deref()), ("double", Some("anonymous")));

    // Repeating the message returns the same task.
    assert_eq!(double.ask(&message).await.unwrap().task().unwrap().id, task.id);
    assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap().len(), 1);

    // At the server's root address a message has to name its skill.
    let at_host = client(&url);
    let problem =
        at_host.ask(&A2aMessage::user([A2aPart::data(json!({"n": 5}))])).await.unwrap_err();
    assert_eq!(problem.code(), Some(A2aErrorCode::InvalidParams), "{problem}");
    let mut named = A2aMessage::user([A2aPart::data(json!({"n": 5}))]);
    named.metadata = json!({"skill": "double"}).as_object().cloned();
    let answer = at_host.ask(&named).await.unwrap();
    assert_eq!(answer.task().unwrap().artifacts[0].parts[0].content, A2aContent::Data(json!(10)));
    // A task of another skill is not found at this address.
    let announce = client(&format!("{url}/a2a/announce"));
    assert_eq!(announce.task(&task.id).await.unwrap_err().code(), Some(A2aErrorCode::TaskNotFound));
}

#[tokio::test]
async fn a_context_is_a_session_of_the_agent() {
    let model = ScriptedModel::new([
        Turn::text("Hello Ada."),
        Turn::text("Ada.").expect_conversation([
            "user: I am Ada.",
            "assistant: Hello Ada.",
            "user: Who am I?",
        ]),
    ]);
    let agent = Agent::new(model).name("host");
    let runtime = Runtime::builder().store(MemoryStore::new()).agent(&agent).build();
    let client = client(&serve(A2aServer::from_runtime(&runtime).agents(["host"])).await);
    let first = client.ask(&A2aMessage::user_text("I am Ada.")).await.unwrap();
    assert_eq!(first.text(), "Hello Ada.");
    let context = first.task().unwrap().context_id.clone().unwrap();
    let second = client.ask(&A2aMessage::user_text("Who am I?").context(&context)).await.unwrap();
    assert_eq!(
        (second.text().as_str(), &second.task().unwrap().context_id),
        ("Ada.", &Some(context.clone()))
    );
    assert_eq!(runtime.sessions().history(&context, 10).await.unwrap().len(), 2);
    let other = client.ask(&A2aMessage::user_text("Who?").context("made-up")).await.unwrap_err();
    assert_eq!(other.code(), Some(A2aErrorCode::InvalidParams), "{other}");
}

#[tokio::test]
async fn a_question_is_answered_by_a_message_to_its_task() {
    let runtime = runtime();
    let client = client(
        &serve(A2aServer::from_runtime(&runtime).workflows(["announce"]).clients_approve()).await,
    );
    let updates = client.stream(&A2aMessage::user_text("rain")).await.unwrap();
    let updates: Vec<_> = updates.map(|update| update.unwrap()).collect().await;
    let id = updates[0].task_id().unwrap().to_owned();
    let asked = client.task(&id).await.unwrap();
    assert_eq!(asked.status.state, A2aTaskState::InputRequired, "{updates:?}");
    let said = asked.status.message.as_ref().unwrap();
    assert_eq!(said.parts[0].as_text(), Some("announce rain?"));
    let A2aContent::Data(question) = &said.parts[1].content else { panic!("{said:?}") };
    let open = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    assert_eq!(
        (&question["question"], &question["about"]),
        (&json!(open.id), &json!("rain")),
        "{question}"
    );
    // An answer that names a question applies only to that question.
    for other in [format!("{}@00000000", open.path), "another".to_owned(), format!("{}@", open.id)]
    {
        let mut named = A2aMessage::user_text("granted").task(&id);
        named.metadata = json!({"question": other}).as_object().cloned();
        let refused = client.ask(&named).await.unwrap_err();
        assert!(refused.to_string().contains("not any more"), "{other}: {refused}");
    }

    let wrong = client.ask(&A2aMessage::user_text("perhaps").task(&id)).await.unwrap_err();
    assert_eq!(wrong.code(), Some(A2aErrorCode::InvalidParams), "{wrong}");
    let mut subscribed = client.subscribe(&id).await.unwrap();
    assert!(matches!(subscribed.next().await, Some(Ok(A2aUpdate::Task(_)))));
    let mut denied = A2aMessage::user([A2aPart::data(json!({"decision": "denied"}))]).task(&id);
    // A bare path matches the question that is currently open there.
    denied.metadata = json!({"question": open.path}).as_object().cloned();
    assert_eq!(client.ask(&denied).await.unwrap().text(), "nothing");
    let last = subscribed.map(|update| update.unwrap()).collect::<Vec<_>>().await.pop().unwrap();
    assert!(
        matches!(&last, A2aUpdate::Status(of) if of.status.state == A2aTaskState::Completed),
        "{last:?}"
    );
    let late = client.ask(&A2aMessage::user_text("granted").task(&id)).await.unwrap_err();
    assert_eq!(late.code(), Some(A2aErrorCode::UnsupportedOperation), "{late}");
    let late = client.subscribe(&id).await.err().unwrap();
    assert_eq!(late.code(), Some(A2aErrorCode::UnsupportedOperation), "{late}");
}

/// A clock that only the test advances, so that two tasks never change in the same millisecond by
/// accident.
#[derive(Clone, Debug, Default)]
struct SteppedClock(Arc<AtomicU64>);

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn tasks_are_cancelled_and_listed_in_pages() {
    let clock = SteppedClock::default();
    let tick = || clock.0.fetch_add(1000, Ordering::SeqCst);
    let runtime = Runtime::builder().store(MemoryStore::new()).clock(clock.clone()).build();
    let client = client(
        &serve(A2aServer::from_runtime(&runtime).workflows(["announce"]).clients_approve()).await,
    );
    let mut ids = Vec::new();
    for n in 0..5 {
        tick();
        let asked = client.ask(&A2aMessage::user_text(format!("news {n}"))).await.unwrap();
        ids.push(asked.task().unwrap().id.clone());
    }
    tick();
    assert_eq!(client.cancel(&ids[0]).await.unwrap().status.state, A2aTaskState::Canceled);
    assert_eq!(
        client.cancel(&ids[0]).await.unwrap_err().code(),
        Some(A2aErrorCode::TaskNotCancelable)
    );
    // The most recently changed task is first.
    ids[1..].reverse();

    let (mut seen, mut query, mut pages) = (Vec::new(), A2aTaskQuery::default().page_size(2), 0);
    loop {
        let page = client.tasks(&query).await.unwrap();
        assert_eq!((page.total_size, page.page_size), (5, 2));
        seen.extend(page.tasks.into_iter().map(|task| task.id));
        pages += 1;
        if page.next_page_token.is_empty() {
            break;
        }
        query = query.page(page.next_page_token);
    }
    assert_eq!((&seen, pages), (&ids, 3));
    let third = client.task(&ids[2]).await.unwrap().status.timestamp.unwrap();
    assert_eq!(third, "1970-01-01T00:00:04.000Z");
    let later = A2aTaskQuery::default().changed_after(UNIX_EPOCH + Duration::from_secs(4));
    let listed = client.tasks(&later).await.unwrap();
    assert_eq!(listed.tasks.iter().map(|task| &task.id).collect::<Vec<_>>(), [&ids[0], &ids[1]]);
    assert_eq!(listed.total_size, 2);
    let cancelled =
        client.tasks(&A2aTaskQuery::default().state(A2aTaskState::Canceled)).await.unwrap();
    assert_eq!((cancelled.tasks.len(), cancelled.total_size), (1, 1));
    let rejected =
        client.tasks(&A2aTaskQuery::default().state(A2aTaskState::Rejected)).await.unwrap();
    assert_eq!((rejected.tasks.len(), rejected.total_size), (0, 0));
    let wrong = client.tasks(&A2aTaskQuery::default().page("no-such-run")).await.unwrap_err();
    assert_eq!(wrong.code(), Some(A2aErrorCode::InvalidParams));
}

#[tokio::test]
async fn an_approval_is_kept_from_clients_unless_the_host_lets_them_answer() {
    let runtime = runtime();
    let server = A2aServer::from_runtime(&runtime).workflows(["announce"]);
    let client = client(&serve(server.clone()).await);
    let begun = client.send(&A2aMessage::user_text("rain")).await.unwrap();
    let id = begun.task().unwrap().id.clone();
    let mut updates = client.subscribe(&id).await.unwrap().map(|update| update.unwrap());
    let shown = loop {
        match within("the next event", updates.next()).await.unwrap() {
            A2aUpdate::Task(task) if task.status.message.is_some() => break task.status,
            A2aUpdate::Status(update) if update.status.message.is_some() => break update.status,
            _ => {}
        }
    };
    assert_eq!(shown.state, A2aTaskState::Working);
    assert_eq!(shown.message.unwrap().text(), "it waits for an approval, which its host gives");
    let refused = client.ask(&A2aMessage::user_text("granted").task(&id)).await.unwrap_err();
    assert_eq!(refused.code(), Some(A2aErrorCode::UnsupportedOperation), "{refused}");
    let mut named = A2aMessage::user_text("granted").task(&id);
    named.metadata = json!({"question": "approval"}).as_object().cloned();
    let refused = client.ask(&named).await.unwrap_err();
    assert_eq!(refused.code(), Some(A2aErrorCode::InvalidParams), "{refused}");
    let asking =
        client.tasks(&A2aTaskQuery::default().state(A2aTaskState::InputRequired)).await.unwrap();
    assert_eq!(asking.total_size, 0);

    // A server that lets clients answer shows the question. Here, however, the host answers.
    let open = self::client(&serve(server.clients_approve()).await);
    assert_eq!(open.task(&id).await.unwrap().status.state, A2aTaskState::InputRequired);
    let question = &runtime.runs().questions(RunFilter::new()).await.unwrap()[0];
    runtime.run(&question.run).approve(&question.path, Approval::granted(), "ada").await.unwrap();
    let rest: Vec<A2aUpdate> = updates.collect().await;
    assert!(
        matches!(rest.last(), Some(A2aUpdate::Status(of)) if of.status.state == A2aTaskState::Completed),
        "{rest:?}"
    );
    assert_eq!(client.task(&id).await.unwrap().text(), "rain");
}

#[tokio::test]
async fn a_task_of_another_caller_is_not_found() {
    let runtime = runtime();
    let server = A2aServer::from_runtime(&runtime).workflows(["announce"]).authenticate(
        |request: RequestHead| async move {
            match request.header("x-who") {
                Some("mallory") => Err(AuthRefusal::forbidden("not you")),
                Some(who) => Ok(Caller::new(who).approves()),
                None => Err(AuthRefusal::unauthenticated("who are you?")),
            }
        },
    );
    let url = serve(server).await;
    let (ada, bob) = (as_ada(&url, "ada"), as_ada(&url, "bob"));
    let asked = ada.ask(&A2aMessage::user_text("rain")).await.unwrap();
    let task = asked.task().unwrap();
    let not_found = Some(A2aErrorCode::TaskNotFound);
    assert_eq!(bob.task(&task.id).await.unwrap_err().code(), not_found);
    assert_eq!(bob.cancel(&task.id).await.unwrap_err().code(), not_found);
    assert_eq!(bob.subscribe(&task.id).await.err().unwrap().code(), not_found);
    assert_eq!(
        bob.ask(&A2aMessage::user_text("granted").task(&task.id)).await.unwrap_err().code(),
        not_found
    );
    let context = task.context_id.clone().unwrap();
    let foreign = bob.ask(&A2aMessage::user_text("rain").context(&context)).await.unwrap_err();
    assert_eq!(foreign.code(), Some(A2aErrorCode::InvalidParams), "{foreign}");
    assert_eq!(bob.tasks(&A2aTaskQuery::default()).await.unwrap().total_size, 0);
    assert_eq!(ada.tasks(&A2aTaskQuery::default()).await.unwrap().total_size, 1);
    assert!(
        client(&url)
            .ask(&A2aMessage::user_text("rain"))
            .await
            .unwrap_err()
            .to_string()
            .contains("401")
    );
    let mallory = as_ada(&url, "mallory").ask(&A2aMessage::user_text("rain")).await.unwrap_err();
    assert!(mallory.to_string().contains("403"), "{mallory}");
    // The card is public.
    assert_eq!(client(&url).card().await.unwrap().skills.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_offered_is_an_error_with_a_remedy() {
    let without_store = Runtime::default();
    let error =
        A2aServer::from_runtime(&without_store).workflows(["double"]).check().await.unwrap_err();
    assert!(matches!(error, A2aServerError::NoStore), "{error}");
    let server = A2aServer::from_runtime(&runtime());
    assert!(matches!(server.check().await.unwrap_err(), A2aServerError::Empty));
    let error = server.clone().workflows(["dubble"]).check().await.unwrap_err();
    assert!(error.to_string().contains("`double`"), "{error}");
    // `main` prints the `Debug` form of an error that it returns.
    assert_eq!(format!("{error:?}"), error.to_string());
    for (server, says) in [
        (
            server.clone().agents(["double"]),
            "the agent `double`: it is a workflow; name it with `workflows`",
        ),
        (
            server.clone().workflows(["add"]),
            "the workflow `add`: it is a tool, which is not a skill",
        ),
    ] {
        let error = server.check().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let section: Value = json!({"skills": [{"name": "no id"}]});
    let error = server
        .clone()
        .workflows(["double"])
        .card_section("double", section)
        .check()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("`id`"), "{error}");
    let error =
        server.workflows(["double"]).public_url("agents.example").check().await.unwrap_err();
    assert!(matches!(error, A2aServerError::Address { .. }), "{error}");
}

#[tokio::test]
async fn a_card_says_what_the_document_of_a_workflow_says() {
    let section =
        json!({"version": "2", "skills": [{"id": "twice", "name": "Twice", "tags": ["number"]}]});
    let server =
        A2aServer::from_runtime(&runtime()).workflows(["double"]).card_section("double", section);
    let card = server.card("https://agents.example/", Some("double")).await.unwrap();
    assert_eq!((card.version.as_str(), card.skills[0].id.as_str()), ("2", "twice"));
    assert_eq!(card.skills[0].description, "Doubles a number.");
    assert_eq!(card.supported_interfaces[1].url, "https://agents.example/a2a/double");
}

#[tokio::test]
async fn the_section_of_a_document_is_on_its_card() {
    let document = |section: &str| {
        let text = format!(
            "name: shop\ndescription: Sells.\nagents:\n- {{name: shop_seller, model: openai/m}}\n\
             orchestration: {{type: sequential, agents: [shop_seller]}}\n{section}"
        );
        let runtime = Runtime::builder()
            .store(MemoryStore::new())
            .document(Document::read("shop", text).unwrap())
            .build();
        A2aServer::from_runtime(&runtime).workflows(["shop"])
    };
    let skill = "{id: sell, name: Sell, tags: [shop]}";
    let server = document(&format!("a2a: {{version: 2.3.0, skills: [{skill}]}}\n"));
    let card = server.card("http://127.0.0.1", Some("shop")).await.unwrap();
    let skill = &card.skills[0];
    assert_eq!(
        (card.version.as_str(), skill.id.as_str(), skill.name.as_str()),
        ("2.3.0", "sell", "Sell")
    );
    assert_eq!(
        (skill.tags.as_slice(), skill.description.as_str()),
        (&["shop".to_owned()][..], "Sells.")
    );
    assert_eq!(server.card("http://127.0.0.1", None).await.unwrap().skills[0].id, "sell");
    // The program overrides the document.
    let other = server.card_section("shop", json!({"skills": [{"id": "other"}]}));
    let card = other.card("http://127.0.0.1", Some("shop")).await.unwrap();
    assert_eq!((card.skills[0].id.as_str(), card.version.as_str() == "2.3.0"), ("other", false));
    let card = document("").card("http://127.0.0.1", Some("shop")).await.unwrap();
    assert_eq!(card.skills[0].id, "shop");
}
