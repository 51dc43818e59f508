//! Typed handles to the outputs of nodes, and tuples of them.

use std::fmt;

use super::spec::{NodeIndex, Outputs};
use super::step_error::StepError;
use crate::error::Failure;
use crate::tuples::all_the_tuples;
use crate::value::{Encoded, NodeValue};

/// A reference to the output of a node that has not run yet. It is `Copy`, and valid only in the
/// builder that created it.
pub struct Handle<T> {
    pub(super) node: NodeIndex,
    pub(super) builder: u32,
    load: fn(NodeIndex, &dyn Outputs) -> Result<T, StepError>,
    /// `true` if there is a value even if the node has no output.
    optional: bool,
}

impl<T: NodeValue> Handle<T> {
    pub(super) fn new(node: NodeIndex, builder: u32) -> Self {
        Self { node, builder, load: output::<T>, optional: false }
    }

    pub(super) fn from_raw(raw: RawHandle) -> Self {
        Self::new(raw.node, raw.builder)
    }

    /// Reads the output as an `Option`. The value is `None` if the node was skipped, if it failed
    /// and an edge handles the failure, or if it has not ended when its reader begins
    /// ([`Node::begins`](super::Node::begins)). The reader of an optional output runs without it.
    /// Only bodies can read it.
    ///
    /// ```
    /// use agentflow::workflow::{Begins, Node, NodeEdge};
    /// use agentflow::{Error, Runtime, Workflow};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> agentflow::Result<()> {
    /// let page = Workflow::<(String,), String>::build("page", ["url"], |b, (url,)| {
    ///     let fetched = b.node("fetched", (url,), |_cx, (url,)| async move {
    ///         Err::<String, _>(format!("there is nothing at {url}"))
    ///     });
    ///     let failed = Node::new("kept").edge(NodeEdge::failed(fetched));
    ///     let kept = b.value(failed, (fetched.failure(),), |(failure,)| {
    ///         Ok::<_, Error>(format!("an older page, since {}", failure.unwrap().message))
    ///     });
    ///     let either = Node::new("either").edge(NodeEdge::from(fetched)).edge(NodeEdge::from(kept)).begins(Begins::Any);
    ///     b.value(either, (fetched.optional(), kept.optional()), |(new, old)| Ok::<_, Error>(new.or(old).unwrap()))
    /// })?;
    /// let output = page.run(&Runtime::default(), "x".to_owned()).await?;
    /// assert_eq!(output, "an older page, since there is nothing at x");
    /// # Ok(())
    /// # }
    /// ```
    pub fn optional(self) -> Handle<Option<T>> {
        Handle {
            node: self.node,
            builder: self.builder,
            load: optional_output::<T>,
            optional: true,
        }
    }

    /// Reads the failure of the node, if an [edge](super::NodeEdge::failed) handles it. Otherwise,
    /// the value is `None`. Only bodies can read it.
    pub fn failure(self) -> Handle<Option<Failure>> {
        let load = |node, outputs: &dyn Outputs| Ok(outputs.failure(node).cloned());
        Handle { node: self.node, builder: self.builder, load, optional: true }
    }
}

fn output<T: NodeValue>(node: NodeIndex, outputs: &dyn Outputs) -> Result<T, StepError> {
    decoded(outputs.output(node).ok_or_else(StepError::read_too_early)?)
}

fn optional_output<T: NodeValue>(
    node: NodeIndex,
    outputs: &dyn Outputs,
) -> Result<Option<T>, StepError> {
    outputs.output(node).map(decoded).transpose()
}

fn decoded<T: NodeValue>(encoded: &Encoded) -> Result<T, StepError> {
    T::decode(encoded).map_err(|error| {
        let what = format!(
            "a `{}` does not come back from its JSON as it was written",
            std::any::type_name::<T>()
        );
        StepError::value(&what, &error)
    })
}

/// Placeholder for a value that is not recorded: each reader computes it again.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ComputedAgain;

impl Handle<ComputedAgain> {
    /// Creates a handle without a node: each reader computes the value again.
    pub(super) fn again() -> Self {
        Self { node: AGAIN, builder: u32::MAX, load: |_, _| Ok(ComputedAgain), optional: false }
    }
}

/// Node index of handles without a node.
const AGAIN: NodeIndex = NodeIndex::MAX - 1;

impl RawHandle {
    fn is_of_node(self) -> bool {
        self.node != AGAIN
    }
}

impl<T> Handle<T> {
    pub(super) fn raw(&self) -> RawHandle {
        RawHandle { node: self.node, builder: self.builder, optional: self.optional }
    }

    /// Returns the same handle for another node.
    pub(super) fn moved(self, to: RawHandle) -> Self {
        Self { node: to.node, builder: to.builder, ..self }
    }

    /// Moves the handle of a node. A handle without a node is returned unchanged.
    fn moved_by(self, to: &mut dyn FnMut(RawHandle) -> RawHandle) -> Self {
        match self.raw().is_of_node() {
            true => self.moved(to(self.raw())),
            false => self,
        }
    }

    fn load(&self, outputs: &dyn Outputs) -> Result<T, StepError> {
        (self.load)(self.node, outputs)
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

/// Values that a node reads: a tuple of up to sixteen handles.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of handles",
    label = "a node reads a tuple: `(handle,)` for one handle, `()` for none"
)]
pub trait Reads: Copy + Send + Sync + 'static {
    /// Values, in the order of the handles.
    type Values;

    #[doc(hidden)]
    fn handles(&self) -> Vec<RawHandle>;

    #[doc(hidden)]
    fn load(&self, outputs: Loader<'_>) -> Result<Self::Values, LoadError>;

    /// Returns the handles for another builder. `to` returns the new position of each handle.
    #[doc(hidden)]
    #[must_use]
    fn moved(&self, to: &mut dyn FnMut(RawHandle) -> RawHandle) -> Self;
}

/// Two sets of handles, for more handles than one tuple can have.
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
    pub(super) optional: bool,
}

impl RawHandle {
    /// Creates a handle that does not belong to a builder. The builder reports an attempt to read
    /// it.
    pub(super) const fn nowhere() -> Self {
        Self { node: NodeIndex::MAX, builder: u32::MAX, optional: false }
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
                [$(self.$at.raw()),*].into_iter().filter(|handle: &RawHandle| handle.is_of_node()).collect()
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "of the empty tuple")]
            fn load(&self, outputs: Loader<'_>) -> Result<Self::Values, LoadError> {
                Ok(($(self.$at.load(outputs.0).map_err(LoadError)?,)*))
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "of the empty tuple")]
            fn moved(&self, to: &mut dyn FnMut(RawHandle) -> RawHandle) -> Self {
                ($(self.$at.moved_by(to),)*)
            }
        }
    };
}

all_the_tuples!(reads, 16);
