//! Sessions, memories, artifacts, direct tool calls and questions of callers, under access control.

use agentflow::a2a::{A2aClient, A2aMessage};
use agentflow::a2a_server::A2aServer;
use agentflow::access::{AccessAction, AccessControl, AccessRequest};
use agentflow::agent::RunRequest;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::mcp_server::McpServer;
use agentflow::memory::{InProcessMemory, MemoryQuery};
use agentflow::message::ToolCall;
use agentflow::prelude::*;
use agentflow::runtime::CallerRuntime;
use agentflow::serde_json::json;
use agentflow::session::Session;
use agentflow::store::{MemoryStore, RecordedQuestions, RunFilter, SessionFilter, StoreErrorKind};
use agentflow::workflow::{Handle, Node, NodePolicy};
use agentflow::{Caller, Error, RunId, Workflow};
use agentflow_testing::{ScriptedModel, Turn, within};

use crate::a2a_served::serve;
use crate::callers::{ByHeader, OwnRuns, outcome, user_named};
use crate::served_over_http::{post, served};

/// Saves a note of the day.
#[tool]
async fn callers_save(cx: &Context, text: String) -> Result<String> {
    cx.save_artifact("note.txt", text, "text/plain").await?;
    Ok("saved".to_owned())
}

/// Reads the weather.
#[tool]
async fn callers_weather(city: String) -> String {
    format!("rain in {city}")
}

/// Opens the safe.
#[tool]
async fn callers_vault(code: u32) -> String {
    format!("the code was {code}")
}

fn runtime() -> Runtime {
    let model = ScriptedModel::from_fn(|request| match request.messages.messages().len() {
        1 => Turn::call("callers_save", json!({"text": "rain"})),
        _ => Turn::text("done"),
    });
    let agent = Agent::new(model).name("callers_clerk").tools(tools![callers_save]);
    let runtime = Runtime::builder().store(MemoryStore::new()).memory(InProcessMemory::new());
    runtime
        .agent(&agent)
        .tools(tools![callers_weather, callers_vault])
        .access_control(OwnRuns)
        .build()
}

async fn talk(runtime: &CallerRuntime, session: Session) -> Result<()> {
    let request = RunRequest::new("save it").session(session);
    let run = runtime.start_agent("callers_clerk", request).await?;
    within("the answer", run.result()).await.map(drop)
}

async fn act(runtime: &CallerRuntime, session: &str, action: &str) -> Result<()> {
    let sessions = runtime.sessions();
    match action {
        "get" => sessions.get(session).await.map(drop),
        "history" => sessions.history(session, 9).await.map(drop),
        "branches" => sessions.branches(session).await.map(drop),
        "state" => sessions.state(session).await.map(drop),
        "artifacts" => sessions.artifacts(session).await.map(drop),
        "artifact" => sessions.artifact(session, "note.txt", None).await.map(drop),
        "export" => sessions.export(session).await.map(drop),
        "continue" => talk(runtime, Session::existing(session).shared()).await,
        "delete" => sessions.delete(session).await.map(drop),
        other => panic!("no action {other}"),
    }
}

#[tokio::test]
async fn each_action_on_a_session_is_allowed_or_denied() {
    const READS: [&str; 7] =
        ["get", "history", "branches", "state", "artifacts", "artifact", "export"];
    let runtime = runtime();
    for (user, reads, continues, deletes) in [
        ("ada", "ok", "ok", "denied"),
        ("bob", "absent", "absent", "absent"),
        ("audit", "ok", "denied", "denied"),
        ("root", "ok", "ok", "ok"),
    ] {
        let of_user = runtime.for_caller(user_named(user));
        let expected = READS
            .map(|action| (action, reads))
            .into_iter()
            .chain([("continue", continues), ("delete", deletes)]);
        for (action, expected) in expected {
            let id = format!("session-{user}-{action}");
            talk(&runtime.for_caller("ada"), Session::new(id.as_str())).await.unwrap();
            let result = within(action, act(&of_user, &id, action)).await;
            assert_eq!(outcome(result), expected, "{user} {action}");
        }
    }
    // A denied session looks like a missing one.
    let bob = runtime.for_caller("bob");
    let ada = &runtime.sessions().list(SessionFilter::new().limit(1)).await.unwrap()[0].id;
    for action in READS.into_iter().chain(["delete"]) {
        let denied = act(&bob, ada, action).await.unwrap_err().to_string();
        let absent = act(&bob, "missing", action).await.unwrap_err().to_string();
        assert_eq!(denied.replace(&**ada, "missing"), absent, "{action}");
    }
    // The program itself asks no access control.
    assert_eq!(runtime.sessions().get(ada).await.unwrap().caller.as_deref(), Some("ada"));
}

#[tokio::test]
async fn lists_of_sessions_contain_what_a_caller_may_read() {
    let runtime = runtime();
    for (user, sessions) in [("ada", 3), ("bob", 2)] {
        for number in 0..sessions {
            let session = Session::new(format!("{user}-{number}"));
            talk(&runtime.for_caller(user), session).await.unwrap();
        }
    }
    for (user, expected) in [("ada", 3), ("bob", 2), ("eve", 0), ("audit", 5), ("root", 5)] {
        let of_user = runtime.for_caller(user_named(user));
        let all = of_user.sessions().list(SessionFilter::new()).await.unwrap();
        assert_eq!(all.len(), expected, "{user}");
        let two = of_user.sessions().list(SessionFilter::new().limit(2)).await.unwrap();
        assert_eq!(two.len(), expected.min(2), "{user}");
        let none = of_user.sessions().list(SessionFilter::new().limit(0)).await.unwrap();
        assert!(none.is_empty(), "{user}");
    }
}

#[tokio::test]
async fn memories_are_read_and_changed_under_access_control() {
    let runtime = runtime();
    let own = runtime.for_caller("ada").memory("ada").unwrap();
    let entry = own.save("likes rain").await.unwrap();
    assert_eq!(own.search("rain").await.unwrap().len(), 1);
    for (user, reads, changes) in
        [("bob", 0, false), ("audit", 1, false), ("root", 1, true), ("ada", 1, true)]
    {
        let memory = runtime.for_caller(user_named(user)).memory("ada").unwrap();
        assert_eq!(memory.search(MemoryQuery::all()).await.unwrap().len(), reads, "{user}");
        let denied = |result: Result<()>| match result {
            Ok(()) => assert!(changes, "{user}"),
            Err(Error::AccessDenied { name, .. }) => assert!(!changes && &*name == "ada", "{user}"),
            Err(error) => panic!("{user}: {error}"),
        };
        denied(memory.save_entry(entry.clone()).await);
        denied(memory.delete("no such entry").await.map(drop));
        denied(memory.delete(&entry.id).await.map(drop));
        own.save_entry(entry.clone()).await.unwrap();
        denied(memory.delete_all().await.map(drop));
        own.save_entry(entry.clone()).await.unwrap();
        assert_eq!(own.search(MemoryQuery::all()).await.unwrap().len(), 1, "{user}");
    }
    // Denied memories look like no memories.
    assert!(
        runtime
            .for_caller("bob")
            .memory("nobody")
            .unwrap()
            .search(MemoryQuery::all())
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_direct_call_of_a_tool_is_allowed_or_denied() {
    let runtime = runtime();
    let weather = ToolCall::new("1", "callers_weather", json!({"city": "Paris"}).to_string());
    let secret = ToolCall::new("2", "callers_vault", json!({"code": 7}).to_string());
    let missing = ToolCall::new("3", "callers_missing", "{}");
    for (caller, allowed) in [(Caller::new("ada"), true), (Caller::anonymous(), false)] {
        let of_caller = runtime.for_caller(caller.clone());
        let result = of_caller.invoke(&weather, &[]).await;
        assert_eq!(result.is_ok(), allowed, "{caller}");
        let denied = of_caller.invoke(&secret, &[]).await.unwrap_err();
        assert!(matches!(denied, Error::AccessDenied { .. }), "{denied}");
        let missing = of_caller.invoke(&missing, &[]).await;
        assert_eq!(missing.is_ok(), allowed, "{caller}");
    }
    assert!(runtime.invoke(&secret, &[]).await.is_ok());
}

#[tokio::test]
async fn an_mcp_server_asks_before_it_calls_a_tool() {
    let runtime = runtime();
    let server = McpServer::from_runtime(&runtime).authenticate(ByHeader);
    let address = served(server).await;
    for (user, name, arguments, said) in [
        ("x-user: ada\r\n", "callers_weather", json!({"city": "Paris"}), "rain in Paris"),
        ("x-user: ada\r\n", "callers_vault", json!({"code": 7}), "may not call `callers_vault`"),
        ("x-user: root\r\n", "callers_vault", json!({"code": 7}), "may not call `callers_vault`"),
        ("", "callers_weather", json!({"city": "Paris"}), "may not call `callers_weather`"),
    ] {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let (status, answer) = post(address, user, &body.to_string()).await;
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains(said), "{user} {name}: {answer}");
        assert!(!answer.contains("the code was"), "{answer}");
    }
}

#[tokio::test]
async fn without_an_access_control_a_caller_may_do_everything() {
    let runtime =
        Runtime::builder().store(MemoryStore::new()).memory(InProcessMemory::new()).build();
    runtime.memories().user("ada").unwrap().save("likes rain").await.unwrap();
    let bob = runtime.for_caller("bob");
    assert_eq!(bob.memory("ada").unwrap().search(MemoryQuery::all()).await.unwrap().len(), 1);
    let Err(Error::Store(error)) = bob.sessions().get("missing").await else { panic!("it exists") };
    assert_eq!(error.kind(), StoreErrorKind::NotFound);
}

/// Asks a question that operators and Ada may answer.
fn restricted(large: usize) -> Workflow<(String,), String> {
    Workflow::build("callers_restricted", ["text"], move |b, (text,)| {
        let policy = NodePolicy::default().allowed_roles(["operator"]).allowed_users(["ada"]);
        let ok: Handle<Approval> =
            b.gate(Node::new("ok").policy(policy), (text,), move |(text,)| {
                Ok::<_, String>((format!("say {text}?"), "x".repeat(large)))
            });
        b.value("end", (text, ok), |(text, _): (String, Approval)| Ok::<_, String>(text))
    })
    .unwrap()
}

/// Lets every caller read and control all runs.
struct Everybody;

#[agentflow::async_trait]
impl AccessControl for Everybody {
    async fn allows(&self, _: AccessRequest<'_>) -> bool {
        true
    }
}

#[tokio::test]
async fn a_question_is_answered_by_its_roles_and_users() {
    // A large question is not in the record of its run.
    for large in [1, RecordedQuestions::MAX_QUESTION_BYTES] {
        let flow = restricted(large);
        let runtime = Runtime::builder().store(MemoryStore::new()).access_control(Everybody);
        let runtime = runtime.workflow(&flow).build();
        for (user, allowed) in [("bob", false), ("audit", false), ("root", true), ("ada", true)] {
            let ada = runtime.for_caller(user_named("ada"));
            let run = ada.start(restricted(large), "rain".to_owned()).await.unwrap();
            let question = within("the question", run.asked()).await.unwrap().unwrap();
            let caller = user_named(user);
            assert_eq!(question.may_be_answered_by(&caller), allowed, "{user}");
            let of_user = runtime.for_caller(caller.clone());
            let inbox = of_user.runs().questions(RunFilter::unfinished()).await.unwrap();
            let listed = inbox.iter().find(|one| one.run == *run.run_id()).unwrap();
            assert_eq!(listed.may_be_answered_by(&caller), allowed, "{user}");
            assert_eq!(listed.allowed_users, ["ada".into()].into(), "{user}");
            let by_id = of_user.run(run.run_id());
            let by_handle = by_id.attach().await.unwrap();
            for answered in [
                by_id.approve("ok", Approval::granted(), "ada").await,
                by_id.approve(&question.id, Approval::granted(), "ada").await,
                by_handle.approve("ok", Approval::granted(), "ada").await,
            ] {
                match answered {
                    // The first answer is accepted, and the others are too late.
                    Ok(()) | Err(Error::Control(_)) => assert!(allowed, "{user}"),
                    Err(Error::AccessDenied { action, .. }) => {
                        assert!(!allowed && action == AccessAction::Answer, "{user}");
                    }
                    Err(error) => panic!("{user}: {error}"),
                }
            }
            if !allowed {
                // The program itself is not restricted.
                let run = runtime.run(run.run_id());
                run.approve("ok", Approval::granted(), "the program").await.unwrap();
            }
            assert_eq!(within("the end", run.result()).await.unwrap(), "rain");
        }
    }
}

/// Lets every caller do everything, except that Bob answers no question.
struct BobIsNotAsked;

#[agentflow::async_trait]
impl AccessControl for BobIsNotAsked {
    async fn allows(&self, request: AccessRequest<'_>) -> bool {
        request.action() != AccessAction::Answer || request.caller().name() != "bob"
    }
}

#[tokio::test]
async fn an_a2a_server_asks_before_it_answers_and_records_the_caller() {
    let runtime = Runtime::builder().store(MemoryStore::new()).access_control(BobIsNotAsked);
    let runtime = runtime.workflow(&restricted(1)).build();
    let server = A2aServer::from_runtime(&runtime).workflows(["callers_gate"]).authenticate(
        |request: RequestHead| async move {
            let user = request.header("x-user").unwrap_or("nobody");
            Ok::<_, AuthRefusal>(Caller::new(user).approves())
        },
    );
    let url = serve(server).await;
    for (user, allowed) in [("ada", true), ("bob", false)] {
        let client = A2aClient::at("far", &url).header("x-user", user).build().unwrap();
        let asked = within("the question", client.ask(&A2aMessage::user_text("rain"))).await;
        let task = asked.unwrap().task().unwrap().id.clone();
        let answer = A2aMessage::user_text("granted").task(&task);
        match within("the answer", client.ask(&answer)).await {
            Ok(answered) => {
                assert!(allowed, "{user}");
                assert_eq!(answered.text(), "rain");
            }
            Err(error) => {
                assert!(!allowed, "{error}");
                assert!(error.to_string().contains("`bob` may not answer"), "{error}");
                client.cancel(&task).await.unwrap();
            }
        }
        let report = runtime.run(&RunId::new(task)).inspect().await.unwrap();
        let action = if allowed { AccessAction::Answer } else { AccessAction::Cancel };
        let controls: Vec<_> =
            report.controls.iter().map(|of| (of.action, of.by.as_deref())).collect();
        assert_eq!(controls, [(action, Some(user))]);
    }
}
