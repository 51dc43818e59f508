//! Tests compensations that ask a person. Every request to the run gets an outcome at once, the
//! report names the question, and a cancellation need not wait for the answer.

use std::time::Duration;

use agentflow::error::{ControlErrorKind, FailureKind};
use agentflow::prelude::*;
use agentflow::runtime::{NodeStatus, UndoStatus};
use agentflow::store::{MemoryStore, RunFilter, RunStatus};
use agentflow::tool::ToolError;
use agentflow::{Error, RunId};
use agentflow_testing::{check_events, test_runtime};
use agentflow_tests::ProcessStore;

use crate::deeds::{Boxed, Deeds};

/// Signs a contract.
#[tool(compensate = deal_annul)]
async fn deal_sign(cx: &Context, name: String) -> Result<String, ToolError> {
    cx.inject::<Deeds>()
        .map_err(|error| ToolError::new(error.to_string()))?
        .note(format!("sign {name}"));
    Ok(name)
}

/// Annuls it, when a person agrees.
#[tool(idempotent)]
async fn deal_annul(cx: &Context, name: String, output: String) -> Result<bool, ToolError> {
    let annulled =
        deal_annulled(cx, name).await.map_err(|error| ToolError::new(error.to_string()))?;
    Ok(annulled == output)
}

#[workflow]
async fn deal_annulled(cx: &Context, name: String) -> Boxed<String> {
    let approval = gate!("annul {name}?", name).await?;
    let done = annulled_or_not(cx, name, approval).await?;
    Ok(done)
}

async fn annulled_or_not(cx: &Context, name: String, approval: Approval) -> Boxed<String> {
    if !approval.is_granted() {
        return Err(format!("{name} is kept").into());
    }
    cx.inject::<Deeds>()?.note(format!("annul {name}"));
    Ok(name)
}

#[workflow]
async fn deal_two(cx: &Context, ends: bool) -> Boxed<String> {
    let first = deal_sign(cx, "one".to_owned()).await?;
    let second = deal_sign(cx, "two".to_owned()).await?;
    let over = deal_over(first, second, ends).await?;
    Ok(over)
}

async fn deal_over(_: String, _: String, ends: bool) -> Result<String, String> {
    if !ends {
        std::future::pending::<()>().await;
    }
    Err("it is over".to_owned())
}

const FIRST: &str = "first/tool#1.deal_sign/undo#1/tool#1.deal_annul/approval";
const SECOND: &str = "second/tool#1.deal_sign/undo#1/tool#1.deal_annul/approval";

fn runtime(store: &MemoryStore, deeds: &Deeds) -> Runtime {
    test_runtime()
        .store(store.as_another_process())
        .resource(deeds.clone())
        .workflow(&deal_two::workflow())
        .build()
}

/// Waits longer than any step that does not wait for a person.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn granted() -> Approval {
    Approval::Granted { comment: None, arguments: None }
}

#[tokio::test(start_paused = true)]
async fn every_request_has_an_outcome_at_once() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let here = runtime(&store, &deeds);
    let run = here.start(deal_two::workflow(), true).compensate().await.unwrap();
    a_while().await;
    let id = run.run_id();
    let report = here.run(id).inspect().await.unwrap();
    assert_eq!(report.run.status, RunStatus::Compensating);
    let calls = report.compensation.unwrap().calls;
    let asked: Vec<_> = calls.iter().map(|call| (call.status, call.asks.as_deref())).collect();
    assert_eq!(asked, [(UndoStatus::Running, Some(SECOND)), (UndoStatus::Owed, None)]);
    let gate = report.nodes.iter().find(|node| node.name == SECOND).unwrap();
    assert_eq!(
        (gate.status, gate.on_resume),
        (NodeStatus::AwaitingApproval, "waits for the answer")
    );
    let questions = here.runs().questions(RunFilter::new()).await.unwrap();
    assert_eq!(
        questions.iter().map(|question| question.path.to_string()).collect::<Vec<_>>(),
        [SECOND]
    );

    // From this process and from another one: a question that is not open yet, an unknown node, and
    // a node that asks no question.
    let other = runtime(&store, &deeds);
    for from in [&here, &other] {
        for (node, kind) in [
            (FIRST, ControlErrorKind::UnknownNode),
            ("first/tool#1.deal_sign/undo#1/tool#1.deal_annul/none", ControlErrorKind::UnknownNode),
            ("first", ControlErrorKind::WrongState),
        ] {
            let said = tokio::time::timeout(
                Duration::from_secs(10),
                from.run(id).approve(node, granted(), "ada"),
            )
            .await;
            let Err(Error::Control(refused)) = said.expect("it has an outcome") else {
                panic!("{node}")
            };
            assert_eq!(refused.kind(), kind, "{refused}");
            assert!(
                node == "first"
                    || refused.to_string().contains(&format!("`{SECOND}` waits for an answer")),
                "{refused}"
            );
            let said =
                tokio::time::timeout(Duration::from_secs(10), from.run(id).retry(node, "ada"))
                    .await;
            assert!(said.expect("it has an outcome").is_err());
        }
        for said in [from.run(id).pause().await, from.run(id).unpause().await] {
            assert_eq!(said.unwrap_err().kind(), FailureKind::WrongState);
        }
    }
    deeds.take();
    here.run(id).approve(SECOND, granted(), "ada").await.unwrap();
    let again = tokio::time::timeout(
        Duration::from_secs(10),
        here.run(id).approve(SECOND, granted(), "ada"),
    )
    .await;
    assert_eq!(again.expect("it has an outcome").unwrap_err().kind(), FailureKind::WrongState);
    a_while().await;
    here.run(id).approve(FIRST, Approval::Denied { comment: None }, "ada").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), run.result()).await.expect("it ends");
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("not undone: `first/tool#1.deal_sign`") && error.contains("one is kept"),
        "{error}"
    );
    assert_eq!(deeds.take(), ["annul two"]);
    check_events(&here.run(id).journal().await.unwrap()).unwrap();
    let late = here.run(id).approve(FIRST, granted(), "ada").await.unwrap_err();
    assert_eq!(late.kind(), FailureKind::WrongState);
    let gate = here
        .run(id)
        .inspect()
        .await
        .unwrap()
        .nodes
        .into_iter()
        .find(|node| node.name == SECOND)
        .unwrap();
    assert_eq!(gate.on_resume, "is not run again");
}

#[tokio::test(start_paused = true)]
async fn whoever_cancels_need_not_wait_for_the_answer() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let here = runtime(&store, &deeds);
    let run = here.start(deal_two::workflow(), false).compensate().await.unwrap();
    a_while().await;
    let id = run.run_id();
    let waited = tokio::time::timeout(Duration::from_secs(10), here.run(id).cancel("enough")).await;
    assert!(waited.is_err(), "it waits for the person");
    let calls = here.run(id).inspect().await.unwrap().compensation.unwrap().calls;
    assert_eq!(calls[0].asks.as_deref(), Some(SECOND));
    // A second cancellation gives up the open question, and the next compensation asks.
    let waited =
        tokio::time::timeout(Duration::from_secs(10), here.run(id).cancel("more than enough"))
            .await;
    assert!(waited.expect("it gives up the question").is_ok());
    a_while().await;
    here.run(id).approve(FIRST, granted(), "ada").await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Cancelled);
    assert!(error.to_string().contains("not undone: `second/tool#1.deal_sign`"), "{error}");
    assert_eq!(deeds.take(), ["sign one", "sign two", "annul one"]);
    check_events(&here.run(id).journal().await.unwrap()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drained_process_leaves_the_question_to_the_next_one() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let first = runtime(&store, &deeds);
    let run =
        first.start(deal_two::workflow(), true).run_id(RunId::new("r")).compensate().await.unwrap();
    a_while().await;
    let began = tokio::time::Instant::now();
    let drained = first.drain(Duration::from_secs(3600)).await;
    assert!(began.elapsed() < Duration::from_secs(60), "a person is not waited for");
    assert_eq!(drained.left, [run.run_id().clone()]);
    drop((run, first));
    let id = RunId::new("r");
    let second = runtime(&store, &deeds);
    // The answer arrives while no process executes the run.
    second.run(&id).approve(SECOND, granted(), "ada").await.unwrap();
    let refused = second.run(&id).approve(FIRST, granted(), "ada").await.unwrap_err().to_string();
    assert!(
        refused.contains("has not begun; the run undoes one call after the other"),
        "{refused}"
    );
    let handle = second.run(&id).resume().await.unwrap();
    a_while().await;
    second.run(&id).approve(FIRST, granted(), "ada").await.unwrap();
    assert_eq!(
        handle.result().await.unwrap_err().to_string(),
        "the step `over` failed: it is over"
    );
    assert_eq!(deeds.take(), ["sign one", "sign two", "annul two", "annul one"]);
    check_events(&second.run(&id).journal().await.unwrap()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_process_answers_while_this_one_undoes() {
    let (store, deeds) = (ProcessStore::new(), Deeds::default());
    let process = |number| {
        let builder = test_runtime().store(store.process(number)).resource(deeds.clone());
        builder.workflow(&deal_two::workflow()).build()
    };
    let (here, other) = (process(1), process(2));
    let run = here.start(deal_two::workflow(), true).compensate().await.unwrap();
    a_while().await;
    let id = run.run_id();
    for question in [SECOND, FIRST] {
        let said = tokio::time::timeout(
            Duration::from_secs(10),
            other.run(id).approve(question, granted(), "ada"),
        )
        .await;
        said.expect("it has an outcome").unwrap();
        a_while().await;
    }
    let ended = tokio::time::timeout(Duration::from_secs(60), run.result()).await.expect("it ends");
    assert_eq!(ended.unwrap_err().to_string(), "the step `over` failed: it is over");
    assert_eq!(deeds.take(), ["sign one", "sign two", "annul two", "annul one"]);
    check_events(&other.run(id).journal().await.unwrap()).unwrap();
}

/// This store does not record which process has a run, so a process that answers also takes the run
/// over.
#[tokio::test(start_paused = true)]
async fn a_run_that_another_process_has_taken_over_hears_of_it_with_its_next_write() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let (here, other) = (runtime(&store, &deeds), runtime(&store, &deeds));
    let run = here.start(deal_two::workflow(), true).compensate().await.unwrap();
    a_while().await;
    let id = run.run_id();
    other.run(id).approve(SECOND, granted(), "ada").await.unwrap();
    let there = other.run(id).resume().await.unwrap();
    a_while().await;
    other.run(id).approve(FIRST, granted(), "ada").await.unwrap();
    assert_eq!(there.result().await.unwrap_err().to_string(), "the step `over` failed: it is over");
    assert_eq!(deeds.take(), ["sign one", "sign two", "annul two", "annul one"]);
    check_events(&other.run(id).journal().await.unwrap()).unwrap();
    // The request needs a write, which fails. Its outcome is the final status of the run, and the
    // run ends in this process.
    let said = tokio::time::timeout(
        Duration::from_secs(10),
        here.run(id).approve(SECOND, granted(), "eve"),
    )
    .await;
    let refused = said.expect("it has an outcome").unwrap_err().to_string();
    assert_eq!(refused, "the run cannot be answered: it is over (failed)");
    let ended = tokio::time::timeout(Duration::from_secs(10), run.result()).await.expect("it ends");
    assert!(ended.unwrap_err().to_string().contains("was resumed by another writer"));
    assert_eq!(deeds.take(), Vec::<String>::new());
}
