//! `StepStates`: the state of a run while it is executed. What each step sees and has written, and what those saved that
//! have ended.
//!
//! A run in which nobody touches state has none. It decides nothing about the order of steps: whoever starts a step says
//! what it sees, and whoever ends one says when.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use crate::artifact::ArtifactRef;
use crate::event::{EventKind, RunId, SessionArtifact};
use crate::path::StepPath;
use crate::state::{SavedByStep, is_of_session};
use crate::value::Encoded;

/// The most names of artifacts in a session: each of its runs begins with a list of them.
pub(crate) const MOST_NAMES: usize = 1000;

#[derive(Default)]
pub(crate) struct StepStates {
    /// Of the steps that are running.
    open: HashMap<StepPath, OpenState>,
    /// Those steps that may change nothing.
    taps: HashSet<StepPath>,
    /// What the outcomes of steps hold, by the steps' paths.
    done: HashMap<StepPath, Arc<SavedByStep>>,
    /// The values that outlive the run, as it has read them.
    read: HashMap<Arc<str>, Option<Encoded>>,
    /// The last version of each artifact.
    versions: HashMap<Arc<str>, u32>,
    /// The artifacts that its session had when it began: those of other runs.
    earlier: Arc<[SessionArtifact]>,
    /// The bytes of artifacts by their hash, of a run without a store.
    bytes: HashMap<Arc<str>, Arc<[u8]>>,
}

/// The state of a step that is running.
#[derive(Default)]
struct OpenState {
    /// What the steps before it saved.
    sees: Option<Seen>,
    wrote: Written,
}

/// What the steps before a step saved. It is put together when somebody looks at it: most steps look at none of it, and it
/// grows with the steps that are done.
pub(crate) struct Seen(LazyLock<SavedByStep, Box<dyn FnOnce() -> SavedByStep + Send>>);

impl Seen {
    /// What a function puts together, which gives the same whenever it is called, and asks no [`StepStates`].
    pub(crate) fn of(put_together: impl FnOnce() -> SavedByStep + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(put_together)))
    }
}

/// What a running step wrote itself, and what the calls within it saved, in the order that counts: what comes later is on
/// top.
#[derive(Default)]
struct Written(Vec<(Option<usize>, SavedByStep)>);

impl Written {
    /// What the step writes itself now: on top of what was saved until now.
    fn own(&mut self) -> &mut SavedByStep {
        if self.0.last().is_none_or(|(place, _)| place.is_some()) {
            self.0.push((None, SavedByStep::default()));
        }
        let at = self.0.len() - 1;
        &mut self.0[at].1
    }

    /// What a call saved that was begun at this place: below that of calls which were begun later.
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

    /// About how many bytes are written.
    fn size(&self) -> usize {
        self.parts().map(SavedByStep::size).sum()
    }

    /// All of it as one.
    fn into_saved(self) -> Option<SavedByStep> {
        self.0.into_iter().map(|(_, part)| part).reduce(|mut all, part| {
            all.apply(&part);
            all
        })
    }
}

impl StepStates {
    /// A step begins: it sees this, and what those see and wrote that it is within. What an earlier attempt saved is over.
    pub(crate) fn open(&mut self, step: &StepPath, sees: Option<Seen>) {
        self.done.remove(step);
        match sees {
            Some(_) => drop(self.open.insert(step.clone(), OpenState { sees, wrote: Written::default() })),
            None => drop(self.open.remove(step)),
        }
    }

    /// A step that begins, and all within it, may change nothing.
    pub(crate) fn open_tap(&mut self, step: &StepPath) {
        self.taps.insert(step.clone());
    }

    /// Whether a step may change nothing.
    pub(crate) fn is_in_tap(&self, step: &StepPath) -> bool {
        !self.taps.is_empty() && std::iter::once(step.clone()).chain(step.parents()).any(|at| self.taps.contains(&at))
    }

    /// A further attempt at a step begins.
    pub(crate) fn restart(&mut self, step: &StepPath) {
        if let Some(state) = self.open.get_mut(step) {
            state.wrote = Written::default();
        }
    }

    /// A step changes a key.
    pub(crate) fn change(&mut self, step: &StepPath, key: &str, value: Option<Encoded>) {
        self.open_state(step).wrote.own().change(key, value);
    }

    /// What a running step and those within it wrote under a key counts no longer, as if nobody had written it.
    pub(crate) fn forget(&mut self, step: &StepPath, key: &str) {
        if let Some(state) = self.open.get_mut(step) {
            state.wrote.0.iter_mut().for_each(|(_, part)| part.forget(key));
        }
    }

    /// A step saves an artifact, which gets the next version of its name.
    pub(crate) fn add_artifact(&mut self, step: &StepPath, mut artifact: ArtifactRef) -> ArtifactRef {
        let version = self.versions.entry(Arc::clone(&artifact.name)).or_default();
        *version += 1;
        artifact.version = *version;
        self.open_state(step).wrote.own().add_artifact(artifact.clone());
        artifact
    }

    /// Keeps bytes that no store keeps.
    pub(crate) fn keep_bytes(&mut self, sha256: &Arc<str>, bytes: Arc<[u8]>) {
        self.bytes.entry(Arc::clone(sha256)).or_insert(bytes);
    }

    /// Bytes that no store keeps.
    pub(crate) fn bytes(&self, sha256: &str) -> Option<Arc<[u8]>> {
        self.bytes.get(sha256).cloned()
    }

    /// The artifact of a name that a step sees: of those before it the last one in the plan.
    pub(crate) fn artifact(&self, step: &StepPath, name: &str) -> Option<ArtifactRef> {
        self.seen_by(step).artifacts().iter().rfind(|artifact| *artifact.name == *name).cloned()
    }

    /// The run whose bytes they are, where it is another one of the session.
    pub(crate) fn run_of(&self, artifact: &ArtifactRef) -> Option<RunId> {
        self.earlier.iter().find(|earlier| earlier.artifact == *artifact).map(|earlier| earlier.run.clone())
    }

    /// Whether a session has so many names of artifacts that there may be no further one. A run that is not one of a session
    /// may have as many as it likes.
    pub(crate) fn has_room_for(&self, name: &str) -> bool {
        self.versions.len() < MOST_NAMES || self.versions.contains_key(name)
    }

    /// What a call within a step saved becomes part of what the step writes. Of calls that run side by side the one that
    /// was begun later counts, whichever ends first: `place` is that of its beginning among the records of the run.
    pub(crate) fn apply(&mut self, step: &StepPath, saved: &SavedByStep, place: usize) {
        if !saved.is_empty() {
            self.open_state(step).wrote.of_call(place).apply(saved);
        }
    }

    /// The same of what has ended within a step.
    pub(crate) fn hand_up(&mut self, from: &StepPath, to: &StepPath, place: usize) {
        if let Some(saved) = self.done.get(from).cloned() {
            self.apply(to, &saved, place);
        }
    }

    fn open_state(&mut self, step: &StepPath) -> &mut OpenState {
        self.open.entry(step.clone()).or_default()
    }

    /// What a step sees of a key: nothing, that it is removed, or its value.
    pub(crate) fn find(&self, step: &StepPath, key: &str) -> Option<Option<Encoded>> {
        std::iter::once(step.clone())
            .chain(step.parents())
            .filter_map(|at| self.open.get(&at))
            .find_map(|state| state.wrote.get(key).or_else(|| state.sees.as_ref()?.0.get(key)))
            .map(Option::<&Encoded>::cloned)
    }

    /// What the run has read of a key that outlives it.
    pub(crate) fn was_read(&self, key: &str) -> Option<Option<Encoded>> {
        self.read.get(key).cloned()
    }

    /// The run has read a key that outlives it.
    pub(crate) fn note_read(&mut self, key: Arc<str>, value: Option<Encoded>) {
        self.read.insert(key, value);
    }

    /// All that a step sees.
    pub(crate) fn seen_by(&self, step: &StepPath) -> SavedByStep {
        let around: Vec<StepPath> = std::iter::once(step.clone()).chain(step.parents()).collect();
        let mut seen = SavedByStep::default();
        for state in around.iter().rev().filter_map(|at| self.open.get(at)) {
            state.sees.iter().for_each(|sees| seen.apply(&sees.0));
            state.wrote.parts().for_each(|part| seen.apply(part));
        }
        seen
    }

    /// About how many bytes a running step has written.
    pub(crate) fn size(&self, step: &StepPath) -> usize {
        self.open.get(step).map_or(0, |state| state.wrote.size())
    }

    /// About how many bytes the session would hand to its next run, beside this key, if the run ended with what this step
    /// sees.
    pub(crate) fn size_in_session(&self, step: &StepPath, but: &str) -> usize {
        let counts = |key: &str| key != but && is_of_session(key);
        let seen = self.seen_by(step);
        seen.changes()
            .filter(|(key, _)| counts(key))
            .filter_map(|(key, value)| Some(key.len() + value?.as_str().len() + 8))
            .sum()
    }

    /// What a step saved that has ended.
    pub(crate) fn saved_by(&self, step: &StepPath) -> Option<&Arc<SavedByStep>> {
        self.done.get(step)
    }

    /// A step has ended well: gives what its record holds. `place` is that of a step of the run itself.
    pub(crate) fn end(&mut self, step: &StepPath, place: Option<u64>) -> Option<Arc<SavedByStep>> {
        let wrote = self.open.remove(step)?.wrote.into_saved().filter(|wrote| !wrote.is_empty())?;
        let saved = Arc::new(wrote.at(place));
        let recorded = saved.recorded();
        self.done.insert(step.clone(), saved);
        recorded
    }

    /// A step has ended that saved this and wrote nothing by itself.
    pub(crate) fn end_with(&mut self, step: &StepPath, saved: Arc<SavedByStep>) {
        self.done.insert(step.clone(), saved);
    }

    /// What a step wrote that is executed elsewhere.
    pub(crate) fn take(&mut self, step: &StepPath) -> Option<Arc<SavedByStep>> {
        self.open.remove(step)?.wrote.into_saved().filter(|wrote| !wrote.is_empty()).map(Arc::new)
    }

    /// An attempt at a step has failed: nothing that it wrote counts.
    pub(crate) fn discard(&mut self, step: &StepPath) {
        self.open.remove(step);
    }

    /// Whether a record says something of the state.
    pub(super) fn is_in(kind: &EventKind) -> bool {
        match kind {
            EventKind::StateRead { .. } => true,
            EventKind::RunStarted(started) => started.state.is_some() || !started.artifacts.is_empty(),
            _ => kind.saved().is_some(),
        }
    }

    /// Takes in a record of an earlier life of the run, or its beginning.
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
            self.open(path, Some(Seen::of(|| sees)));
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
