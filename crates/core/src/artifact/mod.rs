//! Artifacts: named, versioned files that steps save, such as a report, an image or a large tool
//! output.
//!
//! The journal records an [`ArtifactRef`]: name, version, media type, size and hash. The run's
//! store keeps the bytes under their hash. An [`Artifact`] is a reference together with its bytes.
//! This module defines the two types and checks names and media types; it stores nothing.
#![doc = include_str!("../docs/artifact.md")]

use std::fmt;
use std::sync::Arc;

use agentflow_schema::text::head;
use serde::{Deserialize, Serialize};

/// A reference to an artifact, as the journal records it. It has no bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArtifactRef {
    /// Name, such as `report.md`.
    pub name: Arc<str>,
    /// Version, starting at 1. Each save under the same name in a run gets a higher version.
    /// Versions saved by a failed step may be missing.
    pub version: u32,
    /// Media type, such as `text/markdown`.
    pub media_type: Arc<str>,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the bytes, as 64 hexadecimal digits. The store uses it as the key of the bytes.
    pub sha256: Arc<str>,
}

/// An artifact with its bytes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Artifact {
    /// The reference that the step's record holds.
    pub reference: ArtifactRef,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

impl Artifact {
    pub(crate) fn new(reference: ArtifactRef, bytes: Arc<[u8]>) -> Self {
        Self { reference, bytes }
    }

    /// Returns the bytes as text.
    ///
    /// # Errors
    /// If the bytes are not valid UTF-8.
    pub fn text(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(&self.bytes)
    }
}

impl fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (version {}, {}, {} bytes)",
            self.name, self.version, self.media_type, self.size
        )
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifact").field("reference", &self.reference).finish_non_exhaustive()
    }
}

/// Maximum length of a name or a media type, in bytes.
pub(crate) const LONGEST: usize = 200;

/// Returns the problem of an invalid name or media type, or `None` if both are valid.
pub(crate) fn problem_of(name: &str, media_type: &str) -> Option<String> {
    // A name is a relative path that no store can resolve outside of its folder: no `..`, no
    // backslash, no drive letter.
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
    // The characters of `restricted-name` in RFC 6838, section 4.2.
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let media = media_type.split(';').next().unwrap_or_default().trim();
    let is_media =
        media.split_once('/').is_some_and(|(kind, form)| is_token(kind) && is_token(form));
    (!is_media || media_type.len() > LONGEST || media_type.chars().any(char::is_control)).then(|| {
        format!(
            "{:?} is not a media type; give one such as `text/markdown` or `application/octet-stream`",
            head(media_type, LONGEST)
        )
    })
}
