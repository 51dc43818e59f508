//! The methods of [`Runtime`] that execute something: they start and recover runs, execute single
//! steps, and call tools.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::agent::RunRequest;
use crate::error::{Error, Failure, RegistryError, Result, noted};
use crate::event::{PauseReason, RunId};
use crate::executor::{Delivery, RemoteRun, StepCall, StepEnd, StepOutcome, StepRecorder};
use crate::future::BoxFuture;
use crate::message::{ToolCall, ToolResult};
use crate::run::RunHandle;
use crate::runtime::Runtime;
use crate::runtime::catalogue::name_arguments::{AgentName, WorkflowName};
use crate::runtime::catalogue::registered_items::refresh_items;
use crate::runtime::execution::agent_runs::start_erased;
use crate::runtime::execution::execute_step::{spec_of, taken};
use crate::runtime::execution::start_run::{Described, StartRun};
use crate::runtime::execution::worker::Worker;
use crate::runtime::execution::workflow_runs::{decoder, recover_one, undecoded};
use crate::store::{RunFilter, RunList, StoreErrorKind};
use crate::tool::report_unknown_tool;
use crate::value::Encoded;
use crate::workflow::{Inputs, IntoInputs, IntoNamedInputs, IntoWorkflow, execute};

/// Result of [`Runtime::recover`], oldest run first.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// Runs that are executed here now, including those in `waiting`.
    pub resumed: Vec<RunHandle<Encoded>>,
    /// Runs among `resumed` that wait for a person's answer. They continue when it is given.
    /// [`Runs::questions`](crate::runtime::Runs::questions) returns their questions.
    pub waiting: Vec<RunId>,
    /// Runs that could not be resumed, with the reason: the workflow or agent is unknown, its
    /// definition has changed, or a resource is missing.
    pub left: Vec<(RunId, Error)>,
    /// Runs that another process executes.
    pub elsewhere: Vec<RunId>,
}

/// Number of runs that are resumed concurrently.
const AT_ONCE: usize = 64;

/// A request in the format of another interface, such as a task.
#[doc(hidden)]
pub trait ProcessedRequest: Sync {
    /// The result in the same format.
    type Answer: Send;

    /// Runs the request to its end on behalf of a caller.
    fn process(
        &self,
        runtime: &Runtime,
        caller: Arc<str>,
    ) -> impl Future<Output = Self::Answer> + Send;
}

impl Runtime {
    /// Calls a tool by name ([`CatalogueReader::tool`](crate::runtime::CatalogueReader::tool))
    /// outside of any run. The policy of the tool and the middleware of the runtime apply, as for a
    /// tool call by an agent. The call is granted the scopes of the runtime and those in `scopes`.
    /// Failures of the call, including an unknown name, are part of the result. The runtime's sinks
    /// receive the same events as for a call in a run, under a separate run id; they are not
    /// stored.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the tool.
    ///
    /// # Errors
    /// As [`CatalogueReader::tool`](crate::runtime::CatalogueReader::tool), except for an unknown
    /// name. For an agent that is called as a tool, the error of an invalid agent.
    #[doc(alias = "execute_tool")]
    #[doc(alias = "execute_tool_stream")]
    pub async fn invoke(&self, call: &ToolCall, scopes: &[Arc<str>]) -> Result<ToolResult> {
        let tool = match self.catalogue().tool(&call.name).await {
            Ok(tool) => tool,
            Err(Error::Registry(RegistryError::NotFound { registered, .. })) => {
                return Ok(report_unknown_tool(
                    &self.context(),
                    call,
                    registered.iter().map(|name| &**name),
                ));
            }
            Err(error) => return Err(error),
        };
        self.catalogue().invoke_at(&self.context(), &tool, call, scopes).await
    }

    /// Starts an agent by name on a separate task: an agent that is registered with the runtime, or
    /// an `#[agent]` without arguments that is linked into the program. The output is JSON: text is
    /// a JSON string. An empty request uses the prompt of the `#[agent]`. Dropping the handle
    /// cancels a run in memory; a run with a store continues.
    ///
    /// With a store, the run is stored when the future completes, as with [`start`](Self::start).
    /// An exception is a run that [waits](crate::session::Session::waiting) for its turn in a
    /// session: it starts later, and this function does not wait for it. Neither does
    /// [`Agent::start`](crate::Agent::start), which is not async.
    ///
    /// # Cancel safety
    /// If the future is dropped, a run with a store may have been started and continue.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// /// Greet whoever speaks.
    /// #[agent]
    /// async fn greeter(cx: &Context) -> Result<String>;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().model(ScriptedModel::new([Turn::text("Hello Ada.")])).build();
    /// let answer = runtime.start_agent("greeter", "I am Ada.").await?.result().await?;
    /// assert_eq!(answer.decode::<String>().unwrap(), "Hello Ada.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::Unknown`] if the agent is unknown. Also if it requires arguments, cannot be
    /// built, or a resource is missing. With a store also if the run cannot start, because the
    /// store has a run with the same id, its session is busy, or middleware refuses it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_agent(
        &self,
        name: impl AgentName,
        request: impl Into<RunRequest>,
    ) -> BoxFuture<'_, Result<RunHandle<Encoded>>> {
        // Boxed: otherwise the compiler would report each error in the arguments three times.
        let (name, request) = (name.as_name().to_owned(), request.into());
        Box::pin(async move {
            let started = async {
                // Documents of the store may describe agents.
                refresh_items(self).await?;
                start_erased(self, &self.catalogue().agent_named(&name)?, request).await
            };
            noted(started.await)
        })
    }

    /// Starts an agent by name with arguments, which are JSON text. An `#[agent]` that is linked
    /// into the program receives the arguments. A registered agent receives their field `message`,
    /// unless the request has a conversation.
    #[doc(hidden)]
    pub async fn start_agent_with(
        &self,
        name: &str,
        arguments: &str,
        mut request: RunRequest,
    ) -> Result<RunHandle<Encoded>> {
        refresh_items(self).await?;
        if request.conversation.is_empty() && self.catalogue().is_given_agent(name) {
            let read: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
            request.conversation = read["message"].as_str().unwrap_or_default().into();
        }
        start_erased(self, &self.catalogue().agent_asked(name, arguments)?, request).await
    }

    /// Returns a [`Worker`], which executes queued and abandoned runs of the store.
    pub fn worker(&self) -> Worker {
        Worker::new(self)
    }

    /// Executes an attempt at a step that a [`StepExecutor`](crate::executor::StepExecutor) of
    /// another runtime, usually in another process, has dispatched. Finds the workflow by its name,
    /// checks its version, and executes the step with the resources, models and middleware of this
    /// runtime. Events below the step are sent to `recorder`; the run stores them before the step
    /// continues.
    ///
    /// The version must be the version of the run. If the workflow comes from documents and this
    /// runtime has a different version of them, the version of the run is loaded from this
    /// runtime's [store](crate::runtime::RuntimeBuilder::store), provided that both share a store.
    /// In this case the definitions of called agents and tools are also compared, as when a run is
    /// resumed ([`Changes`](crate::runtime::Changes)).
    ///
    /// The step is claimed first, by an empty batch to `recorder`. If a call is delivered twice,
    /// concurrently or one after the other, the run accepts one delivery. The other one ends with
    /// [`StepEnd::Refused`] before any part of the step is executed. A call to a runtime that is
    /// being drained also ends with `Refused`.
    ///
    /// Other errors are part of the outcome: an unknown workflow (`unknown_workflow`), another
    /// definition of the workflow or its documents (`definition_changed`), a missing resource
    /// (`missing_resource`). If the run does not store the step's events, it ignores the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future stops the step and everything it has started. [`drain`](Self::drain) of
    /// this runtime waits for the step and stops it at the deadline.
    pub async fn execute_step(
        &self,
        call: StepCall,
        recorder: impl StepRecorder + 'static,
    ) -> StepOutcome {
        let delivery = Delivery::new(self.host(), &call, Arc::new(recorder));
        // Registered before the claim: a drain waits for the step from now on, and leaves it to
        // another worker even if it has not started.
        let run = RemoteRun::begin(self.host(), &call, &delivery);
        let end = match taken(&call, &delivery, &run).await {
            Ok(()) => match (spec_of(self, &call).await, run) {
                (Ok(spec), Ok(run)) => execute(&spec, &call, run, &*delivery.recorder).await,
                (Ok(_), Err(error)) => StepEnd::Failed { failure: Failure::from(&error) },
                (Err(failure), _) => StepEnd::Failed { failure },
            },
            Err(error) => StepEnd::Refused { error },
        };
        call.ended(end)
    }

    /// Starts a run of a workflow on a separate task when it is awaited. Before that, options such
    /// as an id, tags and limits can be set: see [`StartRun`]. With a store, the run is stored
    /// there when the future completes.
    ///
    /// # Errors
    /// If the input has no JSON form; a resource that a tool of the workflow needs is missing
    /// ([`Error::RunResource`]); a node that every run executes needs a [state](crate::state) key
    /// that is never set ([`Error::Build`]); a compensating tool is unknown or does not accept its
    /// arguments ([`RegistryError::Compensation`]); the
    /// runtime is being [drained](Self::drain); or the store cannot store the run, for example
    /// because it has a run with the same id.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start<W: IntoWorkflow>(
        &self,
        workflow: W,
        input: impl IntoInputs<W::In>,
    ) -> StartRun<'_, W::Out> {
        let workflow = workflow.into_workflow();
        let inputs = input
            .into_inputs()
            .encode()
            .map_err(|error| Error::value(&workflow.spec().name, &error));
        let described = inputs.map(|inputs| (Arc::clone(workflow.spec()), inputs));
        StartRun::new(
            self,
            Described::Workflow(described),
            Box::new(decoder::<W::In, W::Out>(&workflow)),
        )
    }

    /// Starts a run like [`start`](Self::start), of a workflow that is registered with this runtime
    /// or linked into the program. The input is a JSON object with the names of the workflow's
    /// inputs, such as `json!({"url": "https://example.com"})`.
    ///
    /// # Errors
    /// As [`start`](Self::start), and if no workflow has this name, or the input does not match its
    /// names and types. If a tool of a node cannot be fetched, only the node fails, with
    /// [`FailureKind::Toolset`](crate::error::FailureKind::Toolset).
    #[doc(alias = "run_workflow")]
    pub fn start_named(
        &self,
        name: impl WorkflowName,
        input: impl IntoNamedInputs,
    ) -> StartRun<'_, Encoded> {
        let name = Arc::from(name.as_name());
        let input = input.into_named_inputs().map_err(|error| Error::value(&name, &error));
        StartRun::new(self, Described::Named(name, input), Box::new(undecoded))
    }

    /// Resumes every unfinished run in the store that no process executes, of workflows and of
    /// agents. A program calls it once after a restart. Several runs are loaded concurrently. A run
    /// that waits for a person is resumed too and waits again; it is listed in
    /// [`Recovered::waiting`].
    ///
    /// # Cancel safety
    /// Dropping the future stops between two runs. Runs that were resumed are executed here.
    ///
    /// # Errors
    /// If the store cannot list its runs, or the runtime is being [drained](Self::drain).
    pub async fn recover(&self) -> Result<Recovered> {
        self.host().running.check()?;
        let RunList { mut runs, unreadable, .. } =
            self.require_store()?.list_with_unreadable(RunFilter::unfinished()).await?;
        // The store lists the newest run first, but the oldest should continue first.
        runs.reverse();
        let found = futures_util::stream::iter(runs)
            .map(|run| async move { (recover_one(self, &run).await, run) });
        let mut found = found.buffered(AT_ONCE);
        let mut recovered = Recovered::default();
        recovered.left.extend(unreadable.into_iter().map(|(run, error)| (run, error.into())));
        while let Some((one, run)) = found.next().await {
            match one {
                Ok(Some(handle)) => {
                    if run.pause_reason == Some(PauseReason::Approval) {
                        recovered.waiting.push(run.run_id);
                    }
                    recovered.resumed.push(handle);
                }
                Ok(None) => {}
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Busy => {
                    recovered.elsewhere.push(run.run_id);
                }
                // The run has ended since the runs were listed.
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Ended => {}
                Err(error) => {
                    let run = run.run_id;
                    tracing::warn!(%run, error = self.host().redacted(&error), "a run could not be resumed");
                    recovered.left.push((run, error));
                }
            }
        }
        let (resumed, waiting) = (recovered.resumed.len(), recovered.waiting.len());
        let (left, elsewhere) = (recovered.left.len(), recovered.elsewhere.len());
        tracing::info!(resumed, waiting, left, elsewhere, "runs were recovered");
        Ok(recovered)
    }

    /// Runs a task to its end on behalf of a caller and returns its result: a `TaskResult` for a
    /// `TaskRequest`, both of `agentflow::views` (feature `views`). If a task cannot start, or its
    /// session belongs to another caller, the result has the status `error` and the reason. If the
    /// same caller sends a task again, it receives the result of the first one, waiting for its end
    /// if necessary; this requires a store.
    ///
    /// Pass the caller that the program has authenticated; a task does not name its caller. The run
    /// has the grants of the runtime and of the agent.
    ///
    /// # Cancel safety
    /// Dropping the future cancels a run without a store; a run with a store continues.
    #[doc(alias = "AIAssistant")]
    pub async fn process_request<R: ProcessedRequest>(
        &self,
        task: &R,
        caller: impl Into<Arc<str>>,
    ) -> R::Answer {
        task.process(self, caller.into()).await
    }
}
