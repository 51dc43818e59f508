//! The program that the kill tests of workers execute: tools with side effects, an approval, a
//! nested workflow, and a compensation for orders that are denied.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::store::{PostgresStore, SqliteStore, StoreAddress};
use agentflow::tool::ToolError;
use agentflow::{Error, RunId};
use agentflow_tests::{Process, test_as_process};

/// Lease of the processes with a Postgres store.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// Duration of each tool of a worker.
pub(super) const STEP: Duration = Duration::from_millis(30);

/// The file of effects, in which each execution of a tool writes a line.
#[derive(Clone)]
pub(super) struct Effects(pub(super) PathBuf);

impl Effects {
    /// Writes a line of the form that `invariants.rs` reads, and takes a moment.
    async fn note(cx: &Context, kind: &str) {
        let effects = cx.resource::<Self>().expect("the file of effects");
        let line = format!("{kind} {} {}\n", cx.run_id(), cx.path());
        let mut file = File::options().append(true).create(true).open(&effects.0).unwrap();
        file.write_all(line.as_bytes()).unwrap();
        tokio::time::sleep(cx.resource::<StepTime>().expect("the time of a step").0).await;
    }
}

/// Duration of each tool.
struct StepTime(Duration);

/// Reserve the goods.
#[tool(idempotent, compensate = kill_release)]
async fn kill_reserve(cx: &Context, number: u32) -> u32 {
    Effects::note(cx, "free").await;
    number + 1
}

/// Release reserved goods.
#[tool(idempotent)]
async fn kill_release(cx: &Context, number: u32, output: u32) -> bool {
    Effects::note(cx, "undo").await;
    number < output
}

/// Charge the customer. It must not be repeated without a decision.
#[tool(compensate = kill_refund)]
async fn kill_charge(cx: &Context, number: u32) -> u32 {
    Effects::note(cx, "once").await;
    number + 1
}

/// Refund a charge.
#[tool(idempotent)]
async fn kill_refund(cx: &Context, number: u32, output: u32) -> bool {
    Effects::note(cx, "undo").await;
    number < output
}

/// Pack the goods.
#[tool(idempotent)]
async fn kill_pack(cx: &Context, number: u32) -> u32 {
    Effects::note(cx, "free").await;
    number + 1
}

/// Ship the goods.
#[tool(idempotent)]
async fn kill_ship(cx: &Context, number: u32) -> u32 {
    Effects::note(cx, "free").await;
    number + 1
}

/// Close an order. Fails if it was denied.
#[tool(idempotent)]
async fn kill_settle(cx: &Context, number: u32, granted: bool) -> Result<u32, ToolError> {
    Effects::note(cx, "free").await;
    match granted {
        true => Ok(number + 1),
        false => Err(ToolError::new("the order was denied")),
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[workflow]
async fn kill_delivery(cx: &Context, number: u32) -> Result<u32> {
    let packed = kill_pack(cx, number).await;
    let shipped = kill_ship(cx, packed).await;
    Ok(shipped)
}

/// Returns the number plus 5 if the order is granted.
#[workflow]
pub(super) async fn kill_order(cx: &Context, number: u32) -> Result<u32, Failure> {
    let reserved = kill_reserve(cx, number).await;
    let charged = kill_charge(cx, reserved).await;
    let approval = gate!("deliver {number}?", charged).await?;
    let delivered = kill_delivery(cx, charged).await?;
    let granted = matches!(approval, Approval::Granted { .. });
    let settled = kill_settle(cx, delivered, granted).await?;
    Ok(settled)
}

/// Returns the number plus 3.
#[workflow]
pub(super) async fn kill_shipment(cx: &Context, number: u32) -> Result<u32> {
    let reserved = kill_reserve(cx, number).await;
    let packed = kill_pack(cx, reserved).await;
    let shipped = kill_ship(cx, packed).await;
    Ok(shipped)
}

/// Returns a runtime with the store of an address.
pub(super) async fn runtime_at(address: &str, effects: PathBuf, step: Duration) -> Runtime {
    let builder = Runtime::builder().resource(Effects(effects)).resource(StepTime(step));
    match StoreAddress::from(address).file() {
        Some(file) => builder.store(SqliteStore::open(file).await.unwrap()).build(),
        None => {
            let store = PostgresStore::builder(address).lease(LEASE).pool_size(4);
            builder.store(store.connect().await.unwrap()).build()
        }
    }
}

const ROLE: &str = "AGENTFLOW_TEST_WORKER_ROLE";
const STORE: &str = "AGENTFLOW_TEST_WORKER_STORE";
const EFFECTS: &str = "AGENTFLOW_TEST_WORKER_EFFECTS";

/// Role of a process that executes queued runs until it is killed.
pub(super) const WORKER: &str = "worker";

/// Starts another process with a role: [`WORKER`], or the id of a run of [`kill_shipment`] that it
/// starts and executes.
pub(super) fn start(role: &str, address: &str, effects: &Effects) -> Process {
    let mut command: Command = test_as_process(module_path!(), "process_with_a_role");
    command.env(ROLE, role).env(STORE, address).env(EFFECTS, &effects.0);
    Process::start(&mut command).unwrap()
}

/// The other process. It does nothing when it is executed as a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the parent reads the result")]
async fn process_with_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (address, effects) = (std::env::var(STORE).unwrap(), std::env::var(EFFECTS).unwrap());
    if role == WORKER {
        let runtime = runtime_at(&address, effects.into(), STEP).await;
        // Ends when it is killed.
        return runtime.worker().concurrency(64).run().await.unwrap();
    }
    // The steps are long, so that the process is frozen within one of them.
    let runtime = runtime_at(&address, effects.into(), Duration::from_millis(300)).await;
    let run = runtime.start(kill_shipment::workflow(), 1).run_id(RunId::new(role)).await.unwrap();
    let result = match run.result().await {
        Ok(output) => format!("output {output}"),
        Err(Error::Store(error)) => format!("store error {}", error.kind()),
        Err(error) => format!("{error:?}"),
    };
    println!("\n> {result}");
}
