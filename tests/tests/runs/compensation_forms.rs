//! Tests compensation of calls in `if`, `match`, `for`, `map!`, `race!` and the other forms. After
//! a crash at each write, every effect is undone once, in reverse order. Random programs of these
//! forms must be undone as a naive reference predicts.

use std::collections::HashMap;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::path::StepPath;
use agentflow::prelude::*;
use agentflow::runtime::UndoStatus;
use agentflow::store::{MemoryStore, Store};
use agentflow::tool::ToolError;
use agentflow::value::NodeValue;
use agentflow::{Event, RunId, Workflow};
use agentflow_testing::{CrashTest, EffectLog, check_events, test_runtime, trace};
use proptest::prelude::*;
use serde_json::Value;

use crate::compensation_nested::undone_dig;
use crate::deeds::{Boxed, Deeds};

fn note(cx: &Context, deed: String) -> Result<(), ToolError> {
    cx.inject::<Deeds>().map_err(|error| ToolError::new(error.to_string()))?.note(deed);
    Ok(())
}

/// Takes something; slow things take a second.
#[tool(compensate = form_put_back, idempotent)]
async fn form_take(cx: &Context, what: String) -> Result<String, ToolError> {
    if what.contains("slow") {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    note(cx, format!("take {what}"))?;
    Ok(what)
}

/// Puts it back.
#[tool(idempotent)]
async fn form_put_back(cx: &Context, what: String, output: String) -> Result<bool, ToolError> {
    note(cx, format!("put back {what}"))?;
    Ok(what == output)
}

/// Takes several things, and then fails if `fails` is set.
#[tool(compensate = form_put_all_back, idempotent)]
async fn form_take_all(cx: &Context, things: Vec<String>, fails: bool) -> Result<usize, ToolError> {
    for what in &things {
        form_take(cx, what.clone()).await?;
    }
    if fails { Err(ToolError::new("that was too much")) } else { Ok(things.len()) }
}

/// Puts all of them back.
#[tool(idempotent)]
async fn form_put_all_back(
    cx: &Context,
    things: Vec<String>,
    fails: bool,
    output: usize,
) -> Result<bool, ToolError> {
    note(cx, format!("put all back {}", things.join(" ")))?;
    Ok(!fails && things.len() == output)
}

/// Looks, which leaves nothing to undo.
#[tool(effects = "read")]
async fn form_look(n: u32) -> u32 {
    n
}

async fn form_over() -> Result<u32, ToolError> {
    Err(ToolError::new("it is over"))
}

fn thing(name: &str, n: u32) -> String {
    format!("{name}{n}")
}

#[workflow]
async fn form_if(cx: &Context, n: u32) -> Boxed<String> {
    let before = form_take(cx, "before".to_owned()).await?;
    let chosen = if n > 3 {
        let first = form_take(cx, format!("first after {before}")).await?;
        form_take(cx, format!("second after {first}")).await?
    } else {
        form_take(cx, "never".to_owned()).await?
    };
    form_over().await?;
    Ok(chosen)
}

#[workflow]
async fn form_if_fails_within(cx: &Context, n: u32) -> Boxed<String> {
    let before = form_take(cx, "before".to_owned()).await?;
    let chosen = if n > 3 {
        let first = form_take(cx, format!("first after {before}")).await?;
        form_over().await?;
        form_take(cx, format!("never after {first}")).await?
    } else {
        form_take(cx, "never".to_owned()).await?
    };
    Ok(chosen)
}

#[workflow]
async fn form_match(cx: &Context, n: u32) -> Boxed<String> {
    let seen = form_look(n).await;
    let chosen = match seen {
        0 => form_take(cx, "never".to_owned()).await?,
        n if n > 3 => {
            let first = form_take(cx, thing("first", n)).await?;
            form_take(cx, format!("second after {first}")).await?
        }
        _ => form_take(cx, "nor this".to_owned()).await?,
    };
    form_over().await?;
    Ok(chosen)
}

#[workflow]
async fn form_for(cx: &Context, n: u32) -> Boxed<u32> {
    for at in 0..n {
        let first = form_take(cx, thing("first", at)).await?;
        if at == 1 {
            form_take(cx, format!("more of {first}")).await?;
        }
        if at == 3 {
            form_over().await?;
        }
    }
    Ok(n)
}

#[workflow]
async fn form_map(cx: &Context, n: u32) -> Boxed<usize> {
    let numbers: Vec<u32> = (0..n).collect();
    let all = map!(numbers, |at| {
        let first = form_take(cx, thing("first", at)).await?;
        form_take(cx, format!("second after {first}")).await?
    })
    .await?;
    form_over().await?;
    Ok(all.len())
}

async fn two_and_wait(cx: &Context) -> Boxed<String> {
    let first = form_take(cx, "of who loses".to_owned()).await?;
    form_take(cx, format!("slow after {first}")).await?;
    std::future::pending().await
}

async fn after_a_while(cx: &Context) -> Boxed<String> {
    let won = form_take(cx, "of who wins".to_owned()).await?;
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(won)
}

#[workflow]
async fn form_race(cx: &Context, n: u32) -> Boxed<String> {
    let before = form_take(cx, thing("before", n)).await?;
    let won = race!(two_and_wait(cx), after_a_while(cx)).await?;
    form_over().await?;
    Ok(won + &before)
}

async fn one_and_fails(cx: &Context) -> Boxed<String> {
    form_take(cx, "of who fails".to_owned()).await?;
    Err("no".into())
}

#[workflow]
async fn form_fallback(cx: &Context, n: u32) -> Boxed<String> {
    let first = fallback!(one_and_fails(cx), form_take(cx, "instead".to_owned())).await?;
    let limited = timeout!("5s", form_take(cx, thing("limited", n))).await?;
    form_over().await?;
    Ok(first + &limited)
}

async fn one_more(cx: &Context, so_far: u32) -> Boxed<u32> {
    form_take(cx, thing("round", so_far)).await?;
    Ok(so_far + 1)
}

#[workflow]
async fn form_repeat(cx: &Context, n: u32) -> Boxed<u32> {
    let rounds =
        repeat!(0, |so_far| one_more(cx, so_far), until = |so_far| *so_far > 2, max = 9).await?;
    form_over().await?;
    Ok(rounds + n)
}

#[workflow]
async fn form_below(cx: &Context, n: u32) -> Boxed<usize> {
    let whole = form_take_all(cx, vec![thing("a", n), thing("b", n)], false).await?;
    let inner = form_for(cx, n).await?;
    Ok(whole + inner as usize)
}

/// The calls and compensations of a run, read from its journal.
#[derive(Default)]
struct Told {
    /// By path: the tool, its arguments, and the idempotency key, which all attempts share.
    calls: HashMap<StepPath, (String, Value, String)>,
    /// Completed calls with a compensation, in the order of their ends.
    done: Vec<StepPath>,
    undone: Vec<StepPath>,
}

impl Told {
    fn by(events: &[Event]) -> Self {
        let mut told = Self::default();
        for Event { path, kind, .. } in events {
            match kind {
                EventKind::ToolStarted { call, .. } => {
                    let arguments = serde_json::from_str(&call.arguments).unwrap();
                    told.calls
                        .insert(path.clone(), (call.name.clone(), arguments, call.id.clone()));
                }
                EventKind::ToolCompleted { .. } if path.to_string().contains("/undo#1/") => {
                    told.undone.push(path.clone());
                }
                EventKind::ToolCompleted { .. } if told.calls[path].0.starts_with("form_take") => {
                    told.done.retain(|done| done != path);
                    told.done.push(path.clone());
                }
                _ => {}
            }
        }
        told
    }

    /// Returns the effect of a compensation.
    fn deed(&self, path: &StepPath) -> String {
        let (tool, arguments, _) = &self.calls[path];
        match tool.as_str() {
            "form_put_back" => format!("put back {}", arguments["what"].as_str().unwrap()),
            _ => {
                let things: Vec<&str> = arguments["things"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| one.as_str().unwrap())
                    .collect();
                format!("put all back {}", things.join(" "))
            }
        }
    }

    /// Predicts the compensations with a naive rule: all completed calls, last first, except calls
    /// within another completed call.
    fn to_undo(&self) -> Vec<String> {
        let made_at = |done: &StepPath, at: &StepPath| {
            self.calls.get(at).is_some_and(|at| at.2 == self.calls[done].2)
        };
        let parents = |path: &StepPath| std::iter::successors(path.parent(), StepPath::parent);
        let below = |path: &StepPath| {
            parents(path).any(|at| self.done.iter().any(|done| made_at(done, &at)))
        };
        let undone = self.done.iter().rev().filter(|path| !below(path));
        undone.map(|path| path.to_string()).collect()
    }
}

fn runtime(store: &MemoryStore, deeds: &Deeds) -> Runtime {
    test_runtime().store(store.clone()).resource(deeds.clone()).build()
}

/// Runs the workflow, and resumes it from each prefix of its journal. Checks that each effect is
/// undone once, in the predicted order, and that only the calls in `named` are reported as not
/// undone. Returns the compensations of the first run.
async fn assert_undone_once(
    flow: &Workflow<(u32,), impl NodeValue>,
    named: &[&str],
) -> Vec<String> {
    let (store, deeds, id) = (MemoryStore::new(), Deeds::default(), RunId::new("r"));
    let first = runtime(&store, &deeds);
    let run = first.start(flow.clone(), 5_u32).run_id(id.clone()).compensate().await.unwrap();
    assert!(run.result().await.is_err());
    let whole = first.run(&id).journal().await.unwrap();
    let undid = check(&first, &id, &[], deeds.take(), named).await;
    for kept in 1..whole.len() {
        let store = MemoryStore::new();
        store.create(&id, whole[..kept].to_vec()).await.unwrap();
        let next = runtime(&store, &deeds);
        let _ = next.run(&id).resume_as(flow).await.unwrap().result().await;
        check(&next, &id, &whole[..kept], deeds.take(), named).await;
    }
    undid
}

/// Compares a finished run with its journal. `prefix` contains the events of an earlier process,
/// and `deeds` the effects in this process.
async fn check(
    runtime: &Runtime,
    id: &RunId,
    prefix: &[Event],
    deeds: Vec<String>,
    named: &[&str],
) -> Vec<String> {
    let events = runtime.run(id).journal().await.unwrap();
    let what = || format!("after {} events:\n{}", prefix.len(), trace(&events).join("\n"));
    check_events(&events).unwrap_or_else(|bad| panic!("{bad}, {}", what()));
    let (told, before) = (Told::by(&events), Told::by(prefix));
    let undone_at = told.undone.iter().map(|path| path.to_string());
    let undone_at: Vec<String> =
        undone_at.map(|path| path.split("/undo#1/").next().unwrap().to_owned()).collect();
    assert_eq!(undone_at, told.to_undo(), "{}", what());
    // The actual effects, each once.
    let earlier = before.undone.iter().map(|path| before.deed(path));
    let really: Vec<String> =
        earlier.chain(deeds.into_iter().filter(|deed| deed.starts_with("put"))).collect();
    let recorded: Vec<String> = told.undone.iter().map(|path| told.deed(path)).collect();
    assert_eq!(really, recorded, "{}", what());
    let report = runtime.run(id).inspect().await.unwrap().compensation.unwrap();
    let left = report.calls.iter().filter(|call| call.status == UndoStatus::NotUndone);
    let left: Vec<&str> = left.map(|call| call.path.as_str()).collect();
    assert_eq!(left, named, "{}", what());
    recorded
}

macro_rules! forms {
    ($($name:ident $(names $named:literal)*: [$($undid:literal),*];)*) => {
        #[tokio::test(start_paused = true)]
        async fn each_form_is_undone_after_a_crash_at_every_event() {
            $(
                let undid = assert_undone_once(&$name::workflow(), &[$($named),*]).await;
                let expected: &[&str] = &[$(concat!("put ", $undid)),*];
                assert_eq!(undid, expected, "{}", stringify!($name));
            )*
        }
    };
}

forms! {
    form_if: ["back second after first after before", "back first after before", "back before"];
    form_if_fails_within: ["back first after before", "back before"];
    form_match: ["back second after first5", "back first5"];
    form_for: ["back first3", "back first2", "back more of first1", "back first1", "back first0"];
    form_map: [
        "back second after first4", "back first4", "back second after first3", "back first3",
        "back second after first2", "back first2", "back second after first1", "back first1",
        "back second after first0", "back first0"
    ];
    form_race names "won/two_and_wait/tool#2.form_take": ["back of who wins", "back of who loses", "back before5"];
    form_fallback: ["back limited5", "back instead", "back of who fails"];
    form_repeat: ["back round2", "back round1", "back round0"];
    form_below: [
        "back first3", "back first2", "back more of first1", "back first1", "back first0", "all back a5 b5"
    ];
}

/// Wins the race after the other branch was interrupted and has failed.
async fn late() -> Boxed<u32> {
    tokio::time::sleep(Duration::from_secs(600)).await;
    Ok(0)
}

async fn dug(cx: &Context, holes: u32) -> Boxed<u32> {
    Ok(undone_dig(cx, cx.inject()?, holes).await)
}

/// Calls and compensations that must not be repeated.
#[workflow]
async fn form_holes(cx: &Context, n: u32) -> Boxed<u32> {
    let first = if n > 3 { undone_dig(cx, cx.inject()?, n).await } else { 0 };
    for at in 0..2 {
        undone_dig(cx, cx.inject()?, at).await;
    }
    let all = map!(vec![3, 4], |at| undone_dig(cx, cx.inject()?, at)).await?;
    let won = race!(dug(cx, 6), late()).await?;
    let last = match first {
        5 => undone_dig(cx, cx.inject()?, 7).await,
        _ => 0,
    };
    form_over().await?;
    Ok(all[0] + won + last)
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_repeats_nothing_that_may_not_be_repeated() {
    let effects = EffectLog::new();
    let given = effects.clone();
    let report = CrashTest::new(&form_holes::workflow(), || 5)
        .compensating()
        .fails()
        .may_differ_when_interrupted()
        .effects(&effects)
        .runtime(move |runtime| runtime.resource(given.clone()))
        .run()
        .await;
    let undone = report.steps().filter(|(path, _)| path.ends_with("undo#1/tool#1.undone_fill"));
    assert!(undone.count() >= 7 && report.crashes() > 50, "{report}");
}

/// A part of a random program.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
enum Op {
    Take(String),
    Look(u32),
    Fail,
    All(Vec<String>, bool),
    Inner(Vec<Op>),
    Arm(bool, Vec<Op>),
}

#[workflow]
async fn form_program(cx: &Context, ops: Vec<Op>) -> Boxed<u32> {
    for op in ops {
        match op {
            Op::Take(what) => {
                form_take(cx, what).await?;
            }
            Op::Look(n) => {
                form_look(n).await;
            }
            Op::Fail => {
                form_over().await?;
            }
            Op::All(things, fails) => {
                form_take_all(cx, things, fails).await?;
            }
            Op::Inner(ops) => {
                form_program(cx, ops).await?;
            }
            Op::Arm(taken, ops) => {
                if taken {
                    form_program(cx, ops).await?;
                } else {
                    form_look(0).await;
                }
            }
        }
    }
    Ok(0)
}

/// Collects the compensations of a program in the order of its calls. Returns an error if the
/// program fails.
fn walk(ops: &[Op], undoes: &mut Vec<String>) -> Result<(), ()> {
    for op in ops {
        match op {
            Op::Take(what) => undoes.push(format!("put back {what}")),
            Op::Look(_) => {}
            Op::Fail => return Err(()),
            Op::All(things, false) => undoes.push(format!("put all back {}", things.join(" "))),
            Op::All(things, true) => {
                undoes.extend(things.iter().map(|what| format!("put back {what}")));
                return Err(());
            }
            Op::Inner(ops) => walk(ops, undoes)?,
            Op::Arm(taken, ops) => {
                if *taken {
                    walk(ops, undoes)?;
                }
            }
        }
    }
    Ok(())
}

/// Gives each thing a unique name.
fn name(ops: &mut [Op], next: &mut u32) {
    for op in ops {
        let mut named = || {
            *next += 1;
            thing("t", *next)
        };
        match op {
            Op::Take(what) => *what = named(),
            Op::All(things, _) => things.iter_mut().for_each(|what| *what = named()),
            Op::Look(_) | Op::Fail => {}
            Op::Inner(ops) | Op::Arm(_, ops) => name(ops, next),
        }
    }
}

fn programs() -> impl Strategy<Value = Vec<Op>> {
    let leaf = prop_oneof![
        6 => Just(Op::Take(String::new())),
        2 => (0..9_u32).prop_map(Op::Look),
        1 => Just(Op::Fail),
        2 => (1..4_usize, prop::bool::weighted(0.2)).prop_map(|(n, fails)| Op::All(vec![String::new(); n], fails)),
    ];
    let op = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Op::Inner),
            (any::<bool>(), prop::collection::vec(inner, 0..4))
                .prop_map(|(taken, ops)| Op::Arm(taken, ops)),
        ]
    });
    prop::collection::vec(op, 1..6).prop_map(|mut ops| {
        name(&mut ops, &mut 0);
        ops.push(Op::Fail);
        ops
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_program_is_undone_as_the_reference_says(ops in programs(), cut in any::<prop::sample::Index>()) {
        let mut undoes = Vec::new();
        let _ = walk(&ops, &mut undoes);
        undoes.reverse();
        let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        paused.block_on(async {
            let (store, deeds, id) = (MemoryStore::new(), Deeds::default(), RunId::new("r"));
            let first = runtime(&store, &deeds);
            let run = first.start(form_program::workflow(), ops).run_id(id.clone()).compensate().await.unwrap();
            assert!(run.result().await.is_err());
            let whole = first.run(&id).journal().await.unwrap();
            assert_eq!(check(&first, &id, &[], deeds.take(), &[]).await, undoes);
            // Resuming from a prefix of the journal undoes the same calls.
            let kept = 1 + cut.index(whole.len() - 1);
            let store = MemoryStore::new();
            store.create(&id, whole[..kept].to_vec()).await.unwrap();
            let next = runtime(&store, &deeds);
            let _ = next.run(&id).resume().await.unwrap().result().await;
            assert_eq!(check(&next, &id, &whole[..kept], deeds.take(), &[]).await, undoes);
        });
    }
}
