//! `remember`, `recall` and `forget`: the tools with which a model uses the memories of its
//! user, as paths and as functions. `memory/` implements them.

use std::any::TypeId;

use serde_json::Value;

use super::tool::{BuiltInTool, LinkedTool, PathTool};
use crate::tool::{MemoryTool, MemoryToolKind, memory_resources};

macro_rules! memory_tool {
    ($(#[$doc:meta])* $name:ident $STATIC:ident $Kind:ident $parameters:tt) => {
        $(#[$doc])*
        pub fn $name() -> MemoryTool {
            MemoryTool::new(MemoryToolKind::$Kind)
        }

        /// The tool as a path in a list of tools.
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        pub struct $name {}

        static $STATIC: LinkedTool = LinkedTool::provided(
            stringify!($name),
            (file!(), line!()),
            BuiltInTool {
                definition: || MemoryToolKind::$Kind.definition(),
                resources: memory_resources,
            },
            |_, cx, arguments| MemoryToolKind::$Kind.call(cx, arguments),
            || Some(output_schema(MemoryToolKind::$Kind)),
        );

        impl PathTool for $name {
            type Parameters = ();

            const PARAMETERS: &'static [&'static str] = &$parameters;

            fn tool() -> &'static LinkedTool {
                &$STATIC
            }

            fn function() -> TypeId {
                TypeId::of::<Self>()
            }
        }
    };
}

fn output_schema(kind: MemoryToolKind) -> Value {
    kind.output_schema()
}

memory_tool! {
    /// A tool with which a model remembers a fact about its user for later runs: see
    /// [`memory`](crate::memory).
    ///
    /// As a path it is a tool like any other, in `tools![..]` and `#[agent(tools = [..])]`. As a
    /// function it returns the tool with settings. It takes a `text` and an optional `topic`, saves
    /// them for the run's caller, and returns the id of the entry. A call that runs again after a
    /// crash, or is retried, creates only one entry.
    remember REMEMBER Remember ["text", "topic"]
}

memory_tool! {
    /// A tool with which a model searches the memories of its user: see [`memory`](crate::memory).
    ///
    /// It takes a `query`, a `topic` and a `limit`, all optional, and returns a list of `{"id",
    /// "text", "topic", "saved"}`. It only finds entries of the run's caller. The result is
    /// recorded like the result of any tool, so a resumed run has the same result.
    recall RECALL Recall ["query", "topic", "limit"]
}

memory_tool! {
    /// A tool with which a model removes a memory of its user: see [`memory`](crate::memory).
    ///
    /// It takes the `id` and returns whether the run's caller had such an entry.
    forget FORGET Forget ["id"]
}
