//! A crate that a benchmark writes into the target folder, with one program per text, and builds
//! against this library.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct GeneratedCrate(PathBuf);

impl GeneratedCrate {
    /// Writes the crate. `more` is the rest of its manifest, which starts inside of
    /// `[dependencies]`.
    pub(crate) fn new(
        name: &str,
        more: &str,
        programs: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let library = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(folder.join("src/bin"))
            .expect("the target folder can be written to");
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             agentflow = {{ package = \"agentflow-sdk\", path = {library:?}, default-features = false }}\n\
             {more}\n\n[workspace]\n"
        );
        std::fs::write(folder.join("Cargo.toml"), manifest).expect("the manifest can be written");
        // Uses the dependency versions that this repository is tested with.
        let _ = std::fs::copy(library.join("../Cargo.lock"), folder.join("Cargo.lock"));
        let this = Self(folder);
        for (program, text) in programs {
            std::fs::write(this.source(&program), text).expect("the program can be written");
        }
        this
    }

    /// Returns the source file of a program.
    pub(crate) fn source(&self, program: &str) -> PathBuf {
        self.0.join(format!("src/bin/{program}.rs"))
    }

    /// Runs cargo in the crate and returns its output.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> String {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(arguments)
            .arg("--quiet")
            .current_dir(&self.0)
            .env("CARGO_TARGET_DIR", self.0.join("target"));
        let output = cargo.output().expect("there is a cargo");
        assert!(
            output.status.success(),
            "cargo failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
