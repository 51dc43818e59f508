//! Assembles the output items of a response from events: announced, extended piece by piece, and
//! completed.
//!
//! Each piece is reported once. The final form of an item replaces its pieces, and content that was
//! not reported before is reported then. So a server may omit either the pieces or the final form.
//! This module does not parse events.

use std::sync::Arc;

use agentflow_core::message::{Part, ToolCall};
use agentflow_core::model::{ModelEvent, ToolCallDelta};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::PROVIDER;
use super::wire::{Item, Piece, Pieces};
use crate::assembly::{call_delta, reasoning};
use crate::http::Deltas;
use crate::loose::{read, unquoted};

/// The items of a response, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    slots: Vec<Slot>,
    calls: usize,
    pub(super) refused: bool,
}

#[derive(Clone, Debug)]
struct Slot {
    index: u64,
    id: String,
    settled: bool,
    content: ItemContent,
}

#[derive(Clone, Debug)]
enum ItemContent {
    Message {
        text: String,
        phase: String,
    },
    Reasoning {
        text: String,
        item: Option<Value>,
    },
    Call {
        number: usize,
        call: ToolCall,
    },
    /// An item of unknown type. It is sent back unchanged.
    Other(Value),
}

/// The kind of item to which a piece belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call,
}

impl Items {
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Adds an item that was announced.
    pub(super) fn added(
        &mut self,
        index: Option<u64>,
        raw: &RawValue,
        deltas: &mut Deltas,
    ) -> serde_json::Result<()> {
        let mut mended = Vec::new();
        let item: Item<'_> = read(raw.get().as_bytes(), &mut mended)?;
        // Some servers give every item the index 0.
        let known = self.find(index, &item.id).filter(|at| !self.slots[*at].settled);
        self.fill(known, index, &item, raw, deltas).map(drop)
    }

    /// Completes an item.
    pub(super) fn done(
        &mut self,
        index: Option<u64>,
        raw: &RawValue,
        deltas: &mut Deltas,
    ) -> serde_json::Result<()> {
        let mut mended = Vec::new();
        let item: Item<'_> = read(raw.get().as_bytes(), &mut mended)?;
        let known =
            self.find_id(&item.id).or_else(|| match index.is_some() || item.id.is_empty() {
                true => self.find(index, ""),
                false => None,
            });
        let at = self.fill(known, index, &item, raw, deltas)?;
        self.slots[at].settled = true;
        Ok(())
    }

    /// Processes all items of the final response. If their number and kinds match the earlier
    /// items, they are the same items, even with different ids.
    pub(super) fn all(
        &mut self,
        output: &[&RawValue],
        deltas: &mut Deltas,
    ) -> serde_json::Result<()> {
        let mut same = output.len() == self.slots.len();
        for (at, raw) in output.iter().enumerate().take(self.slots.len()) {
            let mut mended = Vec::new();
            let item: Item<'_> = read(raw.get().as_bytes(), &mut mended)?;
            same &= kind_of(&item) == self.kind(at);
        }
        for (at, raw) in output.iter().enumerate() {
            match same {
                true => {
                    let mut mended = Vec::new();
                    let item: Item<'_> = read(raw.get().as_bytes(), &mut mended)?;
                    let index = self.slots[at].index;
                    self.fill(Some(at), Some(index), &item, raw, deltas)?;
                }
                false => self.done(Some(at as u64), raw, deltas)?,
            }
        }
        Ok(())
    }

    /// Returns true if the response contains text.
    pub(super) fn has_text(&self) -> bool {
        self.slots.iter().any(
            |slot| matches!(&slot.content, ItemContent::Message { text, .. } if !text.is_empty()),
        )
    }

    /// Adds complete text, from a server that sends no pieces of it.
    pub(super) fn whole_text(
        &mut self,
        index: Option<u64>,
        id: &str,
        whole: &str,
        deltas: &mut Deltas,
    ) {
        let known = self.find(index, id).map(|at| &self.slots[at].content);
        if !matches!(known, Some(ItemContent::Message { text, .. }) if !text.is_empty()) {
            self.more(Kind::Message, index, id, whole, deltas);
        }
    }

    /// Adds a piece of text, of reasoning or of a call's arguments.
    pub(super) fn more(
        &mut self,
        kind: Kind,
        index: Option<u64>,
        id: &str,
        more: &str,
        deltas: &mut Deltas,
    ) {
        if more.is_empty() {
            return;
        }
        let Some(at) = self.of_kind(kind, index, id) else { return };
        match &mut self.slots[at].content {
            ItemContent::Message { text, .. } => {
                text.push_str(more);
                deltas.push(|| ModelEvent::Text(more.to_owned()));
            }
            ItemContent::Reasoning { text, .. } => {
                text.push_str(more);
                deltas.push(|| ModelEvent::Reasoning(more.to_owned()));
            }
            ItemContent::Call { number, call } => {
                call.arguments.push_str(more);
                arguments(*number, more, deltas);
            }
            ItemContent::Other(_) => {}
        }
    }

    /// Sets the complete arguments of a call.
    pub(super) fn arguments(
        &mut self,
        index: Option<u64>,
        id: &str,
        whole: &str,
        deltas: &mut Deltas,
    ) {
        if let Some(at) = self.of_kind(Kind::Call, index, id)
            && let ItemContent::Call { number, call } = &mut self.slots[at].content
            && let Some(rest) = settle(&mut call.arguments, whole)
        {
            arguments(*number, rest, deltas);
        }
    }

    /// Returns the slot to which a piece belongs. Creates a slot if the item was not announced.
    /// Returns `None` if the piece belongs to an item of a different kind.
    fn of_kind(&mut self, kind: Kind, index: Option<u64>, id: &str) -> Option<usize> {
        if let Some(at) = self.find(index, id) {
            if self.kind(at) == Some(kind) {
                return Some(at);
            }
            // A piece that names its item does not belong to another item.
            if index.is_some() || !id.is_empty() {
                return None;
            }
        }
        let content = match kind {
            Kind::Message => ItemContent::Message { text: String::new(), phase: String::new() },
            Kind::Reasoning => ItemContent::Reasoning { text: String::new(), item: None },
            Kind::Call => self.new_call(),
        };
        Some(self.insert(index, id, content))
    }

    /// Returns the slot with this index, because some servers change the ids during a response.
    /// Without an index, searches by id. Without both, returns the last slot.
    fn find(&self, index: Option<u64>, id: &str) -> Option<usize> {
        match index {
            Some(index) => self.slots.iter().rposition(|slot| slot.index == index),
            None if !id.is_empty() => self.find_id(id),
            None => self.slots.len().checked_sub(1),
        }
    }

    fn find_id(&self, id: &str) -> Option<usize> {
        self.slots.iter().rposition(|slot| !id.is_empty() && slot.id == id)
    }

    fn kind(&self, at: usize) -> Option<Kind> {
        match &self.slots[at].content {
            ItemContent::Message { .. } => Some(Kind::Message),
            ItemContent::Reasoning { .. } => Some(Kind::Reasoning),
            ItemContent::Call { .. } => Some(Kind::Call),
            ItemContent::Other(_) => None,
        }
    }

    fn insert(&mut self, index: Option<u64>, id: &str, content: ItemContent) -> usize {
        let index = index.unwrap_or_else(|| self.slots.last().map_or(0, |slot| slot.index + 1));
        let at = self.slots.partition_point(|slot| slot.index <= index);
        self.slots.insert(at, Slot { index, id: id.to_owned(), settled: false, content });
        at
    }

    fn new_call(&mut self) -> ItemContent {
        self.calls += 1;
        ItemContent::Call { number: self.calls - 1, call: ToolCall::default() }
    }

    /// Fills an item into its slot, or into a new slot if the existing one has a different kind of
    /// item.
    fn fill(
        &mut self,
        known: Option<usize>,
        index: Option<u64>,
        item: &Item<'_>,
        raw: &RawValue,
        deltas: &mut Deltas,
    ) -> serde_json::Result<usize> {
        let kind = kind_of(item);
        // An item never changes its kind. A different kind means that the server reused the index
        // or the id.
        let slot = match known.filter(|at| self.kind(*at) == kind) {
            Some(at) => at,
            None => {
                let content = match kind {
                    Some(Kind::Message) => {
                        ItemContent::Message { text: String::new(), phase: String::new() }
                    }
                    Some(Kind::Reasoning) => {
                        ItemContent::Reasoning { text: String::new(), item: None }
                    }
                    Some(Kind::Call) => self.new_call(),
                    None => ItemContent::Other(Value::Null),
                };
                self.insert(index, &item.id, content)
            }
        };
        if self.slots[slot].id.is_empty() {
            item.id.clone_into(&mut self.slots[slot].id);
        }
        match &mut self.slots[slot].content {
            ItemContent::Message { text, phase } => {
                let (whole, refused) = readable(item.content);
                self.refused |= refused;
                item.phase.clone_into(phase);
                if let Some(rest) = settle(text, &whole) {
                    deltas.push(|| ModelEvent::Text(rest.to_owned()));
                }
            }
            ItemContent::Reasoning { text, item: kept } => {
                // Servers send readable reasoning either in the summary or in the content.
                let whole = readable(item.summary).0 + &readable(item.content).0;
                *kept = Some(value(raw)?);
                if let Some(rest) = settle(text, &whole) {
                    deltas.push(|| ModelEvent::Reasoning(rest.to_owned()));
                }
            }
            ItemContent::Call { number, call } => {
                let custom = &*item.kind == "custom_tool_call";
                let said = if custom { &item.input } else { &item.arguments };
                let id = news(&mut call.id, &item.call_id);
                let name = news(&mut call.name, &item.name);
                if id.is_some() || name.is_some() {
                    let index = *number;
                    deltas.push(|| ModelEvent::ToolCall(call_delta(index, id, name, "")));
                }
                if let Some(rest) = settle(&mut call.arguments, said) {
                    arguments(*number, rest, deltas);
                }
                call.opaque = beside(raw, custom)?;
            }
            ItemContent::Other(kept) => *kept = value(raw)?,
        }
        Ok(slot)
    }

    /// Converts the items to the parts of a message. `asked` is the requested model, and `turn` is
    /// used for the ids of calls without an id.
    pub(super) fn into_parts(self, asked: &Arc<str>, turn: usize) -> Vec<Part> {
        let opaque = |text: String, item: Value| {
            let (provider, model) = (PROVIDER.name.to_owned(), asked.to_string());
            Part::Reasoning(reasoning(text, provider, model, Some(item)))
        };
        let mut parts = Vec::with_capacity(self.slots.len());
        for Slot { id, content, .. } in self.slots {
            match content {
                ItemContent::Message { text, .. } if text.is_empty() => {}
                ItemContent::Message { text, phase } => {
                    if !phase.is_empty() {
                        // The phase of a message must be sent back. A text part has no field for
                        // it, so an opaque part before the text stores it.
                        parts.push(opaque(
                            String::new(),
                            json!({"type": "message", "phase": phase}),
                        ));
                    }
                    parts.push(Part::Text { text });
                }
                ItemContent::Reasoning { text, item: Some(item) } => parts.push(opaque(text, item)),
                ItemContent::Reasoning { text, item: None } => {
                    let (provider, model) = (PROVIDER.name.to_owned(), asked.to_string());
                    parts.push(Part::Reasoning(reasoning(text, provider, model, None)));
                }
                ItemContent::Call { number, mut call } => {
                    if call.id.is_empty() {
                        // Results refer to calls by id, so every call needs one.
                        call.id = if id.is_empty() { format!("call_{turn}_{number}") } else { id };
                    }
                    parts.push(Part::ToolCall(Arc::new(call)));
                }
                ItemContent::Other(item) => parts.push(opaque(String::new(), item)),
            }
        }
        parts
    }
}

fn value(raw: &RawValue) -> serde_json::Result<Value> {
    let mut mended = Vec::new();
    read(raw.get().as_bytes(), &mut mended)
}

fn kind_of(item: &Item<'_>) -> Option<Kind> {
    match &*item.kind {
        "message" => Some(Kind::Message),
        "reasoning" => Some(Kind::Reasoning),
        "function_call" | "custom_tool_call" => Some(Kind::Call),
        _ => None,
    }
}

fn arguments(index: usize, more: &str, deltas: &mut Deltas) {
    let delta = || ToolCallDelta::new(index, more);
    deltas.push(|| ModelEvent::ToolCall(delta()));
}

/// Sets a value that was still empty. Returns the value if it was set.
fn news(known: &mut String, said: &str) -> Option<String> {
    (known.is_empty() && !said.is_empty()).then(|| said.clone_into(known)).map(|()| said.to_owned())
}

/// Replaces the assembled pieces with the complete text. Returns the part that was not reported
/// yet, if the pieces are its prefix.
fn settle<'a>(known: &mut String, whole: &'a str) -> Option<&'a str> {
    if whole.is_empty() || known == whole {
        return None;
    }
    let rest = whole.strip_prefix(known.as_str());
    whole.clone_into(known);
    rest
}

/// Returns the text of a list of pieces, or a plain string, and `true` if it contains a refusal.
/// Other values have no text.
fn readable(pieces: Option<&RawValue>) -> (String, bool) {
    if let Some(text) = pieces.and_then(|raw| unquoted(raw.get())) {
        return (text, false);
    }
    let mut mended = Vec::new();
    let pieces =
        pieces.and_then(|raw| read::<Pieces<'_>>(raw.get().as_bytes(), &mut mended).ok()?.0);
    let pieces = pieces.unwrap_or_default();
    let refused = pieces.iter().any(|piece| &*piece.kind == "refusal");
    let text = |piece: &Piece<'_>| match &*piece.kind {
        "refusal" => piece.refusal.to_string(),
        "output_audio" => piece.transcript.to_string(),
        _ => piece.text.to_string(),
    };
    (pieces.iter().map(text).collect(), refused)
}

/// Returns the fields of a call's item that are sent back with the call: its type (except for a
/// function) and unknown fields. The id and the status are not sent, because the provider has not
/// stored the item.
fn beside(raw: &RawValue, custom: bool) -> serde_json::Result<Option<Box<Value>>> {
    let mut mended = Vec::new();
    let mut item: Map<String, Value> = read(raw.get().as_bytes(), &mut mended)?;
    for known in ["id", "status", "call_id", "name", "arguments", "input"] {
        item.remove(known);
    }
    if !custom {
        item.remove("type");
    }
    Ok((!item.is_empty()).then(|| Box::new(json!({"provider": PROVIDER.name, "item": item}))))
}
