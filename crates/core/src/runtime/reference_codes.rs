//! Codes of the problems of names that a program cannot resolve: `reference.*`. `{name}` is
//! replaced by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    A2A_FEATURE_MISSING = "reference.a2a-feature-missing",
        "the agent at {endpoint} needs the feature `a2a-client`, without which this program is built";
    AGENT_OF_INVALID_DOCUMENT = "reference.agent-of-invalid-document",
        "the agent {agent} cannot be built: its document {document} has problems";
    CALLS_ITSELF = "reference.calls-itself",
        "the workflow {workflow} cannot be built: {way}";
    OTHER_KIND = "reference.other-kind",
        "this program has no {kind} {name}, but the {other} {name}"
            => "write `\"kind\": \"{other}\"`";
    TOOLS_NOT_FETCHED = "reference.tools-not-fetched",
        "the tools of the toolset {toolset} were not fetched yet, and {tool} may be one"
            => "start the workflow, or await `runtime.catalogue().snapshot()`, which fetch them";
    TOOLSET_UNAVAILABLE = "reference.toolset-unavailable",
        "{problem}";
    UNKNOWN_A2A_AGENT = "reference.unknown-a2a-agent",
        "this program has no A2A agent {agent}"
            => "give its runtime an `A2aClient` of this name, or its configuration an entry in `a2a_agents`";
    UNKNOWN_AGENT = "reference.unknown-agent",
        "this program has no agent {agent}"
            => "write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`";
    UNKNOWN_SERVER = "reference.unknown-server",
        "this program has no tool {tool}, since it has no MCP server {server}"
            => "give its runtime an `McpClient` of this name, or its configuration an entry in `mcp_servers`";
    UNKNOWN_TOOL = "reference.unknown-tool",
        "this program has no tool {tool}";
    UNKNOWN_TOOL_OF_LINKED = "reference.unknown-tool-of-linked",
        "this program has no tool {tool}"
            => "`cli::run()` knows the tools that are linked into the program, and `cli::run_with(&runtime)` also those that a runtime was given";
    UNUSABLE_AGENT = "reference.unusable-agent",
        "{problem}";
    UNUSABLE_GRAPH = "reference.unusable-graph",
        "{problem}";
    UNUSABLE_MODEL = "reference.unusable-model",
        "{problem}";
    UNUSABLE_TOOL = "reference.unusable-tool",
        "{problem}";
    UNUSABLE_WORKFLOW = "reference.unusable-workflow",
        "{problem}";
}
