//! Writes the fields of a request after its encoded pieces. It does not depend on particular
//! fields.

use agentflow_core::model::{ModelError, ModelErrorKind};
use serde::Serialize;
use serde_json::{Map, Value};

/// Writes a JSON object whose first field is already written.
pub(crate) struct Fields<'a> {
    out: Vec<u8>,
    extra: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(out: Vec<u8>, extra: &'a Map<String, Value>) -> Self {
        Self { out, extra }
    }

    /// Writes a field, unless the host sets it in `extra`.
    pub(crate) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        if !self.extra.contains_key(name) {
            self.write(name, value);
        }
    }

    /// Writes the fields from `extra` except for those in `done`, and closes the object.
    pub(crate) fn finish(mut self, done: &[&str]) -> Vec<u8> {
        for (name, value) in self.extra.iter().filter(|(name, _)| !done.contains(&name.as_str())) {
            self.write(name, value);
        }
        self.out.push(b'}');
        self.out
    }

    /// Writes a field, even if the host sets it in `extra`.
    pub(crate) fn write(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.out.push(b',');
        write(&mut self.out, name);
        self.out.push(b':');
        write(&mut self.out, value);
    }
}

/// Returns an error if `extra` contains a field that only the request may set.
pub(crate) fn refuse_extra(extra: &Map<String, Value>, ours: &[&str]) -> Result<(), ModelError> {
    match ours.iter().find(|name| extra.contains_key(**name)) {
        None => Ok(()),
        Some(name) => Err(ModelError::new(
            ModelErrorKind::BadRequest,
            format!("`{name}` cannot be set by `ModelSettings::extra`; remove it there"),
        )),
    }
}

pub(crate) fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value)
        .expect("texts, numbers and JSON values are written into memory without fail");
}
