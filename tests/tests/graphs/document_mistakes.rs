//! Tests that a document reports all its mistakes at once, each with its position. A runtime adds
//! the mistakes in names.

use agentflow::prelude::*;

use crate::documents::{places, problems};

/// Documents with mistakes, and all problems of each.
const BROKEN: &[(&str, &[&str])] = &[
    (
        "workflow_id: w\nnodes: []\n",
        &[
            "1:1: a document with `workflow_id` needs `nodes` and `edges`, or `steps`, which run one after another",
        ],
    ),
    (
        "workflow_id: w\nsteps: []\nnodes: []\nedges: []\n",
        &[
            "1:1: the document has two forms: edges, by `workflow_id`, `nodes` and `edges`, and steps, by `workflow_id` and `steps`; remove what belongs to one of them",
        ],
    ),
    (
        "workflow_id: w\nid: x\nnodes: []\nedges: []\n",
        &[
            "1:1: the document has two forms: tools, by `id` and `nodes` with a `tool` each, and edges, by `workflow_id`, `nodes` and `edges`; remove what belongs to one of them",
        ],
    ),
    (
        "workflow_id: 5\nversion: two\nconcurency_limit: 3\nnodes:\n  - {node_id: a, kind: joi}\nedges: []\n",
        &[
            "1:14: `workflow_id` is a text, and this is the number 5; put it in quotes",
            "2:10: invalid type: string \"two\", expected a whole number, 0 or more",
            "3:1: a document of nodes and edges has no `concurency_limit`; did you mean `concurrency_limit`?",
            "5:24: `kind` of a node cannot be `joi`; did you mean `join`?",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - {node_id: a, kind: router, task: x, input_mapping: {a: b}, dependencies: [7], timeout_ms: 30000}\n  - {node_id: a, kind: terminal, condition_expr: x}\nedges: {}\n",
        &[
            "3:38: only a node of the kind `a2a` has `task`, and this is a `router`",
            "3:41: a `router` calls nothing, so it has no `input_mapping`; remove it",
            "3:64: a `router` calls nothing, so it has no `dependencies`; remove it",
            "3:79: a dependency is an object, and this is the number 7",
            "4:15: two nodes are named `a`; rename one",
            "4:50: only a node of the kind `router` has `condition_expr`, and this is a `terminal`",
            "5:8: `edges` is a list, and this is an object",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - {node_id: a, kind: router, condition_expr: 'x >'}\n  - {node_id: b, kind: terminal}\nedges:\n  - {from_node_id: a, to_node_id: c}\n  - {from_node_id: b, to_node_id: a}\n  - {from_node_id: a, to_node_id: a}\n  - {from: a, to_node_id: b}\n",
        &[
            "3:52: `condition_expr`: the expression ends at byte 3, and a value should follow",
            "6:35: the edge leads to `c`, and there is no such node; did you mean `a`?",
            "7:5: `b` ends the workflow, so no edge leads from it",
            "8:5: the edge leads from `a` to itself",
            "9:6: an edge has no `from`; did you mean `from_node_id`?",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - {node_id: a, kind: router}\n  - {node_id: b, kind: join, join_group: g}\n  - {node_id: c, kind: join, join_group: h}\nedges:\n  - {edge_id: e, from_node_id: a, to_node_id: b, join_group: h}\n  - {edge_id: e, from_node_id: a, to_node_id: b, edge_type: conditional}\n",
        &[
            "5:5: no edge leads to the join `c`",
            "7:62: the edge is of the group `h`, and the join `b` joins `g`",
            "8:5: a second edge leads from `a` to `b` in the same way; remove one",
            "8:5: the edge from `a` to `b` has no condition; give it a `condition_key`, or the router a `condition_expr`",
            "8:15: two edges have the id `e`; rename one",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - {node_id: a, kind: join, join_group: g}\n  - {node_id: b, kind: join, join_group: h}\nedges:\n  - {from_node_id: a, to_node_id: b, join_group: h}\n  - {from_node_id: b, to_node_id: a, join_group: g}\n",
        &["6:5: these nodes wait for each other: `a`, `b`; a workflow cannot have a cycle"],
    ),
    (
        "workflow_id: w\nnodes:\n  - {node_id: a, kind: mcp}\n  - {node_id: b, kind: a2a}\n  - {node_id: input, kind: terminal}\nedges: []\n",
        &[
            "3:5: `a` is bound to no server; give it one in `dependencies`, with a `fixed_ref` that has a `server_id`",
            "4:5: `b` is bound to exactly one agent, by a dependency of the type `a2a_agent`",
            "4:5: `b` needs `task`, the request to the agent",
            "5:15: `input` is the name of the workflow's input; give the node another one",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - node_id: a\n    kind: mcp\n    dependencies:\n      - {dependency_id: d, dependency_type: mcp_tol, fixed_ref: {server_id: s}}\n      - {dependency_id: d, dependency_type: mcp_tool}\n      - {dependency_type: mcp_tool, fixed_ref: {tool_name: t}}\nedges: []\n",
        &[
            "6:45: `dependency_type` of a dependency cannot be `mcp_tol`; did you mean `mcp_tool`?",
            "7:9: a dependency with `resolution_mode: fixed` needs `fixed_ref`",
            "8:10: a dependency needs `dependency_id`",
            "8:48: the `fixed_ref` of a tool needs `server_id`, the name that the program gave the server",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - node_id: a\n    kind: mcp\n    capability: do it\n    dependencies:\n      - {dependency_id: d, dependency_type: mcp_tool, resolution_mode: pool, pool_refs: [{server_id: a}, {server_id: b}, {server_id: c}, {server_id: d}, {server_id: e}, {server_id: f}]}\nedges: []\n",
        &["7:78: pool_refs must contain at most 5 candidates"],
    ),
    (
        "workflow_id: w\npermissions: {acl_scope: [x], allowed_roles: [admin]}\nnodes:\n  - node_id: a\n    kind: mcp\n    permissions: {require_approval: maybe, allowed_users: [ada]}\n    dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]\nedges: []\n",
        &[
            "6:37: `require_approval` is `true` or `false`, and this is the text \"maybe\"",
            "7:89: the server `s` is not among the servers that may be bound, by `acl_server_ids` or `acl_scope`",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - {node_id: a, kind: terminal, on_error: route_to_node}\n  - {node_id: b, kind: terminal, on_error: skip, on_error_node_id: a}\n  - {node_id: c, kind: join, on_error: route_to_node, on_error_node_id: c}\nedges: []\n",
        &[
            "3:44: `a` needs `on_error_node_id`, or an edge with `condition_key: error`, for `route_to_node`",
            "4:44: `on_error` of a node cannot be `skip`; it is one of `fail_workflow`, `skip_node`, `route_to_node`",
            "4:68: `on_error_node_id` belongs to `on_error: route_to_node`; say so, or remove it",
            "5:5: no edge leads to the join `c`",
            "5:73: `c` cannot follow its own failure; name another node",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - {node_id: a, nodeId: b, kind: terminal, retryPolicy: {max_atempts: 3}}\nedges: []\n",
        &[
            "3:18: `node_id` and `nodeId` are one field; keep one",
            "3:59: a retry policy has no `max_atempts`; did you mean `max_attempts`?",
        ],
    ),
    (
        "workflow_id: w\nnodes:\n  - node_id: a\n    kind: a2a\n    task: it\n    retry_policy: {retry_on: [timeouts], backoff_ms: -1}\n    dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]\nedges: []\n",
        &[
            "3:5: `a` is bound to exactly one agent, by a dependency of the type `a2a_agent`",
            "6:31: unknown variant `timeouts`; did you mean `timeout`?",
            "6:54: invalid value: integer `-1`, expected a whole number, 0 or more",
        ],
    ),
    (
        "workflow_id: w\nmodel: gpt\nsteps:\n  - {node_id: a, kind: router}\n  - {node_id: b, kind: mcp, task: x}\n  - {node_id: c, kind: mcp, capability: review the code}\n  - {node_id: c, kind: a2a, task: t, server_id: s}\n  - {kind: a2a}\n",
        &[
            "2:8: the model `gpt` cannot be used: name its provider too, as in `openai-chat/gpt-5-mini`",
            "4:24: `kind` of a step cannot be `router`; it is one of `mcp`, `a2a`",
            "5:5: a step of the kind `mcp` needs `capability`",
            "5:35: a step of the kind `mcp` has no `task`; it says `capability`",
            "6:41: `capability` is a text and not the name of a server; add `server_id`",
            "7:15: two steps are named `c`; rename one",
            "7:49: a step of the kind `a2a` has no `server_id`; it says `task`",
            "8:5: a step of the kind `a2a` needs `task`",
            "8:6: a step needs `node_id`",
        ],
    ),
    ("workflow_id: w\nsteps: []\n", &["1:1: a document of steps has at least one step"]),
    (
        "steps: []\n",
        &["1:1: a document with `steps` needs `workflow_id`, the name of the workflow"],
    ),
    (
        "name: t\ntopology: []\n",
        &[
            "2:11: a part is an object, and this is a list; name the order of its parts, as in `sequence: [..]`",
        ],
    ),
    (
        "name: t\ntopology: {sequnce: []}\n",
        &["2:12: a part has no `sequnce`; did you mean `sequence`?"],
    ),
    ("name: t\ntopology: {sequence: []}\n", &["2:22: `sequence` has at least one part"]),
    (
        "name: t\nroot: {tool: a, agent: b}\n",
        &["2:17: a part is either `tool` or `agent`; put one in the other"],
    ),
    (
        "name: t\nroot: {loop: {tool: a}}\ntopology: {tool: a}\n",
        &[
            "2:7: `topology` and `root` are one field; keep one",
            "2:8: a `loop` needs `max`, the most rounds, or `until`, a condition",
        ],
    ),
    (
        "name: t\ntopology:\n  sequence:\n    - {tool: 5}\n    - {loop: {tool: a}, max: many}\n    - {loop: {tool: a}}\n    - {timeout: {tool: a}}\n    - {timeout: {tool: a}, seconds: -1}\n    - {gate: [x]}\n    - {route: [{when: 'x >', then: {tool: a}}, {wen: x}]}\n    - tool\n    - {tool: a, as: a b, safe: k}\n",
        &[
            "4:14: `tool` is a text, and this is the number 5",
            "5:30: invalid type: string \"many\", expected a whole number, 0 or more",
            "6:8: a `loop` needs `max`, the most rounds, or `until`, a condition",
            "7:8: a `timeout` needs `seconds`, how long the part may take",
            "8:37: `seconds` is a number above 0, and this is -1",
            "9:14: `gate` is a text, and this is a list",
            "10:27: the expression ends at byte 3, and a value should follow",
            "10:49: an arm has no `wen`; did you mean `when`?",
            "10:49: an arm needs `then`",
            "11:7: a part is an object such as `tool: count_words` or `sequence: [..]`, and this is the text \"tool\"",
            "12:21: a part cannot be named `a b`: its name is used in templates and conditions; use letters, digits and `_`",
            "12:26: a part has no `safe`; did you mean `save`?",
        ],
    ),
    (
        "name: t\ntopology:\n  parallel:\n    - {tool: a, with: {x: '{input'}}\n    - {tool: a, polcy: {}}\n",
        &[
            "4:14: two parts that run at the same time are named `a`, and their outputs are fields of one object; name one with `named`",
            "4:28: the `{` at byte 0 has no `}` on its line; write `{{` for a brace",
            "5:17: a part has no `polcy`; did you mean `policy`?",
        ],
    ),
    (
        "name: t\ntopology:\n  parallel:\n    - {tool: a}\n    - {tool: a}\n    - {tool: b, as: a-b}\n",
        &[
            "4:14: two parts that run at the same time are named `a`, and their outputs are fields of one object; name one with `named`",
            "6:21: a part cannot be named `a-b`: its name is used in templates and conditions; use letters, digits and `_`",
        ],
    ),
    (
        "name: t\ntopology:\n  sequence: [{transform: [{dorp: [k]}]}, {value: '{x}'}]\n",
        &["3:28: unknown variant `dorp`; did you mean `drop`?"],
    ),
];

#[test]
fn every_mistake_of_a_document_is_named_where_it_stands() {
    for (text, says) in BROKEN {
        assert_eq!(problems(text), *says, "{text}");
    }
}

#[tokio::test]
async fn names_that_are_not_there_are_reported_beside_other_mistakes() {
    let runtime = Runtime::builder().build();
    for (text, expected) in [
        (
            "id: a\nnodes:\n  - {id: x, tool: doc_serach, arg_template: {}}\n  - {id: y, tool: doc_count, tool: z}\n",
            vec![
                "3:19: the node `x`: this program has no tool `doc_serach`; did you mean `doc_search`?",
                "3:31: a node has no `arg_template`; did you mean `args_template`?",
                "4:30: the field `tool` is here a second time; remove one",
            ],
        ),
        (
            "name: a\ntopology:\n  sequence:\n    - {loop: {tool: doc_serach}, max: 0}\n    - {tap: {agent: nobody}, as: 'a b'}\n",
            vec![
                "4:21: the node `doc_serach`: this program has no tool `doc_serach`; did you mean `doc_search`?",
                "4:39: a `loop` has at least 1 round; give `max` at least 1",
                "5:21: the node `nobody`: this program has no agent `nobody`; write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`",
                "5:34: a part cannot be named `a b`: its name is used in templates and conditions; use letters, digits and `_`",
            ],
        ),
        (
            "name: a\nagents:\n  - {name: x, model: openai/m, tools: [doc_serach, ask_user], typ: llm}\norchestration: {type: loop, agents: [x]}\n",
            vec![
                "3:40: the agent `x`: this program has no tool `doc_serach`; did you mean `doc_search`?",
                "3:63: an agent has no `typ`; did you mean `type`?",
                "4:23: a `loop` needs `max_iterations`, or an agent with the tool `exit_loop`, which ends it",
            ],
        ),
        (
            "workflow_id: a\nsteps:\n  - {node_id: x, kind: mcp, capability: s, tool_name: t, kid: 1}\n",
            vec![
                "3:41: the node `x`: this program has no tool `mcp.s.t`, since it has no MCP server `s`; give its runtime an `McpClient` of this name, or its configuration an entry in `mcp_servers`",
                "3:58: a step has no `kid`; did you mean `kind`?",
            ],
        ),
        (
            "name: a\noutput: x\nnodes:\n  - {name: x, does: {race: [{kind: tool, name: doc_serach, with: {value: {}}}]}, polcy: {}}\n",
            vec![
                "4:48: the node `x`: this program has no tool `doc_serach`; did you mean `doc_search`?",
                "4:82: unknown field `polcy`; did you mean `policy`?",
            ],
        ),
    ] {
        let error = runtime.documents().read("it.yaml", text).await.unwrap_err();
        assert_eq!(places(&error), expected, "{error}");
    }
}

/// Documents that combine an unknown name, a wrong type, a cycle, an unknown key and a bad
/// template.
const TOGETHER: &[(&str, &[&str])] = &[
    (
        "id: a\ndescriptoin: d\nnodes:\n  - {id: x, tool: doc_serach, depends_on: [y]}\n  - {id: y, tool: doc_count, args_template: {texts: '{x'}, depends_on: [x]}\n  - {id: z, tool: doc_search, args_template: {query: 5}, retry_limt: 1}\n  - {id: v, tool: doc_search, args_template: {query: 5, lost: 1}}\n  - {id: w, tool: doc_count, retry_limit: many, args_template: {texts: '{v}'}}\n",
        &[
            "2:1: a document of tools has no `descriptoin`; did you mean `description`?",
            "4:19: the node `x`: this program has no tool `doc_serach`; did you mean `doc_search`?",
            "4:44: these nodes wait for each other: `x`, `y`; a workflow cannot have a cycle, and a node with `repeat` repeats steps",
            "5:54: the `{` at byte 0 has no `}` on its line; write `{{` for a brace",
            "6:58: a node has no `retry_limt`; did you mean `retry_limit`?",
            "7:47: the node `v`: an argument of the tool `doc_search`, `query`: value is not of type \"string\"; seen: 5",
            "7:57: the node `v`: the tool `doc_search` has no argument `lost`; did you mean `most`?",
            "8:43: invalid type: string \"many\", expected a whole number, 0 or more",
        ],
    ),
    (
        "id: a\nnodes:\n  - {id: x, tool: 7, depends_on: [x]}\n  - {id: y, tool: doc_count, args_template: {texts: '{z}'}}\n  - {id: z, tool: doc_serach, args_template: {query: '{y}'}}\n  - {id: z, tool: doc_search, args_template: {query: '{x}'}}\n",
        &[
            "3:19: `tool` is a text, and this is the number 7; put it in quotes",
            "4:55: these nodes wait for each other: `y`, `z`; a workflow cannot have a cycle, and a node with `repeat` repeats steps",
            "5:10: two nodes are named `z`; rename one",
            "5:19: the node `z`: this program has no tool `doc_serach`; did you mean `doc_search`?",
        ],
    ),
    (
        "name: a\ndecider: nobody\ntopology:\n  sequence:\n    - {loop: {tool: doc_serach}, max: 0}\n    - {tool: doc_search, with: {query: '{input', most: 1}, as: q}\n    - {tool: doc_search, with: {qeury: x, most: many}}\n    - {tool: doc_count, polcy: {}}\n",
        &[
            "2:10: the `decider` `nobody`: this program has no agent `nobody`; write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`",
            "5:21: the node `doc_serach`: this program has no tool `doc_serach`; did you mean `doc_search`?",
            "5:39: a `loop` has at least 1 round; give `max` at least 1",
            "6:41: the `{` at byte 0 has no `}` on its line; write `{{` for a brace",
            "7:14: the node `doc_search`: the tool `doc_search` needs `query`, which is not given",
            "7:33: the node `doc_search`: the tool `doc_search` has no argument `qeury`; did you mean `query`?",
            "7:43: the node `doc_search`: an argument of the tool `doc_search`, `most`: value is not of types \"null\", \"integer\"; seen: \"many\"",
            "8:25: a part has no `polcy`; did you mean `policy`?",
        ],
    ),
    (
        "name: a\ndecider: nobody\ntopology:\n  sequence:\n    - {tool: doc_serach, polcy: {}}\n    - {tool: doc_search, with: {query: '{input', most: 1}, as: q}\n    - {tool: doc_search, with: {qeury: x, most: many}}\n    - {tool: doc_count, with: {texts: [x]}, policy: {timeout_ms: soon}}\n",
        &[
            "2:10: the `decider` `nobody`: this program has no agent `nobody`; write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`",
            "5:14: the node `doc_serach`: this program has no tool `doc_serach`; did you mean `doc_search`?",
            "5:26: a part has no `polcy`; did you mean `policy`?",
            "6:41: the `{` at byte 0 has no `}` on its line; write `{{` for a brace",
            "7:14: the node `doc_search`: the tool `doc_search` needs `query`, which is not given",
            "7:33: the node `doc_search`: the tool `doc_search` has no argument `qeury`; did you mean `query`?",
            "7:43: the node `doc_search`: an argument of the tool `doc_search`, `most`: value is not of types \"null\", \"integer\"; seen: \"many\"",
            "8:66: invalid type: string \"soon\", expected a whole number, 0 or more",
        ],
    ),
    (
        "name: a\noutput: z\nconcurency: 2\nnodes:\n  - {name: x, does: {value: {from: y}}}\n  - {name: y, does: {value: {from: x}}}\n  - {name: z, does: {call: {kind: tool, name: doc_search, with: {object: {qeury: {value: 1}}}}}}\n  - {name: v, does: {call: {kind: agent, name: nobody, with: {from: u}}}}\n",
        &[
            "3:1: a graph has no `concurency`; did you mean `concurrency`?",
            "5:36: these nodes wait for each other: `x`, `y`; a workflow cannot have a cycle, and a node with `repeat` repeats steps",
            "7:47: the node `z`: the tool `doc_search` needs `query`, which is not given",
            "7:75: the node `z`: the tool `doc_search` has no argument `qeury`; did you mean `query`?",
            "8:48: the node `v`: this program has no agent `nobody`; write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`",
            "8:69: the node `v` reads or follows `u`, and there is no such node; did you mean `v`?",
        ],
    ),
    (
        "name: a\noutput: z\nnodes:\n  - {name: x, does: {value: {from: y}}}\n  - {name: y, does: {value: {from: x}}}\n  - {name: z, dose: {call: {kind: tool, name: doc_serach, with: {value: {}}}}}\n  - {name: v, does: {call: {kind: agent, name: nobody, with: {from: u}}}}\n",
        &[
            "4:36: these nodes wait for each other: `x`, `y`; a workflow cannot have a cycle, and a node with `repeat` repeats steps",
            "6:15: unknown field `dose`; did you mean `does`?",
            "7:48: the node `v`: this program has no agent `nobody`; write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`",
            "7:69: the node `v` reads or follows `u`, and there is no such node; did you mean `v`?",
        ],
    ),
    (
        "name: a\nagents:\n  - {name: x, model: opnai/m, instruction: 'See {y', tools: [doc_serach]}\n  - {name: y, model: opnai-chat/m, instruction: 'See {xx}', output_kye: k}\n  - {name: z, model: opnai-chat/m, tools: [doc_serach]}\norchestration: {type: sequential, agents: [x, y, z]}\na2a: {skils: []}\n",
        &[
            "3:22: the agent `x`: no adapter is called `opnai`; did you mean `openai`?",
            "3:49: the `{` at byte 4 has no `}` on its line; write `{{` for a brace",
            "3:62: the agent `x`: this program has no tool `doc_serach`; did you mean `doc_search`?",
            "4:22: the agent `y`: no adapter is called `opnai-chat`; did you mean `openai-chat`?",
            "4:54: the agent `y` is shown `xx`, and no agent before it gives it; did you mean `x`?",
            "4:61: an agent has no `output_kye`; did you mean `output_key`?",
            "5:22: the agent `z`: no adapter is called `opnai-chat`; did you mean `openai-chat`?",
            "5:44: the agent `z`: this program has no tool `doc_serach`; did you mean `doc_search`?",
            "7:7: `a2a` has no `skils`; did you mean `skills`?",
        ],
    ),
    (
        "workflow_id: a\nnodes:\n  - {node_id: x, kind: join, join_group: g}\n  - {node_id: y, kind: mcp, timeout: 5, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]}\n  - {node_id: r, kind: router, condition_expr: 'x >'}\nedges:\n  - {from_node_id: x, to_node_id: y}\n  - {from_node_id: y, to_node_id: x, join_group: g}\n  - {from_node_id: y, to_node_id: 5}\n",
        &[
            "4:29: a node has no `timeout`; did you mean `timeout_ms`?",
            "4:125: the node `y`: this program has no tool `mcp.s.t`, since it has no MCP server `s`; give its runtime an `McpClient` of this name, or its configuration an entry in `mcp_servers`",
            "5:52: `condition_expr`: the expression ends at byte 3, and a value should follow",
            "7:5: these nodes wait for each other: `x`, `y`; a workflow cannot have a cycle",
            "9:35: `to_node_id` is a text, and this is the number 5; put it in quotes",
        ],
    ),
    (
        "workflow_id: a\ndecider: {kind: agent, name: nobody}\nsteps:\n  - {node_id: x, kind: mcp, capability: review the code, tool_name: t}\n  - {node_id: y, kind: mcp, capability: s, tool_name: t}\n  - {node_id: y, kind: a2a, task: 5}\n",
        &[
            "2:30: the `decider` `nobody`: this program has no agent `nobody`; write an `#[agent]` function of this name, or give the runtime one with `Runtime::builder().agent(..)`",
            "4:41: `capability` is a text and not the name of a server; add `server_id`",
            "5:41: the node `y`: this program has no tool `mcp.s.t`, since it has no MCP server `s`; give its runtime an `McpClient` of this name, or its configuration an entry in `mcp_servers`",
            "6:15: two steps are named `y`; rename one",
            "6:35: `task` is a text, and this is the number 5; put it in quotes",
        ],
    ),
    (
        "id: a\nnodes:\n  - {id: z, tool: doc_search, args_template: {query: x}}\n  - {id: z, retry_limit: 0}\n",
        &["3:10: two nodes are named `z`; rename one", "4:6: the node `z` needs `tool`"],
    ),
];

#[tokio::test]
async fn mistakes_of_all_kinds_are_reported_together() {
    let runtime = Runtime::builder().build();
    let mut others = Vec::new();
    for (text, expected) in TOGETHER {
        let error = runtime.documents().read("it.yaml", *text).await.unwrap_err();
        if places(&error) != *expected {
            others.push(format!("{text}{:#?}", places(&error)));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

/// Checks the position of a placeholder: its line in a multi-line instruction, and each occurrence
/// in a text.
#[test]
fn a_placeholder_is_marked_where_it_stands() {
    let text = "name: a\nagents:\n  - name: x\n    model: openai/m\n    instruction: |\n      Greet {{them}}.\n\n      Say {mesage}.\n\n      End {message.\n  - {name: y, model: openai/m, instruction: \"See {zz} twice: {zz}\"}\norchestration: {type: sequential, agents: [x, y]}\n";
    let of_y = "the agent `y` is shown `zz`, and no agent before it gives it; a placeholder is the `output_key` or the name of an agent before it, or `message`";
    assert_eq!(
        problems(text),
        [
            "8:11: the agent `x` is shown `mesage`, and no agent before it gives it; did you mean `message`?",
            "10:11: the `{` at byte 4 has no `}` on its line; write `{{` for a brace",
            &*format!("11:50: {of_y}"),
            &*format!("11:62: {of_y}"),
        ]
    );
    // Escapes hide the position of the brace, so the problem is reported at the whole text.
    let escaped = text.replace("twice: {zz}", "twice: \\x7bzz}");
    assert_eq!(problems(&escaped)[2], format!("11:45: {of_y}"));
    // The same in forms whose values are templates.
    let tools = "id: t\nnodes:\n  - id: a\n    tool: b\n    args_template:\n      text: >\n        One {two} and\n        a } more.\n";
    assert_eq!(
        problems(tools),
        ["8:11: the `}` at byte 16 has no `{` before it; write `}}` for a brace"]
    );
}

/// Checks the positions of parts with equal names, also within inner workflows.
#[tokio::test]
async fn a_part_is_marked_where_it_stands() {
    let text = "name: t\nroot:\n  sequence:\n    - {timeout: {tool: doc_twice, with: {text: a}}, seconds: 1}\n    - {loop: {sequence: [{tool: doc_twice, with: {txt: b}}, {value: x}]}, max: 2}\n    - {tool: doc_twice, with: {text: c, more: d}}\n";
    let error = Runtime::builder().build().documents().read("it.yaml", text).await.unwrap_err();
    assert_eq!(
        places(&error),
        [
            "5:33: the node `doc_twice`: the tool `doc_twice` needs `text`, which is not given",
            "5:51: the node `doc_twice`: the tool `doc_twice` has no argument `txt`; did you mean `text`?",
            "6:41: the node `doc_twice_2`: the tool `doc_twice` has no argument `more`",
        ]
    );
}

#[tokio::test]
async fn a_document_that_calls_itself_is_reported() {
    let says = "the node `x`: the workflow `a` cannot be built: it calls itself: `a` calls `a`";
    for more in ["", ", does: 5"] {
        let text = format!(
            "name: a\noutput: x\nnodes:\n  - {{name: x, does: {{call: {{kind: workflow, name: a, with: {{value: {{}}}}}}}}}}\n  - {{name: y{more}}}\n"
        );
        let error = Runtime::builder().build().documents().read("it.yaml", text).await.unwrap_err();
        assert!(places(&error).contains(&format!("4:51: {says}")), "{error}");
    }
    let tree = "name: a\nroot: {loop: {sequence: [{value: 1}, {workflow: a}]}, max: 2}\n";
    let error = Runtime::builder().build().documents().read("it.yaml", tree).await.unwrap_err();
    let says =
        "2:49: the node `a`: the workflow `a` cannot be built: it calls itself: `a` calls `a`";
    assert_eq!(places(&error), [says]);
}

/// Checks that unknown names do not hide mistakes in the plan.
#[tokio::test]
async fn mistakes_of_the_plan_are_reported_beside_unknown_names() {
    let unknown = "this program has no tool `doc_serach`; did you mean `doc_search`?";
    for (text, expected) in [
        (
            "name: a\noutput: z\nnodes:\n  - {name: in, kind: input}\n  - {name: way, does: {route: {arms: [{arm: l, when: {is: {from: in}}}, {arm: r}]}}}\n  - {name: found, does: {call: {kind: tool, name: doc_serach, with: {object: {query: {from: in}}}}}, edges: [{from: way, arm: l}]}\n  - {name: z, does: {value: {from: found}}}\n",
            vec![
                "5:79: when `way` takes `r`, the workflow has no output: `z` reads `found`, which is skipped then; read it with `or`, or mark the node that gives the output then with `\"ends\": true`".to_owned(),
                format!("6:51: the node `found`: {unknown}"),
            ],
        ),
        (
            "name: a\noutput: z\nnodes:\n  - {name: one, does: {call: {kind: tool, name: doc_serach, with: {value: {}}}}, saves: {k: ''}}\n  - {name: two, does: {value: {value: 2}}, saves: {k: ''}}\n  - {name: z, does: {value: {list: [{from: one}, {from: two}]}}}\n",
            vec![
                "4:90: `one` and `two` may run at the same time, and each of them saves `k` in the state; let an edge lead from the first to the second, or give one of them its own key".to_owned(),
                format!("4:49: the node `one`: {unknown}"),
            ],
        ),
        (
            "name: a\nroot:\n  parallel:\n    - {tool: doc_serach, save: k, as: one}\n    - {value: 2, save: k, as: two}\n",
            vec![
                format!("4:14: the node `one`: {unknown}"),
                "4:32: `one` and `two` may run at the same time, and each of them saves `k` in the state; let an edge lead from the first to the second, or give one of them its own key".to_owned(),
            ],
        ),
        (
            "workflow_id: a\nnodes:\n  - {node_id: r, kind: router, condition_expr: 'true'}\n  - {node_id: x, kind: mcp, output_mapping: {k: output}, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]}\n  - {node_id: y, kind: mcp, output_mapping: {k: output}, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]}\nedges:\n  - {from_node_id: r, to_node_id: x}\n  - {from_node_id: r, to_node_id: y}\n",
            vec![
                "4:46: `x` and `y` may run at the same time, and each of them saves `k` in the state; let an edge lead from the first to the second, or give one of them its own key".to_owned(),
                "4:142: the node `x`: this program has no tool `mcp.s.t`, since it has no MCP server `s`; give its runtime an `McpClient` of this name, or its configuration an entry in `mcp_servers`".to_owned(),
                "5:142: the node `y`: this program has no tool `mcp.s.t`, since it has no MCP server `s`; give its runtime an `McpClient` of this name, or its configuration an entry in `mcp_servers`".to_owned(),
            ],
        ),
    ] {
        let error = Runtime::builder().build().documents().read("it.yaml", text).await.unwrap_err();
        let (mut found, mut expected) = (places(&error), expected);
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{text}");
    }
    // The same for a graph that the program provides.
    let graph: agentflow::workflow::Graph = serde_json::from_value(serde_json::json!({
        "version": 1, "name": "doc_plan", "output": "z", "concurrency": 1, "nodes": [
            {"name": "in", "kind": "input"},
            {"name": "way", "does": {"route": {"arms": [{"arm": "l", "when": {"is": {"from": "in"}}}, {"arm": "r"}]}}},
            {"name": "found", "does": {"call": {"kind": "tool", "name": "doc_serach", "with": {"value": {}}}},
             "edges": [{"from": "way", "arm": "l"}]},
            {"name": "z", "does": {"value": {"from": "found"}}},
        ],
    }))
    .unwrap();
    let error = Runtime::builder()
        .graph(graph)
        .build()
        .catalogue()
        .workflow_graph("doc_plan")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("when `way` takes `r`, the workflow has no output")
            && error.contains(unknown),
        "{error}"
    );
}

/// Checks the hints for missing and unquoted punctuation in YAML.
#[test]
fn mistakes_in_signs_say_which_sign_is_meant() {
    for (text, says) in [
        (
            "id: a\npattern: \"\\d+\"\n",
            "2:11: unknown escape `\\d` in double quotes; use single quotes or `\\\\d`",
        ),
        (
            "id: \"ok\\n \\q\"\n",
            "1:11: unknown escape `\\q` in double quotes; use single quotes or `\\\\q`",
        ),
        (
            "id: \"\\u12\"\n",
            "1:6: `\\u` needs 4 hexadecimal digits in double quotes; use single quotes or `\\\\u`",
        ),
        ("id: w\nnodes:\n  - id: a\n    tool t\n", "4:5: expected `:` after `tool t`"),
        ("id: w\ntool t", "2:1: expected `:` after `tool t`"),
        ("id: w\ntool t\nnodes: []\n", "2:1: expected `:` after `tool t`"),
        (
            "title: {topic} and more\n",
            "1:8: the text continues behind `}`; quote a text that begins with `{`",
        ),
        (
            "- value: {input.name} is late\n",
            "1:10: the text continues behind `}`; quote a text that begins with `{`",
        ),
        ("- [a] b\n- c\n", "1:3: the text continues behind `]`; quote a text that begins with `[`"),
        (
            "a: {text: {topic} more}\n",
            "1:11: the text continues behind `}`; quote a text that begins with `{`",
        ),
    ] {
        assert_eq!(problems(text), [says], "{text}");
    }
}

/// Checks that misspelt keywords of a schema are errors. A validator would ignore them.
#[test]
fn misspelt_keywords_of_schemas_are_found() {
    for (text, says) in [
        (
            "name: w\ntopology: {value: 1, output: {typ: integer}}\n",
            "2:31: a JSON Schema has no `typ`; did you mean `type`?",
        ),
        (
            "name: w\ntopology:\n  value: 1\n  input: {properties: {typ: {anyOf: [{minLenght: 2}]}}, x-typ: 1}\n",
            "4:39: a JSON Schema has no `minLenght`; did you mean `minLength`?",
        ),
        (
            "name: w\noutput: a\nnodes: [{name: a, schema: {item: {}}, does: {value: {value: 1}}}]\n",
            "3:28: a JSON Schema has no `item`; did you mean `items`?",
        ),
    ] {
        assert_eq!(problems(text), [says], "{text}");
    }
}
