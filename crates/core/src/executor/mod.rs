//! Remote execution of workflow steps: in another thread, process or machine.
//!
//! The process that owns a run keeps its journal, schedules and retries steps, asks people and
//! recovers the run. It sends out one step at a time. A [`StepCall`] contains all data that a
//! process with the same workflows needs to execute the step with
//! [`Runtime::execute_step`](crate::Runtime::execute_step). Events recorded below the step
//! meanwhile, such as model calls of an agent in the step, are sent back through a
//! [`StepRecorder`]. They are stored before the step continues.
//!
//! Install a [`StepExecutor`] with
//! [`RuntimeBuilder::executor`](crate::runtime::RuntimeBuilder::executor). Without an executor, the
//! task of the run calls each step directly as a function.
//!
//! ```standalone_crate
//! use agentflow::executor::{ExecutorError, StepCall, StepExecutor, StepHost, StepOutcome};
//! use agentflow::prelude::*;
//! use agentflow::{async_trait, serde_json};
//!
//! /// Executes steps in another runtime. Here both share a process and exchange bytes.
//! struct Elsewhere(Runtime);
//!
//! #[async_trait]
//! impl StepExecutor for Elsewhere {
//!     async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError> {
//!         let bytes = serde_json::to_vec(&call)?;
//!         // In the other process, after a transport such as a queue or a connection:
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
//! async fn greet_elsewhere(name: String) -> Result<String> {
//!     let loud = shouted(name).await;
//!     Ok(format!("HELLO {loud}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let worker = Runtime::builder().build();
//! let runtime = Runtime::builder().executor(Elsewhere(worker)).build();
//! let run = runtime.start(greet_elsewhere::workflow(), "Ada".to_owned()).await?;
//! assert_eq!(run.result().await?, "HELLO ADA");
//! # Ok(())
//! # }
//! ```
//!
//! # Which steps are sent out
//!
//! The executor receives each attempt at a step of the run's own workflow: a node, an item of
//! `map!` and `for`, a round of `repeat!`, a branch of `race!` and `fallback!`. Work nested in such
//! a step, for example an agent, a workflow or a block of several steps, is executed together with
//! the step. The process that owns the run evaluates values and the choice of match arms, asks
//! people, and executes the turns of an agent that is the run itself.
//!
//! # Requirements on the executing process
//!
//! - **Workflow.** The executing process must have the workflow with the same name and [definition
//!   hash](crate::workflow::Graph). A different definition is refused before the step starts.
//! - **Documents.** A workflow made of [documents](crate::document) uses exactly the document
//!   sources of the run. A runtime with different sources loads the original sources from its
//!   store, if it shares the store of the run. Otherwise it refuses the step
//!   (`definition_changed`).
//! - **Agents and tools.** Other changes of the program's agents and tools are treated as on a
//!   resume ([`Changes`](crate::runtime::Changes)), if the store contains their definitions.
//! - **Resources.** Resources, models, middleware and secrets come from the runtime that executes
//!   the step. A resource that is passed to a run as a value cannot be sent, so such a run is not
//!   started. Resources per run come from
//!   [`run_resource`](crate::runtime::RuntimeBuilder::run_resource) of the runtime that executes
//!   the steps.
//! - **Limits.** Limits on model calls and budgets count the spending of the run when the step was
//!   sent out, and the spending of the step itself. Steps executed at the same time do not see each
//!   other's spending before they end.
//! - **Artifacts and state.** A remote step saves no [artifacts](crate::artifact) and cannot access
//!   `user:` and `app:` [state](crate::state). Both calls fail with an error that names the
//!   executor.
//!
//! # Guarantees
//!
//! The run guarantees the following, for every behaviour of the executor:
//!
//! | Situation | Result |
//! | --- | --- |
//! | A call is delivered twice, at the same time or later. | One delivery executes the step. The others execute nothing and end with [`StepEnd::Refused`]. |
//! | A call arrives after its attempt ended, after the next attempt started, or after the run ended. | It is not executed: [`StepEnd::Refused`]. |
//! | A plain function in the step calls a tool that the plan does not show. | The call waits for the steps written above, as in the process of the run. |
//! | A batch of records is sent again. | It is stored once. |
//! | Records belong to another step, start a subject that is already open, or leave out an earlier batch. | The whole batch is refused ([`ExecutorErrorKind::Foreign`]). |
//! | The executor fails before any delivery took the step, or gives the step to a runtime that is being drained. | The step did not run. The attempt fails as `lost`, and its retry policy may repeat it. |
//! | The step is lost, and the node is a single tool call with a recorded outcome. | The recorded outcome is used as the step's outcome. |
//! | The step is lost during a write or other work that must not be repeated. | An operator is asked the same question as after a crash of the process at this point: about the call, or about the node of a nested workflow. A model learns that the outcome is unknown. |
//! | The step is lost during other work. | The attempt fails as `lost`, `unreadable_outcome` or `foreign_outcome`, and its retry policy may repeat it. The next attempt reuses recorded writes. |
//! | An output does not have the step's type. | It is rejected. The step fails as `unreadable_outcome`, with its name and type, and is retried as above. |
//! | A worker is drained while the step waits for a person, or the drain deadline passes. | The step continues on another worker at once, like a run whose process is drained. |
//! | No outcome ever arrives. | Time limits, cancellation and draining end the wait. Pausing works. |
//! | An outcome arrives after the wait ended. | It has no effect. |
//!
//! A step is *lost* when its executor returns an [`ExecutorError`], panics, or returns an outcome
//! of another attempt. A tool call without compensation and middleware has no events below its
//! node, so its outcome is unknown after a loss. If such a tool has side effects, the run asks an
//! operator.
//!
//! An executor must guarantee the following:
//!
//! - It executes steps only with [`Runtime::execute_step`](crate::Runtime::execute_step).
//! - Its [`StepRecorder`] confirms a batch only after the [`StepHost`] has confirmed it.
//! - It returns the outcome of the delivery that was not refused.
//!
//! A worker is refused if it receives a call that another worker has started. The executor then
//! reports the step as lost, and the run sends out another attempt if the step's policy allows one.

mod executor_error;
mod far_run;
mod step_call;
mod step_exchange;
mod step_host;
mod step_turn;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::executor_error::{ExecutorError, ExecutorErrorKind};
pub(crate) use self::far_run::{Delivery, RemoteRun, drained};
pub use self::step_call::{StepCall, StepEnd, StepOutcome};
pub use self::step_exchange::{StepAnswer, StepBatch, StepDelivery, StepRecorder, StepSignal};
pub(crate) use self::step_host::HandedOut;
pub use self::step_host::StepHost;
pub(crate) use self::step_turn::{HiddenCalls, HiddenEffect};
use crate::run::Host;

/// Executes steps for the process that owns their run. It delivers the call to a process that calls
/// [`Runtime::execute_step`](crate::Runtime::execute_step), and returns the recorded events and the
/// outcome.
///
/// The process that owns the run decides about retries, following steps and questions to people.
/// The [module](self) contains an example.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` executes no steps",
    label = "implement `agentflow::executor::StepExecutor` for this"
)]
pub trait StepExecutor: Send + Sync {
    /// Executes one attempt at a step and returns its outcome. The start of the attempt is recorded
    /// before the call.
    ///
    /// # Errors
    /// Return an error if the outcome is unknown, for example because the executing process is
    /// gone. The [table of guarantees](self#guarantees) lists the consequences. A panic has the
    /// same consequences.
    ///
    /// # Cancel safety
    /// The run drops the future when it is cancelled or when the step's time limit is reached. Then
    /// [`signal`](StepRecorder::signal) of the host returns [`StepSignal::Stop`]. A task that
    /// outlives this future can receive the signal through a clone of the host.
    async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError>;
}

/// The executor of a host's steps, stored as a part of the host.
pub(crate) struct RemoteSteps(pub(crate) Arc<dyn StepExecutor>);

impl RemoteSteps {
    pub(crate) fn find_executor(host: &Host) -> Option<Arc<dyn StepExecutor>> {
        host.part::<Self>().map(|Self(executor)| Arc::clone(executor))
    }
}
