//! `Host`: the state that all runs of a runtime share, such as clock, randomness, run ids,
//! resources, sinks, models and store.
//!
//! The host is independent of agents and workflows. They store their own shared state as parts, by
//! type.

use agentflow_schema::diagnostic::Diagnostic;
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

/// Creates a model for a provider that the program registered.
pub(crate) type ModelFactory = Arc<
    dyn Fn(&ModelRef, &Arc<dyn SecretProvider>) -> Result<Arc<dyn Model>, String> + Send + Sync,
>;

/// Checks an answer with the workflow of a name and a definition hash, if the program has that
/// workflow. The other arguments are the node and the answer.
pub(crate) type AnswerCheck =
    fn(&Host, (&str, &str), &str, &Encoded) -> Option<Result<(), ControlError>>;

/// Resumes a run on its own task.
pub(crate) type ResumeRun = for<'a> fn(&'a Arc<Host>, &'a RunId) -> BoxFuture<'a, Result<()>>;

/// The state that all runs of a runtime share.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) clock: Arc<dyn Clock>,
    /// Source of ids for new runs. Without it, ids are made from clock and randomness.
    pub(crate) ids: Option<Arc<dyn Fn() -> RunId + Send + Sync>>,
    /// Source of all randomness of a run: 64 random bits per call.
    pub(crate) random_bits: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(crate) resources: Resources,
    /// Factories of the resources per run and per session.
    pub(crate) factories: ResourceFactories,
    pub(crate) sinks: Arc<[Arc<dyn EventSink>]>,
    pub(crate) secrets: Arc<dyn SecretProvider>,
    /// Providers that the program registered, by name.
    pub(crate) models: BTreeMap<String, ModelFactory>,
    /// Providers by the prefix of their model names, in addition to the built-in prefixes.
    pub(crate) model_prefixes: BTreeMap<String, String>,
    pub(crate) app: BTreeMap<String, Value>,
    pub(crate) store: Option<Arc<dyn Store>>,
    /// The runs of the store that this process executes. Set if there is a store.
    pub(crate) live: Option<Arc<LiveRuns>>,
    /// The runs that this process executes. All clones of this host share it.
    pub(crate) running: Arc<Running>,
    /// Limits on concurrent calls to a tool. All clones of this host share them.
    pub(crate) slots: Arc<Slots>,
    pub(crate) trace_content: bool,
    /// `true` to record a node's single tool call below the node, with its arguments.
    pub(crate) records_calls: bool,
    pub(crate) redactor: Option<Redactor>,
    pub(crate) max_llm_calls: u32,
    pub(crate) max_output_bytes: usize,
    pub(crate) max_nesting: u32,
    /// Scopes granted to workflows, and to agents in contexts of the runtime.
    pub(crate) scopes: Arc<[Arc<str>]>,
    pub(crate) check_answer: AnswerCheck,
    pub(crate) resume: ResumeRun,
    /// Each with its type id, which is compared before the downcast.
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
    /// Default of the maximum number of model calls per run.
    pub(crate) const MAX_LLM_CALLS: u32 = 500;

    /// Returns the host of all agents, workflows and contexts of this process that were given none.
    /// It has default settings, and is created on first use. It has no store and no sink, so it
    /// passes no data from one run to another.
    pub(crate) fn of_process() -> &'static Arc<Self> {
        static HOST: OnceLock<Arc<Host>> = OnceLock::new();
        HOST.get_or_init(Arc::default)
    }

    /// Returns the part of type `T` that another module stored in this host.
    pub(crate) fn part<T: Any>(&self) -> Option<&T> {
        let (_, part) = self.parts.iter().find(|(of, _)| *of == TypeId::of::<T>())?;
        part.downcast_ref()
    }

    /// Stores a part. Replaces an existing part of the same type.
    pub(crate) fn set_part<T: Any + Send + Sync>(&mut self, part: T) {
        let of = TypeId::of::<T>();
        self.parts.retain(|(other, _)| *other != of);
        self.parts.push((of, Arc::new(part)));
    }

    /// Removes a part.
    pub(crate) fn remove_part<T: Any>(&mut self) {
        self.parts.retain(|(of, _)| *of != TypeId::of::<T>());
    }

    /// Formats a message for the program's log, redacted like events.
    pub(crate) fn redacted(&self, sentence: impl fmt::Display) -> String {
        let sentence = sentence.to_string();
        match self.redactor.as_ref().map(|redactor| redactor.text(&sentence)) {
            Some(Cow::Owned(without)) => without,
            _ => sentence,
        }
    }

    /// Sets the store of the runs.
    pub(crate) fn set_store(&mut self, store: Arc<dyn Store>) {
        self.live = Some(LiveRuns::for_store(&store));
        self.store = Some(store);
    }

    /// Returns `true` if the store may lack a definition.
    pub(crate) fn lacks_parts(&self, known: &Known) -> bool {
        self.live.as_ref().is_some_and(|live| live.lacks_definition(&known.id))
    }

    /// Writes a definition to the store, unless this process has already done so.
    pub(crate) async fn put_parts(&self, known: &Known) -> Result<(), StoreError> {
        let (Some(store), Some(live)) = (&self.store, &self.live) else { return Ok(()) };
        if live.lacks_definition(&known.id) {
            let json = serde_json::to_string(&known.definition).unwrap_or_default();
            store.put_definition(&known.id, json).await?;
            live.has_definition(&known.id);
        }
        Ok(())
    }

    /// Returns the changes of a definition that this host accepts.
    pub(crate) fn changes(&self) -> Changes {
        self.part::<Changes>().copied().unwrap_or_default()
    }

    /// Returns the differences from the stored definition with the id `began`. The list is empty if
    /// the store does not have it.
    pub(crate) async fn differences(
        &self,
        began: &Arc<str>,
        now: &Known,
    ) -> Result<Vec<Difference>, StoreError> {
        let Some(store) = self.store.as_ref().filter(|_| **began != *now.id) else {
            return Ok(Vec::new());
        };
        let stored = store.definition(began).await?;
        let stored = stored.and_then(|json| serde_json::from_str::<Definition>(&json).ok());
        Ok(stored.map(|began| began.differences(&now.definition)).unwrap_or_default())
    }

    /// Returns the store, in which runs are found by id.
    pub(crate) fn require_store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.store.clone().ok_or_else(StoreError::no_store)
    }

    /// Returns a random number in the range from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn random(&self) -> f64 {
        // 32 bits are represented exactly in an `f64`.
        let upper = u32::try_from((self.random_bits)() >> 32).unwrap_or_default();
        f64::from(upper) / (f64::from(u32::MAX) + 1.0)
    }

    /// Returns random bits for the id of a question.
    pub(crate) fn question_bits(&self) -> u64 {
        (self.random_bits)()
    }

    /// Creates the journal of a new run, if there is a store.
    pub(crate) fn new_journal(&self) -> Option<Journal> {
        self.store.as_ref().map(|store| Journal::new(Arc::clone(store), None))
    }

    /// Creates the model with a name such as `openai-chat/gpt-5-mini`.
    pub(crate) fn model(&self, model: &ModelRef) -> Result<Arc<dyn Model>, ModelRefError> {
        match self.models.get(model.provider()) {
            Some(factory) => factory(model, &self.secrets)
                .map_err(|problem| ModelRefError::unusable(model, problem)),
            None => {
                crate::model::built_in(model, &self.secrets, self.models.keys().map(String::as_str))
            }
        }
    }

    /// Parses the name of a model. A name without a provider belongs to the provider of the longest
    /// registered prefix that matches. Without a match, it belongs to a built-in provider.
    fn model_ref(&self, name: &str) -> Result<ModelRef, ModelRefError> {
        let bare = name.trim();
        let prefixes = self.model_prefixes.iter().filter(|(prefix, _)| bare.starts_with(&**prefix));
        match prefixes.max_by_key(|(prefix, _)| prefix.len()) {
            // A name with a separator names its provider explicitly.
            Some((_, provider)) if !bare.contains(['/', ':']) => Ok(ModelRef::new(provider, bare)),
            _ => name.parse(),
        }
    }

    /// Returns a message if the provider in a model's name is unknown.
    pub(crate) fn problem_of_provider(&self, source: &ModelSource) -> Option<Diagnostic> {
        let name = self.model_ref(source.model_or_name().err()?).ok()?;
        crate::model::problem_of_provider(name.provider(), self.models.keys().map(String::as_str))
    }

    /// Returns the given model, or creates it by its name.
    pub(crate) fn open(&self, source: &ModelSource) -> Result<Arc<dyn Model>, ModelRefError> {
        match source.model_or_name() {
            Ok(model) => Ok(Arc::clone(model)),
            Err(name) => self.model(&self.model_ref(name)?),
        }
    }

    /// Registers a run with a store, so that requests in this process find it by its id.
    pub(crate) fn remember(&self, shared: &Arc<RunShared>) {
        if let Some(live) = self.live.as_ref().filter(|_| shared.log.is_durable()) {
            live.add(shared);
        }
    }

    /// Removes a run that this process no longer executes.
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
        let host = |bits: u64| Host {
            clock: Arc::new(Stopped),
            random_bits: Arc::new(move || bits),
            ..Host::default()
        };
        assert_eq!(host(255).new_run_id().as_str(), "0000000003e8-00000000000000ff");
        assert!(host(0).random() == 0.0 && host(1 << 63).random() == 0.5);
        assert!((0.99..1.0).contains(&host(u64::MAX).random()));
    }
}
