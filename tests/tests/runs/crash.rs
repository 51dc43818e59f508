//! Crash tests of every workflow form and of an agent: the process stops at each write of the
//! journal and the run is resumed.

use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, Store};
use agentflow::tool::{Effects, FnTool, ToolPolicy, ToolRef};
use agentflow::workflow::{
    Branch, Builder, Handle, Node, NodePolicy, OnError, RetryPolicy, StopPolicy,
};
use agentflow::{Agent, Approval, RunId, Runtime, Workflow};
use agentflow_testing::{
    Again, CrashTest, EffectLog, Interruption, ScriptedModel, Turn, check_events,
};

type Step<T> = Result<T, String>;

/// Adds a step that records its effect, takes `millis` milliseconds and adds one.
fn step(
    b: &mut Builder,
    effects: &EffectLog,
    node: impl Into<Node>,
    millis: u64,
    reads: Handle<u32>,
) -> Handle<u32> {
    let effects = effects.clone();
    b.node(node, (reads,), move |cx, (n,)| {
        let effects = effects.clone();
        async move {
            effects.note(&cx);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Step::Ok(n + 1)
        }
    })
}

fn branch(
    effects: &EffectLog,
    name: &str,
    millis: u64,
    reads: Handle<u32>,
    result: Step<u32>,
) -> Branch<u32> {
    let effects = effects.clone();
    Branch::new(name, (reads,), move |cx, (n,)| {
        let (effects, result) = (effects.clone(), result.clone());
        async move {
            effects.note(&cx);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            result.map(|more| n + more)
        }
    })
}

fn once() -> NodePolicy {
    NodePolicy::default().repeatable(false)
}

#[tokio::test(start_paused = true)]
async fn a_chain_with_a_step_that_may_not_be_repeated() {
    let effects = EffectLog::new();
    let flow = Workflow::<(u32,), u32>::build("chain", ["n"], |b, (n,)| {
        let a = step(b, &effects, "a", 1, n);
        let pay = step(b, &effects, Node::new("pay").policy(once()), 5, a);
        step(b, &effects, "c", 0, pay)
    })
    .unwrap();
    let report = CrashTest::new(&flow, || 1).effects(&effects).twice().run().await;
    assert!(report.writes() >= 4, "{report}");
    let of = |path: &str| report.step(path).unwrap();
    assert_eq!(of("a").interrupted(), 0);
    assert!(of("a").again(Again::Interrupted) > 0, "{report}");
    assert_eq!(of("pay").again(Again::Interrupted), 0, "{report}");
    assert_eq!(of("pay").again(Again::Operator), of("pay").interrupted(), "{report}");
    assert!(report.interrupted() > 0);
    assert!(report.started_anew() > 0);
    assert_eq!(effects.count("c"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_operator_may_cancel_instead() {
    let effects = EffectLog::new();
    let flow = Workflow::<(u32,), u32>::build("chain", ["n"], |b, (n,)| {
        step(b, &effects, Node::new("pay").policy(once()), 5, n)
    })
    .unwrap();
    let cancel = |_: &agentflow::path::StepPath| Interruption::Cancel;
    let report = CrashTest::new(&flow, || 1).effects(&effects).interrupted(cancel).run().await;
    assert!(report.cancelled() > 0, "{report}");
    assert_eq!(report.step("pay").unwrap().began(), 1, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_parallel_join() {
    let effects = EffectLog::new();
    let flow = Workflow::<(u32,), u32>::build("join", ["n"], |b, (n,)| {
        let ways = [("a", 5), ("b", 5), ("c", 1), ("d", 9)].map(|(name, millis)| {
            let policy = if name == "b" { once() } else { NodePolicy::default() };
            step(b, &effects, Node::new(name).policy(policy), millis, n)
        });
        let [a, b_, c, d] = ways;
        let left = b.value("left", (a, b_), |(a, b)| Step::Ok(a + b));
        let e = step(b, &effects, "e", 2, left);
        b.value("sum", (e, c, d), |(e, c, d)| Step::Ok(e + c + d))
    })
    .unwrap();
    let report = CrashTest::new(&flow, || 1).effects(&effects).twice().run().await;
    assert!(report.step("b").unwrap().interrupted() > 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn routes_inside_routes() {
    let effects = EffectLog::new();
    let flow = Workflow::<(u32,), u32>::build("routes", ["n"], |b, (n,)| {
        let a = step(b, &effects, "a", 1, n);
        let size = b.route("size", ["small", "large"], (a,), |(n,)| Step::Ok(usize::from(n > 1)));
        let small = b.arm(size, 0, |b| step(b, &effects, "s", 1, a));
        let large = b.arm(size, 1, |b| {
            let inner =
                b.route("even", ["then", "else"], (a,), |(n,)| Step::Ok(usize::from(n % 2 == 1)));
            let even = b.arm(inner, 0, |b| {
                let x = step(b, &effects, "x", 1, a);
                step(b, &effects, "y", 1, x)
            });
            let odd = b.arm(inner, 1, |b| step(b, &effects, "z", 1, a));
            b.join(inner, [even, odd])
        });
        let end = b.join(size, [small, large]);
        step(b, &effects, "last", 0, end)
    })
    .unwrap();
    for n in 0..3 {
        CrashTest::new(&flow, move || n).effects(&effects).run().await;
    }
}

#[tokio::test(start_paused = true)]
async fn maps_races_and_repetitions() {
    let effects = EffectLog::new();
    let flow = Workflow::<(Vec<u32>,), (Vec<u32>, u32, u32)>::build("forms", ["xs"], |b, (xs,)| {
        let noted = effects.clone();
        let policy = NodePolicy::default().concurrency(2).retry(1).repeatable(false);
        let mapped = b.map(Node::new("mapped").policy(policy), xs, (), move |cx, x: u32, ()| {
            let noted = noted.clone();
            async move {
                noted.note(&cx);
                tokio::time::sleep(Duration::from_millis(u64::from(7 - x))).await;
                match (x, cx.attempt()) {
                    (2, 1) => Err("not at first".to_owned()),
                    _ => Ok(x * x),
                }
            }
        });
        let n = b.value("n", (mapped,), |(xs,): (Vec<u32>,)| Step::Ok(xs.len() as u32));
        let raced = b.race(
            "raced",
            [
                branch(&effects, "slow", 90, n, Ok(1)),
                branch(&effects, "fast", 30, n, Ok(2)),
                branch(&effects, "broken", 10, n, Err("no".to_owned())),
            ],
        );
        let noted = effects.clone();
        let repeated = b.repeat(
            "repeated",
            n,
            (),
            10,
            |n| *n > 80,
            move |cx, n: u32, ()| {
                let noted = noted.clone();
                async move {
                    noted.note(&cx);
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    Step::Ok(n * 3)
                }
            },
        );
        b.value("all", (mapped, raced, repeated), Step::Ok)
    })
    .unwrap();
    let report = CrashTest::new(&flow, || vec![1, 2, 3]).effects(&effects).twice().run().await;
    assert!(report.step("mapped[1]").unwrap().again(Again::Operator) > 0, "{report}");
    assert!(report.step("raced/slow").unwrap().again(Again::Interrupted) > 0, "{report}");
    assert_eq!(report.step("repeated[2]").unwrap().began(), 3, "{report}");
}

#[tokio::test(start_paused = true)]
async fn races_with_branches_that_may_not_be_repeated() {
    let effects = EffectLog::new();
    let flow = Workflow::<(u32,), u32>::build("race", ["n"], |b, (n,)| {
        let branches =
            [branch(&effects, "slow", 90, n, Ok(1)), branch(&effects, "fast", 30, n, Ok(2))];
        b.race(Node::new("raced").policy(once()), branches)
    })
    .unwrap();
    CrashTest::new(&flow, || 1).effects(&effects).may_differ_when_interrupted().twice().run().await;
}

#[tokio::test(start_paused = true)]
async fn fallbacks() {
    // An interrupted branch that must not be repeated waits for an operator's decision. The next
    // branch must not run instead.
    for policy in [NodePolicy::default(), once()] {
        let effects = EffectLog::new();
        let flow = Workflow::<(u32,), u32>::build("fallbacks", ["n"], |b, (n,)| {
            let branches = [
                branch(&effects, "first", 5, n, Err("no".to_owned())),
                branch(&effects, "second", 5, n, Ok(2)),
                branch(&effects, "third", 5, n, Ok(3)),
            ];
            let fallen = b.fallback(Node::new("fallen").policy(policy.clone()), branches);
            step(b, &effects, "last", 0, fallen)
        })
        .unwrap();
        let report = CrashTest::new(&flow, || 1).effects(&effects).twice().run().await;
        assert_eq!(report.ended_otherwise(), 0, "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn gates_and_approvals() {
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Amount {
        cents: u32,
    }
    let effects = EffectLog::new();
    let flow = Workflow::<(u32,), u32>::build("gates", ["n"], |b, (n,)| {
        let approval: Handle<Approval> =
            b.gate("merge", (n,), |(n,)| Step::Ok(("merge?".to_owned(), n)));
        let amount: Handle<Amount> =
            b.gate("amount", (n,), |(n,)| Step::Ok(("how much?".to_owned(), n)));
        let late: Handle<u32> = b.gate(
            Node::new("late").timeout(Duration::from_secs(7 * 24 * 3600)).on_error(OnError::Skip),
            (n,),
            |(n,)| Step::Ok(("in time?".to_owned(), n)),
        );
        let _unread = step(b, &effects, "unread", 1, late);
        let asked = step(
            b,
            &effects,
            Node::new("asked").policy(NodePolicy::default().approve("now?")),
            3,
            n,
        );
        b.value("all", (approval, amount, asked), |(approval, amount, asked)| {
            Step::Ok(u32::from(approval.is_granted()) + amount.cents + asked)
        })
    })
    .unwrap();
    CrashTest::new(&flow, || 1)
        .effects(&effects)
        .answer("merge", Approval::granted())
        .answer("amount", Amount { cents: 100 })
        .answer("asked", Approval::granted())
        .unanswered("late")
        .twice()
        .run()
        .await;
    assert_eq!(effects.count("asked"), 1);
    assert_eq!(effects.count("unread"), 0);

    // If the approval is denied, the run fails, also after every crash.
    CrashTest::new(&flow, || 1)
        .answer("merge", Approval::granted())
        .answer("amount", Amount { cents: 100 })
        .answer("asked", Approval::denied("not on a Friday"))
        .unanswered("late")
        .fails()
        .run()
        .await;
}

#[tokio::test(start_paused = true)]
async fn retries_with_pauses() {
    let effects = EffectLog::new();
    let noted = effects.clone();
    let flow = Workflow::<(), u32>::build("retries", [], move |b, ()| {
        let mut retry = RetryPolicy::retries(3);
        retry.backoff_ms = 60_000;
        let policy = NodePolicy::default().retry_policy(retry).timeout(Duration::from_secs(1));
        let flaky = b.node(Node::new("flaky").policy(policy), (), move |cx, ()| {
            let noted = noted.clone();
            async move {
                noted.note(&cx);
                tokio::time::sleep(Duration::from_millis(10)).await;
                // The failures come from the service, so they do not depend on the number of
                // crashes.
                match noted.count("flaky") {
                    1 => Err("not yet".to_owned()),
                    2 => std::future::pending().await,
                    3 => panic!("oh"),
                    _ => Ok(4),
                }
            }
        });
        step(b, &EffectLog::new(), "last", 0, flaky)
    })
    .unwrap();
    let report = CrashTest::new(&flow, || ()).effects(&effects).twice().run().await;
    assert!(report.step("flaky").unwrap().again(Again::Retried) > 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn failures() {
    for stop in [StopPolicy::FailFast, StopPolicy::BestEffort] {
        let effects = EffectLog::new();
        let flow = Workflow::<(u32,), u32>::build("fails", ["n"], |b, (n,)| {
            b.stop_policy(stop);
            let a = step(b, &effects, "a", 10, n);
            let bad: Handle<u32> = b.node("bad", (n,), |_, _| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err("broken".to_owned())
            });
            let skipped: Handle<u32> =
                b.node(Node::new("may").on_error(OnError::Skip), (n,), |_, _| async {
                    Err("no matter".to_owned())
                });
            let _after = step(b, &effects, "after", 1, skipped);
            let long = step(b, &effects, "long", 30, a);
            let more = step(b, &effects, "more", 5, long);
            b.value("all", (bad, more), |(x, y)| Step::Ok(x + y))
        })
        .unwrap();
        CrashTest::new(&flow, || 1).effects(&effects).fails().twice().run().await;
        assert_eq!(effects.count("more"), usize::from(stop == StopPolicy::BestEffort));
    }
}

#[tokio::test(start_paused = true)]
async fn workflows_in_workflows() {
    let effects = EffectLog::new();
    let part = Workflow::<(u32,), u32>::build("part", ["n"], |b, (n,)| {
        let x = step(b, &effects, "x", 2, n);
        let pay = step(b, &effects, Node::new("pay").policy(once()), 2, n);
        let approval: Handle<Approval> =
            b.gate("ok", (x,), |(n,)| Step::Ok(("continue?".to_owned(), n)));
        let sum = b.value("sum", (x, pay, approval), |(x, y, _)| Step::Ok(x + y));
        step(b, &effects, "y", 2, sum)
    })
    .unwrap();
    let flow = Workflow::<(u32,), u32>::build("whole", ["n"], |b, (n,)| {
        let beside = step(b, &effects, "beside", 3, n);
        let nested = b.node("nested", (n,), move |cx, (n,)| {
            let part = part.clone();
            async move {
                let once = part.run_in(&cx, n).await?;
                // The second nested run in the same step has its own path.
                part.run_in(&cx, once).await
            }
        });
        b.value("sum", (nested, beside), |(x, y)| Step::Ok(x + y))
    })
    .unwrap();
    let report = CrashTest::new(&flow, || 1)
        .effects(&effects)
        .answer("nested/ok", Approval::granted())
        .answer("nested/call#2/ok", Approval::granted())
        .twice()
        .run()
        .await;
    assert!(report.step("nested/pay").unwrap().interrupted() > 0, "{report}");
    assert!(report.step("nested/call#2/pay").unwrap().interrupted() > 0, "{report}");
}

/// Checks that an answer resumes only the nested workflow that asked. The others keep waiting.
#[tokio::test(start_paused = true)]
async fn workflows_beside_each_other_wait_each_for_its_own() {
    let effects = EffectLog::new();
    let asks = Workflow::<(u32,), u32>::build("asks", ["n"], |b, (n,)| {
        let x = step(b, &effects, "x", 2, n);
        let approval: Handle<Approval> =
            b.gate("ok", (x,), |(n,)| Step::Ok(("continue?".to_owned(), n)));
        b.value("end", (x, approval), |(n, _)| Step::Ok(n))
    })
    .unwrap();
    let pays = Workflow::<(u32,), u32>::build("pays", ["n"], |b, (n,)| {
        step(b, &effects, Node::new("pay").policy(once()), 50, n)
    })
    .unwrap();
    let flow = Workflow::<(u32,), u32>::build("whole", ["n"], |b, (n,)| {
        let mut nested = |name: &str, part: &Workflow<(u32,), u32>| {
            let part = part.clone();
            b.node(name, (n,), move |cx, (n,)| {
                let part = part.clone();
                async move { part.run_in(&cx, n).await }
            })
        };
        let all = (
            nested("left", &asks),
            nested("middle", &asks),
            nested("other", &asks),
            nested("right", &pays),
        );
        b.value("sum", all, |(x, y, z, pay)| Step::Ok(x + y + z + pay))
    })
    .unwrap();
    let test = CrashTest::new(&flow, || 1).effects(&effects);
    let gates = ["left/ok", "middle/ok", "other/ok"];
    let report = gates
        .into_iter()
        .fold(test, |test, gate| test.answer(gate, Approval::granted()))
        .run()
        .await;
    let pay = report.step("right/pay").unwrap();
    assert!(pay.interrupted() > 0, "{report}");
    assert_eq!(pay.again(Again::Operator), pay.interrupted(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn steps_below_a_step_that_is_not_resumed_have_an_end() {
    let effects = EffectLog::new();
    let part = Workflow::<(u32,), u32>::build("part", ["n"], |b, (n,)| {
        let x = step(b, &effects, "x", 50, n);
        step(b, &effects, "y", 50, x)
    })
    .unwrap();
    for policy in [once(), NodePolicy::default()] {
        let flow = Workflow::<(u32,), u32>::build("stops", ["n"], |b, (n,)| {
            b.concurrency(2);
            let (part, agent) = (part.clone(), clerk(&effects, true));
            let bad: Handle<Vec<u32>> = b.value("items", (), |()| Step::Ok(vec![1]));
            // The item has already failed when the process ends. The other nodes are cancelled
            // after the run is resumed.
            let bad: Handle<Vec<u32>> = b.map("bad", bad, (), |_, _: u32, ()| async {
                tokio::time::sleep(Duration::from_millis(8)).await;
                Err("broken".to_owned())
            });
            let nested =
                b.node(Node::new("nested").policy(policy.clone()), (n,), move |cx, (n,)| {
                    let (part, agent) = (part.clone(), agent.clone());
                    async move {
                        agent.run_in(&cx, "Go on.").await?;
                        part.run_in(&cx, n).await
                    }
                });
            b.value("sum", (bad, nested), |(x, y)| Step::Ok(x.len() as u32 + y))
        })
        .unwrap();
        let cancel = |_: &agentflow::path::StepPath| Interruption::Cancel;
        CrashTest::new(&flow, || 1)
            .fails()
            .may_differ_when_interrupted()
            .interrupted(cancel)
            .twice()
            .run()
            .await;
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Letter {
    to: String,
}

/// Returns an agent that calls `look`, then `send` twice in one turn, then answers. Its model
/// follows fixed rules.
fn clerk(effects: &EffectLog, idempotent: bool) -> Agent {
    let tool = |name: &'static str, policy: ToolPolicy| -> ToolRef {
        let effects = effects.clone();
        FnTool::new(name, "Does it.", move |cx, _arguments: Letter| {
            let effects = effects.clone();
            async move {
                effects.note(&cx);
                tokio::time::sleep(Duration::from_millis(5)).await;
                Step::Ok("done")
            }
        })
        .policy(policy)
        .into()
    };
    let write = ToolPolicy::default().effects(Effects::Write);
    let write = if idempotent { write.idempotent() } else { write };
    let model = ScriptedModel::from_fn(|request| {
        let results =
            request.messages.messages().iter().flat_map(|message| message.results()).count();
        match results {
            0 => Turn::call("look", json!({"to": "a"})),
            1 => Turn::calls([("send", json!({"to": "a"})), ("send", json!({"to": "b"}))]),
            _ => Turn::text(format!("{results} results")),
        }
    });
    Agent::new(model)
        .tools([tool("look", ToolPolicy::default().effects(Effects::Read)), tool("send", write)])
}

#[tokio::test(start_paused = true)]
async fn an_agent() {
    for idempotent in [false, true] {
        let effects = EffectLog::new();
        let agent = clerk(&effects, idempotent);
        let report = CrashTest::agent(&agent, || "Go on.").effects(&effects).twice().run().await;
        let send = report.step("tool#2.send").unwrap();
        assert_eq!(send.again(Again::Interrupted) > 0, idempotent, "{report}");
        assert_eq!(send.interrupted() > 0, !idempotent, "{report}");
        assert!(report.step("model#1").unwrap().again(Again::Interrupted) > 0, "{report}");
        if !idempotent {
            assert_eq!(send.began(), 1, "{report}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_workflow() {
    let effects = EffectLog::new();
    let agent = clerk(&effects, false);
    let flow = Workflow::<(u32,), String>::build("office", ["n"], |b, (n,)| {
        let beside = step(b, &effects, "beside", 7, n);
        let said = b.node("clerk", (n,), move |cx, (n,)| {
            let agent = agent.clone();
            async move {
                agent
                    .run_in(&cx, RunRequest::from(format!("Go on {n}.")))
                    .await
                    .map(|end| end.into_output())
            }
        });
        b.value("end", (said, beside), |(said, n)| Step::Ok(format!("{said}, {n}")))
    })
    .unwrap();
    let report = CrashTest::new(&flow, || 1).effects(&effects).twice().run().await;
    assert_eq!(report.step("clerk/tool#2.send").unwrap().began(), 1, "{report}");
    assert!(report.step("clerk/tool#1.look").unwrap().again(Again::Interrupted) > 0, "{report}");
}

/// Returns an agent whose tool `ask` runs the agent `of`.
fn boss(of: Agent, policy: ToolPolicy) -> Agent {
    let ask = FnTool::new("ask", "Asks.", move |cx, letter: Letter| {
        let of = of.clone();
        async move {
            of.run_in(&cx, RunRequest::from(format!("Go on {}.", letter.to)))
                .await
                .map(|end| end.into_output())
        }
    });
    calls_once("ask", ask.policy(policy).into())
}

/// Returns an agent that calls its only tool once and then answers.
fn calls_once(name: &'static str, tool: ToolRef) -> Agent {
    let model = ScriptedModel::from_fn(move |request| {
        match request.messages.messages().iter().flat_map(|message| message.results()).count() {
            0 => Turn::call(name, json!({"to": "a"})),
            results => Turn::text(format!("{results} result")),
        }
    });
    Agent::new(model).tools([tool])
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_tool_of_an_agent_in_a_tool_of_an_agent() {
    for idempotent in [false, true] {
        let effects = EffectLog::new();
        let repeatable = || ToolPolicy::default().idempotent();
        let agent = boss(boss(clerk(&effects, idempotent), repeatable()), repeatable());
        let report = CrashTest::agent(&agent, || "Go on.").effects(&effects).run().await;
        let below = "tool#1.ask/tool#1.ask";
        assert!(
            report.step(&format!("{below}/model#1")).unwrap().again(Again::Interrupted) > 0,
            "{report}"
        );
        assert!(
            report.step(&format!("{below}/tool#1.look")).unwrap().again(Again::Interrupted) > 0,
            "{report}"
        );
        let send = report.step(&format!("{below}/tool#2.send")).unwrap();
        assert_eq!(send.again(Again::Interrupted) > 0, idempotent, "{report}");
        assert_eq!(send.interrupted() > 0, !idempotent, "{report}");
    }
    let effects = EffectLog::new();
    let agent = boss(
        boss(clerk(&effects, false), ToolPolicy::default().idempotent()),
        ToolPolicy::default().idempotent(),
    );
    let flow = Workflow::<(u32,), String>::build("office", ["n"], |b, (n,)| {
        b.node("boss", (n,), move |cx, (n,)| {
            let agent = agent.clone();
            async move {
                agent
                    .run_in(&cx, RunRequest::from(format!("{n}.")))
                    .await
                    .map(|end| end.into_output())
            }
        })
    })
    .unwrap();
    let report = CrashTest::new(&flow, || 1).effects(&effects).run().await;
    assert_eq!(
        report.step("boss/tool#1.ask/tool#1.ask/tool#2.send").unwrap().began(),
        1,
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_tool_that_may_not_be_called_twice() {
    let effects = EffectLog::new();
    let agent = boss(clerk(&effects, false), ToolPolicy::default());
    let report = CrashTest::agent(&agent, || "Go on.").effects(&effects).run().await;
    let ask = report.step("tool#1.ask").unwrap();
    assert_eq!((ask.began(), ask.again(Again::Interrupted)), (1, 0), "{report}");
    assert!(ask.interrupted() > 0, "{report}");
    assert_eq!(report.step("tool#1.ask/tool#2.send").unwrap().began(), 1, "{report}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_map_in_a_workflow_in_a_tool() {
    let effects = EffectLog::new();
    let of = clerk(&effects, false);
    let part = Workflow::<(u32,), String>::build("part", ["n"], |b, (n,)| {
        let items: Handle<Vec<u32>> = b.value("items", (n,), |(n,)| Step::Ok(vec![n, n + 1]));
        let pay = step(b, &effects, Node::new("pay").policy(once()), 2, n);
        let all = b.map(Node::new("each").concurrency(2), items, (), move |cx, n: u32, ()| {
            let of = of.clone();
            async move {
                of.run_in(&cx, RunRequest::from(format!("{n}."))).await.map(|end| end.into_output())
            }
        });
        b.value("end", (all, pay), |(all, n)| Step::Ok(format!("{all:?}, {n}")))
    })
    .unwrap();
    let plan = FnTool::new("plan", "Plans.", move |cx, _: Letter| {
        let part = part.clone();
        async move { part.run_in(&cx, 1).await }
    });
    let agent = calls_once("plan", plan.policy(ToolPolicy::default().idempotent()).into());
    // The agent has its own run here, and is a step of a workflow below.
    let report = CrashTest::agent(&agent, || "Go on.").effects(&effects).run().await;
    for item in 0..2 {
        let send = report.step(&format!("tool#1.plan/each[{item}]/tool#2.send")).unwrap();
        assert_eq!(send.began(), 1, "{report}");
    }
    let pay = report.step("tool#1.plan/pay").unwrap();
    assert!(pay.interrupted() > 0, "{report}");
    assert_eq!(pay.again(Again::Operator), pay.interrupted(), "{report}");

    let flow = Workflow::<(u32,), String>::build("office", ["n"], |b, (n,)| {
        b.node("lead", (n,), move |cx, (n,)| {
            let agent = agent.clone();
            async move {
                agent
                    .run_in(&cx, RunRequest::from(format!("{n}.")))
                    .await
                    .map(|end| end.into_output())
            }
        })
    })
    .unwrap();
    let report = CrashTest::new(&flow, || 1).effects(&effects).run().await;
    assert!(report.step("lead/tool#1.plan/pay").unwrap().interrupted() > 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_cancelled_as_it_is_resumed() {
    let asleep = ScriptedModel::from_fn(|_| Turn::text("done").after(Duration::from_secs(9)));
    let part = Workflow::<(u32,), u32>::build("part", ["n"], |b, (n,)| {
        step(b, &EffectLog::new(), "x", 9_000, n)
    })
    .unwrap();
    let plan = FnTool::new("plan", "Plans.", move |cx, _: Letter| {
        let part = part.clone();
        async move { part.run_in(&cx, 1).await }
    });
    let idempotent = || ToolPolicy::default().idempotent();
    for agent in [
        boss(Agent::new(asleep.clone()), idempotent()),
        boss(boss(Agent::new(asleep), idempotent()), idempotent()),
        calls_once("plan", plan.policy(idempotent()).into()),
    ] {
        let store = MemoryStore::new();
        let process = || agent.clone().runtime(&Runtime::builder().store(store.clone()).build());
        let id = RunId::new("run-1");
        let first = process().start(RunRequest::from("Go on.").run_id(id.clone())).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        first.abandon();
        tokio::task::yield_now().await;
        let agent = process();
        let second = Runtime::builder().store(store.clone()).build();
        let run = agent.clone().runtime(&second).resume(&id).await.unwrap();
        run.cancel("enough").await.unwrap();
        let events = store.read(&id, 0, usize::MAX).await.unwrap();
        if let Err(problems) = check_events(&events) {
            panic!("{problems}\n{}", agentflow_testing::trace(&events).join("\n"));
        }
    }
}

/// Checks that `CrashTest` itself detects failures.
mod breaches {
    use super::*;

    async fn message(test: CrashTest) -> String {
        let failed = tokio::task::spawn(test.run()).await.unwrap_err();
        *failed.into_panic().downcast::<String>().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_depends_on_chance() {
        let effects = EffectLog::new();
        let noted = effects.clone();
        let flow = Workflow::<(), usize>::build("chance", [], move |b, ()| {
            b.node("a", (), move |cx, ()| {
                noted.note(&cx);
                let count = noted.count("a");
                async move { Step::Ok(count) }
            })
        })
        .unwrap();
        let text = message(CrashTest::new(&flow, || ()).effects(&effects)).await;
        assert!(
            text.contains(
                "the workflow `chance` does not hold after a crash at write 3, before it was stored"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "the run ended otherwise: it completed with 2; without a crash it completed with 1"
            ),
            "{text}"
        );
        assert!(text.contains("-- crash --"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_hangs() {
        let flow = Workflow::<(), u32>::build("stuck", [], |b, ()| {
            b.node("a", (), |_, ()| async { std::future::pending::<Step<u32>>().await })
        })
        .unwrap();
        let text = message(CrashTest::new(&flow, || ())).await;
        assert!(text.contains("does not hold even without a crash"), "{text}");
        assert!(text.contains("the run hangs: nothing was recorded for 3600s"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_nobody_answers() {
        let flow = Workflow::<(), Approval>::build("asks", [], |b, ()| {
            b.gate("ok", (), |()| Step::Ok(("continue?".to_owned(), 1)))
        })
        .unwrap();
        let text = message(CrashTest::new(&flow, || ())).await;
        assert!(text.contains("`ok` asks for an answer and the test has none"), "{text}");
        let text = message(CrashTest::new(&flow, || ()).answer("okay", Approval::granted())).await;
        assert!(
            text.contains("(there are answers for `okay`, which did not ask so far)"),
            "{text}"
        );
        let text = message(CrashTest::new(&flow, || ()).unanswered("ok")).await;
        assert!(text.contains("`ok` asks without a time-out"), "{text}");
        let more = CrashTest::new(&flow, || ())
            .answer("ok", Approval::granted())
            .answer("okay", Approval::granted());
        let text = message(more).await;
        assert!(
            text.contains("the workflow `asks` never asks `okay`; what it asks is `ok`"),
            "{text}"
        );
    }

    /// Uses the real clock. A paused clock would skip to the timeout.
    #[tokio::test]
    async fn a_question_with_a_time_out_that_nobody_answers() {
        let flow = Workflow::<(), Approval>::build("asks", [], |b, ()| {
            let node = Node::new("ok").timeout(Duration::from_secs(7 * 24 * 3600));
            b.gate(node, (), |()| Step::Ok(("continue?".to_owned(), 1)))
        })
        .unwrap();
        let text = message(CrashTest::new(&flow, || ()).answer("okay", Approval::granted())).await;
        let expected = "`ok` asks for an answer and the test has none; give it with `answer(\"ok\", ..)`, or let its \
                        time-out pass with `unanswered(\"ok\")` (there are answers for `okay`";
        assert!(text.contains(expected), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_effect_behind_the_journal() {
        let effects = EffectLog::new();
        let noted = effects.clone();
        let flow = Workflow::<(), u32>::build("behind", [], move |b, ()| {
            let one = b_one(b);
            let a = step(b, &noted, "a", 0, one);
            let last = noted.clone();
            let kept = std::sync::Mutex::new(None);
            let kept = std::sync::Arc::new(kept);
            let first = std::sync::Arc::clone(&kept);
            let x = b.node("x", (a,), move |cx, (n,)| {
                *first.lock().unwrap() = Some(cx);
                async move { Step::Ok(n) }
            });
            b.node("y", (x,), move |_, (n,)| {
                // It records an effect for `x`, which has already ended.
                if let Some(cx) = &*kept.lock().unwrap() {
                    last.note(cx);
                }
                async move { Step::Ok(n) }
            })
        })
        .unwrap();
        let text = message(CrashTest::new(&flow, || ()).effects(&effects)).await;
        assert!(
            text.contains("`x` had an effect when its journal said `workflow.node.completed` last"),
            "{text}"
        );
    }

    fn b_one(b: &mut Builder) -> Handle<u32> {
        b.value("one", (), |()| Step::Ok(1))
    }
}
