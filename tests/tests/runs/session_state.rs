//! Tests the state of sessions: a run finds the state that the runs of its history saved. Also
//! tests a crash at each write, branches, failed runs and the size limit.

use agentflow::agent::{AgentSettings, RunRequest};
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::session::Session;
use agentflow::store::{MemoryStore, SqliteStore, Store};
use agentflow::{Error, RunId};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime};

use crate::sessions_crash::{QUESTIONS, ask_remaining, ends_at_every_write};

static HEARD: StateKey<Vec<String>> = StateKey::session("heard");
static DRAFT: StateKey<String> = StateKey::session("draft");
static SCRATCH: StateKey<u32> = StateKey::temp("scratch");

/// Keep what was heard.
#[tool(idempotent)]
async fn hear_in_session(cx: &Context, what: String) -> Result<String> {
    let mut heard = cx.state(&HEARD).await?.unwrap_or_default();
    assert_eq!(cx.state(&SCRATCH).await?, None, "what is temporary is no session's");
    heard.push(what);
    cx.set(&HEARD, &heard)?;
    cx.set(&SCRATCH, &1)?;
    heard_in_inner(cx).await?;
    Ok(heard.join("|"))
}

/// Nested workflows read and save the session's state too.
#[workflow(name = "heard-in-inner")]
async fn heard_in_inner(cx: &Context) -> Result<u32> {
    let count = count_heard(cx).await?;
    Ok(count)
}

async fn count_heard(cx: &Context) -> Result<u32> {
    let heard = cx.state(&HEARD).await?.unwrap_or_default();
    match heard.len() {
        2 => cx.remove(&DRAFT)?,
        count => cx.set(&DRAFT, &format!("draft {count}"))?,
    }
    Ok(heard.len() as u32)
}

/// Save so many bytes.
#[tool(idempotent)]
async fn fill_session(cx: &Context, bytes: usize, key: String) -> Result<String> {
    let key: StateKey<String> = key.parse().expect("a key");
    cx.set(&key, &"x".repeat(bytes))?;
    Ok("filled".to_owned())
}

/// Returns an agent that saves each question and answers with all of them. A question that ends in
/// `!` makes the model fail. A question such as `5 bytes of key` fills that key.
fn keeper() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        let asked = request
            .messages
            .messages()
            .iter()
            .rfind(|message| message.role() == Role::User)
            .unwrap()
            .text();
        let text = last.text().into_owned();
        match (last.role(), text.split_once(" bytes of ")) {
            (Role::User, Some((bytes, key))) => Turn::call(
                "fill_session",
                json!({"bytes": bytes.parse::<usize>().unwrap(), "key": key}),
            ),
            (Role::User, None) => Turn::call("hear_in_session", json!({"what": text})),
            _ if asked.ends_with('!') => Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
            _ => {
                let result = last.results().next().expect("a result");
                Turn::text(result.text().trim_matches('"').to_owned())
            }
        }
    });
    Agent::new(model)
        .name("keeper")
        .instruct("Keep all.")
        .tools(tools![hear_in_session, fill_session])
}

async fn chat(store: impl Store) -> Result<(), Error> {
    ask_remaining(&keeper(), &QUESTIONS, &Session::from("s"), store).await
}

async fn check(store: impl Store, what: String) {
    let runtime = test_runtime().store(store).build();
    let history = runtime.sessions().history("s", 10).await.unwrap();
    let said: Vec<_> =
        history.iter().map(|run| run.messages.last().unwrap().text().into_owned()).collect();
    assert_eq!(said, ["one", "one|two", "one|two|three"], "{what}");
    let state = runtime.sessions().state("s").await.unwrap();
    assert_eq!(
        serde_json::to_value(&state).unwrap(),
        json!({"heard": QUESTIONS, "draft": "draft 3"}),
        "{what}"
    );
    let second = runtime.run(&RunId::new("two")).state().await.unwrap();
    assert_eq!(serde_json::to_value(&second).unwrap(), json!({"heard": ["one", "two"]}), "{what}");
    for run in history {
        check_events(&runtime.run(&run.run_id).journal().await.unwrap())
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

#[tokio::test(start_paused = true)]
async fn each_turn_finds_what_the_turns_before_left_whenever_a_process_ends() {
    ends_at_every_write(chat, check).await;
}

async fn ask(runtime: &Runtime, text: &str, session: Session) -> Result<String, Error> {
    let request = RunRequest::new(text).run_id(RunId::new(text)).session(session);
    Ok(keeper().runtime(runtime).run(request).await?.into_output())
}

async fn heard(runtime: &Runtime) -> Vec<String> {
    runtime.sessions().state("s").await.unwrap().get(&HEARD).unwrap().unwrap_or_default()
}

async fn branches_and_failures(store: impl Store) {
    let runtime = test_runtime().store(store).agent(&keeper()).build();
    ask(&runtime, "one", "s".into()).await.unwrap();
    ask(&runtime, "two", "s".into()).await.unwrap();
    // The state of a failed run is in its journal but not in the session.
    ask(&runtime, "lost!", "s".into()).await.unwrap_err();
    let failed = runtime.run(&RunId::new("lost!")).state().await.unwrap();
    assert_eq!(failed.get(&HEARD).unwrap().unwrap(), ["one", "two", "lost!"]);
    assert_eq!(heard(&runtime).await, ["one", "two"]);
    assert_eq!(ask(&runtime, "three", "s".into()).await.unwrap(), "one|two|three");
    // A branch has its own state.
    let branch = Session::from("s").after(RunId::new("one"));
    assert_eq!(ask(&runtime, "other", branch).await.unwrap(), "one|other");
    assert_eq!(heard(&runtime).await, ["one", "other"]);
    let back = Session::from("s").after(RunId::new("three"));
    assert_eq!(ask(&runtime, "four", back).await.unwrap(), "one|two|three|four");
    // The window of the model does not affect the state.
    let forgets = Session::from("s").window(agentflow::session::SessionWindow::default().runs(0));
    assert_eq!(ask(&runtime, "five", forgets).await.unwrap(), "one|two|three|four|five");
    // Another session has its own state, and a deleted session has none.
    assert_eq!(ask(&runtime, "elsewhere", "t".into()).await.unwrap(), "elsewhere");
    runtime.sessions().delete("s").await.unwrap();
    assert_eq!(ask(&runtime, "one", "s".into()).await.unwrap(), "one");
}

#[tokio::test(start_paused = true)]
async fn a_branch_has_its_own_state_and_a_failed_turn_leaves_none() {
    branches_and_failures(MemoryStore::new()).await;
}

#[tokio::test]
async fn the_same_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    branches_and_failures(SqliteStore::open(folder.path().join("runs.db")).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn what_each_run_of_a_session_begins_with_is_bounded() {
    let runtime = test_runtime().store(MemoryStore::new()).agent(&keeper()).build();
    assert_eq!(ask(&runtime, "600000 bytes of a", "s".into()).await.unwrap(), "filled");
    let refused = ask(&runtime, "600001 bytes of b", "s".into()).await.unwrap();
    assert!(refused.contains("the session would have 1200"), "{refused}");
    assert_eq!(runtime.sessions().state("s").await.unwrap().len(), 1);
    // A replaced value does not count twice. Temporary keys do not count.
    assert_eq!(ask(&runtime, "600002 bytes of a", "s".into()).await.unwrap(), "filled");
    assert_eq!(ask(&runtime, "600003 bytes of temp:b", "s".into()).await.unwrap(), "filled");
}

static SUM: StateKey<Vec<u32>> = StateKey::session("sum");
static SAID: StateKey<String> = StateKey::session("said");

/// Returns an agent that extends the last answer, which it reads from the session's state.
fn adder() -> Agent<Vec<u32>> {
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        match last.results().next() {
            None => Turn::call("last_sum", json!({})),
            Some(result) => {
                let mut sum: Vec<u32> = serde_json::from_str(&result.text()).unwrap();
                sum.push(u32::try_from(sum.len()).unwrap());
                Turn::text(json!({"value": sum}).to_string())
            }
        }
    });
    Agent::new(model)
        .name("adder")
        .instruct("Add.")
        .tools(tools![last_sum])
        .output()
        .settings(AgentSettings::new().output_key(&SUM))
}

/// The last answer.
#[tool(effects = "none")]
async fn last_sum(cx: &Context) -> Result<Vec<u32>> {
    Ok(cx.state(&SUM).await?.unwrap_or_default())
}

async fn adds(store: impl Store) -> Result<(), Error> {
    ask_remaining(&adder(), &QUESTIONS, &Session::from("s"), store).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_under_its_key_is_there_for_the_next_turn_whenever_a_process_ends() {
    ends_at_every_write(adds, |store, what| async move {
        let runtime = test_runtime().store(store).build();
        let state = runtime.sessions().state("s").await.unwrap();
        assert_eq!(serde_json::to_value(&state).unwrap(), json!({"sum": [0, 1, 2]}), "{what}");
    })
    .await;
}

/// Say it.
#[agent(output_key = SAID)]
async fn says(cx: &Context, what: String) -> Result<String>;

fn speaks() -> ScriptedModel {
    ScriptedModel::from_fn(|_| Turn::text("said hi"))
}

/// Returns the answer as the same step sees it.
async fn says_and_sees(cx: &Context, what: String) -> Result<String> {
    says(cx, what).await?;
    nothing_more(cx).await?;
    Ok(cx.state(&SAID).await?.unwrap_or_default())
}

/// Adds a record to the step, so that a process can end between the answer and the end of the step.
#[workflow(name = "nothing-more")]
async fn nothing_more(cx: &Context) -> Result<String> {
    let seen = sees_said(cx, "inner".to_owned()).await?;
    Ok(seen)
}

async fn sees_said(cx: &Context, own: String) -> Result<String> {
    let seen = cx.state(&SAID).await?.unwrap_or_default();
    Ok(format!("{own}, then {seen}"))
}

#[workflow(name = "says-in-steps")]
async fn says_in_steps(cx: &Context, what: String) -> Result<String> {
    let own = says_and_sees(cx, what).await?;
    let seen = sees_said(cx, own).await?;
    Ok(seen)
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_a_step_is_saved_with_the_step_whenever_it_crashes() {
    let report = CrashTest::new(&says_in_steps::workflow(), || "hi".to_owned())
        .runtime(|runtime| runtime.model(speaks()))
        .twice()
        .run()
        .await;
    assert!(report.writes() > 4, "{report}");
    let runtime = test_runtime().store(MemoryStore::new()).model(speaks()).build();
    let run = says_in_steps::workflow().run(&runtime, "hi".to_owned()).await.unwrap();
    assert_eq!(run, "said hi, then said hi");
}

#[tokio::test]
async fn an_output_key_that_cannot_be_one_is_refused() {
    static NAME: StateKey<String> = StateKey::user("name");
    let agent = || Agent::new(ScriptedModel::from_fn(|_| Turn::text("{}"))).name("keeps");
    let lasting =
        agent().settings(AgentSettings::new().output_key(&NAME)).build().unwrap_err().to_string();
    assert!(lasting.contains("`user:name` outlives both; set that key in a tool"), "{lasting}");
    let other = agent()
        .settings(AgentSettings::new().output_key(&SAID))
        .output::<Vec<u32>>()
        .build()
        .unwrap_err()
        .to_string();
    assert!(other.contains("give a key of the answer's type"), "{other}");
    let large = Agent::new(ScriptedModel::new([Turn::text("x".repeat(1 << 20))]))
        .settings(AgentSettings::new().output_key(&SAID));
    let large = large.run("Say much.").await.unwrap_err().to_string();
    assert!(large.contains("would have saved"), "{large}");
}
