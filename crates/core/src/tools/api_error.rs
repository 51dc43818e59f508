//! `ApiToolError`: all that is wrong with the description of a tool.

use std::fmt;

/// All that is wrong with a tool that is described as data: a sentence for each mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiToolError {
    what: String,
    problems: Vec<String>,
}

impl ApiToolError {
    /// `what` has the mistakes, such as `` the tool `open_issues` ``.
    pub(super) fn new(what: impl Into<String>, problems: Vec<String>) -> Self {
        Self { what: what.into(), problems }
    }

    /// The mistakes, a sentence each.
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
