//! The definition of an agent by parts: itself and its tools. Tools of toolsets are fetched while it runs and do not
//! count. It compares nothing.

use std::sync::Arc;

use serde_json::Value;

#[cfg(feature = "dynamic")]
use super::ErasedAgent;
use super::large_outputs::read_tool;
use super::{AgentDefinition, Description};
use crate::definition::{Aspect, Definition, Known, PartOf};
use crate::tool::Tool;

impl Description {
    /// The definition by parts, with the schema of its answer, unless that is text.
    pub(super) fn parts(&self, output: Option<&Value>) -> Arc<Known> {
        let mut definition = Definition::default();
        self.add_parts(output, &mut definition);
        Known::new(definition)
    }

    fn add_parts(&self, output: Option<&Value>, definition: &mut Definition) {
        let mut add = |aspect, what: &Value| definition.add(PartOf::Agent, &self.name, aspect, what);
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
    /// Adds the agent, its answer and its tools to the definition of what calls it by its name.
    pub(crate) fn add_parts(&self, definition: &mut Definition) {
        self.description().add_parts(Some(&self.answer_schema()), definition);
    }
}

impl AgentDefinition {
    /// Adds the agent and its tools to the definition of what calls it. The schema of its answer is that of the node.
    pub(crate) fn add_parts(&'static self, definition: &mut Definition) {
        self.agent().description.add_parts(None, definition);
    }
}
