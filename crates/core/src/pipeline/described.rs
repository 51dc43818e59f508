//! Construction of pipelines from documents: rows as they are written, and the options of a part.
//! The module does not read documents.

use super::Pipeline;
use super::pipeline_part::Kind;
use crate::workflow::{NodePolicy, NodeSchema};

impl Pipeline {
    /// Creates a sequence of parts. Unlike the operator `>>`, it does not flatten a nested
    /// sequence.
    pub(crate) fn sequence(parts: Vec<Self>) -> Self {
        Self::from_kind(Kind::Sequence(parts))
    }

    /// Creates parallel parts. Unlike the operator `|`, it does not flatten nested parallel parts.
    pub(crate) fn parallel(parts: Vec<Self>) -> Self {
        Self::from_kind(Kind::Parallel(parts))
    }

    /// Creates a part with fallbacks, which are tried in order.
    pub(crate) fn fallbacks(parts: Vec<Self>) -> Self {
        Self::from_kind(Kind::Fallback(parts))
    }

    /// Creates a tap: a part that observes, as an element of a sequence.
    pub(crate) fn tapped(part: Self) -> Self {
        Self::from_kind(Kind::Tap(part))
    }

    /// Returns the label of the part, which names its node and its field in the output of parallel
    /// parts.
    pub(crate) fn label(&self) -> String {
        self.0.label()
    }

    /// Sets the number of the part in its document, so that mistakes in its nodes can be located.
    pub(crate) fn written(self, number: usize) -> Self {
        self.changed(|part| part.written = Some(number))
    }

    /// Sets the policy. The time limit of the part is kept if the policy has none.
    pub(crate) fn policy_with(self, mut policy: NodePolicy) -> Self {
        let timeout = self.0.policy.as_ref().and_then(|policy| policy.timeout_ms);
        policy.timeout_ms = policy.timeout_ms.or(timeout);
        self.policy(policy)
    }

    /// Sets the schemas of the input and the output.
    pub(crate) fn schemas(self, input: Option<NodeSchema>, output: Option<NodeSchema>) -> Self {
        self.changed(|part| {
            part.input = input.unwrap_or(std::mem::take(&mut part.input));
            part.output = output.unwrap_or(std::mem::take(&mut part.output));
        })
    }
}
