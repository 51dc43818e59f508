//! Tests `exit_loop`, with which a step ends a repetition: which repetition ends, at what time, and
//! that crashes do not change it.

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::store::MemoryStore;
use agentflow::views::AgentEvents;
use agentflow::workflow::{Node, NodePolicy, RetryPolicy};
use agentflow::{Error, Event, Workflow};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime};
use agentflow_tests::Elsewhere;

use crate::state::saved_in;

/// Returns a model that appends an `x` to a text, and ends the loop at four characters.
fn polisher() -> ScriptedModel {
    ending_with(|text| Turn::text(text).and_call("exit_loop", json!({})))
}

/// Returns a model that appends an `x` to a text, and takes the given turn at four characters. It
/// must not be called again after that.
fn ending_with(turn: fn(String) -> Turn) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let asked = request
            .messages
            .messages()
            .iter()
            .find(|message| message.role() == Role::User)
            .unwrap();
        assert!(
            request.messages.messages().iter().all(|message| message.results().next().is_none())
        );
        let text = format!("{}x", asked.text());
        if text.len() == 4 { turn(text) } else { Turn::text(text) }
    })
}

/// Make a text better.
///
/// {text}
#[agent(tools = [agentflow::exit_loop])]
async fn exit_polish(cx: &Context, text: String) -> Result<String>;

#[workflow]
async fn exit_polished(cx: &Context, text: String) -> Result<String> {
    let text = repeat!(text, |text| exit_polish(cx, text), max = 9).await?;
    Ok(text)
}

fn rounds(events: &[Event], node: &str) -> usize {
    let is_round = |event: &&Event| {
        matches!(event.kind, EventKind::NodeCompleted { .. })
            && event.path.to_string().starts_with(&format!("{node}["))
    };
    events.iter().filter(is_round).count()
}

#[tokio::test(start_paused = true)]
async fn a_model_ends_the_repetition_around_its_agent() {
    let runtime = test_runtime().store(MemoryStore::new()).model(polisher()).build();
    let run = runtime.start(exit_polished::workflow(), "x".to_owned()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "xxxx");
    let events = run.recorded();
    check_events(&events).unwrap();
    assert_eq!(rounds(&events, "text_exit_polish"), 3);
    // The record of the repetition does not contain the key, so later steps and outer loops do not
    // see it.
    let saved = saved_in(&events);
    assert_eq!(
        saved,
        [
            r#"text_exit_polish[2]/tool#1.exit_loop {"set":{"loop:exit":null}}"#,
            r#"text_exit_polish[2] {"set":{"loop:exit":null}}"#
        ]
    );
    assert!(runtime.run(run.run_id()).state().await.unwrap().is_empty());
    // In the agent event view, the tool and its round escalate, and the key is not part of the
    // state.
    let view = AgentEvents::of(&events);
    let escalating: Vec<_> =
        view.iter().filter(|event| event.escalate).map(|event| &event.metadata["event"]).collect();
    assert_eq!(escalating, ["tool.completed", "workflow.node.completed"]);
    assert!(view.iter().all(|event| event.state_delta.is_empty()), "{view:?}");
    let report = CrashTest::new(&exit_polished::workflow(), || "x".to_owned())
        .runtime(|runtime| runtime.model(polisher()))
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 50, "{report}");
    let far = |runtime: agentflow::runtime::RuntimeBuilder| {
        let there =
            Runtime::builder().model(polisher()).workflow(&exit_polished::workflow()).build();
        runtime.model(polisher()).executor(Elsewhere::on_task(there))
    };
    let elsewhere = far(test_runtime()).build();
    assert_eq!(exit_polished::workflow().run(&elsewhere, "x".to_owned()).await.unwrap(), "xxxx");
    CrashTest::new(&exit_polished::workflow(), || "x".to_owned()).runtime(far).run().await;
}

#[tokio::test(start_paused = true)]
async fn a_round_that_ends_without_a_text_keeps_the_previous_output() {
    let silent = || ending_with(|_| Turn::call("exit_loop", json!({})));
    let runtime = test_runtime().store(MemoryStore::new()).model(silent()).build();
    let run = runtime.start(exit_polished::workflow(), "x".to_owned()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "xxx");
    check_events(&run.recorded()).unwrap();
    // The first round has no previous output, so its input is kept.
    assert_eq!(exit_polished::workflow().run(&runtime, "xxx".to_owned()).await.unwrap(), "xxx");
    CrashTest::new(&exit_polished::workflow(), || "x".to_owned())
        .runtime(move |runtime| runtime.model(silent()))
        .twice()
        .run()
        .await;
    let there = Runtime::builder().model(silent()).workflow(&exit_polished::workflow()).build();
    let elsewhere = test_runtime().model(silent()).executor(Elsewhere::on_task(there)).build();
    assert_eq!(exit_polished::workflow().run(&elsewhere, "x".to_owned()).await.unwrap(), "xxx");
}

/// Returns a model that adds a point until it takes the turn `last`, which ends the repetition. It
/// must not be called again after that.
fn judge(last: fn() -> Turn) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let asked = request
            .messages
            .messages()
            .iter()
            .find(|message| message.role() == Role::User)
            .unwrap();
        assert!(
            request.messages.messages().iter().all(|message| message.results().next().is_none()),
            "asked once more"
        );
        let points: u8 = asked.text().trim().parse().unwrap();
        if points == 3 { last() } else { Turn::text(format!("{{\"value\": {}}}", points + 1)) }
    })
}

/// {points}
#[agent(tools = [agentflow::exit_loop])]
async fn exit_judge(cx: &Context, points: u8) -> Result<u8>;

#[workflow]
async fn exit_judged(cx: &Context, points: u8) -> Result<u8> {
    let points = repeat!(points, |points| exit_judge(cx, points), max = 9).await?;
    Ok(points)
}

async fn exit_same(points: u8) -> Result<u8> {
    Ok(points)
}

/// Judges in a step that is not the last one, so the workflow has no output if the agent has none.
#[workflow]
async fn exit_judge_once(cx: &Context, points: u8) -> Result<u8> {
    let before = exit_same(points).await?;
    let judged = exit_judge(cx, before).await?;
    let after = exit_same(judged).await?;
    Ok(after)
}

#[workflow]
async fn exit_judged_within(cx: &Context, points: u8) -> Result<u8> {
    let points = repeat!(points, |points| exit_judge_once(cx, points), max = 9).await?;
    Ok(points)
}

#[workflow]
async fn exit_judged_deeper(cx: &Context, points: u8) -> Result<u8> {
    let points = repeat!(
        points,
        |points| {
            let before = exit_same(points).await?;
            let judged = exit_judge_once(cx, before).await?;
            judged
        },
        max = 9
    )
    .await?;
    Ok(points)
}

#[workflow]
async fn exit_judged_items(cx: &Context, points: u8) -> Result<u8> {
    let points = repeat!(
        points,
        |points| {
            let judged = map!(vec![points], |points| exit_judge(cx, points)).await?;
            let first = exit_same(judged[0]).await?;
            first
        },
        max = 9
    )
    .await?;
    Ok(points)
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_a_type_is_not_asked_for_after_the_end_of_the_repetition() {
    // In addition to the call: a valid answer, no text, and a text that is not an answer.
    let turns: [(fn() -> Turn, u8); 3] = [
        (|| Turn::text("{\"value\": 7}").and_call("exit_loop", json!({})), 7),
        (|| Turn::call("exit_loop", json!({})), 3),
        (|| Turn::text("I am done.").and_call("exit_loop", json!({})), 3),
    ];
    let flows = [
        exit_judged::workflow(),
        exit_judged_within::workflow(),
        exit_judged_deeper::workflow(),
        exit_judged_items::workflow(),
    ];
    for (flow, (last, expected)) in
        flows.iter().flat_map(|flow| turns.iter().map(move |turn| (flow, *turn)))
    {
        let runtime = test_runtime().store(MemoryStore::new()).model(judge(last)).build();
        let run = runtime.start(flow.clone(), 1).await.unwrap();
        assert_eq!(run.result().await.unwrap(), expected, "{}", flow.name());
        check_events(&run.recorded()).unwrap();
        let test = CrashTest::new(flow, || 1).runtime(move |runtime| runtime.model(judge(last)));
        // The number of crash pairs grows with the square of the writes, so only the shortest
        // workflow crashes twice.
        let report =
            if flow.name() == "exit_judged" { test.twice().run().await } else { test.run().await };
        assert!(report.crashes() > 20, "{report}");
        let there = Runtime::builder().model(judge(last)).workflow(flow).build();
        let elsewhere =
            test_runtime().model(judge(last)).executor(Elsewhere::on_task(there)).build();
        assert_eq!(flow.run(&elsewhere, 1).await.unwrap(), expected, "{}", flow.name());
    }

    // Outside of a repetition there is no previous round, so the model must answer.
    let model =
        ScriptedModel::new([Turn::call("exit_loop", json!({})), Turn::text(r#"{"value": 7}"#)]);
    let judge =
        Agent::new(model).name("typed_judge").tools(tools![agentflow::exit_loop]).output::<u8>();
    assert_eq!(*judge.run("1").await.unwrap().output(), 7);
}

/// Adds one, and ends the repetition when the result is `last`.
async fn up(cx: &Context, number: u32, last: u32) -> Result<u32> {
    if number + 1 == last {
        cx.exit_loop()?;
    }
    Ok(number + 1)
}

/// Counts up to the next multiple of ten in its own loop.
#[workflow]
async fn exit_to_ten(cx: &Context, number: u32) -> Result<u32> {
    let last = (number / 10 + 1) * 10;
    let number = repeat!(number, |number| up(cx, number, last), max = 100).await?;
    Ok(number)
}

/// Counts up without its own loop.
#[workflow]
async fn exit_at_thirteen(cx: &Context, number: u32) -> Result<u32> {
    let number = up(cx, number, 13).await?;
    Ok(number)
}

#[workflow]
async fn exit_nested(cx: &Context, first: u32) -> Result<(u32, u32, u32, u32)> {
    // The loop in each round ends. The outer loop continues.
    let called = repeat!(first, |number| exit_to_ten(cx, number), max = 3).await?;
    let block = repeat!(
        first,
        |number| {
            let inner = repeat!(number, |number| up(cx, number, 7), max = 4).await?;
            let more = up(cx, inner, 0).await?;
            more
        },
        max = 2
    )
    .await?;
    // A workflow without a loop ends the loop of its caller.
    let through = repeat!(first, |number| exit_at_thirteen(cx, number), max = 50).await?;
    // A call before the loop does not belong to one of its rounds.
    let said = up(cx, 41, 42).await?;
    let after = repeat!(said, |number| up(cx, number, 0), max = 3).await?;
    Ok((called, block, through, after))
}

#[tokio::test(start_paused = true)]
async fn the_innermost_repetition_ends() {
    // 4 -> 5, 6, 7 (ends), 8; then 9, 10, 11, 12, 13.
    let expected = (30, 13, 13, 45);
    let runtime = test_runtime().build();
    assert_eq!(exit_nested::workflow().run(&runtime, 4).await.unwrap(), expected);
    CrashTest::new(&exit_nested::workflow(), || 4_u32).run().await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_failed_has_not_asked() {
    let flow = Workflow::build("exit_attempts", ["number"], |b, (number,)| {
        let retried =
            Node::new("grown").policy(NodePolicy::default().retry_policy(RetryPolicy::retries(1)));
        b.repeat(
            retried,
            number,
            (),
            4,
            |_| false,
            |cx, number: u32, ()| async move {
                if cx.attempt() == 1 {
                    cx.exit_loop()?;
                    return Err(Error::Lost { reason: "it failed".to_owned() });
                }
                Ok::<_, Error>(number + 1)
            },
        )
    })
    .unwrap();
    assert_eq!(flow.run(&test_runtime().build(), 0).await.unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn until_and_max_hold_as_before() {
    #[workflow]
    async fn exit_or_until(cx: &Context, first: u32) -> Result<(u32, u32, u32)> {
        let until =
            repeat!(first, |number| up(cx, number, 9), until = |number| *number == 5, max = 20)
                .await?;
        let max =
            repeat!(first, |number| up(cx, number, 9), until = |number| *number == 99, max = 2)
                .await?;
        let exit =
            repeat!(first, |number| up(cx, number, 9), until = |number| *number == 99, max = 20)
                .await?;
        Ok((until, max, exit))
    }
    assert_eq!(exit_or_until::workflow().run(&test_runtime().build(), 1).await.unwrap(), (5, 3, 9));
}

#[workflow(name = "exit_outside")]
async fn outside(cx: &Context, numbers: Vec<u32>) -> Result<u32> {
    let step = up(cx, 12, 13).await?;
    let nested = exit_at_thirteen(cx, 12).await?;
    let items = map!(numbers, |number| up(cx, number, 13)).await?;
    let last = items[0];
    Ok(step + nested + last)
}

#[tokio::test]
async fn outside_of_a_repetition_it_changes_nothing_and_no_session_keeps_it() {
    let model = ScriptedModel::new([
        // The tool takes no arguments.
        Turn::calls([("exit_loop", json!({"why": "x"})), ("exit_loop", json!({}))]),
        Turn::text("done").check(|request| {
            let results: Vec<_> =
                request.messages.last().unwrap().results().map(|one| one.output.clone()).collect();
            assert!(results[0].contains("`why`"), "{results:?}");
            assert_eq!(results[1], "\"no round follows this one; give the final answer now\"");
        }),
    ]);
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let agent = Agent::new(model).tools(tools![agentflow::exit_loop]).runtime(&runtime);
    let result = agent.run(RunRequest::new("go").session("s")).await.unwrap();
    assert_eq!(result.output(), "done");
    assert!(runtime.sessions().state("s").await.unwrap().is_empty());
    assert!(saved_in(&result.events()).is_empty(), "nobody asks for it any more");
    assert!(runtime.run(result.run_id()).state().await.unwrap().is_empty());
    // The same for workflows: a step, a nested workflow, and an item of a list call it.
    let flow = outside::workflow();
    let run = runtime.start(flow.clone(), vec![12, 12]).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 39);
    assert!(runtime.run(run.run_id()).state().await.unwrap().is_empty());
    CrashTest::new(&flow, || vec![12_u32, 12]).run().await;
    // Programs cannot use the key.
    assert!("loop:exit".parse::<StateKey<bool>>().is_err());
}

#[tokio::test]
async fn a_graph_ends_its_repetition_too() {
    let graph = json!({
        "version": 1, "name": "exit_graph", "output": "grown", "concurrency": 4,
        "nodes": [{"name": "n", "kind": "input", "schema": {"type": "integer"}}, {"name": "grown", "does": {"repeat": {"first": "n", "max": 10,
            "call": {"kind": "tool", "name": "exit_up", "with": {"object": {"number": {"item": ""}}}}}}}],
    });
    /// Count up to five.
    #[tool(idempotent)]
    async fn exit_up(cx: &Context, number: u32) -> Result<u32> {
        up(cx, number, 5).await
    }
    let graph: agentflow::workflow::Graph = serde_json::from_value(graph).unwrap();
    let runtime = test_runtime().tools(tools![exit_up]).graph(graph).build();
    let input = agentflow::value::Encoded::new(&json!({"n": 2})).unwrap();
    let run = runtime.start_named("exit_graph", input).await.unwrap();
    assert_eq!(run.result().await.unwrap().as_str(), "5");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_another_one_asks_ends_the_repetition_around_both() {
    /// Ask the judge.
    ///
    /// {text}
    #[agent]
    async fn exit_asking(cx: &Context, text: String) -> Result<String>;

    /// Lets an agent work whose tool is the judge. It ends the loop in its second round.
    async fn round(cx: &Context, text: String) -> Result<String> {
        let judge = Agent::new(polisher()).name("judge").tools(tools![agentflow::exit_loop]);
        Ok(exit_asking::agent(text)
            .tools(judge)
            .run_in(cx, RunRequest::default())
            .await?
            .into_output())
    }

    #[workflow]
    async fn exit_asked(cx: &Context, text: String) -> Result<String> {
        let text = repeat!(text, |text| round(cx, text), max = 9).await?;
        Ok(text)
    }

    let asking = || {
        ScriptedModel::from_fn(|request| match request.messages.last().unwrap().results().next() {
            Some(result) => Turn::text(result.text().trim_matches('"').to_owned()),
            None => {
                Turn::call("judge", json!({"request": request.messages.last().unwrap().text()}))
            }
        })
    };
    let runtime = test_runtime().model(asking()).build();
    assert_eq!(exit_asked::workflow().run(&runtime, "x".to_owned()).await.unwrap(), "xxxx");
    CrashTest::new(&exit_asked::workflow(), || "x".to_owned())
        .runtime(move |runtime| runtime.model(asking()))
        .run()
        .await;
}
