//! The kit of the generated programs: the functions that they call, the world in which these have
//! effects, and the player that runs a program in every way and compares the runs. It is compiled
//! twice: as a crate that the generated programs link, and as a module of this test program for its
//! own tests.

pub mod actions;
pub mod functions;
pub mod judge;
pub mod play;
pub mod report;
pub mod store;
pub mod tokens;
pub mod world;

pub use std::sync::atomic::Ordering;

pub use agentflow::prelude::*;
pub use agentflow::{fallback, gate, map, race, repeat, serde_json, timeout};
pub use futures_util::future::BoxFuture;

pub use self::functions::*;
pub use self::judge::Class;
pub use self::play::{Effort, Outcome, Program, Seen, outcome};
pub use self::world::{Called, Noted, caught, item, mark};
