//! Tests nested compensations: a completed tool that calls tools is undone as a whole. If it has
//! not completed, its completed inner calls are undone individually. Tested for every kind of
//! caller, and after a crash at each write.

use agentflow::prelude::*;
use agentflow::runtime::UndoStatus;
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;
use agentflow::tool::ToolError;
use agentflow_testing::{CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime};
use agentflow_tests::Elsewhere;

use crate::deeds::{Boxed, Deeds};

/// Lays a brick.
#[tool(compensate = undone_unlay)]
async fn undone_lay(deeds: Inject<Deeds>, brick: String) -> Result<String, ToolError> {
    if brick == "air" {
        return Err(ToolError::new("air is no brick"));
    }
    deeds.note(format!("lay {brick}"));
    Ok(brick)
}

/// Removes it.
#[tool(idempotent)]
async fn undone_unlay(deeds: Inject<Deeds>, brick: String, output: String) -> bool {
    deeds.note(format!("unlay {brick}"));
    brick == output
}

/// Builds a wall of bricks.
#[tool(compensate = undone_tear_down)]
async fn undone_wall(cx: &Context, bricks: Vec<String>) -> Result<u32, ToolError> {
    for brick in &bricks {
        undone_lay(cx.inject().map_err(|error| ToolError::new(error.to_string()))?, brick.clone())
            .await?;
    }
    Ok(u32::try_from(bricks.len()).unwrap())
}

/// Tears the wall down.
#[tool(idempotent)]
async fn undone_tear_down(
    cx: &Context,
    bricks: Vec<String>,
    output: u32,
) -> Result<bool, ToolError> {
    let deeds = cx.inject::<Deeds>().map_err(|error| ToolError::new(error.to_string()))?;
    deeds.note(format!("tear down {}", bricks.join(" ")));
    Ok(bricks.len() == output as usize)
}

#[workflow]
async fn undone_house(cx: &Context, walls: Vec<Vec<String>>) -> Boxed<u32> {
    let ground = undone_lay(cx.inject()?, "ground".to_owned()).await?;
    let built = all_walls(cx, walls).await?;
    let over = undone_over(ground, built).await?;
    Ok(over)
}

async fn all_walls(cx: &Context, walls: Vec<Vec<String>>) -> Boxed<u32> {
    let mut built = 0;
    for bricks in walls {
        built += undone_wall(cx, bricks).await?;
    }
    Ok(built)
}

async fn undone_over(_: String, _: u32) -> Result<u32, ToolError> {
    Err(ToolError::new("it is over"))
}

#[workflow]
async fn undone_direct(cx: &Context, bricks: Vec<String>) -> Boxed<u32> {
    let wall = undone_wall(cx, bricks).await?;
    let over = undone_over(String::new(), wall).await?;
    Ok(over)
}

fn walls(walls: &[&str]) -> Vec<Vec<String>> {
    walls.iter().map(|wall| wall.split(' ').map(ToOwned::to_owned).collect()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_completed_tool_is_undone_as_a_whole_and_another_by_what_it_called() {
    for elsewhere in [false, true] {
        let deeds = Deeds::default();
        let build = || test_runtime().resource(deeds.clone());
        let runtime = || match elsewhere {
            true => build()
                .store(MemoryStore::new())
                .executor(Elsewhere::on_task(build().build()))
                .build(),
            false => build().store(MemoryStore::new()).build(),
        };
        let here = runtime();
        let run = here
            .start(undone_house::workflow(), walls(&["a b", "c d"]))
            .compensate()
            .await
            .unwrap();
        assert_eq!(
            run.result().await.unwrap_err().to_string(),
            "the step `over` failed: it is over"
        );
        let done = ["lay ground", "lay a", "lay b", "lay c", "lay d"];
        assert_eq!(
            deeds.take(),
            [&done[..], &["tear down c d", "tear down a b", "unlay ground"]].concat()
        );
        check_events(&run.recorded()).unwrap();
        let report = here.run(run.run_id()).inspect().await.unwrap().compensation.unwrap();
        let calls: Vec<_> = report.calls.iter().map(|call| (&*call.tool, call.status)).collect();
        let undone = [("undone_wall", UndoStatus::Undone), ("undone_wall", UndoStatus::Undone)];
        assert_eq!(calls, [&undone[..], &[("undone_lay", UndoStatus::Undone)]].concat());
        // The second wall fails halfway: its bricks are undone individually, and the first wall as
        // a whole.
        let run = runtime()
            .start(undone_house::workflow(), walls(&["a b", "c air d"]))
            .compensate()
            .await
            .unwrap();
        assert_eq!(
            run.result().await.unwrap_err().to_string(),
            "the step `built` failed: air is no brick"
        );
        let done = ["lay ground", "lay a", "lay b", "lay c"];
        assert_eq!(
            deeds.take(),
            [&done[..], &["unlay c", "tear down a b", "unlay ground"]].concat()
        );
        // The node consists of the call.
        let run = runtime()
            .start(undone_direct::workflow(), walls(&["a b"]).remove(0))
            .compensate()
            .await
            .unwrap();
        assert!(run.result().await.is_err());
        assert_eq!(deeds.take(), ["lay a", "lay b", "tear down a b"]);
    }
}

/// Digs.
#[tool(compensate = undone_fill)]
pub(crate) async fn undone_dig(cx: &Context, log: Inject<EffectLog>, holes: u32) -> u32 {
    log.note(cx);
    holes
}

/// Fills the hole.
#[tool]
pub(crate) async fn undone_fill(
    cx: &Context,
    log: Inject<EffectLog>,
    holes: u32,
    output: u32,
) -> bool {
    log.note(cx);
    holes == output
}

/// Digs two holes.
#[tool(compensate = undone_fill_all)]
async fn undone_dig_all(cx: &Context, log: Inject<EffectLog>, holes: u32) -> u32 {
    let first = undone_dig(cx, log.clone(), holes).await;
    first + undone_dig(cx, log, holes + 1).await
}

/// Fills them.
#[tool]
async fn undone_fill_all(cx: &Context, log: Inject<EffectLog>, holes: u32, output: u32) -> bool {
    log.note(cx);
    output > holes
}

#[workflow]
async fn undone_garden(cx: &Context, holes: u32) -> Boxed<u32> {
    let dug = dug_all(cx, holes).await?;
    let over = undone_over(String::new(), dug).await?;
    Ok(over)
}

async fn dug_all(cx: &Context, holes: u32) -> Boxed<u32> {
    let first = undone_dig(cx, cx.inject()?, holes).await;
    Ok(first + undone_dig_all(cx, cx.inject()?, holes).await)
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_of_calls_below_each_other() {
    for elsewhere in [false, true] {
        let effects = EffectLog::new();
        let given = effects.clone();
        let report = CrashTest::new(&undone_garden::workflow(), || 5)
            .compensating()
            .fails()
            .may_differ_when_interrupted()
            .effects(&effects)
            .runtime(move |runtime| {
                let runtime = runtime.resource(given.clone());
                let worker = test_runtime().resource(given.clone()).build();
                if elsewhere { runtime.executor(Elsewhere::on_task(worker)) } else { runtime }
            })
            .run()
            .await;
        assert!(
            report.step("dug/tool#1.undone_dig_all/undo#1/tool#1.undone_fill_all").is_some(),
            "{report}"
        );
        assert!(report.crashes() > 15, "{report}");
    }
}

/// Reserves a seat.
#[tool(idempotent, compensate = undone_release)]
async fn undone_reserve(deeds: Inject<Deeds>, seat: u32) -> u32 {
    deeds.note(format!("reserve {seat}"));
    seat
}

/// Releases it.
#[tool(idempotent)]
async fn undone_release(deeds: Inject<Deeds>, seat: u32, output: u32) -> bool {
    deeds.note(format!("release {seat}"));
    seat == output
}

/// Reserves a seat, once.
#[tool(compensate = undone_release)]
async fn undone_reserve_once(deeds: Inject<Deeds>, seat: u32) -> u32 {
    deeds.note(format!("reserve {seat}"));
    seat
}

/// Reserve the second seat.
#[agent(tools = [undone_reserve, undone_reserve_once])]
async fn undone_usher(cx: &Context) -> Result<String>;

#[workflow]
async fn undone_seats(cx: &Context) -> Boxed<String> {
    let first = undone_reserve(cx.inject()?, 1).await;
    let within = reserved_within(cx).await?;
    #[node(write)]
    let said = undone_usher(cx).await?;
    let over = undone_over(said, first + within).await?;
    Ok(over.to_string())
}

async fn reserved_within(cx: &Context) -> Boxed<u32> {
    Ok(undone_reserve_once(cx.inject()?, 3).await)
}

/// Uses call ids of the model's server that collide with paths. Such ids must not identify calls.
#[tokio::test(start_paused = true)]
async fn every_call_is_undone_with_any_ids_of_the_server() {
    for tool in ["undone_reserve", "undone_reserve_once"] {
        for id in [
            "call_9",
            "first",
            "first/tool#1.undone_reserve",
            "within",
            "within/tool#1.undone_reserve_once",
            "said",
        ] {
            let deeds = Deeds::default();
            let model = ScriptedModel::new([
                Turn::call(tool, json!({"seat": 2})).id(id),
                Turn::text("done"),
            ]);
            let runtime = test_runtime()
                .resource(deeds.clone())
                .model(model)
                .store(MemoryStore::new())
                .build();
            let run = runtime.start(undone_seats::workflow(), ()).compensate().await.unwrap();
            run.result().await.unwrap_err();
            let done =
                ["reserve 1", "reserve 3", "reserve 2", "release 2", "release 3", "release 1"];
            assert_eq!(deeds.take(), done, "{id}");
            let report = runtime.run(run.run_id()).inspect().await.unwrap().compensation.unwrap();
            assert!(
                report.calls.iter().all(|call| call.status == UndoStatus::Undone),
                "{id}: {report:?}"
            );
            assert_eq!(report.calls.len(), 3, "{id}: {report:?}");
        }
    }
}
