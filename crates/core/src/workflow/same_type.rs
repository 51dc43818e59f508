//! Checks of types in a `#[workflow]`: the arms of a router, or the branches of a race or a
//! fallback, have one type; a step without `?` outputs a value; the error of a step converts into
//! the workflow's error. It serves compiler messages only.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use super::node::Branch;
use super::node_handle::Handle;
use crate::value::NodeValue;

/// Output of an arm. The name is short, because the compiler quotes the signature of [`Arms::arm`]
/// if types differ.
type Arm<T> = Handle<T>;

/// Arms of a router, all with the type of the first one.
pub struct Arms<O>(pub(super) Vec<Handle<O>>);

pub fn arms<O>() -> Arms<O> {
    Arms(Vec::new())
}

impl<O> Arms<O> {
    #[must_use]
    pub fn arm<T: SameArm<O>>(mut self, arm: Arm<T>) -> Self {
        self.0.push(T::same(arm));
        self
    }

    /// Adds an arm that never has a value and therefore fits any type.
    #[must_use]
    pub fn same(mut self, arm: Arm<O>) -> Self {
        self.0.push(arm);
        self
    }
}

/// Branches of a race or a fallback, all with the type of the first one.
pub struct Branches<O>(pub(super) Vec<Branch<O>>);

pub fn branches<O>() -> Branches<O> {
    Branches(Vec::new())
}

impl<O> Branches<O> {
    #[must_use]
    pub fn branch<T: SameBranch<O>>(mut self, branch: Branch<T>) -> Self {
        self.0.push(T::same(branch));
        self
    }
}

/// Output of an arm that has the type of the arms before it.
#[diagnostic::on_unimplemented(
    message = "this arm gives `{Self}`, and the arms before it give `{First}`",
    label = "expected `{First}`",
    note = "all arms of a workflow's `if` or `match` give one type, as in plain Rust"
)]
pub trait SameArm<First>: Sized {
    fn same(arm: Handle<Self>) -> Handle<First>;
}

impl<T> SameArm<T> for T {
    fn same(arm: Handle<T>) -> Handle<T> {
        arm
    }
}

/// Output of a branch that has the type of the branches before it.
#[diagnostic::on_unimplemented(
    message = "this branch gives `{Self}`, and the branches before it give `{First}`",
    label = "expected `{First}`",
    note = "one of the branches gives the output, so all give one type"
)]
pub trait SameBranch<First>: Sized {
    fn same(branch: Branch<Self>) -> Branch<First>;
}

impl<T> SameBranch<T> for T {
    fn same(branch: Branch<T>) -> Branch<T> {
        branch
    }
}

/// Output of a step that a `match` or an `if` inspects.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be matched in a workflow",
    label = "each arm reads this, so it is recorded",
    note = "of a `Result`, give the error as text, with `.map_err(|error| error.to_string())`; else derive \
            `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema`"
)]
pub trait MatchedOutput: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> MatchedOutput for T {}

/// Output of a step without `?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between the nodes of a workflow",
    label = "if this is a `Result`, add `?` after `.await`",
    note = "of a `Result` that is looked at below, give the error as text, with `.map_err(|error| error.to_string())`",
    note = "else derive `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` for `{Self}`; it must own \
            its data and be `Send`"
)]
pub trait PlainOutput: NodeValue {}

#[diagnostic::do_not_recommend]
impl<T: NodeValue> PlainOutput for T {}

/// Conversion of the error of a step or a value into the error of the workflow.
#[diagnostic::on_unimplemented(
    message = "`?` cannot convert the error `{Of}` into `{Self}`, the error of this workflow",
    label = "this fails with `{Of}`",
    note = "a boxed error is `Box<dyn std::error::Error + Send + Sync>`, since a step's error is sent between threads; a \
            workflow that returns `Result<_, Box<dyn std::error::Error + Send + Sync>>` takes almost any error",
    note = "else convert it with `.map_err(..)`, or implement `From<{Of}>` for an error of your own"
)]
pub trait ErrorFrom<Of> {
    fn error_from(of: Of) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Of>, Of> ErrorFrom<Of> for E {
    fn error_from(of: Of) -> Self {
        of.into()
    }
}

/// A step with `?` after it.
pub struct TriedStep<S>(pub S);

impl<T, Of> TriedStep<Result<T, Of>> {
    /// Converts the error of a step into the error of the workflow.
    pub fn failing<E: ErrorFrom<Of>>(self) -> Result<T, E> {
        self.0.map_err(E::error_from)
    }
}

/// A step in a form. The `?` after the form is the `?` of a step that can fail.
pub struct FormStep<S>(pub S);

impl<T, Of> FormStep<Result<T, Of>> {
    /// Converts the error of a step into the error of the workflow.
    pub fn failing<E: ErrorFrom<Of>>(self) -> Result<T, E> {
        self.0.map_err(E::error_from)
    }
}

/// A step in a form, if the step cannot fail.
pub trait PlainStep {
    type Output;

    fn failing<E>(self) -> Result<Self::Output, E>;
}

impl<S> PlainStep for FormStep<S> {
    type Output = S;

    fn failing<E>(self) -> Result<S, E> {
        Ok(self.0)
    }
}

/// A value that is one call, with `?` after it.
pub struct TriedValue<S>(pub S);

impl<T, Of> TriedValue<Result<T, Of>> {
    /// Converts the error of a value into the error of the workflow.
    pub fn failing<E: ErrorFrom<Of>>(self) -> Result<T, E> {
        self.0.map_err(E::error_from)
    }
}

/// An `Option` with `?` after it. The compiler itself explains how it becomes a `Result`.
pub trait OptionTried {
    type Tried;

    fn failing<E>(self) -> Option<Self::Tried>;
}

impl<T> OptionTried for TriedStep<Option<T>> {
    type Tried = T;

    fn failing<E>(self) -> Option<T> {
        self.0
    }
}

impl<T> OptionTried for TriedValue<Option<T>> {
    type Tried = T;

    fn failing<E>(self) -> Option<T> {
        self.0
    }
}

/// Bound that no future implements. Its message reports a `?` before the `.await`.
#[diagnostic::on_unimplemented(
    message = "this is a future, which has no error before it is awaited",
    label = "add `.await` before `?`, as in `step(x).await?`"
)]
pub trait AwaitedBefore {}

/// A future with `?` after it. The code below gets the type of its output, so that the mistake is
/// reported once.
pub trait FutureTried {
    type Future: Future;

    fn failing<E>(self) -> <Self::Future as Future>::Output
    where
        Self::Future: AwaitedBefore;
}

impl<S: Future> FutureTried for TriedValue<S> {
    type Future = S;

    fn failing<E>(self) -> S::Output
    where
        S: AwaitedBefore,
    {
        unreachable!("no future is tried")
    }
}

/// Bound that no type implements. Its message reports a `?` after a value that is not a `Result`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Result`, so there is no error to pass on",
    label = "remove the `?` after it"
)]
pub trait Fallible {}

/// Any other value with `?` after it. It keeps its type, so that the mistake is reported once.
pub trait OtherTried {
    type Tried;

    fn failing<E>(self) -> Result<Self::Tried, E>
    where
        Self::Tried: Fallible;
}

impl<S> OtherTried for &TriedStep<S> {
    type Tried = S;

    fn failing<E>(self) -> Result<S, E>
    where
        S: Fallible,
    {
        unreachable!("nothing else is tried")
    }
}

impl<S> OtherTried for &TriedValue<S> {
    type Tried = S;

    fn failing<E>(self) -> Result<S, E>
    where
        S: Fallible,
    {
        unreachable!("nothing else is tried")
    }
}
