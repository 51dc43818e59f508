//! Tests steps that were interrupted within a write. An operator decides before any call in the
//! step starts again, including concurrent calls and changed programs, and the question lists all
//! calls that a retry repeats.

use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{MemoryStore, Store};
use agentflow::workflow::Node;
use agentflow::{RunId, Workflow};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, test_runtime, trace};
use futures_util::future::join_all;
use serde_json::json;

use crate::interrupted_calls::{
    Behind, World, around_retry, pays, process, retried, run_with_retry_and_settings,
};

/// Lends something. In the first process, a slow person never returns.
#[tool]
async fn beside_lend(world: Inject<World>, who: String) -> Result<u32, String> {
    let lent = world.act(format!("lend {who}")).await;
    if who.starts_with("slow") && process(&world) == 1 {
        std::future::pending::<()>().await;
    }
    lent
}

/// Looks, and lends within.
#[tool(effects = "read")]
async fn beside_look(world: Inject<World>, who: String) -> Result<u32, String> {
    beside_lend(world, who).await
}

async fn lend_inside(cx: &Context, who: &str) -> Result<u32, Behind> {
    Ok(beside_lend(pays(cx)?, who.to_owned()).await?)
}

#[workflow(name = "beside-inner")]
async fn beside_inner(cx: &Context, who: String) -> Result<u32, Behind> {
    let lent = lend_inside(cx, &who).await?;
    Ok(lent)
}

/// Lend to who asks.
#[agent(tools = [beside_lend])]
async fn beside_lender(cx: &Context, who: String) -> Result<String>;

/// Lends to all names concurrently. A prefix selects the process or the kind of call.
async fn lend_all(cx: &Context, names: &[String]) -> Result<u32, Behind> {
    let now = process(&*pays(cx)?).to_string();
    let mine = names.iter().filter_map(|name| match name.split_once('@') {
        Some((only, name)) => (only == now).then_some(name),
        None => Some(name.as_str()),
    });
    let one = async |name: &str| match name.split_once(' ') {
        Some(("look", who)) => Ok(beside_look(pays(cx)?, who.to_owned()).await?),
        Some(("inner", who)) => beside_inner(cx, who.to_owned()).await,
        Some(("agent", who)) => Ok(beside_lender(cx, who.to_owned()).await.map(|_| 1)?),
        _ => Ok(beside_lend(pays(cx)?, name.to_owned()).await?),
    };
    join_all(mine.map(one)).await.into_iter().sum()
}

#[workflow(name = "beside")]
async fn beside(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let lent = lend_all(cx, &names).await?;
    Ok(lent)
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_beside_a_write_that_was_stopped() {
    let world = World::new("lend bob", &[]);
    let (lines, ended) =
        retried(&beside::workflow(), &world, &["2@ada", "bob", "2@inner eve"]).await;
    assert_eq!(ended.unwrap(), 3, "{lines:#?}");
    let done = around_retry(&world);
    assert_eq!(done[..2], ["lend bob", "retry"], "{lines:#?}");
    assert_eq!(sorted(done[2..].to_vec()), ["lend ada", "lend bob", "lend eve"], "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_names_all_that_a_retry_repeats() {
    let world = World::new("lend bob", &[]);
    let names = ["slow ada", "inner slow eve", "look slow kim", "bob"];
    let (lines, ended) = retried(&beside::workflow(), &world, &names).await;
    assert_eq!(ended.unwrap(), 4, "{lines:#?}");
    let done = world.done();
    let asked = done.iter().position(|line| line.starts_with('[')).unwrap();
    for call in [
        "`lent/tool#1.beside_lend`",
        "`lent/tool#2.beside_lend`",
        "`lent/call#2/lent/tool#1.beside_lend`",
        "`lent/tool#1.beside_look/tool#1.beside_lend`",
    ] {
        assert!(done[asked].contains(call), "{call} in {}: {lines:#?}", done[asked]);
    }
    assert_eq!(sorted(done[..asked].to_vec()), sorted(done[asked + 1..].to_vec()), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_changed_step_that_does_not_write_any_more_asks_all_the_same() {
    let world = World::new("lend bob", &[]);
    let (lines, ended) = retried(&beside::workflow(), &world, &["1@bob", "2@eve"]).await;
    assert_eq!(ended.unwrap(), 1, "{lines:#?}");
    assert_eq!(around_retry(&world), ["lend bob", "retry", "lend eve"], "{lines:#?}");
    let world = World::new("lend bob", &[]);
    let (lines, ended) = retried(&beside::workflow(), &world, &["1@inner bob"]).await;
    assert_eq!(ended.unwrap(), 0, "{lines:#?}");
    assert_eq!(around_retry(&world), ["lend bob", "retry"], "{lines:#?}");
    let asked = &world.done()[1];
    assert!(
        asked.contains("`lent/lent/tool#1.beside_lend`, in the workflow `beside-inner` with"),
        "{asked}"
    );
    assert!(asked.contains("did not call; whether that had its effect is unknown"), "{asked}");
    let world = World::new("lend bob", &[]);
    let model = ScriptedModel::new([Turn::call("beside_lend", json!({"who": "bob"}))]);
    let (lines, ended) =
        run_with_retry_and_settings(&beside::workflow(), &world, &["1@agent bob"], |runtime| {
            runtime.model(model.clone())
        })
        .await;
    assert_eq!(ended.unwrap(), 0, "{lines:#?}");
    let asked = &world.done()[1];
    assert!(
        asked.contains("`lent/tool#1.beside_lend`, in the agent `beside_lender` with"),
        "{asked}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_crash_kit_finds_nothing_in_writes_side_by_side() {
    let flow = beside::workflow();
    let names = || ["ada", "inner eve", "agent zoe", "bob"].map(str::to_owned).to_vec();
    let model = ScriptedModel::from_fn(|request| {
        match request.messages.last().is_some_and(|last| last.results().next().is_some()) {
            true => Turn::text("lent"),
            false => Turn::call("beside_lend", json!({"who": "zoe"})),
        }
    });
    let report = CrashTest::new(&flow, names)
        .runtime(move |runtime| runtime.model(model.clone()).resource(World::default()))
        .may_differ_when_interrupted()
        .twice()
        .run()
        .await;
    assert!(report.interrupted() > 0, "{report}");
}

#[workflow(name = "beside-items")]
async fn beside_items(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let lent = map!(names, |name| lend_inside(cx, &name)).await?;
    Ok(lent.into_iter().sum())
}

#[tokio::test(start_paused = true)]
async fn one_decision_is_about_all_items_that_were_stopped() {
    let world = World::new("lend bob", &[]);
    let (lines, ended) =
        retried(&beside_items::workflow(), &world, &["slow ada", "slow kim", "bob"]).await;
    assert_eq!(ended.unwrap(), 3, "{lines:#?}");
    let done = world.done();
    for item in [
        "`lent[0]/tool#1.beside_lend`",
        "`lent[1]/tool#1.beside_lend`",
        "`lent[2]/tool#1.beside_lend`",
    ] {
        assert!(done[3].contains(item), "{item}: {lines:#?}");
    }
    assert_eq!(
        around_retry(&world),
        [
            "lend slow ada",
            "lend slow kim",
            "lend bob",
            "retry",
            "lend slow ada",
            "lend slow kim",
            "lend bob"
        ]
    );
}

/// Lends in a step with a timeout and a retry policy. The retry policy must not repeat an
/// interrupted write.
#[workflow(name = "beside-late")]
async fn beside_late(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    #[node(timeout = "1s", retry = 3)]
    let lent = lend_all(cx, &names).await?;
    Ok(lent)
}

async fn waits(runtime: &Runtime, store: &MemoryStore, run: &RunId) -> (Vec<String>, String) {
    let events = store.read(run, 0, usize::MAX).await.unwrap();
    let question = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::NodeFailed { error, .. } if error.kind == FailureKind::Interrupted => {
            Some(error.message.clone())
        }
        _ => None,
    });
    let report = runtime.run(run).inspect().await.unwrap();
    (
        report.nodes.iter().map(|node| format!("{} {}", node.name, node.status)).collect(),
        question.unwrap_or_default(),
    )
}

#[tokio::test(start_paused = true)]
async fn no_retry_policy_repeats_what_was_stopped() {
    for name in ["slow bob", "look slow bob", "inner slow bob"] {
        let world = World::default();
        world.is_process(1);
        let store = MemoryStore::new();
        let runtime = test_runtime().resource(world.clone()).store(store.clone()).build();
        let handle = runtime.start(beside_late::workflow(), vec![name.to_owned()]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.done(), ["lend slow bob"], "{name}");
        let (nodes, question) = waits(&runtime, &store, handle.run_id()).await;
        assert!(question.contains("stopped in the middle of"), "{name}: {question:?} {nodes:?}");
        world.is_process(2);
        let node = if name.starts_with("inner") { "lent/lent" } else { "lent" };
        let retried = runtime.run(handle.run_id()).retry(node, "ada").await;
        retried.unwrap_or_else(|error| panic!("{name}: {error} {nodes:?}"));
        assert_eq!(handle.result().await.unwrap(), 1, "{name}");
        assert_eq!(world.done(), ["lend slow bob", "lend slow bob"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_failed_beside_a_write_asks_before_its_retry_repeats_that() {
    #[workflow(name = "beside-fails")]
    async fn beside_fails(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
        let lent = lend_first(cx, &names).await?;
        Ok(lent)
    }
    let world = World::new("never", &["lend eve"]);
    world.is_process(1);
    let store = MemoryStore::new();
    let runtime = test_runtime().resource(world.clone()).store(store.clone()).build();
    let names = ["slow bob", "eve"].map(str::to_owned).to_vec();
    let run = RunId::new("run-1");
    let handle = runtime.start(beside_fails::workflow(), names).run_id(run.clone()).await.unwrap();
    handle.result().await.unwrap_err();
    world.works_again();
    world.is_process(2);
    runtime.run(&run).retry("lent", "ada").await.unwrap();
    let handle = runtime.run(&run).resume_as(&beside_fails::workflow()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.done(), ["lend slow bob", "lend eve"]);
    let (_, question) = waits(&runtime, &store, &run).await;
    assert!(question.contains("in the middle of `lent/tool#1.beside_lend`; whether"), "{question}");
    runtime.run(&run).retry("lent", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    assert_eq!(world.done()[2..], ["lend slow bob", "lend eve"]);
}

/// The first failure drops the other calls.
async fn lend_first(cx: &Context, names: &[String]) -> Result<u32, Behind> {
    let all = names.iter().map(async |name| lend_inside(cx, name).await);
    Ok(futures_util::future::try_join_all(all).await?.len() as u32)
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_a_step_that_has_another_policy_asks_and_the_old_program_continues_it() {
    let inner = |retry: u32| {
        Workflow::<(String,), u32>::build("beside-versions", ["who"], move |b, (who,)| {
            let first = b.node("first", (who,), |cx: Context, (who,): (String,)| async move {
                lend_inside(&cx, &who).await
            });
            b.node(
                Node::new("second").retry(retry),
                (first,),
                |cx: Context, (_,): (u32,)| async move { lend_inside(&cx, "bob").await },
            )
        })
        .unwrap()
    };
    let flow = |retry: u32| {
        Workflow::<(Vec<String>,), u32>::build("beside-outer", ["names"], move |b, (names,)| {
            let inner = inner(retry);
            b.node("all", (names,), move |cx: Context, (_,): (Vec<String>,)| {
                let inner = inner.clone();
                async move { inner.run_in(&cx, "ada".to_owned()).await }
            })
        })
        .unwrap()
    };
    let (old, new) = (flow(0), flow(2));
    for back in [true, false] {
        let world = World::new("lend bob", &[]);
        let (store, run) = (MemoryStore::new(), RunId::new("run-1"));
        let process =
            || test_runtime().resource(world.clone()).store(store.as_another_process()).build();
        let handle = process().start(old.clone(), Vec::new()).run_id(run.clone()).await.unwrap();
        world.stopped().await;
        handle.abandon();
        tokio::task::yield_now().await;
        let second = process();
        let handle = second.run(&run).resume_as(&new).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (_, question) = waits(&second, &store, &run).await;
        let repeats =
            "runs anew and repeats `all/first/tool#1.beside_lend`, `all/second/tool#1.beside_lend`";
        assert!(question.contains(repeats), "{question}");
        assert_eq!(world.done(), ["lend ada", "lend bob"]);
        let handle = match back {
            true => {
                handle.abandon();
                tokio::task::yield_now().await;
                let third = process();
                let handle = third.run(&run).resume_as(&old).await.unwrap();
                third.run(&run).retry("all", "ada").await.unwrap();
                handle
            }
            false => {
                second.run(&run).retry("all", "ada").await.unwrap();
                handle
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(3600), handle.result()).await;
        let Ok(ended) = ended else {
            panic!("it does not end: {:#?}", trace(store.read(&run, 0, usize::MAX).await.unwrap()))
        };
        assert_eq!(ended.unwrap(), 1);
        let again: &[&str] = if back { &["lend bob"] } else { &["lend ada", "lend bob"] };
        assert_eq!(world.done()[2..], *again, "back to the old one: {back}");
    }
}

/// Lends twice.
#[tool]
async fn beside_twice(cx: &Context, world: Inject<World>) -> Result<u32, String> {
    let first =
        beside_lend(cx.inject().map_err(|error| error.to_string())?, "ada".to_owned()).await?;
    Ok(first + beside_lend(world, "eve".to_owned()).await?)
}

/// The same, and says that it only reads.
#[tool(effects = "read")]
async fn beside_twice_reads(cx: &Context, world: Inject<World>) -> Result<u32, String> {
    beside_twice(cx, world).await
}

async fn lend_twice(cx: &Context, names: &[String]) -> Result<u32, Behind> {
    match names.first().map(String::as_str) {
        Some("reads") => Ok(beside_twice_reads(cx, pays(cx)?).await?),
        _ => Ok(beside_twice(cx, pays(cx)?).await?),
    }
}

#[workflow(name = "beside-twice-flow")]
async fn beside_twice_flow(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    #[node(retry = 2)]
    let lent = lend_twice(cx, &names).await?;
    Ok(lent)
}

#[tokio::test(start_paused = true)]
async fn a_call_within_a_call_keeps_its_outcome_when_the_step_is_retried() {
    for names in [vec![], vec!["reads".to_owned()]] {
        let world = World::new("never", &["lend eve"]);
        world.is_process(1);
        let store = MemoryStore::new();
        let runtime = test_runtime().resource(world.clone()).store(store.clone()).build();
        let run = RunId::new("run-1");
        let handle =
            runtime.start(beside_twice_flow::workflow(), names).run_id(run.clone()).await.unwrap();
        handle.result().await.unwrap_err();
        let lines = trace(store.read(&run, 0, usize::MAX).await.unwrap());
        assert_eq!(world.done(), ["lend ada", "lend eve", "lend eve", "lend eve"], "{lines:#?}");
        world.works_again();
        runtime.run(&run).retry("lent", "ada").await.unwrap();
        let handle = runtime.run(&run).resume_as(&beside_twice_flow::workflow()).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 2);
        assert_eq!(world.done()[4..], ["lend eve"]);
    }
}

#[workflow(name = "beside-fails-nested")]
async fn beside_fails_nested(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let lent = lend_or_fail(cx, &names).await?;
    Ok(lent)
}

async fn lend_or_fail(cx: &Context, names: &[String]) -> Result<u32, Behind> {
    let fails = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        beside_lend(pays(cx)?, "eve".to_owned()).await.map_err(Behind::from)
    };
    let (inner, other) =
        futures_util::future::try_join(beside_inner(cx, names[0].clone()), fails).await?;
    Ok(inner + other)
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_was_dropped_in_a_write_asks_when_its_failed_step_is_retried() {
    let world = World::new("never", &["lend eve"]);
    world.is_process(1);
    let store = MemoryStore::new();
    let runtime = test_runtime().resource(world.clone()).store(store.clone()).build();
    let run = RunId::new("run-1");
    let names = vec!["slow bob".to_owned()];
    let handle =
        runtime.start(beside_fails_nested::workflow(), names).run_id(run.clone()).await.unwrap();
    handle.result().await.unwrap_err();
    assert_eq!(world.done(), ["lend slow bob", "lend eve"]);
    world.works_again();
    world.is_process(2);
    runtime.run(&run).retry("lent", "ada").await.unwrap();
    let handle = runtime.run(&run).resume_as(&beside_fails_nested::workflow()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        world.done()[2..],
        ["lend eve"],
        "{:#?}",
        trace(store.read(&run, 0, usize::MAX).await.unwrap())
    );
    runtime.run(&run).retry("lent/lent", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    assert_eq!(world.done()[3..], ["lend slow bob"]);
}

/// Drops a nested workflow after a timeout, and continues the step.
#[workflow(name = "beside-drops")]
async fn beside_drops(cx: &Context, names: Vec<String>) -> Result<String, Behind> {
    let said = lend_or_give_up(cx, &names).await?;
    Ok(said)
}

async fn lend_or_give_up(cx: &Context, names: &[String]) -> Result<String, Behind> {
    let waits = tokio::time::timeout(Duration::from_secs(5), beside_waits(names[0].clone())).await;
    let said = match waits {
        Err(_) => "too late".to_owned(),
        Ok(ended) => format!("ended: {ended:?}"),
    };
    beside_lend(pays(cx)?, "bob".to_owned()).await?;
    Ok(said)
}

#[workflow(name = "beside-waits")]
async fn beside_waits(who: String) -> Result<u32, Behind> {
    let waited = wait_long(&who).await?;
    Ok(waited)
}

async fn wait_long(_who: &str) -> Result<u32, Behind> {
    tokio::time::sleep(Duration::from_secs(100)).await;
    Ok(1)
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_its_step_dropped_is_not_over_when_the_step_runs_again() {
    let world = World::new("lend bob", &[]);
    let (lines, ended) = retried(&beside_drops::workflow(), &world, &["ada"]).await;
    assert_eq!(ended.unwrap(), "too late", "{lines:#?}");
    assert_eq!(around_retry(&world), ["lend bob", "retry", "lend bob"], "{lines:#?}");
}
