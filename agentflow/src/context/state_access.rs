//! The state as a step reads and writes it. What it sees is decided by whoever started the step.

use super::Context;
use crate::error::{Error, Result};
use crate::state::StateKey;
use crate::value::NodeValue;

/// The most bytes that one step may write: they are part of one record.
const MOST: usize = 1 << 20;

impl Context {
    /// The value of a key of the state; `None` when it has none. See [`state`](crate::state) for which values a step sees:
    /// what the steps before it saved, and what it has written itself.
    ///
    /// Asked again in a further attempt at the step, in this process or after a crash, it gives the same. Dropping the
    /// future changes nothing.
    ///
    /// # Errors
    /// [`Error::State`] when the value is not of the key's type, which another version of the program may have set.
    #[expect(clippy::unused_async, reason = "the values of other owners are in the store")]
    pub async fn state<T: NodeValue>(&self, key: &StateKey<T>) -> Result<Option<T>> {
        let text = key.to_string();
        let found = self.run.states().and_then(|states| states.find(&self.path, &text));
        let value = found.flatten();
        let read = value.as_ref().map(T::decode).transpose();
        read.map_err(|error| Error::State {
            problem: format!("the value is not of the type `{}`: {error}; set it anew", std::any::type_name::<T>()),
            key: text,
        })
    }

    /// Sets a key of the state. This step sees the value at once, what it calls sees it too, and the steps after it see it
    /// when this one has completed: it is part of the record of the step's outcome. When the step fails, nothing was set.
    ///
    /// # Errors
    /// [`Error::State`] when the value has no JSON form that gives it back, when the step has written more than 1 MiB of
    /// state, and in a condition, which saves nothing. Nothing was set then.
    pub fn set<T: NodeValue>(&self, key: &StateKey<T>, value: &T) -> Result<()> {
        let text = key.to_string();
        let encoded = match value.encode() {
            Ok(encoded) => encoded,
            Err(error) => {
                let problem = format!("the value does not survive its way through JSON: {error}");
                return Err(Error::State { key: text, problem });
            }
        };
        let text = self.writable(text)?;
        let mut states = self.run.states_or_new();
        let size = states.size(&self.path).saturating_add(text.len()).saturating_add(encoded.as_str().len());
        if size > MOST {
            let problem = format!(
                "with this value the step would have written {size} bytes of state, more than the {MOST} that one step may \
                 write; keep the data where it belongs and set where it is"
            );
            return Err(Error::State { key: text, problem });
        }
        states.change(&self.path, &text, Some(encoded));
        Ok(())
    }

    /// Removes a key of the state: who reads it after that gets `None`, although a step before set it. A key without a
    /// value may be removed. It is seen and recorded as what [`set`](Self::set) sets.
    ///
    /// # Errors
    /// [`Error::State`] in a condition, which saves nothing.
    pub fn remove<T>(&self, key: &StateKey<T>) -> Result<()> {
        let text = self.writable(key.to_string())?;
        self.run.states_or_new().change(&self.path, &text, None);
        Ok(())
    }

    /// The key, where state may be written.
    fn writable(&self, key: String) -> Result<String> {
        match self.of_value {
            false => Ok(key),
            true => {
                let problem =
                    "a condition or a value saves nothing; write it in a step, such as `let _ = function(cx);`";
                Err(Error::State { key, problem: problem.to_owned() })
            }
        }
    }
}
