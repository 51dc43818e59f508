//! Tests of workflows as data: graphs whose nodes refer to tools, agents and workflows by name.

#![allow(clippy::print_stderr, reason = "a test of chance says its seed")]

mod answers;
mod approvals;
mod arguments;
mod arms;
mod assignable;
mod by_name;
mod call_matrix;
#[allow(unreachable_pub, reason = "another program has them, too")]
mod called_tools;
mod cel;
mod cel_oracle;
mod changed_callees;
mod compensation;
mod configured;
mod diagnostics;
mod document_agents;
mod document_edges;
mod document_export;
mod document_export_tree;
mod document_files;
mod document_mistakes;
mod document_pools;
mod document_runs;
mod document_tree;
mod documents;
mod dry_run;
mod elsewhere;
mod every_caller;
mod every_crash;
mod graph_diagram;
mod known;
mod linked_agents;
mod mistake_places;
mod mistakes;
mod names_in_sentences;
mod parts;
mod pipelines;
mod places;
mod problems;
mod question_texts;
mod recursive;
mod reference;
mod reference_decider;
mod reloaded;
mod run_graph;
mod state;
#[path = "../generated/kit/store.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is written for another test program")]
mod store;
mod told_calls;
mod toolsets;
mod transforms;
mod versions_elsewhere;
