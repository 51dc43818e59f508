//! `ApiToolError`: all mistakes in the description of a tool.

use std::fmt;

/// All mistakes in a tool that is described as data, with one message for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiToolError {
    what: String,
    problems: Vec<String>,
}

impl ApiToolError {
    /// Creates an error. `what` names the tool, for example `` the tool `open_issues` ``.
    pub(crate) fn new(what: impl Into<String>, problems: Vec<String>) -> Self {
        Self { what: what.into(), problems }
    }

    /// Returns one message for each mistake.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for ApiToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, problems } = self;
        match &problems[..] {
            [one] => write!(f, "{what} cannot be made: {one}"),
            several => {
                write!(f, "{what} cannot be made, for {} reasons:", several.len())?;
                several.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
            }
        }
    }
}

impl std::error::Error for ApiToolError {}
