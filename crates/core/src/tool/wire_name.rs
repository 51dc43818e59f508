//! The name by which a model calls a tool, made of the name that a program knows it by. It looks nothing up and keeps
//! no table: the same name has the same wire name in every process.

use std::sync::Arc;

use super::{Tool, ToolDefinition, ToolFuture, ToolHost, ToolRef};
use crate::context::Context;
use crate::error::Result;
use crate::resource::ResourceKey;

/// The longest name that every provider takes.
const LONGEST: usize = 64;

/// The longest name of a tool in a program, in bytes.
const LONGEST_IN_PROGRAM: usize = 256;

/// The wire name of a tool: its name, with `__` for each `.` and each `:`, and `_` for everything else that is not a
/// letter, a digit, `_` or `-`. A longer one than providers take ends with a fingerprint of the whole name.
///
/// Different names may have one wire name; who offers tools to a model refuses that.
pub(crate) fn wire_name(name: &str) -> String {
    let mut wire = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '.' | ':' => wire.push_str("__"),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => wire.push(c),
            _ => wire.push('_'),
        }
    }
    if wire.len() > LONGEST {
        let fingerprint = format!("_{:08x}", fingerprint(name));
        wire.truncate(LONGEST - fingerprint.len());
        wire.push_str(&fingerprint);
    }
    wire
}

/// FNV-1a: the same in every release.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Whether a name is one that a program may know a tool by: parts of letters, digits, `_` and `-` with a `.` between
/// them.
pub(crate) fn is_dotted(name: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    name.len() <= LONGEST_IN_PROGRAM && name.contains('.') && name.split('.').all(is_part)
}

/// A tool under another name than its own: a program knows it by `name`, a model by the wire name of that.
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

    fn announces_itself(&self) -> bool {
        self.inner.announces_itself()
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
        // Journals hold these names.
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
