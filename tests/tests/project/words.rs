//! Enforces docs/words.md: no source file and no page uses a phrase that the page replaces.
//!
//! The test compares text, not meaning; review decides if a sentence is clear. It searches
//! comments, strings and names. A `_` in a name and a line break in a comment count as a space.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::workspace::LIBRARIES;

/// A phrase to avoid, its allowed look-alikes, and the replacement.
struct Phrase {
    not: &'static str,
    unless: &'static str,
    say: &'static str,
}

const fn phrase(not: &'static str, unless: &'static str, say: &'static str) -> Phrase {
    Phrase { not, unless, say }
}

/// Matches nothing: every match of the phrase counts.
const ALWAYS: &str = r"[^\s\S]";

const PHRASES: [Phrase; 22] = [
    phrase(
        r"\b(take|takes|taken|taking|took) (it |them |the run |a run |the order |this )?up\b",
        r"\b(take|takes|taken|taking|took) up (to|room|space|memory|more)\b",
        "resume",
    ),
    phrase(
        r"\b(goes|going|gone) on\b",
        r"\bgoes on an? (async )?function\b",
        "continues, is running; is running in another process; resumed",
    ),
    phrase(
        r"\b(it|they|that|which|and|or|run|runs|step|steps|rest|may|can|could|must|not|to) go on\b",
        ALWAYS,
        "continue, run",
    ),
    phrase(
        r"\b(what|whatever|how) ([a-z`']+ ){1,4}(comes?|came) to\b",
        ALWAYS,
        "the result, the outcome",
    ),
    phrase(
        r"\b(come|comes|came|coming) to (its|their|the same|an|the) (end|result|outcome)s?\b",
        ALWAYS,
        "ends; has the same result",
    ),
    phrase(
        r"\b(is|are|was|were|be|been) told (once|at|of|so|apart|from|with|in|by|as)\b",
        r"\bmodel (is|was|be) told (once|at|of|so|in|with)\b",
        "is reported, is distinguished; hears of",
    ),
    phrase(
        r"\b(mistake|error|problem|reason|wrong|failure)s? ([a-z]+ )?(is|are|was|were|be) told\b",
        ALWAYS,
        "is reported",
    ),
    phrase(
        r"\btold (apart|as that|otherwise|what to do)\b",
        ALWAYS,
        "distinguished; reported; unless you say otherwise; controlled",
    ),
    phrase(r"\bwish(es|ed)?\b", ALWAYS, "tool call; control request; name the choice"),
    phrase(r"\bcuts? ([a-z]+ )?short\b", ALWAYS, "interrupted"),
    phrase(
        r"\b(is|are|was|were|be|been) made (once )?again\b|\bmakes? [a-z ]{0,30}calls again\b",
        ALWAYS,
        "is retried",
    ),
    phrase(r"\bwork(s|ed|ing)? ([a-z]+ )?out\b", ALWAYS, "computed"),
    phrase(
        r"\b(take|takes|taken|taking|took) ([a-z']+ ){0,3}apart\b",
        ALWAYS,
        "destructured; split",
    ),
    phrase(
        r"\b[a-z]+ (is|are|was|were|be) none\b",
        r"\bthere (is|are|was|were|may be|can be|be|to be) none\b",
        "is not one",
    ),
    phrase(
        r"\b(it|this|that|which|value|text|name|path|file|line|answer|input|output|log|list|keys?|arguments?|parameters?|url|step|[`'}]+) (is|are) no [a-z]+",
        r"\b(is|are) no (longer|more)\b",
        "is not a ..",
    ),
    phrase(r"\b(is|are|be|was|were) had\b", ALWAYS, "is available"),
    phrase(r"\b(see there|as there)([.,;:)]|$)", ALWAYS, "name the item and link it"),
    phrase(r"\btakes? (it|them|this) away\b", ALWAYS, "remove it"),
    phrase(r"\bwrite `[^`]+` behind\b", ALWAYS, "add .. after"),
    phrase(
        r"\bwho may write\b",
        ALWAYS,
        "writers are fenced by an epoch; which writer has the run",
    ),
    phrase(r"\btakes? no (word|wish)", ALWAYS, "no longer accepts requests"),
    phrase(r"\b(returned|given back) is\b", ALWAYS, "returns .."),
];

/// Files in which the phrases are allowed, and why.
const ALLOWED: [(&str, &str); 2] = [
    ("docs/words.md", "the page that lists the phrases"),
    ("tests/tests/project/words.rs", "this file"),
];

/// Folders with generated or third-party text.
const SKIPPED: [&str; 7] = [
    "target",
    ".git",
    "tests/tests/ui",
    "tests/include/tests/ui",
    "tests/fixtures/wire",
    "fuzz/corpus",
    "fuzz/target",
];

fn texts(folder: &Path, root: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let within = path.strip_prefix(root).unwrap();
        if path.is_dir() {
            if !SKIPPED.iter().any(|skipped| within.ends_with(skipped)) {
                texts(&path, root, found);
            }
        } else if path
            .extension()
            .is_some_and(|kind| kind == "rs" || kind == "md" || kind == "toml")
        {
            found.push(path);
        }
    }
}

/// Returns the text as a single line of words, and the offset and number of each original line.
fn flat(text: &str) -> (String, Vec<(usize, usize)>) {
    let (mut words, mut lines) = (String::with_capacity(text.len()), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let line = line
            .strip_prefix("//")
            .map_or(line, |comment| comment.trim_start_matches(['/', '!']).trim_start());
        lines.push((words.len(), number + 1));
        words.extend(
            line.trim_end_matches('\\')
                .chars()
                .map(|c| if c == '_' { ' ' } else { c.to_ascii_lowercase() }),
        );
        if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    (words, lines)
}

/// Compiles a pattern with ASCII word boundaries, which is several times faster.
fn regex(pattern: &str) -> Regex {
    Regex::new(&pattern.replace(r"\b", r"(?-u:\b)")).unwrap()
}

fn line_of(lines: &[(usize, usize)], at: usize) -> usize {
    lines[lines.partition_point(|(begins, _)| *begins <= at).saturating_sub(1)].1
}

#[test]
fn the_words_are_those_of_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut files = Vec::new();
    texts(&root, &root, &mut files);
    files.sort();
    assert!(files.len() > 300, "only {} files were found", files.len());
    let phrases: Vec<_> = PHRASES
        .iter()
        .map(|phrase| (regex(phrase.not), regex(phrase.unless), phrase.say))
        .collect();
    let mut report = String::new();
    for path in files {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        if ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
            continue;
        }
        let (words, lines) = flat(&std::fs::read_to_string(&path).unwrap());
        for (not, unless, say) in &phrases {
            for found in not.find_iter(&words) {
                let is_fine =
                    |fine: regex::Match| fine.start() <= found.end() && found.start() <= fine.end();
                if !unless.find_iter(&words).any(is_fine) {
                    let at = line_of(&lines, found.start());
                    writeln!(
                        report,
                        "{name}:{at}: \"{}\"; say instead: {say}",
                        found.as_str().trim()
                    )
                    .unwrap();
                }
            }
        }
    }
    assert!(report.is_empty(), "docs/words.md has better words for these:\n{report}");
}

#[test]
fn a_phrase_is_found_over_the_end_of_a_line_and_in_a_name() {
    let (words, lines) =
        flat("fn a() {}\n    /// It was taken\n    /// up by\nfn is_taken_up() {}\n");
    let found: Vec<usize> = Regex::new(PHRASES[0].not)
        .unwrap()
        .find_iter(&words)
        .map(|at| line_of(&lines, at.start()))
        .collect();
    assert_eq!(found, [2, 4]);
}

/// File names that mean the same stage in each macro or adapter.
const STAGES: [&str; 14] = [
    "mod.rs",
    "main.rs",
    "tests.rs",
    "parse.rs",
    "model.rs",
    "validate.rs",
    "expand.rs",
    "encode.rs",
    "decode.rs",
    "wire.rs",
    "message.rs",
    "schema.rs",
    "error_body.rs",
    "lib.rs",
];

#[test]
fn no_two_files_of_a_crate_share_a_name_and_no_two_public_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let public = Regex::new(r"(?m)^pub (?:struct|enum|trait|type) ([A-Za-z0-9]+)").unwrap();
    let mut twice = Vec::new();
    let mut types: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in LIBRARIES.into_iter().chain(["agentflow-macros/src"]) {
        let (mut files, mut names) = (Vec::new(), BTreeMap::new());
        texts(&root.join(folder), &root, &mut files);
        for path in files {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let hidden =
                path.iter().any(|part| part == "__private") || folder == "agentflow-macros/src";
            for found in public.captures_iter(&text).filter(|_| !hidden) {
                if let Some(other) = types.insert(found[1].to_owned(), path.clone()) {
                    twice.push(format!(
                        "`{}`: {} and {}",
                        &found[1],
                        other.display(),
                        path.display()
                    ));
                }
            }
            if !STAGES.contains(&&*name)
                && let Some(other) = names.insert(name, path.clone())
            {
                twice.push(format!("{} and {}", other.display(), path.display()));
            }
        }
    }
    assert!(twice.is_empty(), "these share a bare name; let it say the role: {twice:#?}");
}
