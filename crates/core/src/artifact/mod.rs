//! Artifacts: named, versioned bytes that steps save, such as a report, an image or a large answer.
//!
//! This room is the vocabulary: what a record holds of an artifact ([`ArtifactRef`]), and one with its bytes ([`Artifact`]).
//! It keeps no bytes; the run's store does.
#![doc = include_str!("../docs/artifact.md")]

use std::fmt;
use std::sync::Arc;

use agentflow_schema::text::head;
use serde::{Deserialize, Serialize};

/// What a record holds of an artifact: everything but its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArtifactRef {
    /// The name, such as `report.md`.
    pub name: Arc<str>,
    /// The version, from 1. Each save of a name in a run has a higher one than those before it; that of a step which failed
    /// may be missing.
    pub version: u32,
    /// What the bytes are, such as `text/markdown`.
    pub media_type: Arc<str>,
    /// How many bytes it has.
    pub size: u64,
    /// The SHA-256 of the bytes, as 64 hexadecimal digits: by it they are kept.
    pub sha256: Arc<str>,
}

/// An artifact with its bytes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Artifact {
    /// What the record of the step that saved it holds.
    pub reference: ArtifactRef,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

impl Artifact {
    pub(crate) fn new(reference: ArtifactRef, bytes: Arc<[u8]>) -> Self {
        Self { reference, bytes }
    }

    /// The bytes as text.
    ///
    /// # Errors
    /// When they are not UTF-8.
    pub fn text(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(&self.bytes)
    }
}

impl fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (version {}, {}, {} bytes)", self.name, self.version, self.media_type, self.size)
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifact").field("reference", &self.reference).finish_non_exhaustive()
    }
}

/// The longest name, in bytes.
pub(crate) const LONGEST: usize = 200;

/// Why a name or a media type is not one, if it is not.
pub(crate) fn problem_of(name: &str, media_type: &str) -> Option<String> {
    let is_name = |name: &str| {
        let parts = name.split('/');
        !name.is_empty()
            && name.len() <= LONGEST
            && !name.chars().any(|c| c.is_control() || c == '\\' || c == ':')
            && parts.into_iter().all(|part| !matches!(part, "" | "." | ".."))
    };
    if !is_name(name) {
        return Some(format!(
            "it is not a name; give one such as `report.md` or `pages/1.png`, without `..` and of {LONGEST} bytes at most"
        ));
    }
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let media = media_type.split(';').next().unwrap_or_default().trim();
    let is_media = media.split_once('/').is_some_and(|(kind, form)| is_token(kind) && is_token(form));
    (!is_media || media_type.len() > LONGEST || media_type.chars().any(char::is_control)).then(|| {
        format!(
            "{:?} is not a media type; give one such as `text/markdown` or `application/octet-stream`",
            head(media_type, LONGEST)
        )
    })
}
