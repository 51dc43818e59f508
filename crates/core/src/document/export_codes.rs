//! Codes of workflows that a form of document cannot express: `export.*`. `{name}` is replaced by
//! an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    AGENT_DESCRIBED = "export.agent-described",
        "it describes the agent {agent}, and a document of this form only names agents";
    AGENT_NAMED = "export.agent-named",
        "it names the agent {agent}, and a document of this form describes the model, the instruction and the tools of its agents";
    AGENT_WITH_OTHER_TOOLS = "export.agent-with-other-tools",
        "it describes the agent {agent}, and an agent of this form chooses among the tools of a server";
    ALL_ARMS = "export.all-arms",
        "it takes all arms that hold, and a `route` takes one";
    ARMS_NOT_JOINED = "export.arms-not-joined",
        "its arms do not lead to a node with the output of the selected arm, and the arms of a `route` do";
    CALL_CHANGES_OUTPUT = "export.call-changes-output",
        "it changes the output of {callee} with `gives`, and a tree cannot express that";
    CALL_OF_INNER_WORKFLOW = "export.call-of-inner-workflow",
        "it calls the inner workflow {inner}: {problem}";
    CALL_OF_OTHER_KIND = "export.call-of-other-kind",
        "it calls the {kind} {callee}, and a node of this form calls a tool";
    CALL_NOT_OF_AGENT = "export.call-not-of-agent",
        "it calls the {kind} {callee}, and a document of this form consists of agents";
    CALL_NOT_REMOTE = "export.call-not-remote",
        "it calls the {kind} {callee}, and a node of this form calls a tool of an MCP server or a remote agent";
    CALL_WITH_OTHER_VALUE = "export.call-with-other-value",
        "it gives {callee} another value than the one before it, and in a tree a call within another part has no `with`";
    CALLED_TWICE = "export.called-twice",
        "it calls the inner workflow {inner}, which another node calls too, and a part has one place";
    CONCURRENCY = "export.concurrency",
        "its `concurrency` is {concurrency}, and a tree always has {expected}";
    CONDITION_NOT_CEL = "export.condition-not-cel",
        "its condition is not a CEL expression";
    CONDITION_READS_INPUT = "export.condition-reads-input",
        "its condition reads the `input` of the workflow, and at this place `input` is the output of {given}";
    DECIDER_OF_NODE = "export.decider-of-node",
        "it asks another decider, and a document has one `decider` for all nodes";
    EDGE_CONDITION = "export.edge-condition",
        "the edge from {from} has a condition that this form cannot express";
    EDGE_ORDER = "export.edge-order",
        "this form cannot express the order of its edges";
    ENDS_RUN = "export.ends-run",
        "it ends the run, and a tree ends with its last part";
    FAILURE_OF_OTHER_NODE = "export.failure-of-other-node",
        "this form cannot express that another node follows its failure";
    FAILURE_WITH_SEVERAL_TARGETS = "export.failure-with-several-targets",
        "several nodes follow its failure, and a node of this form has one `on_error_node_id`";
    FIRST_OF_SEVERAL = "export.first-of-several",
        "it takes the first of several outputs, and no `route` ends there";
    FOLLOWS_CONDITION = "export.follows-condition",
        "it follows {from} under a condition, and a tree has no such edges";
    FOLLOWS_FAILURE = "export.follows-failure",
        "it starts when {from} fails, and a tree has no such edges";
    INNER_WITH_DESCRIPTION = "export.inner-with-description",
        "the inner workflow {inner} has a description, and a part of a tree has none";
    INNER_WORKFLOW = "export.inner-workflow",
        "it contains the workflow {inner}, and a document of this form describes one workflow";
    INNER_WORKFLOW_CHANGED = "export.inner-workflow-changed",
        "the document would change the inner workflow {inner}";
    INNER_WORKFLOW_MISSING = "export.inner-workflow-missing",
        "it calls the workflow {callee} as a part, and that workflow is missing"
            => "give the inner workflows to `export_with`";
    INNER_WORKFLOW_NAME = "export.inner-workflow-name",
        "the inner workflow {inner} has a name that a tree does not give"
            => "name it `{workflow}.` and the name of its part";
    INNER_WORKFLOW_NOT_CALLED = "export.inner-workflow-not-called",
        "no node calls the inner workflow {inner}";
    INNER_WORKFLOW_TWICE = "export.inner-workflow-twice",
        "two inner workflows are named {inner}"
            => "rename one";
    INPUT_COUNT = "export.input-count",
        "it has {count} inputs, and a tree has one, `input`";
    INPUT_NAME = "export.input-name",
        "its input is {input}, and the input of a tree is `input`";
    INPUT_NOT_MESSAGE = "export.input-not-message",
        "its inputs are {inputs}, and a document of this form has one, the text `message`";
    INPUT_NOT_STATE = "export.input-not-state",
        "a workflow of this form has one input, `input`, an object with the first values of the state";
    MESSAGE_WITHOUT_INPUT = "export.message-without-input",
        "the message to {callee} does not end with the input of the node";
    MISPLACED = "export.misplaced",
        "it waits for {nodes}, and a part of a tree after {before} does not: parts follow one another, or start and end together";
    MISPLACED_START = "export.misplaced-start",
        "it waits for no node, and a part of a tree after {before} does: parts follow one another, or start and end together";
    MORE_INNER_WORKFLOWS = "export.more-inner-workflows",
        "the document would have more inner workflows";
    NO_AGENT = "export.no-agent",
        "it calls no agent, and a document of this form consists of agents";
    NO_INPUT = "export.no-input",
        "it has no input, and a document of this form has one, the text `message`";
    NO_NODE = "export.no-node",
        "it has no nodes besides its input";
    NO_REMOTE_CALL = "export.no-remote-call",
        "it calls neither an MCP server nor a remote agent";
    NO_TIME_LIMIT = "export.no-time-limit",
        "it has no time limit, and a node of this form always has one"
            => "set `timeout_ms`";
    NO_TOOL_CALL = "export.no-tool-call",
        "it does not call a tool";
    NODE_CHANGED = "export.node-changed",
        "the document would change it";
    NODE_IS_CODE = "export.node-is-code",
        "it is code, and a document contains data";
    NODE_NOT_EXPRESSIBLE = "export.node-not-expressible",
        "this form cannot express it";
    NODE_ORDER = "export.node-order",
        "the document would change the order of its nodes";
    NOT_A_TEMPLATE = "export.not-a-template",
        "it uses the value {value}, which a template of this form cannot express";
    NOT_READABLE = "export.not-readable",
        "the document could not be read: {problem}";
    OPTIONS_OF_PARALLEL = "export.options-of-parallel",
        "it combines the outputs of parallel parts, so it cannot save a key or have a policy or a schema";
    OPTIONS_OF_ROUTE = "export.options-of-route",
        "it combines the arms of a `route`, so it cannot save a key or have a policy or a schema";
    OTHER_OUTPUT = "export.other-output",
        "it returns the output of the node {output}, and a tree returns the output of its last part, {last}";
    OTHER_SOURCE = "export.other-source",
        "it uses the output of {other}, and the value before it is the output of {given}";
    PART_NAME = "export.part-name",
        "a part of a tree cannot be named {name}"
            => "use letters, digits and `_`, and a letter first";
    PART_NAMED_OTHERWISE = "export.part-named-otherwise",
        "it calls {callee}, and the workflow of a part has the name of its node";
    QUESTION_WITH_FORM = "export.question-with-form",
        "it asks for a value, and a `gate` asks for an approval";
    READS_OTHER_VALUES = "export.reads-other-values",
        "its input has other values than keys of the state";
    ROUTER_ALONE = "export.router-alone",
        "it is a router outside of a `route`";
    ROUTER_NAME = "export.router-name",
        "it is a router, which must be named {expected} in a tree";
    SAVES_PARTS = "export.saves-parts",
        "it saves more than its whole output under one key";
    SAVES_WHOLE_OUTPUT = "export.saves-whole-output",
        "it saves its whole output, and a node of this form saves fields of it";
    STARTS_EARLY = "export.starts-early",
        "it starts when some of its edges are taken, and a part of a tree waits for all";
    STOP_POLICY = "export.stop-policy",
        "it has a `stop_policy`, and a tree has none";
    TAP_WITHOUT_CALL = "export.tap-without-call",
        "it is a `tap` without a call";
    TOO_DEEP = "export.too-deep",
        "its parts are nested more than {most} levels deep, and such documents cannot be read";
    TOOL_WITHOUT_SERVER = "export.tool-without-server",
        "the name {callee} does not contain the name of its server";
    UNCONDITIONAL_EDGES = "export.unconditional-edges",
        "the edge from {from} has a condition, and the edges of this form have none";
    WITHOUT_JOIN = "export.without-join",
        "the nodes {first} and {last} start together, and no node combines their outputs";
}
