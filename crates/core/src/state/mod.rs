//! State: values that steps store for later steps, under typed keys.
//!
//! [`StateKey`] is the name and type of a value, [`StateOwner`] its owner and lifetime.
//! [`SavedByStep`] contains the changes of a step as recorded with its outcome, [`StateValues`] the
//! state at a point in time. [`StateTransform`] describes a change as data. Code reads and writes
//! state through [`Context`](crate::Context); the run stores it.
#![doc = include_str!("../docs/state.md")]

mod key;
pub(crate) mod reserved;
mod saved;
pub(crate) mod state_codes;
mod state_values;
mod transform;

pub(crate) use self::key::is_name;
pub use self::key::{StateKey, StateKeyError, StateOwner, StateValue};
pub(crate) use self::reserved::{EXIT, MAIL, WITHOUT_OUTPUT, is_of_session, is_reserved};
pub use self::saved::SavedByStep;
pub(crate) use self::saved::{IN_TAP, MOST_SAVED, too_much_in_session, too_much_saved};
pub use self::state_values::StateValues;
pub(crate) use self::transform::invalid_key;
pub use self::transform::{StateMerge, StateTransform, StateTransforms};
