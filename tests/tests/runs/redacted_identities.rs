//! Tests that redaction does not change identities: callers stay separate, sessions continue, and
//! calls keep their results.

use agentflow::RunId;
use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::Role;
use agentflow::middleware::redact;
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::session::Session;
use agentflow::store::{MemoryStore, RunFilter};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};

static NICK: StateKey<String> = StateKey::user("nick");

/// Keep what somebody wants to be called.
#[tool(effects = "none")]
async fn identity_keeps(cx: &Context, nick: String) -> Result<String> {
    let before = cx.state(&NICK).await?.unwrap_or_default();
    cx.set(&NICK, &nick)?;
    cx.save_artifact("note.txt", nick, "text/plain").await?;
    Ok(format!("before: {before}"))
}

/// Returns an agent that calls the tool with the user's text, and answers with the results.
fn keeper() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        match last.role() {
            Role::User => Turn::call("identity_keeps", json!({"nick": last.text()})),
            _ => Turn::text(
                last.results().map(|result| result.output.clone()).collect::<Vec<_>>().join("|"),
            ),
        }
    });
    Agent::new(model).name("identity_keeper").tools(tools![identity_keeps])
}

fn process(store: &MemoryStore) -> Runtime {
    let secrets = redact().emails().cards().phone_numbers();
    test_runtime().store(store.clone()).with(secrets).agent(&keeper()).build()
}

async fn say(runtime: &Runtime, caller: &str, session: &str, text: &str) -> String {
    let id = RunId::new(format!("{session} {}", text.len()));
    let request = RunRequest::new(text).caller(caller).session(Session::from(session)).run_id(id);
    let run = runtime.start_agent("identity_keeper", request).await.unwrap();
    let id = run.run_id().clone();
    let answer = run.result().await.unwrap().decode::<String>().unwrap();
    let answer = serde_json::from_str(&answer).unwrap();
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
    answer
}

#[tokio::test]
async fn callers_and_sessions_whose_names_are_addresses_stay_apart() {
    let store = MemoryStore::new();
    let runtime = process(&store);
    let (ada, bob) = ("ada@example.org", "+49 30 1234567");
    assert_eq!(say(&runtime, ada, "ada@example.org", "Countess").await, "before: ");
    assert_eq!(say(&runtime, bob, "bob@example.org", "Bobby").await, "before: ");
    // The next turn of the same sessions, in another process.
    let runtime = process(&store);
    assert_eq!(
        say(&runtime, ada, "ada@example.org", "write to eve@example.org").await,
        "before: Countess"
    );
    assert_eq!(say(&runtime, bob, "bob@example.org", "4111 1111 1111 1111").await, "before: Bobby");
    for (caller, session) in [(ada, "ada@example.org"), (bob, "bob@example.org")] {
        let runs = runtime.runs().list(RunFilter::default().caller(caller)).await.unwrap();
        assert_eq!(runs.len(), 2);
        assert_eq!(runtime.sessions().history(session, 10).await.unwrap().len(), 2);
        // Artifacts are found by their hash, even if it looks like a card number.
        assert!(runtime.sessions().artifact(session, "note.txt", None).await.unwrap().is_some());
    }
    // All other texts are still redacted.
    for run in runtime.runs().list(RunFilter::default()).await.unwrap() {
        let journal =
            serde_json::to_string(&runtime.run(&run.run_id).journal().await.unwrap()).unwrap();
        assert!(!journal.contains("eve@") && !journal.contains("4111 1111"), "{journal}");
    }
}

#[tokio::test]
async fn calls_of_one_turn_whose_ids_look_like_cards_keep_their_results() {
    let ids = ["call_4111111111111111", "call_5500005555555559"];
    let arguments = json!({"nick": "x"});
    let turn = Turn::call("identity_keeps", &arguments)
        .id(ids[0])
        .and_call("identity_keeps", &arguments)
        .id(ids[1]);
    let model = ScriptedModel::new([turn, Turn::text("done")]);
    let agent = Agent::new(model).name("identity_pair").tools(tools![identity_keeps]);
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).with(redact().cards()).agent(&agent).build();
    let request = RunRequest::new("go").run_id(RunId::new("pair")).caller("ada");
    runtime.start_agent("identity_pair", request).await.unwrap().result().await.unwrap();
    let journal = runtime.run(&RunId::new("pair")).journal().await.unwrap();
    let of = |kind: &EventKind| match kind {
        EventKind::ToolStarted { call, .. } => Some(call.id.clone()),
        EventKind::ToolCompleted { result, .. } => Some(result.call_id.clone()),
        _ => None,
    };
    let mut found: Vec<String> = journal.iter().filter_map(|event| of(&event.kind)).collect();
    found.sort();
    assert_eq!(found, [ids[0], ids[0], ids[1], ids[1]]);
}
