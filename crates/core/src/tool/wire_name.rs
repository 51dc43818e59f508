//! Wire names: the names by which models call tools, derived from the names that programs use. The
//! mapping needs no table, so it is the same in every process.

use std::sync::Arc;

use super::{Tool, ToolDefinition, ToolFuture, ToolHost, ToolRef};
use crate::context::Context;
use crate::error::Result;
use crate::resource::ResourceKey;

/// Maximum length of a tool name that every provider accepts.
const LONGEST: usize = 64;

/// Maximum length of a tool name in a program, in bytes.
const LONGEST_IN_PROGRAM: usize = 256;

/// Returns the wire name of a tool: each `.` and `:` becomes `__`, and every other character except
/// letters, digits, `_` and `-` becomes `_`. A name longer than 64 bytes is cut and ends with a
/// fingerprint of the whole name.
///
/// Different names may have the same wire name. Code that offers tools to a model must reject that.
pub fn wire_name(name: &str) -> String {
    let mut wire = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '.' | ':' => wire.push_str("__"),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => wire.push(c),
            _ => wire.push('_'),
        }
    }
    // Without the fingerprint, long names with the same beginning would collide.
    if wire.len() > LONGEST {
        let fingerprint = format!("_{:08x}", fingerprint(name));
        wire.truncate(LONGEST - fingerprint.len());
        wire.push_str(&fingerprint);
    }
    wire
}

/// Hashes a string with FNV-1a, which is the same in every release.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Returns `true` for a valid tool name with dots: parts of letters, digits, `_` and `-`, separated
/// by `.`.
pub fn is_dotted(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    name.len() <= LONGEST_IN_PROGRAM && name.contains('.') && name.split('.').all(is_part)
}

/// A tool under a different name. The program knows it as `name`, a model by the wire name of
/// `name`.
pub(super) struct Renamed {
    inner: ToolRef,
    name: Arc<str>,
    definition: Arc<ToolDefinition>,
}

impl Renamed {
    pub(super) fn new(inner: ToolRef, name: Arc<str>) -> Self {
        let definition = inner.definition().renamed(Arc::clone(&name), wire_name(&name));
        Self { inner, name, definition: Arc::new(definition) }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn inner(&self) -> &ToolRef {
        &self.inner
    }
}

impl Tool for Renamed {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, cx: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        self.inner.call(cx, arguments)
    }

    fn output_schema(&self) -> Option<serde_json::Value> {
        self.inner.output_schema()
    }

    fn resources(&self) -> Vec<ResourceKey> {
        self.inner.resources()
    }

    fn asks(&self) -> bool {
        self.inner.asks()
    }

    fn question(&self, arguments: &str) -> Result<super::UserQuestion, super::ToolError> {
        self.inner.question(arguments)
    }

    fn within(&self, of: ToolHost<'_>) -> Option<Result<ToolRef>> {
        Some(self.inner.within(of)?.map(|inner| inner.renamed(Arc::clone(&self.name))))
    }

    fn inside(&self) -> Option<Box<dyn std::any::Any>> {
        self.inner.inside()
    }

    fn function_definition(&self) -> Option<&Arc<ToolDefinition>> {
        self.inner.function_definition()
    }

    fn returns_at_once(&self) -> bool {
        self.inner.returns_at_once()
    }

    fn checks_arguments(&self) -> bool {
        self.inner.checks_arguments()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_dot_becomes_two_underscores() {
        for (name, wire) in [
            ("add", "add"),
            ("mcp.files.read", "mcp__files__read"),
            ("files:read", "files__read"),
            ("a b/c", "a_b_c"),
            ("größe", "gr__e"),
        ] {
            assert_eq!(wire_name(name), wire);
        }
    }

    #[test]
    fn a_long_name_ends_with_its_fingerprint() {
        let long = |last: &str| format!("mcp.{}.{last}", "server".repeat(12));
        let (read, write) = (wire_name(&long("read")), wire_name(&long("write")));
        assert_eq!((read.len(), write.len()), (64, 64));
        assert_ne!(read, write);
        // Journals contain these names, so the hash must not change.
        assert_eq!(fingerprint("mcp.files.read"), 0xa2d7_07b4);
    }

    proptest! {
        #[test]
        fn every_wire_name_is_one_that_providers_take(name in "\\PC{1,300}") {
            let definition = ToolDefinition::new(wire_name(&name), "", serde_json::Value::Null);
            prop_assert!(definition.has_valid_name(), "{}", definition.name);
        }

        #[test]
        fn a_name_that_providers_take_is_its_own_wire_name(name in "[A-Za-z0-9_-]{1,64}") {
            prop_assert_eq!(wire_name(&name), name.clone());
            prop_assert!(!is_dotted(&name));
        }

        #[test]
        fn dotted_names_without_underscores_keep_apart(
            one in "[a-z0-9]{1,8}(\\.[a-z0-9]{1,8}){0,4}",
            other in "[a-z0-9]{1,8}(\\.[a-z0-9]{1,8}){0,4}",
        ) {
            prop_assert_eq!(one == other, wire_name(&one) == wire_name(&other));
        }
    }
}
