//! Tests the state of runs: the values that each step sees, the recorded changes, and crashes.

use std::collections::BTreeMap;
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, Store};
use agentflow::value::Encoded;
use agentflow::workflow::{Branch, Builder, Handle, Node, NodePolicy, OnError, RetryPolicy};
use agentflow::{Error, Event, RunId, Workflow};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime};
use agentflow_tests::Elsewhere;
use futures_util::StreamExt;
use proptest::prelude::*;

static LOG: StateKey<String> = StateKey::session("log");
static COUNT: StateKey<u32> = StateKey::session("count");
static SCRATCH: StateKey<u32> = StateKey::temp("scratch");

/// Appends a word to the state and returns the new value.
async fn add(cx: &Context, word: &str) -> Result<String> {
    let before = cx.state(&LOG).await?.unwrap_or_default();
    let now = format!("{before}{word}");
    cx.set(&LOG, &now)?;
    assert_eq!(cx.state(&LOG).await?, Some(now.clone()), "a step sees what it wrote");
    Ok(now)
}

pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Adds a step that takes `millis` milliseconds and appends its name.
fn adds(b: &mut Builder, node: &'static str, millis: u64, reads: Handle<String>) -> Handle<String> {
    b.node(node, (reads,), move |cx, (_,)| async move {
        pause(millis).await;
        add(&cx, node).await
    })
}

/// Adds a step that returns the state that it sees.
fn sees(b: &mut Builder, node: &'static str, reads: Handle<String>) -> Handle<String> {
    b.node(node, (reads,), |cx, (_,)| async move {
        Ok::<_, Error>(cx.state(&LOG).await?.unwrap_or_default())
    })
}

pub(crate) fn flow(
    name: &'static str,
    nodes: impl FnOnce(&mut Builder, Handle<String>) -> Handle<String>,
) -> Workflow<(String,), String> {
    Workflow::build(name, ["go"], |b, (go,)| nodes(b, go)).unwrap()
}

/// Runs the workflow here, with a crash at each write, and with its steps on a worker. The output
/// must be the same.
pub(crate) async fn check_everywhere(flow: &Workflow<(String,), String>, expected: &str) {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    assert_eq!(flow.run(&runtime, String::new()).await.unwrap(), expected);
    CrashTest::new(flow, String::new).run().await;
    let far = flow.clone();
    let elsewhere = move |runtime: agentflow::runtime::RuntimeBuilder| {
        runtime.executor(Elsewhere::on_task(Runtime::builder().workflow(&far).build()))
    };
    let far = elsewhere(test_runtime()).build();
    assert_eq!(flow.run(&far, String::new()).await.unwrap(), expected, "elsewhere");
    CrashTest::new(flow, String::new).runtime(elsewhere).run().await;
}

/// Returns a workflow with `a`, then `b` and `c` concurrently, then `d`.
fn diamond(b_takes: u64, c_takes: u64) -> Workflow<(String,), String> {
    flow("state_diamond", |b, go| {
        let a = adds(b, "a", 1, go);
        let left = adds(b, "b", b_takes, a);
        let right = adds(b, "c", c_takes, a);
        b.node("d", (left, right), |cx, (left, right)| async move {
            let seen = add(&cx, "d").await?;
            Ok::<_, Error>(format!("{left} {right} {seen}"))
        })
    })
}

#[tokio::test(start_paused = true)]
async fn branches_do_not_see_each_other_and_the_later_in_the_plan_counts() {
    for (b, c) in [(1, 50), (50, 1), (5, 5)] {
        let runtime = test_runtime().store(MemoryStore::new()).build();
        let run = runtime.start(diamond(b, c), String::new()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), "ab ac acd", "b takes {b}, c takes {c}");
        let values = runtime.run(run.run_id()).state().await.unwrap();
        assert_eq!(values.get(&LOG).unwrap().unwrap(), "acd");
        assert_eq!(values.len(), 1);
    }
    check_everywhere(&diamond(1, 50), "ab ac acd").await;
    check_everywhere(&diamond(50, 1), "ab ac acd").await;
    CrashTest::new(&diamond(3, 2), String::new).twice().run().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_wrote_that_failed_does_not_count() {
    let flow = flow("state_attempts", |b, go| {
        let policy = NodePolicy::default().retry_policy(RetryPolicy::retries(1));
        let retried = b.node(Node::new("retried").policy(policy), (go,), |cx, (_,)| async move {
            assert_eq!(cx.state(&LOG).await?, None, "an attempt sees what one before it wrote");
            cx.set(&COUNT, &cx.attempt())?;
            add(&cx, "r").await?;
            match cx.state(&SCRATCH).await? {
                // A crash uses up an attempt without a recorded failure, so only attempt 1 fails.
                _ if cx.attempt() == 1 => Err(Error::Lost { reason: "it failed".to_owned() }),
                _ => Ok("ok".to_owned()),
            }
        });
        let skipped = NodePolicy::default().on_error(OnError::Skip);
        let failed: Handle<String> =
            b.node(Node::new("failed").policy(skipped), (retried,), |cx, (_,)| async move {
                add(&cx, "f").await?;
                Err(Error::Lost { reason: "it failed".to_owned() })
            });
        let _ = failed;
        sees(b, "end", retried)
    });
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(flow.clone(), String::new()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "r");
    let saved: Vec<String> = saved_in(&run.recorded());
    assert_eq!(saved, [r#"retried {"place":1,"set":{"count":2,"log":"r"}}"#]);
    CrashTest::new(&flow, String::new).run().await;
}

/// Returns the recorded state changes by path.
pub(crate) fn saved_in(events: &[Event]) -> Vec<String> {
    let saved = |event: &Event| match &event.kind {
        EventKind::NodeCompleted { saved: Some(saved), .. }
        | EventKind::ToolCompleted { saved: Some(saved), .. } => {
            Some(format!("{} {}", event.path, serde_json::to_string(saved).unwrap()))
        }
        _ => None,
    };
    events.iter().filter_map(saved).collect()
}

#[tokio::test(start_paused = true)]
async fn items_rounds_and_branches() {
    let flow = flow("state_forms", |b, go| {
        let first = adds(b, "a", 1, go);
        let items =
            b.value("items", (first,), |(_,): (String,)| Ok::<_, String>(vec![3_u32, 2, 1]));
        // Items run concurrently and do not see each other's changes. The first takes longest, but
        // the last item in the list wins.
        let map = b.map("map", items, (), |cx, n: u32, ()| async move {
            pause(u64::from(n) * 10).await;
            add(&cx, &n.to_string()).await
        });
        let after = b.node("after", (map,), |cx, (map,): (Vec<String>,)| async move {
            assert_eq!(map, ["a3", "a2", "a1"]);
            add(&cx, ".").await
        });
        // Rounds run one after another.
        let grown = b.repeat(
            "grown",
            after,
            (),
            3,
            |_| false,
            |cx, _: String, ()| async move { add(&cx, "x").await },
        );
        // Branches that lost or failed change no state.
        let quick = |cx: Context, _| async move { add(&cx, "q").await };
        let slow = |cx: Context, _| async move {
            add(&cx, "s").await?;
            pause(1000).await;
            Ok::<_, Error>("slow".to_owned())
        };
        let race = b.race(
            "race",
            [Branch::new("slow", (grown,), slow), Branch::new("quick", (grown,), quick)],
        );
        let fails = |cx: Context, _| async move {
            add(&cx, "f").await?;
            Err::<String, _>(Error::Lost { reason: "it failed".to_owned() })
        };
        let works = |cx: Context, _| async move { add(&cx, "w").await };
        let fallback = b.fallback(
            "fallback",
            [Branch::new("fails", (race,), fails), Branch::new("works", (race,), works)],
        );
        sees(b, "end", fallback)
    });
    check_everywhere(&flow, "a1.xxxqw").await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_key_is_gone_for_those_after_it() {
    let flow = flow("state_removed", |b, go| {
        let set = adds(b, "a", 0, go);
        let gone = b.node("gone", (set,), |cx, (_,)| async move {
            cx.remove(&LOG)?;
            cx.set(&COUNT, &1)?;
            Ok::<_, Error>(format!("{:?}", cx.state(&LOG).await?))
        });
        b.node("end", (gone,), |cx, (gone,)| async move {
            Ok::<_, Error>(format!("{gone} {:?}", cx.state(&LOG).await?))
        })
    });
    check_everywhere(&flow, "None None").await;
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(flow, String::new()).await.unwrap();
    run.result().await.unwrap();
    let values = runtime.run(run.run_id()).state().await.unwrap();
    assert_eq!(serde_json::to_string(&values).unwrap(), r#"{"count":1}"#);
}

/// Adds a word.
#[tool(idempotent)]
async fn state_add(cx: &Context, word: String) -> Result<String> {
    add(cx, &word).await
}

/// Adds a word and fails.
#[tool(idempotent)]
async fn state_add_and_fail(cx: &Context, word: String) -> Result<String> {
    add(cx, &word).await?;
    Err(Error::Lost { reason: "it failed".to_owned() })
}

/// Returns an agent with a turn of concurrent calls, a turn with one call, and an answer with all
/// results.
fn clerk() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let said: Vec<String> = request
            .messages
            .messages()
            .iter()
            .flat_map(|message| message.results())
            .map(|result| {
                format!(
                    "{}:{}",
                    result.status.as_str(),
                    result.output.chars().take(10).collect::<String>()
                )
            })
            .collect();
        match said.len() {
            0 => Turn::calls([
                ("state_add", json!({"word": "x"})),
                ("state_add_and_fail", json!({"word": "f"})),
                ("state_add", json!({"word": "y"})),
            ]),
            3 => Turn::calls([("state_add", json!({"word": "z"}))]),
            _ => Turn::text(said.join(" ")),
        }
    });
    Agent::new(model).tools(tools![state_add, state_add_and_fail])
}

#[tokio::test(start_paused = true)]
async fn the_tools_of_an_agent_see_the_turns_before() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let agent = clerk().runtime(&runtime);
    let end = agent.run("Go on.").await.unwrap();
    let said = end.output().clone();
    assert!(said.starts_with("success:\"x\" error:"), "{said}");
    assert!(said.ends_with(" success:\"y\" success:\"yz\""), "{said}");
    let events = store.read(end.run_id(), 0, usize::MAX).await.unwrap();
    assert_eq!(
        saved_in(&events),
        [
            r#"tool#1.state_add {"place":4294967296,"set":{"log":"x"}}"#,
            r#"tool#1.state_add[1] {"place":4294967298,"set":{"log":"y"}}"#,
            r#"tool#2.state_add {"place":8589934592,"set":{"log":"yz"}}"#,
        ]
    );
    assert_eq!(runtime.run(end.run_id()).state().await.unwrap().get(&LOG).unwrap().unwrap(), "yz");
    CrashTest::agent(&clerk(), || "Go on.").run().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_called_in_a_step_counts_for_the_step() {
    let part = flow("state_part", |b, go| {
        let left = adds(b, "l", 5, go);
        let right = adds(b, "r", 1, go);
        b.value("both", (left, right), |(left, right): (String, String)| {
            Ok::<_, String>(format!("{left}{right}"))
        })
    });
    let whole = flow("state_whole", |b, go| {
        let a = adds(b, "a", 0, go);
        let called = b.node("called", (a,), move |cx, (_,)| {
            let part = part.clone();
            async move {
                add(&cx, "-").await?;
                clerk().run_in(&cx, RunRequest::from("Go on.")).await?;
                let after_agent = cx.state(&LOG).await?.unwrap_or_default();
                let seen = part.run_in(&cx, String::new()).await?;
                let after_part = cx.state(&LOG).await?.unwrap_or_default();
                let tool = state_add(&cx, "t".to_owned()).await?;
                Ok::<_, Error>(format!("{after_agent} {seen} {after_part} {tool}"))
            }
        });
        b.node("end", (called,), |cx, (called,)| async move {
            let seen = add(&cx, "!").await?;
            Ok::<_, Error>(format!("{called} {seen}"))
        })
    });
    check_everywhere(&whole, "a-yz a-yzla-yzr a-yzr a-yzrt a-yzrt!").await;
}

#[workflow]
async fn state_written(cx: &Context, words: Vec<String>) -> Result<String> {
    let first = state_add(cx, "1".to_owned()).await?;
    for word in words {
        state_add(cx, word).await?;
    }
    let last = seen_at_last(cx, first).await?;
    Ok(last)
}

async fn seen_at_last(cx: &Context, first: String) -> Result<String> {
    Ok(format!("{first} {:?}", cx.state(&LOG).await?))
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_rust_sees_what_stands_above() {
    let input = || vec!["b".to_owned(), "c".to_owned()];
    let runtime = test_runtime().build();
    assert_eq!(state_written::workflow().run(&runtime, input()).await.unwrap(), "1 Some(\"1bc\")");
    CrashTest::new(&state_written::workflow(), input).twice().run().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_temporary_is_in_no_record() {
    let flow = flow("state_temporary", |b, go| {
        let a = b.node("a", (go,), |cx, (_,)| async move {
            cx.set(&SCRATCH, &7)?;
            Ok::<_, Error>(String::new())
        });
        b.node("end", (a,), |cx, (_,)| async move {
            Ok::<_, Error>(format!("{:?}", cx.state(&SCRATCH).await?))
        })
    });
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(flow.clone(), String::new()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "Some(7)");
    assert_eq!(saved_in(&run.recorded()), [""; 0]);
    assert!(runtime.run(run.run_id()).state().await.unwrap().is_empty());
    // The temporary key is lost in a crash. All other outcomes are unchanged.
    let events = run.recorded();
    let at = events.iter().position(|event| event.path.to_string() == "end").unwrap();
    let store = MemoryStore::new();
    store.create(&RunId::new("r"), events[..at].to_vec()).await.unwrap();
    let again = test_runtime().store(store).build().run(&RunId::new("r")).resume_as(&flow).await;
    assert_eq!(again.unwrap().result().await.unwrap(), "None");
}

#[tokio::test(start_paused = true)]
async fn a_run_without_state_has_no_trace_of_it() {
    let flow = flow("state_none", |b, go| {
        let seen = sees(b, "a", go);
        sees(b, "b", seen)
    });
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(flow, String::new()).await.unwrap();
    run.result().await.unwrap();
    let journal = serde_json::to_string(&run.recorded()).unwrap();
    assert!(!journal.contains("saved"), "{journal}");
}

/// Sets the word after a while.
#[tool(idempotent)]
async fn state_says(cx: &Context, word: String, millis: u64) -> Result<String> {
    pause(millis).await;
    cx.set(&LOG, &word)?;
    Ok(word)
}

/// Sets the word in two steps of a nested workflow.
#[workflow]
async fn state_says_twice(cx: &Context, word: String, millis: u64) -> Result<String> {
    let first = state_says(cx, format!("{word}?"), millis).await?;
    let second = state_says(cx, word, millis).await?;
    Ok(format!("{first}{second}"))
}

/// Makes concurrent calls in one step. The call that started last wins, regardless of the calls'
/// durations, also if the step runs again after some calls have completed.
#[tokio::test(start_paused = true)]
async fn calls_side_by_side_within_a_step_count_in_the_order_in_which_they_began() {
    for (name, millis) in [
        ("state_side_1", [30, 10, 20]),
        ("state_side_2", [10, 20, 30]),
        ("state_side_3", [20, 30, 10]),
    ] {
        let [a, b, c] = millis;
        let flow = flow(name, |builder, go| {
            let spoken = builder.node("spoken", (go,), move |cx, (_,)| async move {
                cx.set(&LOG, &"own".to_owned())?;
                let (one, two, three) = tokio::join!(
                    state_says(&cx, "a".into(), a),
                    state_says_twice(&cx, "b".into(), b),
                    state_says(&cx, "c".into(), c)
                );
                let seen = cx.state(&LOG).await?.unwrap_or_default();
                Ok::<_, Error>(format!("{}{}{} {seen}", one?, two?, three?))
            });
            builder.node("seen", (spoken,), |cx, (spoken,)| async move {
                Ok::<_, Error>(format!("{spoken} {}", cx.state(&LOG).await?.unwrap_or_default()))
            })
        });
        check_everywhere(&flow, "ab?bc c c").await;
    }
}

/// Checks that the limit of a step applies to all changes of its calls together, since they are one
/// record.
#[tokio::test]
async fn what_is_saved_within_a_step_counts_for_its_limit() {
    static PARTS: [StateKey<String>; 3] =
        [StateKey::session("part_0"), StateKey::session("part_1"), StateKey::session("part_2")];

    /// Saves half a mebibyte.
    #[tool(idempotent)]
    async fn state_saves_half(cx: &Context, part: usize) -> Result<()> {
        cx.set(&PARTS[part], &"x".repeat(1 << 19))
    }

    #[workflow]
    async fn state_of_items(cx: &Context, parts: Vec<usize>) -> Result<usize> {
        let done = map!(parts, |part| state_saves_half(cx, part)).await?;
        Ok(done.len())
    }

    #[workflow]
    async fn state_of_steps(cx: &Context) -> Result<()> {
        state_saves_half(cx, 0).await?;
        state_saves_half(cx, 1).await?;
        state_saves_half(cx, 2).await?;
        Ok(())
    }

    let runtime = test_runtime().store(MemoryStore::new()).build();
    let one_step = Workflow::<(u32,), u32>::build("state_too_much", ["n"], |b, (n,)| {
        b.node("all", (n,), |cx, (n,)| async move {
            for part in 0..n as usize {
                state_saves_half(&cx, part).await?;
            }
            Ok::<_, Error>(n)
        })
    })
    .unwrap();
    assert_eq!(one_step.run(&runtime, 1).await.unwrap(), 1);
    for error in [
        one_step.run(&runtime, 3).await.unwrap_err(),
        state_of_items(&runtime.context(), vec![0, 1, 2]).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), FailureKind::TooLarge, "{error}");
        assert!(
            error.to_string().contains("more than the 1048576 that one step may save"),
            "{error}"
        );
    }
    // Each of these is a step with its own record.
    state_of_steps(&runtime.context()).await.unwrap();
    // The model gets the error.
    let model = ScriptedModel::new([
        Turn::call("state_saves_all", json!({})),
        Turn::text("It was too much.").expect_text("more than the 1048576 that one step may save"),
    ]);
    let all = agentflow::tool::FnTool::new(
        "state_saves_all",
        "Saves all.",
        |cx: Context, _: Empty| async move {
            state_of_steps(&cx).await.map_err(|error| error.to_string())
        },
    );
    Agent::new(model).runtime(&runtime).tools([all]).run("Save all.").await.unwrap();
}

#[derive(agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Empty {}

/// Swaps the steps that set a key between two versions of a workflow. [`RunRef::state`] must
/// return the value that later steps read.
#[tokio::test]
async fn the_state_of_a_run_follows_the_order_of_a_changed_workflow() {
    fn version(swapped: bool, with_third: bool) -> Workflow<(String,), String> {
        Workflow::build("state_versions", ["go"], |b, (go,)| {
            let sets = |b: &mut Builder, node: &'static str| {
                b.node(node, (go,), move |cx, (_,)| async move {
                    cx.set(&LOG, &node.to_owned())?;
                    Ok::<_, Error>(node.to_owned())
                })
            };
            let (one, two) = match swapped {
                false => (sets(b, "one"), sets(b, "two")),
                true => {
                    let two = sets(b, "two");
                    (sets(b, "one"), two)
                }
            };
            if with_third {
                sets(b, "third");
            }
            let word = b.gate("word", (one, two), |_| Ok::<_, Error>(("go on?".to_owned(), ())));
            b.node("seen", (word,), |cx, (_word,): (Approval,)| async move {
                Ok::<_, Error>(cx.state(&LOG).await?.unwrap_or_default())
            })
        })
        .unwrap()
    }
    for (before, after, sees) in [
        ((false, false), (true, false), "one"),
        ((true, false), (false, false), "two"),
        ((false, true), (true, false), "one"),
        ((false, false), (false, false), "two"),
    ] {
        let store = MemoryStore::new();
        let run_id = RunId::new("state-versions");
        {
            let first = test_runtime().store(store.clone()).build();
            let run = first
                .start(version(before.0, before.1), String::new())
                .run_id(run_id.clone())
                .await
                .unwrap();
            run.events().any(|event| async move { event.name() == "run.paused" }).await;
            run.abandon();
        }
        let second = test_runtime()
            .store(store.as_another_process())
            .workflow(&version(after.0, after.1))
            .changes(agentflow::runtime::Changes::AcceptAll)
            .build();
        let run = second.run(&run_id).resume().await.unwrap();
        second.run(&run_id).approve("word", Approval::granted(), "ada").await.unwrap();
        assert_eq!(run.typed::<String>().result().await.unwrap(), sees, "{before:?} {after:?}");
        let state = second.run(&run_id).state().await.unwrap();
        assert_eq!(state.get(&LOG).unwrap().as_deref(), Some(sees), "{before:?} {after:?}");
    }
}

#[tokio::test]
async fn a_wrong_use_is_a_sentence() {
    let cx = Context::detached();
    cx.set(&COUNT, &3).unwrap();
    let as_text: StateKey<String> = "count".parse().unwrap();
    let error = cx.state(&as_text).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Value);
    assert_eq!(
        error.to_string(),
        "the state `count`: the value is not of the type `alloc::string::String`: invalid type: integer `3`, expected a \
         string at line 1 column 1; keys of one name have one type, so rename one, or set it anew"
    );
    let float: StateKey<f64> = StateKey::session("float");
    let error = cx.set(&float, &f64::NAN).unwrap_err().to_string();
    assert!(
        error.starts_with("the state `float`: the value does not survive its way through JSON: "),
        "{error}"
    );
    let error = cx.set(&LOG, &"x".repeat(2 << 20)).unwrap_err().to_string();
    assert!(
        error.contains("more than the 1048576 that one step may save with what it calls"),
        "{error}"
    );
    assert_eq!(cx.state(&LOG).await.unwrap(), None, "a refused value was set");
    let error = "user name".parse::<StateKey<u32>>().unwrap_err().to_string();
    assert!(error.starts_with("`user name` is not the name of a state key; "), "{error}");
}

#[workflow]
async fn state_in_a_condition(cx: &Context, n: u32) -> Result<u32> {
    let next = n + 1;
    if is_refused(cx, n) {
        return Err(Error::Lost { reason: "it was refused".to_owned() });
    }
    Ok(next)
}

fn is_refused(cx: &Context, n: u32) -> bool {
    let error = cx.set(&COUNT, &n).err().map(|error| error.to_string()).unwrap_or_default();
    error.starts_with("the state `count`: a condition or a value saves nothing; ")
}

#[tokio::test]
async fn a_condition_saves_nothing() {
    let runtime = test_runtime().build();
    let refused = state_in_a_condition::workflow().run(&runtime, 1).await.unwrap_err().to_string();
    assert!(refused.contains("it was refused"), "{refused}");
}

static VISITS: StateKey<u32> = StateKey::user("visits");
static TOTAL: StateKey<u32> = StateKey::app("total");

async fn one_more(cx: &Context, key: &StateKey<u32>) -> Result<u32> {
    let now = cx.state(key).await?.unwrap_or_default() + 1;
    cx.set(key, &now)?;
    Ok(now)
}

/// Returns a workflow that counts the visits of a user and of all users.
fn visit() -> Workflow<(String,), String> {
    flow("state_visit", |b, go| {
        let own = b.node("own", (go,), |cx, (_,)| async move { one_more(&cx, &VISITS).await });
        b.node("all", (own,), |cx, (own,)| async move {
            let all = one_more(&cx, &TOTAL).await?;
            Ok::<_, Error>(format!("{own} of {all}"))
        })
    })
}

#[tokio::test]
async fn what_is_a_users_or_the_applications_outlives_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = agentflow::store::SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    outlives_the_run(file).await;
    outlives_the_run(MemoryStore::new()).await;
}

async fn outlives_the_run(store: impl Store) {
    let runtime = test_runtime().store(store).build();
    for (user, expected) in [("ann", "1 of 1"), ("bob", "1 of 2"), ("ann", "2 of 3")] {
        let run = runtime.start(visit(), String::new()).caller(user).await.unwrap();
        assert_eq!(run.result().await.unwrap(), expected);
    }
    assert_eq!(
        runtime.persistent_state().user("ann").await.unwrap().get(&VISITS).unwrap(),
        Some(2)
    );
    assert_eq!(runtime.persistent_state().app().await.unwrap().get(&TOTAL).unwrap(), Some(3));
    runtime.persistent_state().set_app(&TOTAL, Some(&10)).await.unwrap();
    runtime.persistent_state().delete_user("ann").await.unwrap();
    assert!(runtime.persistent_state().user("ann").await.unwrap().is_empty());
    let run = runtime.start(visit(), String::new()).caller("ann").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "1 of 11");
    let wrong =
        runtime.persistent_state().set_app(&VISITS, Some(&1)).await.unwrap_err().to_string();
    assert!(wrong.starts_with("the state `user:visits`: its owner is another one; "), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_changes_it_once() {
    let flow = flow("state_total", |b, go| {
        let first = b.node("first", (go,), |cx, (_,)| async move { one_more(&cx, &TOTAL).await });
        // The first attempt fails, and its changes are discarded.
        let policy = NodePolicy::default().retry_policy(RetryPolicy::retries(1));
        let second =
            b.node(Node::new("second").policy(policy), (first,), |cx, (first,)| async move {
                let second = one_more(&cx, &TOTAL).await?;
                match cx.attempt() {
                    1 => Err(Error::Lost { reason: "it failed".to_owned() }),
                    _ => Ok((first, second)),
                }
            });
        // Reads the stored value like another run.
        b.node("seen", (second,), |cx, (both,)| async move {
            let kept = cx.runtime().persistent_state().app().await?.get(&TOTAL).ok().flatten();
            Ok::<_, Error>(format!("{both:?} {kept:?}"))
        })
    });
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(flow.clone(), String::new()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "(1, 2) Some(2)");
    CrashTest::new(&flow, String::new).twice().run().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_sees_what_it_read_first() {
    let flow = flow("state_reads", |b, go| {
        let read = |cx: Context, _| async move {
            Ok::<_, Error>(format!("{:?}", cx.state(&TOTAL).await?))
        };
        let first = b.node("first", (go,), read);
        b.node("second", (first,), read)
    });
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    runtime.persistent_state().set_app(&TOTAL, Some(&1)).await.unwrap();
    let run = runtime.start(flow.clone(), String::new()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "Some(1)");
    let events = run.recorded();
    let reads =
        |events: &[Event]| events.iter().filter(|event| event.name() == "state.read").count();
    assert_eq!(reads(&events), 1);
    // Resumes from every prefix after the value was changed. Values that were already read stay the
    // same.
    let read_at = events.iter().position(|event| event.name() == "state.read").unwrap();
    for cut in 1..events.len() {
        let store = MemoryStore::new();
        store.create(run.run_id(), events[..cut].to_vec()).await.unwrap();
        let runtime = test_runtime().store(store).build();
        runtime.persistent_state().set_app(&TOTAL, Some(&2)).await.unwrap();
        let again = runtime.run(run.run_id()).resume_as(&flow).await.unwrap();
        let expected = if cut > read_at { "Some(1)" } else { "Some(2)" };
        assert_eq!(again.result().await.unwrap(), expected, "cut after {cut}");
        assert_eq!(reads(&again.recorded()), 1);
    }
}

#[tokio::test]
async fn where_nothing_outlives_a_run_it_is_said() {
    let says = async |runtime: Runtime, caller: Option<&str>| {
        let start = runtime.start(visit(), String::new());
        let start = match caller {
            Some(caller) => start.caller(caller),
            None => start,
        };
        start.await.unwrap().result().await.unwrap_err().to_string()
    };
    let without_store = says(test_runtime().build(), Some("ann")).await;
    assert!(
        without_store.contains("is kept in a store, and this run has no store; give one with"),
        "{without_store}"
    );
    let nobody = says(test_runtime().store(MemoryStore::new()).build(), None).await;
    assert!(
        nobody.contains("the run has no caller whose value it is; begin the run with `caller(..)`"),
        "{nobody}"
    );
    let far = test_runtime().store(MemoryStore::new());
    let far =
        far.executor(Elsewhere::on_task(Runtime::builder().workflow(&visit()).build())).build();
    let far = says(far, Some("ann")).await;
    assert!(far.contains("the runtime's executor executes this step in another process"), "{far}");
}

/// A node of a random workflow: its inputs, its duration and its changes to keys.
#[derive(Clone, Debug)]
struct Plan {
    reads: Vec<prop::sample::Index>,
    millis: u64,
    changes: Vec<(u8, Option<u8>)>,
    retried: bool,
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let changes = prop::collection::vec((0..4_u8, prop::option::weighted(0.7, 0..9_u8)), 0..3);
    let plan = (
        prop::collection::vec(any::<prop::sample::Index>(), 1..3),
        0..40_u64,
        changes,
        prop::bool::weighted(0.2),
    );
    let plan =
        plan.prop_map(|(reads, millis, changes, retried)| Plan { reads, millis, changes, retried });
    prop::collection::vec(plan, 1..9)
}

type Seen = BTreeMap<String, Encoded>;

/// Returns all keys that a step sees, in order.
async fn all_seen(cx: &Context) -> Result<String> {
    let mut seen = Vec::new();
    for key in 0..4_u8 {
        let key: StateKey<u8> = format!("k{key}").parse().unwrap();
        seen.extend(cx.state(&key).await?.map(|value| format!("{key}={value}")));
    }
    Ok(seen.join(" "))
}

/// Builds the random workflow. Its output contains the state that each node saw, and the final
/// state.
fn random(plans: &[Plan]) -> Workflow<(String,), Vec<String>> {
    Workflow::build("state_random", ["go"], |b, (go,)| {
        let mut handles = vec![go];
        for (at, plan) in plans.iter().enumerate() {
            let reads: Vec<Handle<String>> =
                plan.reads.iter().map(|index| handles[index.index(handles.len())]).collect();
            let plan = plan.clone();
            let body = move |cx: Context| {
                let plan = plan.clone();
                async move {
                    let seen = all_seen(&cx).await?;
                    pause(plan.millis).await;
                    for (key, value) in &plan.changes {
                        let key: StateKey<u8> = format!("k{key}").parse().unwrap();
                        match value {
                            Some(value) => cx.set(&key, value)?,
                            None => cx.remove(&key)?,
                        }
                    }
                    match plan.retried && cx.attempt() == 1 {
                        true => Err(Error::Lost { reason: "it failed".to_owned() }),
                        false => Ok(seen),
                    }
                }
            };
            let policy = NodePolicy::default().retry_policy(RetryPolicy::retries(1));
            let node = Node::new(format!("n{at}")).policy(policy);
            handles.push(match reads[..] {
                [one] => b.node(node, (one,), move |cx, (_,)| body(cx)),
                [one, two, ..] => b.node(node, (one, two), move |cx, (_, _)| body(cx)),
                [] => unreachable!(),
            });
        }
        let nodes = handles.split_off(1);
        let mut all = b.value("none", (), |()| Ok::<_, String>(Vec::<String>::new()));
        for (at, node) in nodes.into_iter().enumerate() {
            all =
                b.value(format!("v{at}"), (all, node), |(mut all, seen): (Vec<String>, String)| {
                    all.push(seen);
                    Ok::<_, String>(all)
                });
        }
        b.node("all", (all,), |cx, (all,): (Vec<String>,)| async move {
            let last = all_seen(&cx).await?;
            Ok::<_, Error>(all.into_iter().chain([last]).collect::<Vec<_>>())
        })
    })
    .unwrap()
}

/// Computes the state that each node sees, and the final state, from the plan alone.
fn expected(plans: &[Plan]) -> (Vec<String>, Seen) {
    // All predecessors of each node. Index 0 is the input.
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let shown = |seen: &Seen| {
        seen.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let fold = |nodes: &[usize]| {
        let mut seen = Seen::new();
        for node in nodes.iter().filter(|node| **node > 0) {
            for (key, value) in &plans[node - 1].changes {
                match value {
                    Some(value) => {
                        seen.insert(format!("k{key}"), Encoded::new(value).unwrap());
                    }
                    None => drop(seen.remove(&format!("k{key}"))),
                }
            }
        }
        seen
    };
    let mut all = Vec::new();
    for plan in plans {
        let reads = plan.reads.iter().take(2).map(|index| index.index(before.len()));
        let mut nodes: Vec<usize> =
            reads.flat_map(|read| before[read].iter().copied().chain([read])).collect();
        nodes.sort_unstable();
        nodes.dedup();
        all.push(shown(&fold(&nodes)));
        before.push(nodes);
    }
    let last = fold(&(1..=plans.len()).collect::<Vec<_>>());
    all.push(shown(&last));
    (all, last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn state_follows_from_the_plan_live_and_from_every_prefix_of_the_journal(plans in plans()) {
        let flow = random(&plans);
        let (seen, last) = expected(&plans);
        let paused = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        paused.block_on(async {
            let store = MemoryStore::new();
            let runtime = test_runtime().store(store.clone()).build();
            let run = runtime.start(flow.clone(), String::new()).await.unwrap();
            assert_eq!(run.result().await.unwrap(), seen);
            let id = run.run_id().clone();
            let values = |values: agentflow::state::StateValues| -> Seen {
                values.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
            };
            assert_eq!(values(runtime.run(&id).state().await.unwrap()), last);
            let events = run.recorded();
            for cut in 1..events.len() {
                let store = MemoryStore::new();
                store.create(&id, events[..cut].to_vec()).await.unwrap();
                let runtime = test_runtime().store(store).build();
                let run = runtime.run(&id).resume_as(&flow).await.unwrap();
                // A crash uses up an attempt without a failure, and each attempt sees the same
                // state.
                assert_eq!(run.result().await.unwrap(), seen, "cut after {cut}");
                assert_eq!(values(runtime.run(&id).state().await.unwrap()), last, "cut after {cut}");
                assert_eq!(check_events(&run.recorded()), Ok(()));
            }
        });
    }
}

#[test]
fn a_journal_of_before_there_was_state_is_read() {
    let event = r#"{"run_id":"r","seq":1,"time":0,"path":"a","name":"workflow.node.completed","payload":{"output":1,"duration_ms":2}}"#;
    let event: Event = serde_json::from_str(event).unwrap();
    let EventKind::NodeCompleted { saved, .. } = &event.kind else { panic!("{event:?}") };
    assert!(saved.is_none());
    assert!(!serde_json::to_string(&event).unwrap().contains("saved"));
}
