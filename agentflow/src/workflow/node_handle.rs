//! Typed handles to the outputs of nodes, and tuples of them.

use std::fmt;

use super::spec::{NodeIndex, Outputs};
use super::step_error::StepError;
use crate::error::FailureKind;
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
}

impl<T> Handle<T> {
    fn load(&self, outputs: &dyn Outputs) -> Result<T, StepError> {
        let encoded = outputs
            .output(self.node)
            .ok_or_else(|| StepError::new(FailureKind::Value, "a value was read before it was there"))?;
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
    type Values: Send;

    #[doc(hidden)]
    fn handles(&self) -> Vec<RawHandle>;

    #[doc(hidden)]
    fn load(&self, outputs: Loader<'_>) -> Result<Self::Values, LoadError>;
}

/// A handle without its type.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RawHandle {
    pub(super) node: NodeIndex,
    pub(super) builder: u32,
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
        impl<$($T: Send + 'static),*> Reads for ($(Handle<$T>,)*) {
            type Values = ($($T,)*);

            fn handles(&self) -> Vec<RawHandle> {
                vec![$(RawHandle { node: self.$at.node, builder: self.$at.builder }),*]
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "of the empty tuple")]
            fn load(&self, outputs: Loader<'_>) -> Result<Self::Values, LoadError> {
                Ok(($(self.$at.load(outputs.0).map_err(LoadError)?,)*))
            }
        }
    };
}

all_the_tuples!(reads, 16);
