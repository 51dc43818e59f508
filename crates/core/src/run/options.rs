//! `RunOptions`: the settings of a run other than its agent or workflow and its input, and
//! `RunData`, the part that the run keeps. The requests that start runs fill in the options.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::made_resources::{OwnResources, ResourceFactories};
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::event::{DocumentVersion, LiveTerms, RunId, RunStarted, RunTerms};
use crate::memory::Memory;
use crate::resource::{ResourceKey, Resources};
use crate::state::{
    MOST_SAVED, SavedByStep, StateKey, StateOwner, StateValue, StateValues, too_much_in_session,
};
use crate::value::Encoded;

/// The settings of a run, common to workflows and agents.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOptions {
    pub(crate) run_id: Option<RunId>,
    pub(crate) caller: Option<Caller>,
    pub(crate) trace_id: Option<Arc<str>>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) grants: Vec<Arc<str>>,
    pub(crate) resources: Resources,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_llm_calls: Option<u32>,
    pub(crate) compensate: bool,
    pub(crate) live: Option<LiveTerms>,
    pub(crate) stream: bool,
    pub(crate) untraced: bool,
    pub(crate) unmetered: bool,
    /// `true` if the run is stored and not executed by the process that starts it.
    pub(crate) queued: bool,
    /// Id of the session that the run belongs to.
    pub(crate) session: Option<Arc<str>>,
    /// Initial values of keys of the state.
    pub(crate) state: BTreeMap<String, Encoded>,
    /// The first key that cannot be set. It makes the start of the run fail.
    pub(crate) refused_key: Option<RefusedKey>,
    /// Stored document that the run executes.
    pub(crate) document: Option<Arc<DocumentVersion>>,
}

/// A key of the state that a run cannot start with.
#[derive(Clone, Debug)]
pub(crate) struct RefusedKey {
    key: String,
    problem: String,
}

impl RunOptions {
    /// Sets a key of the state before the run starts. A problem is reported when the run is
    /// started.
    pub(crate) fn set_state<T: StateValue>(&mut self, key: &StateKey<T>, value: &T) {
        let problem = match (key.owner(), value.encode()) {
            (StateOwner::Session, Ok(value)) => {
                self.state.insert(key.to_string(), value);
                return;
            }
            (StateOwner::Session, Err(error)) => format!("the value does not survive its way through JSON: {error}"),
            _ => {
                "a run begins with keys of its session alone; set this one in a step, or through the runtime".to_owned()
            }
        };
        self.refused_key.get_or_insert(RefusedKey { key: key.to_string(), problem });
    }

    /// Takes the initial state of the run; `None` if no key was set.
    ///
    /// # Errors
    /// [`Error::State`] if a key cannot be set, or the state is too large.
    fn take_state(&mut self) -> Result<Option<Arc<StateValues>>> {
        if let Some(RefusedKey { key, problem }) = self.refused_key.take() {
            return Err(Error::State { key, problem });
        }
        let mut saved = SavedByStep::default();
        let mut last = String::new();
        for (key, value) in std::mem::take(&mut self.state) {
            saved.change(&key, Some(value));
            last = key;
        }
        match saved.size() {
            0 => Ok(None),
            size if size > MOST_SAVED => {
                Err(Error::State { key: last, problem: too_much_in_session(size) })
            }
            _ => {
                let mut values = StateValues::default();
                values.apply(&saved);
                Ok(Some(Arc::new(values)))
            }
        }
    }

    /// Adds the scopes of the caller to the grants.
    pub(crate) fn grant_scopes_of_caller(&mut self) {
        for scope in self.caller.iter().flat_map(Caller::granted_scopes) {
            if !self.grants.contains(scope) {
                self.grants.push(Arc::clone(scope));
            }
        }
    }

    /// Returns the recorded form of the grants and limits.
    pub(crate) fn terms(&self) -> RunTerms {
        RunTerms {
            max_steps: None,
            timeout_ms: self
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            max_llm_calls: self.max_llm_calls,
            scopes: self.grants.clone(),
            compensate: self.compensate,
            live: self.live,
            stream: self.stream,
            untraced: self.untraced,
            unmetered: self.unmetered,
            queued: self.queued,
        }
    }

    /// Takes the part of the options that a new run keeps. Factories create the resources that were
    /// not given. Returns `None` if there is nothing to keep.
    ///
    /// # Errors
    /// Returns the error of the initial state or of a factory.
    pub(crate) fn begin(
        &mut self,
        factories: &ResourceFactories,
        run: &RunId,
        name: &Arc<str>,
    ) -> Result<Option<Box<RunData>>> {
        self.grant_scopes_of_caller();
        let said = self.caller.is_some()
            || self.trace_id.is_some()
            || !self.tags.is_empty()
            || self.document.is_some();
        let state = self.take_state()?;
        // Most runs need none of these and no allocation.
        if !said
            && state.is_none()
            && self.session.is_none()
            && self.resources.is_empty()
            && factories.is_empty()
        {
            return Ok(None);
        }
        let began = RunBeginning {
            run_id: run.clone(),
            name: Arc::clone(name),
            caller: self.caller.take(),
            trace_id: self.trace_id.take(),
            tags: std::mem::take(&mut self.tags),
            session: self.session.take(),
            document: self.document.take(),
        };
        let mut own = RunData::new(factories, began, std::mem::take(&mut self.resources))?;
        own.state = state;
        Ok(Some(Box::new(own)))
    }
}

/// The data of a starting run that a factory of its resources receives, such as its caller and
/// tags. Passed to [`RuntimeBuilder::run_resource`](crate::runtime::RuntimeBuilder::run_resource).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBeginning {
    run_id: RunId,
    name: Arc<str>,
    caller: Option<Caller>,
    trace_id: Option<Arc<str>>,
    tags: BTreeMap<String, String>,
    session: Option<Arc<str>>,
    document: Option<Arc<DocumentVersion>>,
}

impl RunBeginning {
    /// Returns the id of the run.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Returns the name of its agent or workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the caller on whose behalf the run was started.
    pub fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns the id of the trace that the run belongs to.
    pub fn trace_id(&self) -> Option<&str> {
        self.trace_id.as_deref()
    }

    /// Returns the tags of the run.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }

    /// Returns the id of the session that the run belongs to.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns the version of the stored document with which the run started.
    pub fn document(&self) -> Option<&DocumentVersion> {
        self.document.as_deref()
    }

    pub(crate) fn shared_document(&self) -> Option<&Arc<DocumentVersion>> {
        self.document.as_ref()
    }

    /// Restores the data from the journal of a run.
    pub(crate) fn recorded(run: &RunId, started: &RunStarted) -> Self {
        Self {
            run_id: run.clone(),
            name: started.name().into(),
            caller: started.started_by(),
            trace_id: started.trace_id.clone(),
            tags: started.tags.clone(),
            session: started.session.as_ref().map(|place| Arc::clone(&place.session)),
            document: started.document.clone(),
        }
    }
}

/// Data and resources of one run, shared by all agents and workflows in it.
#[derive(Debug)]
pub(crate) struct RunData {
    pub(crate) began: RunBeginning,
    /// The initial state, until the start of the run is recorded.
    pub(super) state: Option<Arc<StateValues>>,
    /// `None` after the run has ended.
    resources: Mutex<Option<OwnResources>>,
}

impl RunData {
    fn new(factories: &ResourceFactories, began: RunBeginning, given: Resources) -> Result<Self> {
        let resources = factories.make(&began, given)?;
        Ok(Self { began, state: None, resources: Mutex::new(Some(resources)) })
    }

    /// Creates the data of a resumed run. Its resources are created again.
    ///
    /// # Errors
    /// Returns the error of a factory.
    pub(crate) fn resumed(
        factories: &ResourceFactories,
        run: &RunId,
        started: &RunStarted,
    ) -> Result<Box<Self>> {
        Self::new(factories, RunBeginning::recorded(run, started), Resources::default())
            .map(Box::new)
    }

    fn held(&self) -> MutexGuard<'_, Option<OwnResources>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the resources that the run was given or that were created for it; empty after the
    /// run has ended.
    pub(crate) fn resources(&self) -> Resources {
        self.held().as_ref().map(|resources| resources.all.clone()).unwrap_or_default()
    }

    /// Takes the resources of a run that has ended. Dropping them also closes them.
    pub(super) fn take_resources(&self) -> Option<OwnResources> {
        self.held().take()
    }
}

/// Checks that the resources in `needs` exist. Each comes with a description of its user.
///
/// # Errors
/// [`Error::RunResource`] if a resource is missing, so that no part of the run starts.
pub(crate) fn check_resources<'n>(
    name: &Arc<str>,
    resources: &Resources,
    needs: impl IntoIterator<Item = (ResourceKey, &'n str)>,
) -> Result<()> {
    let missing = needs.into_iter().filter(|(key, _)| !resources.contains(*key));
    let memory = ResourceKey::of::<dyn Memory>();
    let by = |key| if key == memory { ", which `Runtime::builder().memory(..)` gives" } else { "" };
    let mut missing: Vec<String> = missing
        .map(|(key, of)| format!("{} for {of}{}", resources.missing(key), by(key)))
        .collect();
    missing.sort_unstable();
    missing.dedup();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::RunResource {
            name: Arc::clone(name),
            problem: format!(
                "these resources are missing: {}; give each with `.resource(value)` to the runtime's builder, the agent or the \
                 one run where it is started, a trait object as an `Arc<dyn Trait>`; with `run_resource` on the runtime's \
                 builder each run has its own, also after a restart",
                missing.join(", ")
            ),
        }),
    }
}
