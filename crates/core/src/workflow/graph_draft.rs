//! What is known to be wrong with a graph before its names are looked up, or that was read in spite of mistakes. It finds
//! nothing by a name.

use super::graph::Graph;
use super::of_graph::Resolve;
use super::spec::Spec;

impl Graph {
    /// The workflow of a graph that was read in spite of mistakes, as far as it can be checked.
    ///
    /// # Errors
    /// All problems but those that may follow from these mistakes, a line each.
    pub(crate) fn to_draft(&self, resolve: Resolve<'_>) -> Result<Spec, String> {
        self.checked(resolve, true)
    }

    /// What is wrong with it whatever its names refer to.
    ///
    /// # Errors
    /// All problems, a line each; of a draft as [`to_draft`](Self::to_draft).
    pub(crate) fn problems_but_names(&self, is_draft: bool) -> Result<(), String> {
        // A callee without a sentence is not found, and nothing is said about it.
        let problems = match self.checked(&|_, _| Err(String::new()), is_draft) {
            Ok(_) => return Ok(()),
            Err(problems) => problems,
        };
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}
