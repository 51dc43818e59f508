//! Nodes of [`Steps`] for expressions that are often a mistake: a lock guard, an `Instant`, an
//! injected resource, several `Result`s. The form of the expression selects the compiler message,
//! and the type of the output decides whether it is reported.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use super::callee::StepArgs;
use super::node::Node;
use super::node_handle::{Handle, Reads};
use super::spec::NodeKind;
use super::steps::Steps;
use crate::value::NodeValue;

/// Receiver of the value of a `let`. The type is local and has the value's type as a parameter of a
/// trait. Otherwise the compiler would suggest borrowing a value that is borrowed already.
pub struct LetValue;

#[diagnostic::on_unimplemented(
    message = "`{O}` cannot be a value of a workflow",
    label = "this value is recorded; if it is a future, add `.await`",
    note = "a value is recorded, so it owns its data and has `serde::Serialize`, `serde::Deserialize` and \
            `schemars::JsonSchema`; of a borrowed one, record a copy with `.clone()` or `.to_owned()`, or write it where it \
            is used",
    note = "for a list of futures, write `map!(items, |item| step(item)).await?`, which runs them together and records each"
)]
pub trait RecordedAs<O> {
    fn pure<E, R, B>(steps: &mut Steps<'_, E>, node: Node, reads: R, body: B) -> Handle<O>
    where
        E: 'static,
        R: Reads,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static;

    fn calling<E, R, B, F>(steps: &mut Steps<'_, E>, node: Node, reads: R, body: B) -> Handle<O>
    where
        E: 'static,
        R: Reads,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static;
}

#[diagnostic::do_not_recommend]
impl<O: NodeValue> RecordedAs<O> for LetValue {
    fn pure<E, R, B>(steps: &mut Steps<'_, E>, node: Node, reads: R, body: B) -> Handle<O>
    where
        E: 'static,
        R: Reads,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        steps.value(node, reads, body)
    }

    fn calling<E, R, B, F>(steps: &mut Steps<'_, E>, node: Node, reads: R, body: B) -> Handle<O>
    where
        E: 'static,
        R: Reads,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        steps.computed(NodeKind::Value, node, reads, body)
    }
}

/// Output of `Instant::now()`.
#[diagnostic::on_unimplemented(
    message = "a clock's instant cannot be recorded",
    label = "`{Self}` means something in this process only",
    note = "take `std::time::SystemTime::now()`, or measure within one step"
)]
pub trait ClockOutput: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> ClockOutput for T {}

/// Output of `lock()`.
#[diagnostic::on_unimplemented(
    message = "a guard cannot be recorded",
    label = "`{Self}` would be held until other steps have read it",
    note = "take the value out of it in the same expression, as in `let n = *numbers.lock().unwrap();`, or lock in a \
            function that a step calls"
)]
pub trait GuardedOutput: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> GuardedOutput for T {}

/// Output of `inject()`.
#[diagnostic::on_unimplemented(
    message = "what is injected cannot be recorded",
    label = "`{Self}` belongs to this process",
    note = "use it in the step that needs it, as in `let rows = cx.inject::<Db>()?.rows().await?;`"
)]
pub trait InjectedOutput: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> InjectedOutput for T {}

/// Output of `join!`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between the nodes of a workflow",
    label = "of several `Result`s, write `try_join!(..)?` for `join!(..)`",
    note = "all that a step gives is recorded, so each part owns its data and has `serde::Serialize`, \
            `serde::Deserialize` and `schemars::JsonSchema`"
)]
pub trait JoinedOutput: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> JoinedOutput for T {}

impl<E: 'static> Steps<'_, E> {
    /// Adds the value of a `let`.
    pub fn let_value<R, O, B>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        LetValue: RecordedAs<O>,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        LetValue::pure(self, node, reads, body)
    }

    /// Adds a value whose expression calls functions. If it calls a `#[tool]`, it becomes a step
    /// with the policy of that tool.
    pub fn value_call<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        LetValue: RecordedAs<O>,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        LetValue::calling(self, node, reads, body)
    }

    pub fn clock_value<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: ClockOutput,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.computed(NodeKind::Value, node, reads, body)
    }

    pub fn guarded_value<R, O, B>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: GuardedOutput,
        B: Fn(R::Values) -> Result<O, E> + Send + Sync + 'static,
    {
        self.value(node, reads, body)
    }

    pub fn guarded_step<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: GuardedOutput,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.step(node, reads, body)
    }

    pub fn injected_step<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: InjectedOutput,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.step(node, reads, body)
    }

    pub fn joined_step<R, O, B, F>(&mut self, node: Node, reads: R, body: B) -> Handle<O>
    where
        R: Reads,
        O: JoinedOutput,
        B: Fn(StepArgs<R::Values>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, E>> + Send + 'static,
    {
        self.step(node, reads, body)
    }
}
