//! `Host`: what all runs of a program share. Clock, randomness, run ids, resources, sinks, models by name, the store.
//!
//! It knows neither agents nor workflows: what those add to it is kept as parts, by type.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::journal::Journal;
use super::live::LiveRuns;
use super::made_resources::ResourceFactories;
use super::nesting::MAX_NESTING;
use super::redaction::Redactor;
use super::running::Running;
use super::shared::RunShared;
use super::slots::Slots;
use crate::definition::{Changes, Definition, Difference, Known};
use crate::error::{ControlError, Result};
use crate::event::{EventSink, RunId};
use crate::future::BoxFuture;
use crate::model::{EnvSecrets, Model, ModelRef, ModelRefError, ModelSource, SecretProvider};
use crate::panics;
use crate::resource::Resources;
use crate::store::{Store, StoreError};
use crate::time::{Clock, SystemClock};
use crate::value::Encoded;

/// Makes the models of a provider of the host's own.
pub(crate) type ModelFactory =
    Arc<dyn Fn(&ModelRef, &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, String> + Send + Sync>;

/// Checks an answer by the workflow of a name and a definition hash, when the program has it: its node, and what was
/// answered.
pub(crate) type AnswerCheck = fn(&Host, (&str, &str), &str, &Encoded) -> Option<Result<(), ControlError>>;

/// Resumes a run on a task of its own.
pub(crate) type ResumeRun = for<'a> fn(&'a Arc<Host>, &'a RunId) -> BoxFuture<'a, Result<()>>;

/// What all runs of a program share.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) clock: Arc<dyn Clock>,
    /// Where the ids of new runs come from, when not from clock and chance.
    pub(crate) ids: Option<Arc<dyn Fn() -> RunId + Send + Sync>>,
    /// Where all chance of a run comes from: 64 random bits.
    pub(crate) random_bits: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(crate) resources: Resources,
    /// Factories of the resources of each run and each session.
    pub(crate) factories: ResourceFactories,
    pub(crate) sinks: Arc<[Arc<dyn EventSink>]>,
    pub(crate) secrets: Arc<dyn SecretProvider>,
    /// Providers of the host's own, by name.
    pub(crate) models: BTreeMap<String, ModelFactory>,
    /// Providers by the beginnings of their models' names, beside those that the library knows.
    pub(crate) model_prefixes: BTreeMap<String, String>,
    pub(crate) app: BTreeMap<String, Value>,
    pub(crate) store: Option<Arc<dyn Store>>,
    /// The runs of the store that this process executes; there is one when there is a store.
    pub(crate) live: Option<Arc<LiveRuns>>,
    /// The runs that are executed here, shared by all that was made of this host.
    pub(crate) running: Arc<Running>,
    /// How many calls of one tool run at once, shared by all that was made of this host.
    pub(crate) slots: Arc<Slots>,
    pub(crate) trace_content: bool,
    /// A tool call that is all of a node is recorded below the node, with its arguments.
    pub(crate) records_calls: bool,
    pub(crate) redactor: Option<Redactor>,
    pub(crate) max_llm_calls: u32,
    pub(crate) max_output_bytes: usize,
    pub(crate) max_nesting: u32,
    /// The scopes that workflows, and agents in the runtime's own contexts, are granted.
    pub(crate) scopes: Arc<[Arc<str>]>,
    pub(crate) check_answer: AnswerCheck,
    pub(crate) resume: ResumeRun,
    /// By their types, which are compared sooner than the parts are asked.
    parts: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl Default for Host {
    fn default() -> Self {
        panics::warn_once();
        Self {
            clock: Arc::new(SystemClock),
            ids: None,
            random_bits: Arc::new(|| fastrand::u64(..)),
            resources: Resources::default(),
            factories: ResourceFactories::default(),
            sinks: Arc::new([]),
            secrets: Arc::new(EnvSecrets),
            models: BTreeMap::new(),
            model_prefixes: BTreeMap::new(),
            app: BTreeMap::new(),
            store: None,
            live: None,
            running: Arc::default(),
            slots: Arc::default(),
            trace_content: false,
            records_calls: false,
            redactor: None,
            max_llm_calls: Self::MAX_LLM_CALLS,
            max_output_bytes: 16 << 20,
            max_nesting: MAX_NESTING,
            scopes: Arc::new([]),
            check_answer: |_, _, _, _| None,
            resume: |_, _| Box::pin(async { Ok(()) }),
            parts: Vec::new(),
        }
    }
}

impl Host {
    /// The most model calls of a run that says nothing else.
    pub(crate) const MAX_LLM_CALLS: u32 = 500;

    /// The one host of all agents, workflows and contexts of this process that were given none: the defaults, made when
    /// it is first asked for. It has no store and no sink, so nothing passes through it from one run to another.
    pub(crate) fn of_process() -> &'static Arc<Self> {
        static HOST: OnceLock<Arc<Host>> = OnceLock::new();
        HOST.get_or_init(Arc::default)
    }

    /// What a room above this one has put here, by its type.
    pub(crate) fn part<T: Any>(&self) -> Option<&T> {
        let (_, part) = self.parts.iter().find(|(of, _)| *of == TypeId::of::<T>())?;
        part.downcast_ref()
    }

    /// Puts something here in the place of what had the same type.
    pub(crate) fn set_part<T: Any + Send + Sync>(&mut self, part: T) {
        let of = TypeId::of::<T>();
        self.parts.retain(|(other, _)| *other != of);
        self.parts.push((of, Arc::new(part)));
    }

    /// A sentence for the log of the program, without what is taken out of events.
    pub(crate) fn redacted(&self, sentence: impl fmt::Display) -> String {
        let sentence = sentence.to_string();
        match self.redactor.as_ref().map(|redactor| redactor.text(&sentence)) {
            Some(Cow::Owned(without)) => without,
            _ => sentence,
        }
    }

    /// Keeps runs in a store.
    pub(crate) fn set_store(&mut self, store: Arc<dyn Store>) {
        self.live = Some(LiveRuns::of(&store));
        self.store = Some(store);
    }

    /// Whether the store may lack a definition.
    pub(crate) fn lacks_parts(&self, known: &Known) -> bool {
        self.live.as_ref().is_some_and(|live| live.lacks_definition(&known.id))
    }

    /// Keeps a definition in the store, once for each store.
    pub(crate) async fn put_parts(&self, known: &Known) -> Result<(), StoreError> {
        let (Some(store), Some(live)) = (&self.store, &self.live) else { return Ok(()) };
        if live.lacks_definition(&known.id) {
            let json = serde_json::to_string(&known.definition).unwrap_or_default();
            store.put_definition(&known.id, json).await?;
            live.has_definition(&known.id);
        }
        Ok(())
    }

    /// What of a changed definition is accepted here.
    pub(crate) fn changes(&self) -> Changes {
        self.part::<Changes>().copied().unwrap_or_default()
    }

    /// What differs from the definition of an id in the store; nothing when it is not there.
    pub(crate) async fn differences(&self, began: &Arc<str>, now: &Known) -> Result<Vec<Difference>, StoreError> {
        let Some(store) = self.store.as_ref().filter(|_| **began != *now.id) else { return Ok(Vec::new()) };
        let stored = store.definition(began).await?;
        let stored = stored.and_then(|json| serde_json::from_str::<Definition>(&json).ok());
        Ok(stored.map(|began| began.differences(&now.definition)).unwrap_or_default())
    }

    /// The store by which runs are found by their id.
    pub(crate) fn require_store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.store.clone().ok_or_else(StoreError::no_store)
    }

    /// A random number, at least 0 and less than 1.
    pub(crate) fn random(&self) -> f64 {
        let upper = u32::try_from((self.random_bits)() >> 32).unwrap_or_default();
        f64::from(upper) / (f64::from(u32::MAX) + 1.0)
    }

    /// The random bits of a question's id.
    pub(crate) fn question_bits(&self) -> u64 {
        (self.random_bits)()
    }

    /// The journal of a new run, when there is a store.
    pub(crate) fn new_journal(&self) -> Option<Journal> {
        self.store.as_ref().map(|store| Journal::new(Arc::clone(store), None))
    }

    /// The model of a name such as `openai-chat/gpt-5-mini`.
    pub(crate) fn model(&self, model: &ModelRef) -> Result<Arc<dyn Model>, ModelRefError> {
        let made = match self.models.get(model.provider()) {
            Some(factory) => factory(model, &self.secrets),
            None => crate::model::built_in(model, &self.secrets, self.models.keys().map(String::as_str)),
        };
        made.map_err(|problem| ModelRefError::unusable(model, problem))
    }

    /// Reads the name of a model. A bare name belongs to the provider with the longest of the host's prefixes that it begins
    /// with; without one, to a provider that the library knows.
    fn model_ref(&self, name: &str) -> Result<ModelRef, ModelRefError> {
        let bare = name.trim();
        let prefixes = self.model_prefixes.iter().filter(|(prefix, _)| bare.starts_with(&**prefix));
        match prefixes.max_by_key(|(prefix, _)| prefix.len()) {
            Some((_, provider)) if !bare.contains(['/', ':']) => Ok(ModelRef::new(provider, bare)),
            _ => name.parse(),
        }
    }

    /// Returns a sentence if the provider in a model's name is not known here.
    pub(crate) fn problem_of_provider(&self, source: &ModelSource) -> Option<String> {
        let name = self.model_ref(source.given_or_named().err()?).ok()?;
        crate::model::problem_of_provider(name.provider(), self.models.keys().map(String::as_str))
    }

    /// The model itself: given, or found by its name.
    pub(crate) fn open(&self, source: &ModelSource) -> Result<Arc<dyn Model>, ModelRefError> {
        match source.given_or_named() {
            Ok(model) => Ok(Arc::clone(model)),
            Err(name) => self.model(&self.model_ref(name)?),
        }
    }

    /// A run with a store is executed here from now on: it is found by its id until it is forgotten.
    pub(crate) fn remember(&self, shared: &Arc<RunShared>) {
        if let Some(live) = self.live.as_ref().filter(|_| shared.log.is_durable()) {
            live.add(shared);
        }
    }

    /// A run is no longer executed here.
    pub(crate) fn forget(&self, shared: &RunShared) {
        if let Some(live) = self.live.as_ref().filter(|_| shared.log.is_durable()) {
            live.remove(shared);
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("clock", &self.clock)
            .field("resources", &self.resources)
            .field("sinks", &self.sinks.len())
            .field("models", &self.models.keys())
            .field("app", &self.app.keys())
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[derive(Debug)]
    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(1000)
        }
    }

    #[test]
    fn ids_and_chance_come_from_the_host() {
        let host =
            |bits: u64| Host { clock: Arc::new(Stopped), random_bits: Arc::new(move || bits), ..Host::default() };
        assert_eq!(host(255).new_run_id().as_str(), "0000000003e8-00000000000000ff");
        assert!(host(0).random() == 0.0 && host(1 << 63).random() == 0.5);
        assert!((0.99..1.0).contains(&host(u64::MAX).random()));
    }
}
