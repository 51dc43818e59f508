//! [`Runtime::execute_step`] executes a single step of a run that another process owns.

use std::sync::Arc;

use super::Runtime;
use super::changes::accept;
use crate::error::{Error, Failure, FailureKind, Result};
use crate::executor::{
    Delivery, ExecutorError, RemoteRun, StepCall, StepEnd, StepOutcome, StepRecorder, drained,
};
use crate::workflow::execute;
use crate::workflow::spec::Spec;

impl Runtime {
    /// Executes an attempt at a step that a [`StepExecutor`](crate::executor::StepExecutor) of
    /// another runtime, usually in another process, has dispatched. Finds the workflow by its name,
    /// checks its version, and executes the step with the resources, models and middleware of this
    /// runtime. Events below the step are sent to `recorder`; the run stores them before the step
    /// continues.
    ///
    /// The version must be the version of the run. If the workflow comes from documents and this
    /// runtime has a different version of them, the version of the run is loaded from this
    /// runtime's [store](super::RuntimeBuilder::store), provided that both share a store. In this
    /// case the definitions of called agents and tools are also compared, as when a run is resumed
    /// ([`Changes`](super::Changes)).
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

    /// Claims the step of a call, unless this runtime is being drained.
    async fn taken(
        &self,
        call: &StepCall,
        delivery: &Delivery,
        run: &Result<RemoteRun>,
    ) -> Result<(), ExecutorError> {
        match run {
            Err(Error::Draining) => Err(drained(call)),
            _ => delivery.take().await,
        }
    }

    /// Returns the workflow of a call, in the version of its run.
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
        let is_it =
            |spec: &Spec| *spec.hash() == call.definition && spec.documents() == call.documents;
        let now = match now {
            Ok(spec) if *spec.hash() == call.definition && *spec.parts().id == *call.parts => {
                return Ok(spec);
            }
            Ok(spec) if is_it(&spec) => Ok(spec),
            #[cfg(feature = "documents")]
            now => match reader
                .version_of_call(call, is_it)
                .await
                .map_err(|error| Failure::from(&error))?
            {
                Some(spec) => Ok(spec),
                None => now,
            },
            #[cfg(not(feature = "documents"))]
            now => now,
        };
        let spec = now.map_err(|error| Failure::from(&error))?;
        if *spec.hash() != call.definition {
            // The definition may differ because tools of a toolset, which were available when the
            // run started, are missing here. In this case the fetch error is the better message.
            reader
                .fetch_toolsets_of(&call.workflow)
                .await
                .map_err(|error| Failure::from(&error))?;
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

    /// Returns the version of a call's run, loaded from the documents in this runtime's store.
    /// Returns `None` if the store does not contain that version.
    #[cfg(feature = "documents")]
    async fn version_of_call(
        &self,
        call: &StepCall,
        is_it: impl Fn(&Spec) -> bool,
    ) -> Result<Option<Arc<Spec>>> {
        let (Some(store), Some(documents)) = (self.store(), &call.documents) else {
            return Ok(None);
        };
        if let Some(spec) =
            self.stored_texts(store, &call.workflow, documents).await?.transpose()?
            && is_it(&spec)
        {
            return Ok(Some(spec));
        }
        // Earlier releases stored documents only by version.
        let version = (&*call.workflow, &*call.definition, Some(&*call.parts));
        Ok(self.stored_version(store, version).await?.transpose()?.filter(|spec| is_it(spec)))
    }
}
