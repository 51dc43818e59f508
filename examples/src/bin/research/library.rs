//! The documents of a folder, read once, with a full-text search.
//!
//! It reads only files found under the folder. A path given by a model is compared with their names
//! and never opened. Links are not followed.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentflow::serde::Serialize;

use crate::text::{Kind, passages, share_of_about, words};

/// Maximum size of a file.
const MAX_FILE: u64 = 1024 * 1024;
/// Maximum number of files.
const MAX_FILES: usize = 5_000;
/// Maximum total size of all files.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Folders with generated content.
const GENERATED: &[&str] = &["target", "node_modules", "__pycache__", "venv"];
/// Suffixes of generated files.
const NOT_WRITTEN: &[&str] = &[".lock", ".min.js", ".min.css", ".map", "package-lock.json", ".svg"];

/// The documents of a folder, by their paths relative to it.
#[derive(Debug)]
pub(crate) struct Library {
    documents: BTreeMap<String, Vec<String>>,
    skipped: usize,
    places: Vec<Place>,
    /// For each word, the passages that contain it, with a weight.
    index: HashMap<String, Vec<(usize, f32)>>,
    mean_words: f32,
}

/// A passage in the index.
#[derive(Debug)]
struct Place {
    path: String,
    first: usize,
    text: String,
    about: String,
    words: f32,
    factor: f32,
}

/// A search result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(crate = "agentflow::serde")]
pub(crate) struct Hit {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) about: String,
}

/// Results of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The stemmed words of the query with their rarity; 0 for a word that does not occur.
    pub(crate) words: Vec<(String, f32)>,
    /// The best results, best first.
    pub(crate) hits: Vec<Hit>,
}

impl Library {
    /// Reads a folder or a single file.
    ///
    /// # Errors
    /// When the path does not exist or cannot be read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let root = fs::canonicalize(path)?;
        let mut library = Self {
            documents: BTreeMap::new(),
            skipped: 0,
            places: Vec::new(),
            index: HashMap::new(),
            mean_words: 1.0,
        };
        let mut bytes = 0;
        if root.is_file() {
            let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
            library.add_file(&root, name, &mut bytes);
        } else {
            library.add_folder(&root, &mut bytes)?;
        }
        library.make_index();
        Ok(library)
    }

    fn add_folder(&mut self, root: &Path, bytes: &mut u64) -> io::Result<()> {
        let mut folders: Vec<(PathBuf, String)> = vec![(root.to_owned(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if prefix.is_empty() => return Err(error),
                Err(_) => {
                    self.skipped += 1;
                    continue;
                }
            };
            let mut entries: Vec<_> = entries.flatten().collect();
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let name = entry.file_name().to_string_lossy().into_owned();
                let Ok(kind) = entry.file_type() else { continue };
                if name.starts_with('.') || kind.is_symlink() {
                    continue;
                }
                if kind.is_dir() {
                    if !GENERATED.contains(&name.as_str()) {
                        folders.push((entry.path(), format!("{prefix}{name}/")));
                    }
                } else if kind.is_file() {
                    self.add_file(&entry.path(), format!("{prefix}{name}"), bytes);
                }
            }
        }
        Ok(())
    }

    fn add_file(&mut self, file: &Path, name: String, bytes: &mut u64) {
        match read_text(file).filter(|_| !NOT_WRITTEN.iter().any(|ending| name.ends_with(ending))) {
            Some(text)
                if self.documents.len() < MAX_FILES && *bytes + text.len() as u64 <= MAX_BYTES =>
            {
                *bytes += text.len() as u64;
                self.documents.insert(name, text.lines().map(ToOwned::to_owned).collect());
            }
            _ => self.skipped += 1,
        }
    }

    fn make_index(&mut self) {
        for (path, lines) in &self.documents {
            let of_path = path_factor(path);
            for passage in passages(path, 1, lines.iter().map(String::as_str)) {
                let at = self.places.len();
                let own = words(&passage.text);
                let mut counts: HashMap<String, f32> = HashMap::new();
                for word in words(&passage.about) {
                    counts.insert(word, share_of_about(path));
                }
                for word in &own {
                    *counts.entry(word.clone()).or_default() += 1.0;
                }
                for (word, count) in counts {
                    self.index.entry(word).or_default().push((at, count));
                }
                let of_kind = match passage.kind {
                    Kind::Sentence => 1.0,
                    Kind::Row => 0.8,
                    Kind::Heading => 0.7,
                    Kind::Code => 0.5,
                };
                self.places.push(Place {
                    path: path.clone(),
                    first: passage.first,
                    text: passage.text,
                    about: passage.about,
                    words: own.len() as f32,
                    factor: of_kind * of_path,
                });
            }
        }
        let all: f32 = self.places.iter().map(|place| place.words).sum();
        self.mean_words = (all / self.places.len().max(1) as f32).max(1.0);
    }

    /// Returns the names of the documents with their numbers of lines.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (&str, usize)> {
        self.documents.iter().map(|(name, lines)| (name.as_str(), lines.len()))
    }

    /// Returns the number of skipped files: too large, not text, or not readable.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped
    }

    /// Returns the lines of a document.
    pub(crate) fn lines(&self, name: &str) -> Option<&[String]> {
        self.documents.get(name.trim_start_matches("./")).map(Vec::as_slice)
    }

    /// Returns the passages with most of the query's words. Rare words have a higher weight.
    pub(crate) fn search(&self, question: &str, limit: usize) -> Found {
        let mut found = Found::default();
        for word in words(question) {
            if !found.words.iter().any(|(known, _)| *known == word) {
                let weight = self.index.get(&word).map_or(0.0, |places| self.rarity(places.len()));
                found.words.push((word, weight));
            }
        }
        let all: f32 = found.words.iter().map(|(_, weight)| weight).sum();
        let mut scores: HashMap<usize, (f32, f32)> = HashMap::new();
        for (word, weight) in &found.words {
            for (at, count) in self.index.get(word).into_iter().flatten() {
                let length = 0.5 + 0.5 * self.places[*at].words / self.mean_words;
                let (score, covered) = scores.entry(*at).or_default();
                *score += weight * count * 2.2 / (count + 1.2 * length);
                *covered += weight * count.min(1.0);
            }
        }
        let mut ranked: Vec<(f32, usize)> = scores
            .into_iter()
            .map(|(at, (score, covered))| {
                (score * self.places[at].factor * (covered / all).powi(2), at)
            })
            .collect();
        let best_first =
            |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        ranked.sort_by(best_first);
        // Only the best candidates are ranked in detail.
        ranked.truncate(limit * 20);
        let asked = words(question);
        for (score, at) in &mut ranked {
            *score *= self.places[*at].closeness(question, &asked);
        }
        ranked.sort_by(best_first);
        for (score, at) in ranked {
            let place = &self.places[at];
            let near = |hit: &Hit| hit.path == place.path && hit.line.abs_diff(place.first) < 2;
            if score > 0.0 && found.hits.len() < limit && !found.hits.iter().any(near) {
                found.hits.push(Hit {
                    path: place.path.clone(),
                    line: place.first,
                    text: place.text.chars().take(300).collect(),
                    about: place.about.chars().take(100).collect(),
                });
            }
        }
        found
    }

    fn rarity(&self, places: usize) -> f32 {
        (1.0 + self.places.len() as f32 / (1.0 + places as f32)).ln()
    }
}

impl Place {
    /// Returns a factor above 1 if words of the question are adjacent here too, and 0 if the
    /// passage is the question itself.
    fn closeness(&self, question: &str, asked: &[String]) -> f32 {
        if repeats(&self.text, question) {
            return 0.0;
        }
        let (own, about) = (words(&self.text), words(&self.about));
        let beside = |pair: &&[String]| {
            own.windows(2).any(|two| two == *pair) || about.windows(2).any(|two| two == *pair)
        };
        1.0 + 0.4 * asked.windows(2).filter(beside).count().min(2) as f32
    }
}

/// Returns `true` if a passage contains the question itself, so that it is not an answer.
pub(crate) fn repeats(text: &str, question: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let question = plain(question);
    let asked = question.trim_end_matches(['?', '.', '!', ' ']);
    asked.contains(' ') && plain(text).contains(asked)
}

/// Lowers the rank of tests, change logs and licenses, which seldom explain.
fn path_factor(path: &str) -> f32 {
    let path = path.to_lowercase();
    if path.contains("license") || path.contains("licence") || path.contains("copying") {
        0.2
    } else if ["test", "fixture", "bench", "changelog", "example"]
        .iter()
        .any(|part| path.contains(part))
    {
        0.6
    } else if path.ends_with(".md") || path.ends_with(".txt") || path.ends_with(".rst") {
        1.2
    } else {
        1.0
    }
}

/// Reads the text of a file, unless it is too large, not text, or not readable. Invalid UTF-8
/// becomes replacement characters.
fn read_text(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(file).ok()?.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
    let is_text = bytes.len() as u64 <= MAX_FILE && !bytes.iter().take(8192).any(|byte| *byte == 0);
    is_text.then(|| String::from_utf8_lossy(&bytes).into_owned())
}
