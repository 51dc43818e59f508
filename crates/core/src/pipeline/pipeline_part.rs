//! The data of a pipeline: calls, values, questions, and combinations of parts.

use agentflow_schema::diagnostic::{DiagnosticSubject, SubjectKind};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::Pipeline;
use super::operators::Until;
use crate::agent::ErasedAgent;
use crate::state::StateTransform;
use crate::tool::ToolRef;
use crate::workflow::{Decider, NodePolicy, NodeSchema, ReferenceKind, RunLimits};

/// A part with its options.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) name: Option<Arc<str>>,
    pub(super) with: Option<Value>,
    pub(super) saves: BTreeMap<String, String>,
    pub(super) policy: Option<NodePolicy>,
    /// Decider of the calls in the part, which is then a separate workflow.
    pub(super) decider: Option<Decider>,
    /// Limits of the runs, for a part that is a workflow. Ignored for a part of a larger pipeline.
    pub(super) limits: RunLimits,
    pub(super) input: NodeSchema,
    pub(super) output: NodeSchema,
    /// Number of the part in its document.
    pub(super) written: Option<usize>,
    /// `true` if `otherwise` was set on a part other than a gate.
    pub(super) otherwise: bool,
}

#[derive(Clone)]
pub(super) enum Kind {
    Call(ReferenceKind, Arc<str>),
    Given(Given),
    Value(Value),
    /// A question, and the part that runs if it is denied.
    Gate(Arc<str>, Option<Pipeline>),
    Transform(Vec<StateTransform>),
    Sequence(Vec<Pipeline>),
    Parallel(Vec<Pipeline>),
    Fallback(Vec<Pipeline>),
    Race(Vec<Pipeline>),
    Repeat(Pipeline, Until),
    Map(Pipeline),
    /// Parts with their conditions. Only the last part may have none.
    Choice(Vec<(Option<Arc<str>>, Pipeline)>),
    Tap(Pipeline),
}

/// An agent or a tool that was passed as a value.
#[derive(Clone)]
pub(crate) enum Given {
    Agent(ErasedAgent),
    Tool(ToolRef),
}

impl Part {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            name: None,
            with: None,
            saves: BTreeMap::new(),
            policy: None,
            decider: None,
            limits: RunLimits::default(),
            input: NodeSchema::default(),
            output: NodeSchema::default(),
            written: None,
            otherwise: false,
        }
    }

    /// Returns `true` if no options are set.
    pub(super) fn is_bare(&self) -> bool {
        // The pattern names every field, so that a new option must be considered here.
        let Self {
            kind: _,
            name,
            with,
            saves,
            policy,
            decider,
            limits: _,
            input,
            output,
            written: _,
            otherwise: _,
        } = self;
        let any = NodeSchema::default();
        let is_plain = name.is_none()
            && with.is_none()
            && saves.is_empty()
            && policy.is_none()
            && decider.is_none();
        is_plain && *input == any && *output == any
    }

    /// Returns the kind and the name of the called item, if the part is a call.
    pub(super) fn call(&self) -> Option<(ReferenceKind, &str)> {
        match &self.kind {
            Kind::Call(kind, name) => Some((*kind, name)),
            Kind::Given(Given::Agent(agent)) => Some((ReferenceKind::Agent, agent.name())),
            Kind::Given(Given::Tool(tool)) => Some((ReferenceKind::Tool, tool.catalogue_name())),
            _ => None,
        }
    }

    /// Returns the name of the part, or a default label: the name of the called item, or the kind
    /// of the part.
    /// Returns the subject of problems of the part.
    pub(super) fn subject(&self) -> DiagnosticSubject {
        DiagnosticSubject::new(SubjectKind::Part, self.label())
    }

    pub(super) fn label(&self) -> String {
        if let Some(name) = &self.name {
            return name.to_string();
        }
        let label = match &self.kind {
            Kind::Call(..) | Kind::Given(_) => self.call().map_or("call", |(_, name)| name),
            Kind::Value(_) => "value",
            Kind::Gate(..) => "gate",
            Kind::Transform(_) => "transform",
            Kind::Parallel(_) => "together",
            Kind::Race(_) => "race",
            Kind::Choice(_) => "choice",
            // A combination with the output of one of its parts is named after that part.
            Kind::Sequence(parts) => {
                return parts.last().map_or_else(|| "sequence".to_owned(), |last| last.0.label());
            }
            Kind::Fallback(parts) => {
                return parts
                    .first()
                    .map_or_else(|| "fallback".to_owned(), |first| first.0.label());
            }
            Kind::Repeat(part, _) | Kind::Map(part) | Kind::Tap(part) => return part.0.label(),
        };
        label
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
            .collect()
    }

    /// The nested parts.
    fn parts(&self) -> Vec<&Pipeline> {
        match &self.kind {
            Kind::Sequence(parts)
            | Kind::Parallel(parts)
            | Kind::Fallback(parts)
            | Kind::Race(parts) => parts.iter().collect(),
            Kind::Repeat(part, _) | Kind::Map(part) | Kind::Tap(part) => vec![part],
            Kind::Choice(arms) => arms.iter().map(|(_, part)| part).collect(),
            Kind::Gate(_, denied) => denied.iter().collect(),
            Kind::Call(..) | Kind::Given(_) | Kind::Value(_) | Kind::Transform(_) => Vec::new(),
        }
    }

    /// Adds the agents and tools in this part to `all`, each once.
    pub(super) fn given(&self, all: &mut Vec<Given>) {
        if let Kind::Given(given) = &self.kind
            && !all.iter().any(|other| other.is(given))
        {
            all.push(given.clone());
        }
        self.parts().into_iter().for_each(|part| part.0.given(all));
    }
}

impl Given {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Agent(one), Self::Agent(other)) => one.is(other),
            (Self::Tool(one), Self::Tool(other)) => one.is(other),
            _ => false,
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, parts: &[Pipeline], between: &str| {
            f.write_str("(")?;
            for (at, part) in parts.iter().enumerate() {
                write!(f, "{}{part:?}", if at == 0 { "" } else { between })?;
            }
            f.write_str(")")
        };
        match &self.kind {
            Kind::Call(kind, name) => write!(f, "{} {name}", kind.as_str()),
            Kind::Given(_) => match self.call() {
                Some((kind, name)) => write!(f, "{} {name}", kind.as_str()),
                None => Ok(()),
            },
            Kind::Value(value) => write!(f, "{value}"),
            Kind::Gate(question, None) => write!(f, "gate {question:?}"),
            Kind::Gate(question, Some(denied)) => {
                write!(f, "gate {question:?} otherwise {denied:?}")
            }
            Kind::Transform(transforms) => write!(f, "transform {transforms:?}"),
            Kind::Sequence(parts) => all(f, parts, " >> "),
            Kind::Parallel(parts) => all(f, parts, " | "),
            Kind::Fallback(parts) => all(f, parts, " / "),
            Kind::Race(parts) => {
                f.write_str("race ")?;
                all(f, parts, ", ")
            }
            Kind::Repeat(part, until) => write!(f, "{part:?} * {until:?}"),
            Kind::Map(part) => write!(f, "map_over {part:?}"),
            Kind::Choice(arms) => {
                f.write_str("choice (")?;
                for (condition, part) in arms {
                    match condition {
                        Some(condition) => write!(f, "when {condition:?} {part:?}, ")?,
                        None => write!(f, "otherwise {part:?}")?,
                    }
                }
                f.write_str(")")
            }
            Kind::Tap(part) => write!(f, "tap {part:?}"),
        }
    }
}
