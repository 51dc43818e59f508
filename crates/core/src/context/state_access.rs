//! Reading and writing the state in a step. `StepStates` of the run decides which values a step
//! sees.

use std::sync::Arc;

use super::Context;
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::future::BoxFuture;
use crate::path::StepPath;
use crate::run::StepStates;
use crate::state::{
    EXIT, IN_TAP, MOST_SAVED, SavedByStep, StateKey, StateOwner, StateTransform, StateTransforms,
    StateValue, too_much_in_session, too_much_saved,
};
use crate::store::Store;
use crate::value::Encoded;

impl Context {
    /// Returns the value of a key of the state; `None` if the key has no value. A step sees the
    /// values that earlier steps saved and its own; see [`state`](crate::state).
    ///
    /// A later attempt at the step returns the same value, in this process or after a crash.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    /// - [`Error::State`] if the value does not have the type of the key, since another version of
    ///   the program may have set it, and for a `user:` or `app:` key in the cases listed at
    ///   [`set`](Self::set).
    /// - [`Error::Store`] if the store cannot be read.
    pub fn state<T: StateValue>(&self, key: &StateKey<T>) -> BoxFuture<'_, Result<Option<T>>> {
        // Returning a boxed future instead of `impl Future` makes the compiler report a wrong type
        // once instead of three times.
        let (owner, text) = (key.owner(), key.to_string());
        Box::pin(async move {
            let found = self.run.states().and_then(|states| states.find(&self.path, &text));
            let value = match found {
                Some(value) => value,
                None if owner.outlives_runs() => self.read_lasting(owner, &text).await?,
                None => None,
            };
            let read = value.as_ref().map(T::decode).transpose();
            read.map_err(|error| {
                let of = std::any::type_name::<T>();
                let problem = format!(
                    "the value is not of the type `{of}`: {error}; keys of one name have one type, so rename one, or set it anew"
                );
                Error::State { problem, key: text }
            })
        })
    }

    /// Sets a key of the state. This step and its nested calls see the value immediately. Later
    /// steps see it when this step has completed, since the value is part of the record of the
    /// step's outcome. If the step fails, the value is discarded.
    ///
    /// # Errors
    /// [`Error::State`], without setting the value:
    ///
    /// - for a `user:` key in a run without a caller;
    /// - for a `user:` or `app:` key in a run without a store, or whose store does not support
    ///   state, and in a step that is executed in another process;
    /// - if the value cannot be encoded as JSON without loss;
    /// - if the step has written more than 1 MiB of state, or its session would have more than
    ///   that;
    /// - in a condition or a tap, which save nothing.
    pub fn set<T: StateValue>(&self, key: &StateKey<T>, value: &T) -> Result<()> {
        let text = key.to_string();
        match value.encode() {
            Ok(encoded) => self.set_encoded(text, encoded),
            Err(error) => {
                let problem = format!("the value does not survive its way through JSON: {error}");
                Err(Error::State { key: text, problem })
            }
        }
    }

    /// Sets a key by its text form.
    pub(crate) fn set_encoded(&self, key: String, value: Encoded) -> Result<()> {
        let owner = StateOwner::split(&key).0;
        let key = self.writable(owner, key)?;
        let mut states = self.run.states_or_new();
        let key = self.with_room(&states, key, &value)?;
        if owner == StateOwner::Session && self.session().is_some() {
            // 8 bytes for the quotes, the colon and the comma around an entry in JSON.
            let size =
                states.size_in_session(&self.path, &key) + key.len() + value.as_str().len() + 8;
            if size > MOST_SAVED {
                return Err(Error::State { key, problem: too_much_in_session(size) });
            }
        }
        states.change(&self.path, &key, Some(value));
        Ok(())
    }

    /// Returns all state that the step sees, without the values that outlive the run.
    pub(crate) fn seen_state(&self) -> SavedByStep {
        self.run.states().map(|states| states.seen_by(&self.path)).unwrap_or_default()
    }

    /// Returns all state that the step sees, including these keys of values that outlive the run.
    pub(crate) async fn seen_state_with(&self, keys: &[String]) -> Result<SavedByStep> {
        let mut seen = self.seen_state();
        for key in keys {
            if seen.get(key).is_none() {
                let value = self.read_lasting(StateOwner::split(key).0, key).await?;
                value.into_iter().for_each(|value| seen.change(key, Some(value)));
            }
        }
        Ok(seen)
    }

    /// Removes a key of the state. Later readers get `None`, even if an earlier step set the key.
    /// Removing a key without a value is allowed. The removal becomes visible and is recorded like
    /// a value of [`set`](Self::set).
    ///
    /// # Errors
    /// [`Error::State`] in a condition or a tap, which save nothing.
    pub fn remove<T>(&self, key: &StateKey<T>) -> Result<()> {
        self.remove_key(key.owner(), key.to_string())
    }

    fn remove_key(&self, owner: StateOwner, key: String) -> Result<()> {
        let key = self.writable(owner, key)?;
        self.run.states_or_new().change(&self.path, &key, None);
        Ok(())
    }

    /// Applies one or several changes that are described as data: they keep, remove, merge and move
    /// keys, and format strings from them. The changes become visible and are recorded like those
    /// of [`set`](Self::set) and [`remove`](Self::remove).
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::state::StateTransform;
    ///
    /// async fn hand_over(cx: &Context) -> Result<()> {
    ///     cx.transform(&[
    ///         StateTransform::merge(["law", "market"], "notes"),
    ///         StateTransform::pick(["notes", "tone"]),
    ///         StateTransform::default_value("tone", "dry"),
    ///     ])
    ///     .await
    /// }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, none or some of the changes are applied. A dropped step never
    /// saves its changes.
    ///
    /// # Errors
    /// [`Error::State`] in the cases listed at [`set`](Self::set), if values cannot be merged, if a
    /// string cannot be formatted, and if a name is not a valid key. Some keys may have been
    /// changed then; usually the step fails with the error, which discards them.
    pub fn transform(&self, transforms: impl StateTransforms) -> BoxFuture<'_, Result<()>> {
        let transforms = transforms.into_transforms();
        Box::pin(async move { self.transformed(&transforms).await.map(drop) })
    }

    /// Applies the changes and returns the keys that were set.
    pub(crate) async fn transformed(
        &self,
        transforms: &[StateTransform],
    ) -> Result<Vec<(String, Encoded)>> {
        let seen = self.seen_state_with(&StateTransform::lasting_keys(transforms)).await?;
        let changes = StateTransform::changes(transforms, seen)
            .map_err(|(key, problem)| Error::State { key, problem: problem.message() })?;
        // Removals first, since they free room for the new values.
        let (set, removed): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(_, value)| value.is_some());
        for (key, _) in removed {
            self.remove_key(StateOwner::split(&key).0, key)?;
        }
        let set = set.into_iter().filter_map(|(key, value)| Some((key, value?)));
        set.map(|(key, value)| self.set_encoded(key.clone(), value.clone()).map(|()| (key, value)))
            .collect()
    }

    /// Ends the innermost repetition around this step after the current round, regardless of its
    /// `until` condition. A repetition is `repeat!` or the repetition node of a graph; `for` and
    /// `map!` always process their whole list.
    ///
    /// The request is part of the state that the step saves: a step that fails or is retried has
    /// not made it, and it is still valid after a crash. Outside of a repetition the call has no
    /// effect.
    ///
    /// The tool [`exit_loop`](crate::exit_loop) calls it for a model.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// async fn halve(cx: &Context, number: u32) -> Result<u32> {
    ///     if number < 20 {
    ///         cx.exit_loop()?;
    ///     }
    ///     Ok(number / 2)
    /// }
    ///
    /// #[workflow]
    /// async fn small(cx: &Context, number: u32) -> Result<u32> {
    ///     let number = repeat!(number, |number| halve(cx, number), max = 100).await?;
    ///     Ok(number)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// assert_eq!(small(&Runtime::builder().build().context(), 64).await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::State`] in a condition or a tap, which save nothing.
    #[doc(alias = "escalate")]
    pub fn exit_loop(&self) -> Result<()> {
        let key = self.writable(StateOwner::Session, EXIT.to_owned())?;
        self.run.states_or_new().change(&self.path, &key, Some(Encoded::null()));
        Ok(())
    }

    /// Returns the key if the step has room for the value.
    pub(super) fn with_room(
        &self,
        states: &StepStates,
        key: String,
        value: &Encoded,
    ) -> Result<String> {
        let size =
            states.size(&self.path).saturating_add(key.len()).saturating_add(value.as_str().len());
        match size > MOST_SAVED {
            true => Err(Error::State {
                key,
                problem: format!("with this value {}", too_much_saved(size)),
            }),
            false => Ok(key),
        }
    }

    /// Returns the reason why nothing is saved here, if that is the case.
    pub(super) fn saves_nothing(&self) -> Option<&'static str> {
        let in_tap = || self.run.states().is_some_and(|states| states.is_in_tap(&self.path));
        match self.of_value {
            true => Some(
                "a condition or a value saves nothing; write it in a step, such as `let _ = function(cx);`",
            ),
            false => in_tap().then_some(IN_TAP),
        }
    }

    /// Returns the key if the state can be written here.
    pub(super) fn writable(&self, owner: StateOwner, key: String) -> Result<String> {
        match self.saves_nothing() {
            None if owner.outlives_runs() => self.place_of(owner, &key).map(|_| key),
            None => Ok(key),
            Some(why) => Err(Error::State { key, problem: why.to_owned() }),
        }
    }

    /// Returns the store, and the user if any, of a value that outlives the run.
    fn place_of(&self, owner: StateOwner, key: &str) -> Result<(Arc<dyn Store>, Option<&str>)> {
        let problem =
            |problem: &str| Error::State { key: key.to_owned(), problem: problem.to_owned() };
        let user = match (owner, self.caller().map(Caller::name)) {
            (StateOwner::User, None) => {
                return Err(problem(
                    "the run has no caller whose value it is; begin the run with `caller(..)`",
                ));
            }
            (StateOwner::User, caller) => caller,
            _ => None,
        };
        match self.run.log.store() {
            Some((store, _)) if store.state().is_some() && self.in_run => {
                Ok((Arc::clone(store), user))
            }
            Some(_) if self.run.log.is_of_remote_run() => Err(problem(
                "the runtime's executor executes this step in another process, which keeps no values that outlive runs; read \
                 and write the value in a step of a runtime without an executor",
            )),
            Some(_) => Err(problem(
                "the run's store keeps no values that outlive runs; give the runtime a store that does",
            )),
            None => Err(problem(
                "a value that outlives the run is kept in a store, and this run has no store; give one with \
                 `Runtime::builder().store(..)`, in a test `MemoryStore::new()`",
            )),
        }
    }

    /// Reads a key that outlives the run. The first value that the run reads is recorded, so that a
    /// step that runs again reads the same value.
    async fn read_lasting(&self, owner: StateOwner, key: &str) -> Result<Option<Encoded>> {
        let (store, user) = self.place_of(owner, key)?;
        if let Some(read) = self.run.states().and_then(|states| states.was_read(key)) {
            return Ok(read);
        }
        let found =
            store.require_state()?.read_state(user, Some(key)).await?.pop().map(|(_, value)| value);
        {
            // Another step may have read the value concurrently. The value that was recorded first
            // is used.
            let mut states = self.run.states_or_new();
            if let Some(read) = states.was_read(key) {
                return Ok(read);
            }
            states.note_read(key.into(), found.clone());
            self.run.record(
                StepPath::root(),
                EventKind::StateRead { key: key.into(), value: found.clone() },
            );
        }
        // The value is returned after it was recorded, so that every later attempt reads the same
        // value.
        self.run.log.commit().await?;
        Ok(found)
    }
}
