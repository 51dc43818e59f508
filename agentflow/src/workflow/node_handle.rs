//! Typed handles to the outputs of nodes, and tuples of them.

use std::fmt;

use super::spec::{NodeIndex, Outputs};
use super::step_error::StepError;
use crate::tuples::all_the_tuples;
use crate::value::{Encoded, NodeValue};

/// The output of a node that is yet to run. Copying is free; it is only good for the builder it came from.
pub struct Handle<T> {
    pub(super) node: NodeIndex,
    pub(super) builder: u32,
    decode: fn(&Encoded) -> Result<T, serde_json::Error>,
}

impl<T: NodeValue> Handle<T> {
    pub(super) fn new(node: NodeIndex, builder: u32) -> Self {
        Self { node, builder, decode: T::decode }
    }

    pub(super) fn of(RawHandle { node, builder }: RawHandle) -> Self {
        Self::new(node, builder)
    }
}

impl<T> Handle<T> {
    pub(super) fn raw(&self) -> RawHandle {
        RawHandle { node: self.node, builder: self.builder }
    }

    /// The handle of the same type at another place.
    pub(super) fn moved(self, to: RawHandle) -> Self {
        Self { node: to.node, builder: to.builder, ..self }
    }

    fn load(&self, outputs: &dyn Outputs) -> Result<T, StepError> {
        let encoded = outputs.output(self.node).ok_or_else(StepError::read_too_early)?;
        (self.decode)(encoded).map_err(|error| {
            let what = format!("a `{}` does not come back from its JSON as it was written", std::any::type_name::<T>());
            StepError::value(&what, &error)
        })
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle<{}>({})", std::any::type_name::<T>(), self.node)
    }
}

/// What a node reads: a tuple of up to sixteen handles.
pub trait Reads: Copy + Send + Sync + 'static {
    /// The values, in the order of the handles.
    type Values;

    #[doc(hidden)]
    fn handles(&self) -> Vec<RawHandle>;

    #[doc(hidden)]
    fn load(&self, outputs: Loader<'_>) -> Result<Self::Values, LoadError>;

    /// The same handles for another builder, each by its place there.
    #[doc(hidden)]
    #[must_use]
    fn moved(&self, to: &mut dyn FnMut(RawHandle) -> RawHandle) -> Self;
}

/// More handles than one tuple holds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(pub A, pub B);

impl<A: Reads, B: Reads> Reads for And<A, B> {
    type Values = (A::Values, B::Values);

    fn handles(&self) -> Vec<RawHandle> {
        let mut handles = self.0.handles();
        handles.extend(self.1.handles());
        handles
    }

    fn load(&self, outputs: Loader<'_>) -> Result<Self::Values, LoadError> {
        Ok((self.0.load(outputs)?, self.1.load(outputs)?))
    }

    fn moved(&self, to: &mut dyn FnMut(RawHandle) -> RawHandle) -> Self {
        Self(self.0.moved(to), self.1.moved(to))
    }
}

/// A handle without its type.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RawHandle {
    pub(super) node: NodeIndex,
    pub(super) builder: u32,
}

impl RawHandle {
    /// A handle that no builder has; reading it is reported.
    pub(super) const fn nowhere() -> Self {
        Self { node: NodeIndex::MAX, builder: u32::MAX }
    }
}

#[doc(hidden)]
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "passed through, never kept")]
pub struct Loader<'a>(pub(super) &'a dyn Outputs);

#[doc(hidden)]
#[derive(Debug)]
pub struct LoadError(pub(super) StepError);

macro_rules! reads {
    (_ $length:literal $($T:ident $at:tt)*) => {
        impl<$($T: 'static),*> Reads for ($(Handle<$T>,)*) {
            type Values = ($($T,)*);

            fn handles(&self) -> Vec<RawHandle> {
                vec![$(self.$at.raw()),*]
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "of the empty tuple")]
            fn load(&self, outputs: Loader<'_>) -> Result<Self::Values, LoadError> {
                Ok(($(self.$at.load(outputs.0).map_err(LoadError)?,)*))
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "of the empty tuple")]
            fn moved(&self, to: &mut dyn FnMut(RawHandle) -> RawHandle) -> Self {
                ($(self.$at.moved(to(self.$at.raw())),)*)
            }
        }
    };
}

all_the_tuples!(reads, 16);
