//! Checks of graphs that are not complete: a draft that was read in spite of mistakes, or a graph
//! whose callees are not looked up yet.

use super::graph::Graph;
use super::of_graph::Resolve;
use super::spec::Spec;

impl Graph {
    /// Builds the plan of a graph that was read in spite of mistakes. Checks only the parts that
    /// were read.
    ///
    /// # Errors
    /// All problems, one per line, except those that may be consequences of these mistakes.
    pub(crate) fn to_draft(&self, resolve: Resolve<'_>) -> Result<Spec, String> {
        self.checked(resolve, true)
    }

    /// Checks a graph without looking up its callees.
    ///
    /// # Errors
    /// All problems, one per line. For a draft, as in [`to_draft`](Self::to_draft).
    pub(crate) fn problems_but_names(&self, is_draft: bool) -> Result<(), String> {
        // An empty error marks a callee as unknown, which is not reported.
        let problems = match self.checked(&|_, _| Err(String::new()), is_draft) {
            Ok(_) => return Ok(()),
            Err(problems) => problems,
        };
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}
