//! Names from other frameworks and from this project's specifications. A search in the
//! documentation finds each one as an item or as an alias.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::workspace::{LIBRARIES, root};

const NAMES: &[&str] = &[
    // Tools.
    "ToolRegistry",
    "ToolService",
    "ToolSpec",
    "ToolRequest",
    "ToolStreamChunk",
    "BuiltinTool",
    "MCPTool",
    "MCPClientManager",
    "execute_tool",
    "execute_tool_stream",
    "list_available_tools",
    "register_tool",
    "discover_tools",
    // Models.
    "OpenAIAdapter",
    "AnthropicAdapter",
    "GeminiAdapter",
    "LocalAdapter",
    "LiteLlm",
    // Agents.
    "AIAssistant",
    "AgentManager",
    "DomainAgent",
    "AgentHooks",
    "UniversalMessage",
    "UserContext",
    "SessionContext",
    "ExecutionContext",
    "LiveCommunicator",
    "InteractionRequest",
    "InteractionResponse",
    "interaction_id",
    "send_cancellation",
    "LlmAgent",
    // Nodes.
    "SequentialAgent",
    "ParallelAgent",
    "LoopAgent",
    "TransformNode",
    "TapNode",
    "GateNode",
    "FallbackNode",
    "RaceNode",
    "MapOverNode",
    "TimeoutNode",
    "RouteNode",
    "OpaqueADKNode",
    // State, contracts and middleware.
    "TransformSemantics",
    "writes_keys",
    "reads_keys",
    "produces_type",
    "consumes_type",
    "is_assignable_to",
    "TokenBudgetMiddleware",
    "MiddlewarePlugin",
    "LifespanPlugin",
    // Workflows and their host.
    "WorkflowDefinition",
    "CompiledWorkflow",
    "NodeRun",
    "FixedRef",
    "NodeDependency",
    "RunService",
    "WorkflowEngine",
    "StateManager",
    "PyFlowPlatform",
    "Hydrator",
    "hydrate",
    "to_agent_card",
    "agent_cards",
    // Terms of other libraries.
    "preamble",
    "system_prompt",
    "prompt",
    "deps",
    "interrupt",
    "checkpointer",
    "thread",
];

#[test]
fn names_of_other_frameworks_are_found_by_a_search() {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> = LIBRARIES.map(|folder| root().join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for alias in text.split("#[doc(alias = \"").skip(1) {
                    found.extend(alias.split('"').next().map(str::to_owned));
                }
            }
        }
    }
    let missing: Vec<_> = NAMES.iter().filter(|name| !found.contains(**name)).collect();
    assert!(
        missing.is_empty(),
        "add `#[doc(alias = ..)]` to the item that has this role: {missing:?}"
    );
}
