//! The parts of an agent's definition: the agent and its tools. A hash over them shows whether a
//! run is resumed with a different version. Tools of toolsets are fetched during a run and are not
//! included.

use std::sync::Arc;

use serde_json::Value;

#[cfg(feature = "dynamic")]
use super::ErasedAgent;
use super::large_outputs::read_tool;
use super::{AgentDefinition, Description};
use crate::definition::{Aspect, Definition, Known, PartOf};
use crate::tool::Tool;

impl Description {
    /// Returns the parts of the definition. `output` is the schema of the answer, or `None` for
    /// text.
    pub(super) fn parts(&self, output: Option<&Value>) -> Arc<Known> {
        let mut definition = Definition::default();
        self.add_parts(output, &mut definition);
        Known::new(definition)
    }

    fn add_parts(&self, output: Option<&Value>, definition: &mut Definition) {
        let mut add =
            |aspect, what: &Value| definition.add(PartOf::Agent, &self.name, aspect, what);
        // The template is hashed, not its result: instructions of an `#[agent]` differ with each
        // call's arguments.
        let template = self.definition.map(AgentDefinition::instruction);
        let instructions = template.or(self.instructions.as_deref());
        add(Aspect::Instructions, &instructions.into());
        let model = self.model.info().map(|model| format!("{}/{}", model.provider, model.model));
        add(Aspect::Model, &model.unwrap_or_default().into());
        add(Aspect::Limits, &self.limits.hashed_form());
        add(Aspect::Settings, &serde_json::to_value(&self.settings).unwrap_or_default());
        if let Some(schema) = output {
            add(Aspect::Output, schema);
        }
        if !self.targets.is_empty() {
            let targets: Vec<_> = self.targets.iter().map(|target| &*target.name).collect();
            add(Aspect::Targets, &targets.into());
        }
        for tool in &self.tools {
            definition.add_tool(tool.definition());
        }
        if let Some(large) = self.limits.large_outputs {
            definition.add_tool(read_tool(large).definition());
        }
        for member in &self.members {
            member.description.add_parts(None, definition);
        }
    }
}

#[cfg(feature = "dynamic")]
impl ErasedAgent {
    /// Adds the agent, its answer schema and its tools to the definition of a caller that names it.
    pub(crate) fn add_parts(&self, definition: &mut Definition) {
        self.description().add_parts(Some(&self.answer_schema()), definition);
    }
}

impl AgentDefinition {
    /// Adds the agent and its tools to the definition of its caller. The caller's node contains the
    /// schema of the answer.
    pub(crate) fn add_parts(&'static self, definition: &mut Definition) {
        self.agent().description.add_parts(None, definition);
    }
}
