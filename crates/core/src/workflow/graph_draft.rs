//! Checks of graphs that are not complete: a draft that was read in spite of mistakes, or a graph
//! whose callees are not looked up yet.

use super::graph::Graph;
use super::of_graph::Resolve;
use super::spec::Spec;
use agentflow_schema::diagnostic::Diagnostic;

impl Graph {
    /// Builds the plan of a graph that was read in spite of mistakes. Checks only the parts that
    /// were read.
    ///
    /// # Errors
    /// All problems, except those that may be consequences of these mistakes.
    pub(crate) fn to_draft(&self, resolve: Resolve<'_>) -> Result<Spec, Vec<Diagnostic>> {
        self.checked(resolve, true)
    }

    /// Returns the problems of a graph without looking up its callees. For a
    /// draft, as in [`to_draft`](Self::to_draft).
    pub(crate) fn problems_but_names(&self, is_draft: bool) -> Vec<Diagnostic> {
        match self.checked(&|_, _| Err(None), is_draft) {
            Ok(_) => Vec::new(),
            Err(problems) => problems,
        }
    }
}
