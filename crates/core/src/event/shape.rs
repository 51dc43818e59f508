//! The table of all event kinds: canonical name, subject, and effect on the subject.
//!
//! All code that folds over events uses this table, so a new kind is one new row. The table does
//! not depend on payloads.

use super::EventKind;

/// The subject of an event kind and its effect on the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// The canonical name, such as `tool.completed`. It is `unknown` for all events that this
    /// release does not know; [`EventKind::name`] returns their actual names.
    pub name: &'static str,
    /// The subject of the event.
    pub subject: Subject,
    /// The effect of the event on the subject at its path.
    pub edge: Edge,
}

/// The subject of an event: the part of its name before the last dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// The run itself.
    Run,
    /// An agent that runs as a step.
    Agent,
    /// A workflow that runs as a step.
    Workflow,
    /// A node of a workflow, or an item or branch of a node.
    Node,
    /// A question to a person.
    Approval,
    /// A model call.
    Model,
    /// An answer of an agent.
    Output,
    /// A tool call.
    Tool,
    /// A message that was sent to a run.
    Message,
    /// A subject that this release does not know.
    Unknown,
    /// A value of the state.
    State,
    /// A step of any type.
    Step,
    /// The earlier runs of the session.
    Session,
}

impl Subject {
    /// Returns the prefix of the event names, such as `workflow.node`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Agent => "agent",
            Self::Workflow => "workflow",
            Self::Node => "workflow.node",
            Self::Approval => "approval",
            Self::Model => "model",
            Self::Output => "output",
            Self::Tool => "tool",
            Self::Message => "message",
            Self::Unknown => "unknown",
            Self::State => "state",
            Self::Step => "step",
            Self::Session => "session",
        }
    }

    /// Returns `true` if the subject executes, so that a process that ends meanwhile leaves it
    /// open.
    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Agent | Self::Workflow | Self::Node | Self::Model | Self::Tool)
    }
}

/// The effect of an event on its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Edge {
    /// The subject started.
    Opens,
    /// The subject ended. A node can end without having started.
    Closes,
    /// The current attempt ended, and another attempt follows.
    Retries,
    /// Any other change.
    Marks,
}

impl Edge {
    /// Returns `true` if the event ends the attempt that the last opening event started.
    pub fn ends_attempt(self) -> bool {
        matches!(self, Self::Closes | Self::Retries)
    }
}

macro_rules! shapes {
    ($($kind:ident $name:literal $subject:ident $edge:ident,)+) => {
        impl EventKind {
            /// Returns the name and subject of this kind, and its effect on the subject.
            pub fn shape(&self) -> Shape {
                match self {
                    $(Self::$kind { .. } => {
                        Shape { name: $name, subject: Subject::$subject, edge: Edge::$edge }
                    })+
                    Self::Unknown(_) => Shape { name: "unknown", subject: Subject::Unknown, edge: Edge::Marks },
                }
            }

            /// Returns the shapes of all kinds that this release records. The order has no meaning.
            pub const fn shapes() -> &'static [Shape] {
                &[$(Shape { name: $name, subject: Subject::$subject, edge: Edge::$edge }),+]
            }
        }

        #[cfg(test)]
        const ALL: &[Shape] = EventKind::shapes();
    };
}

shapes! {
    RunStarted "run.started" Run Opens,
    RunStep "run.step" Run Marks,
    RunCompleted "run.completed" Run Closes,
    RunFailed "run.failed" Run Closes,
    RunSpent "run.spent" Run Marks,
    RunAdvanced "run.advanced" Run Marks,
    RunCancelled "run.cancelled" Run Closes,
    RunCompensating "run.compensating" Run Marks,
    RunCompensated "run.compensated" Run Marks,
    RunPaused "run.paused" Run Marks,
    RunResumed "run.resumed" Run Marks,
    RunClosed "run.closed" Run Marks,
    MessageReceived "message.received" Message Marks,
    MessageDelivered "message.delivered" Message Marks,
    AgentStarted "agent.started" Agent Opens,
    AgentCompleted "agent.completed" Agent Closes,
    AgentFailed "agent.failed" Agent Closes,
    AgentHandoff "agent.handoff" Agent Marks,
    SessionSummarized "session.summarized" Session Marks,
    WorkflowStarted "workflow.started" Workflow Opens,
    WorkflowCompleted "workflow.completed" Workflow Closes,
    WorkflowFailed "workflow.failed" Workflow Closes,
    NodeStarted "workflow.node.started" Node Opens,
    NodeCompleted "workflow.node.completed" Node Closes,
    NodeRetrying "workflow.node.retrying" Node Retries,
    NodeFailed "workflow.node.failed" Node Closes,
    NodeSkipped "workflow.node.skipped" Node Marks,
    NodeReset "workflow.node.reset" Node Marks,
    ApprovalRequested "approval.requested" Approval Opens,
    ApprovalResolved "approval.resolved" Approval Closes,
    ModelStarted "model.started" Model Opens,
    ModelDelta "model.delta" Model Marks,
    ModelCompleted "model.completed" Model Closes,
    ModelRetrying "model.retrying" Model Retries,
    ModelFailed "model.failed" Model Closes,
    StepProgress "step.progress" Step Marks,
    StateRead "state.read" State Marks,
    OutputRejected "output.rejected" Output Marks,
    ToolStarted "tool.started" Tool Opens,
    ToolRetrying "tool.retrying" Tool Marks,
    ToolWaiting "tool.waiting" Tool Marks,
    ToolContinued "tool.continued" Tool Marks,
    ToolCompleted "tool.completed" Tool Closes,
    ToolFailed "tool.failed" Tool Closes,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_name_is_its_subject_and_a_verb() {
        for shape in ALL {
            let (subject, verb) = shape.name.rsplit_once('.').unwrap();
            assert_eq!(subject, shape.subject.as_str());
            assert!(verb.bytes().all(|letter| letter.is_ascii_lowercase()), "{verb}");
        }
        assert_eq!(ALL.iter().map(|shape| shape.name).collect::<HashSet<_>>().len(), ALL.len());
    }

    #[test]
    fn what_opens_can_close() {
        let has =
            |subject, edge| ALL.iter().any(|shape| shape.subject == subject && shape.edge == edge);
        for shape in ALL {
            match shape.edge {
                Edge::Opens => assert!(has(shape.subject, Edge::Closes), "{}", shape.name),
                Edge::Closes | Edge::Retries => {
                    assert!(has(shape.subject, Edge::Opens), "{}", shape.name);
                }
                Edge::Marks => {}
            }
        }
    }

    #[test]
    fn each_name_is_the_one_that_is_stored() {
        for Shape { name, .. } in ALL {
            let error = EventKind::from_parts(name, "false").unwrap_err().to_string();
            assert!(!error.contains("unknown variant"), "{error}");
        }
        // serde's error for an unknown name lists all known names.
        let text = r#"{"name":"no.such","payload":null}"#;
        let error = EventKind::deserialize(&mut serde_json::Deserializer::from_str(text))
            .unwrap_err()
            .to_string();
        assert_eq!(error.matches('`').count() / 2, ALL.len() + 1, "{error}");
    }
}
