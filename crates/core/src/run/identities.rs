//! Restores the identifiers in a masked event: callers, sessions, runs, calls, questions,
//! definitions, hashes, and the state with which a waiting call continues. Readers of a journal
//! compare them, and two masked callers would be equal.

use std::sync::Arc;

use crate::event::{
    AgentCompleted, AgentStarted, EventKind, RunBody, RunCompleted, WorkflowStarted,
};
use crate::message::{Conversation, Message, Part, ToolResult};
use crate::state::SavedByStep;

/// Restores the identifiers of a masked event. `was` is the event before masking.
pub(super) fn restore(kind: &mut EventKind, was: &EventKind) {
    match (kind, was) {
        (EventKind::RunStarted(kind), EventKind::RunStarted(was)) => {
            let kind = Arc::make_mut(kind);
            kind.caller.clone_from(&was.caller);
            kind.caller_claims.clone_from(&was.caller_claims);
            kind.trace_id.clone_from(&was.trace_id);
            kind.parts.clone_from(&was.parts);
            kind.session.clone_from(&was.session);
            kind.document.clone_from(&was.document);
            let mut artifacts = kind.artifacts.to_vec();
            for (kind, was) in artifacts.iter_mut().zip(was.artifacts.iter()) {
                kind.run.clone_from(&was.run);
                kind.artifact.sha256.clone_from(&was.artifact.sha256);
            }
            kind.artifacts = artifacts.into();
            match (&mut kind.body, &was.body) {
                (RunBody::Agent(kind), RunBody::Agent(was)) => agent(kind, was),
                (RunBody::Workflow(kind), RunBody::Workflow(was)) => workflow(kind, was),
                _ => {}
            }
        }
        (EventKind::AgentStarted(kind), EventKind::AgentStarted(was)) => {
            agent(Arc::make_mut(kind), was);
        }
        (EventKind::WorkflowStarted(kind), EventKind::WorkflowStarted(was)) => {
            workflow(Arc::make_mut(kind), was);
        }
        (
            EventKind::RunResumed { redefined: kind, .. },
            EventKind::RunResumed { redefined: was, .. },
        ) => {
            kind.clone_from(was);
        }
        (EventKind::RunAdvanced(kind), EventKind::RunAdvanced(was)) => {
            let kind = Arc::make_mut(kind);
            conversation(&mut kind.messages, &was.messages);
            saved(&mut kind.saved, was.saved.as_ref());
        }
        (EventKind::RunCompleted(kind), EventKind::RunCompleted(was)) => {
            if let (RunCompleted::Agent(kind), RunCompleted::Agent(was)) =
                (Arc::make_mut(kind), &**was)
            {
                answer(kind, was);
            }
        }
        (EventKind::AgentCompleted(kind), EventKind::AgentCompleted(was)) => answer(kind, was),
        (
            EventKind::MessageReceived { id: kind, .. },
            EventKind::MessageReceived { id: was, .. },
        ) => {
            kind.clone_from(was);
        }
        (EventKind::SessionSummarized(kind), EventKind::SessionSummarized(was)) => {
            Arc::make_mut(kind).up_to.clone_from(&was.up_to);
        }
        (EventKind::ModelCompleted(kind), EventKind::ModelCompleted(was)) => {
            let kind = Arc::make_mut(kind);
            message(&mut kind.message, &was.message);
            saved(&mut kind.saved, was.saved.as_ref());
        }
        (EventKind::ToolStarted { call: kind, .. }, EventKind::ToolStarted { call: was, .. }) => {
            Arc::make_mut(kind).id.clone_from(&was.id);
        }
        (
            EventKind::ToolCompleted { result: kind, saved: kept, .. },
            EventKind::ToolCompleted { result: was, saved: had, .. },
        ) => {
            result(kind, was);
            saved(kept, had.as_ref());
        }
        (EventKind::ToolFailed { result: kind, .. }, EventKind::ToolFailed { result: was, .. }) => {
            result(kind, was);
        }
        (EventKind::ApprovalRequested(kind), EventKind::ApprovalRequested(was)) => {
            Arc::make_mut(kind).id.clone_from(&was.id);
        }
        (EventKind::ToolWaiting(kind), EventKind::ToolWaiting(was)) => {
            Arc::make_mut(kind).state.clone_from(&was.state);
        }
        (
            EventKind::NodeCompleted { saved: kind, .. },
            EventKind::NodeCompleted { saved: was, .. },
        ) => {
            saved(kind, was.as_ref());
        }
        _ => {}
    }
}

fn agent(kind: &mut AgentStarted, was: &AgentStarted) {
    kind.definition.clone_from(&was.definition);
    kind.terms.scopes.clone_from(&was.terms.scopes);
    conversation(&mut kind.input, &was.input);
    if let (Some(kind), Some(was)) = (&mut kind.given, &was.given) {
        conversation(kind, was);
    }
}

fn workflow(kind: &mut WorkflowStarted, was: &WorkflowStarted) {
    kind.definition.clone_from(&was.definition);
    kind.terms.scopes.clone_from(&was.terms.scopes);
}

fn answer(kind: &mut Arc<AgentCompleted>, was: &AgentCompleted) {
    let kind = Arc::make_mut(kind);
    message(&mut kind.message, &was.message);
    saved(&mut kind.saved, was.saved.as_ref());
}

fn saved(kind: &mut Option<Arc<SavedByStep>>, was: Option<&Arc<SavedByStep>>) {
    if let (Some(kind), Some(was)) = (kind, was)
        && !was.artifacts().is_empty()
    {
        Arc::make_mut(kind).restore_hashes(was);
    }
}

fn conversation(kind: &mut Conversation, was: &Conversation) {
    let has_calls = |message: &Arc<Message>| {
        message.tool_calls().next().is_some() || message.results().next().is_some()
    };
    // Copies the conversation only if it contains ids of calls.
    if was.messages().iter().any(has_calls) {
        let both = kind.messages().iter().zip(was.messages());
        *kind = both
            .map(|(kind, was)| {
                let mut kind = Arc::clone(kind);
                message(&mut kind, was);
                kind
            })
            .collect();
    }
}

fn message(kind: &mut Arc<Message>, was: &Message) {
    let is_of_call = |part: &Part| matches!(part, Part::ToolCall(_) | Part::ToolResult(_));
    if !was.parts().iter().any(is_of_call) {
        return;
    }
    let mut parts = kind.parts().to_vec();
    for (kind, was) in parts.iter_mut().zip(was.parts()) {
        match (kind, was) {
            (Part::ToolCall(kind), Part::ToolCall(was)) => {
                Arc::make_mut(kind).id.clone_from(&was.id);
            }
            (Part::ToolResult(kind), Part::ToolResult(was)) => result(kind, was),
            _ => {}
        }
    }
    *kind = Arc::new(Message::new(kind.role(), parts));
}

fn result(kind: &mut Arc<ToolResult>, was: &ToolResult) {
    Arc::make_mut(kind).call_id.clone_from(&was.call_id);
}
