//! Tests long-term memory: a run sees the memories of its caller, an entry is saved once despite
//! crashes and retries, and recalled entries are recorded. Also with sessions, approvals, nested
//! runs and steps on workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::memory::{InProcessMemory, Memory, MemoryEntry, MemoryNote, MemoryQuery};
use agentflow::message::ToolStatus;
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunFilter, StoreError, StoreErrorKind};
use agentflow::time::Timestamp;
use agentflow::{Agent, Error, RunId, async_trait, forget, recall, remember};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, calls_of, test_runtime, within};
use agentflow_tests::Elsewhere;

/// Remember the user.
#[agent(tools = [agentflow::remember, agentflow::recall, agentflow::forget])]
async fn rememberer() -> Result<String>;

fn of(caller: &str) -> RunRequest {
    RunRequest::new("Go on.").caller(caller)
}

/// Returns the texts of all entries of a user.
async fn texts(memory: &impl Memory, user: &str) -> Vec<String> {
    let all = memory.search(user, &MemoryQuery::all().limit(100)).await.unwrap();
    all.into_iter().map(|entry| entry.text).collect()
}

/// Returns a model that makes these calls, one per turn, and then answers.
fn calling<const N: usize>(calls: [(&'static str, Value); N]) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let made = request
            .messages
            .messages()
            .iter()
            .map(|message| message.results().count())
            .sum::<usize>();
        match calls.get(made) {
            Some((name, arguments)) => Turn::call(*name, arguments.clone()),
            None => Turn::text("done"),
        }
    })
}

fn with(memory: &InProcessMemory, model: ScriptedModel) -> Runtime {
    test_runtime().memory(memory.clone()).model(model).store(MemoryStore::new()).build()
}

/// Returns the status and the JSON output of each call of the run.
async fn answers(runtime: &Runtime, request: RunRequest) -> Vec<(ToolStatus, Value)> {
    let run = runtime.start_agent("rememberer", request).await.unwrap();
    run.result().await.unwrap();
    let results =
        runtime.run(run.run_id()).journal().await.unwrap().into_iter().filter_map(|event| {
            match event.kind {
                EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
                    Some(result)
                }
                _ => None,
            }
        });
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    results.map(|result| (result.status, json(&result.output))).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_remembered_is_recalled_in_another_run() {
    let memory = InProcessMemory::new();
    let seat = json!({"text": "Prefers window seats.", "topic": "travel"});
    let runtime = with(
        &memory,
        calling([("remember", seat), ("remember", json!({"text": "Eats no nuts."}))]),
    );
    let saved = answers(&runtime, of("ada")).await;
    let id = saved[0].1["id"].clone();
    let runtime = with(
        &memory,
        calling([
            ("recall", json!({"query": "which seats"})),
            ("recall", json!({"query": "nothing of this"})),
            ("recall", json!({"topic": "travel", "limit": 1})),
            ("recall", json!({})),
            ("forget", json!({"id": id})),
            ("forget", json!({"id": id})),
            ("recall", json!({"query": "seats"})),
        ]),
    );
    let found = answers(&runtime, of("ada")).await;
    assert!(found.iter().all(|(status, _)| *status == ToolStatus::Success), "{found:?}");
    let found: Vec<Value> = found.into_iter().map(|(_, answer)| answer).collect();
    let seat = json!([{"id": id, "text": "Prefers window seats.", "topic": "travel", "saved": found[0][0]["saved"]}]);
    assert_eq!(found[0], seat);
    assert_eq!(found[1], json!([]));
    assert_eq!(found[2], seat);
    assert_eq!(found[3].as_array().unwrap().len(), 2);
    assert_eq!((&found[4], &found[5], &found[6]), (&json!(true), &json!(false), &json!([])));
}

#[tokio::test(start_paused = true)]
async fn no_argument_of_a_model_leads_to_another_user() {
    let memory = InProcessMemory::new();
    memory
        .save("bob", MemoryEntry::new("1", "The code of bob is 1234.", Timestamp::from_millis(1)))
        .await
        .unwrap();
    for (caller, tries) in [
        ("ada", ("recall", json!({"query": "code of bob", "user": "bob"}))),
        ("ada", ("recall", json!({"query": "code of bob"}))),
        ("ada", ("recall", json!({"query": "", "topic": "bob"}))),
        ("ada", ("forget", json!({"id": "1"}))),
        ("ada", ("forget", json!({"id": "../bob/1"}))),
        ("ada", ("remember", json!({"text": "Pays for all.", "caller": "bob"}))),
        ("Bob", ("recall", json!({}))),
        ("bob ", ("recall", json!({}))),
    ] {
        let runtime = with(&memory, calling([tries.clone()]));
        let found = answers(&runtime, of(caller)).await;
        let empty = [json!([]), json!(false)];
        let refused = found[0].0 == ToolStatus::InvalidArguments;
        assert!(refused || empty.contains(&found[0].1), "{caller} {tries:?}: {found:?}");
        assert_eq!(refused, tries.1.get("user").or(tries.1.get("caller")).is_some(), "{found:?}");
        assert_eq!(texts(&memory, "bob").await, ["The code of bob is 1234."]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_caller_has_no_memory() {
    let memory = InProcessMemory::new();
    let runtime = with(
        &memory,
        calling([("remember", json!({"text": "Of nobody."})), ("recall", json!({}))]),
    );
    for (status, answer) in answers(&runtime, RunRequest::new("Go on.")).await {
        assert_eq!(status, ToolStatus::Error);
        let said = "nothing can be remembered here, since the user of this conversation is not known; do without it";
        assert_eq!(answer, said);
    }
    assert!(texts(&memory, "").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_missing_memory_is_found_before_the_run_begins() {
    let agent = Agent::new(ScriptedModel::new([]))
        .tools(tools![agentflow::recall])
        .runtime(&test_runtime().build());
    let Err(error) = agent.start(of("ada")) else { panic!("there is no memory") };
    assert!(
        error.to_string().contains("`recall`, which `Runtime::builder().memory(..)` gives"),
        "{error}"
    );
    let error = Context::detached().memory().unwrap_err();
    assert!(error.to_string().contains("give one with `Runtime::builder().memory(..)`"), "{error}");
    let error = test_runtime().build().memories().user("ada").unwrap_err();
    assert!(error.to_string().contains("`Runtime::builder().memory(..)`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn arguments_are_checked() {
    let memory = InProcessMemory::new();
    for (tool, arguments, says) in [
        ("remember", json!({}), "text"),
        ("remember", json!({"text": "  "}), "its text is empty"),
        ("remember", json!({"text": "x".repeat(MemoryNote::MAX_TEXT + 1)}), "save it in parts"),
        (
            "remember",
            json!({"text": "x", "topic": "y".repeat(MemoryNote::MAX_TAG + 1)}),
            "make it shorter",
        ),
        ("remember", json!({"text": 5}), "string"),
        ("recall", json!({"limit": -1}), "limit"),
        ("recall", json!({"query": ["a"]}), "query"),
        ("forget", json!({"id": null}), "id"),
    ] {
        let runtime = with(&memory, calling([(tool, arguments.clone())]));
        let answer = &answers(&runtime, of("ada")).await[0];
        assert!(
            answer.0 != ToolStatus::Success && answer.1.as_str().unwrap().contains(says),
            "{arguments}: {answer:?}"
        );
    }
    // A limit above the maximum means the maximum.
    let runtime = with(&memory, calling([("recall", json!({"limit": 1_000_000}))]));
    answers(&runtime, of("ada")).await;
    assert!(texts(&memory, "ada").await.is_empty());
}

/// Remembers two things and looks one up.
#[tool(idempotent)]
async fn remember_two(cx: &Context, thing: String) -> Result<usize> {
    let memory = cx.memory()?;
    memory.save(format!("First {thing}.")).await?;
    memory.save(MemoryNote::new(format!("Second {thing}.")).tag("of", "tool")).await?;
    Ok(memory.search(thing.as_str()).await?.len())
}

#[tokio::test(start_paused = true)]
async fn a_crash_saves_nothing_twice() {
    let memory = InProcessMemory::new();
    let model = || {
        calling([
            ("remember", json!({"text": "Prefers window seats."})),
            ("remember_two", json!({"thing": "boat"})),
            ("recall", json!({"query": "seats boat"})),
            ("remember", json!({"text": "Eats no nuts."})),
        ])
    };
    let agent =
        Agent::new(model()).tools(tools![agentflow::remember, agentflow::recall, remember_two]);
    let given = memory.clone();
    let report = CrashTest::agent(&agent, || of("ada").run_id(RunId::new("one")))
        .runtime(move |builder: RuntimeBuilder| builder.memory(given.clone()))
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 10);
    // All runs of the test have the same id, so their saves belong to one run.
    let mut all = texts(&memory, "ada").await;
    all.sort();
    assert_eq!(all, ["Eats no nuts.", "First boat.", "Prefers window seats.", "Second boat."]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_resumed_has_found_the_same() {
    let memory = InProcessMemory::new();
    let store = MemoryStore::new();
    let runtime = |model: ScriptedModel| {
        test_runtime().memory(memory.clone()).store(store.clone()).model(model).build()
    };
    runtime(ScriptedModel::new([]))
        .memories()
        .user("ada")
        .unwrap()
        .save("Prefers window seats.")
        .await
        .unwrap();
    let first = runtime(ScriptedModel::new([
        Turn::call("recall", json!({"query": "seats"})),
        Turn::fails(ModelErrorKind::BadRequest),
    ]));
    let run = first.start_agent("rememberer", of("ada").run_id(RunId::new("one"))).await.unwrap();
    run.result().await.unwrap_err();
    memory.delete_user("ada").await.unwrap();
    let second = runtime(ScriptedModel::new([
        Turn::text("By the window.").expect_text("Prefers window seats.")
    ]));
    second.run(&RunId::new("one")).retry("model#2", "ada").await.unwrap();
    second.run(&RunId::new("one")).resume().await.unwrap().result().await.unwrap();
}

/// Saves an entry but reports a failure the first time.
struct AnswerLosingMemory {
    inner: InProcessMemory,
    lost: AtomicU32,
}

#[async_trait]
impl Memory for AnswerLosingMemory {
    async fn save(&self, user: &str, entry: MemoryEntry) -> Result<(), StoreError> {
        self.inner.save(user, entry).await?;
        match self.lost.fetch_add(1, Ordering::Relaxed) {
            0 => Err(StoreError::new(StoreErrorKind::Io, "the answer was lost")),
            _ => Ok(()),
        }
    }

    async fn search(
        &self,
        user: &str,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryEntry>, StoreError> {
        self.inner.search(user, query).await
    }

    async fn delete(&self, user: &str, id: &str) -> Result<bool, StoreError> {
        self.inner.delete(user, id).await
    }

    async fn delete_user(&self, user: &str) -> Result<u64, StoreError> {
        self.inner.delete_user(user).await
    }
}

/// Keeps it.
#[tool(idempotent, retry = 2)]
async fn keep(cx: &Context, text: String) -> Result<String> {
    Ok(cx.memory()?.save(text).await?.text)
}

#[workflow]
async fn keeps(cx: &Context, text: String) -> Result<String> {
    let kept = keep(cx, text).await?;
    Ok(kept)
}

#[tokio::test(start_paused = true)]
async fn a_retry_saves_nothing_twice() {
    let inner = InProcessMemory::new();
    let loses = AnswerLosingMemory { inner: inner.clone(), lost: AtomicU32::new(0) };
    let runtime = test_runtime().memory(loses).build();
    let run = runtime.start(keeps::workflow(), "A fact.".to_owned()).caller("ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "A fact.");
    assert_eq!(texts(&inner, "ada").await, ["A fact."]);
    // Another run that saves the same text gets its own entry.
    runtime
        .start(keeps::workflow(), "A fact.".to_owned())
        .caller("ada")
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    assert_eq!(texts(&inner, "ada").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_elsewhere_has_the_memory_of_where_it_is_executed() {
    let memory = InProcessMemory::new();
    let far = Elsewhere::on_task(test_runtime().memory(memory.clone()).build());
    let runtime = test_runtime().executor(far).build();
    let run = runtime.start(keeps::workflow(), "A fact.".to_owned()).caller("ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "A fact.");
    let entry = memory.search("ada", &MemoryQuery::all()).await.unwrap().remove(0);
    assert_eq!(entry.run.as_ref(), Some(run.run_id()));
}

/// Lets an agent remember on behalf of another caller.
#[tool]
async fn delegate(cx: &Context) -> Result<String> {
    let model = calling([("remember", json!({"text": "From below."}))]);
    let agent = Agent::new(model).tools(remember()).runtime(&cx.runtime());
    Ok(agent.run_in(cx, RunRequest::new("Remember.").caller("bob")).await?.into_output())
}

#[tokio::test(start_paused = true)]
async fn what_is_nested_has_the_memory_of_its_run() {
    let memory = InProcessMemory::new();
    let runtime = test_runtime().memory(memory.clone()).build();
    let agent =
        Agent::new(calling([("delegate", json!({}))])).tools(tools![delegate]).runtime(&runtime);
    let result = agent.run(of("ada")).await.unwrap();
    assert_eq!(calls_of(result.events(), "delegate")[0].outcome, Some(Ok(json!("done"))));
    assert_eq!(texts(&memory, "ada").await, ["From below."]);
    assert!(texts(&memory, "bob").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_run_may_have_a_memory_of_its_own() {
    let (acme, zeta) = (InProcessMemory::new(), InProcessMemory::new());
    let (of_acme, of_zeta): (Arc<dyn Memory>, Arc<dyn Memory>) =
        (Arc::new(acme.clone()), Arc::new(zeta.clone()));
    let runtime = test_runtime().run_resource(move |began| {
        match began.tags().get("tenant").map(String::as_str) {
            Some("acme") => Ok(Arc::clone(&of_acme)),
            Some("zeta") => Ok(Arc::clone(&of_zeta)),
            _ => Err("it has no tenant"),
        }
    });
    let runtime = runtime.build();
    let agent = Agent::new(calling([("remember", json!({"text": "A fact."}))]))
        .tools([remember(), recall()]);
    let agent = agent.runtime(&runtime);
    agent.run(of("ada").tag("tenant", "acme")).await.unwrap();
    assert_eq!((texts(&acme, "ada").await.len(), texts(&zeta, "ada").await.len()), (1, 0));
    assert!(agent.run(of("ada")).await.unwrap_err().to_string().contains("it has no tenant"));
}

#[tokio::test(start_paused = true)]
async fn a_person_may_be_asked_before_something_is_forgotten() {
    let memory = InProcessMemory::new();
    memory.save("ada", MemoryEntry::new("1", "A fact.", Timestamp::from_millis(1))).await.unwrap();
    let store = MemoryStore::new();
    let runtime = test_runtime().memory(memory.clone()).store(store.clone()).build();
    let agent = Agent::new(calling([("forget", json!({"id": "1"}))]));
    let agent = agent.tools(forget().approve().description("Ask first.")).runtime(&runtime);
    for (approval, left) in [(Approval::denied("no"), 1), (Approval::granted(), 0)] {
        let run = agent.start(of("ada")).unwrap();
        within("the run to ask", async {
            while runtime.runs().questions(RunFilter::new()).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
        assert_eq!(question.path, "tool#1.forget");
        assert_eq!(texts(&memory, "ada").await.len(), 1);
        runtime.run(run.run_id()).approve(&question.path, approval, "ada").await.unwrap();
        run.result().await.unwrap();
        assert_eq!(texts(&memory, "ada").await.len(), left);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_said_in_a_session_is_remembered() {
    let memory = InProcessMemory::new();
    let long = format!("Tell me {}", "everything ".repeat(5000));
    let model = ScriptedModel::new([
        Turn::text("Hello, Ada."),
        Turn::text("By the window."),
        Turn::text("Hello, Bob."),
        Turn::text("Of nobody."),
        Turn::fails(ModelErrorKind::BadRequest),
        Turn::text("All."),
    ]);
    let runtime = with(&memory, model);
    let said = async |text: &str, caller: Option<&str>| {
        let request = RunRequest::new(text).session(agentflow::session::Session::new("s").shared());
        let request = match caller {
            Some(caller) => request.caller(caller),
            None => request,
        };
        runtime.start_agent("rememberer", request).await.unwrap().result().await
    };
    said("I am Ada.", Some("ada")).await.unwrap();
    said("Where do I sit?", Some("ada")).await.unwrap();
    said("I am Bob.", Some("bob")).await.unwrap();
    said("Nobody asks.", None).await.unwrap();
    said("This fails.", Some("ada")).await.unwrap_err();
    said(&long, Some("ada")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(runtime.memories().add_session("s").await.unwrap(), 4);
    }
    let of_ada = runtime.memories().user("ada").unwrap().search(MemoryQuery::all()).await.unwrap();
    assert_eq!(of_ada.len(), 3);
    assert!(of_ada.iter().all(|entry| entry.run.is_some() && entry.tags["session"] == "s"));
    let found = runtime.memories().user("ada").unwrap().search("sit").await.unwrap();
    assert_eq!(found[0].text, "Asked: Where do I sit?\nAnswered: By the window.");
    assert_eq!(texts(&memory, "bob").await, ["Asked: I am Bob.\nAnswered: Hello, Bob."]);
    let error = runtime.memories().add_session("none").await.unwrap_err();
    assert!(error.to_string().contains("there is no session `none`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_program_corrects_and_deletes() {
    let memory = InProcessMemory::new();
    let runtime = test_runtime().memory(memory.clone()).build();
    let of_ada = runtime.memories().user("ada").unwrap();
    let saved =
        of_ada.save(MemoryNote::new("Prefers aisle seats.").tag("topic", "travel")).await.unwrap();
    let other = of_ada.save("Prefers aisle seats.").await.unwrap();
    assert_ne!(saved.id, other.id);
    assert_eq!(saved.run, None);
    let mut corrected = saved.clone();
    corrected.text = "Prefers window seats.".to_owned();
    of_ada.save_entry(corrected.clone()).await.unwrap();
    assert_eq!(of_ada.search("window").await.unwrap(), [corrected.clone()]);
    corrected.text.clear();
    let Err(Error::Memory { .. }) = of_ada.save_entry(corrected).await else {
        panic!("the text is empty")
    };
    assert!(!runtime.memories().user("bob").unwrap().delete(&saved.id).await.unwrap());
    assert!(of_ada.delete(&saved.id).await.unwrap());
    assert_eq!(of_ada.delete_all().await.unwrap(), 1);
    assert!(of_ada.search(MemoryQuery::all()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_model_gets_no_more_than_a_tool_may_answer() {
    let memory = InProcessMemory::new();
    for at in 0..30 {
        // Each character takes six bytes in JSON.
        let text = format!("Fact {at:02} {}", "\u{1}".repeat(10_000));
        memory
            .save("ada", MemoryEntry::new(at.to_string(), text, Timestamp::from_millis(at)))
            .await
            .unwrap();
    }
    let runtime = with(
        &memory,
        calling([
            ("recall", json!({"query": "fact", "limit": 20})),
            ("recall", json!({"query": "29"})),
        ]),
    );
    let found = answers(&runtime, of("ada")).await;
    assert!(found.iter().all(|(status, _)| *status == ToolStatus::Success), "{found:?}");
    let all = found[0].1.as_array().unwrap();
    assert!(!all.is_empty() && all.len() < 20);
    assert!(
        all[0]["text"].as_str().unwrap().starts_with("Fact 29 ")
            && all[0]["text"].as_str().unwrap().ends_with('…')
    );
    assert_eq!(found[1].1.as_array().unwrap().len(), 1);
}
