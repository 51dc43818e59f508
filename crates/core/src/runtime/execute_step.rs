//! `Runtime::execute_step`: executes one step of a run that another process has. It keeps nothing of the run.

use std::sync::Arc;

use super::Runtime;
use super::changes::accept;
use crate::error::{Error, Failure, FailureKind, Result};
use crate::executor::{Delivery, ExecutorError, FarRun, StepCall, StepEnd, StepOutcome, StepRecorder, drained};
use crate::workflow::execute;
use crate::workflow::spec::Spec;

impl Runtime {
    /// Executes one attempt at a step that was handed out by a [`StepExecutor`](crate::executor::StepExecutor) of another
    /// runtime, which may be in another process: it finds the workflow by its name, compares the version, and calls the step
    /// with the resources, models and middleware of this runtime. What is recorded below the step goes to `recorder` and is
    /// kept by the run before the step continues.
    ///
    /// The version is that of the run: a workflow of documents of which this runtime now has another version is read from the
    /// [store](super::RuntimeBuilder::store) of this runtime, when that is the run's. What the agents and tools that it calls
    /// have of their own in the program is compared as when a run is resumed ([`Changes`](super::Changes)), when this runtime
    /// has the store of the run.
    ///
    /// Before all that it takes the step, with a first batch to `recorder` that holds no events: of a call that is executed
    /// twice, at the same time or one after the other, the run lets one have the step, and the other one ends with
    /// [`StepEnd::Refused`] before anything of the step has run. So does a call that is given to a runtime which is being
    /// drained.
    ///
    /// Whatever else goes wrong is in the outcome: a workflow that is not known here (`unknown_workflow`), another definition
    /// of it, or of its documents (`definition_changed`), a missing resource (`missing_resource`). The outcome of a step whose run does not keep
    /// what it records no longer matters to that run.
    ///
    /// Dropping the future drops the step with all that it has begun. [`drain`](Self::drain) of this runtime waits for the
    /// step and leaves it at the deadline.
    pub async fn execute_step(&self, call: StepCall, recorder: impl StepRecorder + 'static) -> StepOutcome {
        let delivery = Delivery::new(self.host(), &call, Arc::new(recorder));
        // A drain waits for the step from here on, and leaves it to another worker even when nothing of it has run.
        let run = FarRun::begin(self.host(), &call, &delivery);
        let end = match self.taken(&call, &delivery, &run).await {
            Ok(()) => match (self.spec_of(&call).await, run) {
                (Ok(spec), Ok(run)) => execute(&spec, &call, run, &*delivery.recorder).await,
                (Ok(_), Err(error)) => StepEnd::Failed { failure: Failure::from(&error) },
                (Err(failure), _) => StepEnd::Failed { failure },
            },
            Err(error) => StepEnd::Refused { error },
        };
        call.ended(end)
    }

    /// Takes the step of a call, unless this runtime is drained.
    async fn taken(&self, call: &StepCall, delivery: &Delivery, run: &Result<FarRun>) -> Result<(), ExecutorError> {
        match run {
            Err(Error::Draining) => Err(drained(call)),
            _ => delivery.take().await,
        }
    }

    /// The workflow that a call is of, in the version of its run.
    async fn spec_of(&self, call: &StepCall) -> Result<Arc<Spec>, Failure> {
        if call.version != StepCall::VERSION {
            let message = format!(
                "the step `{}` was handed out in the form {}, and this release reads the form {}; use the same release on both \
                 sides",
                call.path,
                call.version,
                StepCall::VERSION
            );
            return Err(Failure::new(FailureKind::NewerVersion, message));
        }
        let reader = self.reader_for(self.store(), Some(&call.parts)).await;
        let reader = reader.map_err(|error| Failure::from(&Error::Store(error)))?;
        let now = reader.fetched_workflow_spec(&call.workflow).await;
        let is_it = |spec: &Spec| *spec.hash() == call.definition && spec.documents() == call.documents;
        let now = match now {
            Ok(spec) if *spec.hash() == call.definition && *spec.parts().id == *call.parts => return Ok(spec),
            Ok(spec) if is_it(&spec) => Ok(spec),
            #[cfg(feature = "documents")]
            now => match reader.version_of_call(call, is_it).await.map_err(|error| Failure::from(&error))? {
                Some(spec) => Ok(spec),
                None => now,
            },
            #[cfg(not(feature = "documents"))]
            now => now,
        };
        let spec = now.map_err(|error| Failure::from(&error))?;
        if *spec.hash() != call.definition {
            // Without the tools of a toolset, which was there when the run began, the workflow has another definition.
            reader.fetch_toolsets_of(&call.workflow).await.map_err(|error| Failure::from(&error))?;
            let message = format!(
                "the step `{}` is of the workflow `{}` with the definition {}, and here the workflow has the definition {}; \
                 execute it with the program that the run goes by",
                call.path,
                call.workflow,
                call.definition,
                spec.hash()
            );
            return Err(Failure::new(FailureKind::DefinitionChanged, message));
        }
        if call.documents != spec.documents() {
            let message = format!(
                "the step `{}` is of the workflow `{}`, whose documents have another version here than the run began with, and \
                 the store of this runtime does not keep that version; give it the store of the run, or the documents of the \
                 run",
                call.path, call.workflow
            );
            return Err(Failure::new(FailureKind::DefinitionChanged, message));
        }
        let differences = self.differences(Some(Arc::clone(&call.parts)), spec.parts()).await;
        differences
            .and_then(|differences| accept(self.changes(), "workflow", &spec.name, differences))
            .map_err(|error| Failure::from(&error))?;
        Ok(spec)
    }

    /// The version of a call's run, made of the documents that the store of this runtime keeps of it; `None` when it keeps
    /// none of that version.
    #[cfg(feature = "documents")]
    async fn version_of_call(&self, call: &StepCall, is_it: impl Fn(&Spec) -> bool) -> Result<Option<Arc<Spec>>> {
        let (Some(store), Some(documents)) = (self.store(), &call.documents) else { return Ok(None) };
        if let Some(spec) = self.kept_texts(store, &call.workflow, documents).await?.transpose()?
            && is_it(&spec)
        {
            return Ok(Some(spec));
        }
        // An earlier release kept them by their version alone.
        let version = (&*call.workflow, &*call.definition, Some(&*call.parts));
        Ok(self.kept_version(store, version).await?.transpose()?.filter(|spec| is_it(spec)))
    }
}
