//! Codes of the problems of graphs and of workflows that are built in code: `graph.*`. `{name}`
//! is replaced by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    ANSWER_READS_NODE = "graph.answer-reads-node",
        "the node {node}: what `gives` makes of the answer of {callee} reads `item` alone"
            => "read other outputs in a node of `value` behind it";
    APPROVAL_OF_SYNC_TOOL = "graph.approval-of-sync-tool",
        "the node {node} calls {tool}, which needs a person's approval and is not `async`, so it cannot ask about its arguments"
            => "make the tool `async`";
    APPROVAL_TIMEOUT_WITHOUT_EFFECT = "graph.approval-timeout-without-effect",
        "the node {node} has an `approve_timeout` and asks for no approval before it begins";
    APPROVAL_WITHOUT_EFFECT = "graph.approval-without-effect",
        "the node {node} does not ask by its `approve`: {problem}";
    APPROVALS_OF_SYNC_TOOLS = "graph.approvals-of-sync-tools",
        "the node {node} makes {calls} calls that each need a person's approval, and a tool that is not `async` cannot wait in the middle of it"
            => "make the tool `async`";
    ARGUMENT_MISFIT = "graph.argument-misfit",
        "an argument of the {kind} {callee}, {problem}";
    ARGUMENTS_MISFIT = "graph.arguments-misfit",
        "the arguments of the {kind} {callee}: {problem}";
    ARGUMENTS_NOT_AN_OBJECT = "graph.arguments-not-an-object",
        "the {kind} {callee} is given an object";
    ARM_NEVER_TAKEN = "graph.arm-never-taken",
        "the node {node} can never begin: {router} never takes its arm {arm}, whose condition cannot hold when it is asked"
            => "correct the condition, or remove the arm";
    ARM_OF_NO_ROUTER = "graph.arm-of-no-router",
        "the edge from {router} to {node} has an arm, and {router} is not a router";
    BRANCH_NAME_WITH_SLASH = "graph.branch-name-with-slash",
        "{branch} cannot be the name of a branch of {node}: it must not contain `/`";
    CHANGE_READS_NODE = "graph.change-reads-node",
        "the node {node} has the placeholder {placeholder}, and a change of the state sees the state alone"
            => "save the output of `{word}` with `saves`, or make the text in a node of `value`";
    CHANGES_NOTHING = "graph.changes-nothing",
        "the node {node} changes nothing"
            => "name a change, such as `{\"drop\": [\"draft\"]}`";
    CODE = "graph.code",
        "the node {node} is code, which a graph does not have"
            => "give it a `does` that calls a tool, an agent or a workflow by its name, or `\"kind\": \"input\"`";
    CONCURRENT_SAVE = "graph.concurrent-save",
        "{first} and {second} may run at the same time, and each of them saves {key} in the state";
    CONDITION_READS_UNKNOWN_NODE = "graph.condition-reads-unknown-node",
        "the condition of an edge to {node} looks at {read}, and no such node precedes it";
    CONDITION_NOT_A_BOOLEAN = "graph.condition-not-a-boolean",
        "the value of `is` in a condition is `true` or `false`, and {found} is given"
            => "compare it with `equals`, or ask with `exists` whether it is there";
    CONDITION_OF_EDGE = "graph.condition-of-edge",
        "the condition of an edge to {node}: {problem}";
    CYCLE = "graph.cycle",
        "these nodes wait for each other: {nodes}"
            => "a workflow cannot have a cycle, and a node with `repeat` repeats steps";
    DECIDER_PARAMETERS = "graph.decider-parameters",
        "the {kind} {callee} decides about nodes, so it has one parameter, which is given the node"
            => "it has {count}";
    DECIDES_NOTHING = "graph.decides-nothing",
        "the node {node} asks a decider, and its `decides` names no node that calls something"
            => "name one";
    DECIDES_WITHOUT_DECIDER = "graph.decides-without-decider",
        "the node {node} has `decides` and asks no decider"
            => "give it `decide`, or remove it";
    DECISION_NOT_AWAITED = "graph.decision-not-awaited",
        "the node {node} does not wait for {decider}, which decides on it"
            => "add it to `after`";
    DUPLICATE_ARM = "graph.duplicate-arm",
        "the router {router} has two arms {arm}"
            => "name them apart";
    DUPLICATE_NODE = "graph.duplicate-node",
        "two nodes are named {node}"
            => "rename one";
    EDGE_OF_ANOTHER_WORKFLOW = "graph.edge-of-another-workflow",
        "an edge to the node {node} comes from a handle of another workflow";
    EDGE_WITH_TWO_WAYS = "graph.edge-with-two-ways",
        "the edge from {from} to {node} has more than one of `arm`, `failed` and `when`"
            => "keep one";
    EDGES_IN_AN_ARM = "graph.edges-in-an-arm",
        "the node {node} is in an arm of a router and has its own edges"
            => "put it outside";
    END_OF_ANOTHER_TYPE = "graph.end-of-another-type",
        "the node {node} ends the workflow with a {found}, and the workflow gives a {expected}";
    FIRST_OF_NOTHING = "graph.first-of-nothing",
        "`first` has no values"
            => "give it at least one";
    IMPOSSIBLE_START = "graph.impossible-start",
        "the node {node} begins when {needed} of its edges are taken, and {edges} lead to it";
    INVALID_BRANCH_NAME = "graph.invalid-branch-name",
        "{branch} cannot be the name of a branch of {node}: it must not {rule}";
    INVALID_NODE_NAME = "graph.invalid-node-name",
        "{node} cannot be the name of a node: no part between slashes may {rule}";
    INVALID_SAVED_KEY = "graph.invalid-saved-key",
        "the node {node} saves to the state: {problem}"
            => "`*` saves field by field";
    INVALID_SAVED_POINTER = "graph.invalid-saved-pointer",
        "the node {node} saves {key}: {problem}";
    INVALID_SCHEMA = "graph.invalid-schema",
        "the schema of {node}: {problem}";
    ITEM_HAS_NO_PART = "graph.item-has-no-part",
        "the item has nothing at {pointer}: {problem}";
    ITEM_OUTSIDE_OF_LOOP = "graph.item-outside-of-loop",
        "the node {node} uses `item`, and there is one only in `map` and `repeat`"
            => "use `from`";
    ITEM_OUTSIDE_OF_UNTIL = "graph.item-outside-of-until",
        "`item` is the last output of a repetition, in its `until` alone"
            => "name a node";
    ITEMS_SAVE_ONE_KEY = "graph.items-save-one-key",
        "the items of {node} run at the same time, and each of them saves {key} in the state";
    LATE_APPROVAL = "graph.late-approval",
        "`approve` is called after a node was added"
            => "call it first";
    LATE_DECIDER = "graph.late-decider",
        "`decider` is called after a node was added"
            => "call it first";
    MISSING_ARGUMENT = "graph.missing-argument",
        "the {kind} {callee} needs {argument}, which is not given";
    MISSING_TIMEOUT = "graph.missing-timeout",
        "the node {node} has an `on_timeout` and waits for its answer for ever"
            => "give it a {missing}";
    NEEDS_TEMPORARY_KEY = "graph.needs-temporary-key",
        "the node {node} needs {key}, which is gone after a crash"
            => "save it under a key without `temp:`, or let it be missing: `{{word}?}` in a text, else with `or`";
    NEVER_BEGINS = "graph.never-begins",
        "the node {node} can never begin: no arm of {router} leads to all that it needs{needs}";
    NEWER_VERSION = "graph.newer-version",
        "the graph is of version {version}, and this release reads up to {supported}"
            => "use a newer release";
    NO_ARMS = "graph.no-arms",
        "the router {router} has no arms"
            => "give it at least one";
    NO_BRANCHES = "graph.no-branches",
        "the node {node} has no branches"
            => "give it at least one";
    NO_CONCURRENCY = "graph.no-concurrency",
        "`concurrency` is how many nodes run at once"
            => "it is 1 or more";
    NO_ROUNDS = "graph.no-rounds",
        "the node {node} is repeated at most 0 times"
            => "give it at least 1";
    OPTIONAL_OUTPUT = "graph.optional-output",
        "the output is an optional one, which only bodies read"
            => "give the node's own";
    OUTPUT_HAS_NO_PART = "graph.output-has-no-part",
        "the output of {read} has nothing at {pointer}: {problem}";
    OUTPUT_HAS_NO_PATH = "graph.output-has-no-path",
        "the output of {read} has nothing at {path}: {problem}";
    OUTPUT_JOINS_NO_ARM = "graph.output-joins-no-arm",
        "when {router} takes {arms}, the workflow has no output: no arm that {node} puts together is taken then";
    OUTPUT_NEEDS_MORE_EDGES = "graph.output-needs-more-edges",
        "when {router} takes {arms}, the workflow has no output: {node} needs more edges than are taken then";
    OUTPUT_OF_ANOTHER_WORKFLOW = "graph.output-of-another-workflow",
        "the output is a handle of another workflow";
    OUTPUT_READS_SKIPPED = "graph.output-reads-skipped",
        "when {router} takes {arms}, the workflow has no output: {node} reads {read}, which is skipped then";
    OUTPUT_SKIPPED = "graph.output-skipped",
        "when {router} takes {arms}, the workflow has no output: {node} is skipped then";
    OVERLAPPING_PATHS = "graph.overlapping-paths",
        "the node {node} is named like a step within the node {above}, so after a restart one would take the other's output"
            => "rename one of them, without `/`";
    PLACEHOLDER_OF_NO_PART = "graph.placeholder-of-no-part",
        "the output of {read} has nothing there: {problem}";
    READ_IS_NOT_OPTIONAL = "graph.read-is-not-optional",
        "the node {node} may begin before {read} has an output"
            => "read `{word}.optional()`";
    READ_OF_ANOTHER_WORKFLOW = "graph.read-of-another-workflow",
        "the node {node} reads a handle of another workflow";
    REQUIRED_READ_IS_OPTIONAL = "graph.required-read-is-optional",
        "the node {node} cannot do without {read}"
            => "read it without `optional`";
    ROUTER_OF_ANOTHER_WORKFLOW = "graph.router-of-another-workflow",
        "a router of another workflow is given arms"
            => "call `route` of the same builder first";
    SAVED_PART_MISSING = "graph.saved-part-missing",
        "the node {node} saves {key}, and its output has nothing at {pointer}: {problem}";
    SAVES_NOTHING = "graph.saves-nothing",
        "the node {node} saves nothing, since it is an input, a choice or a question"
            => "save it in a node of `value` that reads this one";
    SHARED_OUTPUT = "graph.shared-output",
        "the node {node} gives a {type_name}, which can be changed after it was recorded"
            => "give the value in it, and make the {type_name} in the step that needs one";
    STATE_READ = "graph.state-read",
        "{place} {node} reads the state: {problem}";
    STORED_KEY = "graph.stored-key",
        "{key} cannot be read here, since it is in the store"
            => "read it before, in a node or a part that makes a value, and name that one here";
    TAP_CHANGES_STATE = "graph.tap-changes-state",
        "{node} is a tap, and it changes the state itself"
            => "remove `tap`, or the fields that save";
    TAP_IS_NO_STEP = "graph.tap-is-no-step",
        "{node} is a tap, and it is not a step: a value, a choice or a question never saves"
            => "remove `tap`";
    TAP_SAVES = "graph.tap-saves",
        "{node} is a tap, and a step in it saves {key} to the state"
            => "remove `tap`, or the fields that save, such as the `output_key` of an agent";
    TEMPORARY_KEY = "graph.temporary-key",
        "{key} is gone after a crash, and whether the edge is taken must not change"
            => "read it in a node of `value`, and that node here";
    TIMEOUT_ANSWER = "graph.timeout-answer",
        "the `on_timeout` of {node}: {problem}";
    TWO_DECIDERS = "graph.two-deciders",
        "two nodes decide on {node}, {first} and {second}"
            => "keep one";
    TWO_DEFAULT_ARMS = "graph.two-default-arms",
        "the router {router} has several arms without a condition, and only one can be taken when no other is"
            => "give all but one a `when`";
    UNFETCHED_DECIDER = "graph.unfetched-decider",
        "the tools of {toolset} could not be fetched";
    UNKNOWN_ARGUMENT = "graph.unknown-argument",
        "the {kind} {callee} has no argument {argument}";
    UNKNOWN_ARM = "graph.unknown-arm",
        "the router {router} has no arm {arm}, which leads to {node}";
    UNKNOWN_ARM_NAME = "graph.unknown-arm-name",
        "the router {router} has no arm {arm}";
    UNKNOWN_ARM_NUMBER = "graph.unknown-arm-number",
        "the router {router} has no arm {arm}";
    UNKNOWN_ARM_NUMBER_OF_EDGE = "graph.unknown-arm-number-of-edge",
        "the router {router} has no arm {arm}, which leads to {node}";
    UNKNOWN_NODE = "graph.unknown-node",
        "the node {node} reads or follows {name}, and there is no such node";
    UNKNOWN_OUTPUT = "graph.unknown-output",
        "the output is that of {output}, and there is no such node";
    UNKNOWN_PLACEHOLDER = "graph.unknown-placeholder",
        "the node {node} has the placeholder {placeholder}, and no node, no input and no key that is saved is named so"
            => "write `{state.{word}}` for a key of the state that a tool or an earlier run sets, or `{{word}?}` where it may be missing";
    UNTIL_READS_NODE = "graph.until-reads-node",
        "`until` of the node {node} reads {read}, and it sees the last output alone: `item` in a line of CEL, `{\"item\": \"\"}` elsewhere";
    VALUE_MISFIT = "graph.value-misfit",
        "{value} does not fit: {problem}";
    WAITS_FOR_ITSELF = "graph.waits-for-itself",
        "the node {node} waits for itself";
    WITHIN = "graph.within",
        "within {node}: {problem}";
}
