//! Finds the value of a `let` that is a future by mistake, and continues with the value that it would give, so that the code that
//! reads it is checked as if it were awaited. It exists only for the compiler's messages; it converts nothing.
//!
//! An inherent method takes precedence over a trait's, and a value over a reference to it: a value that can be recorded is
//! returned as it is, a future is reported, and anything else is left to the node that records it.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::marker::PhantomData;

use crate::value::NodeValue;

/// The value of a `let`.
pub struct LetOutput<T>(pub T);

/// What is bound.
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

/// The type of a `None` that several readers repeat: what it is in one of them, it is in all.
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

/// A future.
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

/// Everything else.
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

/// The output of a future that is no `Result`.
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
