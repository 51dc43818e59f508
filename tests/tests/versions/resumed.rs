//! Resuming a run with another version of the program, after its process was killed while it waited
//! for a person. Covers each row of the table "Changes under a waiting run" in the documentation of
//! `#[workflow]`.

use std::process::Command;

use agentflow::prelude::*;
use agentflow::store::{RunFilter, RunStatus, SqliteStore};
use agentflow::workflow::Workflow;
use agentflow::{Error, RunId, Runtime};
use agentflow_testing::check_events;
use agentflow_tests::Process;
use agentflow_tests::order::EffectFile;

use crate::second;

type Order = Workflow<(u64,), String>;

/// Output of the run if nothing changes.
const OUTPUT: &str = "sent: paid 70, archived 70, 44 4 [45] 46 true";

/// A run of the first version whose process was killed while it waited at its gate.
struct Killed {
    folder: tempfile::TempDir,
    effects: EffectFile,
    run: RunId,
}

impl Killed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut first =
            Process::start(Command::new(env!("CARGO_BIN_EXE_order-first")).arg(folder.path()))
                .unwrap();
        first.wait_until("it waits", |first| first.output().contains("it waits").then_some(()));
        drop(first);
        let effects = EffectFile::of(folder.path());
        let mut done = effects.take();
        // Steps without side effects run in any order.
        done.sort_unstable();
        assert_eq!(done, ["archive", "insure", "look", "look", "pay", "price", "quote", "weigh"]);
        Self { folder, effects, run: RunId::new("run") }
    }

    /// Starts another process: a new store handle for the file, and the workflows of its version.
    async fn process(&self, order: &Order) -> Runtime {
        let store = SqliteStore::open(self.folder.path().join("runs.db")).await.unwrap();
        Runtime::builder().store(store).resource(self.effects.clone()).workflow(order).build()
    }

    /// Checks that the run is not resumed and that its journal is unchanged.
    async fn is_refused(&self, order: &Order) -> Error {
        let runtime = self.process(order).await;
        let before = runtime.run(&self.run).journal().await.unwrap();
        let mut recovered = runtime.recover().await.unwrap();
        assert!(recovered.resumed.is_empty(), "{recovered:?}");
        let (run, error) = recovered.left.pop().unwrap();
        assert_eq!(run, self.run);
        assert_eq!(runtime.run(&run).resume().await.unwrap_err().to_string(), error.to_string());
        assert_eq!(runtime.run(&run).journal().await.unwrap(), before);
        assert!(self.effects.take().is_empty());
        error
    }

    /// Approves every question, including later ones. Returns the output and the sorted effects.
    async fn completed(
        &self,
        runtime: &Runtime,
        result: impl Future<Output = Result<String>>,
    ) -> (String, Vec<String>) {
        let output = tokio::select! {
            output = result => output.unwrap(),
            () = agrees(runtime, &self.run) => unreachable!("it agrees for ever"),
        };
        let mut done = self.effects.take();
        done.sort_unstable();
        check_events(&runtime.run(&self.run).journal().await.unwrap()).unwrap();
        assert_eq!(runtime.run(&self.run).record().await.unwrap().status, RunStatus::Success);
        (output, done)
    }
}

/// Approves each question of a run.
async fn agrees(runtime: &Runtime, run: &RunId) {
    loop {
        let report = runtime.run(run).inspect().await.unwrap();
        for node in report.nodes.iter().filter(|node| node.question.is_some()) {
            // The new version may have asked again since the report was read, so a refusal is fine.
            let _ = runtime.run(run).approve(&node.name, Approval::granted(), "ada").await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Checks that the definition is the same: `recover` resumes the run, and only the remaining steps
/// are executed.
async fn is_the_same(order: Order) {
    let killed = Killed::new();
    let runtime = killed.process(&order).await;
    assert_eq!(runtime.run(&killed.run).inspect().await.unwrap().changed, None);
    let mut recovered = runtime.recover().await.unwrap();
    let handle = recovered.resumed.pop().unwrap_or_else(|| panic!("{recovered:?}"));
    let result = async { Ok(handle.result().await?.decode().unwrap()) };
    let (output, done) = killed.completed(&runtime, result).await;
    assert_eq!(output, OUTPUT);
    assert_eq!(done, ["send"]);
}

/// Checks that the run is refused because of these nodes, and that `Changes::AcceptAll` resumes it
/// with these effects and this output.
async fn is_changed(order: Order, nodes: &[&str], done: &[&str], output: &str) {
    let killed = Killed::new();
    let error = killed.is_refused(&order).await;
    let Error::DefinitionChanged { nodes: named, .. } = &error else { panic!("{error}") };
    assert_eq!(named, nodes);
    let runtime = killed.process(&order).await;
    assert_eq!(runtime.run(&killed.run).inspect().await.unwrap().changed.unwrap(), nodes);
    let handle = runtime
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&killed.run)
        .resume_as(&order)
        .await
        .unwrap();
    let (of_run, of_effects) = killed.completed(&runtime, handle.result()).await;
    assert_eq!(of_run, output);
    assert_eq!(of_effects, done);
}

/// Checks that the run is refused because of these steps, even with `Changes::AcceptAll`. The first
/// version can still resume the run, and the second one can cancel it.
async fn would_be_done_twice_or_left_out(order: Order, steps: &[&str]) {
    for cancel in [false, true] {
        let killed = Killed::new();
        let error = killed.is_refused(&order).await;
        assert!(matches!(error, Error::DefinitionChanged { .. }), "{error}");
        let runtime = killed.process(&order).await;
        let before = runtime.run(&killed.run).journal().await.unwrap();
        let error = runtime
            .with_changes(agentflow::runtime::Changes::AcceptAll)
            .run(&killed.run)
            .resume_as(&order)
            .await
            .unwrap_err();
        let Error::WriteForgotten { nodes, .. } = &error else { panic!("{error}") };
        assert_eq!(nodes, steps);
        assert_eq!(runtime.run(&killed.run).journal().await.unwrap(), before);
        match cancel {
            true => {
                runtime.run(&killed.run).cancel("it is not what we want any more").await.unwrap();
                assert_eq!(
                    runtime.run(&killed.run).record().await.unwrap().status,
                    RunStatus::Cancelled
                );
                assert!(runtime.runs().list(RunFilter::unfinished()).await.unwrap().is_empty());
            }
            false => {
                let order = second::unchanged::order::workflow();
                let runtime = killed.process(&order).await;
                let handle = runtime.run(&killed.run).resume_as(&order).await.unwrap();
                let (output, done) = killed.completed(&runtime, handle.result()).await;
                assert_eq!((output.as_str(), done), (OUTPUT, vec!["send".to_owned()]));
            }
        }
    }
}

#[tokio::test]
async fn a_program_of_the_same_text() {
    is_the_same(second::unchanged::order::workflow()).await;
}

#[tokio::test]
async fn formatting_comments_and_names_of_variables() {
    is_the_same(second::written_otherwise::order::workflow()).await;
}

#[tokio::test]
async fn comments_of_a_recorded_type() {
    is_the_same(second::of_a_described_type::order::workflow()).await;
}

#[tokio::test]
async fn the_bodies_of_called_functions() {
    is_the_same(second::of_other_functions::order::workflow()).await;
}

#[tokio::test]
async fn policies() {
    is_changed(second::of_other_policies::order::workflow(), &[], &["send"], OUTPUT).await;
}

#[tokio::test]
async fn a_node_is_added() {
    let order = second::with_a_node::order::workflow();
    let output = "sent: 21, paid 70, archived 70, 44 4 [45] 46 true";
    is_changed(order, &["stamp", "text", "sent", "output"], &["send", "stamp"], output).await;
    let order = second::with_a_node_that_is_not_read::order::workflow();
    is_changed(order, &["stamp"], &["send", "stamp"], OUTPUT).await;
}

#[tokio::test]
async fn a_value_is_changed() {
    let nodes = [
        "total",
        "bill",
        "insured",
        "insured/then/insure",
        "insured/else/yield",
        "insured/end",
        "seen.items",
    ];
    let nodes = [&nodes[..], &["seen", "checked", "text", "sent", "output"]].concat();
    let done = ["insure", "look", "look", "quote", "send"];
    let order = second::of_another_value::order::workflow();
    is_changed(order, &nodes, &done, "sent: paid 70, archived 70, 66 6 [67] 68 true").await;
}

#[tokio::test]
async fn a_condition_is_changed() {
    let nodes = [
        "insured",
        "insured/then/insure",
        "insured/else/yield",
        "insured/end",
        "text",
        "sent",
        "output",
    ];
    let order = second::of_another_condition::order::workflow();
    is_changed(order, &nodes, &["send"], "sent: paid 70, archived 70, 44 0 [45] 46 true").await;
}

#[tokio::test]
async fn an_argument_is_changed() {
    let order = second::of_another_argument::order::workflow();
    let output = "sent: paid 70, archived 70, 49 4 [45] 46 true";
    is_changed(order, &["bill", "text", "sent", "output"], &["quote", "send"], output).await;
}

#[tokio::test]
async fn a_callee_is_changed() {
    let order = second::of_another_callee::order::workflow();
    let output = "sent: paid 70, archived 70, 88 4 [45] 46 true";
    is_changed(order, &["bill", "text", "sent", "output"], &["quote", "send"], output).await;
}

#[tokio::test]
async fn a_node_is_renamed() {
    let order = second::of_another_name::order::workflow();
    is_changed(order, &["costs", "text", "sent", "output"], &["quote", "send"], OUTPUT).await;
}

#[tokio::test]
async fn a_node_is_removed() {
    let order = second::without_a_node::order::workflow();
    let output = "sent: paid 70, archived 70, 44 4 46 true";
    is_changed(order, &["text", "sent", "output"], &["send"], output).await;
}

#[tokio::test]
async fn a_recorded_type_is_changed() {
    let order = second::of_another_type::order::workflow();
    is_changed(order, &["bill", "text", "sent", "output"], &["quote", "send"], OUTPUT).await;
}

#[tokio::test]
async fn a_step_that_writes_and_has_not_begun_is_changed() {
    let order = second::that_sends_more::order::workflow();
    is_changed(order, &["sent", "output"], &["send"], &format!("{OUTPUT}!")).await;
}

#[tokio::test]
async fn a_step_that_has_written_is_changed() {
    would_be_done_twice_or_left_out(second::that_pays_more::order::workflow(), &["paid"]).await;
}

#[tokio::test]
async fn what_a_step_that_has_written_reads_is_changed() {
    would_be_done_twice_or_left_out(
        second::of_another_price::order::workflow(),
        &["filed", "paid"],
    )
    .await;
}

#[tokio::test]
async fn a_step_that_has_written_is_renamed() {
    would_be_done_twice_or_left_out(
        second::that_pays_under_another_name::order::workflow(),
        &["paid"],
    )
    .await;
}

#[tokio::test]
async fn a_step_that_has_written_is_removed() {
    would_be_done_twice_or_left_out(second::that_does_not_pay::order::workflow(), &["paid"]).await;
}

#[tokio::test]
async fn an_inner_workflow_that_writes_nothing_is_changed() {
    let order = second::that_checks_otherwise::order::workflow();
    let output = "sent: paid 70, archived 70, 44 4 [45] 145 true";
    is_changed(order, &["checked", "text", "sent", "output"], &["look", "send"], output).await;
}

#[tokio::test]
async fn an_inner_workflow_that_has_written_is_changed() {
    would_be_done_twice_or_left_out(second::that_files_otherwise::order::workflow(), &["filed"])
        .await;
}
