//! Passes a diagnostic through the error of a deserializer, which keeps only a sentence. A
//! deserializer that knows diagnostics takes the data back.

use std::cell::RefCell;

use serde::de::Error;

use super::Diagnostic;

thread_local! {
    static REPORTED: RefCell<Option<Diagnostic>> = const { RefCell::new(None) };
}

/// Creates the error of a `Deserialize` implementation from a diagnostic. The constructor
/// `custom` of the error can call [`take_custom`] to get it as data.
pub fn custom<E: Error>(diagnostic: Diagnostic) -> E {
    let message = diagnostic.message();
    REPORTED.set(Some(diagnostic));
    let error = E::custom(message);
    // An error type that did not take it must not leave it for an unrelated error.
    REPORTED.take();
    error
}

/// Returns the diagnostic of the error that is being created on this thread.
pub fn take_custom() -> Option<Diagnostic> {
    REPORTED.take()
}
