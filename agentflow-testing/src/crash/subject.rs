//! The subject of a crash test, a workflow or an agent, behind a trait that starts and resumes it.

use agentflow::agent::RunRequest;
use agentflow::run::Events;
use agentflow::value::NodeValue;
use agentflow::workflow::{Inputs, IntoInputs};
use agentflow::{Agent, Error, Result, RunHandle, RunId, Runtime, Workflow};
use futures_util::future::BoxFuture;

/// A workflow or an agent that can be started and resumed.
pub(super) trait Subject: Send + Sync {
    fn start<'a>(
        &'a self,
        runtime: &'a Runtime,
        run: RunId,
    ) -> BoxFuture<'a, Result<Box<dyn Alive>>>;

    fn resume<'a>(
        &'a self,
        runtime: &'a Runtime,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Box<dyn Alive>>>;

    /// Enables compensation for a failed run.
    fn compensate(&mut self);

    /// Returns the name for reports.
    fn name(&self) -> String;
}

/// A run that is being executed.
pub(super) trait Alive: Send {
    fn events(&self) -> Events;

    /// Drops the run, as the end of its process does.
    fn abandon(self: Box<Self>);

    /// Waits for the end of the run. An error is an infrastructure failure; a failure of the run
    /// itself is in its journal.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

impl<T: Send + 'static> Alive for RunHandle<T> {
    fn events(&self) -> Events {
        Self::events(self)
    }

    fn abandon(self: Box<Self>) {
        Self::abandon(*self);
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            match self.result().await {
                Err(error @ (Error::Store(_) | Error::Lost { .. })) => Err(error),
                _ => Ok(()),
            }
        })
    }
}

pub(super) struct OfWorkflow<In, Out, F> {
    pub(super) workflow: Workflow<In, Out>,
    pub(super) input: F,
    pub(super) compensates: bool,
}

impl<In, Out, F, I> Subject for OfWorkflow<In, Out, F>
where
    In: Inputs,
    Out: NodeValue,
    F: Fn() -> I + Send + Sync,
    I: IntoInputs<In>,
{
    fn start<'a>(
        &'a self,
        runtime: &'a Runtime,
        run: RunId,
    ) -> BoxFuture<'a, Result<Box<dyn Alive>>> {
        let input = (self.input)().into_inputs();
        Box::pin(async move {
            let start = runtime.start(self.workflow.clone(), Given(input)).run_id(run);
            let start = if self.compensates { start.compensate() } else { start };
            Ok(Box::new(start.await?) as Box<dyn Alive>)
        })
    }

    fn resume<'a>(
        &'a self,
        runtime: &'a Runtime,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Box<dyn Alive>>> {
        Box::pin(async move {
            Ok(Box::new(runtime.run(run).resume_as(&self.workflow).await?) as Box<dyn Alive>)
        })
    }

    fn compensate(&mut self) {
        self.compensates = true;
    }

    fn name(&self) -> String {
        format!("the workflow `{}`", self.workflow.name())
    }
}

/// Inputs that need no conversion.
struct Given<In>(In);

impl<In> IntoInputs<In> for Given<In> {
    fn into_inputs(self) -> In {
        self.0
    }
}

pub(super) struct OfAgent<O, F> {
    pub(super) agent: Agent<O>,
    pub(super) request: F,
}

impl<O, F, R> Subject for OfAgent<O, F>
where
    O: Send + Sync + 'static,
    F: Fn() -> R + Send + Sync,
    R: Into<RunRequest>,
{
    fn start<'a>(
        &'a self,
        runtime: &'a Runtime,
        run: RunId,
    ) -> BoxFuture<'a, Result<Box<dyn Alive>>> {
        let request: RunRequest = (self.request)().into();
        let started = self.agent.clone().runtime(runtime).start(request.run_id(run));
        Box::pin(std::future::ready(started.map(|handle| Box::new(handle) as Box<dyn Alive>)))
    }

    fn resume<'a>(
        &'a self,
        runtime: &'a Runtime,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Box<dyn Alive>>> {
        Box::pin(async move {
            Ok(Box::new(self.agent.clone().runtime(runtime).resume(run).await?) as Box<dyn Alive>)
        })
    }

    fn compensate(&mut self) {
        panic!("of an agent, the request says that it compensates: `RunRequest::compensate`");
    }

    fn name(&self) -> String {
        "the agent".to_owned()
    }
}
