//! Codes of the problems of names that a program cannot resolve: `reference.*`. `{name}` is
//! replaced by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    A2A_FEATURE_MISSING = "reference.a2a-feature-missing",
        "the agent at {endpoint} needs the feature `a2a-client`, without which this program is built";
    AGENT_OF_INVALID_DOCUMENT = "reference.agent-of-invalid-document",
        "the agent {agent} cannot be built: its document {document} has problems";
    CANNOT_BE_BUILT = "reference.cannot-be-built",
        "the {kind} {name} cannot be built: {problem}";
    CALLS_ITSELF = "reference.calls-itself",
        "the workflow {workflow} cannot be built: {way}";
    DUPLICATE_AGENT = "reference.duplicate-agent",
        "two agents are named {name}: at {first} and at {second}"
            => "rename one or give it `#[agent(name = \"..\")]`";
    DUPLICATE_TOOL = "reference.duplicate-tool",
        "two tools are named {name}: at {first} and at {second}"
            => "rename one or give it `#[tool(name = \"..\")]`";
    INVALID_SCHEMA = "reference.invalid-schema",
        "the {item} {name}: {problem}";
    INVALID_TOOL_NAME = "reference.invalid-tool-name",
        "the tool name {name} at {place} does not work: use 1 to 64 letters, digits, `_` or `-`";
    NAME_TAKEN = "reference.name-taken",
        "two {kind}s are named {name}: {first}, and {second}"
            => "rename one, or give it once";
    NO_OBJECT_SCHEMA = "reference.no-object-schema",
        "the parameters of the tool {name} are not a JSON Schema of an object, which is all that a model can fill in"
            => "take one struct with named fields";
    NOT_LINKED = "reference.not-linked",
        "these tools are not linked into the program: {names}"
            => "if their crate is a dependency, name it somewhere, as in `use that_crate as _;`";
    OTHER_KIND = "reference.other-kind",
        "this program has no {kind} {name}, but the {other} {name}"
            => "write `\"kind\": \"{other}\"`";
    SHARED_WIRE_NAME = "reference.shared-wire-name",
        "a model would call the tools {first} and {second} by one name, {name}"
            => "rename one";
    TOOL_GIVEN_TWICE = "reference.tool-given-twice",
        "the tool {name} is given twice"
            => "name it once";
    TOOL_NOT_FOUND = "reference.tool-not-found",
        "there is no tool {name}";
    TOOLS_NOT_FETCHED = "reference.tools-not-fetched",
        "the tools of the toolset {toolset} were not fetched yet, and {tool} may be one"
            => "start the workflow, or await `runtime.catalogue().snapshot()`, which fetch them";
    TOOLSET_UNAVAILABLE = "reference.toolset-unavailable",
        "the tools of {toolset} could not be fetched: {problem}";
    UNKNOWN_A2A_AGENT = "reference.unknown-a2a-agent",
        "this program has no A2A agent {agent}"
            => "give its runtime an `A2aClient` of this name, or its configuration an entry in `a2a_agents`";
    UNKNOWN_AGENT = "reference.unknown-agent",
        "this program has no agent {agent}"
            => "write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`";
    UNKNOWN_ITEM = "reference.unknown-item",
        "this program has no {kind} {name}";
    UNKNOWN_SERVER = "reference.unknown-server",
        "this program has no tool {tool}, since it has no MCP server {server}"
            => "give its runtime an `McpClient` of this name, or its configuration an entry in `mcp_servers`";
    UNKNOWN_TOOL = "reference.unknown-tool",
        "this program has no tool {tool}";
    UNKNOWN_TOOL_OF_LINKED = "reference.unknown-tool-of-linked",
        "this program has no tool {tool}"
            => "`cli::run()` knows the tools that are linked into the program, and `cli::run_with(&runtime)` also those that a runtime was given";
    UNUSABLE_COMPENSATION = "reference.unusable-compensation",
        "{by}, which is to undo the tool {tool}, {problem}";
    UNUSABLE_ITEM = "reference.unusable-item",
        "the {kind} {name} cannot be used: {problem}";
}
