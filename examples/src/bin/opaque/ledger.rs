//! External code: a ledger that does not depend on agentflow. It stores one entry per key, and
//! loses the response to its first call after the entry is booked.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};

/// Clones share the ledger.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    entries: BTreeMap<String, String>,
    calls: usize,
}

impl Ledger {
    pub(crate) fn book(&self, key: &str, text: &str) -> io::Result<String> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        books.calls += 1;
        books.entries.insert(key.to_owned(), text.to_owned());
        match books.calls {
            1 => Err(io::Error::new(ErrorKind::ConnectionReset, "the answer was lost")),
            _ => Ok(format!("booked: {text}")),
        }
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).calls
    }

    pub(crate) fn entries(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entries.len()
    }
}
