//! Agents, tools and their macros, with scripted models in one process.

mod agent_loop;
mod agent_macro;
mod agent_properties;
mod answers;
mod budgets;
mod cancel;
mod events;
mod middleware;
mod nesting;
mod of_request;
mod output;
mod prelude;
mod queued_sinks;
mod registry;
mod scripted;
mod scripted_state;
mod task_requests;
mod thread_safe;
mod tool_limits;
mod tool_macro;
mod tool_schema;
mod tool_traffic;
mod views;
