//! Workflows: every form of the macro and the builder, the calls that steps make, mocks, properties.

mod approvals;
mod approvals_attacked;
mod as_a_function;
mod at_its_place;
mod attacked;
mod borrowed_views;
mod branch_calls;
mod callers;
mod calls;
mod computed_once;
mod failures;
mod hidden_writes;
mod mocks;
mod mocks_at_scale;
mod natural;
mod nested_calls;
mod nested_order;
mod remedies;
mod retried_calls;
mod sync_calls;
mod typed_edges;
mod unusual;
mod workflow;
mod workflow_macro;
mod workflow_properties;
