//! What stands in the place of tools, agents, workflows and persons, by their names, in all runs of a runtime: for tests,
//! and to rehearse a program.
//!
//! It looks names up and hands calls over. It applies no policy and records nothing: the scheduler, approvals, scopes,
//! time-outs and retries around a call stay what they are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::registry::linked_tools;
use super::wire_name::wire_name;
use super::{ToolError, ToolOutput, ToolRef};
use crate::event::ApprovalRequest;
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::resource::{ResourceKey, UnusedResources};
use crate::run::{ControlRequest, Host, RunShared};
use crate::value::Encoded;

/// What a replacement stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReplacedKind {
    /// A tool.
    Tool,
    /// An agent. The agent itself runs, with its instructions, its checks of the answer and its events; its model is
    /// replaced.
    Agent,
    /// A workflow that is a step of another run.
    Workflow,
}

impl ReplacedKind {
    /// The word, such as `tool`.
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
    /// What is called.
    pub kind: ReplacedKind,
    /// Its name, as the replacement gave it.
    pub name: &'a str,
    /// JSON: the arguments of a tool and the inputs of a workflow by their names; of an agent
    /// `{"instructions": "..", "message": ".."}` with the newest message that it is asked.
    pub arguments: &'a str,
    /// Where in the run, such as `pay/tool#1.refund`. A model call of an agent does not know it.
    pub path: Option<&'a StepPath>,
}

/// A call that is answered with an error.
#[derive(Clone, Debug)]
pub struct ReplacedError {
    pub(crate) error: ToolError,
    pub(crate) value: Option<Encoded>,
}

impl ReplacedError {
    /// The error in the function's own type, as its JSON, beside its text.
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

/// Answers in the place of tools, agents, workflows and persons; given to
/// [`RuntimeBuilder::replace`](crate::runtime::RuntimeBuilder::replace). `agentflow-testing` has the usual one, `Mocks`.
///
/// A replacement is called wherever the thing of its name would have been: by an agent, by the node of a graph, by a
/// `#[tool]`, `#[agent]` or `#[workflow]` function that is called in a step, however deep. What is called outside of a
/// run is plain Rust and is not replaced, and neither is a `const fn`, nor a function that the body of a tool calls while a
/// model called that tool.
#[async_trait]
pub trait Replacement: Send + Sync {
    /// What it stands for. Asked once, when the runtime is built.
    fn names(&self) -> Vec<(ReplacedKind, Arc<str>)>;

    /// Answers a call, with the JSON that the real thing would give.
    ///
    /// Dropping the future cancels the call, as it does a tool.
    ///
    /// # Errors
    /// The error that the real thing would give.
    async fn call(&self, call: ReplacedCall<'_>) -> Result<ToolOutput, ReplacedError>;

    /// Whether it answers the questions that runs ask persons. Asked once. Default: no.
    fn answers_questions(&self) -> bool {
        false
    }

    /// Answers the question that is asked at a path, or leaves it open.
    ///
    /// # Errors
    /// A sentence, with which the run is cancelled.
    async fn answer(&self, path: &StepPath, question: &ApprovalRequest) -> Result<Option<Encoded>, String> {
        let _ = (path, question);
        Ok(None)
    }
}

/// The replacement of a runtime, with its names.
pub(crate) struct Replacements {
    by: Arc<dyn Replacement>,
    /// Tools by their wire name, all else by its name.
    names: Arc<Names>,
    answers: bool,
}

/// Each name as it was given, by its kind and the name that is looked up.
type Names = BTreeMap<(ReplacedKind, Arc<str>), Arc<str>>;

/// Which tools of a host are replaced, for those who have no host at hand.
#[derive(Clone)]
pub(super) struct ReplacedTools(Arc<Names>);

impl ReplacedTools {
    /// Those of a host that replaces something.
    pub(super) fn of(host: &Host) -> Option<Self> {
        host.part::<Replacements>().map(|replacements| Self(Arc::clone(&replacements.names)))
    }

    pub(super) fn has(&self, wire_name: &Arc<str>) -> bool {
        self.0.contains_key(&(ReplacedKind::Tool, Arc::clone(wire_name)))
    }
}

impl Replacements {
    pub(crate) fn new(by: impl Replacement + 'static) -> Self {
        let known = |(kind, name): (ReplacedKind, Arc<str>)| {
            let by = if kind == ReplacedKind::Tool { wire_name(&name).into() } else { Arc::clone(&name) };
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
    /// The tool and its agent, as an error names them.
    pub(crate) by: String,
}

impl NeededResource {
    /// The resources of a tool; `of` names its agent in an error.
    pub(crate) fn all_of(tool: &ToolRef, of: &str) -> Vec<Self> {
        let by = format!("the tool `{}`{of}", tool.catalogue_name());
        let need = |key| Self { key, tool: Arc::clone(&tool.definition().name), by: by.clone() };
        tool.resources().into_iter().map(need).collect()
    }

    /// Returns true if a host replaces the tool, so that nothing takes the resource.
    pub(crate) fn is_replaced(&self, host: &Host) -> bool {
        StandIn::of(host, ReplacedKind::Tool, &self.tool).is_some()
    }
}

/// The resources that linked tools take which are replaced, so that a step may inject them without having one.
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

/// What stands in the place of one thing.
#[derive(Clone)]
pub(crate) struct StandIn {
    by: Arc<dyn Replacement>,
    kind: ReplacedKind,
    pub(crate) name: Arc<str>,
}

impl StandIn {
    /// That of a host for a name, a tool's being its wire name.
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

/// Returns true if a replacement answers questions to persons.
pub(crate) fn answers_instead(host: &Host) -> bool {
    matches!(host.part(), Some(Replacements { answers: true, .. }))
}

/// Has the question at a path answered by what stands in the place of persons, if something does. The answer comes as a
/// person's would, on another task.
pub(crate) fn answered_instead(shared: &Arc<RunShared>, path: &StepPath, question: &Arc<ApprovalRequest>) {
    let Some(Replacements { by, answers: true, .. }) = shared.host.part() else { return };
    let (by, shared) = (Arc::clone(by), Arc::downgrade(shared));
    let (path, question) = (path.clone(), Arc::clone(question));
    tokio::spawn(async move {
        let answered = by.answer(&path, &question).await;
        let Some(shared) = shared.upgrade() else { return };
        match answered {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let request = ControlRequest::answer(&question.id_at(&path), answer, "replacement");
                if let Ok(Err(refused)) = shared.ask(request, None).await {
                    shared.cancel(format!("the answer that was given in a person's place was refused: {refused}"));
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
