//! Tests `RunHandle::asked`: it returns the oldest open question of a run, with or without a store,
//! from any process, and `None` after the run has ended.

use std::time::Duration;

use agentflow::RunHandle;
use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::Deserialize;
use agentflow::serde_json::json;
use agentflow::store::Store;
use agentflow::tool::{FnTool, ToolPolicy};
use agentflow_testing::{ScriptedModel, TestClock, Turn, test_runtime};
use agentflow_tests::ProcessStore;

/// Advances the virtual clock.
async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn slow(n: u32) -> Result<u32> {
    pass(10).await;
    Ok(n)
}

async fn fails(n: u32) -> Result<u32, String> {
    Err(format!("no {n}"))
}

/// Ends without a question.
#[workflow(name = "quiet-of-asked")]
async fn quiet(n: u32) -> Result<u32> {
    slow(n).await
}

#[workflow(name = "failing-of-asked")]
async fn failing(n: u32) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    Ok(fails(n).await?)
}

/// Asks after ten seconds, and when that is answered, after ten more.
#[workflow(name = "twice-of-asked")]
async fn twice(n: u32) -> Result<u32> {
    let n = slow(n).await?;
    #[node(id = "one")]
    let one = gate!("first?", n).await?;
    let more = if one.is_granted() { slow(n).await? } else { 0 };
    #[node(id = "two")]
    let two = gate!("second?", more).await?;
    Ok(if two.is_granted() { more } else { 0 })
}

/// Asks two things at once.
#[workflow(name = "beside-of-asked")]
async fn beside(n: u32) -> Result<bool> {
    #[node(id = "left")]
    let left = gate!("left?", n).await?;
    #[node(id = "right")]
    let right = gate!("right?", n).await?;
    Ok(left.is_granted() && right.is_granted())
}

fn runtime(store: impl Store, clock: &TestClock) -> Runtime {
    test_runtime().clock(clock.clone()).store(store).build()
}

async fn next<T>(run: &RunHandle<T>) -> Option<String> {
    run.asked().await.unwrap().map(|question| question.path)
}

#[tokio::test(start_paused = true)]
async fn a_question_is_waited_for_and_one_that_is_open_is_there_at_once() {
    for waits_before in [0, 15] {
        // Uses a runtime without a store.
        let run = test_runtime().build().start(twice::workflow(), 3).await.unwrap();
        pass(waits_before).await;
        let began = tokio::time::Instant::now();
        let question = run.asked().await.unwrap().unwrap();
        assert_eq!(began.elapsed().as_secs(), if waits_before == 0 { 10 } else { 0 });
        assert_eq!(
            (&*question.path, &*question.message, question.about.as_str()),
            ("one", "first?", "3")
        );
        assert_eq!((&question.run, &*question.name), (run.run_id(), "twice-of-asked"));
        // The same question is returned until it is answered.
        assert_eq!(run.asked().await.unwrap().unwrap(), question);
        run.approve("one", Approval::granted(), "ada").await.unwrap();
        // After the answer the next question is returned.
        assert_eq!(next(&run).await.as_deref(), Some("two"));
        run.approve("two", Approval::granted(), "ada").await.unwrap();
        assert_eq!(next(&run).await, None);
        assert_eq!(run.result().await.unwrap(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn two_open_questions_come_one_after_the_other() {
    let run = test_runtime().build().start(beside::workflow(), 1).await.unwrap();
    pass(1).await;
    for path in ["left", "right"] {
        assert_eq!(next(&run).await.as_deref(), Some(path));
        run.approve(path, Approval::granted(), "ada").await.unwrap();
    }
    assert_eq!(next(&run).await, None);
    assert!(run.result().await.unwrap());
}

/// Several tasks wait for the same question, and a single answer resolves it.
#[tokio::test(start_paused = true)]
async fn everybody_who_waits_sees_the_question() {
    let run = test_runtime().build().start(twice::workflow(), 3).await.unwrap();
    let (one, other) = tokio::join!(next(&run), next(&run));
    assert_eq!((one.as_deref(), other.as_deref()), (Some("one"), Some("one")));
    run.approve("one", Approval::denied("not today"), "ada").await.unwrap();
    assert_eq!(next(&run).await.as_deref(), Some("two"));
    run.cancel("enough").await.unwrap();
    assert_eq!(next(&run).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_without_asking_gives_none() {
    let runtime = test_runtime().build();
    let run = runtime.start(quiet::workflow(), 3).await.unwrap();
    assert_eq!(next(&run).await, None);
    assert_eq!(next(&run).await, None);
    let failed = runtime.start(failing::workflow(), 3).await.unwrap();
    assert_eq!(next(&failed).await, None);
    assert!(failed.result().await.is_err());
    let cancelled = runtime.start(quiet::workflow(), 3).await.unwrap();
    let (none, done) = tokio::join!(next(&cancelled), cancelled.cancel("enough"));
    done.unwrap();
    assert_eq!(none, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_process_is_asked_and_answered_through_the_store() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let run = runtime(store.clone(), &clock).start(twice::workflow(), 3).await.unwrap();
    let elsewhere = runtime(store.process(2), &clock);
    for path in ["one", "two"] {
        // Each iteration attaches a new handle, which has no memory of earlier questions.
        let attached = elsewhere.run(run.run_id()).attach().await.unwrap();
        assert_eq!(next(&attached).await.as_deref(), Some(path));
        attached.approve(path, Approval::granted(), "ada").await.unwrap();
    }
    let attached = elsewhere.run(run.run_id()).attach().await.unwrap();
    assert_eq!(next(&attached).await, None);
    assert_eq!(next(&elsewhere.run(run.run_id()).attach().await.unwrap()).await, None);
    assert_eq!(run.result().await.unwrap(), 3);
}

/// The handle that started the run reports that the run has stopped in this process. An attached
/// handle follows the run.
#[tokio::test(start_paused = true)]
async fn a_run_that_stops_here_is_no_run_that_has_ended() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = runtime(store.clone(), &clock);
    let run = first.start(twice::workflow(), 3).await.unwrap();
    let attached = first.run(run.run_id()).attach().await.unwrap();
    let drains = async {
        pass(5).await;
        first.drain(Duration::from_secs(1)).await;
        let second = runtime(store.process(2), &clock);
        let resumed = second.run(run.run_id()).resume_as(&twice::workflow()).await.unwrap();
        let question = next(&resumed).await;
        (second, resumed, question)
    };
    let (own, followed, (_second, resumed, question)) =
        tokio::join!(run.asked(), next(&attached), drains);
    assert_eq!(own.unwrap_err().kind(), "fenced");
    assert_eq!((followed.as_deref(), question.as_deref()), (Some("one"), Some("one")));
    // A question that was answered before the run was resumed is not open.
    resumed.approve("one", Approval::granted(), "ada").await.unwrap();
    resumed.abandon();
    pass(1).await;
    let third = runtime(store.process(3), &clock);
    let resumed = third.run(attached.run_id()).resume_as(&twice::workflow()).await.unwrap();
    assert_eq!(next(&resumed).await.as_deref(), Some("two"));
    resumed.approve("two", Approval::granted(), "ada").await.unwrap();
    assert_eq!((next(&resumed).await, next(&attached).await), (None, None));
}

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Nothing {}

#[tokio::test(start_paused = true)]
async fn the_call_of_an_agents_tool_is_asked_about() {
    let model = ScriptedModel::new([Turn::call("refund", json!({})), Turn::text("done")]);
    let refund =
        FnTool::new("refund", "Pays back.", |_, _: Nothing| async { Ok::<_, String>("paid") });
    // Questions about calls need a store.
    let runtime = runtime(ProcessStore::new(), &TestClock::new());
    let agent =
        Agent::new(model).tools([refund.policy(ToolPolicy::default().approve())]).runtime(&runtime);
    let run = agent.start("My money, please.").unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert_eq!(question.path, "tool#1.refund");
    run.approve(&question.path, Approval::granted(), "ada").await.unwrap();
    assert_eq!(next(&run).await, None);
    assert_eq!(run.result().await.unwrap().output(), "done");
}

/// Asks for ten seconds.
#[workflow(name = "late-of-asked")]
async fn late(n: u32) -> Result<bool> {
    #[node(id = "ok", timeout = "10s")]
    let ok = gate!("in time?", n).await?;
    Ok(ok.is_granted())
}

/// Retries a node that asks. The new question has the same path and another id.
#[tokio::test(start_paused = true)]
async fn an_answer_that_names_an_older_question_is_refused() {
    let clock = TestClock::new();
    let store = agentflow::store::MemoryStore::new();
    let runtime = runtime(store.clone(), &clock);
    let run = runtime.start(late::workflow(), 1).await.unwrap();
    let older = run.asked().await.unwrap().unwrap();
    assert!(older.id.starts_with("ok@"), "{}", older.id);
    pass(11).await;
    assert!(run.result().await.is_err());
    let id = run.run_id().clone();
    let refused =
        runtime.run(&id).approve(&older.id, Approval::granted(), "ada").await.unwrap_err();
    assert!(refused.to_string().contains("over"), "{refused}");
    run.retry("ok", "ada").await.unwrap();
    let newer = run.asked().await.unwrap().unwrap();
    assert_eq!((&newer.path, &newer.message), (&older.path, &older.message));
    assert_ne!(newer.id, older.id);
    let says = |refused: agentflow::Error| {
        let said = refused.to_string();
        assert!(
            said.contains(&format!("`{}` is not open any more", older.id))
                && said.contains(&newer.id),
            "{said}"
        );
    };
    says(run.approve(&older.id, Approval::granted(), "ada").await.unwrap_err());
    says(runtime.run(&id).approve(&older.id, Approval::granted(), "ada").await.unwrap_err());
    // The question has the same id in the store and in another process.
    let listed = runtime.runs().questions(agentflow::store::RunFilter::new()).await.unwrap();
    assert_eq!(listed.iter().map(|question| &question.id).collect::<Vec<_>>(), [&newer.id]);
    run.abandon();
    drop(runtime);
    let other = self::runtime(store, &clock);
    says(other.run(&id).approve(&older.id, Approval::granted(), "ada").await.unwrap_err());
    other.run(&id).approve(&newer.id, Approval::granted(), "ada").await.unwrap();
    let again = other.run(&id).approve(&newer.id, Approval::granted(), "ada").await.unwrap_err();
    assert!(again.to_string().contains("waits for no answer"), "{again}");
    assert_eq!(other.run(&id).resume().await.unwrap().result().await.unwrap().as_str(), "true");
}

/// Opens a door.
#[tool(approve)]
async fn asked_door(door: String) -> String {
    format!("{door} is open")
}

async fn walks_by(n: u32) -> Result<String> {
    Ok(format!("{} walks", slow(n).await?))
}

async fn opens(n: u32) -> Result<String> {
    Ok(format!("{n}"))
}

/// Races a question against another step. The loser is stopped while it asks.
#[workflow(name = "raced-of-asked")]
async fn raced(n: u32) -> Result<String> {
    let door = opens(n).await?;
    let first = race!(asked_door(door), walks_by(n)).await?;
    #[node(id = "on")]
    let on = gate!("go on?", first).await?;
    Ok(if on.is_granted() { first } else { String::new() })
}

#[tokio::test(start_paused = true)]
async fn the_question_of_a_step_that_was_stopped_is_closed() {
    let clock = TestClock::new();
    let runtime = runtime(agentflow::store::MemoryStore::new(), &clock);
    let run = runtime.start(raced::workflow(), 1).await.unwrap();
    let stopped = run.asked().await.unwrap().unwrap();
    assert_ne!(stopped.path, "on");
    pass(11).await;
    let open = runtime.runs().questions(agentflow::store::RunFilter::new()).await.unwrap();
    assert_eq!(open.iter().map(|question| &*question.path).collect::<Vec<_>>(), ["on"]);
    assert_eq!(next(&run).await.as_deref(), Some("on"));
    let late = run.approve(&stopped.id, Approval::granted(), "ada").await.unwrap_err();
    assert!(!late.to_string().contains("another one"), "{late}");
    run.approve("on", Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "1 walks");
}
