//! The effect file that the programs of both versions share (`order-first` and `tests/versions`).

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file with one line per effect, written by any process.
#[derive(Clone, Debug)]
pub struct EffectFile(PathBuf);

impl EffectFile {
    /// Returns the effect file in a test's folder.
    pub fn of(folder: &Path) -> Self {
        Self(folder.join("effects"))
    }

    /// Appends an effect.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn note(&self, what: &str) {
        let mut file =
            OpenOptions::new().create(true).append(true).open(&self.0).expect("the file opens");
        file.write_all(format!("{what}\n").as_bytes()).expect("it is written");
    }

    /// Returns all effects since the last call, in order.
    ///
    /// # Panics
    /// When the file cannot be read.
    pub fn take(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        fs::write(&self.0, "").expect("the file is emptied");
        text.lines().map(ToOwned::to_owned).collect()
    }
}
