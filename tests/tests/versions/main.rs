//! Two versions of one workflow: what makes them different definitions, and what resuming a run of the first one with
//! the second does. They have one name, so they are in a program of their own.

mod definitions;
mod parts;
mod resumed;
mod second;
