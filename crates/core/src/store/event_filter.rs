//! [`EventFilter`]: the selection of events of a run by their paths.

use crate::event::Event;
use crate::path::StepPath;

/// Selects the events of some steps of a run. A filter without steps selects all events.
///
/// ```
/// use agentflow::path::StepPath;
/// use agentflow::store::EventFilter;
///
/// let review: StepPath = "review".parse().unwrap();
/// let filter = EventFilter::new().step(review).at(StepPath::root());
/// assert!(filter.admits_path(&"review/tool#1.search".parse().unwrap()));
/// assert!(filter.admits_path(&StepPath::root()));
/// assert!(!filter.admits_path(&"review_2".parse().unwrap()));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventFilter {
    steps: Vec<StepPath>,
    at: Vec<StepPath>,
}

impl EventFilter {
    /// Creates a filter that selects all events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the events of a step: those whose path [belongs to](StepPath::belongs_to) its path.
    /// Several steps are alternatives.
    #[must_use]
    pub fn step(mut self, step: StepPath) -> Self {
        self.steps.push(step);
        self
    }

    /// Selects the events with exactly this path. The root is the path of the events of the run
    /// itself, such as `run.paused`.
    #[must_use]
    pub fn at(mut self, path: StepPath) -> Self {
        self.at.push(path);
        self
    }

    /// Steps whose events are selected, with the events below them.
    pub fn get_steps(&self) -> &[StepPath] {
        &self.steps
    }

    /// Paths whose events are selected, without the events below them.
    pub fn get_at(&self) -> &[StepPath] {
        &self.at
    }

    /// Returns `true` if the filter selects all events.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty() && self.steps.iter().all(StepPath::is_root)
    }

    /// Returns `true` if the filter selects an event.
    pub fn admits(&self, event: &Event) -> bool {
        self.admits_path(&event.path)
    }

    /// Returns `true` if the filter selects the events with this path.
    pub fn admits_path(&self, path: &StepPath) -> bool {
        self.is_empty()
            || self.at.contains(path)
            || self.steps.iter().any(|step| path.belongs_to(step))
    }
}
