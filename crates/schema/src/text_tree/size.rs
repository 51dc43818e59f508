//! Limits the size of documents, including the values that aliases repeat.

use std::ops::Range;

use super::{Tree, codes};
use crate::diagnostic::Diagnostic;

/// Maximum number of values in a document. An alias counts as all the values that it repeats.
const MOST_VALUES: usize = 200_000;
/// Maximum number of bytes of all strings in a document. Includes field names, the values that
/// aliases repeat, and the copies that are stored for anchors.
const MOST_TEXT: usize = 16 << 20;

/// The size of a part of a document.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) values: usize,
    /// Bytes of strings and field names.
    pub(super) text: usize,
}

impl Size {
    pub(super) fn since(self, before: Self) -> Self {
        Self { values: self.values - before.values, text: self.text - before.text }
    }

    /// Adds the size of another part.
    ///
    /// # Errors
    /// Returns an error if the sum exceeds a limit.
    pub(super) fn add(&mut self, more: Self, at: &Range<usize>) -> Result<(), Diagnostic> {
        self.values = self.values.saturating_add(more.values);
        self.text = self.text.saturating_add(more.text);
        let found = if self.values > MOST_VALUES {
            Diagnostic::new(codes::TOO_MANY_VALUES).number("most", MOST_VALUES)
        } else if self.text > MOST_TEXT {
            Diagnostic::new(codes::TOO_LONG_TEXTS).number("most", MOST_TEXT)
        } else {
            return Ok(());
        };
        Err(found.at(at.clone()))
    }
}

/// The value of an anchor.
pub(super) struct AnchorValue {
    pub(super) tree: Tree,
    pub(super) size: Size,
}
