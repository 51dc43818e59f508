//! `StepStates`: the state of a run while it is executed. Holds the values that each running step
//! sees and wrote, and the values that completed steps saved.
//!
//! It is created only when a step accesses state. The driver of the steps decides about their
//! order: it passes the values that a step sees when the step starts, and reports when the step
//! ends.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use crate::artifact::ArtifactRef;
use crate::event::{EventKind, RunId, SessionArtifact};
use crate::path::StepPath;
use crate::state::{SavedByStep, is_of_session};
use crate::value::Encoded;

/// Maximum number of artifact names in a session. Each run of the session starts with a list of
/// them.
pub(crate) const MOST_NAMES: usize = 1000;

#[derive(Default)]
pub(crate) struct StepStates {
    /// State of the running steps.
    open: HashMap<StepPath, OpenState>,
    /// Running steps that must not change state.
    taps: HashSet<StepPath>,
    /// Saved values of completed steps, by path.
    done: HashMap<StepPath, Arc<SavedByStep>>,
    /// Values that outlive the run, as the run has read them.
    read: HashMap<Arc<str>, Option<Encoded>>,
    /// Last version of each artifact.
    versions: HashMap<Arc<str>, u32>,
    /// Artifacts of earlier runs of the session.
    earlier: Arc<[SessionArtifact]>,
    /// Bytes of artifacts by their hash, for a run without a store.
    bytes: HashMap<Arc<str>, Arc<[u8]>>,
}

/// State of a running step.
#[derive(Default)]
struct OpenState {
    /// Values saved by the steps before it.
    sees: Option<Seen>,
    wrote: StepWrites,
}

/// The values that the steps before a step saved. They are merged on first access: most steps
/// access none of them, and the cost grows with the number of completed steps.
pub(crate) struct Seen(LazyLock<SavedByStep, Box<dyn FnOnce() -> SavedByStep + Send>>);

impl Seen {
    /// Creates the values from a function, which is called at most once. It must be deterministic
    /// and must not access [`StepStates`].
    pub(crate) fn lazy(put_together: impl FnOnce() -> SavedByStep + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(put_together)))
    }
}

/// The values that a running step wrote itself and that calls within it saved, in order of
/// precedence: later entries override earlier ones.
#[derive(Default)]
struct StepWrites(Vec<(Option<usize>, SavedByStep)>);

impl StepWrites {
    /// Returns the entry for the step's own writes, on top of all values so far.
    fn own(&mut self) -> &mut SavedByStep {
        if self.0.last().is_none_or(|(place, _)| place.is_some()) {
            self.0.push((None, SavedByStep::default()));
        }
        let at = self.0.len() - 1;
        &mut self.0[at].1
    }

    /// Returns the entry for a call that started at `place`, below the entries of calls that
    /// started later.
    fn of_call(&mut self, place: usize) -> &mut SavedByStep {
        let later = self.0.iter().position(|(of, _)| of.is_some_and(|of| of >= place));
        let at = later.unwrap_or(self.0.len());
        if self.0.get(at).is_none_or(|(of, _)| *of != Some(place)) {
            self.0.insert(at, (Some(place), SavedByStep::default()));
        }
        &mut self.0[at].1
    }

    fn parts(&self) -> impl DoubleEndedIterator<Item = &SavedByStep> {
        self.0.iter().map(|(_, part)| part)
    }

    fn get(&self, key: &str) -> Option<Option<&Encoded>> {
        self.parts().rev().find_map(|part| part.get(key))
    }

    /// Returns the approximate size in bytes.
    fn size(&self) -> usize {
        self.parts().map(SavedByStep::size).sum()
    }

    /// Merges all entries.
    fn into_saved(self) -> Option<SavedByStep> {
        self.0.into_iter().map(|(_, part)| part).reduce(|mut all, part| {
            all.apply(&part);
            all
        })
    }
}

impl StepStates {
    /// Starts a step. The step sees `sees`, and the values of the steps that contain it. Values of
    /// an earlier attempt are removed.
    pub(crate) fn open(&mut self, step: &StepPath, sees: Option<Seen>) {
        self.done.remove(step);
        match sees {
            Some(_) => {
                self.open.insert(step.clone(), OpenState { sees, wrote: StepWrites::default() });
            }
            None => drop(self.open.remove(step)),
        }
    }

    /// Starts a step that must not change state. The same applies to all steps within it.
    pub(crate) fn open_read_only(&mut self, step: &StepPath) {
        self.taps.insert(step.clone());
    }

    /// Returns `true` if a step must not change state.
    pub(crate) fn is_in_tap(&self, step: &StepPath) -> bool {
        !self.taps.is_empty()
            && std::iter::once(step.clone()).chain(step.parents()).any(|at| self.taps.contains(&at))
    }

    /// Starts another attempt at a step.
    pub(crate) fn restart(&mut self, step: &StepPath) {
        if let Some(state) = self.open.get_mut(step) {
            state.wrote = StepWrites::default();
        }
    }

    /// Changes a key.
    pub(crate) fn change(&mut self, step: &StepPath, key: &str, value: Option<Encoded>) {
        self.open_state(step).wrote.own().change(key, value);
    }

    /// Removes the writes of a running step, and of the calls within it, to a key.
    pub(crate) fn forget(&mut self, step: &StepPath, key: &str) {
        if let Some(state) = self.open.get_mut(step) {
            state.wrote.0.iter_mut().for_each(|(_, part)| part.forget(key));
        }
    }

    /// Adds an artifact, and assigns the next version of its name.
    pub(crate) fn add_artifact(
        &mut self,
        step: &StepPath,
        mut artifact: ArtifactRef,
    ) -> ArtifactRef {
        let version = self.versions.entry(Arc::clone(&artifact.name)).or_default();
        *version += 1;
        artifact.version = *version;
        self.open_state(step).wrote.own().add_artifact(artifact.clone());
        artifact
    }

    /// Stores the bytes of an artifact in memory, for a run without a store.
    pub(crate) fn keep_bytes(&mut self, sha256: &Arc<str>, bytes: Arc<[u8]>) {
        self.bytes.entry(Arc::clone(sha256)).or_insert(bytes);
    }

    /// Returns the bytes of an artifact stored in memory.
    pub(crate) fn bytes(&self, sha256: &str) -> Option<Arc<[u8]>> {
        self.bytes.get(sha256).cloned()
    }

    /// Returns the artifact of a name that a step sees. Of several, the last one in the order of
    /// the plan.
    pub(crate) fn artifact(&self, step: &StepPath, name: &str) -> Option<ArtifactRef> {
        self.seen_by(step).artifacts().iter().rfind(|artifact| *artifact.name == *name).cloned()
    }

    /// Returns the earlier run of the session that saved an artifact; `None` if it belongs to this
    /// run.
    pub(crate) fn run_of(&self, artifact: &ArtifactRef) -> Option<RunId> {
        self.earlier
            .iter()
            .find(|earlier| earlier.artifact == *artifact)
            .map(|earlier| earlier.run.clone())
    }

    /// Returns `true` if an artifact with this name may be saved: the name is known, or the number
    /// of names is below the limit. The caller applies the limit only to runs of a session.
    pub(crate) fn has_room_for(&self, name: &str) -> bool {
        self.versions.len() < MOST_NAMES || self.versions.contains_key(name)
    }

    /// Merges the values that a call within a step saved into the values of the step. `place` is
    /// the position at which the call started among the records of the run. Among concurrent calls,
    /// the last to start takes precedence, independent of the order in which they end.
    pub(crate) fn apply(&mut self, step: &StepPath, saved: &SavedByStep, place: usize) {
        if !saved.is_empty() {
            self.open_state(step).wrote.of_call(place).apply(saved);
        }
    }

    /// Merges the saved values of a completed step into the step that contains it.
    pub(crate) fn merge_into_parent(&mut self, from: &StepPath, to: &StepPath, place: usize) {
        if let Some(saved) = self.done.get(from).cloned() {
            self.apply(to, &saved, place);
        }
    }

    fn open_state(&mut self, step: &StepPath) -> &mut OpenState {
        self.open.entry(step.clone()).or_default()
    }

    /// Returns the value of a key as a step sees it: `None` if it was not changed, `Some(None)` if
    /// it was removed.
    pub(crate) fn find(&self, step: &StepPath, key: &str) -> Option<Option<Encoded>> {
        std::iter::once(step.clone())
            .chain(step.parents())
            .filter_map(|at| self.open.get(&at))
            // Inner steps take precedence, and a step's own writes precede the values it sees.
            .find_map(|state| state.wrote.get(key).or_else(|| state.sees.as_ref()?.0.get(key)))
            .map(Option::<&Encoded>::cloned)
    }

    /// Returns the value that the run has read for a key that outlives it.
    pub(crate) fn was_read(&self, key: &str) -> Option<Option<Encoded>> {
        self.read.get(key).cloned()
    }

    /// Notes the value that the run has read for a key that outlives it.
    pub(crate) fn note_read(&mut self, key: Arc<str>, value: Option<Encoded>) {
        self.read.insert(key, value);
    }

    /// Returns all values that a step sees.
    pub(crate) fn seen_by(&self, step: &StepPath) -> SavedByStep {
        let around: Vec<StepPath> = std::iter::once(step.clone()).chain(step.parents()).collect();
        let mut seen = SavedByStep::default();
        // Outermost first, so that values of inner steps override it.
        for state in around.iter().rev().filter_map(|at| self.open.get(at)) {
            state.sees.iter().for_each(|sees| seen.apply(&sees.0));
            state.wrote.parts().for_each(|part| seen.apply(part));
        }
        seen
    }

    /// Returns the approximate size of the values that a running step wrote, in bytes.
    pub(crate) fn size(&self, step: &StepPath) -> usize {
        self.open.get(step).map_or(0, |state| state.wrote.size())
    }

    /// Returns the approximate size, in bytes, of the state that the session would pass to its next
    /// run if the run ended with the values that this step sees. Excludes the key `but`.
    pub(crate) fn size_in_session(&self, step: &StepPath, but: &str) -> usize {
        let counts = |key: &str| key != but && is_of_session(key);
        let seen = self.seen_by(step);
        seen.changes()
            .filter(|(key, _)| counts(key))
            .filter_map(|(key, value)| Some(key.len() + value?.as_str().len() + 8))
            .sum()
    }

    /// Returns the saved values of a completed step.
    pub(crate) fn saved_by(&self, step: &StepPath) -> Option<&Arc<SavedByStep>> {
        self.done.get(step)
    }

    /// Ends a step that completed. Returns the values for its record. `place` is the position in
    /// the plan of a step of the run itself.
    pub(crate) fn end(&mut self, step: &StepPath, place: Option<u64>) -> Option<Arc<SavedByStep>> {
        let wrote = self.open.remove(step)?.wrote.into_saved().filter(|wrote| !wrote.is_empty())?;
        let saved = Arc::new(wrote.at(place));
        let recorded = saved.recorded();
        self.done.insert(step.clone(), saved);
        recorded
    }

    /// Ends a step that wrote no values itself, with the values it saved.
    pub(crate) fn end_with(&mut self, step: &StepPath, saved: Arc<SavedByStep>) {
        self.done.insert(step.clone(), saved);
    }

    /// Takes the values that a remotely executed step wrote.
    pub(crate) fn take(&mut self, step: &StepPath) -> Option<Arc<SavedByStep>> {
        self.open.remove(step)?.wrote.into_saved().filter(|wrote| !wrote.is_empty()).map(Arc::new)
    }

    /// Drops the values of a failed attempt at a step.
    pub(crate) fn discard(&mut self, step: &StepPath) {
        self.open.remove(step);
    }

    /// Returns `true` if a record contains state.
    pub(super) fn is_in(kind: &EventKind) -> bool {
        match kind {
            EventKind::StateRead { .. } => true,
            EventKind::RunStarted(started) => {
                started.state.is_some() || !started.artifacts.is_empty()
            }
            _ => kind.saved().is_some(),
        }
    }

    /// Applies a record from before a resume, or the start of the run.
    pub(super) fn restore(&mut self, path: &StepPath, kind: &EventKind) {
        if let EventKind::StateRead { key, value } = kind {
            self.note_read(Arc::clone(key), value.clone());
        }
        if let EventKind::RunStarted(started) = kind
            && Self::is_in(kind)
        {
            let mut sees = started.state.as_ref().map(|state| state.as_saved()).unwrap_or_default();
            for SessionArtifact { artifact, .. } in &*started.artifacts {
                self.versions.insert(Arc::clone(&artifact.name), artifact.version);
                sees.add_artifact(artifact.clone());
            }
            self.earlier = Arc::clone(&started.artifacts);
            // Opened at the root, the initial state is visible to all steps.
            self.open(path, Some(Seen::lazy(|| sees)));
        }
        if let Some(saved) = kind.saved() {
            for ArtifactRef { name, version, .. } in saved.artifacts() {
                let last = self.versions.entry(Arc::clone(name)).or_default();
                *last = (*last).max(*version);
            }
            self.done.insert(path.clone(), Arc::clone(saved));
        }
    }
}
