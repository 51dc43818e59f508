//! Tests the losing branches of a `select!` in a step. After a crash they must not start a new
//! call, even if they would now be faster.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::{Error, Result, Workflow};
use agentflow_testing::{CrashTest, ScriptedModel, Turn};
use serde_json::json;

use crate::interrupted_calls::{
    Behind, World, around_retry, pays, process, run_with_retry_and_settings,
};

/// State that all processes of a crash test share.
#[derive(Clone, Default)]
struct Race(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// `true` once the choice is recorded. The loser would be fast afterwards.
    over: bool,
    charged: Vec<String>,
}

impl Race {
    /// Returns the duration of the loser's unfinished calls.
    fn pace(&self) -> Duration {
        Duration::from_millis(if self.0.lock().unwrap().over { 1 } else { 40 })
    }
}

/// Charges.
#[tool]
async fn lost_charge(race: Inject<Race>, what: String) -> String {
    race.0.lock().unwrap().charged.push(what.clone());
    what
}

/// Looks for as long as the loser takes.
#[tool(effects = "read")]
async fn lost_look(race: Inject<Race>) -> u32 {
    let pace = race.pace();
    tokio::time::sleep(pace).await;
    1
}

/// Notes that the choice is on record.
#[tool(effects = "read")]
async fn lost_over(race: Inject<Race>, times: u32) -> u32 {
    race.0.lock().unwrap().over = true;
    tokio::time::sleep(Duration::from_millis(5)).await;
    times
}

/// Charge twice.
#[agent(tools = [lost_charge])]
async fn lost_agent(cx: &Context, what: String) -> Result<String>;

#[workflow(name = "lost-workflow")]
async fn lost_workflow(cx: &Context, what: String) -> Result<String> {
    let first = lost_charge(cx.inject()?, what).await;
    lost_look(cx.inject()?).await;
    let second = lost_charge(cx.inject()?, format!("second after {first}")).await;
    Ok(second)
}

/// Charges twice.
#[tool(idempotent)]
async fn lost_tool(cx: &Context, what: String) -> Result<String> {
    block(cx, what).await
}

async fn block(cx: &Context, what: String) -> Result<String> {
    let first = lost_charge(cx.inject()?, what).await;
    lost_look(cx.inject()?).await;
    Ok(lost_charge(cx.inject()?, format!("second after {first}")).await)
}

async fn choose(cx: &Context, loser: &str) -> Result<String> {
    let lost = async {
        let what = "first".to_owned();
        match loser {
            "agent" => lost_agent(cx, what).await,
            "workflow" => lost_workflow(cx, what).await,
            "tool" => lost_tool(cx, what).await,
            _ => block(cx, what).await,
        }
    };
    let won = tokio::select! {
        lost = lost => lost?,
        () = tokio::time::sleep(Duration::from_millis(30)) => "time".to_owned(),
    };
    lost_over(cx.inject()?, 1).await;
    lost_over(cx.inject()?, 2).await;
    Ok(won)
}

/// Resets the state at the start of a run.
async fn begins(cx: &Context) -> Result<u32> {
    cx.inject::<Race>()?.0.lock().unwrap().over = false;
    Ok(1)
}

#[workflow(name = "lost-choice")]
async fn lost_choice(cx: &Context, loser: String) -> Result<String> {
    begins(cx).await?;
    let won = choose(cx, &loser).await?;
    lost_over(cx.inject()?, 3).await;
    Ok(won)
}

#[tokio::test(start_paused = true)]
async fn a_loser_begins_nothing_new_after_a_crash_at_any_write() {
    for loser in ["agent", "workflow", "tool", "block"] {
        let race = Race::default();
        let of_model = race.clone();
        let model = ScriptedModel::from_fn(move |request| {
            let results =
                request.messages.messages().iter().flat_map(|message| message.results()).count();
            match results {
                0 => Turn::call("lost_charge", json!({"what": "first"})),
                1 => Turn::call("lost_charge", json!({"what": "second"})).after(of_model.pace()),
                _ => Turn::text("charged"),
            }
        });
        let given = race.clone();
        let report = CrashTest::new(&lost_choice::workflow(), move || loser.to_owned())
            .runtime(move |runtime| runtime.resource(given.clone()).model(model.clone()))
            .may_differ_when_interrupted()
            .twice()
            .run()
            .await;
        let charged = race.0.lock().unwrap().charged.clone();
        assert!(charged.iter().all(|what| what == "first"), "{loser}: {charged:?}\n{report}");
    }
}

/// Drops an inner workflow in one of several ways.
#[workflow(name = "lost-limited")]
async fn lost_limited(cx: &Context, form: String) -> Result<String> {
    begins(cx).await?;
    let won = match form.as_str() {
        "time limit" => limited(cx, "first").await?,
        "other way" => fallback!(too_late(cx), in_time(cx)).await?,
        "form" => timeout!("30ms", lost_workflow(cx, "first".to_owned())).await?,
        _ => {
            let all = map!(vec!["one".to_owned()], |what| limited_item(cx, what)).await?;
            all.join(", ")
        }
    };
    lost_over(cx.inject()?, 3).await;
    Ok(won)
}

/// Calls the inner workflow with a time limit and continues without its result.
async fn limited(cx: &Context, what: &str) -> Result<String> {
    let limit = Duration::from_millis(30);
    let won = match tokio::time::timeout(limit, lost_workflow(cx, what.to_owned())).await {
        Ok(charged) => charged?,
        Err(_) => "time".to_owned(),
    };
    lost_over(cx.inject()?, 1).await;
    lost_over(cx.inject()?, 2).await;
    Ok(won)
}

async fn limited_item(cx: &Context, what: String) -> Result<String> {
    limited(cx, &what).await
}

/// Drops the inner workflow and then fails.
async fn too_late(cx: &Context) -> Result<String> {
    let limit = Duration::from_millis(30);
    let lost = tokio::time::timeout(limit, lost_workflow(cx, "first".to_owned())).await;
    lost.unwrap_or(Err(Error::Timeout { limit }))
}

async fn in_time(cx: &Context) -> Result<String> {
    lost_over(cx.inject()?, 1).await;
    Ok("time".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_inner_workflow_begins_nothing_new_however_it_is_dropped() {
    for form in ["time limit", "other way", "form", "map"] {
        let race = Race::default();
        let given = race.clone();
        let test = CrashTest::new(&lost_limited::workflow(), move || form.to_owned())
            .runtime(move |runtime| runtime.resource(given.clone()))
            .may_differ_when_interrupted()
            .twice();
        let test = if form == "form" { test.fails() } else { test };
        let report = test.run().await;
        let charged = race.0.lock().unwrap().charged.clone();
        assert!(!charged.is_empty(), "{form}: {report}");
        assert!(
            charged.iter().all(|what| !what.starts_with("second")),
            "{form}: {charged:?}\n{report}"
        );
    }
}

/// Limits the time in the first process only, so that the second one waits for the dropped call.
async fn waits_in_the_second(cx: &Context, loser: &str) -> Result<u32, Behind> {
    let world = pays(cx)?;
    let limit = async {
        match process(&world) {
            1 => tokio::time::sleep(Duration::from_millis(30)).await,
            _ => std::future::pending().await,
        }
    };
    let work = async {
        match loser {
            "workflow" => lost_read(cx).await,
            "tool" => Ok(lost_rest(cx.inject()?).await),
            _ => lost_reader(cx, "rest".to_owned()).await.map(|_| 1),
        }
    };
    let won = tokio::select! {
        lost = work => lost.map_err(Behind::from)?,
        () = limit => 7,
    };
    world.act("after".to_owned()).await?;
    Ok(won)
}

/// Rests.
#[tool(effects = "read")]
async fn lost_rest(world: Inject<World>) -> u32 {
    world.note("rest");
    tokio::time::sleep(Duration::from_millis(40)).await;
    1
}

/// Rest.
#[agent(tools = [lost_rest])]
async fn lost_reader(cx: &Context, what: String) -> Result<String>;

#[workflow(name = "lost-read")]
async fn lost_read(cx: &Context) -> Result<u32> {
    let rested = lost_rest(cx.inject()?).await;
    Ok(rested)
}

#[workflow(name = "lost-waits")]
async fn lost_waits(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let won = waits_in_the_second(cx, &names[0]).await?;
    Ok(won)
}

#[tokio::test(start_paused = true)]
async fn a_step_that_waits_for_what_it_had_dropped_asks() {
    for loser in ["agent", "workflow", "tool"] {
        let world = World::new("after", &[]);
        let model = ScriptedModel::from_fn(|request| {
            match request
                .messages
                .messages()
                .iter()
                .any(|message| message.results().next().is_some())
            {
                false => Turn::call("lost_rest", json!({})),
                true => Turn::text("rested"),
            }
        });
        let flow: Workflow<(Vec<String>,), u32> = lost_waits::workflow();
        let (lines, ended) = run_with_retry_and_settings(&flow, &world, &[loser], |runtime| {
            runtime.model(model.clone())
        })
        .await;
        assert_eq!(ended.unwrap(), 1, "{loser}: {lines:#?}");
        // The operator's retry lets the step continue.
        assert_eq!(
            around_retry(&world),
            ["rest", "after", "retry", "rest", "after"],
            "{loser}: {lines:#?}"
        );
        let asked = &world.done()[2];
        assert!(
            asked.contains("this step had dropped the ") && asked.contains("waits for it instead"),
            "{asked}"
        );
    }
}
