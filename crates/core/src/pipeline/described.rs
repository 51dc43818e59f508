//! What a document says of a part: rows as they are written, and all that is said beside the operator. It reads no document.

use super::Pipeline;
use super::pipeline_part::Kind;
use crate::workflow::{NodePolicy, NodeSchema};

impl Pipeline {
    /// Parts one after another; a row in a row stays one.
    pub(crate) fn sequence(parts: Vec<Self>) -> Self {
        Self::of(Kind::Sequence(parts))
    }

    /// Parts at the same time; those in one of them stay its own.
    pub(crate) fn parallel(parts: Vec<Self>) -> Self {
        Self::of(Kind::Parallel(parts))
    }

    /// Parts in each other's place.
    pub(crate) fn fallbacks(parts: Vec<Self>) -> Self {
        Self::of(Kind::Fallback(parts))
    }

    /// A part that observes, within a row.
    pub(crate) fn tapped(part: Self) -> Self {
        Self::of(Kind::Tap(part))
    }

    /// What the part is called by those around it.
    pub(crate) fn label(&self) -> String {
        self.0.label()
    }

    /// Which part of a document it is, so that its nodes are known.
    pub(crate) fn written(self, number: usize) -> Self {
        self.changed(|part| part.written = Some(number))
    }

    /// Sets the policy; a time limit that the part has already stays where the policy says nothing of it.
    pub(crate) fn policy_with(self, mut policy: NodePolicy) -> Self {
        let timeout = self.0.policy.as_ref().and_then(|policy| policy.timeout_ms);
        policy.timeout_ms = policy.timeout_ms.or(timeout);
        self.policy(policy)
    }

    /// Sets the schemas of what it is given and of its output.
    pub(crate) fn schemas(self, input: Option<NodeSchema>, output: Option<NodeSchema>) -> Self {
        self.changed(|part| {
            part.input = input.unwrap_or(std::mem::take(&mut part.input));
            part.output = output.unwrap_or(std::mem::take(&mut part.output));
        })
    }
}
