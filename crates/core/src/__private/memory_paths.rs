//! `remember`, `recall` and `forget`: the tools by which a model works with the memories of its user, as paths and as values.
//! They keep and find nothing: `memory/` does.

use std::any::TypeId;

use serde_json::Value;

use super::tool::{LinkedTool, PathTool, Provided};
use crate::tool::{MemoryTool, MemoryToolKind, memory_resources};

macro_rules! memory_tool {
    ($(#[$doc:meta])* $name:ident $STATIC:ident $Kind:ident $parameters:tt) => {
        $(#[$doc])*
        pub fn $name() -> MemoryTool {
            MemoryTool::new(MemoryToolKind::$Kind)
        }

        /// The path in a list of tools.
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        pub struct $name {}

        static $STATIC: LinkedTool = LinkedTool::provided(
            stringify!($name),
            (file!(), line!()),
            Provided {
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
    /// The tool by which a model remembers something of its user for later runs: see [`memory`](crate::memory).
    ///
    /// As a path it is a tool like any other, in `tools![..]` and `#[agent(tools = [..])]`; as a function it gives the tool with
    /// settings. It takes `text` and, if the model likes, a `topic`, saves them for the run's caller, and answers with the id.
    /// A call that runs again after a crash, or is retried, leaves one entry.
    remember REMEMBER Remember ["text", "topic"]
}

memory_tool! {
    /// The tool by which a model finds what was remembered of its user: see [`memory`](crate::memory).
    ///
    /// It takes `query`, `topic` and `limit`, none of which it must have, and answers with a list of `{"id", "text", "topic",
    /// "saved"}`: the entries of the run's caller and of nobody else. The answer is recorded as that of any tool, so a run that
    /// is resumed has found the same.
    recall RECALL Recall ["query", "topic", "limit"]
}

memory_tool! {
    /// The tool by which a model removes something that was remembered of its user: see [`memory`](crate::memory).
    ///
    /// It takes the `id` and answers whether there was such an entry of the run's caller.
    forget FORGET Forget ["id"]
}
