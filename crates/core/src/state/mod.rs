//! State: values that steps leave for the steps after them, under typed keys.
//!
//! This room is the vocabulary: a key ([`StateKey`]), whose value it names ([`StateOwner`]), what one step saved
//! ([`SavedByStep`]), and changes as data ([`StateTransform`]). It reads and writes nothing; [`Context`](crate::Context) does, and the run keeps it.
#![doc = include_str!("../docs/state.md")]

mod key;
pub(crate) mod reserved;
mod saved;
mod state_values;
mod transform;

pub(crate) use self::key::is_name;
pub use self::key::{StateKey, StateKeyError, StateOwner, StateValue};
pub(crate) use self::reserved::{EXIT, MAIL, WITHOUT_OUTPUT, is_of_session, is_reserved};
pub use self::saved::SavedByStep;
pub(crate) use self::saved::{IN_TAP, MOST_SAVED, too_much_in_session, too_much_saved};
pub use self::state_values::StateValues;
pub use self::transform::{StateMerge, StateTransform, StateTransforms};
