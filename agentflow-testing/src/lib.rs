//! Deterministic tests for agents.
