//! Reports a `let` whose `.await` is missing, and lets the compiler check the code below as if it
//! were there. It serves compiler messages only.
//!
//! Method resolution prefers an inherent method to a method of a trait, and a method of a value to
//! a method of a reference. So a value that can be recorded is returned unchanged, a future is
//! reported, and the node reports every other type.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::marker::PhantomData;

use crate::value::NodeValue;

/// The value of a `let`.
pub struct LetOutput<T>(pub T);

/// The value of a `let`, after the check for a missing `.await`.
pub struct Bound<T>(T);

/// The output of a future that is not awaited.
pub struct Unawaited<T>(PhantomData<T>);

#[diagnostic::on_unimplemented(
    message = "this step is not awaited",
    label = "add `.await?` after it",
    note = "a future cannot be recorded; to run several at once, write `tokio::try_join!(..)?`, or \
            `map!(items, |item| step(item)).await?` for a list"
)]
pub trait AwaitedStep {}

impl<T: NodeValue> LetOutput<T> {
    pub fn bound(self) -> Bound<T> {
        Bound(self.0)
    }
}

/// The type of a `None` that is repeated in several readers, so that all of them infer the same
/// type.
pub struct OneType<T>(PhantomData<fn() -> T>);

pub fn one_type<T>() -> OneType<Option<T>> {
    OneType(PhantomData)
}

impl<T> Clone for OneType<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for OneType<T> {}

impl<T> OneType<T> {
    pub fn same(self, value: T) -> T {
        value
    }
}

/// The `bound` method of futures.
pub trait FutureOutput {
    type Future: Future;

    fn bound(self) -> Unawaited<<Self::Future as Future>::Output>
    where
        Self::Future: AwaitedStep;
}

impl<F: Future> FutureOutput for LetOutput<F> {
    type Future = F;

    fn bound(self) -> Unawaited<F::Output>
    where
        F: AwaitedStep,
    {
        Unawaited(PhantomData)
    }
}

/// The `bound` method of all other types.
pub trait AnyOutput {
    type Value;

    fn bound(&self) -> Bound<Self::Value>;
}

impl<T> AnyOutput for LetOutput<T> {
    type Value = T;

    fn bound(&self) -> Bound<T> {
        unreachable!("the node of such a value does not compile")
    }
}

impl<T> Bound<T> {
    pub fn value(self) -> T {
        self.0
    }
}

impl<T, E> Unawaited<Result<T, E>> {
    pub fn value(self) -> T {
        unreachable!("a future that is not awaited does not compile")
    }
}

/// The output of a future that is not a `Result`.
pub trait UnawaitedValue {
    type Value;

    fn value(self) -> Self::Value;
}

impl<T> UnawaitedValue for Unawaited<T> {
    type Value = T;

    fn value(self) -> T {
        unreachable!("a future that is not awaited does not compile")
    }
}
