//! Assembles the pieces of a streamed response and passes each piece on as it arrives.
//!
//! All adapters use this module. It does not know the wire formats: the adapter determines to which
//! call a piece belongs.

use std::sync::Arc;

use agentflow_core::message::{Part, Reasoning, ToolCall};
use agentflow_core::model::{ModelEvent, ToolCallDelta};
use serde_json::Value;

use super::http::Deltas;

/// The parts of a response, in the order in which they started.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseAssembly {
    pieces: Vec<AnswerPiece>,
    /// Index of each call in `pieces`.
    calls: Vec<usize>,
}

#[derive(Clone, Debug)]
enum AnswerPiece {
    Text(String),
    Reasoning(Reasoning),
    Call(ToolCall),
    /// A complete part, to which no pieces are added.
    #[cfg(any(feature = "gemini", feature = "openai-chat"))]
    Whole(Part),
}

impl ResponseAssembly {
    /// Adds text. Consecutive pieces of text form one part.
    pub(super) fn text(&mut self, more: &str, deltas: &mut Deltas) {
        if more.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(AnswerPiece::Text(text)) => text.push_str(more),
            _ => self.pieces.push(AnswerPiece::Text(more.to_owned())),
        }
        deltas.push(|| ModelEvent::Text(more.to_owned()));
    }

    /// Adds readable reasoning. Consecutive pieces form one part.
    pub(super) fn reasoning(&mut self, more: &str, deltas: &mut Deltas) {
        if more.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(AnswerPiece::Reasoning(reasoning)) => reasoning.text.push_str(more),
            _ => self.pieces.push(AnswerPiece::Reasoning(Reasoning::new(more, ""))),
        }
        deltas.push(|| ModelEvent::Reasoning(more.to_owned()));
    }

    /// Adds a complete part. The adapter reports the pieces of the part itself.
    #[cfg(any(feature = "gemini", feature = "openai-chat"))]
    pub(super) fn part(&mut self, part: Part) {
        self.pieces.push(AnswerPiece::Whole(part));
    }

    /// Starts a call, whose fields may still be unknown. Returns its number, from 0.
    pub(super) fn begin_call(&mut self) -> usize {
        self.calls.push(self.pieces.len());
        self.pieces.push(AnswerPiece::Call(ToolCall::default()));
        self.calls.len() - 1
    }

    /// Returns the number of calls.
    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of parts. The adapter limits it.
    pub(super) fn parts(&self) -> usize {
        self.pieces.len()
    }

    /// Returns a call by its number.
    pub(super) fn call_mut(&mut self, number: usize) -> Option<&mut ToolCall> {
        match self.pieces.get_mut(*self.calls.get(number)?) {
            Some(AnswerPiece::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// Adds a piece of a call. An unchanged id or name is not reported again. If a name arrives in
    /// pieces, each delta contains the whole name so far.
    pub(super) fn call(
        &mut self,
        number: usize,
        id: &str,
        name: &str,
        arguments: &str,
        deltas: &mut Deltas,
    ) {
        let Some(call) = self.call_mut(number) else { return };
        let id = (call.id.is_empty() && !id.is_empty()).then(|| id.to_owned());
        if let Some(id) = &id {
            call.id.clone_from(id);
        }
        let name = named(call, name);
        call.arguments.push_str(arguments);
        if id.is_some() || name.is_some() || !arguments.is_empty() {
            deltas.push(|| ModelEvent::ToolCall(call_delta(number, id, name, arguments)));
        }
    }

    /// Sets the provider and the model of all reasoning. The first reasoning also gets the opaque
    /// value that must be sent back to the provider. If there is no readable reasoning, an empty
    /// part is added for it.
    pub(super) fn keep_reasoning(&mut self, provider: &str, model: &str, opaque: Option<Value>) {
        let any = self.pieces.iter().any(|piece| matches!(piece, AnswerPiece::Reasoning(_)));
        if !any && opaque.is_some() {
            self.pieces.insert(0, AnswerPiece::Reasoning(Reasoning::default()));
            self.calls.iter_mut().for_each(|at| *at += 1);
        }
        let mut opaque = opaque.map(Box::new);
        for piece in &mut self.pieces {
            if let AnswerPiece::Reasoning(reasoning) = piece {
                provider.clone_into(&mut reasoning.provider);
                model.clone_into(&mut reasoning.model);
                reasoning.opaque = opaque.take();
            }
        }
    }

    /// Returns the parts of the message.
    pub(super) fn into_parts(self) -> Vec<Part> {
        let parts = self.pieces.into_iter().map(|piece| match piece {
            AnswerPiece::Text(text) => Part::Text { text },
            AnswerPiece::Reasoning(reasoning) => Part::Reasoning(reasoning),
            AnswerPiece::Call(call) => Part::ToolCall(Arc::new(call)),
            #[cfg(any(feature = "gemini", feature = "openai-chat"))]
            AnswerPiece::Whole(part) => part,
        });
        parts.collect()
    }
}

/// Updates the name of a call. Servers send a name whole, in pieces, repeatedly, or cumulatively.
/// Returns the name if it has changed. The name is final once arguments have arrived.
fn named(call: &mut ToolCall, said: &str) -> Option<String> {
    let over = !call.name.is_empty() && !call.arguments.is_empty();
    if said.is_empty() || said == call.name || over {
        return None;
    }
    match said.starts_with(&call.name) {
        true => said.clone_into(&mut call.name),
        false => call.name.push_str(said),
    }
    Some(call.name.clone())
}

/// Builds a piece of a call, with the id and the tool's name if they are new.
pub(crate) fn call_delta(
    index: usize,
    id: Option<String>,
    name: Option<String>,
    arguments: &str,
) -> ToolCallDelta {
    let mut delta = ToolCallDelta::new(index, arguments);
    (delta.id, delta.name) = (id, name);
    delta
}

/// Builds a reasoning part with the original object that the provider expects back.
#[cfg(any(test, feature = "anthropic", feature = "gemini", feature = "openai-responses"))]
pub(crate) fn reasoning(
    text: String,
    provider: String,
    model: String,
    opaque: Option<Value>,
) -> Reasoning {
    let mut reasoning = Reasoning::new(text, provider);
    (reasoning.model, reasoning.opaque) = (model, opaque.map(Box::new));
    reasoning
}
