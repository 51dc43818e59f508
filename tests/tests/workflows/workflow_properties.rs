//! Random workflows have the result of a sequential evaluation, live and when resumed from every
//! cut of their journal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::EventSink;
use agentflow::store::{MemoryStore, RunRecord, Store, StoreErrorKind};
use agentflow::workflow::{Builder, Handle, Node, NodePolicy, OnError, RetryPolicy, StopPolicy};
use agentflow::{Error, Event, Runtime, Workflow};
use agentflow_testing::{check_events, test_runtime, trace};
use proptest::prelude::*;

type Step<T> = Result<T, String>;

/// A node of a random workflow. It reads at most three earlier nodes.
#[derive(Clone, Debug)]
struct Plan {
    reads: Vec<prop::sample::Index>,
    millis: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Value,
    Step(StepBehavior),
    Map { items: u32, at_once: u32, fate: StepBehavior },
    Route { first: StepBehavior, second: StepBehavior },
}

/// Number of failures and retries of a step, and the effect of its final failure on the run.
#[derive(Clone, Copy, Debug)]
struct StepBehavior {
    fails: u32,
    retries: u32,
    skip: bool,
}

#[derive(Clone, Debug)]
struct Whole {
    plans: Vec<Plan>,
    at_once: usize,
    stop: StopPolicy,
}

impl StepBehavior {
    fn succeeds(self) -> bool {
        self.fails <= self.retries
    }

    fn policy(self) -> NodePolicy {
        let mut retry = RetryPolicy::retries(self.retries);
        retry.backoff_ms = 20;
        let on_error = if self.skip { OnError::Skip } else { OnError::Fail };
        NodePolicy::default().retry_policy(retry).on_error(on_error)
    }

    async fn run(self, attempt: u32, millis: u64, output: u32) -> Step<u32> {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        // A crash uses up an attempt without a failure. A step that should fail for good therefore
        // fails at every attempt.
        match attempt <= self.fails || !self.succeeds() {
            true => Err("it failed".to_owned()),
            false => Ok(output),
        }
    }
}

/// Computes the output of a node from its inputs.
fn mix(at: usize, inputs: &[u32]) -> u32 {
    inputs.iter().fold(at as u32 + 1, |sum, input| sum.wrapping_mul(31).wrapping_add(*input)) % 1000
}

fn reads_of(plan: &Plan, at: usize) -> Vec<usize> {
    // Node 0 is the input.
    plan.reads.iter().map(|index| index.index(at)).collect()
}

/// Evaluates the workflow sequentially, without a journal or time. Returns `None` if the run fails.
fn evaluate(whole: &Whole, input: u32) -> Option<u32> {
    let mut outputs = vec![Some(input)];
    let mut failed = false;
    let mut attempt = |fate: StepBehavior, output: u32| {
        failed |= !fate.succeeds() && !fate.skip;
        fate.succeeds().then_some(output)
    };
    for (at, plan) in whole.plans.iter().enumerate() {
        let reads: Option<Vec<u32>> =
            reads_of(plan, at + 1).into_iter().map(|read| outputs[read]).collect();
        let output = reads.and_then(|inputs| {
            let mixed = mix(at, &inputs);
            match plan.kind {
                Kind::Value => Some(mixed),
                Kind::Step(fate) => attempt(fate, mixed),
                Kind::Map { items, fate, .. } => match items {
                    0 => Some(0),
                    // The node fails with its first item.
                    _ => attempt(fate, (0..items).map(|item| mixed + item).sum()),
                },
                Kind::Route { first, second } => match mixed % 2 {
                    0 => attempt(first, mixed + 1),
                    _ => attempt(second, mixed + 2).map(|output| output * 2),
                },
            }
        });
        outputs.push(output);
    }
    if failed { None } else { outputs.pop().flatten() }
}

/// Adds a value that combines the inputs of a node.
fn inputs(b: &mut Builder, at: usize, reads: &[Handle<u32>]) -> Handle<u32> {
    let name = format!("in{at}");
    match *reads {
        [] => b.value(name, (), move |()| Step::Ok(mix(at, &[]))),
        [x] => b.value(name, (x,), move |(x,)| Step::Ok(mix(at, &[x]))),
        [x, y] => b.value(name, (x, y), move |(x, y)| Step::Ok(mix(at, &[x, y]))),
        [x, y, z, ..] => b.value(name, (x, y, z), move |(x, y, z)| Step::Ok(mix(at, &[x, y, z]))),
    }
}

fn build(whole: &Whole) -> Workflow<(u32,), u32> {
    Workflow::build("random", ["n"], |b, (n,)| {
        b.concurrency(whole.at_once);
        b.stop_policy(whole.stop);
        let mut handles = vec![n];
        for (at, plan) in whole.plans.iter().enumerate() {
            let reads: Vec<Handle<u32>> =
                reads_of(plan, at + 1).into_iter().map(|read| handles[read]).collect();
            let mixed = inputs(b, at, &reads);
            let millis = plan.millis;
            let step =
                |b: &mut Builder, name: &str, fate: StepBehavior, more: u32| -> Handle<u32> {
                    b.node(Node::new(name).policy(fate.policy()), (mixed,), move |cx, (n,)| {
                        fate.run(cx.attempt(), millis, n + more)
                    })
                };
            let name = format!("n{at}");
            handles.push(match plan.kind {
                Kind::Value => mixed,
                Kind::Step(fate) => step(b, &name, fate, 0),
                Kind::Map { items, at_once, fate } => {
                    let list = b.value(format!("list{at}"), (), move |()| {
                        Step::Ok((0..items).collect::<Vec<_>>())
                    });
                    let policy = fate.policy().concurrency(at_once);
                    let mapped = b.map(
                        Node::new(&*name).policy(policy),
                        list,
                        (mixed,),
                        move |cx, item, (n,)| {
                            fate.run(cx.attempt(), millis * u64::from(item % 2), n + item)
                        },
                    );
                    b.value(format!("sum{at}"), (mapped,), |(all,)| {
                        Step::Ok(all.iter().sum::<u32>())
                    })
                }
                Kind::Route { first, second } => {
                    let router = b.route(&*name, ["even", "odd"], (mixed,), |(n,)| {
                        Step::Ok((n % 2) as usize)
                    });
                    let even = b.arm(router, 0, |b| step(b, "x", first, 1));
                    let odd = b.arm(router, 1, |b| {
                        let y = step(b, "y", second, 2);
                        b.value("twice", (y,), |(n,)| Step::Ok(n * 2))
                    });
                    b.join(router, [even, odd])
                }
            });
        }
        handles.pop().unwrap_or(n)
    })
    .unwrap()
}

fn fates() -> impl Strategy<Value = StepBehavior> {
    let fails = prop_oneof![8 => Just(0), 2 => 1..3_u32, 1 => Just(9)];
    (fails, 0..3_u32, any::<bool>()).prop_map(|(fails, retries, skip)| StepBehavior {
        fails,
        retries,
        skip,
    })
}

fn wholes(most: usize) -> impl Strategy<Value = Whole> {
    let kinds = prop_oneof![
        1 => Just(Kind::Value),
        4 => fates().prop_map(Kind::Step),
        1 => (0..4_u32, 1..3_u32, fates()).prop_map(|(items, at_once, fate)| Kind::Map { items, at_once, fate }),
        2 => (fates(), fates()).prop_map(|(first, second)| Kind::Route { first, second }),
    ];
    let reads = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    let plans =
        (reads, 0..30_u64, kinds).prop_map(|(reads, millis, kind)| Plan { reads, millis, kind });
    let stops = prop_oneof![Just(StopPolicy::FailFast), Just(StopPolicy::BestEffort)];
    (prop::collection::vec(plans, 1..most), 1..5_usize, stops)
        .prop_map(|(plans, at_once, stop)| Whole { plans, at_once, stop })
}

/// Runs a test with a paused clock and a limit on its duration.
fn paused<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(24 * 3600), test).await.expect("the run hangs")
    })
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Event>>>);

impl EventSink for Seen {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn runtime(store: &MemoryStore) -> Runtime {
    test_runtime().store(store.clone()).build()
}

/// Computes the state from a journal.
fn fold(events: &[Event]) -> RunRecord {
    let mut record = RunRecord::new(&events[0]).unwrap();
    events.iter().for_each(|event| record.apply(event));
    record
}

/// Returns the output, or `None` for a failed run. Other errors fail the test.
fn outcome(result: Result<u32, Error>) -> Option<u32> {
    match result {
        Ok(output) => Some(output),
        Err(Error::Node { .. } | Error::Recorded(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_workflow_is_its_sequential_evaluation(whole in wholes(12), input in 0..50_u32) {
        let flow = build(&whole);
        let expected = evaluate(&whole, input);
        let (events, output) = paused(async {
            let seen = Seen::default();
            let runtime = test_runtime().sink(seen.clone()).build();
            let output = outcome(flow.run(&runtime, input).await);
            (std::mem::take(&mut *seen.0.lock().unwrap()), output)
        });
        prop_assert_eq!(output, expected, "{:#?}", trace(&events));
        prop_assert_eq!(check_events(&events), Ok(()));
    }

    #[test]
    fn every_prefix_of_its_journal_resumes_to_the_same(whole in wholes(6), input in 0..50_u32) {
        let flow = build(&whole);
        let expected = evaluate(&whole, input);
        paused(async {
            let store = MemoryStore::new();
            let handle = runtime(&store).start(flow.clone(), input).await.unwrap();
            assert_eq!(outcome(handle.result().await), expected);
            let run = handle.run_id().clone();
            let events = handle.recorded();
            for cut in 1..events.len() {
                let store = MemoryStore::new();
                store.create(&run, events[..cut].to_vec()).await.unwrap();
                let handle = runtime(&store).run(&run).resume_as(&flow).await.unwrap();
                let output = outcome(handle.result().await);
                let all = handle.recorded();
                assert_eq!(output, expected, "cut after {cut}: {:#?}", trace(&all));
                assert_eq!(check_events(&all), Ok(()), "cut after {cut}: {:#?}", trace(&all));
                let done = |event: &&Event| event.name() == "workflow.node.completed";
                for completed in events[..cut].iter().filter(done) {
                    let again = |event: &Event| event.name() == "workflow.node.started" && event.path == completed.path;
                    assert!(!all[cut..].iter().any(again), "`{}` ran again after {cut}", completed.path);
                }
            }
        });
    }

    #[test]
    fn folding_the_events_gives_the_state(whole in wholes(8), input in 0..50_u32, pause_at in 0..100_u64) {
        let flow = build(&whole);
        paused(async {
            let store = MemoryStore::new();
            let seen = Seen::default();
            let runtime = test_runtime().store(store.clone()).sink(seen.clone()).build();
            let handle = runtime.start(flow, input).await.unwrap();
            let run = handle.run_id().clone();
            tokio::time::sleep(Duration::from_millis(pause_at)).await;
            if handle.pause().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let events = store.read(&run, 0, usize::MAX).await.unwrap();
                assert_eq!(store.record(&run).await.unwrap(), Some(fold(&events)));
                handle.unpause().await.unwrap();
            }
            let _ = handle.result().await;
            let events = store.read(&run, 0, usize::MAX).await.unwrap();
            assert_eq!(store.record(&run).await.unwrap(), Some(fold(&events)));
            assert_eq!(handle.recorded(), events);
            assert_eq!(runtime.run(&run).journal().await.unwrap(), events);
            assert_eq!(*seen.0.lock().unwrap(), events);
            assert_eq!(check_events(&events), Ok(()));
        });
    }

    #[test]
    fn two_drivers_never_both_commit(whole in wholes(8), input in 0..50_u32, moment in 0..60_u64) {
        let flow = build(&whole);
        let expected = evaluate(&whole, input);
        paused(async {
            let store = MemoryStore::new();
            let first = runtime(&store).start(flow.clone(), input).await.unwrap();
            let run = first.run_id().clone();
            tokio::time::sleep(Duration::from_millis(moment)).await;
            if store.record(&run).await.unwrap().unwrap().status.has_ended() {
                return;
            }
            let second = runtime(&store.as_another_process()).run(&run).resume_as(&flow).await;
            if store.record(&run).await.unwrap().unwrap().status.has_ended() && second.is_err() {
                // The run ended while it was being opened.
                return;
            }
            let second = second.unwrap();
            let (one, two) = (first.result().await, second.result().await);
            match one {
                Err(Error::Store(error)) => {
                    assert_eq!(error.kind(), StoreErrorKind::Fenced);
                    let text = format!(
                        "the run `{run}` was resumed by another writer; this one has stopped and has written nothing \
                         since"
                    );
                    assert_eq!(error.to_string(), text);
                }
                other => panic!("the first one was not fenced: {other:?}"),
            }
            assert_eq!(outcome(two), expected);
            let events = store.read(&run, 0, usize::MAX).await.unwrap();
            assert_eq!(events, second.recorded());
            assert_eq!(check_events(&events), Ok(()));
        });
    }
}
