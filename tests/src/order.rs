//! What the programs of two versions share (`order-first` and `tests/versions`): the file of their effects.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file with a line for each thing that was done, in any process.
#[derive(Clone, Debug)]
pub struct EffectFile(PathBuf);

impl EffectFile {
    /// The file in the folder of a test.
    pub fn of(folder: &Path) -> Self {
        Self(folder.join("effects"))
    }

    /// Notes that something is done now.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn note(&self, what: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).expect("the file opens");
        file.write_all(format!("{what}\n").as_bytes()).expect("it is written");
    }

    /// All that was done, in its order, since it was asked last.
    ///
    /// # Panics
    /// When the file cannot be read.
    pub fn take(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        fs::write(&self.0, "").expect("the file is emptied");
        text.lines().map(ToOwned::to_owned).collect()
    }
}
