//! Broken input and what becomes of it.
