//! The state key under which an agent's answer is saved, and its validation. `saved_answer.rs`
//! saves the answer.

use std::sync::Arc;

use crate::state::StateKey;

/// State key for an agent's answer.
#[derive(Clone, Debug)]
pub struct OutputKey {
    pub(super) key: Arc<str>,
    is_lasting: bool,
    /// Name of the Rust type of its values.
    of: &'static str,
}

impl OutputKey {
    pub(super) fn new<O>(key: &StateKey<O>) -> Self {
        let is_lasting = key.owner().outlives_runs();
        Self { key: key.to_string().into(), is_lasting, of: std::any::type_name::<O>() }
    }

    /// Returns an error message if an agent with the answer type `O` cannot use the key.
    pub(super) fn problem<O>(&self) -> Option<String> {
        let (key, of, answer) = (&self.key, self.of, std::any::type_name::<O>());
        match self.is_lasting {
            true => Some(format!(
                "its answer is saved for its run or its session, and `{key}` outlives both; set that key in a tool"
            )),
            false if of != answer => Some(format!(
                "the output key `{key}` is of the type `{of}` and the answer of the type `{answer}`; give a key of the answer's \
                 type"
            )),
            false => None,
        }
    }
}
