//! Workflows built with the builder: order, concurrency, every form, failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::Event;
use agentflow::event::EventSink;
use agentflow::workflow::{Branch, Node, NodePolicy, OnError, StopPolicy};
use agentflow::{Approval, Error, Runtime, Workflow};
use agentflow_testing::{assert_trace, check_events, test_runtime, trace};
use std::sync::Mutex;

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Event>>>);

impl EventSink for Seen {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Seen {
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn runtime() -> (Runtime, Seen) {
    let seen = Seen::default();
    (test_runtime().sink(seen.clone()).build(), seen)
}

async fn nap(n: u32) -> Result<u32, String> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(n + 1)
}

/// Builds eight naps whose longest path has four.
fn naps(at_once: usize) -> Workflow<(u32,), u32> {
    Workflow::build("naps", ["n"], |b, (n,)| {
        b.concurrency(at_once);
        let a = b.node("a", (n,), |_, (n,)| nap(n));
        let c = b.node("c", (n,), |_, (n,)| nap(n));
        let d = b.node("d", (a,), |_, (n,)| nap(n));
        let e = b.node("e", (a,), |_, (n,)| nap(n));
        let f = b.node("f", (d, c), |_, (n, _)| nap(n));
        let g = b.node("g", (c,), |_, (n,)| nap(n));
        let h = b.node("h", (f, e), |_, (n, _)| nap(n));
        let i = b.node("i", (g,), |_, (n,)| nap(n));
        b.value("sum", (h, i), |(h, i)| Ok::<_, String>(h + i))
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn independent_steps_run_together() {
    for (at_once, millis) in [(16, 400), (1, 800)] {
        let (runtime, seen) = runtime();
        let began = tokio::time::Instant::now();
        assert_eq!(naps(at_once).run(&runtime, 0).await.unwrap(), 7);
        assert_eq!(began.elapsed(), Duration::from_millis(millis), "{at_once} at once");
        check_events(&seen.take()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_router_runs_one_arm() {
    let flow = Workflow::<(i32,), String>::build("sign", ["n"], |b, (n,)| {
        let router = b.route("sign", ["negative", "other"], (n,), |(n,)| {
            Ok::<_, String>(usize::from(n >= 0))
        });
        let negative = b.arm(router, 0, |b| {
            let abs = b.node("abs", (n,), |_, (n,)| async move { Ok::<_, String>(-n) });
            b.value("yield", (abs,), |(n,)| Ok::<_, String>(format!("minus {n}")))
        });
        let other = b.arm(router, 1, |b| {
            let inner = b
                .route("zero", ["then", "else"], (n,), |(n,)| Ok::<_, String>(usize::from(n != 0)));
            let zero = b.arm(inner, 0, |b| {
                b.node("say", (), |_, ()| async move { Ok::<_, String>("zero".to_owned()) })
            });
            let more = b.arm(inner, 1, |b| {
                b.node("say", (n,), |_, (n,)| async move { Ok::<_, String>(n.to_string()) })
            });
            b.join(inner, [zero, more])
        });
        b.join(router, [negative, other])
    })
    .unwrap();
    let (runtime, seen) = runtime();
    for (n, text) in [(-2, "minus 2"), (0, "zero"), (5, "5")] {
        assert_eq!(flow.run(&runtime, n).await.unwrap(), text);
    }
    let events = seen.take();
    let first: Vec<Event> =
        events.iter().filter(|e| e.run_id.as_str() == "run-1").cloned().collect();
    assert_trace(
        &first,
        r#"
        run.started {"n":-2}
        sign started
        sign completed {"arm":"negative"}
        sign/other/zero skipped "another arm was taken"
        sign/other/zero/then/say skipped "`sign/other/zero` was skipped"
        sign/other/zero/else/say skipped "`sign/other/zero` was skipped"
        sign/negative/abs started
        sign/negative/abs completed 2
        run.completed "minus 2"
    "#,
    );
}

#[tokio::test(start_paused = true)]
async fn maps_races_fallbacks_and_repetitions() {
    let flow =
        Workflow::<(Vec<u32>,), (Vec<u32>, u32, u32, u32)>::build("forms", ["xs"], |b, (xs,)| {
            let policy = NodePolicy::default().concurrency(2);
            let mapped = b.map(Node::new("mapped").policy(policy), xs, (), |_, x, ()| async move {
                tokio::time::sleep(Duration::from_millis(u64::from(10 - x))).await;
                Ok::<_, String>(x * x)
            });
            let raced = b.race(
                "raced",
                [
                    Branch::new("slow", (), |_, ()| async {
                        tokio::time::sleep(Duration::from_secs(9)).await;
                        Ok::<_, String>(1)
                    }),
                    Branch::new("fast", (), |_, ()| async {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        Ok::<_, String>(2)
                    }),
                    Branch::new("broken", (), |_, ()| async { Err::<u32, _>("no".to_owned()) }),
                ],
            );
            let fallen = b.fallback(
                "fallen",
                [
                    Branch::new("first", (), |_, ()| async { Err::<u32, _>("no".to_owned()) }),
                    Branch::new("second", (), |_, ()| async { Ok::<_, String>(3) }),
                ],
            );
            let first = b.value("one", (), |()| Ok::<_, String>(1));
            let repeated = b.repeat(
                "repeated",
                first,
                (),
                10,
                |n| *n > 20,
                |_, n, ()| async move { Ok::<u32, String>(n * 3) },
            );
            b.value("all", (mapped, raced, fallen, repeated), Ok::<_, String>)
        })
        .unwrap();
    let (runtime, seen) = runtime();
    let began = tokio::time::Instant::now();
    assert_eq!(flow.run(&runtime, vec![1, 2, 3]).await.unwrap(), (vec![1, 4, 9], 2, 3, 27));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    let events = seen.take();
    check_events(&events).unwrap();
    let lines = trace(&events);
    assert!(
        lines
            .iter()
            .any(|line| line
                == r#"raced/slow failed cancelled "cancelled: another branch was faster""#),
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_stops_the_others() {
    let done = Arc::new(AtomicU32::new(0));
    let build = |stop: StopPolicy, on_error: OnError| {
        let done = Arc::clone(&done);
        Workflow::<(), u32>::build("fails", [], move |b, ()| {
            b.stop_policy(stop);
            let bad: agentflow::workflow::Handle<u32> =
                b.node(Node::new("bad").on_error(on_error), (), |_, ()| async {
                    Err("broken".to_owned())
                });
            let other = b.node("other", (), move |_, ()| {
                let done = Arc::clone(&done);
                async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, String>(5)
                }
            });
            let _reader = b.node("reader", (bad,), |_, (n,)| async move { Ok::<_, String>(n) });
            b.value("out", (other,), |(n,)| Ok::<_, String>(n))
        })
        .unwrap()
    };
    let (runtime, seen) = runtime();
    let error = build(StopPolicy::FailFast, OnError::Fail).run(&runtime, ()).await.unwrap_err();
    assert_eq!(error.to_string(), "the step `bad` failed: broken");
    assert_eq!(done.load(Ordering::SeqCst), 0);
    check_events(&seen.take()).unwrap();
    build(StopPolicy::BestEffort, OnError::Fail).run(&runtime, ()).await.unwrap_err();
    assert_eq!(done.load(Ordering::SeqCst), 1);
    check_events(&seen.take()).unwrap();
    assert_eq!(build(StopPolicy::FailFast, OnError::Skip).run(&runtime, ()).await.unwrap(), 5);
    let events = seen.take();
    check_events(&events).unwrap();
    assert!(trace(&events).iter().any(|line| line == r#"reader skipped "`bad` failed""#));
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_is_tried_again_and_slow_ones_are_stopped() {
    let tries = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&tries);
    let flow = Workflow::<(), u32>::build("tries", [], move |b, ()| {
        b.node(Node::new("flaky").retry(3).timeout(Duration::from_secs(1)), (), move |cx, ()| {
            let n = count.fetch_add(1, Ordering::SeqCst);
            assert_eq!(cx.attempt(), n + 1);
            async move {
                match n {
                    0 => Err("not yet".to_owned()),
                    1 => std::future::pending().await,
                    2 => panic!("oh"),
                    n => Ok(n),
                }
            }
        })
    })
    .unwrap();
    let (runtime, seen) = runtime();
    let began = tokio::time::Instant::now();
    assert_eq!(flow.run(&runtime, ()).await.unwrap(), 3);
    assert_eq!(began.elapsed(), Duration::from_millis(500 + 1000 + 1000 + 2000));
    let events = seen.take();
    check_events(&events).unwrap();
    assert_trace(
        &events,
        r#"
        run.started {}
        flaky started
        flaky retrying error "not yet"
        flaky started attempt 2
        flaky retrying timeout "the step took longer than its time limit of 1s"
        flaky started attempt 3
        flaky retrying panicked "the step panicked: oh"
        flaky started attempt 4
        flaky completed 3
        run.completed 3
    "#,
    );
}

#[test]
fn what_cannot_be_built() {
    let twice = Workflow::<(), u32>::build("twice", [], |b, ()| {
        let _a: agentflow::workflow::Handle<u32> =
            b.node("a", (), |_, ()| async { Ok::<_, String>(1) });
        b.node("a", (), |_, ()| async { Ok::<_, String>(1) })
    });
    assert!(matches!(twice, Err(Error::Build { .. })));
    assert_eq!(
        twice.unwrap_err().to_string(),
        "the workflow `twice` cannot be built: two nodes are named `a`; rename one"
    );
    assert!(Approval::granted().is_granted());
}

/// Runs a workflow with a single step that returns this value.
async fn given<T: agentflow::value::NodeValue + Clone + Sync>(output: T) -> String {
    let flow = Workflow::<(), T>::build("gives", [], |b, ()| {
        let first = b.node("first", (), move |_, ()| {
            let output = output.clone();
            async move { Ok::<_, Error>(output) }
        });
        b.node("second", (first,), |_, (first,)| async move { Ok::<_, Error>(first) })
    })
    .unwrap();
    match flow.run(&test_runtime().build(), ()).await {
        Ok(_) => "kept".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Serde buffers untagged enums in a value without integers beyond 64 bits.
#[derive(Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
enum Whole {
    Number(u128),
    Ratio(f64),
}

#[tokio::test]
async fn a_value_that_json_would_change_is_refused_by_the_step_that_gives_it() {
    for (problem, said) in [
        (given(Some(())).await, "would be read back as `None`"),
        (given(Some(None::<u8>)).await, "would be read back as `None`"),
        (given(f64::NAN).await, "the float `NaN` has no JSON form"),
        (given(Some(f64::INFINITY)).await, "the float `inf` has no JSON form"),
        (given(Whole::Number(u128::MAX)).await, "its JSON is read back as another value"),
    ] {
        assert!(
            problem.starts_with("the step `first` failed: a `") && problem.contains(said),
            "{problem}"
        );
    }
    assert_eq!(given(None::<Option<u8>>).await, "kept");
    assert_eq!(given(((), Some(0.5))).await, "kept");
    assert_eq!(given(Whole::Number(7)).await, "kept");
    assert_eq!(given(Whole::Ratio(0.5)).await, "kept");
    assert_eq!(given((i128::MIN, u128::MAX)).await, "kept");
}

fn one(b: &mut agentflow::workflow::Builder, name: &str) -> agentflow::workflow::Handle<u32> {
    b.node(name, (), |_, ()| async { Ok::<_, String>(1) })
}

/// Returns the error of building a workflow with some nodes, or an empty string.
fn problem(
    nodes: impl FnOnce(&mut agentflow::workflow::Builder) -> agentflow::workflow::Handle<u32>,
) -> String {
    let built = Workflow::<(), u32>::build("named", [], |b, ()| nodes(b));
    built.err().map_or_else(String::new, |error| error.to_string())
}

/// After a restart a node is found by its path, so its name must not equal the path of a step
/// within another node.
#[test]
fn no_node_is_named_like_a_step_within_another() {
    let below = "the workflow `named` cannot be built: the node `x/y` is named like a step within the node `x`, so after a \
                 restart one would take the other's output; rename one of them, without `/`";
    for first in ["x", "x/y"] {
        let second = if first == "x" { "x/y" } else { "x" };
        assert_eq!(problem(|b| [one(b, first), one(b, second)][0]), below);
    }
    let race = |b: &mut agentflow::workflow::Builder| {
        let branch = Branch::new("y", (), |_, ()| async { Ok::<_, String>(1) });
        b.race("x", [branch])
    };
    assert_eq!(problem(|b| [race(b), one(b, "x/y")][0]), below);
    assert_eq!(problem(|b| [race(b), one(b, "x/other")][0]), below.replace("x/y", "x/other"));
    // Also a node beside a router, outside of its arms.
    let routed = |b: &mut agentflow::workflow::Builder, arms: [&'static str; 2], inner: &str| {
        let router = b.route("x", arms, (), |()| Ok::<_, String>(0));
        let ends = [0, 1].map(|arm| b.arm(router, arm, |b| one(b, inner)));
        b.join(router, ends)
    };
    assert_eq!(problem(|b| [routed(b, ["a", "b"], "z"), one(b, "x/y")][0]), below);
    assert_eq!(
        problem(|b| [routed(b, ["a", "b"], "z"), one(b, "x/a/z/deep")][0])
            .matches("is named like a step")
            .count(),
        2,
        "below the router and below the step of its arm"
    );
    // Unambiguous names are accepted.
    assert_eq!(problem(|b| [one(b, "x/y"), one(b, "x/z"), one(b, "xy")][0]), "");
    assert_eq!(problem(|b| routed(b, ["a", "b"], "x")), "");
    assert_eq!(problem(|b| routed(b, ["end", "b"], "z")), "");
    assert_eq!(
        problem(|b| {
            let router = b.route("x", ["a"], (), |()| Ok::<_, String>(0));
            let end = b.arm(router, 0, |b| routed(b, ["a", "b"], "x"));
            b.join(router, [end])
        }),
        ""
    );
}

#[test]
fn a_router_of_another_workflow_is_refused() {
    let mut stolen = None;
    let first = Workflow::<(), u32>::build("first", [], |b, ()| {
        let router = b.route("which", ["a"], (), |()| Ok::<_, String>(0));
        stolen = Some(router);
        let end = b.arm(router, 0, |b| b.node("one", (), |_, ()| async { Ok::<_, String>(1) }));
        b.join(router, [end])
    });
    assert!(first.is_ok());
    let second = Workflow::<(), u32>::build("second", [], |b, ()| {
        let router = stolen.expect("the first was built");
        let end = b.arm(router, 0, |b| b.node("one", (), |_, ()| async { Ok::<_, String>(1) }));
        b.join(router, [end])
    });
    let problem = second.unwrap_err().to_string();
    assert!(problem.contains("a router of another workflow is given arms"), "{problem}");
}

#[test]
fn no_node_or_branch_is_named_like_a_part_of_a_path() {
    for name in [
        "model#1",
        "tool#1.x",
        "call#2",
        "attempt#2",
        "undo#1",
        "ask#1",
        "a/call#2",
        "a[1]",
        "a//b",
        "",
        "50%",
        "a\"b",
        "a\\b",
        "a\nb",
    ] {
        let problem = problem(|b| one(b, name));
        let expected = format!(
            "the workflow `named` cannot be built: `{name}` cannot be the name of a node: no part between slashes"
        );
        assert!(problem.starts_with(&expected), "{name}: {problem}");
    }
    for name in ["a/b", "model#1", "call#2", "a[1]", ""] {
        let branch = Branch::new(name, (), |_, ()| async { Ok::<_, String>(1) });
        let problem = problem(|b| b.fallback("all", [branch]));
        let expected = format!(
            "the workflow `named` cannot be built: `{name}` cannot be the name of a branch of `all`: it must not"
        );
        assert!(problem.starts_with(&expected), "{name}: {problem}");
    }
}

/// A limit that is never reached costs no memory.
#[tokio::test]
async fn a_repetition_takes_memory_for_the_rounds_it_has() {
    let flow = Workflow::<(u32,), u32>::build("grow", ["n"], |b, (n,)| {
        b.repeat(
            "rounds",
            n,
            (),
            u32::MAX,
            |n| *n > 80,
            |_, n: u32, ()| async move { Ok::<_, String>(n * 3) },
        )
    })
    .unwrap();
    let (runtime, seen) = runtime();
    assert_eq!(flow.run(&runtime, 1).await.unwrap(), 81);
    let events = seen.take();
    check_events(&events).unwrap();
    let begun = |line: &&String| line.starts_with("rounds[") && line.contains("started");
    assert_eq!(trace(&events).iter().filter(begun).count(), 4);
}
