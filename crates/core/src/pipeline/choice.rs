//! A choice between parts, by conditions in their order.

use std::sync::Arc;

use super::Pipeline;
use super::pipeline_part::Kind;

/// Parts of which one runs; made by [`Pipeline::when`]. Where no condition holds and nothing is said for that, the run fails.
#[derive(Clone, Debug)]
pub struct Choice(Vec<(Option<Arc<str>>, Pipeline)>);

impl Choice {
    pub(super) fn new(condition: Arc<str>, part: Pipeline) -> Self {
        Self(vec![(Some(condition), part)])
    }

    /// Another part, for when this condition holds and none before it does.
    #[must_use]
    pub fn when(mut self, condition: impl Into<Arc<str>>, part: impl Into<Pipeline>) -> Self {
        self.0.push((Some(condition.into()), part.into()));
        self
    }

    /// The part that runs when no condition holds.
    pub fn otherwise(mut self, part: impl Into<Pipeline>) -> Pipeline {
        self.0.push((None, part.into()));
        self.into()
    }
}

impl From<Choice> for Pipeline {
    fn from(choice: Choice) -> Self {
        Self::of(Kind::Choice(choice.0))
    }
}
