//! Codes of the problems of documents: `document.*`. `{name}` is replaced by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    ABSENT_FIELD = "document.absent-field",
        "missing field {field}";
    AGENT_NOT_ORDERED = "document.agent-not-ordered",
        "`orchestration` does not name the agent {agent}"
            => "add or remove it";
    AGENT_OF_MCP_NODE = "document.agent-of-mcp-node",
        "{node} is bound to an agent, and a node of the kind `mcp` to a server";
    AGENT_OF_NODE_EXISTS = "document.agent-of-node-exists",
        "{agent} is the name of another agent of this document"
            => "rename the node";
    AGENT_ORDERED_TWICE = "document.agent-ordered-twice",
        "{agent} is in the order twice"
            => "a node has one place";
    AGENT_WITHOUT_MODEL = "document.agent-without-model",
        "the agent {agent} has no model"
            => "give the document a `model`, such as `openai/gpt-5-mini`, or the runtime one with `Runtime::builder().model(..)`";
    AGENTS_WITHOUT_ORCHESTRATION = "document.agents-without-orchestration",
        "a document with {field} needs `orchestration`, which says in what order they run: `orchestration: {type: sequential, agents: [..]}`";
    BINDING_OF_OTHER_KIND = "document.binding-of-other-kind",
        "{node} is bound to {bound}, and a node of the kind {kind} to {expected}";
    CONDITION_KEY_OF_OTHER_EDGE = "document.condition-key-of-other-edge",
        "only an edge with `edge_type: conditional` has a `condition_key`";
    CONFIG_NOT_AN_OBJECT = "document.config-not-an-object",
        "`config` is an object, and this is {found}";
    CYCLE = "document.cycle",
        "these nodes wait for each other: {nodes}"
            => "a workflow cannot have a cycle";
    DUPLICATE_AGENT = "document.duplicate-agent",
        "two agents are named {agent}"
            => "rename one";
    DUPLICATE_EDGE = "document.duplicate-edge",
        "a second edge leads from {from} to {to} in the same way"
            => "remove one";
    DUPLICATE_EDGE_ID = "document.duplicate-edge-id",
        "two edges have the id {edge}"
            => "rename one";
    DUPLICATE_NODE = "document.duplicate-node",
        "two nodes are named {node}"
            => "rename one";
    DUPLICATE_STEP = "document.duplicate-step",
        "two steps are named {step}"
            => "rename one";
    EDGE_FROM_TERMINAL = "document.edge-from-terminal",
        "{from} ends the workflow, so no edge leads from it";
    EDGE_TO_ITSELF = "document.edge-to-itself",
        "the edge leads from {from} to itself";
    EDGE_WITHOUT_CONDITION = "document.edge-without-condition",
        "the edge from {from} to {to} has no condition"
            => "give it a `condition_key`";
    EDGES_WITHOUT_WORKFLOW_ID = "document.edges-without-workflow-id",
        "a document with {field} needs `workflow_id`, the name of the workflow, and `nodes`";
    EMPTY_DECIDER = "document.empty-decider",
        "`decider` is empty"
            => "name the agent that is asked";
    EMPTY_FIELD = "document.empty-field",
        "{field} of {item} is empty";
    EMPTY_ORCHESTRATION = "document.empty-orchestration",
        "`orchestration` needs at least one agent in `agents`";
    EMPTY_POOL = "document.empty-pool",
        "the dependency {dependency} is required, and its pool has no candidates"
            => "name some, or say `required: false`";
    ENDLESS_LOOP = "document.endless-loop",
        "a `loop` needs `max_iterations`, or an agent with the tool {tool}, which ends it";
    ERROR_TARGET_IS_ITSELF = "document.error-target-is-itself",
        "{node} cannot follow its own failure"
            => "name another node";
    ERROR_TARGET_OF_OTHER_POLICY = "document.error-target-of-other-policy",
        "`on_error_node_id` belongs to `on_error: route_to_node`"
            => "say so, or remove it";
    FIELD_NOT_A_BOOLEAN = "document.field-not-a-boolean",
        "{field} is `true` or `false`, and this is {found}";
    FIELD_NOT_A_LIST = "document.field-not-a-list",
        "{field} is a list, and this is {found}";
    FIELD_NOT_A_TEXT = "document.field-not-a-text",
        "{field} is a text, and this is {found}";
    FIELD_NOT_AN_OBJECT = "document.field-not-an-object",
        "{field} is an object, and this is {found}";
    FIELD_OF_CALL = "document.field-of-call",
        "a {kind} calls nothing, so it has no {field}"
            => "remove it";
    FIELD_OF_NO_FORM = "document.field-of-no-form",
        "the document has none of the known forms; the forms are {forms}; the field {field} belongs to none of them";
    FIELD_OF_OTHER_KIND = "document.field-of-other-kind",
        "only a node of the kind {owner} has {field}, and this is a {kind}";
    FIELD_OF_OTHER_STEP = "document.field-of-other-step",
        "a step of the kind {kind} has no {field}"
            => "it says {expected}";
    FIXED_REFERENCE_OF_POOL = "document.fixed-reference-of-pool",
        "`fixed_ref` belongs to `resolution_mode: fixed`"
            => "say so, or remove it";
    GROUP_OF_JOIN_WITHOUT_GROUP = "document.group-of-join-without-group",
        "the edge is of the group {group}, and the join {join} has no `join_group`";
    GROUP_OF_OTHER_JOIN = "document.group-of-other-join",
        "the edge is of the group {group}, and the join {join} joins {joined}";
    GROUP_WITHOUT_JOIN = "document.group-without-join",
        "the edge is of the group {group}, and {node} is not a join"
            => "let it lead to a join";
    INPUT_OF_RESOURCE = "document.input-of-resource",
        "{node} reads one resource, so it is given nothing"
            => "remove `input_mapping`, or `resource_uri`";
    INPUT_TYPE = "document.input-type",
        "the input {input}: its type in the program does not fit: {problem}";
    INVALID_ENDPOINT = "document.invalid-endpoint",
        "the `endpoint` {endpoint} is not an address that begins with `http://` or `https://`, such as `https://agents.example`";
    INVALID_SECONDS = "document.invalid-seconds",
        "`seconds` is a number above 0, and this is {seconds}";
    INVALID_VALUE = "document.invalid-value",
        "invalid value: {problem}";
    ITEM_NOT_AN_OBJECT = "document.item-not-an-object",
        "{item} is an object, and this is {found}";
    ITERATIONS_OF_OTHER_ORCHESTRATION = "document.iterations-of-other-orchestration",
        "only a `loop` has `max_iterations`";
    JOIN_GROUP_WITHOUT_EDGE = "document.join-group-without-edge",
        "no edge of the group {group} leads to the join {join}";
    JOIN_WITHOUT_EDGE = "document.join-without-edge",
        "no edge leads to the join {join}";
    LASTING_OUTPUT_KEY = "document.lasting-output-key",
        "{key} outlives the run, and an answer is saved for its run or its session"
            => "leave the prefix out";
    MISSING_AGENT_BINDING = "document.missing-agent-binding",
        "{node} is bound to exactly one agent, by a dependency of the type `a2a_agent`";
    MISSING_CAPABILITY = "document.missing-capability",
        "{node} needs `capability`, by which a model chooses among the tools of its server, or `tool_name` in its `fixed_ref`";
    MISSING_ERROR_TARGET = "document.missing-error-target",
        "{node} needs `on_error_node_id`, or an edge with `condition_key: error`, for `route_to_node`";
    MISSING_FIELD = "document.missing-field",
        "{item} needs {field}";
    MISSING_FIXED_REFERENCE = "document.missing-fixed-reference",
        "a dependency with `resolution_mode: fixed` needs `fixed_ref`";
    MISSING_JOIN_GROUP = "document.missing-join-group",
        "the join {join} needs `join_group`, the group of the edges that it waits for";
    MISSING_OPERATOR = "document.missing-operator",
        "a part needs one of {operators}";
    MISSING_POOL = "document.missing-pool",
        "a dependency with `resolution_mode: pool` needs `pool_refs`, a list of candidates";
    MISSING_POOL_CAPABILITY = "document.missing-pool-capability",
        "{node} needs `capability`, by which a model chooses among the tools of a server, or a `tool_name` in each candidate";
    MISSING_RESOURCE = "document.missing-resource",
        "{node} needs `resource_uri`, the address of the resource, or an `input_mapping` that gives `uri`";
    MISSING_SECONDS = "document.missing-seconds",
        "a `timeout` needs `seconds`, how long the part may take";
    MISSING_SERVER = "document.missing-server",
        "{node} is bound to no server"
            => "give it one in `dependencies`, with a `fixed_ref` that has a `server_id`";
    MISSING_STEP_TEXT = "document.missing-step-text",
        "a step of the kind {kind} needs {field}";
    MISSING_TASK = "document.missing-task",
        "{node} needs `task`, the request to the agent";
    MISSING_TOPOLOGY = "document.missing-topology",
        "a tree needs `topology`, the part that the workflow consists of";
    MORE_PROBLEMS = "document.more-problems",
        "{count} more problems are not listed"
            => "correct these first";
    NAME_OF_TWO_FILES = "document.name-of-two-files",
        "{workflow} is also the workflow of {file}"
            => "rename one";
    NO_AGENTS = "document.no-agents",
        "a document of agents has at least one agent";
    NO_NODES_OF_EDGES = "document.no-nodes-of-edges",
        "a document of nodes and edges has at least one node";
    NO_NODES_OF_TOOLS = "document.no-nodes-of-tools",
        "a document of tools has at least one node";
    NO_ROUNDS = "document.no-rounds",
        "a `loop` has at least 1 round"
            => "give `max` at least 1";
    NO_STEPS = "document.no-steps",
        "a document of steps has at least one step";
    NODE_NOT_AN_OBJECT = "document.node-not-an-object",
        "a node is an object, and this is {found}";
    NODES_WITHOUT_ID = "document.nodes-without-id",
        "a document with {field} needs `id`, where each node names a `tool`, `output`, where it is a graph and says whose output the workflow has, or `workflow_id` and `edges`";
    NOT_AN_OBJECT = "document.not-an-object",
        "a document is an object, and this is {found}"
            => "the forms are {forms}";
    OPERATOR_NOT_A_LIST = "document.operator-not-a-list",
        "{operator} is a list of parts, and this is {found}";
    OPERATOR_NOT_A_TEXT = "document.operator-not-a-text",
        "{operator} is a text, and this is {found}";
    OPERATOR_WITHOUT_PARTS = "document.operator-without-parts",
        "{operator} has at least one part";
    ORCHESTRATION_WITHOUT_AGENTS = "document.orchestration-without-agents",
        "a document with {field} needs `agents`, a list of the agents that it names";
    OUTPUT_SCHEMA_NOT_AN_OBJECT = "document.output-schema-not-an-object",
        "`output_schema` is a JSON Schema, an object, and this is {found}";
    OUTPUT_TYPE = "document.output-type",
        "the output of {node} does not fit its type in the program: {problem}";
    PART_IS_A_LIST = "document.part-is-a-list",
        "a part is an object, and this is a list"
            => "name the order of its parts, as in `sequence: [..]`";
    PART_NOT_AN_OBJECT = "document.part-not-an-object",
        "a part is an object such as `tool: count_words` or `sequence: [..]`, and this is {found}";
    POOL_AND_DEPENDENCY = "document.pool-and-dependency",
        "{node} has a pool and another dependency"
            => "keep one of both";
    POOL_NOT_ALLOWED = "document.pool-not-allowed",
        "the dependency {dependency} is required, and none of its candidates is among the servers that may be bound, by `acl_server_ids` or `acl_scope`";
    POOL_OF_FIXED_REFERENCE = "document.pool-of-fixed-reference",
        "`pool_refs` belong to `resolution_mode: pool`"
            => "remove them, or `fixed_ref`";
    PROMPT_WITHOUT_NAME = "document.prompt-without-name",
        "{reference} of a prompt needs `prompt_name`, the name that the server gives the prompt";
    PROMPT_WITHOUT_SERVER = "document.prompt-without-server",
        "{reference} of a prompt needs `server_id`, the name that the program gave the server";
    REFERENCE_WITHOUT_AGENT = "document.reference-without-agent",
        "{reference} of an agent needs `agent_id`, the name that the program gave the agent, or `endpoint`, its address";
    RESERVED_NODE_NAME = "document.reserved-node-name",
        "{name} is the name of the workflow's input"
            => "give the node another one";
    RESERVED_STEP_NAME = "document.reserved-step-name",
        "{step} is the name of the workflow's input"
            => "give the step another one";
    RESOURCE_WITHOUT_SERVER = "document.resource-without-server",
        "{reference} of a resource needs `server_id`, the name that the program gave the server";
    ROUTE_NOT_A_LIST = "document.route-not-a-list",
        "`route` is a list such as [{when: .., then: ..}], and this is {found}";
    ROUTE_WITHOUT_ARMS = "document.route-without-arms",
        "`route` has at least one arm";
    ROUTER_EDGE_WITHOUT_CONDITION = "document.router-edge-without-condition",
        "the edge from {from} to {to} has no condition"
            => "give it a `condition_key`, or the router a `condition_expr`";
    ROUTER_WITHOUT_CHOICE = "document.router-without-choice",
        "the router {router} chooses nothing"
            => "give it a `condition_expr`, or an edge with `edge_type: conditional`";
    SECOND_POOL = "document.second-pool",
        "a node has one pool"
            => "let the other dependency have a `fixed_ref`";
    SERVER_NOT_ALLOWED = "document.server-not-allowed",
        "the server {server} is not among the servers that may be bound, by `acl_server_ids` or `acl_scope`";
    SEVERAL_DEPENDENCIES = "document.several-dependencies",
        "{node} has several dependencies, so a model chooses among tools"
            => "bind {name} in a separate node";
    STEP_TARGET_IS_A_TEXT = "document.step-target-is-a-text",
        "{field} is a text and not the name of {target}"
            => "add {missing}";
    STEPS_WITHOUT_WORKFLOW_ID = "document.steps-without-workflow-id",
        "a document with {field} needs `workflow_id`, the name of the workflow";
    TOO_MANY_CANDIDATES = "document.too-many-candidates",
        "pool_refs must contain at most {most} candidates";
    TOOL_NOT_GIVEN = "document.tool-not-given",
        "{tool} is not one of the tools that the document is given"
            => "add it to `tools = [..]`";
    TOOL_WITHOUT_SERVER = "document.tool-without-server",
        "{reference} of a tool needs `server_id`, the name that the program gave the server";
    TWO_ERROR_TARGETS = "document.two-error-targets",
        "`on_error_node_id` leads the failure of {node} to {target}, and its edge with `condition_key: {key}` leads to {other}"
            => "keep one of both";
    TWO_FORMS = "document.two-forms",
        "the document has two forms: {one}, by {by}, and {other}, by {also}"
            => "remove what belongs to one of them";
    TWO_OPERATORS = "document.two-operators",
        "a part is either {one} or {other}"
            => "put one in the other";
    TWO_SPELLINGS = "document.two-spellings",
        "{first} and {field} are one field"
            => "keep one";
    TWO_TOPOLOGIES = "document.two-topologies",
        "`topology` and `root` are one field"
            => "keep one";
    UNEXPECTED_FIELD = "document.unexpected-field",
        "unknown field {field}";
    UNEXPECTED_TYPE = "document.unexpected-type",
        "invalid type: {found}, expected {expected}";
    UNEXPECTED_VALUE = "document.unexpected-value",
        "invalid value: {found}, expected {expected}";
    UNEXPECTED_WORD = "document.unexpected-word",
        "unknown variant {value}";
    UNKNOWN_AGENT = "document.unknown-agent",
        "there is no agent {agent} in this document";
    UNKNOWN_AGENT_TYPE = "document.unknown-agent-type",
        "the type of an agent is `llm`, and this is {found}";
    UNKNOWN_DEPENDENCY = "document.unknown-dependency",
        "{node} depends on {dependency}, and there is no such node";
    UNKNOWN_FIELD = "document.unknown-field",
        "{item} has no {field}";
    UNKNOWN_FORM = "document.unknown-form",
        "the document has none of the known forms"
            => "the forms are {forms}";
    UNKNOWN_NODE = "document.unknown-node",
        "{reference} {node}, and there is no such node";
    UNKNOWN_OPERATOR = "document.unknown-operator",
        "a part has no {field}"
            => "a tool is called with `tool: {word}`";
    UNKNOWN_ORCHESTRATION = "document.unknown-orchestration",
        "there is no orchestration {orchestration}";
    UNKNOWN_PLACEHOLDER = "document.unknown-placeholder",
        "the agent {agent} is shown {root}, and no agent before it gives it"
            => "a placeholder is the `output_key` or the name of an agent before it, or `message`";
    UNKNOWN_SCHEMA_KEYWORD = "document.unknown-schema-keyword",
        "a JSON Schema has no {keyword}";
    UNKNOWN_VALUE = "document.unknown-value",
        "{field} of {item} cannot be {value}";
    UNLIMITED_LOOP = "document.unlimited-loop",
        "a `loop` needs `max`, the most rounds, or `until`, a condition";
    UNQUOTED_PLACEHOLDER = "document.unquoted-placeholder",
        "without quotes YAML reads `{{word}}` as an object"
            => "write \"{{word}}\"";
    UNREADABLE_FILE = "document.unreadable-file",
        "the file cannot be read: {problem}";
    UNWRITTEN_STATE = "document.unwritten-state",
        "`condition_expr`: write `state.{root}` for the key {root}";
    WORKFLOW_ID_WITHOUT_NODES = "document.workflow-id-without-nodes",
        "a document with {field} needs `nodes` and `edges`, or `steps`, which run one after another";
}
