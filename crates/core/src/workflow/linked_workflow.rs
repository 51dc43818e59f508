//! The `#[workflow]` functions that are linked into the program, by name. A plan is built on first
//! use.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::fmt;
use std::sync::Arc;

use super::spec::Spec;
use crate::error::Error;
use crate::linked::{self, ByName};

/// A `#[workflow]` of the program. If several have the same name, using that name is an error.
#[derive(Clone, Copy)]
pub struct LinkedWorkflow {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    spec: fn() -> Result<Arc<Spec>, Unbuilt>,
}

/// Reason why a plan is not available.
#[non_exhaustive]
pub enum Unbuilt {
    /// This thread is building the plan: the workflow calls itself, directly or through others.
    Recursive,
    Wrong(Error),
}

impl LinkedWorkflow {
    pub const fn new(
        name: &'static str,
        (file, line): (&'static str, u32),
        GraphOf(spec): GraphOf,
    ) -> Self {
        Self { name, file, line, spec }
    }

    /// Returns the plan. It is built on first use.
    pub(crate) fn spec(&self) -> Result<Arc<Spec>, Error> {
        (self.spec)().map_err(|unbuilt| unbuilt.error(self.name))
    }
}

impl Unbuilt {
    pub(super) fn error(self, name: &'static str) -> Error {
        match self {
            Self::Wrong(error) => error,
            Self::Recursive => Error::Build {
                what: "workflow",
                name: name.into(),
                problem: "it is being built already".to_owned(),
            },
        }
    }
}

/// Returns the workflows that are linked into the program, by name.
pub(crate) fn linked() -> ByName<LinkedWorkflow> {
    linked::by_name(
        |linked: &LinkedWorkflow| (linked.name, linked.file, linked.line),
        |linked| linked.name,
    )
}

/// Returns the error for two workflows with the same name.
pub(crate) fn two_linked((first, second): &(LinkedWorkflow, LinkedWorkflow)) -> Error {
    let problem = format!(
        "two workflows have this name: at {}:{} and at {}:{}; rename one or give it `#[workflow(name = \"..\")]`",
        first.file, first.line, second.file, second.line
    );
    Error::Build { what: "workflow", name: first.name.into(), problem }
}

/// Function that builds the plan of a workflow.
pub struct GraphOf(pub(super) fn() -> Result<Arc<Spec>, Unbuilt>);

impl fmt::Debug for LinkedWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedWorkflow")
            .field("name", &self.name)
            .field("file", &self.file)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}
