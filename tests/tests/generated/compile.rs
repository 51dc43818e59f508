//! Compiles the kit and batches of programs with `rustc`, against the libraries of this test
//! program, so that no dependency is compiled again. It runs no program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use agentflow::serde_json::Value;

use super::syntax::Program;
use super::write::module;

/// Libraries that the programs link.
pub(crate) struct Libraries {
    folder: PathBuf,
    dependencies: PathBuf,
    externs: Vec<(String, PathBuf)>,
}

/// Compiler errors of a batch.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// Messages about the workflow, by program name.
    pub(crate) workflows: BTreeMap<String, Vec<String>>,
    /// Messages about the plain function, by program name. They are faults of the generator.
    pub(crate) functions: BTreeMap<String, Vec<String>>,
    /// Messages that belong to no program.
    pub(crate) others: Vec<String>,
}

/// A compiled batch.
pub(crate) struct CompiledBatch {
    /// The executable, unless the compiler refused all programs.
    pub(crate) executable: Option<PathBuf>,
    pub(crate) refused: Refused,
    pub(crate) took: Duration,
}

const NAMES: [&str; 8] = [
    "agentflow",
    "agentflow_testing",
    "fastrand",
    "futures_util",
    "schemars",
    "serde",
    "serde_json",
    "tokio",
];

impl Libraries {
    /// Asks cargo for the libraries, which are up to date because it has just built this test
    /// program, and compiles the kit.
    pub(crate) fn new() -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(env!("CARGO"));
        // Some build scripts, and with them half of the libraries, would run again if cargo's own
        // variables differed.
        for (name, _) in std::env::vars_os() {
            let own =
                ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
            if own.iter().any(|own| name.to_string_lossy().starts_with(own)) {
                command.env_remove(name);
            }
        }
        let output = command
            .args([
                "test",
                "--no-run",
                "--test",
                "generated",
                "--message-format=json",
                "--offline",
                "--quiet",
            ])
            .current_dir(manifest)
            .output()
            .expect("cargo can be started");
        assert!(
            output.status.success(),
            "cargo failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut found: BTreeMap<String, (Vec<u32>, PathBuf)> = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = line.parse::<Value>() else { continue };
            let name = message["target"]["name"].as_str().unwrap_or_default().replace('-', "_");
            let Some(file) =
                message["filenames"][0].as_str().filter(|file| file.ends_with(".rlib"))
            else {
                continue;
            };
            if NAMES.contains(&name.as_str()) {
                let id = message["package_id"].as_str().unwrap_or_default();
                let version = id.rsplit(['#', '@']).next().unwrap_or_default();
                let version: Vec<u32> =
                    version.split('.').filter_map(|part| part.parse().ok()).collect();
                let best = found.entry(name).or_default();
                if version >= best.0 {
                    *best = (version, PathBuf::from(file));
                }
            }
        }
        let missing: Vec<&str> =
            NAMES.into_iter().filter(|name| !found.contains_key(*name)).collect();
        assert!(missing.is_empty(), "cargo names no library for {missing:?}");
        let dependencies =
            found["agentflow"].1.parent().expect("a library is in a folder").to_owned();
        let folder = dependencies.parent().expect("`deps` is in a folder").join("generated");
        fs::create_dir_all(&folder).expect("the target folder can be written");
        let externs = found.into_iter().map(|(name, (_, path))| (name, path)).collect();
        let mut libraries = Self { folder, dependencies, externs };
        libraries.compile_kit(&manifest.join("tests/generated/kit/mod.rs"));
        libraries
    }

    fn compile_kit(&mut self, source: &Path) {
        let kit = self.folder.join(format!("libkit-{:016x}.rlib", self.hash_of_kit(source)));
        if !kit.exists() {
            let made = kit.with_extension(std::process::id().to_string());
            let output =
                self.rustc("kit", "rlib", source, &made).output().expect("rustc can be started");
            assert!(
                output.status.success(),
                "the kit does not compile:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
            fs::rename(made, &kit).expect("the target folder can be written");
        }
        self.externs.push(("kit".to_owned(), kit));
    }

    /// Returns a hash of the kit's source and the libraries.
    fn hash_of_kit(&self, source: &Path) -> u64 {
        let mut hasher = DefaultHasher::new();
        let folder = source.parent().expect("a file is in a folder");
        let mut files: Vec<PathBuf> = fs::read_dir(folder)
            .expect("the kit can be read")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        files.sort();
        for file in files {
            fs::read(file).expect("the kit can be read").hash(&mut hasher);
        }
        for (name, path) in &self.externs {
            let changed = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
            (name, path, changed).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn rustc(&self, name: &str, kind: &str, source: &Path, to: &Path) -> Command {
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.args([
            "--edition",
            "2024",
            "--crate-name",
            name,
            "--crate-type",
            kind,
            "--cap-lints",
            "allow",
        ]);
        command.args(["-C", "debuginfo=0", "-C", "strip=debuginfo", "-C", "overflow-checks=on"]);
        // Each job uses one core.
        command.args(["-C", "codegen-units=1"]);
        command
            .arg(source)
            .arg("-o")
            .arg(to)
            .arg("-L")
            .arg(format!("dependency={}", self.dependencies.display()));
        for (name, path) in &self.externs {
            command.arg("--extern").arg(format!("{name}={}", path.display()));
        }
        command
    }

    /// Compiles programs into an executable, without those that the compiler refuses.
    pub(crate) fn compile(&self, batch: &str, programs: &[Program]) -> CompiledBatch {
        let began = Instant::now();
        let mut refused = Refused::default();
        let mut left: Vec<&Program> = programs.iter().collect();
        let source = self.folder.join(format!("{batch}.rs"));
        let executable = self.folder.join(batch);
        while !left.is_empty() {
            let places = write_batch(&source, &left).expect("the target folder can be written");
            let mut command = self.rustc("batch", "bin", &source, &executable);
            let output = command.arg("--error-format=json").output().expect("rustc can be started");
            if output.status.success() {
                return CompiledBatch {
                    executable: Some(executable),
                    refused,
                    took: began.elapsed(),
                };
            }
            let found = errors(&String::from_utf8_lossy(&output.stderr), &source, &places);
            let gone: BTreeSet<&String> =
                found.workflows.keys().chain(found.functions.keys()).collect();
            let before = left.len();
            left.retain(|program| !gone.contains(&program.name));
            let stuck = left.len() == before;
            refused.workflows.extend(found.workflows);
            refused.functions.extend(found.functions);
            if stuck {
                refused.others.extend(found.others);
                break;
            }
        }
        CompiledBatch { executable: None, refused, took: began.elapsed() }
    }

    /// Deletes the files of a batch, unless `AGENTFLOW_KEEP` is set.
    pub(crate) fn forget(&self, batch: &str) {
        if std::env::var_os("AGENTFLOW_KEEP").is_some() {
            return;
        }
        for name in [batch.to_owned(), format!("{batch}.rs")] {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }
}

/// Lines of a program in a batch: its first line, the first line of its workflow, and the line
/// after its last.
struct Place {
    name: String,
    first: usize,
    workflow: usize,
    end: usize,
}

fn write_batch(path: &Path, programs: &[&Program]) -> io::Result<Vec<Place>> {
    let mut text = "#![allow(warnings)]\n".to_owned();
    let (mut places, mut line) = (Vec::new(), 2);
    for program in programs {
        let written = module(program);
        let lines = written.text.matches('\n').count();
        let name = program.name.clone();
        places.push(Place {
            name,
            first: line,
            workflow: line + written.workflow,
            end: line + lines,
        });
        line += lines;
        text += &written.text;
    }
    let all: Vec<String> =
        programs.iter().map(|program| format!("{}::PROGRAM", program.name)).collect();
    text += &format!("fn main() {{ kit::report::main(&[{}]) }}\n", all.join(", "));
    fs::write(path, text)?;
    Ok(places)
}

fn errors(stderr: &str, source: &Path, places: &[Place]) -> Refused {
    let mut refused = Refused::default();
    for line in stderr.lines() {
        let Ok(message) = line.parse::<Value>() else { continue };
        if message["level"] != "error" {
            continue;
        }
        let text = message["rendered"].as_str().unwrap_or_default().to_owned();
        match line_of(&message, source).and_then(|line| Some((line, place_of(line, places)?))) {
            Some((line, place)) if line >= place.workflow => {
                refused.workflows.entry(place.name.clone()).or_default().push(text);
            }
            Some((_, place)) => refused.functions.entry(place.name.clone()).or_default().push(text),
            None => refused.others.push(text),
        }
    }
    refused
}

fn place_of(line: usize, places: &[Place]) -> Option<&Place> {
    places.iter().find(|place| (place.first..place.end).contains(&line))
}

/// Returns the line of the batch that a message is about, also for a message within a macro
/// expansion.
fn line_of(message: &Value, source: &Path) -> Option<usize> {
    let spans = message["spans"].as_array().into_iter().flatten();
    let children = message["children"].as_array().into_iter().flatten();
    let mut all: Vec<&Value> = spans
        .chain(children.flat_map(|child| child["spans"].as_array().into_iter().flatten()))
        .collect();
    all.sort_by_key(|span| span["is_primary"] != true);
    all.into_iter().find_map(|span| {
        let mut span = span;
        loop {
            if Path::new(span["file_name"].as_str()?) == source {
                return span["line_start"].as_u64().map(|line| line as usize);
            }
            span = span.get("expansion").filter(|expansion| !expansion.is_null())?.get("span")?;
        }
    })
}
