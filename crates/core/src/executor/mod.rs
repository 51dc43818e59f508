//! Executing the steps of a workflow elsewhere: in another thread, another process, on another machine.
//!
//! The process that has a run keeps its journal, decides what runs next, retries, asks people and recovers. What it hands
//! out is one step at a time: a [`StepCall`] says everything that a process with the same workflows needs to execute it, and
//! [`Runtime::execute_step`](crate::Runtime::execute_step) does. What is recorded below the step meanwhile, such as the
//! model calls of an agent in it, goes back over a [`StepRecorder`] and is kept before the step continues.
//!
//! A program says with [`RuntimeBuilder::executor`](crate::runtime::RuntimeBuilder::executor) who executes its steps.
//! Without that a step is called as the function that it is, in the run's own task.
//!
//! ```standalone_crate
//! use agentflow::executor::{ExecutorError, StepCall, StepExecutor, StepHost, StepOutcome};
//! use agentflow::prelude::*;
//! use agentflow::{async_trait, serde_json};
//!
//! /// Executes steps in another runtime: here of the same process, and all that it learns are bytes.
//! struct Elsewhere(Runtime);
//!
//! #[async_trait]
//! impl StepExecutor for Elsewhere {
//!     async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError> {
//!         let bytes = serde_json::to_vec(&call)?;
//!         // There, after a queue or a connection:
//!         let call: StepCall = serde_json::from_slice(&bytes)?;
//!         Ok(self.0.execute_step(call, host).await)
//!     }
//! }
//!
//! /// A word in capitals.
//! #[tool(effects = "none")]
//! async fn shouted(word: String) -> String {
//!     word.to_uppercase()
//! }
//!
//! #[workflow]
//! async fn greet(name: String) -> Result<String> {
//!     let loud = shouted(name).await;
//!     Ok(format!("HELLO {loud}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let worker = Runtime::builder().build();
//! let runtime = Runtime::builder().executor(Elsewhere(worker)).build();
//! let run = runtime.start(greet::workflow(), "Ada".to_owned()).await?;
//! assert_eq!(run.result().await?, "HELLO ADA");
//! # Ok(())
//! # }
//! ```
//!
//! # What is handed out
//!
//! Each attempt at a step of the run's own workflow: of a node, of an item of `map!` and `for`, of a round of `repeat!`, of
//! a branch of `race!` and `fallback!`. Whatever begins in a step, such as an agent, a nested workflow or a block of several
//! steps, is executed where the step is. Values, choices of arms and questions to people are computed in the process of the
//! run, and so are the turns of an agent that is a run of its own.
//!
//! # What both sides have in common
//!
//! The workflow, by its name and its [definition hash](crate::workflow::Graph): another definition is refused before the
//! step begins. Of a workflow that is a [document](crate::document), the documents are those of the run, to the letter: a
//! runtime that now has others reads them from its store, when that is the store of the run, and refuses the step otherwise
//! (`definition_changed`). What else the agents and tools of a program have changed counts as when a run is resumed
//! ([`Changes`](crate::runtime::Changes)), as far as the store knows it. Resources, models, middleware and secrets are those of the runtime that executes the step; a resource that a
//! run is given as a value cannot go there, so a run that is given one is not started. Each run's own resources come from
//! [`run_resource`](crate::runtime::RuntimeBuilder::run_resource) on the runtime that executes its steps.
//!
//! Limits of model calls and budgets know what the run had spent when the step was handed out, and what the step spends
//! itself; steps that are executed at the same time do not see each other's spending before they end.
//!
//! A step that is executed elsewhere saves no [artifacts](crate::artifact) and has no access to `user:` and `app:`
//! [state](crate::state): both calls fail with an error that names the executor.
//!
//! # What is promised
//!
//! To a program, whatever its executor does:
//!
//! | | |
//! | --- | --- |
//! | a call is delivered twice, at the same time or later | one delivery executes the step; the others execute nothing of it, and end with [`StepEnd::Refused`] |
//! | a call comes after its attempt has ended, after the next attempt has begun, or after the end of the run | nothing of it is executed: [`StepEnd::Refused`] |
//! | a plain function in the step calls a tool that the plan does not show | the call waits for the steps that are written above, as in the process of the run |
//! | a batch of records is sent again | it is kept once |
//! | records are not the step's, begin twice what is open, or come without those before them | the batch is refused as a whole ([`ExecutorErrorKind::Foreign`]) |
//! | the executor fails before anybody had taken the step, or gives it to a runtime that is being drained | nothing of it has run: the attempt fails as `lost`, and its retry policy may repeat it |
//! | the step is lost, and the node is the call of one tool whose outcome is recorded | that outcome is the step's |
//! | the step is lost in the middle of a write, or of what may not be repeated | the question to the operator is that after a crash of the process at this place: of the call, or of the node of a workflow in the step; a model learns that the outcome is unknown |
//! | the step is lost in the middle of anything else | the attempt fails as `lost`, `unreadable_outcome` or `foreign_outcome`, and its retry policy may repeat it; a further attempt keeps the writes that are recorded |
//! | an output is not of the step's type | it is not the step's output: the step fails as `unreadable_outcome`, with its name and type, and is retried as above |
//! | a worker is drained while a person is asked in the step, or at its deadline | the step continues elsewhere at once, as a run whose process is drained |
//! | nothing ever comes back | time limits, cancellation and draining end the wait; pausing works |
//! | something comes back after the end of the wait | it has no effect |
//!
//! A step is lost when its executor gives an [`ExecutorError`], panics, or gives what is not the outcome of the attempt.
//! A call of a tool of which nothing is recorded below its node, since nothing undoes it and no middleware stands around it,
//! has no outcome when it is lost: of a tool that writes the run asks.
//!
//! An executor promises that steps are executed by [`Runtime::execute_step`](crate::Runtime::execute_step) and nothing else,
//! that its [`StepRecorder`] says that a batch is kept when the [`StepHost`] has said so, and that it gives the outcome of the
//! delivery that was not refused. A worker that is given a call which another worker had begun is refused: the executor says
//! that the step is lost, and the run hands out a further attempt when the step's policy has one.

mod executor_error;
mod far_run;
mod step_call;
mod step_exchange;
mod step_host;
mod step_turn;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::executor_error::{ExecutorError, ExecutorErrorKind};
pub(crate) use self::far_run::{Delivery, FarRun, drained};
pub use self::step_call::{StepCall, StepEnd, StepOutcome};
pub use self::step_exchange::{StepAnswer, StepBatch, StepDelivery, StepRecorder, StepSignal};
pub(crate) use self::step_host::HandedOut;
pub use self::step_host::StepHost;
pub(crate) use self::step_turn::{HiddenEffect, StepTurn};
use crate::run::Host;

/// Executes steps for the process that has their run: it takes a call to where
/// [`Runtime::execute_step`](crate::Runtime::execute_step) is called, and brings back what is recorded, and the outcome.
///
/// It decides nothing about the step: whether it is retried, what follows it and what a person is asked is decided where
/// the run is. The [module](self) has an example.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` executes no steps",
    label = "implement `agentflow::executor::StepExecutor` for this"
)]
pub trait StepExecutor: Send + Sync {
    /// Executes one attempt at a step and gives its outcome. The start of the attempt is kept by then.
    ///
    /// The future is dropped when the run is cancelled or the step's time is over; then
    /// [`signal`](StepRecorder::signal) of the host, which may be cloned into a task that outlives this, gives
    /// [`StepSignal::Stop`].
    ///
    /// # Errors
    /// When the outcome is not known: the process that executed the step is gone, say. What follows from that is in the
    /// [module](self#what-is-promised)'s table. A panic is the same.
    async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError>;
}

/// Who executes the steps of a host's runs, as a part of the host.
pub(crate) struct StepsElsewhere(pub(crate) Arc<dyn StepExecutor>);

impl StepsElsewhere {
    pub(crate) fn of(host: &Host) -> Option<Arc<dyn StepExecutor>> {
        host.part::<Self>().map(|Self(executor)| Arc::clone(executor))
    }
}
