//! [`AgentDefinition`] describes an `#[agent]` function that is linked into the program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::call::AgentOptions;
use super::erased::ErasedAgent;
use super::limits::Limits;
use super::outline::AgentOutline;
use super::{Agent, AgentSettings};
use crate::context::Context;
use crate::error::{Error, RegistryError, Result};
use crate::linked::{self, ByName};
use crate::model::{ModelSettings, ModelSource};
use crate::run::Host;
use crate::tool::{SourceLocation, ToolRef};

const NO_MODEL: &str = "it has no model; write `model = \"provider/model\"` in its attribute, or give its runtime one \
    with `Runtime::builder().model(..)`";

/// The definition of an `#[agent]` function: its name, its doc comment and its options.
///
/// `NAME::definition()` returns the definition of the function `NAME`.
/// [`CatalogueReader::agents`](crate::runtime::CatalogueReader::agents) returns all definitions that are linked into the
/// program.
///
/// ```
/// use agentflow::prelude::*;
///
/// /// Translate into {language}: {text}
/// #[agent(model = "openai/gpt-5-mini")]
/// async fn translate(language: String, text: String) -> Result<String>;
///
/// let definition = translate::definition();
/// assert_eq!(definition.name(), "translate");
/// assert_eq!(definition.instruction(), "Translate into {language}: {text}");
/// assert_eq!(definition.model(), Some("openai/gpt-5-mini"));
/// ```
pub struct AgentDefinition {
    name: &'static str,
    instruction: &'static str,
    file: &'static str,
    line: u32,
    options: AgentOptions,
}

impl AgentDefinition {
    pub(crate) const fn new(
        name: &'static str,
        instruction: &'static str,
        (file, line): (&'static str, u32),
        options: AgentOptions,
    ) -> Self {
        Self { name, instruction, file, line, options }
    }

    /// Returns the name. It is used in events and by
    /// [`RuntimeBuilder::agent_model`](crate::runtime::RuntimeBuilder::agent_model).
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the doc comment with its placeholders: the instruction, and the paragraphs that show
    /// parameters.
    pub fn instruction(&self) -> &'static str {
        self.instruction
    }

    /// Returns the application keys that the doc comment shows, such as `app:company`.
    pub(super) fn shown_keys(&self) -> Vec<Arc<str>> {
        let mut keys: Vec<Arc<str>> = Vec::new();
        // `{{` is an escaped brace.
        for rest in self.instruction.replace("{{", "").split("{app:").skip(1) {
            let key: Arc<str> =
                format!("app:{}", rest.split(['}', '?']).next().unwrap_or_default()).into();
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Returns the model that the attribute names. A runtime may use a different one.
    pub fn model(&self) -> Option<&'static str> {
        self.options.model
    }

    /// Returns the tools that the model may call.
    pub fn tools(&self) -> Vec<ToolRef> {
        (self.options.tools)()
    }

    /// Returns the location of the attribute in the source code.
    pub fn source(&self) -> SourceLocation {
        SourceLocation::new(self.file, self.line)
    }

    /// Returns the state key under which the answer is saved.
    pub(crate) fn saved_key(&self) -> Option<Arc<str>> {
        self.options.output_key.map(|key| key().key)
    }

    pub(super) fn options(&self) -> &AgentOptions {
        &self.options
    }

    /// Creates the agent without prompt and output type.
    pub(super) fn agent(&'static self) -> Agent {
        let settings = ModelSettings {
            temperature: self.options.temperature,
            max_tokens: self.options.max_tokens,
            prompt_cache: self.options.prompt_cache,
            ..ModelSettings::default()
        };
        let defaults = Limits::default();
        let limits = Limits {
            max_steps: self.options.max_steps.unwrap_or(defaults.max_steps),
            output_retries: self.options.output_retries.unwrap_or(defaults.output_retries),
            ..defaults
        };
        let agent =
            Agent::new(self.model().unwrap_or_default()).name(self.name).with_definition(self);
        let agent =
            agent.tools(self.tools()).settings(AgentSettings::new().model(settings).limits(limits));
        agent.changed(|agent| {
            agent.output_key = self.options.output_key.map(|key| key());
            agent.purpose = self.options.description.map(Arc::from);
        })
    }

    /// Returns the model that the agent uses in a runtime.
    ///
    /// # Errors
    /// If neither the runtime nor the attribute names a model.
    pub(super) fn model_in(&self, host: &Host) -> Result<ModelSource> {
        let of_runtime =
            host.part::<AgentModels>().and_then(|models| models.replacement(self.name));
        of_runtime.or_else(|| self.options.model.map(ModelSource::from)).ok_or_else(|| {
            Error::Build { what: "agent", name: self.name.into(), problem: NO_MODEL.to_owned() }
        })
    }

    /// Returns the agent for resuming a run that was started with these instructions.
    pub(crate) fn resuming(&'static self, cx: &Context, instructions: Option<&str>) -> ErasedAgent {
        let agent = self.agent().host(cx.host()).resources(cx.resources());
        (self.options.answering)(agent.instructed(instructions))
    }

    /// Returns the outline of the agent in a host.
    pub(crate) fn outline(&'static self, host: &Arc<Host>) -> AgentOutline {
        (self.options.answering)(self.agent().host(host)).outline()
    }

    /// Returns the agent as a catalogue describes it: name, doc comment and answer schema. It is
    /// never run.
    pub(crate) fn described(&'static self) -> ErasedAgent {
        let agent =
            Agent::new(self.model().unwrap_or_default()).name(self.name).with_definition(self);
        let agent = agent.changed(|agent| agent.purpose = self.options.description.map(Arc::from));
        (self.options.answering)(agent.instruct(self.instruction))
    }
}

impl fmt::Debug for AgentDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentDefinition")
            .field("name", &self.name)
            .field("model", &self.options.model)
            .field("tools", &self.tools())
            .field("source", &self.source().to_string())
            .finish_non_exhaustive()
    }
}

/// Models that a runtime configured for `#[agent]` functions. They replace the models of the
/// attributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentModels {
    pub(crate) all: Option<ModelSource>,
    pub(crate) by_name: BTreeMap<String, ModelSource>,
}

impl AgentModels {
    /// No replacements.
    #[cfg(feature = "documents")]
    pub(crate) const NONE: Self = Self { all: None, by_name: BTreeMap::new() };

    /// Returns the model that replaces the model of an `#[agent]`.
    pub(crate) fn replacement(&self, name: &str) -> Option<ModelSource> {
        self.by_name.get(name).or(self.all.as_ref()).cloned()
    }
}

/// Returns the `#[agent]` functions that are linked into the program, by name.
pub(crate) fn linked() -> ByName<&'static AgentDefinition> {
    let place = |agent: &&'static AgentDefinition| (agent.name, agent.file, agent.line);
    linked::by_name(place, |agent| agent.name)
}

/// Returns the error for two `#[agent]` functions with the same name.
pub(crate) fn two_linked(
    (first, second): &(&'static AgentDefinition, &'static AgentDefinition),
) -> RegistryError {
    RegistryError::DuplicateAgent {
        name: first.name,
        first: first.source(),
        second: second.source(),
    }
}
