//! [`Choice`]: selects one of several parts by ordered conditions.

use std::sync::Arc;

use super::Pipeline;
use super::pipeline_part::Kind;

/// Alternative parts with conditions; created by [`Pipeline::when`]. The first part whose condition
/// holds runs. If no condition holds and [`otherwise`](Self::otherwise) is not set, the run fails.
///
/// ```
/// use agentflow::pipeline::Pipeline;
///
/// let (quick, long) = (Pipeline::tool("quick_answer"), Pipeline::tool("long_answer"));
/// let choice = Pipeline::when("size(input.text) < 80", quick).otherwise(long);
/// # drop(choice);
/// ```
#[derive(Clone, Debug)]
pub struct Choice(Vec<(Option<Arc<str>>, Pipeline)>);

impl Choice {
    pub(super) fn new(condition: Arc<str>, part: Pipeline) -> Self {
        Self(vec![(Some(condition), part)])
    }

    /// Adds a part that runs if this condition holds and no earlier condition does.
    #[must_use]
    pub fn when(mut self, condition: impl Into<Arc<str>>, part: impl Into<Pipeline>) -> Self {
        self.0.push((Some(condition.into()), part.into()));
        self
    }

    /// Sets the part that runs if no condition holds.
    pub fn otherwise(mut self, part: impl Into<Pipeline>) -> Pipeline {
        self.0.push((None, part.into()));
        self.into()
    }
}

impl From<Choice> for Pipeline {
    fn from(choice: Choice) -> Self {
        Self::from_kind(Kind::Choice(choice.0))
    }
}
