//! Tests compensation within tools that a model calls. If a tool has no compensation or has not
//! completed, its inner calls are undone in reverse order, each once. Also after a crash at each
//! write, and on a worker.

use std::time::Duration;

use agentflow::Agent;
use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolError, ToolPolicy};
use agentflow_testing::{CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime};
use agentflow_tests::Elsewhere;
use serde_json::json;

use crate::compensation_nested::{undone_dig, undone_fill};
use crate::deeds::Deeds;

fn cannot(error: impl std::fmt::Display) -> ToolError {
    ToolError::new(error.to_string())
}

/// Loads a box.
#[tool(compensate = ship_unload)]
async fn ship_load(cx: &Context, what: String) -> Result<String, ToolError> {
    if what == "air" {
        return Err(ToolError::new("air has no box"));
    }
    cx.inject::<Deeds>().map_err(cannot)?.note(format!("load {what}"));
    Ok(what)
}

/// Unloads it.
#[tool(idempotent)]
async fn ship_unload(cx: &Context, what: String, output: String) -> Result<bool, ToolError> {
    cx.inject::<Deeds>().map_err(cannot)?.note(format!("unload {output}"));
    Ok(what == output)
}

/// Seals a box.
#[tool(compensate = ship_unseal)]
async fn ship_seal(cx: &Context, what: String) -> Result<String, ToolError> {
    cx.inject::<Deeds>().map_err(cannot)?.note(format!("seal {what}"));
    Ok(what)
}

/// Opens it.
#[tool(idempotent)]
fn ship_unseal(cx: &Context, what: String, output: String) -> Result<bool, ToolError> {
    cx.inject::<Deeds>().map_err(cannot)?.note(format!("unseal {output}"));
    Ok(what == output)
}

/// Looks at a box. Has no compensation and is not recorded as a step.
#[tool(effects = "read")]
async fn ship_look(what: String) -> usize {
    what.len()
}

/// Sends boxes.
#[tool]
async fn ship_send(cx: &Context, boxes: Vec<String>) -> Result<usize, ToolError> {
    let mut seen = 0;
    for what in boxes {
        seen += ship_look(what.clone()).await;
        // If one box cannot be loaded, the others are still sent.
        if ship_load(cx, what.clone()).await.is_ok() {
            ship_seal(cx, what).await?;
        }
    }
    Ok(seen)
}

/// Sends boxes, and knows how that is undone.
#[tool(compensate = ship_call_back)]
async fn ship_send_whole(cx: &Context, boxes: Vec<String>) -> Result<usize, ToolError> {
    for what in &boxes {
        ship_load(cx, what.clone()).await?;
    }
    Ok(boxes.len())
}

/// Calls all of them back.
#[tool(idempotent)]
async fn ship_call_back(
    cx: &Context,
    boxes: Vec<String>,
    output: usize,
) -> Result<bool, ToolError> {
    cx.inject::<Deeds>().map_err(cannot)?.note(format!("call back {}", boxes.join(" ")));
    Ok(boxes.len() == output)
}

/// Send what is asked for.
#[agent(tools = [ship_send, ship_send_whole])]
async fn ship_agent(cx: &Context, what: String) -> Result<String>;

#[workflow]
async fn ship_flow(
    cx: &Context,
    what: String,
) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    let sent = ship_agent(cx, what).await?;
    let over = ship_over(sent).await?;
    Ok(over)
}

async fn ship_over(_: String) -> Result<u32, ToolError> {
    Err(ToolError::new("it is over"))
}

/// Returns a model that sends two boxes, then two with a tool that has a compensation, then one
/// that cannot be loaded with the same tool.
fn model(last: fn() -> Turn) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let results =
            request.messages.messages().iter().flat_map(|message| message.results()).count();
        match results {
            0 => Turn::call("ship_send", json!({"boxes": ["a", "air", "b"]})),
            1 => Turn::call("ship_send_whole", json!({"boxes": ["c", "d"]})),
            2 => Turn::call("ship_send_whole", json!({"boxes": ["e", "air"]})),
            _ => last(),
        }
    })
}

const DONE: [&str; 7] = ["load a", "seal a", "load b", "seal b", "load c", "load d", "load e"];
const UNDONE: [&str; 6] =
    ["unload e", "call back c d", "unseal b", "unload b", "unseal a", "unload a"];

#[tokio::test(start_paused = true)]
async fn what_a_tool_of_an_agent_had_called_is_undone() {
    let deeds = Deeds::default();
    let fails = || Turn::fails(ModelErrorKind::BadRequest);
    let runtime = test_runtime().resource(deeds.clone()).build();
    let agent =
        Agent::new(model(fails)).tools(tools![ship_send, ship_send_whole]).runtime(&runtime);
    let run = agent.start(RunRequest::new("Send.").compensate()).unwrap();
    assert!(run.result().await.is_err());
    assert_eq!(deeds.take(), [&DONE[..], &UNDONE].concat());
    check_events(&run.recorded()).unwrap();
    let recorded = run.recorded();
    let below = |path: &str| recorded.iter().any(|event| event.path.to_string() == path);
    assert!(
        below("tool#1.ship_send/tool#2.ship_seal") && !below("tool#1.ship_send/tool#1.ship_look")
    );
    // A run without compensation does not record the inner calls.
    let run = agent.start("Send.").unwrap();
    assert!(run.result().await.is_err());
    assert_eq!(deeds.take(), DONE);
    let is_below = |event: &agentflow::Event| event.path.to_string().contains("ship_load");
    assert!(!run.recorded().iter().any(is_below));
}

#[tokio::test(start_paused = true)]
async fn the_same_of_an_agent_in_a_step_here_and_elsewhere() {
    for elsewhere in [false, true] {
        let deeds = Deeds::default();
        let build = || test_runtime().resource(deeds.clone()).model(model(|| Turn::text("sent")));
        let runtime = match elsewhere {
            true => build()
                .store(MemoryStore::new())
                .executor(Elsewhere::on_task(build().build()))
                .build(),
            false => build().store(MemoryStore::new()).build(),
        };
        let run =
            runtime.start(ship_flow::workflow(), "all".to_owned()).compensate().await.unwrap();
        assert_eq!(
            run.result().await.unwrap_err().to_string(),
            "the step `over` failed: it is over"
        );
        assert_eq!(deeds.take(), [&DONE[..], &UNDONE].concat(), "elsewhere: {elsewhere}");
        check_events(&run.recorded()).unwrap();
    }
}

/// Digs two holes.
#[tool]
async fn ship_dig_two(cx: &Context, log: Inject<EffectLog>, holes: u32) -> u32 {
    let first = undone_dig(cx, log.clone(), holes).await;
    first + undone_dig(cx, log, holes + 1).await
}

/// Digs two holes, and can be called again.
#[tool(idempotent, retry = 1)]
async fn ship_dig_again(
    cx: &Context,
    log: Inject<EffectLog>,
    holes: u32,
) -> Result<u32, ToolError> {
    let first = undone_dig(cx, log.clone(), holes).await;
    let second = undone_dig(cx, log, holes + 1).await;
    if cx.attempt() == 1 { Err(ToolError::new("it is raining")) } else { Ok(first + second) }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write() {
    for tool in ["ship_dig_two", "ship_dig_again"] {
        let effects = EffectLog::new();
        let given = effects.clone();
        let model = ScriptedModel::from_fn(move |request| {
            match request
                .messages
                .messages()
                .iter()
                .any(|message| message.results().next().is_some())
            {
                false => Turn::call(tool, json!({"holes": 5})),
                true => Turn::fails(ModelErrorKind::BadRequest),
            }
        });
        let agent = Agent::new(model).tools(tools![ship_dig_two, ship_dig_again]);
        let report = CrashTest::agent(&agent, || RunRequest::new("Dig.").compensate())
            .fails()
            .may_differ_when_interrupted()
            .effects(&effects)
            .runtime(move |runtime| runtime.resource(given.clone()))
            .run()
            .await;
        let undone =
            report.steps().filter(|(path, _)| path.ends_with("undo#1/tool#1.undone_fill")).count();
        assert_eq!(undone, 2, "{tool}: {report}");
        assert!(report.crashes() > 10, "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_in_the_middle_of_a_tool_is_named() {
    let store = MemoryStore::new();
    let model = || {
        ScriptedModel::from_fn(move |request| {
            match request.messages.messages().last().unwrap().results().next() {
                None => Turn::call("ship_hang", json!({"what": "a"})),
                Some(_) => Turn::fails(ModelErrorKind::BadRequest),
            }
        })
    };
    let first = test_runtime().resource(Deeds::default()).store(store.as_another_process()).build();
    let agent = |model| Agent::new(model).name("shipper").tools(tools![ship_hang]);
    let run = agent(model()).runtime(&first).start(RunRequest::new("Hang.").compensate()).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = run.run_id().clone();
    first.drain(Duration::ZERO).await;
    drop((run, first));
    let second = test_runtime()
        .resource(Deeds::default())
        .store(store.as_another_process())
        .agent(&agent(model()))
        .build();
    let recovered = second.recover().await.unwrap();
    assert_eq!(recovered.resumed.len(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let journal = second.run(&id).journal().await.unwrap();
    check_events(&journal).unwrap();
    let left = journal.iter().find_map(|event| match &event.kind {
        EventKind::RunCompensated { left, .. } => Some(left.clone()),
        _ => None,
    });
    let left = left.expect("it undid what it had done");
    let named: Vec<_> = left.iter().map(|left| (left.path.to_string(), &*left.tool)).collect();
    assert_eq!(named, [("tool#1.ship_hang/tool#1.ship_wait".to_owned(), "ship_wait")], "{left:?}");
}

/// Waits in a call that can be undone.
#[tool]
async fn ship_hang(cx: &Context, what: String) -> Result<String, ToolError> {
    ship_wait(cx, what).await
}

/// Waits for ever.
#[tool(compensate = ship_unwait)]
async fn ship_wait(cx: &Context, what: String) -> Result<String, ToolError> {
    cx.inject::<Deeds>().map_err(cannot)?;
    std::future::pending::<()>().await;
    Ok(what)
}

/// Ends the wait.
#[tool(idempotent)]
async fn ship_unwait(cx: &Context, what: String, output: String) -> Result<bool, ToolError> {
    cx.inject::<Deeds>().map_err(cannot)?;
    Ok(what == output)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct OneBox {
    what: String,
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_a_closure_and_one_that_is_stopped() {
    let deeds = Deeds::default();
    let by_closure =
        FnTool::new("ship-by-closure", "Sends it.", |cx: Context, given: OneBox| async move {
            let loaded = ship_load(&cx, given.what).await?;
            if loaded == "for ever" {
                std::future::pending::<()>().await;
            }
            Ok::<_, ToolError>(loaded)
        })
        .policy(ToolPolicy::default().timeout(Duration::from_secs(5)));
    let model = ScriptedModel::new([
        Turn::call("ship-by-closure", json!({"what": "a"})),
        // The box is loaded, and then the call times out.
        Turn::call("ship-by-closure", json!({"what": "for ever"})),
        Turn::fails(ModelErrorKind::BadRequest),
    ]);
    let runtime = test_runtime().resource(deeds.clone()).build();
    let agent = Agent::new(model).tools(by_closure).runtime(&runtime);
    let run = agent.start(RunRequest::new("Send.").compensate()).unwrap();
    assert!(run.result().await.is_err());
    assert_eq!(deeds.take(), ["load a", "load for ever", "unload for ever", "unload a"]);
    check_events(&run.recorded()).unwrap();
}

/// Digs with a spade that breaks in the first process, but the hole exists.
#[tool(compensate = undone_fill)]
async fn ship_dig_slowly(cx: &Context, log: Inject<EffectLog>, holes: u32) -> u32 {
    log.note(cx);
    tokio::time::sleep(Duration::from_secs(10)).await;
    holes
}

/// Digs, and can be called again.
#[tool(idempotent)]
async fn ship_digs(cx: &Context, log: Inject<EffectLog>, holes: u32) -> u32 {
    ship_dig_slowly(cx, log, holes).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_stopped_is_not_repeated_by_a_tool_that_is() {
    let (store, effects) = (MemoryStore::new(), EffectLog::new());
    let model = || {
        ScriptedModel::from_fn(|request| {
            match request.messages.messages().last().unwrap().results().next() {
                None => Turn::call("ship_digs", json!({"holes": 2})),
                Some(_) => Turn::fails(ModelErrorKind::BadRequest),
            }
        })
    };
    let runtime = || test_runtime().resource(effects.clone()).store(store.as_another_process());
    let agent = || Agent::new(model()).name("digger").tools(tools![ship_digs]);
    let first = runtime().build();
    let run = agent().runtime(&first).start(RunRequest::new("Dig.").compensate()).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = run.run_id().clone();
    first.drain(Duration::ZERO).await;
    drop((run, first));
    let second = runtime().agent(&agent()).build();
    assert_eq!(second.recover().await.unwrap().resumed.len(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let path = "tool#1.ship_digs/tool#1.ship_dig_slowly";
    assert_eq!(effects.count(path), 1, "{effects:?}");
    let journal = second.run(&id).journal().await.unwrap();
    check_events(&journal).unwrap();
    let results = journal.iter().filter_map(|event| match &event.kind {
        EventKind::ToolFailed { result, .. } if event.path.to_string() == "tool#1.ship_digs" => {
            Some(result.text())
        }
        _ => None,
    });
    let said = format!(
        "the program or the step was stopped in the middle of `{path}`; whether it had its effect is unknown"
    );
    assert_eq!(results.collect::<Vec<_>>(), [said]);
    let error = second.run(&id).record().await.unwrap().error.unwrap();
    assert!(error.contains(&format!("not undone: `{path}`")), "{error}");
}
