//! Replacements of tools, agents, workflows and human answers by name, in all runs of a runtime.
//! They are used in tests and to rehearse a program.
//!
//! This module looks up names and forwards calls. It applies no policy and records nothing:
//! scheduling, approvals, scopes, time-outs and retries of a call stay the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::linked_tools::linked_tools;
use super::wire_name::wire_name;
use super::{ToolError, ToolOutput, ToolRef};
use crate::event::ApprovalRequest;
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::resource::{ResourceKey, UnusedResources};
use crate::run::{ControlRequest, Host, RunShared};
use crate::value::Encoded;

/// The kind of item that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReplacedKind {
    /// A tool.
    Tool,
    /// An agent. Only its model is replaced: the agent still runs, with its instructions, its
    /// checks of the answer and its events.
    Agent,
    /// A workflow that is a step of another run.
    Workflow,
}

impl ReplacedKind {
    /// Returns the name of the kind, such as `tool`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Workflow => "workflow",
        }
    }
}

impl fmt::Display for ReplacedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call that a [`Replacement`] answers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReplacedCall<'a> {
    /// The kind of the called item.
    pub kind: ReplacedKind,
    /// The name, as returned by [`Replacement::names`].
    pub name: &'a str,
    /// The input as JSON. For a tool, its arguments by name; for a workflow, its inputs by name;
    /// for an agent, `{"instructions": "..", "message": ".."}` with the newest message of the
    /// conversation.
    pub arguments: &'a str,
    /// The path of the call in the run, such as `pay/tool#1.refund`. `None` for an agent's model
    /// call.
    pub path: Option<&'a StepPath>,
}

/// The error with which a replaced call ends.
#[derive(Clone, Debug)]
pub struct ReplacedError {
    pub(crate) error: ToolError,
    pub(crate) value: Option<Encoded>,
}

impl ReplacedError {
    /// Adds the JSON of the error in the function's own error type.
    #[must_use]
    pub fn with_value(mut self, value: Encoded) -> Self {
        self.value = Some(value);
        self
    }
}

impl From<ToolError> for ReplacedError {
    fn from(error: ToolError) -> Self {
        Self { error, value: None }
    }
}

/// Answers calls instead of tools, agents, workflows and people.
///
/// Set it with [`RuntimeBuilder::replace`](crate::runtime::RuntimeBuilder::replace).
/// `agentflow-testing` has a ready implementation, `Mocks`.
///
/// A replacement is used for every call by name inside a run, at any depth: by an agent, by the
/// node of a graph, and by a `#[tool]`, `#[agent]` or `#[workflow]` function that is called in a
/// step. These calls are plain Rust and are not replaced:
///
/// - calls outside of a run,
/// - calls to a `const fn`,
/// - calls that the body of a tool makes while a model called that tool.
#[async_trait]
pub trait Replacement: Send + Sync {
    /// Returns the kind and name of each replaced item. Called once, when the runtime is built.
    fn names(&self) -> Vec<(ReplacedKind, Arc<str>)>;

    /// Answers a call with the JSON that the real item would return.
    ///
    /// # Errors
    /// The error that the real item would return.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call, as for a tool.
    async fn call(&self, call: ReplacedCall<'_>) -> Result<ToolOutput, ReplacedError>;

    /// Returns `true` if this replacement answers the questions that runs send to people. Called
    /// once. Default: `false`.
    fn answers_questions(&self) -> bool {
        false
    }

    /// Answers the question at a path. `Ok(None)` leaves it open. Default: `Ok(None)`.
    ///
    /// # Errors
    /// A message. The run is cancelled with it.
    async fn answer(
        &self,
        path: &StepPath,
        question: &ApprovalRequest,
    ) -> Result<Option<Encoded>, String> {
        let _ = (path, question);
        Ok(None)
    }
}

/// The replacement of a runtime, with its names.
pub(crate) struct Replacements {
    by: Arc<dyn Replacement>,
    /// Tools by wire name, agents and workflows by name.
    names: Arc<Names>,
    answers: bool,
}

/// The name as it was given, by its kind and the name used for the lookup.
type Names = BTreeMap<(ReplacedKind, Arc<str>), Arc<str>>;

/// The replaced tools of a host, for code that has no access to the host.
#[derive(Clone)]
pub(super) struct ReplacedTools(Arc<Names>);

impl ReplacedTools {
    /// Returns the replaced tools of a host, or `None` if it has no replacement.
    pub(super) fn of_host(host: &Host) -> Option<Self> {
        host.part::<Replacements>().map(|replacements| Self(Arc::clone(&replacements.names)))
    }

    pub(super) fn has(&self, wire_name: &Arc<str>) -> bool {
        self.0.contains_key(&(ReplacedKind::Tool, Arc::clone(wire_name)))
    }
}

impl Replacements {
    pub(crate) fn new(by: impl Replacement + 'static) -> Self {
        let known = |(kind, name): (ReplacedKind, Arc<str>)| {
            // Tools are looked up by the name in their definition, which is the wire name.
            let by = if kind == ReplacedKind::Tool {
                wire_name(&name).into()
            } else {
                Arc::clone(&name)
            };
            ((kind, by), name)
        };
        let names: Names = by.names().into_iter().map(known).collect();
        Self { names: Arc::new(names), answers: by.answers_questions(), by: Arc::new(by) }
    }
}

/// A resource that a tool takes.
#[derive(Clone, Debug)]
pub(crate) struct NeededResource {
    pub(crate) key: ResourceKey,
    /// Wire name of the tool.
    tool: Arc<str>,
    /// Description of the tool and its agent for errors.
    pub(crate) by: String,
}

impl NeededResource {
    /// Returns the resources of a tool. `of` describes its agent in errors.
    pub(crate) fn all_of(tool: &ToolRef, of: &str) -> Vec<Self> {
        let by = format!("the tool `{}`{of}", tool.catalogue_name());
        let need = |key| Self { key, tool: Arc::clone(&tool.definition().name), by: by.clone() };
        tool.resources().into_iter().map(need).collect()
    }

    /// Returns `true` if the host replaces the tool, so that the resource is not needed.
    pub(crate) fn is_replaced(&self, host: &Host) -> bool {
        StandIn::of(host, ReplacedKind::Tool, &self.tool).is_some()
    }
}

/// Returns the resources that are taken only by replaced linked tools. A step may inject them
/// although they are missing.
pub(crate) fn unused_resources(replacements: &Replacements) -> UnusedResources {
    let names = Arc::clone(&replacements.names);
    UnusedResources(Box::new(move |key| {
        let is_replaced = |tool: &&ToolRef| {
            let name = Arc::clone(&tool.definition().name);
            names.contains_key(&(ReplacedKind::Tool, name))
        };
        linked_tools().iter().filter(is_replaced).any(|tool| tool.resources().contains(&key))
    }))
}

/// The replacement of one tool, agent or workflow.
#[derive(Clone)]
pub(crate) struct StandIn {
    by: Arc<dyn Replacement>,
    kind: ReplacedKind,
    pub(crate) name: Arc<str>,
}

impl StandIn {
    /// Returns the replacement that a host has for a name. For a tool this is the wire name.
    pub(crate) fn of(host: &Host, kind: ReplacedKind, name: &Arc<str>) -> Option<Self> {
        let Replacements { by, names, .. } = host.part()?;
        let name = names.get(&(kind, Arc::clone(name)))?;
        Some(Self { by: Arc::clone(by), kind, name: Arc::clone(name) })
    }

    pub(crate) fn call<'a>(
        &'a self,
        arguments: &'a str,
        path: Option<&'a StepPath>,
    ) -> BoxFuture<'a, Result<ToolOutput, ReplacedError>> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        self.by.call(ReplacedCall { kind: self.kind, name: &self.name, arguments, path })
    }
}

/// Returns `true` if a replacement answers questions to people.
pub(crate) fn replaces_answers(host: &Host) -> bool {
    matches!(host.part(), Some(Replacements { answers: true, .. }))
}

/// Lets the replacement answer the question at a path, if it answers questions. The answer arrives
/// from another task, as a person's answer does.
pub(crate) fn answer_with_replacement(
    shared: &Arc<RunShared>,
    path: &StepPath,
    question: &Arc<ApprovalRequest>,
) {
    let Some(Replacements { by, answers: true, .. }) = shared.host.part() else { return };
    let (by, shared) = (Arc::clone(by), Arc::downgrade(shared));
    // The task holds only a weak reference, so that a pending answer does not keep the run alive.
    let (path, question) = (path.clone(), Arc::clone(question));
    tokio::spawn(async move {
        let answered = by.answer(&path, &question).await;
        let Some(shared) = shared.upgrade() else { return };
        match answered {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let request = ControlRequest::answer(&question.id_at(&path), answer, "replacement");
                // A wrong answer of a test must not make the run wait forever.
                if let Ok(Err(refused)) = shared.ask(request, None).await {
                    shared.cancel(format!(
                        "the answer that was given in a person's place was refused: {refused}"
                    ));
                }
            }
            Err(problem) => shared.cancel(problem),
        }
    });
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StandIn({} {})", self.kind, self.name)
    }
}
