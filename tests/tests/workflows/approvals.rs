//! Every call of a tool that needs an approval asks with its own arguments and is made after the
//! answer: in every form of a workflow, with the arguments that a person revised, live and after a
//! crash.

use std::cell::RefCell;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::runtime::OpenQuestion;
use agentflow::store::MemoryStore;
use agentflow::{Result, RunHandle, RunId, Workflow};
use agentflow_testing::{CrashTest, EffectLog, check_events, test_runtime};
use serde_json::json;

thread_local! {
    /// Calls made on the current test's thread.
    static SENT: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

fn sent() -> Vec<u32> {
    SENT.with_borrow(Clone::clone)
}

/// Sends a reminder and returns the next level.
#[tool(approve)]
async fn asks_remind(level: u32) -> Result<u32> {
    SENT.with_borrow_mut(|sent| sent.push(level));
    Ok(level + 1)
}

async fn broken(level: u32) -> Result<u32> {
    Err(agentflow::Error::Lost { reason: format!("no {level}") })
}

async fn stays(level: u32) -> Result<u32> {
    tokio::time::sleep(Duration::from_secs(1_000_000)).await;
    Ok(level)
}

async fn by_helper(level: u32) -> Result<u32> {
    let first = asks_remind(level).await?;
    asks_remind(first * 10).await
}

#[workflow]
async fn asks_directly(level: u32) -> Result<u32> {
    let last = asks_remind(level + 1).await?;
    Ok(last)
}

#[workflow]
async fn asks_at_the_end(level: u32) -> Result<u32> {
    asks_remind(level).await
}

#[workflow]
async fn asks_with_retries(level: u32) -> Result<u32> {
    #[node(retry = 2, timeout = "1m")]
    let last = asks_remind(level).await?;
    Ok(last)
}

#[workflow]
async fn asks_in_rounds(level: u32) -> Result<u32> {
    let last = repeat!(level, |level| asks_remind(level), max = 3).await?;
    Ok(last)
}

#[workflow]
async fn asks_in_rounds_of_several(level: u32) -> Result<u32> {
    let last = repeat!(
        level,
        |level| {
            let twice = level * 2;
            asks_remind(twice).await?
        },
        max = 2
    )
    .await?;
    Ok(last)
}

#[workflow]
async fn asks_for_items(level: u32) -> Result<u32> {
    let levels = vec![level, level + 1, level + 2];
    let all = map!(levels, |level| asks_remind(level)).await?;
    Ok(all.iter().sum())
}

#[workflow]
async fn asks_for_items_of_several(level: u32) -> Result<u32> {
    let levels = vec![level, level + 1];
    let all = map!(levels, |level| {
        let twice = level * 2;
        asks_remind(twice).await?
    })
    .await?;
    Ok(all.iter().sum())
}

#[workflow]
async fn asks_in_a_loop(level: u32) -> Result<u32> {
    for level in [level, level + 1] {
        let _ = asks_remind(level).await?;
    }
    Ok(level)
}

#[workflow]
async fn asks_in_one_step(level: u32) -> Result<u32> {
    let last = {
        let mut next = level;
        while next < level + 2 {
            next = asks_remind(next).await?;
        }
        next
    };
    Ok(last)
}

#[workflow]
async fn asks_in_a_helper(level: u32) -> Result<u32> {
    let last = by_helper(level).await?;
    Ok(last)
}

#[workflow]
async fn asks_twice_in_one(level: u32) -> Result<u32> {
    let both = (asks_remind(level).await?, asks_remind(level + 1).await?);
    Ok(both.0 + both.1)
}

#[workflow]
async fn asks_in_some(level: u32) -> Result<u32> {
    let some = Some(asks_remind(level).await?);
    Ok(some.unwrap_or(0))
}

#[workflow]
async fn asks_in_a_race(level: u32) -> Result<u32> {
    let last = race!(asks_remind(level), stays(level)).await?;
    Ok(last)
}

#[workflow]
async fn asks_in_a_fallback(level: u32) -> Result<u32> {
    let last = fallback!(broken(level), asks_remind(level)).await?;
    Ok(last)
}

#[workflow]
async fn asks_in_time(level: u32) -> Result<u32> {
    let last = timeout!("10s", asks_remind(level)).await?;
    Ok(last)
}

#[workflow]
async fn asks_in_an_arm(level: u32) -> Result<u32> {
    let last = if level > 0 { asks_remind(level).await? } else { 0 };
    Ok(last)
}

#[workflow]
async fn asks_within_another(level: u32) -> Result<u32> {
    let last = asks_in_rounds(level).await?;
    Ok(last)
}

type Flow = Workflow<(u32,), u32>;

/// Returns every way to write the call, with the levels of its questions for the input 1 if all
/// calls are granted.
fn flows() -> Vec<(Flow, Vec<u32>)> {
    vec![
        (asks_directly::workflow(), vec![2]),
        (asks_at_the_end::workflow(), vec![1]),
        (asks_with_retries::workflow(), vec![1]),
        (asks_in_rounds::workflow(), vec![1, 2, 3]),
        (asks_in_rounds_of_several::workflow(), vec![2, 6]),
        (asks_for_items::workflow(), vec![1, 2, 3]),
        (asks_for_items_of_several::workflow(), vec![2, 4]),
        (asks_in_a_loop::workflow(), vec![1, 2]),
        (asks_in_one_step::workflow(), vec![1, 2]),
        (asks_in_a_helper::workflow(), vec![1, 20]),
        (asks_twice_in_one::workflow(), vec![1, 2]),
        (asks_in_some::workflow(), vec![1]),
        (asks_in_a_race::workflow(), vec![1]),
        (asks_in_a_fallback::workflow(), vec![1]),
        (asks_in_time::workflow(), vec![1]),
        (asks_in_an_arm::workflow(), vec![1]),
        (asks_within_another::workflow(), vec![1, 2, 3]),
    ]
}

const PATIENCE: Duration = Duration::from_secs(3600);

/// Returns the next question, or `None` if the run has ended.
async fn asked<T>(run: &RunHandle<T>) -> Option<OpenQuestion> {
    tokio::time::timeout(PATIENCE, run.asked()).await.expect("it asks or ends").unwrap()
}

/// Answers every question of a run with `answer`. Returns the levels of the questions, in their order.
async fn answered(
    flow: &Flow,
    answer: impl Fn(usize, u32) -> Approval,
) -> (Vec<u32>, Result<u32>, Vec<agentflow::Event>) {
    SENT.with_borrow_mut(Vec::clear);
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store).build();
    let run = runtime.start(flow.clone(), 1).await.unwrap();
    let mut levels = Vec::new();
    while let Some(question) = asked(&run).await {
        let about: serde_json::Value = question.about.decode().unwrap();
        let level = u32::try_from(about["level"].as_u64().unwrap()).unwrap();
        assert_eq!(
            question.message,
            format!("call `asks_remind(level: {level})`?"),
            "{}",
            flow.name()
        );
        let made = sent();
        // If calls ask concurrently, granted ones may have been made already.
        assert!(
            made.len() <= levels.len(),
            "{}: {made:?} before the answer about {level}",
            flow.name()
        );
        let answer = answer(levels.len(), level);
        levels.push(level);
        run.approve(&question.path, answer, "ada").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let ended = tokio::time::timeout(PATIENCE, run.result()).await.expect("it ends");
    let events = runtime.run(run.run_id()).journal().await.unwrap();
    check_events(&events).unwrap();
    (levels, ended, events)
}

#[tokio::test(start_paused = true)]
async fn each_call_asks_with_its_own_arguments_before_it_is_made() {
    for (flow, expected) in flows() {
        let (levels, ended, _) = answered(&flow, |_, _| Approval::granted()).await;
        ended.unwrap_or_else(|error| panic!("{}: {error}", flow.name()));
        assert_eq!((levels, sent()), (expected.clone(), expected), "{}", flow.name());
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_may_change_the_arguments_of_each_call() {
    for (flow, expected) in flows() {
        let changed = |at: usize, level: u32| match at {
            0 => Approval::granted_with(json!({"level": 100})),
            _ => Approval::granted_with(json!({"level": level})),
        };
        let (levels, ended, _) = answered(&flow, changed).await;
        ended.unwrap_or_else(|error| panic!("{}: {error}", flow.name()));
        assert_eq!(levels[0], expected[0], "{}", flow.name());
        assert_eq!(sent()[0], 100, "{}", flow.name());
        assert_eq!(sent()[1..], levels[1..], "{}", flow.name());
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_is_not_made() {
    for (flow, expected) in flows().into_iter().filter(|(flow, _)| flow.name() != "asks_in_a_race")
    {
        let (levels, ended, _) = answered(&flow, |at, _| match at {
            0 => Approval::denied("not today"),
            _ => Approval::granted(),
        })
        .await;
        let error = ended.unwrap_err();
        assert!(error.to_string().contains("denied: not today"), "{}: {error}", flow.name());
        assert_eq!(error.kind().as_str(), "denied", "{}", flow.name());
        assert!(!sent().contains(&expected[0]), "{}: {:?}", flow.name(), sent());
        assert_eq!(levels[0], expected[0], "{}", flow.name());
    }
    // Denies only the last call.
    for (flow, expected) in flows().into_iter().filter(|(_, expected)| expected.len() > 1) {
        let last = expected.len() - 1;
        let (levels, ended, _) = answered(&flow, |at, _| match at == last {
            true => Approval::denied("enough"),
            false => Approval::granted(),
        })
        .await;
        ended.unwrap_err();
        assert_eq!(
            (levels, sent()),
            (expected.clone(), expected[..last].to_vec()),
            "{}",
            flow.name()
        );
    }
}

#[workflow]
async fn asks_in_other_branches(level: u32) -> Result<u32> {
    let last = fallback!(asks_remind(level), asks_remind(level + 10)).await?;
    Ok(last)
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_about_one_call() {
    let (levels, ended, _) = answered(&asks_in_other_branches::workflow(), |at, _| match at {
        0 => Approval::denied("the other one"),
        _ => Approval::granted(),
    })
    .await;
    assert_eq!((levels, ended.unwrap(), sent()), (vec![1, 11], 12, vec![11]));
}

/// Stops a run at its first question and, in the next process, right after the answer to it.
#[tokio::test(start_paused = true)]
async fn an_open_question_is_asked_again_and_an_answered_one_is_not() {
    for (flow, expected) in flows() {
        SENT.with_borrow_mut(Vec::clear);
        let name = flow.name().to_owned();
        let store = MemoryStore::new();
        let run = RunId::new("run-1");
        let first = test_runtime().store(store.clone()).build();
        let handle = first.start(flow, 1).run_id(run.clone()).await.unwrap();
        let question = asked(&handle).await.unwrap();
        handle.abandon();
        drop(first);

        let store = store.as_another_process();
        let second = test_runtime().store(store.clone()).build();
        let handle = second.run(&run).resume().await.unwrap();
        let again = asked(&handle).await.unwrap();
        assert_eq!((&again.path, &again.message), (&question.path, &question.message), "{name}");
        assert!(sent().is_empty(), "{name}");
        handle.abandon();
        drop(second);

        // No process executes the run when it is answered.
        let store = store.as_another_process();
        let third = test_runtime().store(store.clone()).build();
        third.run(&run).approve(&again.path, Approval::granted(), "ada").await.unwrap();
        let handle = third.run(&run).resume().await.unwrap();
        while let Some(other) = asked(&handle).await {
            assert_ne!(other.path, question.path, "{name}");
            handle.approve(&other.path, Approval::granted(), "ada").await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        handle.result().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let events = third.run(&run).journal().await.unwrap();
        check_events(&events).unwrap();
        let asked = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::ApprovalRequested(_)))
            .count();
        assert_eq!(asked, expected.len(), "{name}");
        let mut made = sent();
        made.sort_unstable();
        assert_eq!(made, expected, "{name}");
    }
}

/// Pays a customer, once.
#[tool(approve)]
async fn asks_pay(cx: &Context, log: Inject<EffectLog>, cents: u32) -> Result<u32> {
    log.note(cx);
    Ok(cents + 1)
}

#[workflow]
async fn asks_to_pay(cx: &Context, cents: u32) -> Result<u32> {
    let paid = asks_pay(cx, cx.inject()?, cents).await?;
    Ok(paid)
}

#[workflow]
async fn asks_to_pay_in_rounds(cx: &Context, cents: u32) -> Result<u32> {
    let paid = repeat!(cents, |cents| asks_pay(cx, cx.inject()?, cents), max = 2).await?;
    Ok(paid)
}

#[workflow]
async fn asks_to_pay_all(cx: &Context, cents: u32) -> Result<u32> {
    let all = map!(vec![cents, cents + 5], |cents| asks_pay(cx, cx.inject()?, cents)).await?;
    Ok(all.iter().sum())
}

#[tokio::test(start_paused = true)]
async fn no_crash_asks_twice_or_pays_twice() {
    let calls = [
        (asks_to_pay::workflow(), vec!["paid/tool#1.asks_pay"]),
        (
            asks_to_pay_in_rounds::workflow(),
            vec!["paid[0]/tool#1.asks_pay", "paid[1]/tool#1.asks_pay"],
        ),
        (asks_to_pay_all::workflow(), vec!["all[0]/tool#1.asks_pay", "all[1]/tool#1.asks_pay"]),
    ];
    for (flow, paths) in calls {
        let effects = EffectLog::new();
        let resource = effects.clone();
        let mut test = CrashTest::new(&flow, || 7).effects(&effects);
        for path in &paths {
            test = test.answer(*path, Approval::granted());
        }
        test.runtime(move |runtime| runtime.resource(resource.clone())).run().await;
        let counts = effects.counts();
        let made: Vec<(&str, usize)> =
            counts.iter().map(|(path, count)| (path.as_str(), *count)).collect();
        assert_eq!(made, paths.iter().map(|path| (*path, 1)).collect::<Vec<_>>());
    }
}

#[workflow]
async fn asks_in_words(level: u32) -> Result<u32> {
    #[node(approve = "remind them?")]
    let last = asks_remind(level).await?;
    Ok(last)
}

#[tokio::test(start_paused = true)]
async fn the_words_of_a_node_are_those_of_its_call() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = runtime.start(asks_in_words::workflow(), 1).await.unwrap();
    let question = asked(&run).await.unwrap();
    assert_eq!((&*question.message, question.about.as_str()), ("remind them?", r#"{"level":1}"#));
    run.approve(&question.path, Approval::granted_with(json!({"level": 7})), "ada").await.unwrap();
    assert!(asked(&run).await.is_none(), "it asks once");
    assert_eq!((run.result().await.unwrap(), sent()), (8, vec![7]));
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_the_tool_at_the_start_of_the_run_replaces_the_question() {
    for (flow, expected) in flows() {
        SENT.with_borrow_mut(Vec::clear);
        let runtime = test_runtime().grant(["approve:asks_remind"]).build();
        flow.run(&runtime, 1).await.unwrap_or_else(|error| panic!("{}: {error}", flow.name()));
        assert_eq!(sent(), expected, "{}", flow.name());
    }
}

#[workflow]
async fn asks_whether(level: u32) -> Result<u32> {
    let approval = gate!("remind {level}?").await?;
    Ok(u32::from(approval.is_granted()))
}

/// A workflow that is called as a function has no handle, so its questions cannot be answered.
#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_can_answer_is_an_error() {
    let mut flows: Vec<Flow> = flows().into_iter().map(|(flow, _)| flow).collect();
    flows.retain(|flow| flow.name() != "asks_in_a_race");
    flows.extend([asks_whether::workflow(), asks_in_words::workflow()]);
    let context = Context::detached();
    let runtime = test_runtime().build();
    for flow in flows {
        for cx in [&context, &runtime.context()] {
            let ended = tokio::time::timeout(PATIENCE, flow.run_in(cx, 1)).await;
            let error = ended
                .unwrap_or_else(|_| panic!("{} waits for ever", flow.name()))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("start it on a runtime with a store"),
                "{}: {error}",
                flow.name()
            );
            assert!(sent().is_empty(), "{}", flow.name());
        }
    }
    let error =
        tokio::time::timeout(PATIENCE, asks_directly(1)).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("`asks_remind` needs a person's approval"), "{error}");
    // With a handle, questions can be answered.
    let run = runtime.start(asks_directly::workflow(), 1).await.unwrap();
    let question = asked(&run).await.unwrap();
    run.approve(&question.path, Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 3);
}
