//! A check holds back the actions below it, wherever it is: in a loop, in the body of a form, in an
//! arm. Each body is written once, as a plain `async fn` and as a `#[workflow]`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::store::MemoryStore;
use agentflow_testing::test_runtime;
use tokio::time::sleep;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Expands the same body twice, with effects below it. In the workflow one of them is unordered.
macro_rules! twin {
    ($plain:ident, $flow:ident, ($($input:ident: $ty:ty),*) { $($body:tt)* }) => {
        twin!($plain, $flow, ($($input: $ty),*) { $($body)* } as { $($body)* });
    };
    ($plain:ident, $flow:ident, ($($input:ident: $ty:ty),*) { $($of_plain:tt)* } as { $($body:tt)* }) => {
        async fn $plain($($input: $ty),*) -> Result<u32, Failed> {
            $($of_plain)*
            let sent = send(1).await;
            let seen = look(2).await?;
            assert!(seen == 2, "{seen}");
            note("checked".to_owned());
            Ok(sent + seen)
        }

        #[workflow]
        async fn $flow($($input: $ty),*) -> Result<u32, Failed> {
            $($body)*
            #[node(unordered)]
            let sent = send(1).await;
            let seen = look(2).await?;
            assert!(seen == 2, "{seen}");
            note("checked".to_owned());
            Ok(sent + seen)
        }
    };
}

tokio::task_local! {
    static EFFECTS: Arc<Mutex<Vec<String>>>;
}

fn note(what: String) {
    // Steps are polled in the task of their run.
    let _ = EFFECTS.try_with(|effects| effects.lock().unwrap().push(what));
}

async fn noted<T>(run: impl Future<Output = T>) -> (T, Vec<String>) {
    let effects = Arc::<Mutex<Vec<String>>>::default();
    let output = EFFECTS.scope(Arc::clone(&effects), run).await;
    let all = effects.lock().unwrap().clone();
    (output, all)
}

/// Reads slowly.
async fn load(n: u32) -> Result<u32, Failed> {
    sleep(Duration::from_secs(1)).await;
    Ok(n)
}

/// Reads at once and records it.
async fn look(n: u32) -> Result<u32, Failed> {
    note(format!("look {n}"));
    Ok(n)
}

/// Writes at once.
#[tool]
async fn send(n: u32) -> u32 {
    note(format!("send {n}"));
    n
}

fn small(n: u32) -> Result<u32, Failed> {
    if n > 9 { Err(format!("{n} is large").into()) } else { Ok(n) }
}

twin!(of_loop, of_loop_flow, (list: Vec<u32>) {
    for n in list {
        let loaded = load(n).await?;
        let _ = small(loaded)?;
    }
});

twin!(of_loop_in_one_step, of_loop_in_one_step_flow, (list: Vec<u32>) {
    for n in list {
        let loaded = load(n).await?;
        if loaded == 0 {
            continue;
        }
        small(loaded)?;
    }
});

twin!(of_nested_loop, of_nested_loop_flow, (list: Vec<u32>) {
    for n in list {
        for m in [n, n + 1] {
            let loaded = load(m).await?;
            if loaded > 10 {
                return Err("large".into());
            }
        }
    }
});

twin!(of_arm, of_arm_flow, (list: Vec<u32>) {
    let all: u32 = list.iter().sum();
    if all > 9 {
        let loaded = load(all).await?;
        let _ = small(loaded)?;
    }
});

twin!(of_end_of_arm, of_end_of_arm_flow, (list: Vec<u32>) {
    let all = load(list.iter().sum()).await?;
    if all > 9 {
        load(all).await?;
        return Err("large".into());
    }
});

twin!(of_else, of_else_flow, (list: Vec<u32>) {
    let all = load(list.iter().sum()).await?;
    let _more = match all {
        0..=9 => load(all).await?,
        _ => return Err("large".into()),
    };
});

// Forms exist only in workflows; the plain twin has the equivalent loop.
twin!(of_map, of_map_flow, (list: Vec<u32>) {
    for n in list {
        let loaded = load(n).await?;
        let _ = small(loaded)?;
    }
} as {
    let _all = map!(list, |n| {
        let loaded = load(n).await?;
        let _ = small(loaded)?;
        loaded
    })
    .await?;
});

twin!(of_round, of_round_flow, (list: Vec<u32>) {
    let loaded = load(list[1]).await?;
    let _ = small(loaded)?;
} as {
    let last = list[1];
    let _last = repeat!(last, |n| {
        let loaded = load(n).await?;
        let _ = small(loaded)?;
        loaded
    }, max = 1)
    .await?;
});

/// The failure of a branch is not the failure of its `race!`: later statements wait for the race
/// and run after it.
#[workflow]
async fn of_branch() -> Result<u32, Failed> {
    let first = race!(
        {
            let loaded = load(12).await?;
            let _ = small(loaded)?;
            loaded
        },
        {
            let loaded = load(3).await?;
            note("loaded".to_owned());
            let _ = small(loaded)?;
            loaded
        }
    )
    .await?;
    #[node(unordered)]
    let sent = send(1).await;
    Ok(first + sent)
}

#[tokio::test(start_paused = true)]
async fn a_check_in_a_branch_holds_back_what_is_below() {
    let (output, effects) = noted(of_branch()).await;
    assert_eq!(output.unwrap(), 4);
    assert_eq!(effects, ["loaded", "send 1"]);
}

/// A check in any nested body holds back a read, a check and an unordered write.
#[tokio::test(start_paused = true)]
async fn a_check_in_a_nested_body_holds_back_what_is_below() {
    macro_rules! compare {
        ($($plain:ident $flow:ident),*) => {$({
            let (plain, nothing) = noted($plain(vec![1, 12])).await;
            let (flow, effects) = noted($flow(vec![1, 12])).await;
            assert_eq!(plain.unwrap_err().to_string(), flow.unwrap_err().to_string(), stringify!($plain));
            assert_eq!((&nothing[..], &effects[..]), (&[] as &[String], &[] as &[String]), stringify!($plain));
            let (plain, effects) = noted($plain(vec![1, 2])).await;
            let (flow, mut of_flow) = noted($flow(vec![1, 2])).await;
            assert_eq!(plain.unwrap(), flow.unwrap(), stringify!($plain));
            of_flow[..2].sort_by_key(|effect| effect.contains("look"));
            assert_eq!(effects, of_flow, stringify!($plain));
        })*};
    }
    compare!(
        of_loop of_loop_flow,
        of_loop_in_one_step of_loop_in_one_step_flow,
        of_nested_loop of_nested_loop_flow,
        of_arm of_arm_flow,
        of_end_of_arm of_end_of_arm_flow,
        of_else of_else_flow,
        of_map of_map_flow,
        of_round of_round_flow
    );
}

#[workflow]
async fn asked_in_a_loop(list: Vec<u32>) -> Result<u32, Failed> {
    for n in list {
        let answer = gate!("send {n}?").await?;
        let _ = allowed(&answer)?;
    }
    #[node(unordered)]
    let sent = send(1).await;
    let seen = look(2).await?;
    Ok(sent + seen)
}

fn allowed(answer: &Approval) -> Result<(), Failed> {
    if matches!(answer, Approval::Granted { .. }) { Ok(()) } else { Err("denied".into()) }
}

#[tokio::test(start_paused = true)]
async fn nothing_below_a_gate_in_a_loop_begins_before_the_answer() {
    let graph = asked_in_a_loop::workflow().graph();
    let order = |node: &str| graph.node(node).unwrap().order.clone();
    assert_eq!(
        order("sent").iter().map(|edge| edge.reason.as_str()).collect::<Vec<_>>(),
        ["gate"],
        "{graph:#?}"
    );
    assert_eq!(order("seen"), order("sent"));
    let (output, effects) = noted(async {
        let runtime = test_runtime().store(MemoryStore::new()).build();
        let handle = runtime.start(asked_in_a_loop::workflow(), vec![7]).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        note("answer".to_owned());
        let asked = handle.run_id().clone();
        runtime.run(&asked).approve("for[0]/answer", Approval::granted(), "ada").await.unwrap();
        handle.result().await
    })
    .await;
    assert_eq!(output.unwrap(), 3);
    assert_eq!(effects, ["answer"], "a run of its own task notes nothing here");
}

/// Two workflows that call each other. In either build order, both are known to contain a check.
#[workflow]
async fn even(n: u32) -> Result<u32, Failed> {
    let _ = small(n)?;
    let other = if n == 0 { 0 } else { odd(n - 1).await? };
    #[node(unordered)]
    let sent = send(other).await;
    Ok(sent)
}

#[workflow]
async fn odd(n: u32) -> Result<u32, Failed> {
    let other = Box::pin(even(n)).await?;
    Ok(other)
}

#[test]
fn workflows_that_call_each_other_can_be_built() {
    let graph = even::workflow().graph();
    let graph_of_odd = odd::workflow().graph();
    assert_eq!(graph.hash(), even::workflow().graph().hash());
    assert!(graph_of_odd.node("other").unwrap().writes);
}

async fn refuses() -> Result<u32, Failed> {
    Err("nobody answers".into())
}

fn check(seen: u32) -> Result<(), Failed> {
    if seen == 1 { Ok(()) } else { Err("another one".into()) }
}

#[workflow(stop = best_effort)]
async fn checks_what_failed() -> Result<u32, Failed> {
    let asked = refuses().await?;
    check(asked)?;
    #[node(unordered)]
    let sent = send(1).await;
    Ok(sent)
}

#[tokio::test(start_paused = true)]
async fn a_check_that_cannot_run_holds_back_what_is_below_it() {
    // No action below the failed check starts.
    let (ended, effects) = noted(checks_what_failed()).await;
    assert_eq!(ended.unwrap_err().to_string(), "nobody answers");
    assert_eq!(effects, Vec::<String>::new());
}

#[workflow]
async fn checks_in_a_value(n: u32) -> Result<u32, Failed> {
    let size = if n > 3 {
        assert!(n < 9, "too many");
        n
    } else {
        0
    };
    let seen = look(size + 2).await?;
    #[node(unordered)]
    let sent = send(7).await;
    Ok(seen + sent)
}

#[workflow]
async fn checks_in_a_step(n: u32) -> Result<u32, Failed> {
    let size = {
        let loaded = load(n).await?;
        check(loaded)?;
        loaded
    };
    #[node(unordered)]
    let sent = send(7).await;
    Ok(size + sent)
}

#[tokio::test(start_paused = true)]
async fn a_check_in_a_block_holds_back_what_is_below_it() {
    let (ended, effects) = noted(checks_in_a_value(20)).await;
    assert!(ended.is_err());
    assert_eq!(effects, Vec::<String>::new());
    let (ended, _) = noted(checks_in_a_value(5)).await;
    ended.unwrap();
    let (ended, effects) = noted(checks_in_a_step(5)).await;
    assert!(ended.is_err());
    assert!(!effects.contains(&"send 7".to_owned()), "{effects:?}");
}
