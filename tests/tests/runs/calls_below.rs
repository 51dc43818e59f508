//! Tests tools that run a workflow or an agent and are stopped halfway. A retry does not repeat the
//! nested steps that have completed, the question names all calls that it would repeat, and the
//! result tells the model which calls had completed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::prelude::*;
use agentflow::runtime::Changes;
use agentflow::serde_json::Value;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition, ToolError, ToolPolicy};
use agentflow::{Agent, Result, RunId};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, test_runtime};
use serde_json::json;

use crate::interrupted_calls::{
    Behind, World, around_retry, pays, process, run_with_retry_and_settings,
};

/// Pays somebody.
#[tool]
async fn nest_pay(world: Inject<World>, who: String) -> Result<u32, String> {
    world.act(format!("pay {who}")).await
}

#[workflow(name = "nest-two-pays")]
async fn nest_two_pays(cx: &Context, who: String) -> Result<u32, Behind> {
    let first = nest_pay(pays(cx)?, who).await?;
    let second = nest_pay(pays(cx)?, format!("{who} again")).await?;
    Ok(first + second)
}

/// Pay who has worked.
#[agent(tools = [nest_pay])]
async fn nest_paymaster(cx: &Context, who: String) -> Result<String>;

/// Pays through a workflow.
#[tool]
async fn nest_pays_by_workflow(cx: &Context, who: String) -> Result<u32, ToolError> {
    nest_two_pays(cx, who).await.map_err(|error| ToolError::new(error.to_string()))
}

/// Pays through an agent.
#[tool]
async fn nest_pays_by_agent(cx: &Context, who: String) -> Result<String, ToolError> {
    nest_paymaster(cx, who).await.map_err(|error| ToolError::new(error.to_string()))
}

/// Pays through a workflow, then says so.
#[tool]
async fn nest_pays_and_says(
    cx: &Context,
    world: Inject<World>,
    who: String,
) -> Result<u32, ToolError> {
    let paid = nest_two_pays(cx, who).await.map_err(|error| ToolError::new(error.to_string()))?;
    world.act("say".to_owned()).await.map(|_| paid).map_err(ToolError::new)
}

async fn by_workflow(cx: &Context) -> Result<u32, Behind> {
    nest_pays_by_workflow(cx, "ada".to_owned())
        .await
        .map_err(|error| Behind::from(error.to_string()))
}

async fn by_agent(cx: &Context) -> Result<u32, Behind> {
    let said = nest_pays_by_agent(cx, "ada".to_owned()).await;
    said.map(|said| u32::try_from(said.len()).unwrap_or(0))
        .map_err(|error| Behind::from(error.to_string()))
}

async fn and_says(cx: &Context) -> Result<u32, Behind> {
    nest_pays_and_says(cx, pays(cx)?, "ada".to_owned())
        .await
        .map_err(|error| Behind::from(error.to_string()))
}

#[workflow(name = "nest-by-workflow")]
async fn nest_by_workflow(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = by_workflow(cx).await?;
    Ok(paid)
}

#[workflow(name = "nest-by-workflow-directly")]
async fn nest_by_workflow_directly(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = nest_pays_by_workflow(cx, "ada".to_owned())
        .await
        .map_err(|error| Behind::from(error.to_string()))?;
    Ok(paid)
}

#[workflow(name = "nest-by-agent")]
async fn nest_by_agent(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = by_agent(cx).await?;
    Ok(paid)
}

#[workflow(name = "nest-and-says")]
async fn nest_and_says(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = and_says(cx).await?;
    Ok(paid)
}

fn paymaster_model() -> ScriptedModel {
    let pays = |who: &str| Turn::call("nest_pay", json!({ "who": who }));
    ScriptedModel::new([
        pays("ada"),
        pays("ada again"),
        Turn::text("paid").expect_text("whether it had its effect is unknown"),
    ])
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_a_stopped_tool_keeps_what_it_had_done() {
    let world = World::new("pay ada again", &[]);
    let (lines, ended) =
        run_with_retry_and_settings(&nest_by_workflow::workflow(), &world, &[], |runtime| runtime)
            .await;
    assert_eq!(ended.unwrap(), 2, "{lines:#?}");
    assert_eq!(
        around_retry(&world),
        ["pay ada", "pay ada again", "retry", "pay ada again"],
        "{lines:#?}"
    );
    let asked = &world.done()[2];
    for call in ["`paid/tool#1.nest_pays_by_workflow`", "`paid/tool#1.nest_pays_by_workflow/second"]
    {
        assert!(asked.contains(call), "{call} in {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn so_it_does_where_the_node_consists_of_the_tool() {
    let world = World::new("pay ada again", &[]);
    let (lines, ended) = run_with_retry_and_settings(
        &nest_by_workflow_directly::workflow(),
        &world,
        &[],
        |runtime| runtime,
    )
    .await;
    assert_eq!(ended.unwrap(), 2, "{lines:#?}");
    assert_eq!(
        around_retry(&world),
        ["pay ada", "pay ada again", "retry", "pay ada again"],
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_stopped_tool_keeps_what_it_had_done() {
    let world = World::new("pay ada again", &[]);
    let model = paymaster_model();
    let flow = nest_by_agent::workflow();
    let (lines, ended) =
        run_with_retry_and_settings(&flow, &world, &[], |runtime| runtime.model(model.clone()))
            .await;
    assert_eq!(ended.unwrap(), 4, "{lines:#?}");
    assert_eq!(around_retry(&world), ["pay ada", "pay ada again", "retry"], "{lines:#?}");
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_was_stopped_after_what_is_below_it_had_ended_asks_and_keeps_that() {
    let world = World::new("say", &[]);
    let (lines, ended) =
        run_with_retry_and_settings(&nest_and_says::workflow(), &world, &[], |runtime| runtime)
            .await;
    assert_eq!(ended.unwrap(), 2, "{lines:#?}");
    assert_eq!(
        around_retry(&world),
        ["pay ada", "pay ada again", "say", "retry", "say"],
        "{lines:#?}"
    );
}

/// Records the payments of one run in a crash test, and payments that were repeated although their
/// outcome was recorded. The next payment starts only after the previous outcome is stored.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<(Vec<String>, Vec<String>)>>);

impl Book {
    fn clear(&self) {
        self.0.lock().unwrap().0.clear();
    }

    fn pay(&self, who: &str) {
        let (paid, again) = &mut *self.0.lock().unwrap();
        if paid.iter().any(|before| before == who) && paid.last().is_some_and(|last| last != who) {
            again.push(who.to_owned());
        }
        paid.push(who.to_owned());
    }
}

/// Pays into a book.
#[tool]
async fn nest_book(book: Inject<Book>, who: String) -> String {
    book.pay(&who);
    tokio::time::sleep(Duration::from_millis(3)).await;
    who
}

/// Pay who has worked.
#[agent(tools = [nest_book])]
async fn nest_bookkeeper(cx: &Context, who: String) -> Result<String>;

#[workflow(name = "nest-three-entries")]
async fn nest_three_entries(cx: &Context, who: String) -> Result<String> {
    let first = nest_book(cx.inject()?, format!("{who} 1")).await;
    let second = nest_book(cx.inject()?, format!("{who} 2")).await;
    let third = nest_book(cx.inject()?, format!("{who} 3")).await;
    Ok(format!("{first}, {second}, {third}"))
}

/// Makes entries through a workflow, through an agent and with a direct call.
#[tool]
async fn nest_enters(cx: &Context, who: String) -> Result<String> {
    let by_workflow = nest_three_entries(cx, who.clone()).await?;
    let by_agent = nest_bookkeeper(cx, who.clone()).await?;
    let own = nest_book(cx.inject()?, format!("{who} own")).await;
    Ok(format!("{by_workflow}, {by_agent}, {own}"))
}

async fn enters(cx: &Context) -> Result<String> {
    let by_tool = nest_enters(cx, "ada".to_owned()).await?;
    let last = nest_book(cx.inject()?, "last".to_owned()).await;
    Ok(format!("{by_tool}, {last}"))
}

async fn new_book(cx: &Context) -> Result<u32> {
    cx.inject::<Book>()?.clear();
    Ok(1)
}

#[workflow(name = "nest-books")]
async fn nest_books(cx: &Context, _n: u32) -> Result<String> {
    new_book(cx).await?;
    let entered = enters(cx).await?;
    Ok(entered)
}

#[tokio::test(start_paused = true)]
async fn nothing_that_is_done_below_a_tool_is_done_again_after_a_crash_at_any_write() {
    let book = Book::default();
    let model = ScriptedModel::from_fn(|request| {
        let results =
            request.messages.messages().iter().flat_map(|message| message.results()).count();
        match results {
            0 | 1 => Turn::call("nest_book", json!({"who": format!("agent {results}")})),
            _ => Turn::text("entered"),
        }
    });
    let given = book.clone();
    let report = CrashTest::new(&nest_books::workflow(), || 1)
        .runtime(move |runtime| runtime.resource(given.clone()).model(model.clone()))
        .twice()
        .run()
        .await;
    assert!(report.interrupted() > 0, "{report}");
    assert_eq!(book.0.lock().unwrap().1, Vec::<String>::new(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_model_is_told_what_a_stopped_tool_had_done() {
    let world = World::new("pay ada again", &[]);
    let model = ScriptedModel::new([
        Turn::call("nest_pays_by_workflow", json!({"who": "ada"})),
        Turn::text("seen").expect_text(
            "It had done `first`, which another call repeats, and was in the middle of `second`",
        ),
    ]);
    let agent = Agent::new(model.clone()).name("nest-boss").tools(tools![nest_pays_by_workflow]);
    let (store, run) = (MemoryStore::new(), RunId::new("run-1"));
    let process = || test_runtime().resource(world.clone()).store(store.clone()).build();
    let handle = agent
        .clone()
        .runtime(&process())
        .start(RunRequest::new("Pay.").run_id(run.clone()))
        .unwrap();
    tokio::select! {
        () = world.stopped() => handle.abandon(),
        ended = handle.result() => panic!("it ends before: {ended:?}"),
    }
    tokio::task::yield_now().await;
    let handle = agent.runtime(&process()).resume(&run).await.unwrap();
    assert_eq!(handle.result().await.unwrap().output(), "seen");
    assert_eq!(world.done(), ["pay ada", "pay ada again"]);
    model.finish();
}

// An agent that only a helper function of a step calls, and that changes between the processes.

/// Returns the agent. Later processes change the description or the parameters of its tool.
fn hidden_agent(world: &World, model: &ScriptedModel, changed: &str) -> Agent {
    let now = if process(world) == 1 { "" } else { changed };
    let mut schema =
        json!({"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]});
    if now == "schema" {
        schema["properties"]["cents"] = json!({"type": "integer"});
    }
    let about = if now == "description" { "Pays at once." } else { "Pays." };
    let world = world.clone();
    let pay = FnTool::dynamic(
        ToolDefinition::new("nest_hidden_pay", about, schema),
        move |_: Context, call: Value| {
            let world = world.clone();
            async move { world.act(format!("pay {}", call["who"])).await.map_err(ToolError::new) }
        },
    );
    Agent::new(model.clone())
        .name("nest-hidden")
        .tools(pay.policy(ToolPolicy::default().idempotent()))
}

async fn through_hidden(cx: &Context, changed: &str) -> Result<u32, Behind> {
    let model = cx.inject::<ScriptedModel>()?;
    let paid = hidden_agent(&*pays(cx)?, &model, changed).run_in(cx, "Pay.").await?;
    Ok(u32::try_from(paid.output().len()).unwrap_or(0))
}

#[workflow(name = "nest-through-hidden")]
async fn nest_through_hidden(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let paid = through_hidden(cx, &names[0]).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn a_changed_agent_that_only_a_function_calls_is_asked_about() {
    let pays = |who: &str| Turn::call("nest_hidden_pay", json!({ "who": who }));
    for (changed, changes, asked) in [
        (
            "description",
            Changes::Refuse,
            Some("the tool `nest_hidden_pay`: its description; retry the step"),
        ),
        ("description", Changes::AcceptCompatible, None),
        (
            "schema",
            Changes::AcceptCompatible,
            Some("the tool `nest_hidden_pay`: the schema of its parameters"),
        ),
        ("schema", Changes::AcceptAll, None),
        ("", Changes::Refuse, None),
    ] {
        let world = World::new("pay \"kim\"", &[]);
        let model = ScriptedModel::new([pays("zoe"), pays("kim"), Turn::text("paid")]);
        let (store, run) = (MemoryStore::new(), RunId::new("run-1"));
        let start = |number: u32| {
            world.is_process(number);
            let runtime = test_runtime().resource(world.clone()).resource(model.clone());
            runtime.store(store.clone()).changes(changes).build()
        };
        let flow = nest_through_hidden::workflow();
        let handle = start(1)
            .start(flow.clone(), vec![changed.to_owned()])
            .run_id(run.clone())
            .await
            .unwrap();
        world.stopped().await;
        handle.abandon();
        tokio::task::yield_now().await;
        let second = start(2);
        let handle = second.run(&run).resume_as(&flow).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let waits = second.run(&run).inspect().await.unwrap();
        let why =
            waits.nodes.iter().find(|node| node.name == "paid").and_then(|node| node.error.clone());
        match asked {
            Some(says) => {
                let Some(why) = why else {
                    panic!("{changed} {changes:?}: {:#?}", second.run(&run).journal().await)
                };
                assert!(
                    why.contains("the agent `nest-hidden` at `paid` has changed")
                        && why.contains(says),
                    "{why}"
                );
                second.run(&run).retry("paid", "ada").await.unwrap();
            }
            None => assert_eq!(why, None, "{changed} {changes:?}"),
        }
        assert_eq!(handle.result().await.unwrap(), 4, "{changed} {changes:?}");
        // The interrupted call is idempotent, so it is repeated, also if an operator retries the
        // step.
        assert_eq!(
            world.done(),
            ["pay \"zoe\"", "pay \"kim\"", "pay \"kim\""],
            "{changed} {changes:?}"
        );
        model.finish();
    }
}
