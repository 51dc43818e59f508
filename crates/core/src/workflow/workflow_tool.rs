//! `WorkflowTool`: a workflow that agents call as a tool. The workflow runs as a step of the run
//! that calls it.

use std::fmt;
use std::sync::Arc;

use super::spec::Spec;
use super::{Graph, Inputs, Workflow, run_by_names};
use crate::agent::WorkflowName;
use crate::context::Context;
use crate::error::Error;
use crate::tool::{
    Effects, IntoTools, Tool, ToolDefinition, ToolError, ToolFuture, ToolList, ToolOutput,
    ToolPolicy, ToolRef,
};
use crate::value::{Encoded, NodeValue};

/// A workflow as a tool. [`Agent::tools`](crate::Agent::tools) accepts a workflow itself. Use this
/// type to set another name, description or policy.
///
/// Its arguments are the workflow's inputs by name, and its answer is the JSON of the output. A
/// call is part of the run that makes it. Its steps are recorded below the call, have the grants of
/// the caller, and end when the run ends. The question of a gate has the path of the call. After a
/// crash, the call continues where it was.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// /// Doubles a number.
/// #[workflow]
/// async fn double(n: i64) -> Result<i64> {
///     let twice = n * 2;
///     Ok(twice)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let model = ScriptedModel::new([Turn::call("double", serde_json::json!({"n": 4})), Turn::text("It is 8.")]);
/// let agent = Agent::new(model).tools(double::workflow());
/// assert_eq!(agent.run("What is twice 4?").await?.output(), "It is 8.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WorkflowTool {
    spec: Arc<Spec>,
    definition: Arc<ToolDefinition>,
}

impl WorkflowTool {
    /// Creates a tool with the name and the description of the workflow. The tool counts as one
    /// with side effects if the workflow declares that it writes, or asks a person.
    pub fn new<In: Inputs, Out: NodeValue>(workflow: &Workflow<In, Out>) -> Self {
        let spec = Arc::clone(workflow.spec());
        let effects = if spec.writes_or_asks() { Effects::Write } else { Effects::Read };
        // A second call at the same step continues the first one, so the tool is idempotent.
        let policy = ToolPolicy::default().effects(effects).idempotent();
        let description = match spec.description.is_empty() {
            true => format!("Run the workflow `{}`.", spec.name).into(),
            false => Arc::clone(&spec.description),
        };
        let parameters = Graph::from_plan(&spec).input_schema();
        let definition =
            ToolDefinition::new(Arc::clone(&spec.name), description, parameters).policy(policy);
        Self { spec, definition: Arc::new(definition) }
    }

    /// Sets the name of the tool. Default: the workflow's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.definition).name = name.into();
        self
    }

    /// Sets the description for the model. Default: the workflow's description.
    #[must_use]
    pub fn description(mut self, description: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.definition).description = description.into();
        self
    }

    /// Changes the policy. Before the change, the policy has the effects that the workflow
    /// declares, and allows that the tool is called again after a crash.
    #[must_use]
    pub fn policy(mut self, change: impl FnOnce(ToolPolicy) -> ToolPolicy) -> Self {
        let definition = Arc::make_mut(&mut self.definition);
        definition.policy = change(std::mem::take(&mut definition.policy));
        self
    }

    async fn answer(&self, cx: &Context, arguments: &str) -> Result<ToolOutput, ToolError> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        let object = Encoded::from_json(arguments.to_owned());
        let object = object.map_err(|error| ToolError::invalid_arguments(error.to_string()))?;
        match run_by_names(&self.spec, cx, &object).await {
            Ok(output) => Ok(ToolOutput::encoded(output)),
            Err(Error::Input { problem, .. }) => Err(ToolError::invalid_arguments(problem)),
            Err(error) => Err(ToolError::from_error(&error)),
        }
    }
}

impl Tool for WorkflowTool {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        ToolFuture::pending(self.answer(cx, arguments))
    }

    fn inside(&self) -> Option<Box<dyn std::any::Any>> {
        Some(Box::new(WorkflowName(Arc::clone(&self.spec.name))))
    }

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(self.spec.output_schema())
    }

    fn checks_arguments(&self) -> bool {
        true
    }
}

impl<In: Inputs, Out: NodeValue> From<&Workflow<In, Out>> for ToolRef {
    fn from(workflow: &Workflow<In, Out>) -> Self {
        WorkflowTool::new(workflow).into()
    }
}

impl<In: Inputs, Out: NodeValue> From<Workflow<In, Out>> for ToolRef {
    fn from(workflow: Workflow<In, Out>) -> Self {
        Self::from(&workflow)
    }
}

impl<In: Inputs, Out: NodeValue> IntoTools for &Workflow<In, Out> {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl<In: Inputs, Out: NodeValue> IntoTools for Workflow<In, Out> {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl IntoTools for WorkflowTool {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl fmt::Debug for WorkflowTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkflowTool").field(&self.definition.name).finish()
    }
}
