//! Inputs of a workflow: a tuple of values in Rust, and a JSON object with their names in records.

use serde_json::Value;

use super::builder::Builder;
use super::node_handle::Handle;
use crate::tuples::all_the_tuples;
use crate::value::{Encoded, NodeValue};

/// Inputs of a workflow: a tuple of up to twelve values.
pub trait Inputs: Send + 'static {
    /// Names of the inputs: an array as long as the tuple.
    type Names: AsRef<[&'static str]>;

    /// Handles of the inputs.
    type Handles;

    #[doc(hidden)]
    fn declare(builder: &mut Builder, names: Self::Names) -> Self::Handles;

    #[doc(hidden)]
    fn encode(&self) -> Result<Vec<Encoded>, serde_json::Error>;
}

/// Values that a workflow can be started with: all inputs as a tuple, or the only input without a
/// tuple.
#[diagnostic::on_unimplemented(
    message = "this workflow takes `{In}`, and `{Self}` is given",
    label = "expected `{In}`: all inputs as a tuple, or the only one by itself",
    note = "each input has exactly the type that the workflow takes; a text in quotes is a `&str`, and \
            `\"..\".to_owned()` is a `String`"
)]
pub trait IntoInputs<In> {
    /// Returns the inputs as a tuple.
    fn into_inputs(self) -> In;
}

#[diagnostic::do_not_recommend]
impl<A: NodeValue> IntoInputs<(A,)> for A {
    fn into_inputs(self) -> (A,) {
        (self,)
    }
}

/// Inputs accepted by [`Runtime::start_named`](crate::Runtime::start_named): a JSON object with the
/// names of the inputs, as a [`Value`] or as [`Encoded`] text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a JSON object of inputs",
    label = "write `json!({{\"name\": value}})`, with the name of each input",
    note = "a type of your own that serializes as such an object is given as `Encoded::new(&value)?`"
)]
pub trait IntoNamedInputs {
    #[doc(hidden)]
    fn into_named_inputs(self) -> Result<Encoded, serde_json::Error>;
}

impl IntoNamedInputs for Encoded {
    fn into_named_inputs(self) -> Result<Encoded, serde_json::Error> {
        Ok(self)
    }
}

impl IntoNamedInputs for &Encoded {
    fn into_named_inputs(self) -> Result<Encoded, serde_json::Error> {
        Ok(self.clone())
    }
}

impl IntoNamedInputs for Value {
    fn into_named_inputs(self) -> Result<Encoded, serde_json::Error> {
        Encoded::new(&self)
    }
}

impl IntoNamedInputs for &Value {
    fn into_named_inputs(self) -> Result<Encoded, serde_json::Error> {
        Encoded::new(self)
    }
}

macro_rules! inputs {
    (_ $count:literal $($T:ident $at:tt)*) => {
        impl<$($T: NodeValue),*> Inputs for ($($T,)*) {
            type Names = [&'static str; $count];
            type Handles = ($(Handle<$T>,)*);

            #[allow(unused_variables, clippy::unused_unit, reason = "of the empty tuple")]
            fn declare(builder: &mut Builder, names: Self::Names) -> Self::Handles {
                ($(builder.input::<$T>(names[$at]),)*)
            }

            fn encode(&self) -> Result<Vec<Encoded>, serde_json::Error> {
                Ok(vec![$(NodeValue::encode(&self.$at)?),*])
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($T: NodeValue),*> IntoInputs<($($T,)*)> for ($($T,)*) {
            fn into_inputs(self) -> Self {
                self
            }
        }
    };
}

all_the_tuples!(inputs, 12);
