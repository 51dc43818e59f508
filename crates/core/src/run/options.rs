//! `RunOptions`: what a run is given beside what runs and its input; and what the run keeps of it. The requests that
//! start runs fill it in. It starts nothing and records nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::made_resources::{OwnResources, ResourceFactories};
use crate::error::{Error, Result};
use crate::event::{LiveTerms, RunId, RunStarted, RunTerms};
use crate::memory::Memory;
use crate::resource::{ResourceKey, Resources};
use crate::state::{MOST_SAVED, SavedByStep, StateKey, StateOwner, StateValue, StateValues, too_much_in_session};
use crate::value::Encoded;

/// What a run is given: the same for workflows and agents.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOptions {
    pub(crate) run_id: Option<RunId>,
    pub(crate) caller: Option<Arc<str>>,
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
    /// The id of the session that it is a run of.
    pub(crate) session: Option<Arc<str>>,
    /// Initial values of keys of the state.
    pub(crate) state: BTreeMap<String, Encoded>,
    /// The first key that cannot be set, which ends the start of the run.
    pub(crate) refused_key: Option<RefusedKey>,
}

/// A key of the state that a run cannot begin with.
#[derive(Clone, Debug)]
pub(crate) struct RefusedKey {
    key: String,
    problem: String,
}

impl RunOptions {
    /// Sets a key of the state before the run begins. A problem is reported when the run is started.
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

    /// Takes the state that the run begins with; `None` when nothing is set.
    ///
    /// # Errors
    /// [`Error::State`] of a key that cannot be set, and when it is too large.
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
            size if size > MOST_SAVED => Err(Error::State { key: last, problem: too_much_in_session(size) }),
            _ => {
                let mut values = StateValues::default();
                values.apply(&saved);
                Ok(Some(Arc::new(values)))
            }
        }
    }

    /// What is recorded of the grants and the limits.
    pub(crate) fn terms(&self) -> RunTerms {
        RunTerms {
            max_steps: None,
            timeout_ms: self.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            max_llm_calls: self.max_llm_calls,
            scopes: self.grants.clone(),
            compensate: self.compensate,
            live: self.live,
            stream: self.stream,
            untraced: self.untraced,
            unmetered: self.unmetered,
        }
    }

    /// What a new run of a name keeps: whatever is not given is made by the factories.
    ///
    /// # Errors
    /// That of a factory.
    pub(crate) fn begin(
        &mut self,
        factories: &ResourceFactories,
        run: &RunId,
        name: &Arc<str>,
    ) -> Result<Option<Box<RunOwn>>> {
        let said = self.caller.is_some() || self.trace_id.is_some() || !self.tags.is_empty();
        let state = self.take_state()?;
        if !said && state.is_none() && self.session.is_none() && self.resources.is_empty() && factories.is_empty() {
            return Ok(None);
        }
        let began = RunBeginning {
            run_id: run.clone(),
            name: Arc::clone(name),
            caller: self.caller.take(),
            trace_id: self.trace_id.take(),
            tags: std::mem::take(&mut self.tags),
            session: self.session.take(),
        };
        let mut own = RunOwn::new(factories, began, std::mem::take(&mut self.resources))?;
        own.state = state;
        Ok(Some(Box::new(own)))
    }
}

/// What a run began with, as a factory of its resources sees it: who asked for it, and the tags. Given to
/// [`RuntimeBuilder::run_resource`](crate::runtime::RuntimeBuilder::run_resource).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBeginning {
    run_id: RunId,
    name: Arc<str>,
    caller: Option<Arc<str>>,
    trace_id: Option<Arc<str>>,
    tags: BTreeMap<String, String>,
    session: Option<Arc<str>>,
}

impl RunBeginning {
    /// The run.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// The name of its agent or workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// On whose behalf it runs.
    pub fn caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }

    /// The trace that it belongs to.
    pub fn trace_id(&self) -> Option<&str> {
        self.trace_id.as_deref()
    }

    /// Its tags.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }

    /// The id of the session that it is a run of.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// What the journal of a run says.
    pub(crate) fn recorded(run: &RunId, started: &RunStarted) -> Self {
        Self {
            run_id: run.clone(),
            name: started.name().into(),
            caller: started.caller.clone(),
            trace_id: started.trace_id.clone(),
            tags: started.tags.clone(),
            session: started.session.as_ref().map(|place| Arc::clone(&place.session)),
        }
    }
}

/// What a run has of its own: all agents and workflows in it have it too.
#[derive(Debug)]
pub(crate) struct RunOwn {
    pub(crate) began: RunBeginning,
    /// The state that it was given, until its beginning is recorded with it.
    pub(super) state: Option<Arc<StateValues>>,
    /// `None` once the run has ended.
    resources: Mutex<Option<OwnResources>>,
}

impl RunOwn {
    fn new(factories: &ResourceFactories, began: RunBeginning, given: Resources) -> Result<Self> {
        let resources = factories.make(&began, given)?;
        Ok(Self { began, state: None, resources: Mutex::new(Some(resources)) })
    }

    /// What a run has that is resumed: the resources are made anew.
    ///
    /// # Errors
    /// That of a factory.
    pub(crate) fn resumed(factories: &ResourceFactories, run: &RunId, started: &RunStarted) -> Result<Box<Self>> {
        Self::new(factories, RunBeginning::recorded(run, started), Resources::default()).map(Box::new)
    }

    fn held(&self) -> MutexGuard<'_, Option<OwnResources>> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The resources that it was given or that were made for it; none once it has ended.
    pub(crate) fn resources(&self) -> Resources {
        self.held().as_ref().map(|resources| resources.all.clone()).unwrap_or_default()
    }

    /// Takes the resources of a run that has ended. Dropping them closes them, too.
    pub(super) fn take_resources(&self) -> Option<OwnResources> {
        self.held().take()
    }
}

/// Says which resources nobody gave: those of `needs`, each with who needs it.
///
/// # Errors
/// [`Error::RunResource`] when there are any, so that nothing of the run begins.
pub(crate) fn check_resources<'n>(
    name: &Arc<str>,
    resources: &Resources,
    needs: impl IntoIterator<Item = (ResourceKey, &'n str)>,
) -> Result<()> {
    let missing = needs.into_iter().filter(|(key, _)| !resources.contains(*key));
    let memory = ResourceKey::of::<dyn Memory>();
    let by = |key| if key == memory { ", which `Runtime::builder().memory(..)` gives" } else { "" };
    let mut missing: Vec<String> =
        missing.map(|(key, of)| format!("{} for {of}{}", resources.missing(key), by(key))).collect();
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
