//! Typed handles to the outputs of nodes, and tuples of them.

use std::fmt;

use super::failure::StepError;
use super::spec::{NodeIndex, Outputs};
use crate::error::FailureKind;
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
    ($($T:ident $at:tt)*) => {
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

reads!();
reads!(A 0);
reads!(A 0 B 1);
reads!(A 0 B 1 C 2);
reads!(A 0 B 1 C 2 D 3);
reads!(A 0 B 1 C 2 D 3 E 4);
reads!(A 0 B 1 C 2 D 3 E 4 F 5);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14);
reads!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15);
